"""The shift test: whether a client's labels have changed since it was last assigned to a cluster.

Source: FlexCFL (Duan et al. 2022), Algorithm 2, l. 5; as in the authors' code, the distance is between label counts.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import MethodError
from fedkin.measures.wasserstein import label_aware, label_blind, shift_threshold

TESTS = {"label_blind": label_blind, "label_aware": label_aware}


class LabelMemory:
    """Label counts of each client when it was last assigned, and its number of samples at the start.

    A client's data have shifted if the distance between its label counts and the stored ones is above
    ``threshold`` n_i / C. ``label_blind`` is the Wasserstein distance between the counts as samples, which does not
    detect a renaming of classes; its n_i is always the client's number of samples before any shift, as in FlexCFL's
    code. ``label_aware`` is ours: it compares the counts class by class, and its n_i is the number of samples when the
    counts were stored: with the number at the start, a client that lost most samples would hardly ever detect a shift.
    """

    def __init__(self, counts: Int[np.ndarray, "N C"]) -> None:
        self._stored = counts.astype(np.int32)
        self._size = counts.sum(axis=1)

    def note(self, clients: Int[np.ndarray, "n"], counts: Int[np.ndarray, "n C"]) -> None:
        """Store the current counts of clients that were assigned."""
        self._stored[clients] = counts

    def shifted(
        self, clients: Int[np.ndarray, "n"], counts: Int[np.ndarray, "n C"], test: str, threshold: float
    ) -> Bool[np.ndarray, "n"]:
        """Whether the labels of each client have changed too much.

        Raises MethodError for an unknown test.
        """
        if test not in TESTS:
            raise MethodError(f"the shift test must be one of {', '.join(TESTS)}, got {test!r}")
        stored = self._stored[clients]
        size = stored.sum(axis=1) if test == "label_aware" else self._size[clients]
        return TESTS[test](counts, stored) > shift_threshold(size, counts.shape[1], threshold)

    def arrays(self) -> dict[str, np.ndarray]:
        """The stored arrays, for a checkpoint."""
        return {"noted_labels": self._stored.copy(), "samples_at_first": self._size.copy()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what ``arrays`` returned."""
        self._stored = arrays["noted_labels"].copy()
        self._size = arrays.get("samples_at_first", self._size).copy()
