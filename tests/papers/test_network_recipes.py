"""Recipes of other networks than perceptrons: FlexCFL's at full length, FedSim's Table 6,
FedGroup's Sent140."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.sent140 import FILE as TWEETS
from fedkin.methods import FedGrouProx, FedProx
from fedkin.models import MODELS
from papers.fedgroup import sent140_recipes as sent140
from papers.fedsim import network_recipes as fedsim
from papers.fedsim.recipes import MEX, THREE
from papers.flexcfl import cnn_recipes as flexcfl
from papers.recipe import Cell, Setting
from papers.word_vectors import FILE as VECTORS


def parameters(setting: Setting, data: FederatedData) -> int:
    return MODELS[setting.model](data, **dict(setting.model_options)).spec.parameters


def samples(shape: tuple[int, ...], classes: int) -> FederatedData:
    """One client with three samples of this shape."""
    rows = Ragged.of([np.arange(3)])
    return FederatedData(
        name="tiny",
        x=np.zeros((3, *shape), np.float32),
        y=np.arange(3) % classes,
        classes=classes,
        train=rows,
        test=rows,
    )


def sentences(length: int, words: int, width: int | None) -> FederatedData:
    """One client with three texts of two classes; ``width`` of the vectors of its words, None for
    none."""
    rows = Ragged.of([np.arange(3)])
    vectors = None if width is None else np.zeros((words, width), np.float32)
    vocabulary = tuple(map(str, range(words)))
    x = np.zeros((3, length), np.int32)
    return FederatedData(
        name="text",
        x=x,
        y=np.arange(3) % 2,
        classes=2,
        train=rows,
        test=rows,
        vocabulary=vocabulary,
        vectors=vectors,
    )


def printed(cells: Sequence[Cell], row: str) -> dict[str, float | None]:
    return {cell.column: cell.published for cell in cells if cell.setting.row == row}


# --- FlexCFL


@pytest.mark.parametrize(
    ("setting", "count"),
    [(flexcfl.MNIST, 50_186), (flexcfl.FEMNIST, 325_578), (flexcfl.FASHION, 3_274_634)],
)
def test_flexcfl_trains_the_papers_networks_as_long_as_the_paper(
    setting: Setting, count: int
) -> None:
    assert parameters(setting, samples((784,), 10)) == count  # FACTS 4
    assert (setting.rounds, setting.epochs, setting.cohort, setting.training.batch_size) == (
        300,
        10,
        20,
        10,
    )
    assert setting.deviation == ""


def test_flexcfl_rates_and_clusters() -> None:
    """FACTS 6."""
    rows = [
        (setting.lr, setting.clusters)
        for setting in (flexcfl.MNIST, flexcfl.FEMNIST, flexcfl.FASHION)
    ]
    assert rows == [(0.03, 3), (0.003, 5), (0.005, 5)]


def test_flexcfl_has_every_printed_number_of_the_three_rows() -> None:
    assert len(flexcfl.TABLE_III) == 3 * 8 and len(flexcfl.TABLE_IV) == 3 * 6 * 3
    assert all(cell.published is not None for cell in flexcfl.CELLS)
    assert len({(cell.table, cell.setting.row, cell.column) for cell in flexcfl.CELLS}) == 24 + 54


def test_flexcfl_numbers() -> None:
    """FACTS 8.2; FEMNIST's are not in one order of the shifts, so a swapped column would show."""
    three = printed(flexcfl.TABLE_III, "FEMNIST-CNN, shared images")
    assert (three["FeSEM"], three["RAC"], three["FlexCFL, eta_g .1"]) == (57.3, 86.1, 98.5)
    four = [
        printed(flexcfl.TABLE_IV, f"FEMNIST-CNN, shared images: {kind}") for kind in flexcfl.SHIFTS
    ]
    assert [row["FeSEM"] for row in four] == [23.1, 59.8, 19.8]
    assert [row["FlexCFL, eta_g 5"] for row in four] == [97.2, 96.6, 86.1]
    fashion = printed(flexcfl.TABLE_IV, "FashionMNIST-CNN: swap part")
    assert fashion == dict(zip(fashion, (89.3, 82.2, 81.8, 86.4, 87.5, 89.3), strict=True))
    assert list(fashion) == ["FedAvg", "IFCA", "FeSEM", "FedGroup", "FlexCFL", "FlexCFL, eta_g 5"]


def test_flexcfl_everybody_takes_a_turn_but_in_fedavg_and_fedprox() -> None:
    uniform = {cell.column for cell in flexcfl.CELLS if cell.selection == "uniform"}
    assert uniform == {"FedAvg", "FedProx"}
    assert {cell.setting.shift is None for cell in flexcfl.TABLE_IV} == {False}


