"""Scoring of models on samples.

The samples of all rows with the same model are concatenated and cut into blocks of one size, so
that each block is scored by a single model. A row is a client and its model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.client_engine import sums_by_row
from fedkin.core.engine_protocols import ScoreSums
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model
from fedkin.simulation.batching import rounded_up
from fedkin.simulation.constant_scores import ConstantScores
from fedkin.simulation.jax import score_programs
from fedkin.simulation.jax.devices import frozen_on, mesh_of, replicate, shard
from fedkin.simulation.jax.host_arrays import aligned_rows
from fedkin.simulation.jax.local_training import SampleBlocks
from fedkin.simulation.weighted_losses import weighted_losses

_BLOCK = 64  # samples per block; constant, so that a score does not depend on the other clients
_CHUNK_BYTES = 64 * 2**20  # largest size in bytes of the samples in one compiled call
_CACHE_BYTES = 512 * 2**20  # largest size in bytes of sample blocks kept between rounds
# Samples scored at a time. A larger call is not cached, and is scored in portions of a quarter.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Blocks:
    """Samples sorted by model, with the samples of each model padded to whole blocks."""

    model_index: Int[np.ndarray, "b"]  # model of each block; padding blocks score with model 0
    take: Int[np.ndarray, "b S"]  # sample rows of each block; padding repeats row 0
    place: Int[np.ndarray, "t"]  # position of sample t of the request among the b * S samples


def make_blocks(
    rows: Int[np.ndarray, "t"], model: Int[np.ndarray, "t"], devices: int = 1
) -> Blocks:
    """Arrange samples in blocks, so that each block needs one model.

    Args:
        rows: index of each sample in the data set.
        model: index of the model that scores each sample.
        devices: the number of blocks is a multiple of this number.
    """
    order = np.argsort(model, kind="stable")
    used, counts = np.unique(model, return_counts=True)
    per_model = -(-counts // _BLOCK)
    total = -(-rounded_up(int(per_model.sum())) // devices) * devices
    # The i-th sample of a model has the i-th place in that model's blocks.
    start = np.repeat((np.cumsum(per_model) - per_model) * _BLOCK, counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(len(rows), np.int64)
    place[order] = start + within
    take = np.zeros(total * _BLOCK, np.int64)
    take[place] = rows
    model_index = np.zeros(total, np.int32)
    model_index[: per_model.sum()] = np.repeat(used, per_model)
    return Blocks(model_index, take.reshape(total, _BLOCK), place)


def chunks(
    b: Blocks, x: Shaped[np.ndarray, "M ..."], limit: int, devices: int = 1
) -> Iterator[slice]:
    """Slices of the blocks (samples for one model each), so that scoring a slice uses bounded
    memory.

    Args:
        b: the blocks.
        x: samples of the data set.
        limit: bytes of features in one slice; a slice has at least one block for each device.
        devices: the number of blocks in a slice is a multiple of this number.
    """
    per_block = b.take.shape[1] * max(1, int(np.prod(x.shape[1:]))) * x.dtype.itemsize
    step = max(1, limit // (per_block * devices)) * devices
    for start in range(0, len(b.model_index), step):
        yield slice(start, start + step)


class JaxScorer:
    """Scores models on the clients of one data set.

    Samples are scored in blocks, each by a single model. The blocks that were scored last in each
    split stay on the devices if they are small enough, and are used again if the same clients and
    models are scored next.
    """

    def __init__(self, data: FederatedData, model: Model, devices: list) -> None:
        self._data = data
        self._model = model
        self._mesh = mesh_of(devices)
        self._constants = ConstantScores(data)
        # Split and axes of the model indices -> clients and indices, and the result of `_blocks`.
        self._cache: dict[tuple[str, int], tuple[tuple, tuple]] = {}

    def losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n K"]:
        """Mean training loss of every model on every client, with regularisation."""
        weighted = weighted_losses(self, self._data, models, clients)
        if weighted is not None:
            return weighted + np.array([self._penalty(model) for model in models])
        first = np.zeros(len(clients), np.int64)
        columns = []
        # One model at a time: all models score the same blocks, which stay on the devices.
        for k in range(len(models)):
            sums = self.score(models[k : k + 1], clients, first, "train")
            columns.append(sums.loss / np.maximum(sums.examples, 1) + self._penalty(models[k]))
        return np.stack(columns, axis=1)

    def predict(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], split: str
    ) -> list[Int[np.ndarray, "t"]]:
        """For each model, the classes that it predicts for the samples of all clients,
        concatenated."""
        if not self._data.part(split).sizes[clients].sum():
            return [np.zeros(0, np.int32) for _ in models]
        place, batches = self._blocks(clients, np.zeros(len(clients), np.int64), split)
        replicas = [replicate(self._mesh, model[None]) for model in models]
        classes = [
            [self._run(score_programs.predict, replica, part) for replica in replicas]
            for part in batches
        ]
        return [_samples_of(parts)[place] for parts in zip(*classes, strict=True)]

    def _penalty(self, flat: Float[np.ndarray, "P"]) -> float:
        """A model's regularisation term in the training loss (such as L2), for one flat vector."""
        penalty = self._model.penalty
        if penalty is None:
            return 0.0
        return float(penalty(self._model.unflatten(jax.numpy.asarray(flat))))

    def raw_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> Float[np.ndarray, "t"]:
        """One score for each sample of all rows (clients with one detector each), from the row's
        detector."""
        if not self._data.part(split).sizes[clients].sum():
            return np.zeros(0, np.float32)
        place, batches = self._blocks(clients, model_index, split)
        whole = replicate(self._mesh, models)
        scored = [self._run(score_programs.raw_scores, whole, part) for part in batches]
        scores = _samples_of(scored)[place]
        # A detector that returns NaN must not win against other detectors.
        return np.where(np.isnan(scores), -np.inf, scores)

    def sample_losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "K t"]:
        """The loss of each model on each training sample of all clients, without regularisation."""
        place, batches = self._blocks(clients, np.zeros(len(clients), np.int64), "train")
        replicas = [replicate(self._mesh, model[None]) for model in models]
        # One model at a time, as every model scores all blocks. The program's second result is the
        # loss of each sample.
        losses = [
            [self._run(score_programs.score, replica, part)[1] for replica in replicas]
            for part in batches
        ]
        return np.stack([_samples_of(parts)[place] for parts in zip(*losses, strict=True)])

    def scores(
        self, model: Float[np.ndarray, "P"], clients: Int[np.ndarray, "n"], split: str
    ) -> Float[np.ndarray, "t C"]:
        """All outputs of one model on each sample of all clients."""
        if not self._data.part(split).sizes[clients].sum():
            return np.zeros((0, self._data.classes), np.float32)
        place, batches = self._blocks(clients, np.zeros(len(clients), np.int64), split)
        whole = replicate(self._mesh, model[None])
        scored = [self._run(score_programs.raw_scores, whole, part) for part in batches]
        return _rows_of(scored)[place]

    def embeddings(self, clients: Int[np.ndarray, "n"], split: str) -> Float[np.ndarray, "t e"]:
        """The embeddings of all samples of all clients by the model's frozen network."""
        if not self._data.part(split).sizes[clients].sum():
            return np.zeros((0, self._model.spec.embedding), np.float32)
        place, batches = self._blocks(clients, np.zeros(len(clients), np.int64), split)
        frozen = frozen_on(self._mesh, self._model)
        found = [
            score_programs.embeddings(self._model, self._mesh, part, frozen) for part in batches
        ]
        return _rows_of(found)[place]

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """The task type's sums, summed loss and number of samples of each row (a client with a
        model, or with one detector per class)."""
        owned = self._data.part(split)
        sizes = owned.sizes[clients].astype(np.int64)
        total = sizes.sum()
        if not total:
            none = np.zeros((len(clients), len(self._data.task_type.sums)))
            return ScoreSums(none, np.zeros(len(clients)), sizes)
        if len(clients) > 1 and total > _AT_ONCE and total * self._data.x[:1].nbytes > _CACHE_BYTES:
            # A call that is too large for the cache is scored in portions, to use less memory.
            portions = np.array_split(np.arange(len(clients)), -(-4 * total // _AT_ONCE))
            parts = [
                self.score(models, clients[rows], model_index[rows], split) for rows in portions
            ]
            return ScoreSums(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        place, batches = self._blocks(clients, model_index, split)
        whole = replicate(self._mesh, models)
        scored = [self._run(score_programs.score, whole, part) for part in batches]
        loss = _samples_of([losses for _, losses in scored])[place]
        summed = [
            sums_by_row(_samples_of(parts)[place], sizes)
            for parts in zip(*(by_sample for by_sample, _ in scored), strict=True)
        ]
        sums = [*summed, *self._constants.sums(clients, split).T]
        return ScoreSums(np.stack(sums, axis=1), sums_by_row(loss, sizes), sizes)

    def _run(self, program: Callable[..., Any], models: Any, blocks: Any) -> Any:
        """The result of a scoring program for these models and blocks of samples."""
        return program(
            model=self._model,
            mesh=self._mesh,
            models=models,
            blocks=blocks,
            frozen=frozen_on(self._mesh, self._model),
        )

    def _blocks(
        self, clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n ..."], split: str
    ) -> tuple:
        """Where each sample is among the blocks (samples for one model each), and the blocks on the
        devices.

        Blocks are cached until other clients or other model indices are scored.
        """
        key = (clients.tobytes(), model_index.tobytes())
        slot = (split, model_index.ndim)
        # The cache is read once: another thread may score other clients in the meantime.
        kept = self._cache.get(slot)
        if kept is not None and kept[0] == key:
            return kept[1]
        owned = self._data.part(split).select(clients)
        devices = self._mesh.size
        # A row has one model, or a set of detectors, one for each class. A block has rows of one
        # set.
        sets, set_of_row = np.unique(model_index, axis=0, return_inverse=True)
        b = make_blocks(owned.rows, np.repeat(set_of_row.ravel(), owned.sizes), devices)
        x = self._data.x
        y = self._data.y
        slices = chunks(b, x, _CHUNK_BYTES, devices)
        block_models = sets[b.model_index].astype(np.int32)
        # A generator: if the blocks are not cached, each part is sent only when it is scored.
        parts = (
            self._put(
                SampleBlocks(
                    model_index=block_models[s], x=aligned_rows(x, b.take[s]), y=y[b.take[s]]
                )
            )
            for s in slices
        )
        small = b.take.size * x[:1].nbytes <= _CACHE_BYTES
        blocks = (b.place, list(parts) if small else parts)
        if small:
            self._cache[slot] = (key, blocks)
        return blocks

    def _put(self, part: SampleBlocks) -> Any:
        """Move blocks of samples to the devices, an equal share to each."""
        devices = self._mesh.size
        split = SampleBlocks(*(array.reshape(devices, -1, *array.shape[1:]) for array in part))
        return shard(self._mesh, split)


def _rows_of(parts: Sequence[Any]) -> Shaped[np.ndarray, "_ _"]:
    """The results of a program that gives several numbers for each sample, with a row for each
    sample. ``parts`` are as for ``_samples_of``."""
    return np.concatenate([np.asarray(part).reshape(-1, part.shape[-1]) for part in parts])


def _samples_of(parts: Sequence[Any]) -> Shaped[np.ndarray, "_"]:
    """The results of a scoring program as one array with a number for each sample. ``parts`` are
    its results for consecutive slices of the blocks of samples."""
    return np.concatenate([np.asarray(part).ravel() for part in parts])
