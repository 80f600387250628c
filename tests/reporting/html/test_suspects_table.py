"""Whom a robust rule suspects: the least weights first, attackers and honest clients, and nothing
where no rule ran."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np

import fedkin as fk
from fedkin.reporting.html.suspects_table import LIMIT, suspects_table
from fedkin.run.run import Run
from tests.client_tables import with_clients
from tests.reporting.written_runs import a_run

ROWS = np.array([[0, 0, 0, 1], [0, 0, -1, 1]])


def judged(rows: np.ndarray, weights: list[float | None], attackers: list[int]) -> Run:
    """A run whose rule has given these weights."""
    run = a_run(rows)
    return replace(run, final=run.final | {"rule_weights": weights, "attackers": attackers})


def test_the_least_weights_come_first_and_attackers_are_named() -> None:
    shown = suspects_table(judged(ROWS, [0.3, 1.4, 0.0, None], [2, 3]))
    assert shown["rows"] == [
        ["2", "no cluster", "0.00", "attacker"],
        ["0", "cluster 0", "0.30", "honest"],
    ]
    assert "These are 1 of 2 attackers, and 1 honest clients." in shown["note"]
    half = suspects_table(judged(ROWS, [0.5, 0.49, 1.0, 1.0], []))
    assert [row[0] for row in half["rows"]] == ["1"]  # half of a mean's weight is not suspect


def test_without_known_attackers_no_role_is_shown() -> None:
    run = judged(ROWS, [0.3, 1.4, 0.0, None], [])
    del run.final["attackers"]
    shown = suspects_table(run)
    assert shown["heads"] == ["client", "cluster", "weight"]
    assert shown["rows"] == [["2", "no cluster", "0.00"], ["0", "cluster 0", "0.30"]]
    assert "attackers" not in shown["note"] and "has different data" in shown["note"]


def test_without_a_rule_or_a_suspect_there_is_nothing() -> None:
    for run in (a_run(ROWS), judged(ROWS, [1.0, 1.0, 1.0, None], [3])):
        assert suspects_table(run)["rows"] == [] and suspects_table(run)["note"] == ""


def test_of_many_suspects_the_first_are_shown_and_all_are_counted() -> None:
    shown = suspects_table(judged(np.zeros((2, 80), np.int64), [0.1] * 80, list(range(70))))
    assert len(shown["rows"]) == LIMIT == 50
    assert (
        "These are 70 of 70 attackers, and 10 honest clients. The first 50 are shown"
        in shown["note"]
    )


def test_the_page_has_them_by_name_and_names_stay_text(tmp_path: Path) -> None:
    run = judged(ROWS, [0.3, 1.4, 1.0, 1.0], [0])
    run = with_clients(run, run.clients.assign(name=["<b>north</b>", "south", "east", "west"]))
    page = fk.report(run, tmp_path / "r.html").read_text().split("<script")[0]
    assert (
        '<details id="suspects" class="wide clients"><summary>Suspected clients</summary>' in page
    )
    assert escape("<b>north</b>") in page and "<b>north" not in page
    still = fk.report(a_run(ROWS), tmp_path / "s.html").read_text()
    assert '<details id="suspects" class="wide clients" hidden>' in still