# --- FedSim


@pytest.mark.parametrize(
    ("setting", "data", "count"),
    [
        # 5*5*32 + 32, 5*5*32*64 + 64, 7*7*64*2048 + 2048, 2048 C + C
        (fedsim.MNIST_CNN, samples((784,), 10), 832 + 51_264 + 6_424_576 + 20_490),
        (fedsim.FEMNIST_CNN, samples((784,), 26), 832 + 51_264 + 6_424_576 + 53_274),
        # Table 5: 3*3*64 + 64, 3*3*64*64 + 64, and the dense layers as in the code
        (fedsim.MNIST_TABLE_5, samples((784,), 10), 640 + 36_928 + 6_424_576 + 20_490),
        (fedsim.FEMNIST_TABLE_5, samples((784,), 26), 640 + 36_928 + 6_424_576 + 53_274),
        # 1280-1280-640-120-7
        (fedsim.MEX_MLP, samples((1280,), 7), 1_639_680 + 819_840 + 76_920 + 847),
        (fedsim.MEX_MLP_PUBLISHED, samples((1280,), 7), 1_639_680 + 819_840 + 76_920 + 847),
        # 128 (300 + 128) + 128, 128 + 1; vectors that are trained: 50 x 300 more
        (fedsim.GOODREADS_RNN, sentences(40, 50, 300), 54_912 + 129),
        (fedsim.GOODREADS_TRAINED, sentences(40, 50, None), 54_912 + 129 + 15_000),
    ],
    ids=lambda value: getattr(value, "row", ""),
)
def test_fedsim_networks(setting: Setting, data: FederatedData, count: int) -> None:
    assert parameters(setting, data) == count


def test_fedsim_trains_as_in_table_4_but_for_the_recurrent_network() -> None:
    """FACTS 6: clusters, cohort, rounds, epochs; learning rate and optimiser."""
    rows = [
        (
            s.clusters,
            s.cohort,
            s.rounds,
            s.training.epochs,
            s.training.batch_size,
            s.training.lr,
            s.training.optimizer,
        )
        for s in fedsim.TABLE_6
    ]
    assert rows[:3] == [
        (9, 20, 500, 20, 10, 0.003, "sgd"),
        (5, 20, 30, 20, 10, 0.03, "sgd"),
        (3, 10, 200, 20, 10, 0.01, "sgd"),
    ]
    assert rows[3] == rows[2]  # Fed-MEx, all of it
    assert rows[4] == rows[5] == (11, 20, 250, 10, 10, 1e-4, "adam")
    # Table 5's networks for MNIST and FEMNIST
    assert rows[6:] == [rows[1], rows[0]]


def test_fedsim_numbers() -> None:
    """FACTS 8.3; the deviations tell the columns apart."""
    assert fedsim.TABLE_6[fedsim.MNIST_CNN] == ((11.69, 7.58), (17.25, 8.26))
    assert fedsim.TABLE_6[fedsim.GOODREADS_RNN] == ((-0.32, 0.42), (8.88, 2.87))
    assert len(fedsim.CELLS) == 8 * 3 and {cell.column for cell in fedsim.CELLS} == set(THREE)
    assert (
        fedsim.MEX_MLP.deviation == MEX.deviation != ""
        and "GloVe" in fedsim.GOODREADS_TRAINED.deviation
    )


def test_table_5s_networks_are_compared_and_not_counted() -> None:
    for coded, printed in (
        (fedsim.MNIST_CNN, fedsim.MNIST_TABLE_5),
        (fedsim.FEMNIST_CNN, fedsim.FEMNIST_TABLE_5),
    ):
        assert fedsim.TABLE_6[coded] == fedsim.TABLE_6[printed]
        assert (coded.data, coded.data_options) == (printed.data, printed.data_options)
        of_row = [n for n in fedsim.improvements([]) if n.row == printed.row]
        assert len(of_row) == 2 and all("Table 5" in n.deviation for n in of_row)
        assert not any(number.counts for number in of_row)
    assert {n.row for n in fedsim.improvements([]) if n.counts} == {
        fedsim.MEX_MLP_PUBLISHED.row,
        fedsim.MNIST_CNN.row,
        fedsim.FEMNIST_CNN.row,
        fedsim.GOODREADS_RNN.row,
    }


