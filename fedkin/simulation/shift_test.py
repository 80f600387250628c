"""What clients remember of their own labels, and how they tell from it that their data have shifted.

Source: FlexCFL (Duan et al. 2022), Algorithm 2, l. 5; as in the authors' code, the distance is between label counts.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import MethodError
from fedkin.measures.wasserstein import label_aware, label_blind, shift_threshold

TESTS = {"label_blind": label_blind, "label_aware": label_aware}


class LabelMemory:
    """Label counts of each client when it was last placed, and how many samples it had at the start.

    A client has shifted if the distance of its counts from those it noted is above ``threshold`` n_i / C.
    ``label_blind`` is the Wasserstein distance between the counts as samples, which cannot see a mere renaming of
    classes; its n_i is for ever the number of samples the client was given at first (before any shift), as in FlexCFL's
    code. ``label_aware`` is ours: it compares the counts class by class, and its n_i is the number of samples that the
    client noted, because one that was large once, and holds little now, would hardly notice anything.
    """

    def __init__(self, counts: Int[np.ndarray, "N C"]) -> None:
        self._noted = counts.astype(np.int32)
        self._size = counts.sum(axis=1)

    def note(self, clients: Int[np.ndarray, "n"], counts: Int[np.ndarray, "n C"]) -> None:
        """These clients were placed with the labels that they have now."""
        self._noted[clients] = counts

    def shifted(
        self, clients: Int[np.ndarray, "n"], counts: Int[np.ndarray, "n C"], test: str, threshold: float
    ) -> Bool[np.ndarray, "n"]:
        """Whether the labels of each client have moved too far from those it noted.

        Raises MethodError for an unknown test.
        """
        if test not in TESTS:
            raise MethodError(f"the shift test must be one of {', '.join(TESTS)}, got {test!r}")
        noted = self._noted[clients]
        size = noted.sum(axis=1) if test == "label_aware" else self._size[clients]
        return TESTS[test](counts, noted) > shift_threshold(size, counts.shape[1], threshold)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that is remembered and could not be counted again."""
        return {"noted_labels": self._noted.copy(), "samples_at_first": self._size.copy()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Remember what ``arrays`` gave."""
        self._noted = arrays["noted_labels"].copy()
        self._size = arrays.get("samples_at_first", self._size).copy()
