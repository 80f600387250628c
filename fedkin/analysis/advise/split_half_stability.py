"""How many kinds of clients there are: what each learns from one half of its data must say what the other half says.

Every client halves its data at random and trains from the initial model on each half. The directions of both updates
are two independent looks at it. A number of clusters holds if clients come back to their cluster at the second look
(``clustering.how_many.returning``); the largest that holds is the answer.

* A pilot trains until the clients have learnt their halves: twice as long again, until the training loss of the last
  epoch is a third of the first's, or for ``MOST_EPOCHS``. A gradient, or a short training, tells how many samples of
  each class a client has, which is noise where kinds differ in what their data mean; a local solution tells what the
  client has learnt of them. Trained longer than that, or from a model after some rounds of averaging, it tells no more.
* A number holds where at least ``HOLDS`` of the clients of every cluster come back: half way between the half of them
  that come back to the smaller part of a split of noise, and all of them.
* It must also be more than came back at any number, and in any of several deals, when the same data were dealt to the
  same clients at random. So few clients that chance brings them back are told apart from nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.clustering import cluster_count
from fedkin.config.schema import check_integer
from fedkin.core.errors import DataError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.world import SGD, LocalTraining, TrainingReply
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures.cosine import cosine
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel

LEAST_CLIENTS, LEAST_SAMPLES = 8, 8  # of a client's samples: a half of fewer than four says nothing
MOST_CLIENTS = 200  # that are looked at: more do not change the answer, and cost their share
EPOCHS, MOST_EPOCHS = 10, 160  # of a pilot
LEARNT = 1 / 3  # of the loss in the first epoch
HOLDS = 0.75
Say = Callable[[str], None]


@dataclass(frozen=True)
class Kinds:
    """How many kinds of clients were found, and what five ways of asking say. Column K - 1 is K clusters.

    Attributes:
        clusters: the largest number that holds; 1 where none does.
        used: the clients that were looked at, ascending.
        returned: the least share of a cluster's clients that come back, median over halvings and directions.
        chance: the largest that any random deal gave, at any number of clusters from 2 on.
        heights, spectrum, gap, silhouette: see ``clustering.how_many``.
        points: the clients along the first directions of their updates.
    """

    clusters: int
    used: Int[np.ndarray, "n"]
    returned: Float64[np.ndarray, "most"]
    chance: float
    gap: cluster_count.Gap
    silhouette: Float64[np.ndarray, "most"]
    spectrum: Float64[np.ndarray, "values"]
    heights: Float64[np.ndarray, "most"]
    points: Float64[np.ndarray, "n d"]

    @property
    def most(self) -> int:
        """The largest number that was asked for."""
        return len(self.returned)

    @property
    def votes(self) -> dict[str, int]:
        """What each way of asking says. Silhouette and dendrogram cannot say 1."""
        return {
            "clients return": self.clusters,
            "gap statistic": self.gap.clusters,
            "silhouette": int(np.nanargmax(self.silhouette)) + 1,
            "eigengap": cluster_count.largest_eigengap(self.spectrum),
            "dendrogram": cluster_count.largest_jump(self.heights),
        }


def how_many_kinds(
    data: FederatedData,
    model: AnyModel,
    local: LocalTraining | None = None,
    *,
    seed: int = 0,
    most: int = 12,
    halvings: int = 3,
    deals: int = 5,
    say: Say | None = None,
) -> Kinds:
    """How many kinds of clients there are.

    Args:
        local: what a client does with a model; a pilot does ``EPOCHS`` epochs of it, and more where
            that is too little to learn anything.
        most: the largest number to ask for; no more than a quarter of the clients.
        halvings: how many times every client halves its data.
        deals: how many times the data are dealt at random, for comparison.
        say: called with a line about what is being done.

    Raises:
        ConfigError: a number that is none.
        DataError: fewer than ``LEAST_CLIENTS`` clients with ``LEAST_SAMPLES`` samples, or a single class.
        ModelError: a detector, or a model that does not fit the data.
    """
    for name, count, least in (("seed", seed, 0), ("most", most, 2), ("halvings", halvings, 1), ("deals", deals, 1)):
        check_integer(name, count, least)
    check(data, model)
    tell = say or (lambda _: None)
    stream = Stream(seed, 0, "advise")
    used = usable(data, stream)
    looks = _Looks(of_clients(data, used), model, _pilot(local), stream)
    looks.learn(tell)
    seen = []
    for one in range(halvings):
        tell(f"pilot {one + 1} of {halvings}: {len(used)} clients, both halves of their data")
        seen.append(looks.take(f"halves {one}", at_random=False))
    there: Bool[np.ndarray, "n"] = np.all([look.any(axis=1) for pair in seen for look in pair], axis=0)
    if there.sum() < LEAST_CLIENTS:
        raise DataError(f"{there.sum()} of {len(used)} clients gave an update in every pilot; try a smaller local.lr")
    most = min(most, int(there.sum()) // 4)
    shares = [
        cluster_count.split_half_stability(first[there], second[there], most, looks.rng) for first, second in seen
    ]
    chance = max(_chance(looks, one, deals, most, tell) for one in range(deals))
    updates = np.sum([first[there] + second[there] for first, second in seen], axis=0)
    return _found(used[there], np.median(np.concatenate(shares), axis=0), chance, updates, looks.rng)


def check(data: FederatedData, model: AnyModel) -> None:
    """Refuse what cannot be clustered by what its models learn."""
    if model.spec.detects:
        raise ModelError("advice needs a model with a score for every class, got a detector; take model.name=mclr")
    if np.count_nonzero(data.label_counts().sum(axis=0)) < 2:
        raise DataError(f"{data.name}: all training samples are of one class; there is nothing to learn")


def usable(data: FederatedData, stream: Stream) -> Int[np.ndarray, "n"]:
    """The clients with enough samples to halve, ``MOST_CLIENTS`` of them drawn where there are more."""
    enough = np.flatnonzero(data.train.sizes >= LEAST_SAMPLES)
    if len(enough) < LEAST_CLIENTS:
        raise DataError(
            f"{data.name}: advice needs at least {LEAST_CLIENTS} clients with {LEAST_SAMPLES} training samples or "
            f"more, got {len(enough)} of {data.clients} clients"
        )
    if len(enough) > MOST_CLIENTS:
        enough = np.sort(stream.child("clients").rng().choice(enough, MOST_CLIENTS, replace=False))
    return enough


def dealt(part: Ragged, rng: np.random.Generator) -> Ragged:
    """The same samples, given to clients of the same sizes at random."""
    return Ragged(rng.permutation(part.rows), part.offsets)


def of_clients(data: FederatedData, clients: Int[np.ndarray, "n"]) -> FederatedData:
    """Some clients, without what is known of them."""
    bare = dataclasses.replace(data, true_clusters=None, client_names=None)
    return bare.with_rows(data.train.select(clients), data.test.select(clients))


def _pilot(local: LocalTraining | None) -> LocalTraining:
    """The run's local work, for as many epochs as a trial begins with."""
    return dataclasses.replace(local or SGD(lr=0.03), epochs=EPOCHS, steps=None)