def test_gains_of_table_6_are_summed_over_the_rounds() -> None:
    """FedSim has 5, 8, 9 of 10 samples right, FedAvg 5, 6, 6: (0 + 20 + 30) / 2 points. FedProx has
    5, 5, 10: 10."""
    right = {"FedSim": [5, 8, 9], "FedAvg": [5, 6, 6], "FedProx": [5, 5, 10]}
    row = fedsim.MNIST_CNN.row
    results = [
        {"table": "6", "row": row, "column": column, "seed": 0, "right": numbers, "tested": 10}
        for column, numbers in right.items()
    ]
    numbers = {n.column: n for n in fedsim.improvements(results) if n.row == row}
    assert [numbers[f"over {name}"].ours for name in ("FedAvg", "FedProx")] == ["25.00", "10.00"]
    assert numbers["over FedAvg"].difference == pytest.approx(25 - 11.69)
    assert all(n.difference is None and not n.seeds for n in fedsim.improvements(results[:2]))


# --- Sent140, and files that are missing


def test_sent140_is_fedgroups_row() -> None:
    setting = sent140.TWEETS
    assert parameters(setting, sentences(25, 50, 300)) == 243_861  # FACTS 4
    assert (setting.lr, setting.clusters, setting.cohort, setting.epochs, setting.rounds) == (
        0.3,
        5,
        20,
        20,
        800,
    )
    row = printed(sent140.TABLE_III, "Sent140-LSTM")
    assert list(row.items())[1:4] == [("FedProx", 71.1), ("RCC", 76.3), ("RAC", 70.0)]
    methods = [sent140.METHODS[name](5) for name in ("FedProx", "FedGrouProx")]
    assert methods == [FedProx(mu=0.01), FedGrouProx(clusters=5, mu=0.01)]


def test_other_data_say_so_and_are_compared_with_no_number() -> None:
    assert sent140.STAND_IN.deviation and not sent140.TWEETS.deviation
    assert [cell.published for cell in sent140.OTHER_DATA] == [None] * 6


def test_other_data_have_the_shape_of_the_tweets(shared_data: Path) -> None:
    """Texts of 25 words, two classes, the same layers: only the vectors of the words are also
    trained."""
    data = sent140.recipe.load(sent140.STAND_IN.data, sent140.STAND_IN.data_options)
    assert data.x.shape[1] == 25 and data.classes == 2 and data.vocabulary is not None
    assert parameters(sent140.STAND_IN, data) == 243_861 + 300 * len(data.vocabulary)


MISSING = {"Sent140": "trainingandtestdata.zip", "GloVe": r"glove\.6B\.zip"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FEDKIN_DATA with 60 users of 30 tweets, and vectors of three words."""
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    monkeypatch.setenv("FEDKIN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "Sent140").mkdir()
    (tmp_path / "GloVe").mkdir()
    tweets = [
        (4 * (t % 2), f"user{u}", ("good", "bad")[t % 2]) for u in range(60) for t in range(30)
    ]
    lines = [
        f'"{label}","1","today","NO_QUERY","{user}","so {text}"' for label, user, text in tweets
    ]
    (tmp_path / "Sent140" / TWEETS).write_text("\n".join(lines))
    vectors = np.random.default_rng(0).normal(size=(3, 300)).round(3)
    words = [
        " ".join([word, *map(str, v)])
        for word, v in zip(("so", "good", "bad"), vectors, strict=True)
    ]
    (tmp_path / "GloVe" / VECTORS).write_text("\n".join(words))
    return tmp_path


@pytest.mark.parametrize("missing", MISSING)
def test_without_its_files_the_row_is_refused(folder: Path, missing: str) -> None:
    for file in (folder / missing).iterdir():
        file.unlink()
    with pytest.raises(DataError, match=f"not found in .*{missing}.*{MISSING[missing]}"):
        sent140.measure(sent140.TABLE_III[0], 0)


def test_the_recurrent_network_is_refused_without_its_vectors(folder: Path) -> None:
    (folder / "GloVe" / VECTORS).unlink()
    cell = next(cell for cell in fedsim.CELLS if cell.setting == fedsim.GOODREADS_RNN)
    with pytest.raises(DataError, match=r"GloVe: glove\.6B\.300d\.txt not found"):
        fedsim.measure(cell, 0)


def test_with_its_files_the_row_is_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of one epoch, on 300 numbers a word."""
    short = dataclasses.replace(
        sent140.TWEETS, rounds=1, epochs=1, cohort=3, data_options=(("fraction", 1.0),)
    )
    monkeypatch.setattr(sent140, "TWEETS", short)
    figures = sent140.measure(dataclasses.replace(sent140.TABLE_III[0], setting=short), 0)
    assert figures["row"] == "Sent140-LSTM" and 0 <= figures["final"] <= 1
    # Cohort x bytes x parameters: no vector of a word.
    assert figures["bytes_up"] == 3 * 4 * 243_861
