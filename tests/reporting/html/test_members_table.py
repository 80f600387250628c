"""The table of clusters: who is where, by name, and no longer than a page can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fedkin as fk
from fedkin.reporting.html.members_table import CLIENTS, CLUSTERS, members_table
from tests.client_tables import with_clients
from tests.reporting.written_runs import a_run

ROWS = np.array([[0, 0, 1, 1], [1, 0, 0, -1]])


def test_each_cluster_has_its_clients_after_the_last_round() -> None:
    assert members_table(a_run(ROWS))["rows"] == [
        ["no cluster", "1", "3"],
        ["cluster 0", "2", "1, 2"],
        ["cluster 1", "1", "0"],
    ]


def test_clients_with_names_are_called_by_them(tmp_path: Path) -> None:
    run = a_run(ROWS)
    run = with_clients(run, run.clients.assign(name=["north", "south", "<b>east", "west"]))
    assert members_table(run)["rows"][1] == ["cluster 0", "2", "south, <b>east"]
    page = fk.report(run, tmp_path / "r.html").read_text().split("<script")[0]
    assert '<details id="members" class="wide clients" open>' in page
    assert "south, &lt;b&gt;east" in page and "<b>east" not in page


def test_one_cluster_needs_no_table() -> None:
    assert members_table(a_run(np.array([[0, 0, 0]])))["rows"] == []


def test_many_clients_and_clusters_are_counted() -> None:
    many = np.array([[0] * (CLIENTS + 3) + [1]])
    shown = members_table(a_run(many))["rows"]
    assert shown[0][1] == "23" and shown[0][2].endswith("18, 19 and 3 more")
    table = members_table(a_run(np.arange(CLUSTERS + 2)[None]))
    assert len(table["rows"]) == CLUSTERS and "2 clusters are left out" in table["note"]
