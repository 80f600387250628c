"""Numbers of the notes that are in no single cell of a table: gains, counts, extremes over runs.

``papers.notes`` replaces a place ``{a name}`` in the note of a paper by the number of that name,
from the stored runs. Shares are in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import isnan, nan
from statistics import mean
from typing import Any

from papers.accuracy_numbers import best_accuracies
from papers.advise import page as advise_page
from papers.advise.recipes import OTHERS, PLANTED
from papers.athena.note_numbers import athena
from papers.fedgroup import recipes as fedgroup_recipes
from papers.fedgroup.page import CELLS_III
from papers.flexcfl.communication import bytes_of
from papers.number_text import extreme, format_count, format_number, span
from papers.panm import recipes as panm_recipes
from papers.panm.numbers import behind_by_alpha, behind_the_oracle, percent_of, runs_of
from papers.panm.recipes import (
    FEDERATIONS,
    PANMS,
    PEERS,
    QUARTER,
    ROUNDS,
    Question,
    in_federation,
)
from papers.planted_clusters import page as planted_page
from papers.planted_clusters.recipes import GLOROT, RECOVERY, SWAPPED, THRESHOLDS
from papers.planted_clusters.recipes import Question as PlantedQuestion
from papers.reproduction_marks import Mark, Results, values_of

DROPPING = "a fifth drop out in each round"
WORST = ("cifar10", "disjoint_labels", 5)  # where PANM by updates falls behind an oracle most
HARDEST = (("cifar10", "rotation", 4), ("cifar10", "label_swap", 4))  # neither form finds them
Numbers = dict[str, str]


def planted(results: Results) -> Numbers:
    """Of planted clusters."""
    ifca = [question for question in RECOVERY if question.method == "IFCA"]
    of_ifca = [run for question in ifca for run in planted_page.runs_of(results, question)]
    found = [run for question in ifca for run in planted_page.perfect(results, question)]
    since = [planted_page.since(run["ari"]) for run in found]
    numbers = {
        "IFCA: runs": format_count(len(of_ifca)),
        "IFCA: found": format_count(len(found), len(of_ifca)),
        "IFCA: latest round": format_number(extreme(max, since), ".0f"),
    }
    numbers |= _not_found(results, "IFCA, Glorot", GLOROT)
    for question in THRESHOLDS:
        numbers |= _not_found(results, question.method, [question])
    for method in dict.fromkeys(question.method for question in SWAPPED):
        runs = [planted_page.runs_of(results, q) for q in SWAPPED if q.method == method]
        recalls = [100 * mean(run["shift_recall"] for run in of) for of in runs if of]
        numbers[f"{method}: recall"] = span(recalls, ".0f")
    return numbers


def _not_found(results: Results, name: str, questions: Iterable[PlantedQuestion]) -> Numbers:
    """The number of runs, and of those that do not end with the true clusters."""
    runs = 0
    found = 0
    for question in questions:
        runs += len(planted_page.runs_of(results, question))
        found += len(planted_page.perfect(results, question))
    return {
        f"{name}: runs": format_count(runs),
        f"{name}: not found": format_count(runs - found, runs),
    }


def fedgroup(results: Results) -> Numbers:
    """Of Table III: counts of its printed numbers, and FedGroup's gains over the better
    baseline."""
    printed = [
        n for n in best_accuracies(results, CELLS_III) if n.counts and n.mark != Mark.NOT_RUN
    ]
    marks = Counter(number.mark for number in printed)
    numbers = {
        "Table III: run": format_count(len(printed)),
        "Table III: within 1.5 points": format_count(marks[Mark.REPRODUCED], len(printed)),
        "Table III: inside": format_count(marks[Mark.IN_INTERVAL], len(printed)),
    }
    rows = {
        "MNIST-MCLR": fedgroup_recipes.MNIST,
        "FEMNIST-MLP": fedgroup_recipes.FEMNIST_MLP,
        "FEMNIST-MLP, no image twice": fedgroup_recipes.FEMNIST_MLP_OWN,
    }
    for name, setting in rows.items():
        best = {
            column: [
                100 * value for value in values_of(results, "III", setting.row, column, "best")
            ]
            for column in ("FedGroup", "FedAvg", "FedProx")
        }
        ours, *others = (mean(values) if values else nan for values in best.values())
        numbers[f"{name}: gain"] = format_number(ours - extreme(max, others), ".1f")
    return numbers


def flexcfl(results: Results) -> Numbers:
    """FlexCFL's bytes over FedAvg's under swap all, with newcomers' first models as downloads."""
    row = "MNIST, swap all"
    ours, base = (bytes_of(results, row, column).first_models for column in ("FlexCFL", "FedAvg"))
    return {"first models counted": format_number(ours / base if base else nan, ".2f")}


