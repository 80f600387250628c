"""Every table and figure that the papers print: its content, and the recipe that reproduces it or
the reason why there is none.

A panel of a figure with its own caption is a separate entry. PANM's poster prints neither table nor
figure. A new recipe is named here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from papers.catalogue import tables
from papers.reproduction_marks import Results


@dataclass(frozen=True)
class Entry:
    """A printed table or figure.

    Attributes:
        recipe: the name, in the catalogue, of the table that reproduces it.
        reason: why there is none.
        row: how the rows of the recipe begin that the entry shows; empty: it shows all.

    Raises:
        ValueError: both a recipe and a reason are given, or none of them.
    """

    paper: str
    number: str
    shows: str
    recipe: str = ""
    reason: str = ""
    row: str = ""

    def __post_init__(self) -> None:
        if bool(self.recipe) == bool(self.reason):
            raise ValueError(
                f"{self.paper}, {self.number}: expected a recipe or a reason, and not both"
            )

    @property
    def whole(self) -> str:
        """The table or figure that this is, or is a part of: ``Fig. 3`` of ``Fig. 3(a)``."""
        return re.split(r" ?\(", self.number)[0]


FEDGROUP = "FedGroup"
FLEXCFL = "FlexCFL"
FEDSIM = "FedSim"
# SBRC 2022; the summary of both.
SBRC = "Hierarchical clustering"
ATHENA = "ATHENA-FL"
DIAGRAM = "a diagram, no result"
SETTINGS = "statistics or settings, no result"
SURVEY = "a survey of other papers, no result"
TIMES = "times of the authors' machines; `python -m benchmarks.fedsim` measures ours"
LOSS = "test loss; the runs of ATHENA-FL's Fig. 1 keep the accuracy"
HOURS = "curves of convolutional networks, 0.4 to 4.2 core-hours a run; not drawn"

ENTRIES = (
    Entry(FEDGROUP, "Table I", "FedAvg on MNIST by classes per client", "fedgroup-table1"),
    Entry(FEDGROUP, "Table II", "data sets and model sizes", reason=SETTINGS),
    Entry(FEDGROUP, "Table III", "best accuracies of the methods", "fedgroup-table3"),
    Entry(
        FEDGROUP,
        "Fig. 1",
        "FedAvg's accuracy and discrepancy by classes per client",
        "fedgroup-figure1",
    ),
    Entry(FEDGROUP, "Fig. 2", "overview of FedGroup", reason=DIAGRAM),
    Entry(
        FEDGROUP,
        "Fig. 3",
        "accuracy and discrepancy over the rounds, MNIST and FEMNIST",
        "fedgroup-figure3",
    ),
    Entry(
        FEDGROUP,
        "Fig. 4",
        "accuracy over the rounds, Synthetic(1,1) and Sent140 (the recipe: the first)",
        "fedgroup-figure4",
        row="Synthetic",
    ),
    Entry(
        FEDGROUP,
        "Fig. 5",
        "distances by all cosines against those by three directions",
        "fedgroup-figure5",
    ),
    Entry(FLEXCFL, "Table I", "FedAvg on MNIST by classes per client", "flexcfl-table1"),
    Entry(FLEXCFL, "Table II", "data sets and model sizes", reason=SETTINGS),
    Entry(FLEXCFL, "Table III", "best accuracies without a shift", "flexcfl-table3"),
    Entry(FLEXCFL, "Table IV", "best accuracies under three kinds of shift", "flexcfl-table4"),
    Entry(
        FLEXCFL,
        "Fig. 1",
        "FedAvg's accuracy and discrepancy by classes per client",
        "flexcfl-figure1",
    ),
    Entry(FLEXCFL, "Fig. 2", "overview of FlexCFL", reason=DIAGRAM),
    Entry(
        FLEXCFL,
        "Fig. 3(a)",
        "accuracy over the rounds, MNIST-MCLR; loss, discrepancy as for (b)",
        "flexcfl-figure3",
    ),
    Entry(
        FLEXCFL,
        "Fig. 3(b)",
        "accuracy, loss, discrepancy, MNIST-MLP",
        "flexcfl-figure3-curves",
        row="MNIST-MLP",
    ),
    Entry(FLEXCFL, "Fig. 3(c)", "the same, MNIST-CNN", reason=HOURS),
    Entry(
        FLEXCFL,
        "Fig. 3(d)",
        "MNIST-MLP by eta_g",
        "flexcfl-figure3-curves",
        row="MNIST-MLP",
    ),
    Entry(
        FLEXCFL,
        "Fig. 4(a)",
        "accuracy under three kinds of shift, MNIST-MCLR",
        "flexcfl-figure4",
        row="MNIST-MCLR",
    ),
    Entry(FLEXCFL, "Fig. 4(b)", "the same, FEMNIST-CNN", reason=HOURS),
    Entry(FLEXCFL, "Fig. 4(c)", "the same, FashionMNIST-CNN", reason=HOURS),
    Entry(
        FLEXCFL,
        "Fig. 5(a)",
        "accuracy by eta_g, FEMNIST-MLP, swap part",
        "flexcfl-figure5",
        row="FEMNIST-MLP",
    ),
    Entry(
        FLEXCFL,
        "Fig. 5(b)",
        "training loss by eta_g, FEMNIST-MLP, swap part",
        "flexcfl-figure5",
        row="FEMNIST-MLP",
    ),
    Entry(
        FLEXCFL,
        "Fig. 6(a)",
        "communication of 300 rounds, MNIST, swap all",
        "flexcfl-figure6",
        row="MNIST",
    ),
    Entry(
        FLEXCFL,
        "Fig. 6(b)",
        "the same, FEMNIST, swap part",
        "flexcfl-figure6",
        row="FEMNIST",
    ),
    Entry(
        FLEXCFL,
        "Fig. 6(c)",
        "the same, FashionMNIST, incremental",
        "flexcfl-figure6",
        row="FashionMNIST",
    ),
    Entry(FEDSIM, "Table 1", "data sets and metrics in the literature", reason=SURVEY),
    Entry(
        FEDSIM,
        "Table 2",
        "hyper-parameters (the recipe: the search for two of them, MNIST)",
        "fedsim-search",
    ),
    Entry(FEDSIM, "Table 3", "milliseconds per round", reason=TIMES),
    Entry(FEDSIM, "Table 4", "gains over FedAvg and FedProx, real data", "fedsim-table4"),
    Entry(FEDSIM, "Table 5", "architectures of other networks", reason=SETTINGS),
    Entry(FEDSIM, "Table 6", "gains with other networks", "fedsim-table6"),
    Entry(FEDSIM, "Table 7", "gains on synthetic data", "fedsim-table7"),
    Entry(FEDSIM, "Fig. 1", "similarity of the clients' data, pair by pair", "fedsim-figure1"),
    Entry(FEDSIM, "Fig. 2", "overview of FedSim", reason=DIAGRAM),
    Entry(FEDSIM, "Fig. 3", "accuracy over the rounds, real data", "fedsim-figure3"),
    Entry(
        FEDSIM,
        "Fig. 4",
        "all clients' gradients in two dimensions, in ten clusters",
        "fedsim-figure4",
    ),
    Entry(
        FEDSIM, "Fig. 5", "gains over the rounds, and where they are significant", "fedsim-figure5"
    ),
    Entry(FEDSIM, "Fig. 6", "accuracy over the rounds, other networks", "fedsim-figure6"),
    Entry(FEDSIM, "Fig. 7", "similarity against round robin, FEMNIST", "fedsim-figure7"),
    Entry(FEDSIM, "Fig. 8", "variance kept by principal components", "fedsim-figure8"),
    Entry(FEDSIM, "Fig. 9", "accuracy over the rounds, synthetic data", "fedsim-figure9"),
    Entry(FEDSIM, "Fig. 10", "non-IID index (PNI) by alpha and beta", "fedsim-figure10"),
    Entry(SBRC, "Table 1", "settings of the training", reason=SETTINGS),
    Entry(SBRC, "Table 2", "clusters that DBSCAN and OPTICS find", "athena-eps"),
    Entry(SBRC, "Table 3", "ranges of eps that find the clusters", "athena-eps"),
    Entry(SBRC, "Table 4", "accuracy by cluster, 2 classes", "athena-figure1"),
    Entry(SBRC, "Fig. 1", "how the clusters begin", reason=DIAGRAM),
    Entry(SBRC, "Fig. 2", "how a client joins", reason=DIAGRAM),
    Entry(
        SBRC, "Fig. 3", "accuracy over the rounds, IID, one cluster or several", "athena-figure1"
    ),
    Entry(SBRC, "Fig. 4", "test loss over the rounds, 2 classes", reason=LOSS),
    Entry(SBRC, "Fig. 5", "test loss over the rounds, 5 classes", reason=LOSS),
    Entry(ATHENA, "Table 1", "epochs and bytes until convergence", "athena-table1"),
    Entry(ATHENA, "Fig. 1", "accuracy of a model for each cluster, CIFAR-10", "athena-figure1"),
    Entry(ATHENA, "Fig. 2", "combined detectors, IID", "athena-figure2"),
    Entry(ATHENA, "Fig. 3", "combined detectors, 5 classes", "athena-figure3"),
    Entry(ATHENA, "Fig. 4", "combined detectors, 2 classes", "athena-figure4"),
)


def without_recipe() -> tuple[Entry, ...]:
    """The entries that no recipe reproduces."""
    return tuple(entry for entry in ENTRIES if not entry.recipe)


def at_full_size(results: Mapping[str, Results]) -> tuple[Entry, ...]:
    """The entries of which at least one number has a run with the paper's data and rounds.

    Args:
        results: stored runs, by paper.
    """
    of_name = {
        name: (paper, table)
        for paper, table in tables().values()
        for name in (table.name, *table.also)
    }
    found = []
    for entry in ENTRIES:
        if not entry.recipe:
            continue
        paper, table = of_name[entry.recipe]
        jobs = [job for job in table.jobs if job.published and job.row.startswith(entry.row)]
        runs = results.get(paper.name, [])
        if any(job.matches(run) for job in jobs for run in runs):
            found.append(entry)
    return tuple(found)


def sentence(results: Mapping[str, Results]) -> str:
    """The number of entries with a recipe and with a run at full size, and a list of those without
    a recipe by their reason.

    Args:
        results: stored runs, by paper.
    """
    by_reason: dict[str, dict[str, list[str]]] = {}
    for entry in without_recipe():
        by_reason.setdefault(entry.reason, {}).setdefault(entry.paper, []).append(entry.number)
    lists = []
    for reason, by_paper in by_reason.items():
        names = ", ".join(f"{paper} {', '.join(numbers)}" for paper, numbers in by_paper.items())
        lists.append(f"{names} ({reason})")
    count = len(ENTRIES) - len(without_recipe())
    full = len(at_full_size(results))
    head = (
        f"{count} of the papers' {len(ENTRIES)} tables and figures, panels counted one by one, "
        f"have a recipe, and {full} a run of at least one number at full size. These have no "
        "recipe:"
    )
    return "\n".join([head, "", *(f"* {entries}" for entries in lists)])
