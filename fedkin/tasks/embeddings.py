"""Embeddings of clients' samples by a frozen network, which describe the clients' data
(FedRouter)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
        rows = client.embeddings() if self.size else self._samples(client)
        return {"mean": rows.mean(axis=0, dtype=np.float64)}

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"e": int(self.size)}

    def _samples(self, client: Client) -> np.ndarray:
        """The client's samples, each as a row of numbers."""
        features, _ = client.samples()
        if not np.issubdtype(features.dtype, np.floating):
            raise TaskError(
                f"task {self.name}: token numbers of texts cannot be averaged, and the model has "
                f"no frozen network that embeds them ({client}); use fk.lora, with a last layer "
                "(head)"
            )
        return features.reshape(len(features), -1)


_OF_SAMPLES = Rows(mean=floats("d"))
_OF_EMBEDDINGS = Rows(mean=floats("e"))
