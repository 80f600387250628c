"""Runs with another table of clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fedkin.run.run import Run


def columns_of(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of a table, by name."""
    return {str(name): table[name].to_numpy() for name in table}


def with_clients(run: Run, table: pd.DataFrame, **changes: Any) -> Run:
    """A copy of a run with this table of clients, and other changes."""
    return replace(run, client_columns=columns_of(table), **changes)
