"""The part of docs/results.md on what ``fedkin advise`` finds."""

from __future__ import annotations

from statistics import mean

from fedkin.analysis.advise.split_half_stability import HOLDS, LEARNT
from papers.advise.recipes import OTHERS, PLANTED, SEEDS, Case, named
from papers.reproduction_marks import Compared, held
from papers.tables_markdown import Measured, markdown

PROMISED = 9  # of ten seeds
WAYS = ("clients return", "gap statistic", "silhouette", "eigengap", "dendrogram")
NAMES = {"rotation": "turned images", "label_permutation": "renamed labels", "iid": "IID"}


def section(measured: Measured) -> str:
    """Who names the right number of kinds, and what is said where there is none."""
    cases = [(case, of(measured, case)) for case in PLANTED]
    there = [(case, runs) for case, runs in cases if runs]
    counted = [kept for _, runs in there if (kept := keeps(runs)) is not None]
    return "\n\n".join(
        [
            "`fedkin advise` on clients whose kinds are known, MCLR, batches of 10, lr 0.03. Each cell says from how "
            "many seeds the number was right. *Clients return* is what decides: the largest number of clusters to each "
            f"of which {HOLDS:.0%} of its clients come back when the other half of their data is asked, and more than "
            "come back where data are dealt at random; pilots train until the loss is at most "
            f"{LEARNT:.0%} of what it was. One kind means: do not cluster. {sum(counted)} of the {len(counted)} cases "
            f"that were run from all {len(SEEDS)} seeds are right in at least {PROMISED} of them."
            f"{_fewer(len(there) - len(counted))}",
            _planted(there),
            "Where nobody knows the truth (three seeds each), what is found and what the best clustered method gains "
            "over FedAvg (with two clusters where one kind is found), in percentage points with a 95% interval over "
            "five trials:",
            _others(measured),
        ]
    )


def of(measured: Measured, case: Case) -> list[dict]:
    """The answers to a case, in the order of their seeds."""
    asked = vars(case)
    return sorted((m for m in measured if all(m[k] == v for k, v in asked.items())), key=lambda m: m["seed"])


def right(runs: Measured, way: str) -> int:
    """From how many seeds a way of asking named the true number."""
    return sum(run["votes"][way] == run["clusters"] for run in runs)


def keeps(runs: Measured) -> bool | None:
    """Whether the true number is named as often as promised; None before all seeds were run."""
    asked = [run for run in runs if run["seed"] in SEEDS]
    return right(asked, WAYS[0]) >= PROMISED if len(asked) == len(SEEDS) else None


def compared(measured: Measured) -> list[Compared]:
    """Whether the true number is named often enough, for each case where there is one."""
    return [_promise(case, of(measured, case)) for case in PLANTED]


def _promise(case: Case, runs: list[dict]) -> Compared:
    told = f"{right(runs, WAYS[0])} of {len(runs)} seeds" if runs else ""
    return Compared(*named(case), f"{case.clusters}", told, None, held(keeps(runs)), "kinds", len(runs))


def _fewer(cases: int) -> str:
    return f" Run from fewer seeds, shown but not counted: {cases}." if cases else ""


def _planted(cases: list[tuple[Case, list[dict]]]) -> str:
    lines = []
    for case, runs in cases:
        counts = [f"{right(runs, way)} of {len(runs)}" for way in WAYS]
        counts[0] = f"**{counts[0]}**"
        found = ", ".join(map(str, sorted({run["found"] for run in runs})))
        seconds = f"{mean(run['seconds'] for run in runs):.0f}"
        what = f"{case.base}, {NAMES[case.kind]}"
        size = f"{case.clients} x {case.samples}"
        lines.append([what, size, f"{case.clusters}", *counts, found, seconds])
    return markdown(["data", "clients x samples", "kinds", *WAYS, "found", "seconds"], lines)


def _others(measured: Measured) -> str:
    lines = []
    for case in OTHERS:
        for run in of(measured, case):
            gain = f"{run['gain']:+.1f} [{run['low']:+.1f}, {run['high']:+.1f}]" if "gain" in run else "not tried"
            lines.append([f"{case.base}, {case.kind}", f"{run['seed']}", f"{run['found']}", gain, run["verdict"]])
    return markdown(["data", "seed", "kinds found", "gain", "verdict"], lines)
