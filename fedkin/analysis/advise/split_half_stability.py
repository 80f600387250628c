"""Estimation of the number of clusters by split-half stability.

Every client splits its data into random halves, and trains from the initial model on each half.
This gives two independent estimates of its update direction. A number of clusters is stable if the
clusters of one half are found again in the other half
(``clustering.cluster_count.split_half_stability``). The largest stable number is used.

* A pilot is one such training of all clients. It must be long enough for clients to learn their
halves, so the number of epochs is doubled until the training loss of the last epoch is at most
``LOSS_RATIO`` times the loss of the first epoch, or until ``MAX_EPOCHS``. A gradient or a short
training mainly reflects how many samples of each class a client has. These numbers are only noise
if clusters differ in their concepts (how labels depend on features). A trained model also reflects
the concept. Longer training, or starting from an averaged model, does not improve the result.
* A number of clusters is stable if at least the share ``THRESHOLD`` of the clients of every cluster
stays in the cluster. The threshold, 75%, is half way between two shares: 1 if all clients stay, and
1/2 if clients stay by chance, as in the smaller part of noise that is split in two.
* The stability must also exceed all stabilities, of any number of clusters, that are found in
several IID splits of the same data. In these splits no clusters exist, so this guards against
chance results with few clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.clustering import cluster_count
from fedkin.clustering.cluster_count import split_half_stability as _stability
from fedkin.config.schema import check_integer
from fedkin.core.errors import DataError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.training import SGD, LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.units import units_of
from fedkin.measures.cosine import cosine
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.train import TrainingReply, train

MIN_CLIENTS = 8
MIN_SAMPLES = 8  # training samples of a client; a half needs at least four to be informative
MAX_CLIENTS = 200  # more clients take longer and do not change the result
# Initial and largest number of epochs of a pilot.
EPOCHS = 10
MAX_EPOCHS = 160
LOSS_RATIO = 1 / 3  # last loss relative to the loss of the first epoch
THRESHOLD = 0.75
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ClusterCount:
    """The estimated number of clusters, with five criteria. Entry K - 1 of an array is for K
    clusters.

    Attributes:
        clusters: the largest stable number of clusters; 1 if none is stable.
        clients: ids of the n compared clients, ascending.
        stability: share of clients that stay in their cluster when they are assigned by the other
            half of their data: minimum over clusters, median over the random splits and over both
            orders of the halves (clusters from the first half or from the second).
        chance: the stability that chance gives: the largest one in any IID split, over all numbers
            of clusters from 2.
        gap, silhouette, spectrum, heights: the other criteria, see ``clustering.cluster_count``.
        points: coordinates of the clients along the first principal components of their updates.
    """

    clusters: int
    clients: Int[np.ndarray, "n"]
    stability: Float64[np.ndarray, "most"]
    chance: float
    gap: cluster_count.Gap
    silhouette: Float64[np.ndarray, "most"]
    spectrum: Float64[np.ndarray, "values"]
    heights: Float64[np.ndarray, "most"]
    points: Float64[np.ndarray, "n d"]

    @property
    def max_clusters(self) -> int:
        """The largest number of clusters that was tried."""
        return len(self.stability)

    @property
    def estimates(self) -> dict[str, int]:
        """The number of clusters that each criterion estimates. Silhouette and dendrogram never
        estimate 1."""
        return {
            "split-half stability": self.clusters,
            "gap statistic": self.gap.clusters,
            "silhouette": int(np.nanargmax(self.silhouette)) + 1,
            "eigengap": cluster_count.largest_eigengap(self.spectrum),
            "dendrogram": cluster_count.largest_jump(self.heights),
        }


def estimate_cluster_count(
    data: FederatedData,
    model: AnyModel,
    local: LocalTraining | None = None,
    *,
    seed: int = 0,
    max_clusters: int = 12,
    splits: int = 3,
    iid_splits: int = 5,
    progress: Progress | None = None,
) -> ClusterCount:
    """Estimate the number of clusters by split-half stability.

    Args:
        data: the clients' data.
        model: the model to train.
        local: local training. A pilot trains for ``EPOCHS`` epochs, or more if the clients have not
            learnt their data by then.
        seed: seed of splits and initial model.
        max_clusters: the largest number of clusters to try. It is limited to a quarter of the
            clients.
        splits: number of random splits of every client's data.
        iid_splits: number of IID splits of the same data to compare with.
        progress: called with a line of text about each step.

    Raises:
        ConfigError: a number is invalid.
        DataError: fewer than ``MIN_CLIENTS`` clients have ``MIN_SAMPLES`` samples, or all samples
            have the same class.
        ModelError: the model is a detector, or does not fit the data.
    """
    numbers = {
        "seed": (seed, 0),
        "max_clusters": (max_clusters, 2),
        "splits": (splits, 1),
        "iid_splits": (iid_splits, 1),
    }
    for name, (count, least) in numbers.items():
        check_integer(name, count, least)
    check_supported(data, model)
    progress = progress or (lambda _: None)
    stream = Stream(seed, 0, "advise")
    clients = usable_clients(data, stream)
    # Only training samples are split into halves. Each half is a client without a name.
    trained = dataclasses.replace(data.select(clients), validation=None, client_names=None)
    pilots = _HalfPilots(trained, model, _pilot_training(local), stream)
    pilots.choose_epochs(progress)
    halves: list[_Halves] = []
    for number in range(splits):
        progress(
            f"split {number + 1} of {splits}: {len(clients)} clients train on both halves of their "
            "data"
        )
        halves.append(pilots.train(f"halves {number}", iid=False))
    replied = [half.any(axis=1) for pair in halves for half in pair]
    complete: Bool[np.ndarray, "n"] = np.all(replied, axis=0)
    if complete.sum() < MIN_CLIENTS:
        raise DataError(
            f"only {complete.sum()} of {len(clients)} clients gave a finite update in every pilot; "
            "try a smaller local.lr"
        )
    limit = min(max_clusters, int(complete.sum()) // 4)
    shares = [
        _stability(first[complete], second[complete], limit, pilots.rng) for first, second in halves
    ]
    chance = 0.0
    for number in range(iid_splits):
        progress(f"IID split {number + 1} of {iid_splits} of the same data")
        chance = max(chance, _chance(pilots, number, limit))
    updates = np.sum([first[complete] + second[complete] for first, second in halves], axis=0)
    return _count(
        clients=clients[complete],
        stability=np.median(np.concatenate(shares), axis=0),
        chance=chance,
        updates=updates,
        rng=pilots.rng,
    )


def check_supported(data: FederatedData, model: AnyModel) -> None:
    """Check that the clients' updates can be clustered. Raises ModelError for a detector, DataError
    for data with a single class."""
    if model.spec.detects:
        raise ModelError(
            "advice needs a model with a score for every class, got a detector; use model.name=mclr"
        )
    if data.task_type.loss is not None:
        return  # equal numbers are refused when the data are made
    if np.count_nonzero(data.label_counts().sum(axis=0)) < 2:
        raise DataError(
            f"{data.name}: all training samples have the same class, so a model cannot learn; use "
            "other data"
        )


def usable_clients(data: FederatedData, stream: Stream) -> Int[np.ndarray, "n"]:
    """The clients with enough samples to split; at most ``MAX_CLIENTS``, drawn at random."""
    enough = np.flatnonzero((data.train.sizes >= MIN_SAMPLES) & _has_two_units(data))
    if len(enough) < MIN_CLIENTS:
        raise DataError(
            f"{data.name}: advice needs at least {MIN_CLIENTS} clients with {MIN_SAMPLES} or more "
            f"training samples{' of two or more units' if data.unit is not None else ''}, got "
            f"{len(enough)} such clients of {data.clients}"
        )
    if len(enough) > MAX_CLIENTS:
        enough = np.sort(stream.child("clients").rng().choice(enough, MAX_CLIENTS, replace=False))
    return enough


def _has_two_units(data: FederatedData) -> Bool[np.ndarray, "N"]:
    """Whether each client has training samples of two units, so that each half has one."""
    if data.unit is None:
        return np.ones(data.clients, bool)
    counts = [units_of(data.unit, data.train[client]).count for client in range(data.clients)]
    return np.array(counts) >= 2


def iid_split(
    part: Ragged, rng: np.random.Generator, unit: Int[np.ndarray, "M"] | None = None
) -> Ragged:
    """The samples of ``part``, distributed at random over clients of the same sizes.

    Args:
        part: rows of each client.
        rng: draws the order of the samples.
        unit: unit of each sample, as from ``units_of_clients``: whole units are distributed, of
            which one may be cut between two clients. None: each sample is a unit.
    """
    if unit is None:
        return Ragged(rng.permutation(part.rows), part.offsets)
    units = units_of(unit, part.rows)
    place = rng.permutation(units.count)
    order = np.argsort(place[units.of_sample], kind="stable")
    return Ragged(part.rows[order], part.offsets)


def units_of_clients(data: FederatedData) -> Int[np.ndarray, "M"] | None:
    """The unit of each training sample, with another number for equal units of two clients; None if
    each sample is a unit."""
    if data.unit is None:
        return None
    found = np.zeros(len(data.y), np.int64)
    pairs = np.stack([data.train.owners(), data.unit[data.train.rows]])
    _, number = np.unique(pairs, axis=1, return_inverse=True)
    found[data.train.rows] = number.reshape(-1)
    return found


def _pilot_training(local: LocalTraining | None) -> LocalTraining:
    """The options of local training, with the number of epochs of the first pilot (``EPOCHS``)."""
    return dataclasses.replace(local or SGD(lr=0.03), epochs=EPOCHS, steps=None)


class _Halves(NamedTuple):
    """The update of every client from its first and from its second half, normalised to length 1
    (zero if training did not change the model)."""

    first: Float[np.ndarray, "n P"]
    second: Float[np.ndarray, "n P"]


@dataclass
class _HalfPilots:
    """Runs pilots: trains all clients on random halves of their data, and returns their updates."""

    data: FederatedData
    model: AnyModel
    local: LocalTraining
    stream: Stream

    def __post_init__(self) -> None:
        self.rng = self.stream.child("clustering").rng()
        self.unit = units_of_clients(self.data)

    def choose_epochs(self, progress: Progress) -> None:
        """Double the number of epochs until the clients have learnt their halves."""
        while True:
            epochs = int(np.max(self.local.epochs))
            progress(f"a pilot of {epochs} epochs")
            halves = _halves(self.data.train, self.rng, self.unit)
            reply = self._train(halves, self.stream.child("trial"))
            if reply.loss.sum() <= LOSS_RATIO * reply.first_loss.sum() or 2 * epochs > MAX_EPOCHS:
                return
            self.local = dataclasses.replace(self.local, epochs=2 * epochs)

    def train(self, name: str, *, iid: bool) -> _Halves:
        """Train all clients on random halves of their data; with ``iid``, of an IID split of the
        same data."""
        stream = self.stream.child(name)
        part = self.data.train
        if iid:
            part = iid_split(part, stream.child("deal").rng(), self.unit)
        halves = _halves(part, stream.child("halves").rng(), self.unit)
        update = self._train(halves, stream).update
        length = np.linalg.norm(update.astype(np.float64), axis=1, keepdims=True)
        unit = np.divide(update, length, out=np.zeros_like(update), where=length > 0)
        return _Halves(unit[: len(part)], unit[len(part) :])

    def _train(self, halves: Ragged, stream: Stream) -> TrainingReply:
        """Train on every client's halves from the same initial model, and return the updates."""
        # Each half becomes a client of a simulated world, without test samples.
        empty = Ragged.of([np.zeros(0, np.int64)] * len(halves))
        world = SimulatedWorld(self.data.with_rows(halves, empty), self.model, self.local)
        clients = np.arange(len(halves))
        start = world.initial(self.stream.child("model"))
        return train(
            world, start[None], clients, np.zeros_like(clients), stream=stream.child("train")
        )


