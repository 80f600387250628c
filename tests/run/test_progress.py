"""When the progress of a run is shown: on a terminal, in a notebook, or when asked for; and the
user's own listener."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import fedkin as fk
from fedkin.core import progress
from fedkin.models import mclr
from fedkin.reporting.progress import ProgressDisplay
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

DATA = federation()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a display in place of the real one sees."""
    events: list[Any] = []

    @contextmanager
    def display(rounds: int) -> Iterator[Any]:
        events.append(rounds)
        yield lambda record: events.append(record["round"])
        events.append("closed")

    monkeypatch.setattr(progress, "_provided", [display])
    return events


def simulate(**options: Any) -> fk.Run:
    return fk.simulate(
        fk.FedAvg(), DATA, mclr(DATA), rounds=2, cohort=3, **simulate_arguments(options)
    )


def test_without_a_terminal_no_progress_is_shown(
    seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate()
    assert not seen
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    simulate(callbacks=fk.Progress(False))
    assert not seen
    simulate()
    assert seen == [2, 0, 1, 2, "closed"]


def test_a_notebook_is_watched(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for shell, watched in (
        (None, False),
        (SimpleNamespace(), False),
        (SimpleNamespace(kernel=1), True),
    ):
        monkeypatch.setitem(
            sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell)
        )
        assert progress.is_watched() is watched


def test_ones_own_listener_is_called_too_and_may_stop_the_run(seen: list[Any]) -> None:
    rounds = []

    def listen(record: Any) -> Any:
        rounds.append(record["round"])
        return fk.STOP if record["round"] == 1 else None

    run = simulate(callbacks=[fk.Progress(), listen])
    assert rounds == [0, 1] and seen == [2, 0, 1, "closed"] and len(run.records) == 2


def test_bars_go_when_a_run_fails(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Bars:
        def __enter__(self) -> Any:
            return lambda record: None

        def __exit__(self, *error: object) -> None:
            closed.append(error[0])

    monkeypatch.setattr(progress, "_provided", [lambda rounds: Bars()])
    with pytest.raises(ZeroDivisionError):
        simulate(callbacks=[fk.Progress(), lambda record: 1 / 0])
    assert closed == [ZeroDivisionError]


def test_the_package_provides_its_own_display(capsys: pytest.CaptureFixture[str]) -> None:
    plain = simulate()
    assert capsys.readouterr() == ("", "")
    shown = simulate(callbacks=fk.Progress())
    out, lines = capsys.readouterr()
    assert not out and lines.splitlines()[-1].startswith("FedAvg  round 2/2  accuracy")
    assert shown.records == plain.records


def test_in_a_notebook_one_output_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    handle = SimpleNamespace(update=lambda bars: drawn.append(bars.row_count))

    def show(bars: Any, display_id: bool) -> Any:
        assert display_id
        drawn.append(bars.row_count)
        return handle

    python = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=1), display=SimpleNamespace(display=show)
    )
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", python.display)
    monkeypatch.setattr(progress, "_provided", [ProgressDisplay])
    simulate(against=[fk.FedProx()])
    assert drawn == [1, 1, 1, 2, 2, 2]
