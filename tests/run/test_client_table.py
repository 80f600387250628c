"""The file of a run's table of clients."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedkin.run.folder.client_table import from_parquet, to_parquet

COLUMNS = {
    "client": np.array([0, 2, 3]),
    "accuracy": np.array([0.5, np.nan, 1.0]),
    "loss": np.array([1.0, 2.0, 3.0], np.float32),
    "name": np.array(["a", "b b", "ü"], object),
    "kept": np.array([True, False, True]),
}


def test_the_columns_come_back_from_the_file() -> None:
    read = from_parquet(to_parquet(COLUMNS))
    assert list(read) == list(COLUMNS)
    for name, column in COLUMNS.items():
        assert read[name].dtype == column.dtype
        np.testing.assert_array_equal(read[name], column)


def test_pandas_reads_the_file() -> None:
    frame = pd.read_parquet(io.BytesIO(to_parquet(COLUMNS)))
    pd.testing.assert_frame_equal(frame, pd.DataFrame(COLUMNS))


def test_files_that_pandas_has_written_are_read() -> None:
    """Earlier versions wrote them, with nulls in place of NaN."""
    content = io.BytesIO()
    pd.DataFrame(COLUMNS).to_parquet(content, index=False)
    read = from_parquet(content.getvalue())
    for name, column in COLUMNS.items():
        np.testing.assert_array_equal(read[name], column)


def test_a_run_without_clients_has_an_empty_table() -> None:
    assert from_parquet(to_parquet({})) == {}


def test_a_table_is_written_without_an_import_of_pandas() -> None:
    code = (
        "import sys, numpy as np\n"
        "from fedkin.run.folder.client_table import to_parquet\n"
        "to_parquet({'client': np.arange(3), 'name': np.array(['a', 'b', 'c'], object)})\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are in /proc")
def test_the_file_is_read_without_another_thread() -> None:
    """A thread that still holds the bytes when Python ends would end the process with an error."""
    program = (
        "import os\nimport numpy as np\n"
        "from fedkin.run.folder.client_table import from_parquet, to_parquet\n"
        "content = to_parquet({'client': np.arange(3)})\n"
        "before = set(os.listdir('/proc/self/task'))\n"
        "from_parquet(content)\n"
        "print(len(set(os.listdir('/proc/self/task')) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"
