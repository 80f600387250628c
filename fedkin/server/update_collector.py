"""What came back from training, gathered from the nodes and looked over: wrong sizes, NaN and absurd updates are set
aside and counted, whoever sent them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.world import Scores, TrainingReply
from fedkin.server.message import InvalidMessageError, RpcMessage

_ENOUGH = 3  # updates whose median says what is usual
MOST, _HUGE = 2**40, 1e30  # examples, and losses, beyond which nothing is believed


class NormFilter:
    """Finds updates that are absurdly long: ``limit`` times the median of those that came with them, or, where fewer
    than three came, of those before; of two at the beginning, ``limit`` times the other.

    What is ``usual`` is known by kind of training: fifty batches go another way than five epochs.
    """

    def __init__(self, limit: float | int, usual: dict[str, float] | None = None, kind: str = "") -> None:
        self.limit, self.kind = limit, kind
        self.usual: dict[str, float] = {} if usual is None else usual

    def of(self, kind: str) -> NormFilter:
        """The same for one kind of training."""
        return NormFilter(self.limit, self.usual, kind)

    def absurd(self, norms: Float[np.ndarray, "r"]) -> Bool[np.ndarray, "r"]:
        """Which of the updates with these norms are set aside."""
        lengths = norms[norms > 0]
        few = self.usual.get(self.kind, float(lengths.min(initial=np.inf)))
        usual = float(np.median(lengths)) if len(lengths) >= _ENOUGH else few
        found = norms > self.limit * usual
        kept = norms[~found & (norms > 0)]
        if len(kept):
            self.usual[self.kind] = float(np.median(kept))
        elif len(lengths):  # all at once: if the next are as long, that is how long they are now
            self.usual[self.kind] = float(np.median(lengths))
        return found


class UpdateCollector:
    """One call of training, as it comes in from node after node."""

    def __init__(
        self,
        parameters: int,
        models: int,
        model_index: Int[np.ndarray, "n"] | None,
        samples: Int[np.ndarray, "n"],
        reduce: bool,
        gradient: bool,
        part: slice | None,
        sieve: NormFilter,
    ) -> None:
        n = len(samples)
        self._models, self._which, self._reduce, self._sieve = models, model_index, reduce, sieve
        self._width = len(range(*(part or slice(parameters)).indices(parameters)))
        self._update = np.zeros((0 if reduce else n, self._width), np.float32)
        self._gradient = np.zeros((n, self._width), np.float32) if gradient else None
        self._means: list[tuple[Int[np.ndarray, "r"], dict[str, np.ndarray]]] = []
        self._tested = np.zeros(3)
        self.examples, self.model_index = (
            samples.copy(),
            np.zeros(n, np.int64) if model_index is None else model_index.copy(),
        )
        self.loss, self.first_loss = np.zeros(n), np.zeros(n)
        self.arrived, self.nonfinite = np.zeros(n, bool), np.zeros(n, bool)

    def sending(self, models: Float[np.ndarray, "K P"], rows: Int[np.ndarray, "r"]) -> dict[str, np.ndarray]:
        """The models that some rows need, and which each trains; all of them where the clients choose."""
        if self._which is None:
            return {"models": models}
        used, model_index = np.unique(self._which[rows], return_inverse=True)
        return {"models": models[used], "model_index": model_index.ravel()}

    def read(self, rows: Int[np.ndarray, "r"], answer: RpcMessage) -> None:
        """Take in what a node says of its rows. Raises Unfit where it cannot be used; then ``spoil`` them."""
        r = len(rows)
        said, nonfinite = answer.truths("arrived", r), answer.truths("nonfinite", r)
        if self._which is None:
            chosen = answer.integers("model_index", r)
            if chosen.size and not 0 <= chosen.min() <= chosen.max() < self._models:
                raise InvalidMessageError(f"it chose a model outside 0..{self._models - 1}")
            self.model_index[rows] = chosen
        tested = _tested(answer) if "tested" in answer.arrays else np.zeros(3)
        fine = said & self._read_gradient(rows, answer)
        fine &= self._read_means(rows, answer, said) if self._reduce else self._read_rows(rows, answer)
        self._tested += tested
        self.arrived[rows], self.nonfinite[rows] = fine, nonfinite | (said & ~fine)
        self._blank(rows[~fine])

    def spoil(self, rows: Int[np.ndarray, "r"]) -> None:
        """These rows came, and nothing in them can be used."""
        self.arrived[rows], self.nonfinite[rows] = False, True
        self._blank(rows)

    def _blank(self, rows: Int[np.ndarray, "r"]) -> None:
        """Rows that do not count hold zeros."""
        self.loss[rows] = self.first_loss[rows] = 0
        for array in (self._gradient, None if self._reduce else self._update):
            if array is not None:
                array[rows] = 0

    def _read_gradient(self, rows: Int[np.ndarray, "r"], answer: RpcMessage) -> Bool[np.ndarray, "r"]:
        """Gradients at the start, where they were asked for; which of them are finite."""
        if self._gradient is None:
            return np.ones(len(rows), bool)
        self._gradient[rows] = answer.singles("gradient", len(rows), self._width)
        return np.all(np.isfinite(self._gradient[rows]), axis=1)

    def _read_rows(self, rows: Int[np.ndarray, "r"], answer: RpcMessage) -> Bool[np.ndarray, "r"]:
        """Single updates; which of them are finite."""
        r = len(rows)
        self._update[rows] = answer.singles("update", r, self._width)
        fine = np.all(np.isfinite(self._update[rows]), axis=1)
        examples = answer.integers("examples", r)
        if examples.size and not 0 <= examples.min() <= examples.max() <= MOST:
            raise InvalidMessageError("an impossible number of examples")
        self.examples[rows] = examples
        for name in ("loss", "first_loss"):
            values = answer.floats(name, r)
            fine &= _sound(values)
            getattr(self, name)[rows] = np.where(_sound(values), values, 0)
        return fine

    def _read_means(
        self, rows: Int[np.ndarray, "r"], answer: RpcMessage, said: Bool[np.ndarray, "r"]
    ) -> Bool[np.ndarray, "r"]:
        """Means by model, with the examples behind each; all of it or nothing."""
        used = np.arange(self._models) if self._which is None else np.unique(self._which[rows])
        k = np.size(answer.arrays.get("kinds", ()))
        kinds = answer.integers("kinds", k)
        if len(set(kinds.tolist())) != k or (k and not 0 <= kinds.min() <= kinds.max() < len(used)):
            raise InvalidMessageError("means of models that were not sent")
        if not np.isin(self.model_index[rows][said], used[kinds]).all():
            raise InvalidMessageError("no mean of a model that it says to have trained")
        update, weight = answer.singles("update", k, self._width), answer.floats("weight", k)
        losses = {name: answer.floats(name, k) for name in ("loss", "first_loss")}
        if not (np.isfinite(update).all() and all(_sound(values).all() for values in (weight, *losses.values()))):
            raise InvalidMessageError("means that are not finite")
        if (weight <= 0).any() or (weight > MOST).any():
            raise InvalidMessageError("means of an impossible number of examples")
        self._means.append((rows, {"models": used[kinds], "update": update, "weight": weight, **losses}))
        return np.ones(len(rows), bool)

    def trained(self) -> TrainingReply:
        """All of it, without what is absurd."""
        update, weight = self._summed() if self._reduce else (self._sifted(), None)
        tested = None
        if self._tested[1]:
            correct, examples = (np.array([round(value)], np.int64) for value in self._tested[:2])
            tested = Scores(correct, examples, self._tested[2:] / examples)
        rows = (self.model_index, self.examples, self.loss, self.first_loss, self.arrived, self.nonfinite)
        return TrainingReply(update, *rows, weight, self._gradient, tested)

    def _sifted(self) -> Float[np.ndarray, "n p"]:
        absurd = self._sieve.absurd(_lengths(self._update))
        self.spoil(np.flatnonzero(absurd))
        return self._update

    def _summed(self) -> tuple[Float[np.ndarray, "K p"], Float[np.ndarray, "K"]]:
        total = WeightedSum(self._models, self._width)
        norms = [_lengths(means["update"]) for _, means in self._means]
        absurd = self._sieve.absurd(np.concatenate([np.zeros(0), *norms]))
        at = 0
        for rows, means in self._means:
            odd = absurd[at : at + len(means["models"])]
            at += len(odd)
            total.add(means["update"], np.where(odd, 0, means["weight"]), means["models"])
            for model, loss, first in zip(means["models"], means["loss"], means["first_loss"], strict=True):
                own = rows[(self.model_index[rows] == model) & self.arrived[rows]]
                self.loss[own], self.first_loss[own] = loss, first
            absurd_rows = rows[np.isin(self.model_index[rows], means["models"][odd])]
            self.spoil(absurd_rows[self.arrived[absurd_rows]])
        return total.mean()


def _lengths(updates: Float[np.ndarray, "r p"]) -> Float[np.ndarray, "r"]:
    """In float64, without a copy of all the updates in it."""
    return np.sqrt(np.einsum("rp,rp->r", updates, updates, dtype=np.float64))


def _sound(values: Float[np.ndarray, "r"]) -> Bool[np.ndarray, "r"]:
    """Finite, and so small that sums of them are finite too."""
    return np.isfinite(values) & (np.abs(np.nan_to_num(values)) < _HUGE)


def _tested(answer: RpcMessage) -> Float[np.ndarray, "3"]:
    """Test results of the models as they were sent: correct, samples, summed loss; nothing of what cannot be."""
    tested = answer.floats("tested", 3).astype(np.float64)
    possible = _sound(tested).all() and 0 <= tested[0] <= tested[1] <= MOST
    return tested if possible else np.zeros(3)
