"""The runs behind FlexCFL's Fig. 1, at the settings of its Table I, Fig. 3 (accuracy, training loss
and discrepancy without a shift; inter-group learning rates) and Fig. 5 (inter-group learning rates
where a part of the labels is swapped). The legends of the paper's sweeps are not in its text, which
names 0.1 (Fig. 3) and 5 (Fig. 5); the other rates are ours. Both sweeps of the paper train an MLP;
we added logistic regression. The MLP on FEMNIST takes minutes a run, and has one seed."""

from __future__ import annotations

from dataclasses import replace

from fedkin.methods import FlexCFL
from papers.classes_figure import cells_of
from papers.flexcfl.recipes import (
    FEMNIST,
    FEMNIST_MLP,
    MNIST,
    MNIST_MLP,
    NO_SHIFT,
    ROUND_ROBIN,
    SHIFTS,
    TABLE_I,
)
from papers.recipe import Cell, Setting

SEEDS = (0, 1, 2)
ETAS = (0.0, 0.01, 0.1, 1.0, 5.0)
# In addition to FlexCFL with eta_g = 0.1, which the sweep has.
METHODS_3 = (
    "FedAvg",
    "FedProx",
    "IFCA",
    "FeSEM",
    "FlexCFL",
)
FROM_THE_START = ("FedAvg", "FedProx")  # their cohorts are drawn from round 1 on

MNIST_3 = replace(MNIST, seeds=SEEDS)
MNIST_MLP_3 = replace(MNIST_MLP, seeds=SEEDS)
FEMNIST_5, FEMNIST_MLP_5 = (
    replace(setting, row=f"{setting.row}, swap part", shift=SHIFTS["swap part"], seeds=seeds)
    for setting, seeds in ((FEMNIST, SEEDS), (FEMNIST_MLP, SEEDS[:1]))
)


def eta_column(eta: float) -> str:
    """The column of an inter-group learning rate; without one it is FlexCFL's own."""
    return f"FlexCFL, eta_g {eta:g}" if eta else "FlexCFL"


def _sweep(table: str, setting: Setting) -> list[Cell]:
    return [
        Cell(
            table=table,
            setting=setting,
            column=eta_column(eta),
            method=lambda m, eta=eta: FlexCFL(clusters=m, eta_g=eta),
            published=None,
            selection=ROUND_ROBIN,
        )
        for eta in ETAS
    ]


def _baselines(setting: Setting) -> list[Cell]:
    return [
        Cell(
            table="Fig. 3",
            setting=setting,
            column=column,
            method=NO_SHIFT[column],
            published=None,
            selection="uniform" if column in FROM_THE_START else ROUND_ROBIN,
        )
        for column in METHODS_3
        if column != "FlexCFL"
    ]


FIGURE_1 = cells_of([cell for cell in TABLE_I if cell.column == "FedAvg"])
BASELINES_3 = _baselines(MNIST_3)
BASELINES_3_MLP = _baselines(MNIST_MLP_3)
SWEEP_3 = _sweep("Fig. 3", MNIST_3)
SWEEP_3_MLP = _sweep("Fig. 3", MNIST_MLP_3)
FIGURE_3 = [*BASELINES_3, *SWEEP_3, *BASELINES_3_MLP, *SWEEP_3_MLP]
SWEEP_5 = _sweep("Fig. 5", FEMNIST_5)
SWEEP_5_MLP = _sweep("Fig. 5", FEMNIST_MLP_5)
FIGURE_5 = [*SWEEP_5_MLP, *SWEEP_5]