def peers(results: Results) -> Numbers:
    """Of peers without a server."""
    by_updates, by_loss = PANMS

    def of(panel: str, method: str, **options: Any) -> list[dict[str, Any]]:
        return runs_of(results, Question(panel, method, **options))

    numbers: Numbers = {}
    for method in (by_updates, "oracle"):
        ends = [100 * run["accuracy"][-1] for run in of("compared", method)]
        numbers[f"{method}: accuracies"] = span(ends, ".1f")
    for method in (*PANMS, "FedAvg"):
        megabytes = [run["bytes"] / ROUNDS / PEERS / 1e6 for run in of("compared", method)]
        numbers[f"{method}: megabytes"] = format_number(
            mean(megabytes) if megabytes else nan, ".1f"
        )
    above = percent_of(of("compared", by_updates), "accuracy")
    above -= percent_of(of("compared", "gossip"), "accuracy")
    shares = {
        f"{by_updates}: recall": (of("compared", by_updates), "recall"),
        f"{by_updates}, {DROPPING}: recall": (of("absent", by_updates, absent=DROPPING), "recall"),
    }
    for method, images in ((by_updates, 5), (by_updates, 10), (by_loss, 10)):
        runs = of("images", method, images=images)
        shares[f"{method}, {images} images: precision"] = (runs, "precision")
    for figure in ("precision", "recall"):
        runs = of("clusters", by_updates, clusters=16)
        shares[f"{by_updates}, 16 clusters: {figure}"] = (runs, figure)
    numbers["above gossip"] = format_number(above, ".0f")
    for name, (runs, figure) in shares.items():
        numbers[name] = format_number(percent_of(runs, f"neighbour_{figure}"), ".0f")
    return numbers | _behind_the_oracle(results)


def _behind_the_oracle(results: Results) -> Numbers:
    """Points of PANM behind the oracle: by alpha, by loss where a form finds the clusters, and by
    updates where it is farthest behind."""
    by_updates, by_loss = PANMS
    numbers = {
        f"alpha {alpha:g}: behind the oracle": span(behind_by_alpha(results, alpha), ".1f")
        for alpha in (0.0, QUARTER, Question.alpha)
    }
    gaps = {
        place: [behind_the_oracle(results, in_federation(place, method)) for method in PANMS]
        for place in FEDERATIONS
    }
    measured = {place: both for place, both in gaps.items() if not isnan(sum(both))}
    of_loss = [gap for place, (_, gap) in measured.items() if place not in HARDEST]
    numbers[f"{by_loss}: farthest behind the oracle"] = format_number(extreme(max, of_loss), ".1f")
    name = f"{by_updates}, {panm_recipes.name_of(WORST)}"
    runs = runs_of(results, in_federation(WORST, by_updates))
    precision = percent_of(runs, "neighbour_precision")
    numbers[f"{name}: behind the oracle"] = format_number(gaps[WORST][0], ".1f")
    numbers[f"{name}: precision"] = format_number(precision, ".0f")
    return numbers


def advise(results: Results) -> Numbers:
    """Of the advice on the number of clusters."""
    runs = {case: advise_page.runs_of(results, case) for case in (*PLANTED, *OTHERS)}
    planted_runs = [run for case in PLANTED for run in runs[case]]
    planted_cases = [case for case in PLANTED if case.kind != "iid"]
    gains = [
        run["gain"]
        for case in OTHERS
        if case.kind != "Dirichlet 1"
        for run in runs[case]
        if "gain" in run
    ]
    images = sorted({case.samples for case in PLANTED})
    return {
        "estimates": format_count(len(planted_runs)),
        "right": format_count(
            advise_page.correct(planted_runs, advise_page.CRITERIA[0]), len(planted_runs)
        ),
        "eigengap right": format_count(
            advise_page.correct(planted_runs, "eigengap"), len(planted_runs)
        ),
        "planted cases": str(len(planted_cases)),
        "images": f"{images[0]} to {images[-1]}",
        "gains": span(gains, ".1f"),
    }


NUMBERS: Mapping[str, Callable[[Results], Numbers]] = {
    "fedgroup": fedgroup,
    "athena": athena,
    "flexcfl": flexcfl,
    "planted": planted,
    "peers": peers,
    "advise": advise,
}
