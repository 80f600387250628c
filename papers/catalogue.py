"""Every table and figure that can be reproduced: its runs, its comparison with the paper, its part
of a page.

A new table is one entry here. ``fedkin reproduce``, ``python -m papers`` and the pages
docs/results*.md use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from papers import accuracy_numbers, curves
from papers.accuracy_numbers import Figure
from papers.advise import page as advise_page
from papers.advise import recipes as advise
from papers.athena import figures as athena_figures
from papers.athena import numbers as athena_numbers
from papers.athena import page as athena_page
from papers.athena import recipes as athena
from papers.fedgroup import candidate_recipes
from papers.fedgroup import figure_recipes as fedgroup_runs
from papers.fedgroup import figures as fedgroup_figures
from papers.fedgroup import page as fedgroup_page
from papers.fedgroup import recipes as fedgroup
from papers.fedgroup import sent140_recipes as sent140
from papers.fedsim import figures as fedsim_figures
from papers.fedsim import network_recipes as networks
from papers.fedsim import numbers as fedsim_numbers
from papers.fedsim import objective_recipes as fedsim_objectives
from papers.fedsim import page as fedsim_page
from papers.fedsim import recipes as fedsim
from papers.fedsim import search_recipes as fedsim_search
from papers.fedsim import similarity_recipes as fedsim_similarity
from papers.flexcfl import communication as flexcfl_communication
from papers.flexcfl import figure_recipes as flexcfl_runs
from papers.flexcfl import figures as flexcfl_figures
from papers.flexcfl import hypothesis_recipes as flexcfl_hypotheses
from papers.flexcfl import page as flexcfl_page
from papers.flexcfl import recipes as flexcfl
from papers.flexcfl import weightings
from papers.panm import numbers as panm_numbers
from papers.panm import page as panm_page
from papers.panm import recipes as panm
from papers.paper_tables import Comparison, Paper, Table
from papers.planted_clusters import page as planted_page
from papers.planted_clusters import recipes as planted
from papers.recipe import Cell, measure
from papers.result_store import Job, Measure, job_of

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
    """A figure of each job, without a published number."""
    number_of = accuracy_numbers.figure_of_job
    return lambda results: [number_of(job, results, figure, unit) for job in jobs]


def _ends(jobs: Sequence[Job], figure: str, unit: str, factor: int = 1) -> Comparison:
    """The last value of each curve of ``figure``, without a published number."""
    number_of = accuracy_numbers.last_of_curve
    return lambda results: [number_of(job, results, figure, unit, factor) for job in jobs]


PAIR_JOBS = _cells(fedgroup_runs.FIGURE_5, fedgroup_runs.measure_pairs)
PLANE_JOBS = _cells(fedsim.FIGURE_4, fedsim.measure)
LARGEST = "% of the clients in the largest cluster"


def _planted(name: str, title: str, *panels: str) -> Table:
    jobs = planted.jobs(*panels)
    return Table(
        name=f"planted-{name}",
        title=f"Planted clusters: {title}",
        statistic=AGREEMENT,
        rule=NO_PAPERS_NUMBER,
        jobs=jobs,
        compare=_ends(jobs, "ari", "ARI"),
    )


def _panm(name: str, title: str, jobs: tuple[Job, ...]) -> Table:
    return Table(
        name=f"panm-{name}",
        title=f"PANM and peers: {title}",
        statistic=ACCURACY,
        rule=NO_PAPERS_NUMBER,
        jobs=jobs,
        compare=_ends(jobs, "accuracy", "%", 100),
        more=lambda results: panm_numbers.of_neighbours(results, jobs),
    )


def _curves(
    name: str,
    title: str,
    cells: Sequence[Cell],
    also: tuple[str, ...] = (),
) -> Table:
    jobs = _cells(cells, curves.measure)
    return Table(
        name=name,
        title=title,
        statistic=LAST_STORED_ACCURACY,
        rule=NO_PAPERS_NUMBER,
        jobs=jobs,
        compare=_ends(jobs, "accuracy", "%", 100),
        also=also,
    )


FEDGROUP = (
    Table(
        name="fedgroup-table3",
        title="Table III: methods on MNIST, FEMNIST, Synthetic(1,1)",
        statistic=BEST,
        rule=POINTS,
        jobs=(*_cells(fedgroup.TABLE_III), *_cells(sent140.CELLS, sent140.measure)),
        compare=lambda results: accuracy_numbers.best_accuracies(results, fedgroup_page.CELLS_III),
    ),
    Table(
        name="fedgroup-table1",
        title="Table I: FedAvg on MNIST by classes per client",
        statistic="discrepancy over the rounds, best and median accuracy, rounds to 85%",
        rule=accuracy_numbers.RULE_BY_CLASSES,
        jobs=_cells(fedgroup.TABLE_I),
        compare=lambda results: accuracy_numbers.by_classes(
            results, fedgroup_page.PUBLISHED_I, "discrepancy"
        ),
    ),
    Table(
        name="fedgroup-femnist-candidates",
        title="FEMNIST-MCLR on candidates for the authors' file",
        statistic=BEST,
        rule=POINTS,
        jobs=_cells(candidate_recipes.CELLS),
        compare=lambda results: accuracy_numbers.best_accuracies(results, candidate_recipes.CELLS),
    ),
    _curves(
        name="fedgroup-figure1",
        title="Fig. 1: accuracy and discrepancy over the rounds, by classes per client",
        cells=fedgroup_runs.FIGURE_1,
    ),
    _curves(
        name="fedgroup-figure3",
        title="Figs. 3 and 4: accuracy over the rounds, and the auxiliary global model",
        cells=(*fedgroup_runs.FIGURE_3, *fedgroup_runs.FIGURE_4),
        also=("fedgroup-figure4",),
    ),
    Table(
        name="fedgroup-figure5",
        title="Fig. 5: distances of clients by all cosines and by three directions",
        statistic="R² of a line through all pairs of clients",
        rule=NO_PAPERS_NUMBER,
        jobs=PAIR_JOBS,
        compare=_figures(PAIR_JOBS, lambda run: run["correlation"] ** 2, "R²"),
    ),
)
FLEXCFL = (
    Table(
        name="flexcfl-table3",
        title="Table III: methods without a shift",
        statistic=BEST,
        rule=POINTS,
        jobs=_cells(flexcfl_page.CELLS_III),
        compare=lambda results: accuracy_numbers.best_accuracies(results, flexcfl_page.CELLS_III),
        also=("flexcfl-figure3",),
    ),
    Table(
        name="flexcfl-table4",
        title="Table IV: methods under data shift",
        statistic=BEST,
        rule=POINTS,
        jobs=_cells(flexcfl_page.CELLS_IV),
        compare=flexcfl_page.numbers_iv,
        also=("flexcfl-figure4",),
    ),
    flexcfl_hypotheses.TABLE,
    Table(
        name="flexcfl-figure6",
        title="Fig. 6: communication of 300 rounds",
        statistic="bytes over FedAvg's, counted by the ledger",
        rule="within 2% of the ratio that the text prints (a margin of ours)",
        jobs=_cells(flexcfl.FIGURE_6),
        compare=flexcfl_communication.relative_bytes,
    ),
    Table(
        name="flexcfl-table1",
        title="Table I: FedAvg on MNIST by classes per client",
        statistic="distance over the rounds, best and median accuracy, rounds to 85%",
        rule=accuracy_numbers.RULE_BY_CLASSES,
        jobs=_cells(flexcfl.TABLE_I),
        compare=lambda results: accuracy_numbers.by_classes(
            results, flexcfl.TABLE_I_PUBLISHED, "distance"
        ),
    ),
    _curves(
        name="flexcfl-figure1",
        title="Fig. 1: accuracy and discrepancy over the rounds, by classes per client",
        cells=flexcfl_runs.FIGURE_1,
    ),
    _curves(
        name="flexcfl-figure3-curves",
        title="Fig. 3: losses and discrepancies over the rounds, and eta_g",
        cells=flexcfl_runs.FIGURE_3,
    ),
    _curves(
        name="flexcfl-figure5",
        title="Fig. 5: eta_g under swap part",
        cells=flexcfl_runs.FIGURE_5,
    ),
)
GAIN = (
    "points of accuracy gained over the baseline, summed over rounds 0 to T and divided by T, "
    "mean over the seeds"
)
FEDSIM = (
    fedsim_similarity.TABLE,
    Table(
        name="fedsim-table4",
        title="Table 4: gains of FedSim on real data",
        statistic=GAIN,
        rule=POINTS,
        jobs=_cells(fedsim.CELLS_4, fedsim.measure),
        compare=lambda results: fedsim_numbers.improvements(results, fedsim.TABLE_4),
        also=("fedsim-figure3", "fedsim-figure5", "fedsim-figure7"),
    ),
    Table(
        name="fedsim-table7",
        title="Table 7: gains of FedSim on synthetic data",
        statistic=GAIN,
        rule=POINTS,
        jobs=_cells(fedsim.CELLS_7, fedsim.measure),
        compare=lambda results: fedsim_numbers.improvements(
            results, {**fedsim_page.SEVEN, **fedsim_page.SEVEN_UNMATCHED}
        ),
        also=("fedsim-figure9",),
    ),
    Table(
        name="fedsim-table6",
        title="Table 6: gains of FedSim with other networks",
        statistic=GAIN,
        rule=POINTS,
        jobs=_cells(networks.CELLS, networks.measure),
        compare=networks.improvements,
        also=("fedsim-figure6",),
    ),
    Table(
        name="fedsim-figure4",
        title="Figure 4: all clients' gradients in two dimensions",
        statistic="two principal components, in ten clusters",
        rule=NO_PAPERS_NUMBER,
        jobs=PLANE_JOBS,
        compare=_figures(
            PLANE_JOBS,
            lambda run: 100 * max(Counter(run["clusters"]).values()) / len(run["clusters"]),
            LARGEST,
        ),
    ),
    Table(
        name="fedsim-figure8",
        title="Figure 8: principal components of the gradients",
        statistic="components that keep 95% of the variance, mean over the seeds",
        rule="between the paper's 4 and 15",
        jobs=_cells(fedsim.FIGURE_8, fedsim.measure),
        compare=fedsim_numbers.components,
    ),
    Table(
        name="fedsim-figure10",
        title="Figure 10: the non-IID index by alpha and beta",
        statistic="mean PNI over the draws, at beta 0, 0.5 and 1",
        rule="grows with beta, which is what the paper says of it (it prints no number)",
        jobs=_cells(fedsim.FIGURE_10, fedsim.measure),
        compare=fedsim_numbers.heterogeneity,
    ),
    fedsim_objectives.TABLE,
    fedsim_search.TABLE,
)
ATHENA = (
    Table(
        name="athena-eps",
        title="SBRC: ranges of eps that find the clusters",
        statistic="range of eps in which DBSCAN finds the true clusters, by local epochs",
        rule="the two ranges have an eps in common (our rule)",
        jobs=_cells(athena.CELLS_EPS, athena.measure),
        compare=athena_numbers.eps,
    ),
    Table(
        name="athena-figure1",
        title="Figure 1: a model for each cluster",
        statistic="accuracy by cluster, or the gain over one model, in the last round, percent",
        rule=f"{POINTS}; 'more than' a number: above it",
        jobs=_cells(athena.FIGURE_1, athena.measure),
        compare=athena_numbers.by_cluster,
        without_recipe=athena_numbers.SHORTENED_FIGURE_1,
    ),
    Table(
        name="athena-figure2",
        title="Figures 2 to 4: detectors combined",
        statistic=(
            "accuracy of the combined detectors and of FedAvg's networks in the last round, "
            "percent; 5 classes: what the detectors gain over MobileNet"
        ),
        rule=f"{POINTS}; 'above both': above both networks",
        jobs=_cells(athena.FIGURE_2, athena.measure),
        compare=athena_numbers.combined_detectors,
        also=("athena-figure3", "athena-figure4"),
        without_recipe=athena_numbers.SHORTENED_FIGURE_2,
    ),
    Table(
        name="athena-table1",
        title="Table 1: bytes until convergence",
        statistic="share of FedAvg's bytes that is saved, percent",
        rule="arithmetic: from the paper's own epochs to the printed digit (nothing was trained); "
        "within 1.5 from our runs",
        jobs=_cells(athena.FIGURE_2, athena.measure),
        compare=athena_numbers.table_1,
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
    ),
    _planted("breaks", "harder tasks", "images", "clusters", "participation"),
    _planted("swapped", "detection of swapped data", "swapped"),
)
PANM = (
    _panm("compared", "methods side by side", panm.jobs("compared")),
    _panm("federations", "federations", panm.of_federations()),
    _panm(
        "breaks",
        "fewer images, more clusters, another alpha",
        panm.jobs("images", "clusters", "alpha"),
    ),
    _panm("absent", "peers that are missing", panm.jobs("absent")),
)
ADVISE = (
    Table(
        name="advise-clusters",
        title="Advice: the number of clusters",
        statistic="number of clusters that is named, where the true one is known",
        rule="the true number from at least nine of ten seeds (our promise)",
        jobs=advise.jobs(),
        compare=advise_page.compare_numbers,
    ),
)
PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            name="fedgroup",
            heading="FedGroup (arXiv 2010.06870)",
            tables=FEDGROUP,
            parts=fedgroup_page.PARTS,
            draw=fedgroup_figures.draw,
            read_next="[FedGroup](papers/fedgroup.md): how the method works",
        ),
        Paper(
            name="flexcfl",
            heading="FlexCFL (arXiv 2108.09749)",
            tables=FLEXCFL,
            parts={
                **flexcfl_page.OF_SHIFTS,
                "flexcfl-weightings": weightings.table,
                "flexcfl-detected": flexcfl_page.detected,
                "flexcfl-tested": flexcfl_page.hypotheses,
                "flexcfl-bytes": flexcfl_page.communication,
            },
            draw=flexcfl_figures.draw,
            read_next="[FlexCFL](papers/flexcfl.md): how the method works",
        ),
        Paper(
            name="fedsim",
            heading="FedSim (Neurocomputing 2022)",
            tables=FEDSIM,
            parts=fedsim_page.PARTS,
            draw=fedsim_figures.draw,
            read_next="[FedSim](papers/fedsim.md): how the method works",
        ),
        Paper(
            name="athena",
            heading="Hierarchical clustering and ATHENA-FL (SBRC 2022, CoUrb 2023)",
            tables=ATHENA,
            parts={
                "athena-ranges": athena_page.ranges,
                "athena-found": athena_page.clusters_found,
                "athena-clusters": athena_page.per_cluster,
                "athena-detectors": athena_page.combined_detectors,
            },
            draw=athena_figures.draw,
            read_next="[Hierarchical clustering and ATHENA-FL](papers/athena.md): "
            "how the methods work",
        ),
        Paper(
            name="planted",
            heading="Planted clusters: which methods find them",
            tables=PLANTED,
            parts={
                "planted-methods": planted_page.found_table,
                "planted-shifts": planted_page.detected_swaps,
            },
            draw=planted_page.draw,
            read_next="[Scenarios](scenarios.md): plant clusters and shifts in data",
        ),
        Paper(
            name="advise",
            heading="Advice: the number of clusters",
            tables=ADVISE,
            parts={"advise-section": advise_page.section},
            page_name="advice",
            read_next="[Compare, report, advise](compare.md): how to get advice",
        ),
        Paper(
            name="peers",
            heading="PANM: peers without a server",
            tables=PANM,
            parts={
                "panm-methods": panm_page.methods_side_by_side,
                "panm-others": panm_page.federations,
                "panm-alphas": panm_page.other_alphas,
                "panm-missing": panm_page.missing_peers,
            },
            draw=panm_page.draw,
            page_name="panm",
            read_next="[PANM](papers/panm.md): how the method works",
        ),
    )
}


def tables() -> dict[str, tuple[Paper, Table]]:
    """All tables by name."""
    return {table.name: (paper, table) for paper in PAPERS.values() for table in paper.tables}
