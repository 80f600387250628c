"""Rounds in which sites are away are partial: they are no best round, stop no run, and say how many
were scored."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from fedkin.analysis.scores import score
from fedkin.measures.complete_rounds import is_complete
from fedkin.measures.lookup import compared_by
from fedkin.reporting.html.lenient_reader import read_run
from fedkin.reporting.html.live import _row
from fedkin.reporting.html.overview import clients
from fedkin.reporting.progress import plain_line, table
from fedkin.run.run import Run
from fedkin.server.deploy.run_server import log_round
from fedkin.server.message import RpcMessage
from fedkin.tracking.tracker import flat_numbers
from tests.server.deploy.test_run_server import FEDAVG, Lab

LEAVING = (4, 5)  # of six sites


def served(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    leave_in: int,
    removed: Collection[str] = (),
    **values: Any,
) -> Run:
    """A run of four rounds whose last two sites leave while the models of a round are scored."""
    lab = Lab(folder, monkeypatch)
    lab.removed = set(removed)
    lab.join(*range(6))

    def left(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        scores = lab.transport.operations().count("evaluate")
        if request.header["operation"] == "evaluate" and scores == leave_in + 1:
            for client in LEAVING:
                lab.transport.leave(100 - client)
        return reply

    lab.transport.stations[100].tamper = left
    return lab.serve(method=FEDAVG, capacity=8, wait_for=6, cohort=8, **values)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return served(tmp_path / "fed", monkeypatch, leave_in=2)


def test_rounds_with_clients_away_are_partial(run: Run) -> None:
    """In round 2 their replies do not come; from round 3 on they cannot be reached."""
    assert [is_complete(record) for record in run.records] == [True, True, False, False, False]
    assert [record.get("scored") for record in run.records] == [None, None, 4, 4, 4]
    assert [record.get("scored_of") for record in run.records] == [None, None, 6, 6, 6]


def test_sites_that_were_removed_make_no_later_round_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that is online counts, also if a site of its name was removed before."""
    run = served(tmp_path / "fed", monkeypatch, leave_in=2, removed=("site-4", "site-5", "site-0"))
    assert [record.get("scored_of") for record in run.records] == [None, None, 6, None, None]
    assert [record["members"] for record in run.records] == [6, 6, 6, 4, 4]
    only_one = served(tmp_path / "one", monkeypatch, leave_in=2, removed=("site-5",))
    assert [record.get("scored_of") for record in only_one.records] == [None, None, 6, 5, 5]


def test_the_best_round_is_one_in_which_all_were_scored(run: Run) -> None:
    accuracy = [record["accuracy"] for record in run.records]
    summary = run.summary()
    assert summary["best_round"] in (0, 1) and summary["best_accuracy"] == max(accuracy[:2])
    assert summary["rounds_with_clients_away"] == 3
    assert (summary["scored"], summary["scored_of"]) == (4, 6)
    assert "scored 4 of 6 clients" in score(run, compared_by("final")).reason


def test_no_round_with_clients_away_stops_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any accuracy is enough; the first round from 1 on stops a run of clients who are all
    there."""
    all_there = served(tmp_path / "all", monkeypatch, leave_in=99, more="until = 1e-9")
    assert all_there.records[-1]["round"] == 1
    away = served(tmp_path / "away", monkeypatch, leave_in=1, more="until = 1e-9")
    assert away.records[-1]["round"] == 4 and "stopped" not in away.summary()


def test_the_report_says_how_many_took_part_and_were_scored(run: Run) -> None:
    """Six sites of at most eight. With one model the assignment has an entry for all eight."""
    assert len(run.assignment) == 8 and (run.assignment == 0).all()
    assert run.folder is not None
    for one in (run, read_run(run.folder)[0]):
        assert one is not None
        assert clients(one).startswith(
            "6 of at most 8 took part, scored 4 of 6 clients in the last round"
        )


def test_terminal_log_live_page_and_trackers_say_it(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    last = run.records[-1]
    assert "(scored 4 of 6 clients)" in plain_line(last, 4)
    assert run.folder is not None
    assert "(scored 4 of 6 clients)" in " ".join(_row(run.folder))
    caption = str(table([run.summary()]).caption)
    assert "3 rounds with clients away" in caption and "scored 4 of 6 clients" in caption
    numbers = flat_numbers(last)
    assert (numbers["partial"], numbers["scored"], numbers["scored_of"], numbers["members"]) == (
        1,
        4,
        6,
        6,
    )
    with caplog.at_level("INFO", "fedkin"):
        log_round(last, 4)
    assert "scored 4 of 6 clients" in caplog.text and "round 4 of 4: " in caplog.text


def test_a_run_of_an_earlier_version_counts_the_clients_that_were_reached(run: Run) -> None:
    for record in run.records:
        del record["members"]
    assert clients(run).startswith("6 of at most 8 took part")
