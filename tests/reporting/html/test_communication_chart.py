"""Bytes by operation, and numbers thinned for the page."""

from __future__ import annotations

import numpy as np

from fedkin.measures.number_texts import byte_text
from fedkin.reporting.html.json_values import POINTS, thinned
from fedkin.reporting.html.run_charts import communication
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
