"""FedSim's Table 6: other networks than logistic regression, with the training of Table 4.

The networks for images follow the authors' code, which differs from the paper's Table 5; rows with
Table 5's networks are variants. The perceptron and the recurrent network are the same in both. The
code reads the words of Fed-Goodreads as GloVe's vectors, here with 300 numbers. A second row trains
vectors of that width, and needs no file. Fed-MEx has a row with its published files, which are
downloaded, and one with their test part alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedkin.core.training import Adam
from papers.fedsim import recipes
from papers.fedsim.numbers import BASELINES, curves_of
from papers.fedsim.paired_comparison import improvement
from papers.fedsim.recipes import THREE, Published
from papers.recipe import Cell, Options, Setting
from papers.reproduction_marks import ComparedNumber, Results, compare_number
from papers.word_vectors import WIDTH, with_glove

TABLE = "6"
AS_CODED: Options = (("variant", "fedsim_as_coded"),)
LAYERS: Options = (("hidden", (1280, 640, 120)),)
TEXT: Options = (("text", True),)
ADAM = Adam(epochs=10, batch_size=10, lr=1e-4)

FEMNIST_CNN = replace(
    recipes.FEMNIST,
    row="FEMNIST-CNN, shared images",
    model="cnn",
    model_options=AS_CODED,
    seeds=(0,),
    seconds=40_000,
)
MNIST_CNN = replace(
    recipes.MNIST,
    row="MNIST-CNN",
    model="cnn",
    model_options=AS_CODED,
    seeds=(0, 1, 2, 3),
    seconds=2000,
)
MEX_MLP = replace(
    recipes.MEX,
    row="Fed-MEx-MLP, its test part",
    model="mlp",
    model_options=LAYERS,
    seeds=(0, 1, 2),
    seconds=450,
)
MEX_MLP_PUBLISHED = replace(
    recipes.MEX_PUBLISHED,
    row="Fed-MEx-MLP",
    model="mlp",
    model_options=LAYERS,
    seeds=(0, 1, 2),
    seconds=1800,
)
GOODREADS_RNN = replace(
    recipes.GOODREADS,
    row="Fed-Goodreads-RNN",
    data_options=TEXT,
    model="rnn",
    lr=ADAM.lr,
    epochs=10,
    work=ADAM,
    seeds=(0, 1, 2),
    seconds=220,
    needs="GloVe's vectors",
)
TABLE_5: Options = (("variant", "fedsim"),)
WINDOWS = (
    "the network of Table 5 (3 x 3 windows, 64 channels twice); the authors' code, and so the "
    "published curves, has 5 x 5 windows, 32 and 64 channels"
)
MNIST_TABLE_5 = replace(
    MNIST_CNN,
    row="MNIST-CNN, Table 5's network",
    model_options=TABLE_5,
    seeds=(0, 1, 2),
    seconds=1700,
    deviation=WINDOWS,
)
FEMNIST_TABLE_5 = replace(
    FEMNIST_CNN,
    row="FEMNIST-CNN, shared images, Table 5's network",
    model_options=TABLE_5,
    seconds=33_000,
    deviation=WINDOWS,
)
GOODREADS_TRAINED = replace(
    GOODREADS_RNN,
    row="Fed-Goodreads-RNN, trained vectors",
    model_options=(("embedding", WIDTH),),
    needs="",
    deviation="word vectors are trained, where the paper's are GloVe's",
)

TABLE_6: dict[Setting, Published] = {
    FEMNIST_CNN: ((1.42, 1.52), (5.05, 2.75)),
    MNIST_CNN: ((11.69, 7.58), (17.25, 8.26)),
    MEX_MLP: ((0.89, 1.29), (1.79, 1.28)),
    MEX_MLP_PUBLISHED: ((0.89, 1.29), (1.79, 1.28)),
    GOODREADS_RNN: ((-0.32, 0.42), (8.88, 2.87)),
    GOODREADS_TRAINED: ((-0.32, 0.42), (8.88, 2.87)),
    MNIST_TABLE_5: ((11.69, 7.58), (17.25, 8.26)),
    FEMNIST_TABLE_5: ((1.42, 1.52), (5.05, 2.75)),
}
FIGURE_6 = (MNIST_CNN, FEMNIST_CNN, MEX_MLP, GOODREADS_TRAINED)
CELLS = [
    Cell(table=TABLE, setting=setting, column=column, method=method, published=None)
    for setting in TABLE_6
    for column, method in THREE.items()
]


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """One run: the number of right test samples after each round; with GloVe's vectors if the row
    needs them.

    Raises:
        DataError: the vectors or the data are missing.
    """
    return recipes.measure(with_glove(cell) if cell.setting == GOODREADS_RNN else cell, seed)


def improvements(results: Results) -> list[ComparedNumber]:
    """Points gained over each baseline, over the seeds that all three methods have.

    Args:
        results: stored runs.
    """
    numbers = []
    for setting, published in TABLE_6.items():
        curves = curves_of(results, TABLE, setting.row, list(THREE))
        complete = len(curves) == len(THREE)
        for baseline, (printed, _) in zip(BASELINES, published, strict=True):
            ours = float(improvement(curves["FedSim"], curves[baseline])[0]) if complete else None
            seeds = len(curves["FedSim"]) if complete else 0
            column = f"over {baseline}"
            deviation = setting.deviation
            numbers.append(
                compare_number(setting.row, column, printed, ours, seeds=seeds, deviation=deviation)
            )
    return numbers
