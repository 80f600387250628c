"""Numbers of the notes that no single cell has, from runs that are written down here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from fedkin.core.errors import ConfigError
from papers.advise.recipes import OTHERS, PLANTED
from papers.athena.recipes import CALIBRATED, COMBINED, GIVEN, PER_CLUSTER, SMALL_CNN
from papers.catalogue import PAPERS
from papers.note_numbers import NUMBERS, advise, athena, flexcfl, peers, planted
from papers.notes import fill
from papers.number_text import NOT_RUN
from papers.panm.recipes import BY_ALPHA, PEERS, ROUNDS, in_federation
from papers.panm.recipes import Question as PeerQuestion
from papers.planted_clusters.recipes import RECOVERY, SWAPPED

Run = dict[str, Any]


@pytest.mark.parametrize("name", NUMBERS)
def test_without_runs_no_number_is_made_up(name: str) -> None:
    numbers = NUMBERS[name]([])
    assert numbers and set(numbers.values()) - {NOT_RUN} <= (
        {"14", "35 to 50"} if name == "advise" else set()
    )


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


def test_gains_of_detectors_are_of_the_last_round_and_of_the_last_five() -> None:
    row = COMBINED["mnist", "5 classes"].row
    runs = [
        figure(
            "Fig. 2-4",
            row,
            GIVEN,
            [0.1, 0.3, 0.2, 0.88, 0.80, 0.80],
            bytes=[[0, 0], [9, 11]],
            detectors=[[0.1] * 10, [0.9, 0.8, 0.99, 0.9, 0.9, 0.9, 0.51, 0.9, 0.9, 0.9]],
        ),
        figure("Fig. 2-4", row, CALIBRATED, [0.1, 0.3, 0.2, 0.88, 0.86, 0.925]),
        figure("Fig. 2-4", row, SMALL_CNN, [0.1, 0.3, 0.2, 0.92, 0.30, 0.74]),
        figure(
            "Fig. 1",
            PER_CLUSTER["2 classes"].row,
            "clustered",
            [0.2, *[0.8] * 9, 0.85, *[0.95] * 25, 0.9],
            sizes=[7, 1, 2],
        ),
        figure(
            "Fig. 1",
            PER_CLUSTER["2 classes"].row,
            "one model",
            [0.2, *[0.25] * 7, 0.22, 0.41, *[0.3] * 27],
        ),
    ]
    numbers = athena(runs)
    gains = {
        name: numbers[f"{name}, mnist, 5 classes"]
        for name in ("gain", "late gain", "scaled", "best small CNN")
    }
    # 59.6 and 49.2 in the mean of the last five
    assert gains == {"gain": "6", "late gain": "10", "scaled": "92", "best small CNN": "92"}
    assert [numbers[f"{name} late, mnist, 5 classes"] for name in ("detectors", "small CNN")] == [
        "60",
        "49",
    ]
    assert numbers["detectors in round 2, mnist, 5 classes"] == "20"
    assert numbers["scaled in round 12, mnist, 5 classes"] == NOT_RUN
    assert numbers["detector of class 6, mnist, 5 classes"] == "51"
    assert numbers["other detectors, mnist, 5 classes"] == "80 to 99"
    # 63.3 - 59.6, once more in the mean of the last five.
    assert numbers["late gains of scaling"] == "3.7"
    assert numbers["bytes of scaled, mnist, 5 classes"] == "0.4"
    assert (
        numbers["gain by clusters, 2 classes"] == "60"
        and numbers["gain by clusters, 5 classes"] == NOT_RUN
    )
    leads = [f"lead of clusters in rounds {rounds}" for rounds in ("6 to 10", "36 to 40")]
    names = ("one model in round 8", "one model at its best", "clusters after round 10", *leads)
    # 36 rounds.
    assert [numbers[f"{name}, 2 classes"] for name in names] == [
        "22",
        "41",
        "10.0",
        "52",
        NOT_RUN,
    ]
    assert {numbers[f"{name}, IID"] for name in names} == {NOT_RUN}
    assert numbers["bytes of detectors, mnist, 5 classes"] == "2.5"
    assert numbers["clients alone, 2 classes"] == "1" and numbers["clients alone, IID"] == NOT_RUN


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


def test_the_slip_is_quoted_as_long_as_the_authors_code_ran() -> None:
    """In a curve of every third round from the first on, value 33 belongs to round 97; incomplete
    rounds have none."""
    curves = [[None, *[0.8] * 31, best, 0.9, *[0.95] * 66] for best in (0.85, 0.87)]
    runs = [
        figure("III", "MNIST-MCLR", "IFCA, first client", curve) | {"seed": s}
        for s, curve in enumerate(curves)
    ]
    numbers = flexcfl(runs)
    assert (numbers["slip, 97 rounds"], numbers["swap all, 124 rounds"]) == (
        "85.0 to 87.0",
        NOT_RUN,
    )
    swapped = [*[0.8] * 41, 0.92, *[0.95] * 58]  # value 41 belongs to round 124
    runs = [figure("IV", "MNIST-MCLR: swap all", "FlexCFL", swapped) | {"seed": 0}]
    numbers = flexcfl(runs)
    assert (numbers["slip, 97 rounds"], numbers["swap all, 124 rounds"]) == (NOT_RUN, "92.0")


def test_means_of_table_iii_are_of_the_rows_where_all_three_means_were_run() -> None:
    """Two rows of IFCA with all three; of the third, MNIST-MLP, one is missing;
    FeSEM was not run."""
    rows = {
        "MNIST-MCLR": (0.96, 0.90, 0.95),
        "Synthetic(1,1)-MCLR": (0.90, 0.80, 0.92),
        "MNIST-MLP": (0.5, 0.5),
    }
    columns = ("IFCA", "IFCA, first client", "IFCA, by samples")
    runs = [
        {"table": "III", "row": row, "column": column, "seed": 0, "best": best}
        for row, of_row in rows.items()
        for column, best in zip(columns, of_row, strict=False)
    ]
    numbers = flexcfl(runs)
    shown = {
        name.split(", ", 2)[2]: value
        for name, value in numbers.items()
        if name.startswith("Table III, IFCA")
    }
    assert shown == {"all clients alike": "93.0", "the first client": "85.0", "by samples": "93.5"}
    assert numbers["Table III, FeSEM, by samples"] == NOT_RUN


def test_planted_runs_are_counted_where_the_clusters_are_the_true_ones() -> None:
    (question,) = (q for q in RECOVERY if q.method == "IFCA" and q.kind == "rotation")
    ends = [([0.5, 1.0, 1.0], 4), ([0.5, 0.5, 1.0], 4), ([1.0, 1.0, 1.0], 5), ([1.0, 1.0, 0.6], 4)]
    runs = [
        {**asdict(question), "seed": s, "ari": ari, "clusters_found": k}
        for s, (ari, k) in enumerate(ends)
    ]
    found = planted(runs)
    assert [found[f"IFCA: {what}"] for what in ("found", "not found", "runs", "latest round")] == [
        "2",
        "2",
        "4",
        "2",
    ]
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


def test_peers_are_compared_at_the_end_and_the_lowest_precision_is_never_rounded_up() -> None:
    runs = [
        of_peers("PANMGrad", 0.89, 1.0),
        of_peers("PANMGrad", 0.87, 0.99968, seed=1),
        of_peers("local", 0.66, 0),
    ]
    found = peers([*runs, of_peers("PANMGrad", 0.5, 0.43, "images", images=10)])
    assert found["lowest precision"] == "0.9996" and found["PANMGrad: accuracies"] == "87.0 to 89.0"
    assert (
        found["above local"] == "22"
        and found["above gossip"] == NOT_RUN
        and found["PANMGrad: megabytes"] == "2.0"
    )
    assert (
        found["PANMGrad, 10 images: precision"] == "43"
        and found["PANMGrad, 10 images: not found"] == "20"
    )
    assert (
        found["PANMGrad, 10 images: wrong neighbours"] == "57"
        and found["PANMLoss, 10 images: precision"] == NOT_RUN
    )


def test_panm_is_compared_with_the_oracle_on_the_other_federations() -> None:
    """Behind it by 2 and 5 points by updates, by 1 and 0 by loss; a federation without an oracle
    tells nothing."""

    def three(by_updates: float, by_loss: float, precision: float, **more: Any) -> list[Run]:
        accuracies = {"PANMGrad": by_updates, "PANMLoss": by_loss, "oracle": 0.9}
        return [
            of_peers(method, a, precision, "federations", **more)
            for method, a in accuracies.items()
        ]

    near = three(0.88, 0.89, 1.0, kind="label_swap", clusters=2)
    far = three(0.85, 0.90, 0.7, base="fashion_mnist", kind="disjoint_labels", clusters=5)
    without = three(0.10, 0.20, 0.1, base="cifar10")[:2]
    far[0]["neighbour_precision"][20] = 0.96
    worse = three(0.80, 0.83, 0.1, base="cifar10", kind="label_swap", clusters=4)
    found = peers([*near, *far, *without, *worse])
    assert found["PANMGrad, other federations: behind the oracle"] == "2.0 to 5.0"
    cifar = "PANMLoss, CIFAR-10, swapped labels, 4 clusters"
    assert (found[f"{cifar}: behind the oracle"], found[f"{cifar}: precision"]) == ("7.0", "10")
    assert found["PANMGrad: worst federation"] == "Fashion-MNIST, disjoint labels, 5 clusters"
    shares = [
        found[f"PANMGrad, worst federation: precision in {when}"]
        for when in ("round 20", "the end")
    ]
    assert shares == ["96", "70"]


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
    runs[1]["neighbour_recall"] = [0.8] * 100 + [0.606]
    runs[2]["neighbour_precision"][5] = 0.3
    found = peers([*oracles, *runs])
    assert (found["alpha 0.25: behind the oracle"], found["alpha 0.25: recalls"]) == (
        "-1.0 to 2.0",
        "60.6 to 80.0",
    )
    assert (
        found["alpha 0.25: precisions"] == "100.0"
        and found["alpha 0.25: precisions in round 5"] == "10 to 30"
    )
    assert found["alpha 0: behind the oracle"] == NOT_RUN
    assert peers([*oracles[:-1], *runs])["alpha 0.25: behind the oracle"] == NOT_RUN
    level = of_peers(
        **asdict(in_federation(BY_ALPHA[1], "PANMGrad")), accuracy=0.9001, precision=1.0
    )
    # By loss nothing is.
    assert peers([*oracles, level])["PANMGrad, other federations: behind the oracle"] == NOT_RUN
    by_loss = of_peers(
        **asdict(in_federation(BY_ALPHA[1], "PANMLoss")), accuracy=0.9001, precision=1.0
    )
    found = peers([*oracles, level, by_loss])
    assert found["PANMGrad, other federations: behind the oracle"] == "0.0"  # and not -0.0
    eight = of_peers("PANMGrad", 0.8, 0.97, "clusters", clusters=8, alpha=0.25)
    assert peers([eight])["alpha 0.25, 8 clusters: precision"] == "97"


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
