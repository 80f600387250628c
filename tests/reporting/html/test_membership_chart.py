"""Soft membership in a report: every client's shares, in the figure's order, and nothing where
membership is hard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import fedkin as fk
from fedkin.core.method import State
from fedkin.reporting.html.json_values import POINTS
from fedkin.reporting.html.run_charts import membership_chart
from fedkin.run.run import Run
from tests.reporting.written_runs import a_run


@dataclass(frozen=True)
class Soft(State):
    """A state with shares."""

    membership: np.ndarray


def soft(shares: np.ndarray, assignment: np.ndarray) -> Run:
    """A run whose clients have those shares at the end."""
    run = a_run(np.stack([assignment, assignment]), "fedem")
    return replace(run, state=Soft(run.state.models, run.state.assignment, shares))


SHARES = np.array([[0.1, 0.9], [0.6, 0.4], [0.0, 0.0], [0.5, 0.5], [0.8, 0.2]])


def test_clients_are_ordered_by_cluster_and_share_and_those_without_are_left_out() -> None:
    chart = membership_chart(soft(SHARES, np.array([1, 0, -1, 0, 0])))
    assert chart is not None
    assert chart["clients"] == ["4", "1", "3", "0"] and chart["total"] == 4
    assert chart["shares"] == [[0.8, 0.6, 0.5, 0.1], [0.2, 0.4, 0.5, 0.9]]
    assert chart["clear"] == 0.75  # half of one is not more than half


def test_many_clients_are_thinned_with_both_ends() -> None:
    first = np.linspace(1, 0.6, 3000)
    chart = membership_chart(soft(np.stack([first, 1 - first], axis=1), np.zeros(3000, np.int64)))
    assert chart is not None
    assert len(chart["clients"]) == POINTS and chart["total"] == 3000
    assert (chart["shares"][0][0], chart["shares"][0][-1]) == (1.0, 0.6)


def test_the_page_has_the_chart_where_membership_is_soft(tmp_path: Path) -> None:
    run = soft(SHARES, np.array([1, 0, -1, 0, 0]))
    assert 'id="f-membership"' in fk.report(run, tmp_path / "soft.html").read_text()
    hard = a_run(np.zeros((2, 3), np.int64))
    assert membership_chart(hard) is None
    assert 'id="f-membership"' not in fk.report(hard, tmp_path / "hard.html").read_text()
    unassigned = soft(SHARES, np.full(5, -1))
    assert membership_chart(unassigned) is None
