"""Numbers of the notes that no single cell has, from runs that are written down here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from fedkin.core.errors import ConfigError
from papers.advise.recipes import OTHERS, PLANTED
from papers.athena.recipes import (
    CALIBRATED,
    CLUSTERINGS,
    COMBINED,
    GIVEN,
    PER_CLUSTER,
    SMALL_CNN,
)
from papers.catalogue import PAPERS
from papers.note_numbers import NUMBERS, advise, athena, peers, planted
from papers.notes import PLACE, fill
from papers.number_text import NOT_RUN
from papers.panm.recipes import BY_ALPHA, PEERS, ROUNDS, in_federation
from papers.panm.recipes import Question as PeerQuestion
from papers.planted_clusters.recipes import GLOROT, RECOVERY, SWAPPED
from papers.results_page import TEXTS

Run = dict[str, Any]


@pytest.mark.parametrize("name", NUMBERS)
def test_without_runs_no_number_is_made_up(name: str) -> None:
    numbers = NUMBERS[name]([])
    assert numbers and set(numbers.values()) - {NOT_RUN} <= (
        {"14", "35 to 50"} if name == "advise" else set()
    )


@pytest.mark.parametrize("name", NUMBERS)
def test_each_number_is_quoted_in_a_text(name: str) -> None:
    texts = [path for path in TEXTS.rglob("*.md") if path.stem == name]
    quoted = {place for path in texts for place in PLACE.findall(path.read_text())}
    assert NUMBERS[name]([]).keys() - quoted == set()


def test_a_name_in_a_note_is_its_number_and_an_unknown_one_is_refused() -> None:
    assert fill("of {planted cases} cases", PAPERS["advise"], []) == "of 14 cases"
    with pytest.raises(
        ConfigError, match="unknown number 'planted case'; did you mean 'planted cases'"
    ):
        fill("{planted case}", PAPERS["advise"], [])
    with pytest.raises(ConfigError, match="unknown number"):
        fill("{gain}", PAPERS["flexcfl"], [])


def figure(table: str, row: str, column: str, curve: list[float], **more: Any) -> Run:
    common = {"seed": 0, "clients": [curve[-1]] * 2, "bytes": [[0, 0], [5, 3]]}
    return {"table": table, "row": row, "column": column, "curve": curve, **common, **more}


def test_the_lead_of_clusters_is_of_rounds_36_to_40() -> None:
    """A lead of 60 points in the last five of 41 rounds, and a run that is too short for it."""
    row = PER_CLUSTER["2 classes"].row
    runs = [
        figure("Fig. 1", row, "clustered", [0.2, *[0.8] * 35, *[0.9, 0.92, 0.88, 0.9, 0.95]]),
        figure("Fig. 1", row, "one model", [0.2, *[0.7] * 35, *[0.3, 0.32, 0.28, 0.3, 0.35]]),
    ]
    numbers = athena(runs)
    assert numbers["lead of clusters in rounds 36 to 40, 2 classes"] == "60"
    assert numbers["lead of clusters in rounds 36 to 40, 5 classes"] == NOT_RUN
    assert (numbers["clusters, 2 classes"], numbers["one model, 2 classes"]) == ("95.0", "35.0")
    short = [dict(run, curve=run["curve"][:37]) for run in runs]
    assert athena(short)["lead of clusters in rounds 36 to 40, 2 classes"] == NOT_RUN


def test_ranges_of_eps_and_found_clusters_are_counted() -> None:
    """Both algorithms cluster the IID clients rightly, DBSCAN the others too."""
    labels = {
        "IID": [0] * 10,
        "2 classes": [n // 2 for n in range(10)],
        "5 classes": [0] * 5 + [1] * 5,
    }
    ranges = {"IID": [0.01, 0.09], "2 classes": [0.02, 0.08], "5 classes": [0.005, 0.07]}
    runs = [
        {
            "table": "eps",
            "row": CLUSTERINGS[split, "mobilenet_v2"].row,
            "column": "10",
            "seed": 0,
            "dbscan": found,
            "optics": [0] * 10,
            "range": ranges[split],
        }
        for split, found in labels.items()
    ]
    numbers = athena(runs)
    assert numbers["eps, 10 epochs, MobileNetV2"] == "0.0200 to 0.0700"
    assert (numbers["DBSCAN finds"], numbers["OPTICS finds"]) == ("3", "1")


def test_rows_in_which_detectors_are_ahead_of_one_model_are_counted() -> None:
    """They are ahead on one data set, scaled on two of two; a third has no small CNN."""
    columns = (GIVEN, CALIBRATED, SMALL_CNN)
    rows = {
        ("mnist", "IID"): (0.9, 0.92, 0.8),
        ("mnist", "5 classes"): (0.7, 0.9, 0.8),
        ("cifar10", "IID"): (0.9, 0.9),
    }
    runs = [
        figure("Fig. 2-4", COMBINED[place].row, column, [0.1, accuracy])
        for place, accuracies in rows.items()
        for column, accuracy in zip(columns, accuracies, strict=False)
    ]
    numbers = athena(runs)
    shown = [numbers[name] for name in ("rows, detectors", "ahead, detectors", "ahead, scaled")]
    assert shown == ["2", "1", "2"]


def test_planted_runs_are_counted_where_the_clusters_are_the_true_ones() -> None:
    (question,) = (q for q in RECOVERY if q.method == "IFCA" and q.kind == "rotation")
    ends = [([0.5, 1.0, 1.0], 4), ([0.5, 0.5, 1.0], 4), ([1.0, 1.0, 1.0], 5), ([1.0, 1.0, 0.6], 4)]
    runs = [
        {**asdict(question), "seed": s, "ari": ari, "clusters_found": k}
        for s, (ari, k) in enumerate(ends)
    ]
    found = planted(runs)
    assert [found[f"IFCA: {what}"] for what in ("found", "runs", "latest round")] == ["2", "4", "2"]
    glorot = dict(runs[0], panel="glorot", model=GLOROT[0].model, kind=GLOROT[0].kind, ari=[0.5])
    assert planted([glorot])["IFCA, Glorot: not found"] == "1"
    swapped = [q for q in SWAPPED if q.method == "FlexCFL, label-blind"]
    recalls = zip(swapped, (0.24, 0.31), strict=True)
    moved = [{**asdict(q), "seed": 0, "shift_recall": recall} for q, recall in recalls]
    assert planted(moved)["FlexCFL, label-blind: recall"] == "24 to 31"


def of_peers(
    method: str,
    accuracy: float,
    precision: float,
    panel: str = "compared",
    seed: int = 0,
    **more: Any,
) -> Run:
    curves = {"accuracy": [accuracy] * 101, "neighbour_precision": [0.1] * 10 + [precision] * 91}
    question = asdict(PeerQuestion(panel, method, **more))
    return {
        **question,
        "seed": seed,
        **curves,
        "neighbour_recall": [0.8] * 101,
        "bytes": 2e6 * ROUNDS * PEERS,
    }


def test_peers_are_compared_at_the_end() -> None:
    runs = [
        of_peers("PANMGrad", 0.89, 1.0),
        of_peers("PANMGrad", 0.87, 0.99968, seed=1),
        of_peers("gossip", 0.66, 0),
        of_peers("PANMGrad", 0.5, 0.43, "images", images=10),
        of_peers("PANMGrad", 0.5, 0.36, "clusters", clusters=16),
    ]
    found = peers(runs)
    assert found["PANMGrad: accuracies"] == "87.0 to 89.0" and found["above gossip"] == "22"
    assert (found["PANMGrad: megabytes"], found["PANMGrad: recall"]) == ("2.0", "80")
    assert found["PANMGrad, 10 images: precision"] == "43"
    assert found["PANMLoss, 10 images: precision"] == NOT_RUN
    shares = [found[f"PANMGrad, 16 clusters: {name}"] for name in ("precision", "recall")]
    assert shares == ["36", "80"]


def test_panm_is_compared_with_the_oracle_on_the_other_federations() -> None:
    """By loss it is behind by 1 and 0 points, not counting the hardest federation and one without
    an oracle; by updates it falls behind by 40 points on CIFAR-10 with disjoint labels."""

    def three(by_updates: float, by_loss: float, precision: float, **more: Any) -> list[Run]:
        accuracies = {"PANMGrad": by_updates, "PANMLoss": by_loss, "oracle": 0.9}
        return [
            of_peers(method, a, precision, "federations", **more)
            for method, a in accuracies.items()
        ]

    near = three(0.88, 0.89, 1.0, kind="label_swap", clusters=2)
    far = three(0.50, 0.90, 0.7, base="cifar10", kind="disjoint_labels", clusters=5)
    without = three(0.10, 0.20, 0.1, base="fashion_mnist")[:2]
    hardest = three(0.80, 0.83, 0.1, base="cifar10", kind="label_swap", clusters=4)
    found = peers([*near, *far, *without, *hardest])
    assert found["PANMLoss: farthest behind the oracle"] == "1.0"
    worst = "PANMGrad, CIFAR-10, disjoint labels, 5 clusters"
    assert found[f"{worst}: behind the oracle"] == "40.0"
    assert found[f"{worst}: precision"] == "70"


def test_panm_by_alpha_is_compared_with_the_oracle_where_all_are_run() -> None:
    questions = [in_federation(place, "PANMGrad", 0.25) for place in BY_ALPHA]
    # In the last round; before that all are level with the oracle.
    ends = (0.89, 0.9, 0.88, 0.91, 0.9, 0.9, 0.9)
    runs = [
        of_peers(**asdict(question), accuracy=a, precision=1.0)
        for question, a in zip(questions, ends, strict=True)
    ]
    for run in runs:
        run["accuracy"][:-1] = [0.9] * 100
    oracles = [
        of_peers(**asdict(in_federation(place, "oracle")), accuracy=0.9, precision=1.0)
        for place in BY_ALPHA
    ]
    found = peers([*oracles, *runs])
    assert found["alpha 0.25: behind the oracle"] == "-1.0 to 2.0"
    assert found["alpha 0: behind the oracle"] == NOT_RUN
    assert peers([*oracles[:-1], *runs])["alpha 0.25: behind the oracle"] == NOT_RUN


def test_advice_counts_the_right_estimates_and_leaves_out_where_nothing_is_gained() -> None:
    case = PLANTED[0]
    estimates = [(case.clusters, case.clusters), (case.clusters, 9), (9, 9)]
    runs = [
        {**asdict(case), "seed": s, "estimates": {"split-half stability": a, "eigengap": b}}
        for s, (a, b) in enumerate(estimates)
    ]
    runs += [
        {**asdict(c), "seed": 0, "gain": gain}
        for c, gain in zip(OTHERS, (8.4, 18.4, 0.2), strict=True)
    ]
    found = advise(runs)
    assert (found["right"], found["eigengap right"], found["estimates"]) == ("2", "1", "3")
    assert found["gains"] == "8.4 to 18.4"
