"""Embeddings of clients' samples by a frozen network, which describe the clients' data
(FedRouter)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client
from fedkin.core.errors import TaskError
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task


@dataclass(frozen=True)
class MeanEmbedding(Task):
    """The mean embedding of each client's training samples by the model's frozen network; NaN if a
    client does not reply.

    A model without a frozen network has no embeddings: then the samples themselves are averaged,
    each as a row of numbers. No label is read.

    Attributes:
        size: length of an embedding (``ModelSpec.embedding``); 0 for the samples themselves.
    """

    size: int = 0

    detectors = None

    @property
    def up(self) -> Rows:
        """Schema of the reply: the mean embedding, or the mean of the d numbers of a sample."""
        return _OF_SAMPLES if self.size == 0 else _OF_EMBEDDINGS

    def compute(self, client: Client) -> dict[str, Any]:
        rows = client_embeddings(self, client, self.size)
        return {"mean": rows.mean(axis=0, dtype=np.float64)}

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"e": int(self.size)}


def client_embeddings(
    task: Task, client: Client, size: int, split: str = "train"
) -> Float[np.ndarray, "s e"]:
    """The embeddings of a client's samples; without a frozen network, each sample as a row of
    numbers.

    Args:
        task: the task that needs them, for the message.
        client: the client.
        size: length of an embedding (``ModelSpec.embedding``); 0 without a frozen network.
        split: ``train``, ``test``, or ``validation`` if the data have one.

    Raises:
        TaskError: the samples are texts, and there is no frozen network.
    """
    if size:
        return client.embeddings(split)
    features, _ = client.samples(split)
    if not np.issubdtype(features.dtype, np.floating):
        raise TaskError(
            f"task {task.name}: token numbers of texts cannot be averaged, and the model has no "
            f"frozen network that embeds them ({client}); use fk.lora, with a last layer (head)"
        )
    # A client may have no test samples.
    return features.reshape(len(features), math.prod(features.shape[1:]))


_OF_SAMPLES = Rows(mean=floats("d"))
_OF_EMBEDDINGS = Rows(mean=floats("e"))
