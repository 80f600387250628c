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

    Each call of ``limits`` checks the updates of one or several models. The typical norm of a model
    is the median norm of its updates in that call. A median of fewer than three updates says
    little. So a model with one or two updates gets the larger of two other values: its typical norm
    in earlier calls, and the median norm of the updates of all models in this call. If neither
    exists, it gets the smallest norm in this call.

    One or two updates of a model can lower its stored typical norm, but cannot raise it, because
    one of two clients may be malicious. There is one exception. If a call has at most two updates,
    and those of the model are all excluded, their median becomes the stored typical norm, so that
    later updates with such norms are accepted.

    Updates that are too small for float32, relative to the model, are left out of medians. Clients
    send such updates if the model fits all their samples already.

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
        """The same filter for another kind of training. Both filters store their typical norms in
        one dict."""
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
        """The largest allowed norm of each update. This also stores the models' new typical norms
        for later calls.

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
        """The typical norm of one model's updates, from this call of ``limits`` and earlier
        ones."""
        if (of_model & moving).sum() >= _MIN_UPDATES:
            return float(np.median(norms[of_model & moving]))
        earlier = self.typical.get(name, 0.0)
        of_call = float(np.median(norms[moving])) if moving.sum() >= _MIN_UPDATES else 0.0
        larger = max(earlier, of_call)
        if larger > 0:
            return larger
        return min(float(norms[moving].min(initial=np.inf)), self._first(moving, start))

    def _first(self, moving: Bool[np.ndarray, "r"], start: float) -> float:
        """An upper bound of a model's typical norm while there is neither a typical norm of earlier
        calls of ``limits`` nor a median of at least three updates.

        If all updates are large enough for float32, there is no bound (infinity), and the smallest
        norm of the updates is typical. Otherwise the bound is 100 times the model's norm, or 100 if
        that norm is below 1 or unknown.
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
        """Store the typical norm of one model for later calls of ``limits``.

        Args:
            name: key of the typical norm in ``typical``.
            norms: norms of all updates in this call of ``limits``.
            counted: which updates are the model's, and large enough for float32.
            limit: the largest allowed norm of an update of the model.
            usual: the model's typical norm in this call of ``limits``.
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
        """For each model, the key under which its typical norm is stored, and a mask of the updates
        that are of this model."""
        if models is None:
            return [(self.training, np.ones(len(norms), bool))] if len(norms) else []
        return [
            (f"{self.training} model {model}", models == model)
            for model in np.unique(models).tolist()
        ]


def _moving(
    norms: Float[np.ndarray, "r"], starts: Float[np.ndarray, "r"] | None
) -> Bool[np.ndarray, "r"]:
    """Mask of the updates that are larger than float32's rounding errors in the model. Only their
    norms count for a typical norm."""
    unit = np.maximum(1.0, 0.0 if starts is None else starts)
    return norms > _RESOLUTION * unit


def _start(of_model: Bool[np.ndarray, "r"], starts: Float[np.ndarray, "r"] | None) -> float:
    """The norm of the model from which the updates of one model started; 0 if unknown."""
    return 0.0 if starts is None else float(starts[of_model].max())
