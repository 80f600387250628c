"""Scores of the constant model of a data set, with which gains (R2, D2) are computed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client_engine import sums_by_row
from fedkin.data.federated import FederatedData


class ConstantScores:
    """The sums of the constant model over the samples of each client of a data set. They do not
    depend on trained models, so each split is computed once."""

    def __init__(self, data: FederatedData) -> None:
        self._data = data
        self._by_split: dict[str, Float[np.ndarray, "N s"]] = {}

    def sums(self, clients: Int[np.ndarray, "n"], split: str) -> Float[np.ndarray, "n s"]:
        """The sums of some clients' samples: the last names of ``TaskType.sums``."""
        if split not in self._by_split:
            owned = self._data.part(split)
            columns = self._data.task_type.constant_scores(self._data.y[owned.rows])
            sums = [sums_by_row(column, owned.sizes) for column in columns]
            empty = np.zeros((len(owned), 0))
            self._by_split[split] = np.stack(sums, axis=1) if sums else empty
        return self._by_split[split][clients]
