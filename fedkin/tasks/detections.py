"""Histograms of the scores that detectors (models for a single class) give to clients' samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, integers
from fedkin.core.task import Task, chosen, each
from fedkin.measures.calibration import BINS, score_histogram, score_histograms


@dataclass(frozen=True)
class Detections(Task):
    """Histograms of a detector's scores on a client's samples.

    One histogram is for the samples of the detector's class ``positive``, one for all others
    (``measures.calibration``). If a client does not reply, all its entries are -1.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()
    positive: Int[np.ndarray, "n"] = each()
    split: str = "train"

    up = Rows(counts=integers(f"2 {BINS}", missing=-1, counted=False))
    detectors = True

    @property
    def can_be_lost(self) -> bool:  # type: ignore[override]
        """Whether a simulation may drop a client's reply. Replies on training samples may be lost,
        since the method itself uses them. Replies on other splits may not: they evaluate the
        method, which needs the replies of all clients."""
        return self.split == "train"

    def compute(self, client: Client) -> dict[str, Any]:
        _, labels = client.samples(self.split)
        scores = client.raw_scores(self.models[self.model_index[0]], self.split)
        return {"counts": score_histogram(scores, labels == self.positive[0])}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        owned = rows.data.part(self.split).select(rows.clients)
        scores = rows.scorer.raw_scores(self.models, rows.clients, self.model_index, self.split)
        positive = rows.data.y[owned.rows] == np.repeat(self.positive, owned.sizes)
        yield rows.every, {"counts": score_histograms(scores, positive, owned.sizes)}