def _halves(
    part: Ragged, rng: np.random.Generator, unit: Int[np.ndarray, "M"] | None = None
) -> Ragged:
    """Split each client into two random halves. The result has the first halves of all clients,
    then the second halves.

    Args:
        part: rows of each client.
        rng: draws the halves.
        unit: unit of each sample. All samples of a unit are in one half. None: each sample is a
            unit.
    """
    if unit is None:
        shuffled = [rng.permutation(part[client]) for client in range(len(part))]
        first = [samples[: len(samples) // 2] for samples in shuffled]
        second = [samples[len(samples) // 2 :] for samples in shuffled]
        return Ragged.of(first + second)
    pairs = [_halves_of_units(part[client], unit, rng) for client in range(len(part))]
    return Ragged.of([one for one, _ in pairs] + [other for _, other in pairs])


def _halves_of_units(
    rows: Int[np.ndarray, "s"], unit: Int[np.ndarray, "M"], rng: np.random.Generator
) -> tuple[Int[np.ndarray, "_"], Int[np.ndarray, "_"]]:
    """Two random halves of a client's samples, of about as many samples, with whole units. A single
    unit is cut, which happens only in IID splits."""
    units = units_of(unit, rows)
    if units.count < 2:
        shuffled = rng.permutation(rows)
        return shuffled[: len(rows) // 2], shuffled[len(rows) // 2 :]
    order = rng.permutation(units.count)
    sizes = np.bincount(units.of_sample, minlength=units.count)
    # The cut after a unit that leaves the two sides most alike.
    before = np.cumsum(sizes[order])[:-1]
    cut = 1 + int(np.argmin(np.abs(2 * before - len(rows))))
    in_first = np.isin(units.of_sample, order[:cut])
    return rows[in_first], rows[~in_first]


def _chance(pilots: _HalfPilots, number: int, limit: int) -> float:
    """The stability that chance gives: the largest one in IID split number ``number``, over 2 to
    ``limit`` clusters. It is 1, so that no number of clusters counts as stable, if fewer than 8
    clients could train on both halves."""
    first, second = pilots.train(f"deal {number}", iid=True)
    complete = first.any(axis=1) & second.any(axis=1)
    limit = min(limit, int(complete.sum()) // 4)
    if limit < 2:
        return 1.0
    shares = _stability(first[complete], second[complete], limit, pilots.rng)
    return float(shares.mean(axis=0)[1:].max())


def _count(
    clients: Int[np.ndarray, "n"],
    stability: Float64[np.ndarray, "most"],
    chance: float,
    updates: Float[np.ndarray, "n P"],
    rng: np.random.Generator,
) -> ClusterCount:
    """The resulting ``ClusterCount``: the largest stable number of clusters, and the other criteria
    for the same updates."""
    limit = len(stability)
    stable = (stability >= THRESHOLD) & (stability > chance)
    # K centres differ in at most K - 1 directions, so the other directions are only noise.
    points, _ = cluster_count.principal_projections(updates, updates, limit - 1)
    centred = updates - updates.mean(axis=0)
    return ClusterCount(
        clusters=int(np.flatnonzero(stable)[1:].max(initial=0)) + 1,
        clients=clients,
        stability=stability,
        chance=chance,
        gap=cluster_count.gap_statistic(points, limit, rng),
        silhouette=cluster_count.silhouettes(points, limit, rng),
        spectrum=cluster_count.laplacian_spectrum(
            np.clip(cosine(centred, centred), 0, None), limit + 1
        ),
        heights=cluster_count.merge_heights(points, limit),
        points=points,
    )
