"""Every table and figure that can be reproduced: its runs, its comparison with the paper, its part
of the page.

A new table is one entry here. The command, ``python -m papers`` and docs/results.md read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from papers import accuracy_numbers, curves
from papers.accuracy_numbers import Figure
from papers.advise import page as advise_page
from papers.advise import recipes as advise
from papers.athena import figures as athena_figures
from papers.athena import numbers as athena_numbers
from papers.athena import page as athena_page
from papers.athena import recipes as athena
from papers.causes import Evidence, explained
from papers.fedgroup import candidate_recipes
from papers.fedgroup import figure_recipes as fedgroup_runs
from papers.fedgroup import figures as fedgroup_figures
from papers.fedgroup import page as fedgroup_page
from papers.fedgroup import recipes as fedgroup
from papers.fedgroup import sent140_recipes as sent140
from papers.fedsim import figures as fedsim_figures
from papers.fedsim import network_recipes as networks
from papers.fedsim import numbers as fedsim_numbers
from papers.fedsim import page as fedsim_page
from papers.fedsim import recipes as fedsim
from papers.flexcfl import communication as flexcfl_communication
from papers.flexcfl import eta_figures
from papers.flexcfl import figure_recipes as flexcfl_runs
from papers.flexcfl import figures as flexcfl_figures
from papers.flexcfl import page as flexcfl_page
from papers.flexcfl import recipes as flexcfl
from papers.panm import page as panm_page
from papers.panm import recipes as panm
from papers.planted_clusters import page as planted_page
from papers.planted_clusters import recipes as planted
from papers.recipe import Cell, measure
from papers.reproduction_marks import ComparedNumber, Results
from papers.result_store import Job, Measure, job_of

Comparison = Callable[[Results], list[ComparedNumber]]


@dataclass(frozen=True)
class Table:
    """A table or a figure of a paper. ``without_recipe``: how many of its numbers no run here can
    reproduce, by the reason. ``same_runs``: the table whose runs it reads, where it has none of its
    own."""

    name: str
    title: str
    statistic: str
    rule: str
    jobs: tuple[Job, ...]
    compare: Comparison
    section: Callable[[Results], str] | None = None
    also: tuple[str, ...] = ()
    without_recipe: Mapping[str, int] = field(default_factory=dict)
    same_runs: str = ""
    evidence: Evidence = field(default_factory=Evidence)

    def numbers(self, results: Results) -> list[ComparedNumber]:
        """The published numbers beside ours; those that differ with their cause."""
        return explained(self.compare(results), self.evidence)


@dataclass(frozen=True)
class Paper:
    """A paper, or a subject: its store (``name``.jsonl), its part of the page, and its tables in
    their order there."""

    name: str
    heading: str
    tables: tuple[Table, ...]
    about: str = ""
    draw: Callable[[Results, Path], None] | None = None

    def jobs(self) -> list[Job]:
        """The jobs of all its tables, each once."""
        return [job for table in self.tables if not table.same_runs for job in table.jobs]


BEST = (
    "highest accuracy of a round in which all clients have a cluster, percent, mean over the seeds"
)
POINTS = "within 1.5 points of the paper"
NO_PAPERS_NUMBER = "no paper prints a number"
AGREEMENT = "adjusted Rand index in the last round"
ACCURACY = "accuracy in the last round, percent"
LAST_STORED_ACCURACY = "accuracy in the last round whose values are stored, percent"


def _cells(cells: Iterable[Cell], how: Measure = measure) -> tuple[Job, ...]:
    return tuple(job_of(cell, how) for cell in cells)


def _figures(jobs: Sequence[Job], figure: Figure, unit: str) -> Comparison:
    """A figure of each job, beside no published number."""
    number_of = accuracy_numbers.figure_of_job
    return lambda results: [number_of(job, results, figure, unit) for job in jobs]


def _ends(jobs: Sequence[Job], figure: str, unit: str, factor: int = 1) -> Comparison:
    """The last value of each curve of ``figure``, beside no published number."""
    number_of = accuracy_numbers.last_of_curve
    return lambda results: [number_of(job, results, figure, unit, factor) for job in jobs]


PAIR_JOBS = _cells(fedgroup_runs.FIGURE_5, fedgroup_runs.measure_pairs)
PLANE_JOBS = _cells(fedsim.FIGURE_4, fedsim.measure)
LARGEST = "% of the clients in the largest cluster"


def _planted(name: str, title: str, *panels: str, section: Callable[[Results], str]) -> Table:
    jobs = planted.jobs(*panels)
    return Table(
        f"planted-{name}",
        f"Planted clusters: {title}",
        AGREEMENT,
        NO_PAPERS_NUMBER,
        jobs,
        _ends(jobs, "ari", "ARI"),
        section,
    )


def _panm(
    name: str, title: str, *panels: str, section: Callable[[Results], str] | None = None
) -> Table:
    jobs = panm.jobs(*panels)
    return Table(
        f"panm-{name}",
        f"PANM and peers: {title}",
        ACCURACY,
        NO_PAPERS_NUMBER,
        jobs,
        _ends(jobs, "accuracy", "%", 100),
        section,
    )


def _curves(
    name: str, title: str, cells: Sequence[Cell], section: Callable[[Results], str], *also: str
) -> Table:
    jobs = _cells(cells, curves.measure)
    return Table(
        name,
        title,
        LAST_STORED_ACCURACY,
        NO_PAPERS_NUMBER,
        jobs,
        _ends(jobs, "accuracy", "%", 100),
        section,
        also,
    )


FEDGROUP = (
    Table(
        "fedgroup-table3",
        "Table III: methods on MNIST, FEMNIST, Synthetic(1,1)",
        BEST,
        POINTS,
        (*_cells(fedgroup.TABLE_III), *_cells(sent140.CELLS, sent140.measure)),
        lambda results: accuracy_numbers.best_accuracies(results, fedgroup_page.CELLS_III),
        fedgroup_page.table_iii,
    ),
    Table(
        "fedgroup-table1",
        "Table I: FedAvg on MNIST by classes per client",
        "discrepancy over the rounds, best and median accuracy, rounds to 85%",
        accuracy_numbers.RULE_BY_CLASSES,
        _cells(fedgroup.TABLE_I),
        lambda results: accuracy_numbers.by_classes(
            results, fedgroup_page.PUBLISHED_I, "discrepancy"
        ),
        fedgroup_page.table_i,
    ),
    Table(
        "fedgroup-femnist-candidates",
        "FEMNIST-MCLR on candidates for the authors' file",
        BEST,
        POINTS,
        _cells(candidate_recipes.CELLS),
        lambda results: accuracy_numbers.best_accuracies(results, candidate_recipes.CELLS),
        fedgroup_page.candidates,
    ),
    _curves(
        "fedgroup-figure1",
        "Fig. 1: accuracy and discrepancy over the rounds, by classes per client",
        fedgroup_runs.FIGURE_1,
        fedgroup_figures.BY_CLASSES.section,
    ),
    _curves(
        "fedgroup-figure3",
        "Figs. 3 and 4: accuracy over the rounds, and the auxiliary global model",
        (*fedgroup_runs.FIGURE_3, *fedgroup_runs.FIGURE_4),
        fedgroup_figures.section,
        "fedgroup-figure4",
    ),
    Table(
        "fedgroup-figure5",
        "Fig. 5: distances of clients by all cosines and by three directions",
        "correlation over all pairs of clients",
        NO_PAPERS_NUMBER,
        PAIR_JOBS,
        _figures(PAIR_JOBS, lambda run: run["correlation"], "correlation"),
    ),
)
FLEXCFL = (
    Table(
        "flexcfl-table3",
        "Table III: methods without a shift",
        BEST,
        POINTS,
        _cells(flexcfl_page.CELLS_III),
        lambda results: accuracy_numbers.best_accuracies(results, flexcfl_page.CELLS_III),
        flexcfl_page.table_iii,
        also=("flexcfl-figure3",),
    ),
    Table(
        "flexcfl-table4",
        "Table IV: methods under data shift",
        BEST,
        POINTS,
        _cells(flexcfl_page.CELLS_IV),
        lambda results: accuracy_numbers.best_accuracies(results, flexcfl_page.CELLS_IV),
        flexcfl_page.table_iv,
        also=("flexcfl-figure4",),
        evidence=Evidence(flexcfl.READINGS_IV, flexcfl.AUTHORS_CODE_IV),
    ),
    Table(
        "flexcfl-figure6",
        "Fig. 6: communication of 300 rounds",
        "bytes over FedAvg's, counted by the ledger",
        "within 2% of the ratio that the text prints (a margin of ours)",
        _cells(flexcfl.FIGURE_6),
        flexcfl_communication.relative_bytes,
        flexcfl_page.figure_6,
    ),
    Table(
        "flexcfl-table1",
        "Table I: FedAvg on MNIST by classes per client",
        "distance over the rounds, best and median accuracy, rounds to 85%",
        accuracy_numbers.RULE_BY_CLASSES,
        _cells(flexcfl.TABLE_I),
        lambda results: accuracy_numbers.by_classes(results, flexcfl.TABLE_I_PUBLISHED, "distance"),
        flexcfl_page.table_i,
    ),
    _curves(
        "flexcfl-figure1",
        "Fig. 1: accuracy and discrepancy over the rounds, by classes per client",
        flexcfl_runs.FIGURE_1,
        flexcfl_figures.BY_CLASSES.section,
    ),
    _curves(
        "flexcfl-figure3-curves",
        "Fig. 3: losses and discrepancies over the rounds, and eta_g",
        flexcfl_runs.FIGURE_3,
        eta_figures.figure_3,
    ),
    _curves(
        "flexcfl-figure5",
        "Fig. 5: eta_g under swap part",
        flexcfl_runs.FIGURE_5,
        eta_figures.figure_5,
    ),
)
GAIN = (
    "points of accuracy gained over the baseline, summed over rounds 0 to T and divided by T, "
    "mean over the seeds"
)
FEDSIM = (
    Table(
        "fedsim-table4",
        "Table 4: what FedSim gains on real data",
        GAIN,
        POINTS,
        _cells(fedsim.CELLS_4, fedsim.measure),
        lambda results: fedsim_numbers.improvements(results, fedsim.TABLE_4),
        fedsim_page.table_4,
        also=("fedsim-figure3", "fedsim-figure5", "fedsim-figure7"),
        without_recipe={"Fed-MEx (only its test part, 250 samples of 1,184, is public)": 2},
    ),
    Table(
        "fedsim-table7",
        "Table 7: what FedSim gains on synthetic data",
        GAIN,
        POINTS,
        _cells(fedsim.CELLS_7, fedsim.measure),
        lambda results: fedsim_numbers.improvements(
            results, {**fedsim_page.SEVEN, **fedsim_page.SEVEN_UNMATCHED}
        ),
        fedsim_page.table_7,
        also=("fedsim-figure9",),
    ),
    Table(
        "fedsim-table6",
        "Table 6: what FedSim gains with other networks",
        GAIN,
        POINTS,
        _cells(networks.CELLS, networks.measure),
        networks.improvements,
        fedsim_page.table_6,
        also=("fedsim-figure6",),
        without_recipe={"Fed-MEx (only its test part, 250 samples of 1,184, is public)": 2},
    ),
    Table(
        "fedsim-figure4",
        "Figure 4: all clients' gradients in two dimensions",
        "two principal components, in ten clusters",
        NO_PAPERS_NUMBER,
        PLANE_JOBS,
        _figures(
            PLANE_JOBS,
            lambda run: 100 * max(Counter(run["clusters"]).values()) / len(run["clusters"]),
            LARGEST,
        ),
    ),
    Table(
        "fedsim-figure8",
        "Figure 8: principal components of the gradients",
        "components that keep 95% of the variance, mean over the seeds",
        "between the paper's 4 and 15",
        _cells(fedsim.FIGURE_8, fedsim.measure),
        fedsim_numbers.components,
        fedsim_page.figures,
    ),
    Table(
        "fedsim-figure10",
        "Figure 10: the non-IID index by alpha and beta",
        "mean PNI over the draws, at beta 0, 0.5 and 1",
        "grows with beta, which is what the paper says of it (it prints no number)",
        _cells(fedsim.FIGURE_10, fedsim.measure),
        fedsim_numbers.heterogeneity,
    ),
)
ATHENA = (
    Table(
        "athena-eps",
        "SBRC: ranges of eps that find the clusters",
        "range of eps in which DBSCAN finds the true clusters, by local epochs",
        "the two ranges have an eps in common (our rule)",
        _cells(athena.CELLS_EPS, athena.measure),
        athena_numbers.eps,
        athena_page.eps,
    ),
    Table(
        "athena-figure1",
        "Figure 1: a model for each cluster",
        "accuracy by cluster, or the gain over one model, in the last round, percent",
        f"{POINTS}; 'more than' a number: above it",
        _cells(athena.FIGURE_1, athena.measure),
        athena_numbers.by_cluster,
        athena_page.figure_1,
        without_recipe={"400 rounds of a convolutional network (a recipe for 40)": 9},
    ),
    Table(
        "athena-figure2",
        "Figures 2 to 4: detectors combined",
        "accuracy of the combined detectors in the last round, percent; 5 classes: what they gain "
        "over FedAvg",
        f"{POINTS}; 'above both': above FedAvg",
        _cells(athena.FIGURE_2, athena.measure),
        athena_numbers.combined_detectors,
        athena_page.figure_2,
        also=("athena-figure3", "athena-figure4"),
        without_recipe={"200 rounds of convolutional networks (a recipe for 40 or 12)": 8},
    ),
    Table(
        "athena-table1",
        "Table 1: bytes until convergence",
        "share of FedAvg's bytes that is saved, percent",
        "arithmetic: from the paper's own epochs to the printed digit (nothing was trained); "
        "within 1.5 from our runs",
        _cells(athena.FIGURE_2, athena.measure),
        athena_numbers.table_1,
        athena_page.table_1,
        same_runs="athena-figure2",
    ),
)
PLANTED = (
    _planted(
        "found",
        "finding the true clusters",
        "found",
        "glorot",
        "thresholds",
        section=planted_page.found_table,
    ),
    _planted(
        "breaks", "harder tasks", "images", "clusters", "participation", section=planted_page.harder
    ),
    _planted("swapped", "detection of swapped data", "swapped", section=planted_page.moving),
)
PANM = (
    _panm("compared", "methods side by side", "compared", section=panm_page.side_by_side),
    _panm("federations", "other federations", "federations", section=panm_page.others),
    _panm("breaks", "fewer images, more clusters, another alpha", "images", "clusters", "alpha"),
    _panm("absent", "peers that are missing", "absent", section=panm_page.harder),
)
ADVISE = (
    Table(
        "advise-clusters",
        "Advice: the number of clusters",
        "number of clusters that is named, where the true one is known",
        "the true number from at least nine of ten seeds (our promise)",
        advise.jobs(),
        advise_page.compare_numbers,
        advise_page.section,
    ),
)
PAPERS = {
    paper.name: paper
    for paper in (
        Paper("fedgroup", "FedGroup (arXiv 2010.06870)", FEDGROUP, draw=fedgroup_figures.draw),
        Paper("flexcfl", "FlexCFL (arXiv 2108.09749)", FLEXCFL, draw=flexcfl_figures.draw),
        Paper(
            "fedsim", "FedSim (Neurocomputing 2022)", FEDSIM, fedsim_page.ABOUT, fedsim_figures.draw
        ),
        Paper(
            "athena",
            "Hierarchical clustering and ATHENA-FL (SBRC 2022, CoUrb 2023)",
            ATHENA,
            athena_page.ABOUT,
            athena_figures.draw,
        ),
        Paper(
            "planted",
            "Planted clusters: which methods find them",
            PLANTED,
            planted_page.ABOUT,
            planted_page.draw,
        ),
        Paper("advise", "Advice: the number of clusters", ADVISE),
        Paper("peers", "PANM: peers without a server", PANM, panm_page.ABOUT, panm_page.draw),
    )
}


def tables() -> dict[str, tuple[Paper, Table]]:
    """All tables by name."""
    return {table.name: (paper, table) for paper in PAPERS.values() for table in paper.tables}
