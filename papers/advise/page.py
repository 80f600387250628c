"""The page on ``fedkin advise``, docs/results-advice.md."""

from __future__ import annotations

from statistics import mean

from fedkin.analysis.advise.split_half_stability import LOSS_RATIO, THRESHOLD
from papers.advise.recipes import OTHERS, PLANTED, SEEDS, Case, row_and_column
from papers.reproduction_marks import ComparedNumber, Results, mark_of_statement
from papers.tables_markdown import markdown

PROMISED = 9  # of ten seeds
PROMISE = "a promise of ours, which no paper prints"
CRITERIA = ("split-half stability", "gap statistic", "silhouette", "eigengap", "dendrogram")
NAMES = {"rotation": "rotated images", "label_permutation": "permuted labels", "iid": "IID"}


def section(results: Results) -> str:
    """Counts of right numbers of clusters; the verdict if the true number is unknown."""
    cases = [(case, runs_of(results, case)) for case in PLANTED]
    cases = [(case, runs) for case, runs in cases if runs]
    outcomes = [outcome for _, runs in cases if (outcome := is_promise_kept(runs)) is not None]
    return "\n\n".join(
        [
            "`fedkin advise` on clients with known clusters, MCLR, batches of 10, lr 0.03. Each "
            "cell says from how many seeds the number was right.\n\n"
            "*Split-half stability* decides. It is the largest number of clusters that are all "
            f"stable: {THRESHOLD:.0%} of the clients of each cluster stay if the other half of "
            "their data is used, and more than in IID splits of the same data. Pilots train until "
            f"the loss is at most {LOSS_RATIO:.0%} of the initial loss. One cluster means: do not "
            f"cluster.\n\n{sum(outcomes)} of the {len(outcomes)} cases that were run from all "
            f"{len(SEEDS)} seeds are right in at least {PROMISED} of "
            f"them.{_fewer(len(cases) - len(outcomes))}",
            _planted(cases),
            "The next table has data with an unknown true number (three seeds each). It shows the "
            "number found, and the gain of the best clustered method over FedAvg, in percentage "
            "points with a 95% interval over five trials. Where one cluster is found, nothing is "
            "trained:",
            _others(results),
        ]
    )


def runs_of(results: Results, case: Case) -> list[dict]:
    """The runs of a case, in the order of their seeds."""
    return sorted(
        (m for m in results if all(m[k] == v for k, v in vars(case).items())),
        key=lambda m: m["seed"],
    )


def correct(runs: Results, criterion: str) -> int:
    """Number of seeds in which a criterion named the true number."""
    return sum(run["estimates"][criterion] == run["clusters"] for run in runs)


def is_promise_kept(runs: Results) -> bool | None:
    """Whether the true number is named as often as promised; None before all seeds were run."""
    promised = [run for run in runs if run["seed"] in SEEDS]
    return correct(promised, CRITERIA[0]) >= PROMISED if len(promised) == len(SEEDS) else None


def compare_numbers(results: Results) -> list[ComparedNumber]:
    """Whether the true number is named often enough, for each case where it is known."""
    return [_promise(case, runs_of(results, case)) for case in PLANTED]


def _promise(case: Case, runs: list[dict]) -> ComparedNumber:
    ours = f"{correct(runs, CRITERIA[0])} of {len(runs)} seeds" if runs else ""
    mark = mark_of_statement(is_promise_kept(runs))
    row, column = row_and_column(case)
    return ComparedNumber(
        row=row,
        column=column,
        published=f"{case.clusters}",
        ours=ours,
        difference=None,
        mark=mark,
        unit="clusters",
        seeds=len(runs),
        deviation=PROMISE,
    )


def _fewer(cases: int) -> str:
    return f" Run from fewer seeds, shown but not counted: {cases}." if cases else ""


def _planted(cases: list[tuple[Case, list[dict]]]) -> str:
    lines = []
    for case, runs in cases:
        counts = [f"{correct(runs, criterion)} of {len(runs)}" for criterion in CRITERIA]
        counts[0] = f"**{counts[0]}**"
        numbers = ", ".join(map(str, sorted({run["clusters_found"] for run in runs})))
        seconds = f"{mean(run['seconds'] for run in runs):.0f}"
        data = f"{case.base}, {NAMES[case.kind]}"
        size = f"{case.clients} x {case.samples}"
        lines.append([data, size, f"{case.clusters}", *counts, numbers, seconds])
    return markdown(["data", "clients x samples", "clusters", *CRITERIA, "found", "seconds"], lines)


def _others(results: Results) -> str:
    lines = []
    for case in OTHERS:
        for run in runs_of(results, case):
            gain = (
                f"{run['gain']:+.1f} [{run['low']:+.1f}, {run['high']:+.1f}]"
                if "gain" in run
                else "not run"
            )
            lines.append(
                [
                    f"{case.base}, {case.kind}",
                    f"{run['seed']}",
                    f"{run['clusters_found']}",
                    gain,
                    run["verdict"],
                ]
            )
    return markdown(["data", "seed", "clusters found", "gain", "verdict"], lines)
