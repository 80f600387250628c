"""Moments (means and standard deviations) of a model's outputs on clients' samples, which describe
the clients' data (FLUX, FEROMA). Shapes: P parameters, C classes, which is also the number of
outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task, kept
from fedkin.measures.descriptors import group_moments

_OVERALL = floats("2 C")


@dataclass(frozen=True)
class DescribingModel(Task):
    """The model that ``ScoreMoments`` uses, which clients keep.

    No message is sent for this task: a real client receives the model with its first task
    ``ScoreMoments``.
    """

    model: Float[np.ndarray, "P"] = kept("P")

    delivery = "announced"
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {}


@dataclass(frozen=True)
class ScoreMoments(Task):
    """Mean and standard deviation of each output of a model on a client's training samples.

    Both are computed over all samples, and over the samples of each class (-1 for a class with
    fewer than two samples). The model's last layer may be a random projection; then these are the
    moments of projected features.

    Attributes:
        model: the model, which clients have already (``DescribingModel``).
        labels: whether to compute moments for each class; otherwise no label is read.
    """

    model: Float[np.ndarray, "P"] = kept("P")
    labels: bool = True

    @property
    def up(self) -> Rows:
        """Schema of the reply: moments of all samples [2 C], and of each class [2 C C] if labels
        are read."""
        return _WITH_LABELS if self.labels else _WITHOUT

    def compute(self, client: Client) -> dict[str, Any]:
        scores = client.scores(self.model)
        labels = client.samples()[1]
        overall = group_moments(scores, np.zeros(len(scores), np.int64), 1, least=1)[:, 0]
        if not self.labels:
            return {"overall": overall}
        return {
            "overall": overall,
            "by_class": group_moments(scores, labels.astype(np.int64), client.classes),
        }

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        owned = rows.data.part("train").select(rows.clients)
        C = rows.data.classes
        n = len(rows.clients)
        scores = rows.scorer.scores(self.model, rows.clients, "train")
        owner = np.repeat(np.arange(n), owned.sizes)
        arrays = {"overall": group_moments(scores, owner, n, least=1).transpose(1, 0, 2)}
        if self.labels:
            labels = rows.data.y[owned.rows]
            by_class = group_moments(scores, owner * C + labels, n * C)
            arrays["by_class"] = by_class.reshape(2, n, C, scores.shape[1]).transpose(1, 0, 2, 3)
        yield rows.every, arrays


_WITH_LABELS = Rows(overall=_OVERALL, by_class=floats("2 C C"))
_WITHOUT = Rows(overall=_OVERALL)
