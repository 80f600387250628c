"""A world that passes every call on, and records what the metrics of the round need."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.core.ledger import Ledger
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.world import BYTES_PER_NUMBER, UPDATE_MEMORY, LocalTraining, ModelSpec, Scores, TrainingReply, World

_log = logging.getLogger("fedkin")


@dataclass(frozen=True)
class TrainingRecord:
    """The last training of a round: what was sent to which clients, and their replies (each update, or reduced). Calls
    that sent the same models are one training."""

    models: Float[np.ndarray, "K P"]
    clients: Int[np.ndarray, "n"]
    reply: TrainingReply


class InstrumentedWorld:
    """A proxy of a world for metrics, which need single updates where the method needs means only.

    Where a method asks for means (``reduce``), the world is asked for the updates and the means are taken here, by
    the same function and so with the same bits, as long as the updates of one call fit into ``update_memory`` bytes
    (the world's own limit by default). Of a larger call only the means are known, and no discrepancy.
    """

    def __init__(self, world: World, update_memory: int | None = None) -> None:
        self.world = world
        self._update_memory = update_memory
        self.spec: ModelSpec = world.spec
        self.work: LocalTraining = world.work
        self.ledger: Ledger = world.ledger
        self.total_clients: int = world.total_clients
        self._forget(0)

    @property
    def update_memory(self) -> int:
        return (
            getattr(self.world, "update_memory", UPDATE_MEMORY) if self._update_memory is None else self._update_memory
        )

    def begin(self, stream: Stream) -> None:
        """Forget the round before, and let the world begin this one."""
        self._forget(stream.round)
        self.world.begin(stream)

    def _forget(self, round: int) -> None:
        self._round = round
        self.training: TrainingRecord | None = None
        self.missing = 0  # replies that never arrived, or were empty
        self.nonfinite = 0  # replies that were excluded because they were not finite
        self.detected: Bool[np.ndarray, "N"] | None = None  # clients that detected a shift; None: not tested
        self.placed = np.zeros(self.total_clients, bool)  # clients that were placed, and stored their label counts

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        return self.world.true_clusters

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        return self.world.initial(stream)

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        return self.world.clients(round)

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"] | None = None,
        *,
        work: LocalTraining | None = None,
        reduce: bool = False,
        gradient: bool = False,
        part: slice | None = None,
        stream: Stream,
    ) -> TrainingReply:
        separate = not reduce or len(clients) * models.shape[1] * BYTES_PER_NUMBER <= self.update_memory
        options = {"work": work, "reduce": not separate, "gradient": gradient, "part": part, "stream": stream}
        reply = self.world.train(models, clients, model_index, **options)
        training, earlier = TrainingRecord(models, clients, reply), self.training
        if part is None and earlier is not None and earlier.models is models:
            training = join(earlier, training)
        self.training = training if part is None else None
        self.missing += len(np.unique(clients[~reply.arrived & ~reply.nonfinite]))
        self._count_nonfinite(np.unique(clients[reply.nonfinite]))
        return take_means(reply, clients, len(models)) if reduce and separate else reply

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        return self.world.losses(models, clients)

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        return self.world.gradients(models, clients, model_index)

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        return self.world.label_errors(models, clients)

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        return self.world.evaluate(models, clients, model_index, split=split)

    def detections(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        *,
        split: str = "train",
    ) -> Int[np.ndarray, "n 2 bins"]:
        return self.world.detections(models, clients, model_index, positive, split=split)

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        return self.world.classes(clients)

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        self.world.send(arrays, clients)

    def similarities(
        self,
        start: Float[np.ndarray, "P"],
        directions: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        *,
        work: LocalTraining | None = None,
        stream: Stream,
    ) -> Float[np.ndarray, "n K"]:
        cosines = self.world.similarities(start, directions, clients, work=work, stream=stream)
        self.missing += int(np.isnan(cosines).any(axis=1).sum())
        return cosines

    def ask(self, askers: Int[np.ndarray, "m"], targets: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        replied = self.world.ask(askers, targets, vectors)
        self.missing += int((~replied).sum())
        return replied

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        self.placed[clients] = True
        self.world.note(clients)

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        shifted = self.world.shifted(clients, test=test, threshold=threshold)
        self.detected = np.zeros(self.total_clients, bool) if self.detected is None else self.detected
        self.detected[clients[shifted]] = True
        return shifted

    def memory(self) -> dict[str, np.ndarray]:
        return self.world.memory()

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        self.world.recall(memory)

    def _count_nonfinite(self, clients: Int[np.ndarray, "b"]) -> None:
        """Count and name the clients whose replies were not finite."""
        self.nonfinite += len(clients)
        if len(clients):
            names = ", ".join(map(str, clients[:20])) + (" ..." if len(clients) > 20 else "")
            _log.warning("round %d: no finite reply from client %s; excluded from this round", self._round, names)


def join(earlier: TrainingRecord, later: TrainingRecord) -> TrainingRecord:
    """Two calls of one training, rows in the order of client ids; only the rows' own numbers where means are known."""
    clients = np.concatenate([earlier.clients, later.clients])
    order, both = np.argsort(clients, kind="stable"), (earlier.reply, later.reply)
    names = ("model_index", "examples", "loss", "first_loss", "arrived", "nonfinite")
    rows = {name: np.concatenate([getattr(reply, name) for reply in both])[order] for name in names}
    if any(reply.weight is not None for reply in both):
        known = next(reply for reply in both if reply.weight is not None)
        return TrainingRecord(later.models, clients[order], replace(known, **rows, before_training=None))
    update = np.concatenate([reply.update for reply in both])[order]
    return TrainingRecord(
        later.models, clients[order], replace(later.reply, **rows, update=update, before_training=None)
    )


def take_means(reply: TrainingReply, clients: Int[np.ndarray, "n"], clusters: int) -> TrainingReply:
    """The same reply with example-weighted mean updates of each model in place of single updates.

    Rows are added in the order of client ids, as every world adds them.

    Args:
        reply: of a training that was not reduced.
        clients: its rows.
        clusters: K, the number of models.
    """
    order = np.argsort(clients, kind="stable")
    weight = np.where(reply.arrived, reply.examples, 0)
    update, total = mean_by_model(reply.update[order], weight[order], reply.model_index[order], clusters)
    return replace(reply, update=update, weight=total)


def distances(training: TrainingRecord | None, state: State) -> Float[np.ndarray, "a"] | None:
    """Distance of each local solution that arrived to its client's cluster model after the round: |w_i - w|.

    None where single updates are not known. Source: FedGroup eq. 4 and FlexCFL eq. 3, which sum and average them.
    """
    if training is None or training.reply.weight is not None:
        return None
    norms, target = [], state.aggregated_into(training.clients, training.reply.model_index)
    for row in np.flatnonzero(training.reply.arrived & (target != UNASSIGNED)):
        solution = training.models[training.reply.model_index[row]].astype(np.float64) + training.reply.update[row]
        norms.append(float(np.linalg.norm(solution - state.models[target[row]])))
    return np.array(norms, np.float64)
