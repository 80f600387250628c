"""Excludes updates with an unusually large norm, compared with other updates of the same model."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

_MIN_UPDATES = 3  # least number of updates whose median counts as the typical norm

# Smaller updates, for example of a saturated model, are at the limit of float32 precision. The unit
# is the norm of the model, at least 1.
_RESOLUTION = 1e-6

# The largest typical norm if there is nothing to compare with, in the same unit.
_FIRST = 100.0


class NormFilter:
    """Finds updates with a norm above both the model's norm and ``limit`` times the typical norm.

    The typical norm of a model's updates is their median in a call. A median of fewer than three
    updates says little, so such a model gets the larger of two other values, as far as they exist:
    its typical norm in earlier calls, and the median of all updates of the call. In the first call
    of two clients it is the smaller of their norms. So few updates may lower the stored typical
    norm but not raise it, because one of two clients may be malicious.

    Updates that are too small for float32, relative to the model, are left out of medians. Clients
    whose models fit all their samples send such updates, which do not show a typical norm.

    Args:
        limit: factor above 1.
        typical: typical norms of earlier calls, by kind of training and model; changed in place.
        training: kind of the filtered training (e.g. how many epochs, or which part of the model).
            Norms differ between kinds, so each kind has its own typical norms.
    """

    def __init__(
        self, limit: float | int, typical: dict[str, float] | None = None, training: str = ""
    ) -> None:
        self.limit = limit
        self.training = training
        self.typical: dict[str, float] = {} if typical is None else typical

    def for_training(self, training: str) -> NormFilter:
        """The same filter for another kind of training; both store their typical norms in one
        place."""
        return NormFilter(self.limit, self.typical, training)

    def outliers(
        self,
        norms: Float[np.ndarray, "r"],
        models: Int[np.ndarray, "r"] | None = None,
        starts: Float[np.ndarray, "r"] | None = None,
    ) -> Bool[np.ndarray, "r"]:
        """Which updates have a norm above their limit; for the arguments see ``limits``."""
        return norms > self.limits(norms, models, starts)

    def limits(
        self,
        norms: Float[np.ndarray, "r"],
        models: Int[np.ndarray, "r"] | None = None,
        starts: Float[np.ndarray, "r"] | None = None,
    ) -> Float[np.ndarray, "r"]:
        """The largest allowed norm of each update of a call. It also stores new typical norms.

        Args:
            norms: norms of the updates.
            models: index of the model of each update; None if there is one model for all.
            starts: norm of the model that each update started from; None if unknown.
        """
        moving = _moving(norms, starts)
        limits = np.empty(len(norms))
        for name, of_model in self._by_model(norms, models):
            start = _start(of_model, starts)
            usual = self._usual(
                name=name,
                norms=norms,
                moving=moving,
                of_model=of_model,
                start=start,
            )
            # Updates no larger than the model itself are never excluded.
            limit = max(self.limit * usual, start)
            limits[of_model] = limit
            self._remember(
                name=name,
                norms=norms,
                counted=of_model & moving,
                limit=limit,
                usual=usual,
            )
        return limits

    def _usual(
        self,
        name: str,
        norms: Float[np.ndarray, "r"],
        moving: Bool[np.ndarray, "r"],
        of_model: Bool[np.ndarray, "r"],
        start: float,
    ) -> float:
        """The typical norm of one model's updates, from this call and earlier ones."""
        if (of_model & moving).sum() >= _MIN_UPDATES:
            return float(np.median(norms[of_model & moving]))
        earlier = self.typical.get(name, 0.0)
        of_call = float(np.median(norms[moving])) if moving.sum() >= _MIN_UPDATES else 0.0
        larger = max(earlier, of_call)
        if larger > 0:
            return larger
        return min(float(norms[moving].min(initial=np.inf)), self._first(moving, start))

    def _first(self, moving: Bool[np.ndarray, "r"], start: float) -> float:
        """The largest typical norm if there is nothing to compare with.

        It is infinite if all updates are large enough for float32: then only the updates decide.
        """
        return np.inf if moving.all() else _FIRST * max(start, 1.0)

    def _remember(
        self,
        name: str,
        norms: Float[np.ndarray, "r"],
        counted: Bool[np.ndarray, "r"],
        limit: float,
        usual: float,
    ) -> None:
        """Store the typical norm of one model for later calls.

        Args:
            name: name of the typical norm.
            norms: norms of all updates of the call.
            counted: which updates are the model's, and large enough for float32.
            limit: the largest allowed norm of an update of the model.
            usual: the typical norm in this call.
        """
        included = norms[counted & (norms <= limit)]
        if len(included):
            typical = float(np.median(included))
            # Few updates may lower the stored norm but not raise it: one client may be malicious.
            few = counted.sum() < _MIN_UPDATES
            self.typical[name] = min(typical, usual) if few else typical
        elif counted.any() and len(norms) < _MIN_UPDATES:
            # All updates of a small call are excluded. If the next norms are as large, they become
            # the typical norm.
            self.typical[name] = float(np.median(norms[counted]))

    def _by_model(
        self, norms: Float[np.ndarray, "r"], models: Int[np.ndarray, "r"] | None
    ) -> list[tuple[str, Bool[np.ndarray, "r"]]]:
        """For each model, its key among the typical norms, and a mask of its updates."""
        if models is None:
            return [(self.training, np.ones(len(norms), bool))] if len(norms) else []
        return [
            (f"{self.training} model {model}", models == model)
            for model in np.unique(models).tolist()
        ]


def _moving(
    norms: Float[np.ndarray, "r"], starts: Float[np.ndarray, "r"] | None
) -> Bool[np.ndarray, "r"]:
    """Which updates are large enough for float32 to show a typical norm."""
    unit = np.maximum(1.0, 0.0 if starts is None else starts)
    return norms > _RESOLUTION * unit


def _start(of_model: Bool[np.ndarray, "r"], starts: Float[np.ndarray, "r"] | None) -> float:
    """The norm of the model from which the updates of one model started; 0 if unknown."""
    return 0.0 if starts is None else float(starts[of_model].max())
