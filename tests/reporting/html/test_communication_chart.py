"""Bytes by operation, and numbers thinned for the page."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.measures.number_texts import byte_text, byte_ticks
from fedkin.reporting.html.json_values import POINTS, thinned
from fedkin.reporting.html.run_charts import communication, communication_ticks
from tests.reporting.written_runs import a_run


def test_bytes_are_the_last_records_and_evaluation_is_apart() -> None:
    assert communication(a_run(np.zeros((5, 3), np.int64))) == [
        {"operation": "train", "kind": "", "download": 400, "upload": 200},
        {"operation": "evaluate", "kind": "not counted", "download": 7, "upload": 0},
    ]


def test_sizes_and_thinning() -> None:
    told = [byte_text(n) for n in (0, 999, 1000, 1_234_567, 5e12)]
    assert told == ["0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 TB"]
    assert thinned(3).tolist() == [0, 1, 2]
    many = thinned(10_000)
    assert len(many) == POINTS and many[0] == 0 and many[-1] == 9999


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (4_800_000, ["0", "2 MB", "4 MB"]),
        (312_000, ["0", "100 kB", "200 kB", "300 kB"]),
        (1000, ["0", "0.5 kB", "1 kB"]),
        (3, ["0", "1 B", "2 B", "3 B"]),
        (0, ["0", "1 B"]),
        (4e15, ["0", "2,000 TB", "4,000 TB"]),
    ],
)
def test_all_ticks_of_bytes_have_one_unit(most: float, texts: list[str]) -> None:
    ticks = byte_ticks(most)
    assert [text for _, text in ticks] == texts
    assert ticks[0][0] == 0 and ticks[-1][0] <= max(1, most)


def test_the_axis_of_bytes_covers_all_bars() -> None:
    rows = communication(a_run(np.zeros((5, 3), np.int64)))
    assert communication_ticks(rows) == {
        "values": [0, 200, 400],
        "texts": ["0", "200 B", "400 B"],
    }
    assert communication_ticks([])["values"] == [0, 1]
