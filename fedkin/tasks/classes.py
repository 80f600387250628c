"""A task in which each client lists the classes of its training samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, booleans
from fedkin.core.task import Task


@dataclass(frozen=True)
class Classes(Task):
    """The classes of which each client has training samples, as one bit for each class."""

    up = Rows(classes=booleans("C", counted=False))
    detectors = None
    can_be_lost = False  # a simulated client fails in the training instead

    def compute(self, client: Client) -> dict[str, Any]:
        return {"classes": client.label_counts > 0}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {"classes": rows.data.label_counts(clients=rows.clients) > 0}
