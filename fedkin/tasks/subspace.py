"""Subspaces of clients' samples (PACFL). Shapes: d numbers of a sample, p directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.core.client import Client
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task
from fedkin.core.validation import check_positive_integer
from fedkin.measures.principal_angles import leading_directions


@dataclass(frozen=True)
class Subspace(Task):
    """The first p left singular vectors of each client's training samples, which are the columns of its data matrix;
    NaN without a reply.

    Samples are flattened and taken as they are. The largest component of each vector is positive. A client with fewer
    than p samples, or whose samples span fewer dimensions, has columns of zeros at the end. The authors' code sends p
    vectors for each class that a client has, side by side; here are p in all, of all its samples, so that every client
    sends as much and needs no labels.

    The vectors are directions of the data themselves: the first looks like a mean sample, and is sent as it is.

    Attributes:
        p: how many vectors.
    """

    p: int = 3

    up = Rows(basis=floats("d p", np.float32, low=-1 - 1e-3, high=1 + 1e-3))
    detectors = None

    def __post_init__(self) -> None:
        check_positive_integer("p", self.p)

    def compute(self, client: Client) -> dict[str, Any]:
        features, _ = client.samples()
        return {"basis": leading_directions(features.reshape(len(features), -1), self.p).astype(np.float32)}

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"p": int(self.p)}
