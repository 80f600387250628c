"""Claims of the summary of hierarchical clustering and ATHENA-FL. Figs. 1 to 4 have 200 and 400
rounds, and our recipes 12 to 100, so those runs are no evidence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from papers.athena.published import FOUND_PUBLISHED
from papers.athena.recipes import (
    ATHENA,
    CLUSTERINGS,
    COMBINED,
    HALF,
    MOBILENET,
    MOBILENET_V2,
    PER_CLUSTER,
    SPLITS,
    TITLES,
)
from papers.claims.claim import SKIPPED, Claim, Part, reason_against
from papers.claims.rules import ABOVE, Rule, Verdict
from papers.claims.samples import (
    PERCENT,
    BySeed,
    Sample,
    difference,
    figures_by_seed,
    lowest,
    sample_of,
)
from papers.recipe import Setting
from papers.reproduction_marks import Results

PAPER = "ATHENA-FL"
TABLE = "eps"
EPOCHS = "10"  # local epochs of the clustering round (SBRC 2022)
SETTINGS = {split: CLUSTERINGS[split, "mobilenet_v2"] for split in SPLITS}
CLIENTS = 10


def finds_true_clusters(labels: Sequence[int], clusters: int) -> bool:
    """Whether a clustering is the true one, whatever its labels; noise is a mistake.

    Args:
        labels: of ten clients; -1 is noise.
        clusters: the true number: neighbouring clients share a cluster.
    """
    truth = [client * clusters // CLIENTS for client in range(CLIENTS)]
    pairs = set(zip(labels, truth, strict=True))
    return -1 not in labels and len(pairs) == len(set(labels)) == clusters


def splits_found(results: Results, algorithm: str) -> Sample:
    """Of the three splits of the data, how many an algorithm clusters rightly: for each seed that
    has all three.

    Args:
        results: stored runs.
        algorithm: ``dbscan`` or ``optics``.
    """
    found = []
    for setting in SETTINGS.values():
        labels = figures_by_seed(results, TABLE, setting.row, EPOCHS, figure=algorithm)
        found.append(
            {seed: finds_true_clusters(of, setting.clusters) for seed, of in labels.items()}
        )
    shared = set.intersection(*(set(of_split) for of_split in found))
    counts = {seed: float(sum(of_split[seed] for of_split in found)) for seed in sorted(shared)}
    return sample_of(counts, next(iter(SETTINGS.values())))


def _of_three(sample: Sample) -> Verdict:
    if sample.mean == len(SETTINGS):
        return Verdict.REPRODUCED
    return Verdict.PARTLY if sample.mean > 0 else Verdict.NOT


def _fewer_than_three(sample: Sample) -> Verdict:
    return Verdict.REPRODUCED if sample.mean < len(SETTINGS) else Verdict.NOT


def printed_splits_found(place: int) -> float:
    """Of the three splits, in how many SBRC 2022 prints the true number of clusters.

    Args:
        place: of the algorithm: 0 is DBSCAN, 1 is OPTICS.
    """
    return float(sum(FOUND_PUBLISHED[split][place] == SPLITS[split][1] for split in SPLITS))


def _clustering(name: str, printed: float, rule: Rule) -> Part:
    algorithm = name.lower()
    return Part(
        label=name,
        rows=tuple(setting.row for setting in SETTINGS.values()),
        columns=(EPOCHS,),
        sample=lambda results: splits_found(results, algorithm),
        rule=rule,
        printed=printed,
        form=".0f",
    )


def _worst_cluster(setting: Setting) -> Part:
    """Accuracy of the worst cluster in the last round minus the one model's, in points."""
    clustered, one_model = HALF

    def sample(results: Results) -> Sample:
        clusters = figures_by_seed(results, "Fig. 1", setting.row, clustered, figure="clusters")
        curves = figures_by_seed(results, "Fig. 1", setting.row, one_model, figure="curve")
        worst = {seed: min(a for a in of if a is not None) for seed, of in clusters.items()}
        last = {seed: curve[-1] for seed, curve in curves.items()}
        return sample_of(difference(worst, last, PERCENT), setting)

    return Part(
        label="worst cluster",
        rows=(setting.row,),
        columns=(clustered, one_model),
        sample=sample,
        rule=ABOVE,
        barred=reason_against(setting),
    )


def _detectors(setting: Setting, label: str) -> Part:
    """Mean accuracy of the clients with the combined detectors, minus the best baseline's."""
    baselines = (MOBILENET, MOBILENET_V2)

    def accuracies(results: Results, column: str) -> BySeed:
        clients = figures_by_seed(results, "Fig. 2-4", setting.row, column, figure="clients")
        return {seed: mean(of_seed) for seed, of_seed in clients.items()}

    def sample(results: Results) -> Sample:
        ours = accuracies(results, ATHENA)
        theirs = [accuracies(results, column) for column in baselines]
        return lowest([difference(ours, other, PERCENT) for other in theirs], setting)

    return Part(
        label=label,
        rows=(setting.row,),
        columns=(ATHENA, *baselines),
        sample=sample,
        rule=ABOVE,
        barred=reason_against(setting),
    )


CLAIMS = (
    Claim(
        paper=PAPER,
        where="1; SBRC",
        quote=(
            f"DBSCAN can identify homogeneous and heterogeneous data distributions{SKIPPED}"
            "outperforms the Ordering Points"
        ),
        table="athena-eps",
        measure="splits found",
        parts=(
            _clustering(
                "DBSCAN",
                printed_splits_found(0),
                Rule("DBSCAN finds the clusters of all splits (of some: partly)", _of_three),
            ),
            _clustering(
                "OPTICS",
                printed_splits_found(1),
                Rule("OPTICS misses those of a split", _fewer_than_three),
            ),
        ),
    ),
    Claim(
        paper=PAPER,
        where="3.1",
        quote=(
            "even the low performance of the first cluster is higher than that obtained when using "
            "the traditional proposal"
        ),
        table="athena-figure1",
        measure="worst cluster's lead",
        parts=(_worst_cluster(PER_CLUSTER["5 classes"]),),
        evidence="clusters 56±3, 63±3",
    ),
    Claim(
        paper=PAPER,
        where="3.2",
        quote="ATHENA-FL provides the best accuracy results for all datasets in this setting",
        table="athena-figure2",
        measure="lead",
        parts=tuple(
            _detectors(COMBINED[data, "5 classes"], title) for data, title in TITLES.items()
        ),
        evidence="+10, +10.9 over MobileNet",
    ),
)
