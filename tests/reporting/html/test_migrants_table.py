"""The table of migrated clients: the latest first, by name, and no longer than a page can hold."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

import fedkin as fk
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.migrants_table import LIMIT, migrants_table
from fedkin.reporting.html.read_runs import read_runs
from tests.client_tables import with_clients
from tests.reporting.written_runs import a_run

ROWS = np.array([[0, 0, -1, 1], [1, 0, 0, 1], [1, 0, 0, -1], [1, 1, 0, 0]])


def test_the_latest_migrations_come_first_and_newcomers_are_none() -> None:
    run = a_run(ROWS)
    shown = migrants_table(run, list(ROWS))
    assert shown["rows"] == [
        ["3", "1", "cluster 0 to cluster 1"],
        ["1", "0", "cluster 0 to cluster 1"],
    ]
    assert shown["note"] == "All migrations of the run, the latest first."
    assert migrants_table(run, [])["rows"] == [] and migrants_table(run, [])["note"] == ""


def test_clients_with_names_are_called_by_them() -> None:
    run = a_run(ROWS)
    run = with_clients(run, run.clients.assign(name=["north", "south", "east", "west"]))
    assert [row[1] for row in migrants_table(run, list(ROWS))["rows"]] == ["south", "north"]


def test_of_many_migrations_the_latest_stay_and_the_others_are_counted() -> None:
    rows = np.stack([np.full(20, r % 2) for r in range(10)])  # 20 migrations in each of nine rounds
    shown = migrants_table(a_run(rows), list(rows))
    assert [row[0] for row in shown["rows"]] == ["9"] * 20 + ["8"] * 20 + ["7"] * 10 and LIMIT == 50
    assert "The latest 50 migrations" in shown["note"] and "130 more" in shown["note"]


def test_the_page_lists_migrated_clients_and_names_stay_text(tmp_path: Path) -> None:
    run = a_run(ROWS)
    run = with_clients(run, run.clients.assign(name=["<b>north</b>", "south", "east", "west"]))
    page = fk.report(run, tmp_path / "r.html").read_text().split("<script")[0]
    assert (
        escape("<b>north</b>") in page
        and "<b>north" not in page
        and "<summary>Migrations of clients" in page
    )
    still = fk.report(a_run(ROWS[:1]), tmp_path / "s.html").read_text()
    assert '<details id="migrants" class="wide clients" hidden>' in still


def test_agreement_with_the_true_clusters_has_a_chart_where_it_is_known(tmp_path: Path) -> None:
    known = a_run(ROWS, ari=[0.0, 0.5, 0.5, 1.0])
    assert contents(read_runs(known))["accuracy"][0]["lines"][0]["ari"] == [0.0, 0.5, 0.5, 1.0]
    assert 'id="f-ari"' in fk.report(known, tmp_path / "k.html", figures=tmp_path / "f").read_text()
    assert (tmp_path / "f/ari.pdf").read_bytes().startswith(b"%PDF")
    assert (
        'id="f-ari"'
        not in fk.report(a_run(ROWS), tmp_path / "u.html", figures=tmp_path / "g").read_text()
    )
    assert not (tmp_path / "g/ari.pdf").exists()
