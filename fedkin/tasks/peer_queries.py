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
    """Whether each queried peer replies with its vectors: its model, and possibly its last update.

    The simulation has the models already, so the reply carries none.

    Bytes count as download and as upload: one client receives what another sends.
    """

    vectors: int = stays(default=1)

    between_peers = True
    detectors = None

    @property
    def up(self) -> Rows:
        """The vectors that one peer sends."""
        return Rows(vectors=floats(f"{self.vectors} P", np.float32, carried=False))

    def compute(self, client: Client) -> dict[str, Any]:
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {}
