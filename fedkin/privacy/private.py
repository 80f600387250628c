"""Any method that averages, with client-level differential privacy: a method around a method, a world around its world.

The method sees noisy means in place of means; what else clients would reply to it is refused by the name of the task,
or makes epsilon infinite. A cohort is drawn by the operating system's randomness: whoever knew it would undo the
amplification by sampling.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError, TaskError
from fedkin.core.method import UNASSIGNED, Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.privacy.client_dp import Mechanism
from fedkin.privacy.journal import Journal
from fedkin.privacy.mechanism import clipped, next_clip, noisy_sums
from fedkin.privacy.randomness import Randomness, SeededRandomness, SystemRandomness
from fedkin.privacy.secret_noise import secret_facts, secret_noisy_sums
from fedkin.privacy.secret_settings import SecretSums

NOT_PRIVATE = "TESTING ONLY: noise and cohorts come from the run's seed, so nothing of this run is private"
_log = logging.getLogger("fedkin")


def refusal(method: Method, uncharged: str = "refuse") -> str | None:
    """Why noisy sums are not enough for a method; None where they are.

    Args:
        method: any.
        uncharged: what becomes of client work that no noise covers, as ``ClientDP`` has it.
    """
    needs, name = requirements_of(method), type(method).__name__
    if needs.peers:
        return f"{name} has no server that could be trusted: its peers see each other's models"
    if needs.detectors:
        return f"{name} has several models of a client in one round, and a client may add one vector to the sums"
    if uncharged == "infinite":
        return None
    insist = "privacy.uncharged='infinite' runs it all the same, and its epsilon is infinite"
    if needs.updates == "single":
        why = f" because of its option {needs.updates_because}" if needs.updates_because else ""
        return f"{name} reads single updates{why}, which no noise on sums covers; {insist}"
    if needs.sends:
        return f"{name} needs {needs.sends} of each client, which no noise covers; {insist}"
    if needs.standing:
        tasks = ", ".join(task.name for task in needs.standing)
        return f"{name} asks all clients in every round ({tasks}), which no noise covers; {insist}"
    return None


def wants_sums(task: Task) -> bool:
    """Whether all that a task sends is one vector by model, which noise covers, besides numbers that nobody needs."""
    up = task.up
    vectors = [array for array in up.of("model").values() if array.norm_checked]
    more = up.of("all") or any(array.counted for array in up.of("row").values())
    return task.charged == "sum" and len(vectors) == 1 and not more and not task.local


@dataclass(frozen=True)
class Private:
    """A method of which only noisy sums of clients are released.

    Attributes:
        method: that averages.
        mechanism: sampling, clip and noise.
        journal: of what was released.
        seed: of the noise, for tests only; None: the operating system's.
        secret: settings of secret sums, to which clients add shares of the noise; None: the server sees updates.
    """

    method: Method
    mechanism: Mechanism
    journal: Journal
    seed: int | None = None
    secret: SecretSums | None = None

    def __post_init__(self) -> None:
        if why := refusal(self.method, self.mechanism.settings.uncharged):
            raise MethodError(why)

    def requirements(self) -> Requirements:
        return requirements_of(self.method)

    def select_cohort(self, reachable: Int[np.ndarray, "c"], round: int) -> Int[np.ndarray, "n"]:
        """Each client with the same probability, whatever the others; at most the cap, of whom chance decides."""
        order = self._randomness(round, "cohort").uniform(len(reachable))
        drawn = np.flatnonzero(order < self.mechanism.probability)
        if (cap := self.mechanism.settings.cap) is not None and len(drawn) > cap:
            drawn = drawn[np.argsort(order[drawn], kind="stable")[:cap]]
        return np.sort(reachable[drawn]).astype(np.int64)

    def exhausted(self) -> str:
        """Why no further round may be done; empty where one may."""
        if self.mechanism.limit is None or self.journal.rounds < self.mechanism.limit:
            return ""
        settings = self.mechanism.settings
        return f"another round would exceed privacy.epsilon = {settings.epsilon:g} (delta = {settings.delta:g})"

    def init(self, world: World, stream: Stream) -> State:
        return self.method.init(self._world(world, stream.round), stream)

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        """A round of noisy sums. Raises TaskError where the method does not train once, all of the cohort together."""
        own = self._world(world, stream.round)
        after = self.method.round(own, state, cohort, stream)
        if own.released != 1 and not self.journal.uncharged:
            raise TaskError(
                f"privacy: {type(self.method).__name__} asked for {own.released} noisy sums in round {stream.round}; a "
                "round has exactly one, of all clusters together"
            )
        return after

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return self.method.place(self._world(world, stream.round), state, newcomers, stream)

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(state) if isinstance(self.method, Remarking) else ()

    def _world(self, world: World, round: int) -> PrivateWorld:
        own = (self._randomness(round, "noise"), round, self.secret)
        return PrivateWorld(world, self.mechanism, self.journal, *own)

    def _randomness(self, round: int, purpose: str) -> Randomness:
        if self.seed is None:
            return SystemRandomness()
        return SeededRandomness(Stream(self.seed, round, f"privacy/{purpose}").rng())


class PrivateWorld(WorldProxy):
    """A proxy of a world that lets noisy sums out, and nothing else.

    Args:
        world: of the clients.
        mechanism: sampling, clip and noise.
        journal: of what is released.
        randomness: of the noise.
        round: the present one.
        secret: settings of secret sums; None: without.
    """

    def __init__(
        self,
        world: World,
        mechanism: Mechanism,
        journal: Journal,
        randomness: Randomness,
        round: int,
        secret: SecretSums | None = None,
    ) -> None:
        super().__init__(world)
        self._secret = secret
        self._mechanism, self._journal = mechanism, journal
        self._randomness, self._round, self.released = randomness, round, 0

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Noisy means of a training; what has no reply as it is. Raises TaskError for all other work."""
        if wants_sums(task):
            return self._noisy(task, clients, stream)
        if task.up.arrays:
            self._charge_infinite(task)
        return self._world.run(task, clients, stream)

    def _charge_infinite(self, task: Task) -> None:
        """Note a reply that no noise covers. Raises TaskError where that is refused."""
        if self._mechanism.settings.uncharged == "refuse":
            raise TaskError(
                f"privacy: the task {task.name} sends what no noise covers (round {self._round}); "
                "privacy.uncharged='infinite' runs it all the same, and epsilon is infinite"
            )
        if task.name not in self._journal.uncharged:
            _log.warning("privacy: the task %s sends what no noise covers: epsilon is infinite", task.name)
            self._journal.add(round=self._round, uncharged=task.name)

    def _noisy(self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None) -> Reply:
        """The reply of sums with noise, of a task that wants means."""
        if len(np.unique(clients)) < len(clients):
            raise TaskError(f"privacy: a client has several rows of the task {task.name}, and may add one vector only")
        self.released += 1
        if self._secret is not None:
            return self._in_secret(self._secret, task, clients, stream)
        replies = self._single_replies(task, clients, stream)
        arrived = np.concatenate([reply.arrived for reply in replies])
        index, examples = (np.concatenate([reply.arrays[name] for reply in replies]) for name in (INDEX, WEIGHT))
        (name,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
        sums = self._release([reply.arrays[name] for reply in replies], index, examples, arrived, task.sizes()["K"])
        return self._means(task, sums, index, arrived, np.concatenate([reply.nonfinite for reply in replies]))

    def _in_secret(
        self, settings: SecretSums, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None
    ) -> Reply:
        """The same, where clients add the noise and the server sees sums only."""
        own, seeded = stream or Stream(0, self._round), isinstance(self._randomness, SeededRandomness)
        sums, arrived, lost = secret_noisy_sums(self._world, settings, self._mechanism, task, clients, own, seeded)
        for cluster, why in lost.items():
            text = "round %d: no secret sum of cluster %d, which keeps its model: %s"
            _log.warning(text, self._round, cluster, why)
        clip, noise = self._mechanism.settings.clip, self._mechanism.noise_multiplier
        self._journal.add(round=self._round, clip=clip, next_clip=clip, noise_multiplier=noise, lost=len(lost))
        hidden = settings.hide_choice or task.model_index is None
        index = np.full(len(clients), UNASSIGNED) if hidden else np.asarray(task.model_index, np.int64)
        return self._means(task, sums, index, arrived, np.zeros(len(clients), bool))

    def _means(
        self,
        task: Any,
        sums: Float[np.ndarray, "K P"],
        index: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        nonfinite: np.ndarray,
    ) -> Reply:
        """A reply of noisy means: the sums by a fixed number of clients, of which nothing else is known."""
        models, divisor = len(sums), self._mechanism.divisor(len(sums))
        (name,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
        arrays: dict[str, np.ndarray] = {other: np.zeros(models) for other in task.up.of("model")}
        arrays |= {name: (sums / divisor).astype(np.float32), INDEX: index, WEIGHT: np.ones(len(index), np.int64)}
        return Reply(arrays, arrived, nonfinite, np.full(models, divisor))

    def _single_replies(self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None) -> list[Reply]:
        """Each client's own reply, in portions that fit into memory."""
        single = task.single()
        if not len(clients):
            empty = np.zeros((0, task.sizes()["p"]), np.float32)
            none, nobody = np.zeros(0, np.int64), np.zeros(0, bool)
            (name,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
            return [Reply({name: empty, INDEX: none, WEIGHT: none}, nobody, nobody)]
        size = max(1, self.update_memory // (4 * self.spec.parameters))
        portions = np.split(np.arange(len(clients)), range(size, len(clients), size))
        return [self._world.run(single.select(some), clients[some], stream) for some in portions]

    def _release(
        self,
        updates: list[Float[np.ndarray, "r P"]],
        index: Int[np.ndarray, "n"],
        examples: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        models: int,
    ) -> Float[np.ndarray, "K P"]:
        """The noisy sums of a round; written down before they are returned."""
        mechanism, settings = self._mechanism, self._mechanism.settings
        clip = settings.clip
        if settings.adaptive:
            clip = self._journal.next_clip(self._round) or settings.clip
        rows = np.concatenate([clipped(portion, clip) for portion in updates]) * arrived[:, None]
        if settings.examples_cap is not None:
            rows *= np.minimum(examples / settings.examples_cap, 1)[:, None]
        noise, after = (mechanism.update_noise, clip, self._randomness), clip
        sums = noisy_sums(rows, np.where(arrived, index, 0), models, *noise)
        if settings.adaptive:
            norms = np.concatenate([np.linalg.norm(portion.astype(np.float64), axis=1) for portion in updates])
            count = (mechanism.cohort, mechanism.count_deviation, self._randomness)
            after = next_clip(norms[arrived], clip, *count)
        self._journal.add(round=self._round, clip=clip, next_clip=after, noise_multiplier=mechanism.noise_multiplier)
        return sums


def statement(private: Private, planned: int) -> dict[str, Any]:
    """What a run's epsilon is, and all that it must be printed with.

    Args:
        private: the method of the run.
        planned: T.
    """
    journal, mechanism = private.journal, private.mechanism
    value = mechanism.epsilon(journal.rounds, bool(journal.uncharged))
    seeded = {"warning": NOT_PRIVATE} if private.seed is not None else {}
    facts = mechanism.facts() | ({} if private.secret is None else secret_facts(journal, private.secret.least))
    return {
        **seeded,
        "epsilon": "infinite" if math.isinf(value) else value,
        **facts,
        "rounds": {"released": journal.rounds, "planned": planned},
        "charged": {
            "models, in every round": f"{journal.rounds} noisy sums",
            "cold start, choices and other client work": ", ".join(journal.uncharged) or "none was done",
        },
        "not_charged": ["which settings were tried on the same clients", "other runs on the same clients"],
        "may_be_released": ["the models after every round", "this statement"],
        "must_not_be_released": [
            "metrics.jsonl, summary.json, clients.parquet, figures and reports: scores, losses and counts of clients",
            "migrations.jsonl and the assignment: which client is in which cluster",
            "the best round: scores of clients chose it",
            "checkpoints/: they hold the assignment beside the models",
        ],
    }
