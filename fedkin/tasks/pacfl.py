"""PACFL's client work: the main directions of a client's samples, which describe its data. Shapes:
d features of a sample, p directions, C classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from fedkin.core.client import Client
from fedkin.core.errors import TaskError
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task
from fedkin.core.validation import check_positive_integer
from fedkin.measures.principal_angles import directions_by_label, leading_directions


@dataclass(frozen=True)
class Subspace(Task):
    """The first p left singular vectors of each client's data matrix; NaN if a client does not
    reply.

    The columns of the data matrix are the client's training samples.

    Samples are flattened and not centred. The largest component of each vector is positive. If a
    client has fewer than p samples, or its samples span fewer dimensions, the last columns are
    zeros. The authors' code sends p vectors for each class that a client has, side by side. Here p
    vectors are computed over all samples, so every client sends the same amount and uses no labels.

    The vectors reveal something about the data: the first one resembles a mean sample, and it is
    sent without protection.

    Attributes:
        p: number of vectors.
    """

    p: int = 3

    up = Rows(basis=floats("d p", np.float32, low=-1 - 1e-3, high=1 + 1e-3))
    detectors = None

    def __post_init__(self) -> None:
        check_positive_integer("p", self.p)

    def compute(self, client: Client) -> dict[str, Any]:
        features, _ = client.samples()
        rows = _numeric_rows(self, client, features)
        return {"basis": leading_directions(rows, self.p).astype(np.float32)}

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"p": int(self.p)}


@dataclass(frozen=True)
class LabelSubspaces(Task):
    """The first p left singular vectors of each client's training samples of each label.

    NaN if a client does not reply.

    Samples are treated as in ``Subspace``. Every reply has p columns for each of the C labels, with
    zeros for labels that a client does not have.

    Attributes:
        p: number of vectors per label.
    """

    p: int = 3

    up = Rows(basis=floats("d C p", np.float32, low=-1 - 1e-3, high=1 + 1e-3))
    detectors = None

    def __post_init__(self) -> None:
        check_positive_integer("p", self.p)

    def compute(self, client: Client) -> dict[str, Any]:
        features, labels = client.samples()
        rows = _numeric_rows(self, client, features)
        return {
            "basis": directions_by_label(rows, labels, client.classes, self.p).astype(np.float32)
        }

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"p": int(self.p)}


def _numeric_rows(
    task: Task, client: Client, features: Shaped[np.ndarray, "s ..."]
) -> Shaped[np.ndarray, "s d"]:
    """A client's samples, flattened.

    Args:
        task: the task, for the error message.
        client: the client.
        features: features of its samples.

    Raises:
        TaskError: the features are word indices of a text.
    """
    if not np.issubdtype(features.dtype, np.floating):
        raise TaskError(
            f"task {task.name}: subspaces need numeric features, got word indices of a text "
            f"({client}); use another method for text"
        )
    return features.reshape(len(features), -1)
