"""Scoring by model: the samples of all rows that share a model are joined and cut into blocks of one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.data.federated import FederatedData
from fedkin.measures.calibration import BINS, histogram
from fedkin.models.model import Model
from fedkin.simulation import local_training
from fedkin.simulation.batching import bucket
from fedkin.simulation.devices import mesh_of, replicated, split

_BLOCK = 64  # samples: one width for all, so that a sample's score does not depend on who else is scored
_PORTION = 256 * 2**20  # bytes of samples that one compiled call may hold
_KEPT = 512 * 2**20  # bytes of samples that are kept laid out between rounds


@dataclass(frozen=True)
class Blocks:
    """Samples sorted by model, every model's own padded to whole blocks."""

    model_index: Int[np.ndarray, "b"]  # model of each block; padding blocks score with model 0
    take: Int[np.ndarray, "b S"]  # sample rows; padding repeats row 0
    place: Int[np.ndarray, "t"]  # where sample t of the request lies among the b * S places


def blocks(rows: Int[np.ndarray, "t"], model: Int[np.ndarray, "t"], shares: int = 1) -> Blocks:
    """Arrange samples ``rows``, each to be scored by its ``model``, in a number of blocks that ``shares`` divides."""
    order = np.argsort(model, kind="stable")
    kinds, counts = np.unique(model, return_counts=True)
    per_model = -(-counts // _BLOCK)
    total = -(-bucket(int(per_model.sum())) // shares) * shares
    start = np.repeat((np.cumsum(per_model) - per_model) * _BLOCK, counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(len(rows), np.int64)
    place[order] = start + within
    take = np.zeros(total * _BLOCK, np.int64)
    take[place] = rows
    model_index = np.zeros(total, np.int32)
    model_index[: per_model.sum()] = np.repeat(kinds, per_model)
    return Blocks(model_index, take.reshape(total, _BLOCK), place)


def portions(b: Blocks, x: Shaped[np.ndarray, "M ..."], limit: int, shares: int = 1) -> Iterator[slice]:
    """Slices of the blocks, as many as ``shares`` divides, with at most ``limit`` bytes of features (if that is room
    for one block each)."""
    per_block = b.take.shape[1] * max(1, int(np.prod(x.shape[1:]))) * x.dtype.itemsize
    step = max(1, limit // (per_block * shares)) * shares
    for start in range(0, len(b.model_index), step):
        yield slice(start, start + step)


def per_row(values: Shaped[np.ndarray, "t"], sizes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Sums over the consecutive samples of each row; 0 for a row without samples."""
    sums = np.zeros(len(sizes))
    full = sizes > 0
    if full.any():
        starts = (np.cumsum(sizes) - sizes)[full]
        sums[full] = np.add.reduceat(values.astype(np.float64), starts)
    return sums


class Scorer:
    """Scores models on the clients of one data set; keeps the last layout of each split on the devices."""

    def __init__(self, data: FederatedData, model: Model, devices: list) -> None:
        self._data, self._model, self._mesh = data, model, mesh_of(devices)
        self._laid_out: dict[tuple[str, int], tuple[tuple, tuple]] = {}

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        nobody = np.zeros(len(clients), np.int64)
        columns = []
        for k in range(len(models)):
            _, loss, sizes = self.score(models[k : k + 1], clients, nobody, "train")
            columns.append(loss / np.maximum(sizes, 1) + self._penalty(models[k]))
        return np.stack(columns, axis=1)

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Root mean square error of the predicted class numbers, on each client's training samples."""
        if not len(clients):
            return np.zeros((0, len(models)))
        owned, nobody = self._data.train.taken(clients), np.zeros(len(clients), np.int64)
        place, laid_out = self._lay_out(clients, nobody, "train")
        each = [replicated(self._mesh, model[None]) for model in models]
        found = [[local_training.predict(self._model, self._mesh, one, part) for one in each] for part in laid_out]
        predicted = [
            np.concatenate([np.asarray(part).ravel() for part in parts])[place] for parts in zip(*found, strict=True)
        ]
        actual = self._data.y[owned.rows].astype(np.float64)
        return np.stack([np.sqrt(per_row((p - actual) ** 2, owned.sizes) / owned.sizes) for p in predicted], axis=1)

    def _penalty(self, flat: Float[np.ndarray, "P"]) -> float:
        """What the model adds to a training loss, such as an L2 term."""
        penalty = self._model.penalty
        return 0.0 if penalty is None else float(penalty(self._model.unflatten(jax.numpy.asarray(flat))))

    def histograms(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        split: str,
    ) -> Int[np.ndarray, "n 2 bins"]:
        """How each row's detector scores the samples of its class, and the others."""
        owned = self._data.part(split).taken(clients)
        if not len(owned.rows):
            return np.zeros((len(clients), 2, BINS), np.int64)
        place, laid_out = self._lay_out(clients, model_index, split)
        whole = replicated(self._mesh, models)
        found = [local_training.raw_scores(self._model, self._mesh, whole, part) for part in laid_out]
        scores = np.concatenate([np.asarray(part).ravel() for part in found])[place]
        scores = np.where(np.isnan(scores), -np.inf, scores)  # a broken detector finds nothing
        own = self._data.y[owned.rows] == np.repeat(positive, owned.sizes)
        cuts = owned.offsets[1:-1]
        return np.stack([histogram(s, p) for s, p in zip(np.split(scores, cuts), np.split(own, cuts), strict=True)])

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Correct predictions, summed loss and number of samples of each row."""
        owned = self._data.part(split)
        sizes = owned.sizes[clients].astype(np.int64)
        if not sizes.sum():
            return np.zeros(len(clients)), np.zeros(len(clients)), sizes
        place, laid_out = self._lay_out(clients, model_index, split)
        whole = replicated(self._mesh, models)
        scored = [local_training.score(self._model, self._mesh, whole, part) for part in laid_out]
        right = np.concatenate([np.asarray(r).ravel() for r, _ in scored])[place]
        loss = np.concatenate([np.asarray(v).ravel() for _, v in scored])[place]
        return per_row(right, sizes), per_row(loss, sizes), sizes

    def _lay_out(self, clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n ..."], split: str) -> tuple:
        """Blocks of samples on the device, kept while the same clients use the same models (or sets of detectors)."""
        key, place = (clients.tobytes(), model_index.tobytes()), (split, model_index.ndim)
        if place in self._laid_out and self._laid_out[place][0] == key:
            return self._laid_out[place][1]
        owned = self._data.part(split)
        rows = np.concatenate([owned[int(c)] for c in clients])
        shares = self._mesh.size
        sets, own = np.unique(model_index, axis=0, return_inverse=True)
        b = blocks(rows, np.repeat(own.ravel(), owned.sizes[clients]), shares)
        x, y = self._data.x, self._data.y.astype(np.int32)
        slices = portions(b, x, _PORTION, shares)
        scoring = sets[b.model_index].astype(np.int32)
        parts = (self._put((scoring[s], x[b.take[s]], y[b.take[s]])) for s in slices)
        small = b.take.size * x[:1].nbytes <= _KEPT
        laid_out = (b.place, list(parts) if small else parts)
        if small:
            self._laid_out[place] = (key, laid_out)
        return laid_out

    def _put(self, part: tuple[np.ndarray, ...]) -> Any:
        """Arrays over blocks, dealt to the devices."""
        return split(self._mesh, tuple(a.reshape(self._mesh.size, -1, *a.shape[1:]) for a in part))
