"""The replies to one call of training, checked and put together; wrong sizes, nonfinite updates and outliers in norm
are excluded and counted."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.world import Scores, TrainingReply
from fedkin.server.message import InvalidMessageError, RpcMessage

_MIN_UPDATES = 3  # whose median is the typical norm
MAX_EXAMPLES, _MAX_LOSS = 2**40, 1e30  # anything above cannot be true


class NormFilter:
    """Finds updates whose norm is more than ``limit`` times the typical one: the median of a call, or, where fewer than
    three updates came, of earlier calls; of two in the first call, ``limit`` times the other.

    Args:
        limit: factor above 1.
        typical: typical norms of earlier calls, by kind of training; updated in place.
        training: the kind of training that is filtered (part of the vector, steps, epochs); norms differ between them.
    """

    def __init__(self, limit: float | int, typical: dict[str, float] | None = None, training: str = "") -> None:
        self.limit, self.training = limit, training
        self.typical: dict[str, float] = {} if typical is None else typical

    def for_training(self, training: str) -> NormFilter:
        """The same filter for one kind of training."""
        return NormFilter(self.limit, self.typical, training)

    def outliers(self, norms: Float[np.ndarray, "r"]) -> Bool[np.ndarray, "r"]:
        """Which of the updates with these norms are excluded; the typical norm follows the others."""
        positive = norms[norms > 0]
        earlier = self.typical.get(self.training, float(positive.min(initial=np.inf)))
        typical = float(np.median(positive)) if len(positive) >= _MIN_UPDATES else earlier
        outliers = norms > self.limit * typical
        included = norms[~outliers & (norms > 0)]
        if len(included):
            self.typical[self.training] = float(np.median(included))
        elif len(positive):  # all of them: if the next are as long, that is the typical norm now
            self.typical[self.training] = float(np.median(positive))
        return outliers


class UpdateCollector:
    """The result of one call of training, filled from the replies of its nodes.

    Args:
        parameters: P.
        models: K.
        model_index: the model that each row trains; None where clients choose.
        samples: training samples of each row, as registered.
        reduce: replies hold weighted means by model, not one update per row.
        gradient: replies hold gradients at the start too.
        part: the slice of the vector that replies hold; None: all of it.
        norm_filter: for this kind of training.
    """

    def __init__(
        self,
        parameters: int,
        models: int,
        model_index: Int[np.ndarray, "n"] | None,
        samples: Int[np.ndarray, "n"],
        reduce: bool,
        gradient: bool,
        part: slice | None,
        norm_filter: NormFilter,
    ) -> None:
        n = len(samples)
        self._models, self._assigned, self._reduce, self._norm_filter = models, model_index, reduce, norm_filter
        self._width = len(range(*(part or slice(parameters)).indices(parameters)))
        self._update = np.zeros((0 if reduce else n, self._width), np.float32)
        self._gradient = np.zeros((n, self._width), np.float32) if gradient else None
        self._means: list[tuple[Int[np.ndarray, "r"], dict[str, np.ndarray]]] = []
        self._test_sums = np.zeros(3)
        self.examples = samples.copy()
        self.model_index = np.zeros(n, np.int64) if model_index is None else model_index.copy()
        self.loss, self.first_loss = np.zeros(n), np.zeros(n)
        self.arrived, self.nonfinite = np.zeros(n, bool), np.zeros(n, bool)

    def models_of(self, models: Float[np.ndarray, "K P"], rows: Int[np.ndarray, "r"]) -> dict[str, np.ndarray]:
        """The arrays of a request: the models that some rows train, and which; all models where the clients choose."""
        if self._assigned is None:
            return {"models": models}
        used, model_index = np.unique(self._assigned[rows], return_inverse=True)
        return {"models": models[used], "model_index": model_index.ravel()}

    def read(self, rows: Int[np.ndarray, "r"], reply: RpcMessage) -> None:
        """Take a node's reply about its rows. Raises InvalidMessageError where it cannot be used; ``exclude`` them."""
        r = len(rows)
        arrived, nonfinite = reply.booleans("arrived", r), reply.booleans("nonfinite", r)
        if self._assigned is None:
            choices = reply.integers("model_index", r)
            if choices.size and not 0 <= choices.min() <= choices.max() < self._models:
                raise InvalidMessageError(f"it chose a model outside 0..{self._models - 1}")
            self.model_index[rows] = choices
        test_sums = _test_sums(reply) if "test_sums" in reply.arrays else np.zeros(3)
        valid = arrived & self._read_gradient(rows, reply)
        valid &= self._read_means(rows, reply, arrived) if self._reduce else self._read_updates(rows, reply)
        self._test_sums += test_sums
        self.arrived[rows], self.nonfinite[rows] = valid, nonfinite | (arrived & ~valid)
        self._clear(rows[~valid])

    def exclude(self, rows: Int[np.ndarray, "r"]) -> None:
        """Count these rows as arrived and not usable."""
        self.arrived[rows], self.nonfinite[rows] = False, True
        self._clear(rows)

    def _clear(self, rows: Int[np.ndarray, "r"]) -> None:
        """Rows that did not arrive hold zeros."""
        self.loss[rows] = self.first_loss[rows] = 0
        for array in (self._gradient, None if self._reduce else self._update):
            if array is not None:
                array[rows] = 0

    def _read_gradient(self, rows: Int[np.ndarray, "r"], reply: RpcMessage) -> Bool[np.ndarray, "r"]:
        """Gradients at the start, where they were requested; which of them are finite."""
        if self._gradient is None:
            return np.ones(len(rows), bool)
        self._gradient[rows] = reply.float32s("gradient", len(rows), self._width)
        return np.all(np.isfinite(self._gradient[rows]), axis=1)

    def _read_updates(self, rows: Int[np.ndarray, "r"], reply: RpcMessage) -> Bool[np.ndarray, "r"]:
        """Single updates; which of them are finite."""
        r = len(rows)
        self._update[rows] = reply.float32s("update", r, self._width)
        valid = np.all(np.isfinite(self._update[rows]), axis=1)
        examples = reply.integers("examples", r)
        if examples.size and not 0 <= examples.min() <= examples.max() <= MAX_EXAMPLES:
            raise InvalidMessageError("an impossible number of examples")
        self.examples[rows] = examples
        for name in ("loss", "first_loss"):
            values = reply.floats(name, r)
            valid &= _is_sound(values)
            getattr(self, name)[rows] = np.where(_is_sound(values), values, 0)
        return valid

    def _read_means(
        self, rows: Int[np.ndarray, "r"], reply: RpcMessage, arrived: Bool[np.ndarray, "r"]
    ) -> Bool[np.ndarray, "r"]:
        """Weighted means by model, with the examples of each; all are used or none."""
        used = np.arange(self._models) if self._assigned is None else np.unique(self._assigned[rows])
        k = np.size(reply.arrays.get("trained_models", ()))
        trained = reply.integers("trained_models", k)
        if len(set(trained.tolist())) != k or (k and not 0 <= trained.min() <= trained.max() < len(used)):
            raise InvalidMessageError("means of models that were not sent")
        if not np.isin(self.model_index[rows][arrived], used[trained]).all():
            raise InvalidMessageError("no mean of a model that it reports as trained")
        update, weight = reply.float32s("update", k, self._width), reply.floats("weight", k)
        losses = {name: reply.floats(name, k) for name in ("loss", "first_loss")}
        if not (np.isfinite(update).all() and all(_is_sound(values).all() for values in (weight, *losses.values()))):
            raise InvalidMessageError("means that are not finite")
        if (weight <= 0).any() or (weight > MAX_EXAMPLES).any():
            raise InvalidMessageError("means of an impossible number of examples")
        self._means.append((rows, {"models": used[trained], "update": update, "weight": weight, **losses}))
        return np.ones(len(rows), bool)

    def result(self) -> TrainingReply:
        """All rows, without the outliers."""
        update, weight = self._mean_updates() if self._reduce else (self._updates(), None)
        before_training = None
        if self._test_sums[1]:
            correct, examples = (np.array([round(value)], np.int64) for value in self._test_sums[:2])
            before_training = Scores(correct, examples, self._test_sums[2:] / examples)
        rows = (self.model_index, self.examples, self.loss, self.first_loss, self.arrived, self.nonfinite)
        return TrainingReply(update, *rows, weight, self._gradient, before_training)

    def _updates(self) -> Float[np.ndarray, "n p"]:
        outliers = self._norm_filter.outliers(_norms(self._update))
        self.exclude(np.flatnonzero(outliers))
        return self._update

    def _mean_updates(self) -> tuple[Float[np.ndarray, "K p"], Float[np.ndarray, "K"]]:
        total = WeightedSum(self._models, self._width)
        norms = [_norms(means["update"]) for _, means in self._means]
        outliers = self._norm_filter.outliers(np.concatenate([np.zeros(0), *norms]))
        start = 0
        for rows, means in self._means:
            excluded = outliers[start : start + len(means["models"])]
            start += len(excluded)
            total.add(means["update"], np.where(excluded, 0, means["weight"]), means["models"])
            for model, loss, first in zip(means["models"], means["loss"], means["first_loss"], strict=True):
                own = rows[(self.model_index[rows] == model) & self.arrived[rows]]
                self.loss[own], self.first_loss[own] = loss, first
            excluded_rows = rows[np.isin(self.model_index[rows], means["models"][excluded])]
            self.exclude(excluded_rows[self.arrived[excluded_rows]])
        return total.mean()


def _norms(updates: Float[np.ndarray, "r p"]) -> Float[np.ndarray, "r"]:
    """Norms in float64, without a copy of all updates in float64."""
    return np.sqrt(np.einsum("rp,rp->r", updates, updates, dtype=np.float64))


def _is_sound(values: Float[np.ndarray, "r"]) -> Bool[np.ndarray, "r"]:
    """Whether values are finite, and so small that their sums are finite too."""
    return np.isfinite(values) & (np.abs(np.nan_to_num(values)) < _MAX_LOSS)


def _test_sums(reply: RpcMessage) -> Float[np.ndarray, "3"]:
    """Test results before local training: correct, examples, summed loss; zeros where they cannot be true."""
    tested = reply.floats("test_sums", 3).astype(np.float64)
    possible = _is_sound(tested).all() and 0 <= tested[0] <= tested[1] <= MAX_EXAMPLES
    return tested if possible else np.zeros(3)
