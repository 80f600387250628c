"""Tests of separate processes are shared out over the workers, and no test is lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import shared_out


def items(level: str, file: str, tests: int) -> list[Any]:
    """Tests of a file with a mark."""
    return [
        SimpleNamespace(
            path=Path(file),
            number=number,
            get_closest_marker=lambda name: name if name == level else None,
        )
        for number in range(tests)
    ]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9])
def test_every_test_runs_once(workers: int) -> None:
    everything = [
        *items("simulation", "run", 40),
        *items("process", "sites", 1),
        *items("docs", "pages", 5),
        *items("process", "kills", 12),
        *items("process", "peers", 4),
    ]
    order = shared_out(everything, workers)
    assert {id(item) for item in order} == {id(item) for item in everything}
    assert len(order) == len(everything)


def test_every_second_worker_begins_with_files_of_separate_processes() -> None:
    everything = [
        *items("simulation", "run", 22),
        *items("docs", "pages", 2),
        *items("process", "kills", 3),
        *items("process", "sites", 1),
    ]
    order = [item.path.name for item in shared_out(everything, 4)]
    assert order[:4] == ["sites", "pages", "pages", "run"]
    assert order[7:14] == ["run"] * 7
    assert order[14:18] == ["kills", "kills", "kills", "run"]
    assert order[21:] == ["run"] * 7
