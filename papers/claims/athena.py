"""Claims of the summary of hierarchical clustering and ATHENA-FL. Figs. 1 to 4 have 200 and 400
rounds, and our recipes 12 to 100, so those runs are no evidence."""

from __future__ import annotations

from statistics import mean

from papers.athena.numbers import finds_true_clusters, saved_bytes
from papers.athena.published import ECONOMY_PUBLISHED, FOUND_PUBLISHED, GAIN_OF_BEST_CLUSTERS
from papers.athena.recipes import (
    ATHENA,
    CLUSTERINGS,
    COMBINED,
    GIVEN,
    HALF,
    MOBILENET,
    MOBILENET_V2,
    PER_CLUSTER,
    SPLITS,
    TITLES,
)
from papers.claims.claim import SKIPPED, Claim, Part, reason_against
from papers.claims.rules import ABOVE, Rule, Verdict, gain
from papers.claims.samples import (
    PERCENT,
    BySeed,
    Sample,
    difference,
    lowest,
    sample_of,
)
from papers.recipe import Setting
from papers.reproduction_marks import Results, figures_by_seed

PAPER = "ATHENA-FL"
TABLE = "eps"
EPOCHS = "10"  # local epochs of the clustering round (SBRC 2022)
SETTINGS = {split: CLUSTERINGS[split, "mobilenet_v2"] for split in SPLITS}


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
        label="5 classes, CIFAR-10",
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


def _over_one_model(setting: Setting) -> Part:
    """Accuracy of all clients with a model for each cluster, minus the one model's, in points."""

    def sample(results: Results) -> Sample:
        ours, theirs = (
            {
                seed: curve[-1]
                for seed, curve in figures_by_seed(
                    results, "Fig. 1", setting.row, column, figure="curve"
                ).items()
            }
            for column in HALF
        )
        return sample_of(difference(ours, theirs, PERCENT), setting)

    return Part(
        label="2 classes, CIFAR-10",
        rows=(setting.row,),
        columns=tuple(HALF),
        sample=sample,
        rule=gain(GAIN_OF_BEST_CLUSTERS),
        printed=GAIN_OF_BEST_CLUSTERS,
        barred=reason_against(setting),
    )


def _saved(data: str, split: str, printed: float) -> Part:
    """Percent of MobileNet's bytes that the detectors save until convergence."""
    setting = COMBINED[data, split]

    def sample(results: Results) -> Sample:
        of_row = [m for m in results if m.get("row") == setting.row]
        by_seed = {}
        for seed in sorted({m["seed"] for m in of_row}):
            of_seed = [m for m in of_row if m["seed"] == seed]
            saved, _ = saved_bytes(of_seed, setting.row, MOBILENET)
            if saved is not None:
                by_seed[seed] = saved
        return sample_of(by_seed, setting)

    return Part(
        label=f"{TITLES[data]}, {split}",
        rows=(setting.row,),
        columns=(GIVEN, MOBILENET),
        sample=sample,
        rule=gain(printed),
        printed=printed,
        form=".1f",
        barred=reason_against(setting),
    )


CLAIMS = (
    Claim(
        paper=PAPER,
        where="1",
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
                Rule(
                    "all splits",
                    "DBSCAN finds the clusters of all splits (of some: partly)",
                    _of_three,
                ),
            ),
            _clustering(
                "OPTICS",
                printed_splits_found(1),
                Rule("fewer", "OPTICS misses those of a split", _fewer_than_three),
            ),
        ),
    ),
    Claim(
        paper=PAPER,
        where="abstract",
        quote="increasing its accuracy by approximately 16% on non-IID scenarios",
        table="athena-figure1",
        measure="clusters minus one model",
        parts=(_over_one_model(PER_CLUSTER["2 classes"]),),
    ),
    Claim(
        paper=PAPER,
        where="3.1",
        quote=(
            "even the low performance of the first cluster is higher than that obtained when using "
            "the traditional proposal"
        ),
        table="athena-figure1",
        measure="worst cluster minus one model",
        parts=(_worst_cluster(PER_CLUSTER["5 classes"]),),
        evidence="clusters 56±3 and 63±3, no number for one model",
    ),
    Claim(
        paper=PAPER,
        where="3.2",
        quote="ATHENA-FL provides the best accuracy results for all datasets in this setting",
        table="athena-figure2",
        measure="lead over the better network",
        parts=tuple(
            _detectors(COMBINED[data, "5 classes"], title) for data, title in TITLES.items()
        ),
        evidence="+10 and +10.9 over MobileNet on CIFAR-10 and MNIST",
    ),
    Claim(
        paper=PAPER,
        where="abstract",
        quote="reducing the number of transmitted bytes between 25% and 97%",
        table="athena-figure2",
        measure="% of MobileNet's bytes saved until convergence",
        parts=tuple(
            _saved(data, split, printed)
            for data, shares in ECONOMY_PUBLISHED.items()
            for split, printed in zip(("IID", "5 classes", "2 classes"), shares, strict=True)
        ),
        evidence="25.35 to 97.37",
    ),
)
