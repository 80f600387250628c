"""Printed numbers that follow from other printed numbers: gains, losses and means in the papers'
text and behind arrows in their tables.

A run measures none of them that it does not measure already, so no count includes them. Here each
is computed from the numbers that it follows from. All of them may be cut or rounded, so it follows
if it is at most a unit of its last digit away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from papers.catalogue import tables
from papers.inventory import ATHENA, FEDGROUP, FEDSIM, FLEXCFL


@dataclass(frozen=True)
class Cell:
    """A printed number: the table in the catalogue, the beginning of its row, the kind of shift,
    and the column."""

    table: str
    row: str
    column: str
    shift: str = ""

    @property
    def printed(self) -> float:
        """The number. Raises KeyError unless the catalogue has it once."""
        values = {
            number
            for (row, column), number in _numbers(self.table).items()
            if column == self.column and _model_and_shift(row) == (self.row, self.shift)
        }
        if len(values) != 1:
            raise KeyError(f"{self}: expected one printed number, found {sorted(values)}")
        return values.pop()


@cache
def _numbers(table: str) -> dict[tuple[str, str], float]:
    """The printed numbers of a table, by row and column; without variants and other readings of
    the data."""
    numbers = tables()[table][1].compare([])
    is_athena = table.startswith("athena")  # its runs are shortened, which is a deviation
    return {
        (n.row, n.column): n.printed
        for n in numbers
        if n.printed is not None and not n.variant_of and (is_athena or not n.deviation)
    }


def _model_and_shift(row: str) -> tuple[str, str]:
    """MNIST-MLP and swap all of ``MNIST-MLP, some data: swap all``."""
    model, _, shift = row.partition(": ")
    return model.split(", shared")[0], shift


Difference = tuple[Cell, Cell]


@dataclass(frozen=True)
class Derived:
    """A printed number, and the differences of printed numbers that it is the mean of (or the
    sum)."""

    paper: str
    place: str
    printed: str
    differences: tuple[Difference, ...]
    is_sum: bool = False

    @property
    def computed(self) -> float:
        """The number, from the others."""
        differences = [a.printed - b.printed for a, b in self.differences]
        return sum(differences) / (1 if self.is_sum else len(differences))

    @property
    def follows(self) -> bool:
        """Whether the printed number is the computed one, but for its last digit."""
        unit = 10.0 ** -len(self.printed.partition(".")[2])
        return abs(self.computed - float(self.printed)) <= unit + 1e-9


# --- FedGroup

_ROWS = ("MNIST-MCLR", "MNIST-MLP", "FEMNIST-MCLR", "FEMNIST-MLP", "Synthetic(1,1)-MCLR")


def _of_fedgroup(row: str, column: str) -> Cell:
    return Cell("fedgroup-table3", row, column)


_ARROWS = {  # of FedGroup and of FedGrouProx, and the better baseline
    "MNIST-MCLR": ("5.2", "5.3", "FedProx"),
    "MNIST-MLP": ("3.2", "2.7", "FedAvg"),
    "FEMNIST-MCLR": ("11.0", "10.3", "FedAvg"),
    "FEMNIST-MLP": ("14.7", "13.7", "FedAvg"),
    "Synthetic(1,1)-MCLR": ("11.7", "4.2", "FedProx"),
    "Sent140-LSTM": ("5.4", "5.0", "FedProx"),
}
OF_FEDGROUP = (
    Derived(
        FEDGROUP,
        "III-A, best accuracy of 5 classes over 1",
        "4.0",
        (
            (
                Cell("fedgroup-table1", "5", "best accuracy (%)"),
                Cell("fedgroup-table1", "1", "best accuracy (%)"),
            ),
        ),
    ),
    *(
        Derived(
            FEDGROUP,
            f"Table III, arrow, {row}, {column}",
            printed,
            ((_of_fedgroup(row, column), _of_fedgroup(row, baseline)),),
        )
        for row, (ours, prox, baseline) in _ARROWS.items()
        for column, printed in (("FedGroup", ours), ("FedGrouProx", prox))
    ),
    Derived(
        FEDGROUP,
        "IV-B, RAC over FedGroup, mean of five rows",
        "-11.06",
        tuple(
            (_of_fedgroup(row, "RAC"), _of_fedgroup(row, "FedGroup"))
            for row in (*_ROWS[:4], "Sent140-LSTM")
        ),
    ),
)

# --- FlexCFL

MODELS = {
    "MNIST": ("MNIST-MCLR", "MNIST-MLP", "MNIST-CNN"),
    "FEMNIST": ("FEMNIST-MCLR", "FEMNIST-MLP", "FEMNIST-CNN"),
    "FashionMNIST": ("FashionMNIST-CNN",),
    "MNIST-MCLR": ("MNIST-MCLR",),
    "FEMNIST-MLP": ("FEMNIST-MLP",),
}
ALL_ROWS = (
    *MODELS["MNIST"],
    *MODELS["FEMNIST"],
    "Synthetic(1,1)-MCLR",
    *MODELS["FashionMNIST"],
)
Column = tuple[str, str]  # kind of shift, and method
STILL = ""
ALL = "swap all"
PART = "swap part"
SLOW = "incremental"


def _of_flexcfl(row: str, column: Column) -> Cell:
    shift, method = column
    return Cell("flexcfl-table4" if shift else "flexcfl-table3", row, method, shift)


def _mean(
    place: str,
    printed: str,
    rows: Iterable[str],
    ours: Column,
    theirs: Column,
    is_sum: bool = False,
) -> Derived:
    """The mean over rows of what one column is ahead of another."""
    differences = tuple((_of_flexcfl(row, ours), _of_flexcfl(row, theirs)) for row in rows)
    return Derived(FLEXCFL, place, printed, differences, is_sum)


_OVER_FESEM = dict(zip(ALL_ROWS, "11.2 7.2 7.0 46.4 35.0 41.4 8.6 11.3".split(), strict=True))
_FLEX = (STILL, "FlexCFL")
# Place, number, data, the two columns.
_MEANS: tuple[tuple[str, str, str, Column, Column], ...] = (
    ("abstract", "10.6", "FEMNIST", _FLEX, (STILL, "FedAvg")),
    ("abstract", "3.5", "FashionMNIST", _FLEX, (STILL, "FedProx")),
    ("abstract", "8.4", "MNIST", _FLEX, (STILL, "FeSEM")),
    ("1", "40.9", "FEMNIST", _FLEX, (STILL, "FeSEM")),
    ("1", "11.3", "FashionMNIST", _FLEX, (STILL, "FeSEM")),
    ("5.2", "-1.33", "MNIST", (STILL, "IFCA"), _FLEX),
    ("5.2", "-3.3", "FEMNIST", (STILL, "IFCA"), _FLEX),
    ("5.2", "-5.5", "MNIST", (STILL, "RAC"), _FLEX),
    ("5.2", "-19.7", "FEMNIST", (STILL, "RAC"), _FLEX),
    ("5.3", "-10.2", "FEMNIST", (ALL, "IFCA"), (STILL, "IFCA")),
    ("5.3", "-11.8", "FEMNIST", (ALL, "FeSEM"), (STILL, "FeSEM")),
    ("5.3", "-23.3", "FEMNIST", (ALL, "FedGroup"), _FLEX),
    ("5.3", "1.1", "FEMNIST", (ALL, "FedAvg"), (STILL, "FedAvg")),
    ("5.3", "-1.96", "MNIST", (ALL, "FedGroup"), _FLEX),
    ("5.3", "-19.4", "FEMNIST", (PART, "FedGroup"), _FLEX),
    ("5.3", "-3.8", "FashionMNIST", (SLOW, "FedGroup"), _FLEX),
    ("5.3", "2.2", "MNIST", (ALL, "FlexCFL"), (ALL, "FedAvg")),
    ("5.3", "3.9", "FEMNIST", (ALL, "FlexCFL"), (ALL, "FedAvg")),
    ("5.3", "1.4", "FashionMNIST", (ALL, "FlexCFL"), (ALL, "FedAvg")),
    ("5.3", "8.9", "MNIST", (PART, "FlexCFL"), (PART, "IFCA")),
    ("5.3", "10.8", "FEMNIST", (PART, "FlexCFL"), (PART, "IFCA")),
    ("5.3", "5.3", "FashionMNIST", (PART, "FlexCFL"), (PART, "IFCA")),
    ("5.3", "10.5", "FEMNIST", (PART, "FlexCFL, eta_g 5"), (PART, "FlexCFL")),
    ("5.3", "5.2", "MNIST-MCLR", (ALL, "FlexCFL"), (ALL, "FedAvg")),
    ("5.3", "8.1", "FEMNIST-MLP", (PART, "FlexCFL, eta_g 5"), (PART, "FlexCFL")),
)
OF_FLEXCFL = (
    Derived(
        FLEXCFL,
        "3.1, best accuracy of 10 classes over 1",
        "4.3",
        (
            (
                Cell("flexcfl-table1", "10 (IID)", "best accuracy (%)"),
                Cell("flexcfl-table1", "1", "best accuracy (%)"),
            ),
        ),
    ),
    *(
        _mean(f"Table III, arrow, {row}", printed, [row], _FLEX, (STILL, "FeSEM"))
        for row, printed in _OVER_FESEM.items()
    ),
    *(
        _mean(
            f"{place}, {data}: {' '.join(ours).strip()} over {' '.join(theirs).strip()}",
            printed,
            MODELS[data],
            ours,
            theirs,
        )
        for place, printed, data, ours, theirs in _MEANS
    ),
    _mean(
        "5.3, all rows, incremental: FedGroup over FlexCFL, in total",
        "0.6",
        ALL_ROWS,
        (SLOW, "FedGroup"),
        (SLOW, "FlexCFL"),
        is_sum=True,
    ),
)

# --- FedSim, ATHENA-FL

OF_FEDSIM = (
    Derived(
        FEDSIM,
        "6, IID: FedProx over FedAvg",
        "-20.92",
        (
            (
                Cell("fedsim-table7", "IID", "over FedAvg"),
                Cell("fedsim-table7", "IID", "over FedProx"),
            ),
        ),
    ),
)
OF_ATHENA = tuple(
    Derived(
        ATHENA,
        f"3.2, {data}, 2 classes: detectors over the best network",
        printed,
        (
            (
                Cell("athena-figure2", f"2 classes, {data}", "ATHENA-FL"),
                Cell("athena-figure2", f"2 classes, {data}", "FedAvg, MobileNet"),
            ),
        ),
    )
    for data, printed in (("MNIST", "7"), ("CIFAR-10", "10"))
)

DERIVED = (*OF_FEDGROUP, *OF_FLEXCFL, *OF_FEDSIM, *OF_ATHENA)
# What FlexCFL itself loses under swap all: the number that its text prints of FedGroup.
LOSS_OF_FLEXCFL = _mean(
    "5.3, FlexCFL under swap all over FlexCFL, MNIST",
    "-1.96",
    MODELS["MNIST"],
    (ALL, "FlexCFL"),
    _FLEX,
)


def sentence() -> str:
    """How many of these numbers there are, and those that do not follow."""
    papers = dict.fromkeys(number.paper for number in DERIVED)
    counts = ", ".join(f"{paper} {sum(n.paper == paper for n in DERIVED)}" for paper in papers)
    wrong = [
        f"{n.paper} prints {n.printed} ({n.place}) where its tables give {n.computed:.2f}"
        + _instead(n)
        for n in DERIVED
        if not n.follows
    ]
    return (
        f"Another {len(DERIVED)} printed numbers are differences or means of these ({counts}), and "
        "are not counted. (What IFCA-MIG gains over FedAvg follows from no table, so it counts.) "
        f"{len(DERIVED) - len(wrong)} of them follow from the tables, up to a unit of the last "
        f"digit. Not so: {'; '.join(wrong)}."
    )


def _instead(number: Derived) -> str:
    """What another difference gives, if it is the printed number; else empty."""
    other = LOSS_OF_FLEXCFL
    if (number.paper, number.printed) != (other.paper, other.printed):
        return ""
    return f". With FlexCFL in FedGroup's place they give {other.computed:.2f}"
