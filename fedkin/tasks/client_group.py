"""The group of a client by a fact about it, such as its sector."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from fedkin.core.client import Client
from fedkin.core.errors import TaskError
from fedkin.core.schema import Rows, booleans, integers
from fedkin.core.task import Task

_BYTES = 5  # a code must be below 2^40, as all integers in replies


@dataclass(frozen=True)
class ClientGroup(Task):
    """The client's value in a column of facts about clients, as a code.

    The code is a hash of the value's text without a secret key, so equal values have equal codes on
    all sites. The server learns which clients share a value. It also learns the value, if it can
    guess it: anybody can hash every sector or region of a list and compare the codes. So the hash
    does not protect such a value; do not name a column whose values must stay secret.

    Attributes:
        column: name of the column; or of a feature that is constant within clients.
    """

    column: str

    up = Rows(group=integers(), known=booleans())
    can_be_lost = False  # the fact does not change, so the client is asked until it has replied
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        value = client.fact(self.column)
        if value is None:
            raise TaskError(
                f"{client} has no column {self.column!r} of facts about clients; give it when the "
                f'table is read: client_columns = ["{self.column}"]'
            )
        return {"group": code_of(value), "known": True}


def code_of(value: str) -> int:
    """The code of a value: a number below 2^40."""
    return int.from_bytes(hashlib.sha256(value.encode()).digest()[:_BYTES], "big")
