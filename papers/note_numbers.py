"""Numbers of the notes that are in no single cell of a table: gains, counts, extremes over runs.

``papers.notes`` replaces a place ``{a name}`` in the note of a paper by the number of that name,
from the stored runs. Shares are in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import floor, isnan, nan
from statistics import mean
from typing import Any

from papers.accuracy_numbers import best_accuracies
from papers.advise import page as advise_page
from papers.advise.recipes import OTHERS, PLANTED
from papers.athena.note_numbers import athena
from papers.fedgroup import recipes as fedgroup_recipes
from papers.fedgroup.page import CELLS_III
from papers.flexcfl import weightings
from papers.flexcfl.communication import bytes_of
from papers.flexcfl.recipes import MNIST
from papers.number_text import NOT_RUN, extreme, format_count, format_number, span
from papers.panm import recipes as panm_recipes
from papers.panm.numbers import behind_the_oracle, by_alpha, percent_of, runs_of
from papers.panm.recipes import (
    ABSENT,
    ALPHAS,
    BY_ALPHA,
    FEDERATIONS,
    LATE,
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

CURVE = 100  # values of a stored curve
HARDEST = (("cifar10", "rotation", 4), ("cifar10", "label_swap", 4))  # neither form finds them
Numbers = dict[str, str]


def planted(results: Results) -> Numbers:
    """Of planted clusters."""

    def perfect(question: PlantedQuestion) -> list[dict[str, Any]]:
        runs = planted_page.runs_of(results, question)
        return [r for r in runs if r["ari"][-1] == 1 and r["clusters_found"] == question.clusters]

    def count(kind: str, questions: Iterable[PlantedQuestion]) -> Numbers:
        asked = [q for q in questions if planted_page.runs_of(results, q)]
        runs = sum(len(planted_page.runs_of(results, q)) for q in asked)
        perfect_runs = sum(len(perfect(q)) for q in asked)
        return {
            f"{kind}: runs": format_count(runs),
            f"{kind}: found": format_count(perfect_runs, runs),
            f"{kind}: not found": format_count(runs - perfect_runs, runs),
        }

    numbers: Numbers = {}
    for method in dict.fromkeys(q.method for q in RECOVERY):
        numbers |= count(method, (q for q in RECOVERY if q.method == method))
    numbers |= count("IFCA, Glorot", GLOROT)
    for question in THRESHOLDS:
        numbers |= count(question.method, [question])
    since = [
        planted_page.since(r["ari"]) for q in RECOVERY if q.method == "IFCA" for r in perfect(q)
    ]
    numbers["IFCA: latest round"] = format_number(extreme(max, since), ".0f")
    for method in dict.fromkeys(q.method for q in SWAPPED):
        recalls = [
            100 * mean(r["shift_recall"] for r in planted_page.runs_of(results, q))
            for q in SWAPPED
            if q.method == method and planted_page.runs_of(results, q)
        ]
        numbers[f"{method}: recall"] = span(recalls, ".0f")
    return numbers


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
    """Best accuracies on MNIST-MCLR in as many rounds as the authors' code ran, and means of Table
    III."""
    slip = values_of(
        results=results, table="III", row=MNIST.row, column="IFCA, first client", figure="curve"
    )
    swapped = values_of(
        results=results, table="IV", row=f"{MNIST.row}: swap all", column="FlexCFL", figure="curve"
    )
    numbers = {
        "slip, 97 rounds": _best_until(97, slip),
        "swap all, 124 rounds": _best_until(124, swapped),
        "first models counted": _with_first_models(results),
    }
    for method in weightings.METHODS:
        for name, of_rows in zip(
            weightings.NAMES, weightings.accuracies(results, method, "III"), strict=True
        ):
            numbers[f"Table III, {method}, {name}"] = format_number(
                mean(of_rows) if of_rows else nan, ".1f"
            )
    return numbers


def _with_first_models(results: Results) -> str:
    """FlexCFL's bytes over FedAvg's under swap all, with newcomers' first models as downloads."""
    row = "MNIST, swap all"
    ours, base = (bytes_of(results, row, column).first_models for column in ("FlexCFL", "FedAvg"))
    return format_number(ours / base if base else nan, ".2f")


def _best_until(round: int, curves: list[list[float | None]]) -> str:
    """The best accuracies up to a round; curves hold every third of 300 rounds, from the first."""
    kept = 1 + (round - 1) // (MNIST.rounds // CURVE)
    best = [
        max((100 * value for value in curve[:kept] if value is not None), default=nan)
        for curve in curves
    ]
    return span(best, ".1f")


