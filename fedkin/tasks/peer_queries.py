"""Requests between peers for models and updates, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task, stays


@dataclass(frozen=True)
class Ask(Task):
    """A request to peers for vectors: a peer's model and, if ``vectors`` is 2, its last update.

    The simulation has all models already, so the reply only tells which peers have replied. The
    vectors' bytes count as download and as upload, since one client receives them from another.
    """

    vectors: int = stays(default=1)

    between_peers = True
    detectors = None

    @property
    def up(self) -> Rows:
        """Schema of the reply: the vectors that one peer would send."""
        return Rows(vectors=floats(f"{self.vectors} P", np.float32, carried=False))

    def compute(self, client: Client) -> dict[str, Any]:
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {}
