"""The promise of advice: which cases are run, and how the page counts."""

from __future__ import annotations

from typing import Any

from papers.advise import page as advise_page
from papers.advise import recipes as advise
from papers.advise.recipes import OTHERS, PLANTED, Case, federation, jobs
from papers.reproduction_marks import Mark


def line(case: Case, seed: int, found: int, **more: Any) -> dict[str, Any]:
    ways = dict.fromkeys(advise_page.CRITERIA, found)
    return {
        **vars(case),
        "seed": seed,
        "clusters_found": found,
        "estimates": ways,
        "seconds": 2.0,
        **more,
    }


def test_the_promised_questions_are_asked() -> None:
    cases = {(case.base, case.clusters) for case in PLANTED}
    assert cases == {(base, clusters) for base in ("mnist", "digits") for clusters in (1, 2, 4, 8)}
    assert {case.kind for case in PLANTED} == {"label_permutation", "rotation", "iid"}
    assert advise.SEEDS == tuple(range(10))
    assert {len(job.seeds) for job in jobs()[: len(PLANTED)]} == {10} and len(jobs()) == len(
        PLANTED
    ) + len(OTHERS)


def test_the_federation_of_a_case() -> None:
    planted = federation(
        Case(panel="planted", base="digits", kind="rotation", clusters=2, clients=10, samples=20), 3
    )
    assert planted.true_clusters is not None and sorted(planted.true_clusters) == [0] * 5 + [1] * 5
    assert (planted.train.sizes == 20).all()
    even = federation(
        Case(panel="planted", base="digits", kind="iid", clusters=1, clients=10, samples=144), 3
    )
    assert even.clients == 10 and abs(even.train.sizes.mean() - 144) < 2


def test_a_line_has_the_values_of_the_page() -> None:
    case = Case(panel="planted", base="digits", kind="rotation", clusters=1, clients=8, samples=8)
    record = advise.measure(case, 0)
    assert {key: record[key] for key in vars(case)} == vars(case)
    assert set(record["estimates"]) == set(advise_page.CRITERIA)
    assert record["clusters_found"] == record["estimates"]["split-half stability"]


def test_the_page_counts_seeds_that_are_right() -> None:
    case = PLANTED[0]
    other = PLANTED[1]
    results = [line(case, seed, case.clusters if seed else 1) for seed in range(10)]  # nine of ten
    # Eight of ten.
    results += [line(other, seed, other.clusters if seed > 1 else 1) for seed in range(10)]
    unknown = OTHERS[0]
    results.append(line(unknown, 0, 7, verdict="cluster", gain=1.25, low=0.5, high=2.0))
    page = advise_page.section(results)
    assert (
        "1 of the 2 cases that were run from all 10 seeds are right in at least 9 of them." in page
    )
    assert "fewer seeds" not in page
    assert "**9 of 10**" in page and "**8 of 10**" in page
    assert "+1.2 [+0.5, +2.0]" in page or "+1.3 [+0.5, +2.0]" in page


def test_a_promise_holds_only_where_all_ten_seeds_were_run() -> None:
    nine, all_ten, wrong, *nothing = PLANTED
    results = [line(nine, seed, nine.clusters) for seed in range(9)]
    results += [line(all_ten, seed, all_ten.clusters if seed else 1) for seed in range(10)]
    results += [line(wrong, seed, wrong.clusters + 1) for seed in range(10)]
    marks = [one.mark for one in advise_page.compare_numbers(results)]
    assert marks == [
        Mark.NOT_RUN,
        Mark.REPRODUCED,
        Mark.FAILED,
        *[Mark.NOT_RUN] * len(nothing),
    ]
    assert advise_page.compare_numbers(results)[0].ours == "9 of 9 seeds"
    page = advise_page.section(results)
    assert "1 of the 2 cases that were run from all 10 seeds" in page and "**9 of 9**" in page
    assert "Run from fewer seeds, shown but not counted: 1." in page


def test_a_run_without_pilots_has_no_gain() -> None:
    page = advise_page.section([line(OTHERS[2], 0, 1, verdict="do not cluster")])
    assert "| mnist, Dirichlet 1 | 0 | 1 | not run | do not cluster |" in page


def test_the_page_of_nothing() -> None:
    assert "0 of the 0 cases" in advise_page.section([])