@dataclass
class _Looks:
    """What clients learn from the halves of their data."""

    data: FederatedData
    model: AnyModel
    work: LocalTraining
    stream: Stream

    def __post_init__(self) -> None:
        self.rng = self.stream.child("clustering").rng()

    def learn(self, tell: Say) -> None:
        """Find out how long clients must train on a half."""
        while True:
            epochs = int(np.max(self.work.epochs))
            tell(f"a trial of {epochs} epochs")
            reply = self._trained(_halves(self.data.train, self.rng), self.stream.child("trial"))
            if reply.loss.sum() <= LEARNT * reply.first_loss.sum() or 2 * epochs > MOST_EPOCHS:
                return
            self.work = dataclasses.replace(self.work, epochs=2 * epochs)

    def take(self, name: str, *, at_random: bool) -> tuple[Float[np.ndarray, "n P"], Float[np.ndarray, "n P"]]:
        """The directions of both updates of every client: rows of length 1, zero where there is none. The same data
        dealt at random, where that is asked for."""
        stream = self.stream.child(name)
        part = dealt(self.data.train, stream.child("deal").rng()) if at_random else self.data.train
        update = self._trained(_halves(part, stream.child("halves").rng()), stream).update
        length = np.linalg.norm(update.astype(np.float64), axis=1, keepdims=True)
        unit = np.divide(update, length, out=np.zeros_like(update), where=length > 0)
        return unit[: len(part)], unit[len(part) :]

    def _trained(self, halves: Ragged, stream: Stream) -> TrainingReply:
        """What every half learns, from one initial model."""
        nothing = Ragged.of([np.zeros(0, np.int64)] * len(halves))
        world = SimulatedWorld(self.data.with_rows(halves, nothing), self.model, self.work)
        everybody = np.arange(len(halves))
        start = world.initial(self.stream.child("model"))
        return world.train(start[None], everybody, np.zeros_like(everybody), stream=stream.child("train"))


def _halves(part: Ragged, rng: np.random.Generator) -> Ragged:
    """Every client as two: the first halves of all, then the second halves."""
    mixed = [rng.permutation(part[client]) for client in range(len(part))]
    return Ragged.of([own[: len(own) // 2] for own in mixed] + [own[len(own) // 2 :] for own in mixed])


def _chance(looks: _Looks, one: int, deals: int, most: int, tell: Say) -> float:
    """The largest share that comes back when data are dealt at random."""
    tell(f"chance {one + 1} of {deals}: the same data, dealt at random")
    first, second = looks.take(f"deal {one}", at_random=True)
    there = first.any(axis=1) & second.any(axis=1)
    most = min(most, int(there.sum()) // 4)
    if most < 2:
        return 1.0
    return float(
        cluster_count.split_half_stability(first[there], second[there], most, looks.rng).mean(axis=0)[1:].max()
    )


def _found(
    used: Int[np.ndarray, "n"],
    returned: Float64[np.ndarray, "most"],
    chance: float,
    updates: Float[np.ndarray, "n P"],
    rng: np.random.Generator,
) -> Kinds:
    most = len(returned)
    holds = (returned >= HOLDS) & (returned > chance)
    points, _ = cluster_count.principal_projections(updates, updates, most - 1)
    centred = updates - updates.mean(axis=0)
    return Kinds(
        clusters=int(np.flatnonzero(holds)[1:].max(initial=0)) + 1,
        used=used,
        returned=returned,
        chance=chance,
        gap=cluster_count.gap_statistic(points, most, rng),
        silhouette=cluster_count.silhouettes(points, most, rng),
        spectrum=cluster_count.laplacian_spectrum(np.clip(cosine(centred, centred), 0, None), most + 1),
        heights=cluster_count.merge_heights(points, most),
        points=points,
    )