def peers(results: Results) -> Numbers:
    """Of peers without a server."""

    def of(panel: str, method: str, **options: Any) -> list[dict[str, Any]]:
        return runs_of(results, Question(panel, method, **options))

    compared = {
        method: of("compared", method)
        for method in (*PANMS, "oracle", "gossip", "local", "PENS", "IFCA", "FedAvg")
    }
    accuracy = {method: percent_of(runs, "accuracy") for method, runs in compared.items()}
    lowest = [
        p
        for method in PANMS
        for r in compared[method]
        for p in r["neighbour_precision"][10:]
        if p is not None
    ]
    numbers = {
        "lowest precision": format_number(floor(1e4 * min(lowest)) / 1e4 if lowest else nan, ".4f"),
        "behind the oracle": format_number(
            extreme(max, [accuracy["oracle"] - accuracy[m] for m in PANMS]), ".1f"
        ),
        "above gossip": format_number(accuracy["PANMGrad"] - accuracy["gossip"], ".0f"),
        "above local": format_number(accuracy["PANMGrad"] - accuracy["local"], ".0f"),
        "PENS: precision in round 50": format_number(
            percent_of(compared["PENS"], "neighbour_precision", 50), ".0f"
        ),
    }
    for method, runs in compared.items():
        megabytes = [run["bytes"] / ROUNDS / PEERS / 1e6 for run in runs]
        numbers[f"{method}: megabytes"] = format_number(
            mean(megabytes) if megabytes else nan, ".1f"
        )
        numbers[f"{method}: accuracies"] = span([100 * run["accuracy"][-1] for run in runs], ".1f")
        if method in PANMS:
            numbers[f"{method}: recall"] = format_number(
                percent_of(runs, "neighbour_recall"), ".0f"
            )
    harder = [(f"{n} images", {"panel": "images", "images": n}) for n in (5, 10)]
    harder += [(f"{k} clusters", {"panel": "clusters", "clusters": k}) for k in (8, 16)]
    harder += [
        (f"alpha {alpha}", {"panel": "alpha", "alpha": alpha}) for alpha in (0.0, 0.25, 0.75, 1.0)
    ]
    harder += [(absent, {"panel": "absent", "absent": absent}) for absent in ABSENT if absent]
    for name, options in harder:
        for method in PANMS:
            runs = of(method=method, **options)
            for figure in ("precision", "recall"):
                numbers[f"{method}, {name}: {figure}"] = format_number(
                    percent_of(runs, f"neighbour_{figure}"), ".0f"
                )
            numbers[f"{method}, {name}: wrong neighbours"] = format_number(
                100 - percent_of(runs, "neighbour_precision"), ".0f"
            )
            numbers[f"{method}, {name}: not found"] = format_number(
                100 - percent_of(runs, "neighbour_recall"), ".0f"
            )
    numbers |= _other_federations(results) | _by_alpha(results)
    of_eight = of("clusters", "PANMGrad", clusters=8)
    for round in (22, 50):
        numbers[f"PANMGrad, 8 clusters: precision in round {round}"] = format_number(
            percent_of(of_eight, "neighbour_precision", round), ".0f"
        )
    return numbers


def _other_federations(results: Results) -> Numbers:
    """Points of PANM behind the oracle on the other federations, and PANMGrad's neighbours over the
    rounds on the federation of ``BY_ALPHA`` where it is farthest behind."""
    behind = {
        place: {
            method: behind_the_oracle(results, in_federation(place, method)) for method in PANMS
        }
        for place in FEDERATIONS
    }
    run = {place: gaps for place, gaps in behind.items() if not any(map(isnan, gaps.values()))}
    numbers: Numbers = {}
    for method in PANMS:
        gaps = [gap[method] for place, gap in run.items() if place in BY_ALPHA]
        numbers[f"{method}, other federations: behind the oracle"] = span(gaps, ".1f")
        for place, gap in behind.items():
            precision = percent_of(
                runs_of(results, in_federation(place, method)), "neighbour_precision"
            )
            numbers[f"{method}, {panm_recipes.name_of(place)}: behind the oracle"] = format_number(
                gap[method], ".1f"
            )
            numbers[f"{method}, {panm_recipes.name_of(place)}: precision"] = format_number(
                precision, ".0f"
            )
    found = [gap["PANMLoss"] for place, gap in run.items() if place not in HARDEST]
    numbers["PANMLoss: farthest behind the oracle"] = format_number(extreme(max, found), ".1f")
    worst = max(
        (place for place in run if place in BY_ALPHA),
        key=lambda place: run[place]["PANMGrad"],
        default=None,
    )
    numbers["PANMGrad: worst federation"] = panm_recipes.name_of(worst) if worst else NOT_RUN
    of_worst = runs_of(results, in_federation(worst, "PANMGrad")) if worst else []
    for name, round in (("round 20", 20), ("the end", -1)):
        for figure in ("precision", "recall"):
            share = percent_of(of_worst, f"neighbour_{figure}", round)
            numbers[f"PANMGrad, worst federation: {figure} in {name}"] = format_number(share, ".0f")
    return numbers


def _by_alpha(results: Results) -> Numbers:
    """PANMGrad with other weights of a round's own updates."""
    numbers: Numbers = {}
    for alpha in (*ALPHAS, Question.alpha):
        end = by_alpha(results, alpha)
        numbers[f"alpha {alpha:g}: behind the oracle"] = span(end.behind, ".1f")
        for name, shares in (("precisions", end.precision), ("recalls", end.recall)):
            numbers[f"alpha {alpha:g}: {name}"] = span(shares, ".1f")
        for round in (5, 20):
            numbers[f"alpha {alpha:g}: precisions in round {round}"] = span(
                by_alpha(results, alpha, round).precision, ".0f"
            )
    options = [{"panel": "clusters", "clusters": k} for k in (8, 16)] + [
        {"panel": "absent", "absent": LATE}
    ]
    for name, option in zip(("8 clusters", "16 clusters", "late peers"), options, strict=True):
        runs = runs_of(results, Question(method="PANMGrad", alpha=QUARTER, **option))
        for figure in ("precision", "recall"):
            numbers[f"alpha {QUARTER:g}, {name}: {figure}"] = format_number(
                percent_of(runs, f"neighbour_{figure}"), ".0f"
            )
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
