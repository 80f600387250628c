"""The world of a private run: noisy sums of clients leave it, and nothing else.

Sums of a round are of the clients that were drawn for it, and clipped to the run's C; sums of a
cold start are of unit vectors, before the first round. What was released is written down first.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import TaskError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.journal import Journal
from fedkin.options.privacy.mechanism import clipped, next_clip, noisy_sums
from fedkin.options.privacy.randomness import Randomness, SeededRandomness
from fedkin.options.privacy.secret_noise import secret_noisy_sums
from fedkin.options.privacy.settings import Mechanism
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.options.summed_tasks import is_choice, is_start, wants_sums

_log = logging.getLogger("fedkin")


class PrivateWorld(WorldProxy):
    """A proxy of a world that lets noisy sums out, and nothing else.

    Args:
        world: of the clients.
        mechanism: sampling, clip and noise.
        journal: of what is released.
        randomness: of the noise.
        round: the present one; 0: before the first.
        cohort: clients that were drawn for it; None outside of a round.
        secret: settings of secret sums; None: without.
    """

    def __init__(
        self,
        world: World,
        mechanism: Mechanism,
        journal: Journal,
        randomness: Randomness,
        round: int,
        cohort: Int[np.ndarray, "n"] | None = None,
        secret: SecretSettings | None = None,
    ) -> None:
        super().__init__(world)
        self._cohort = cohort
        self._secret = secret
        self._mechanism = mechanism
        self._journal = journal
        self._randomness = randomness
        self._round = round
        self.released = self.started = 0  # noisy sums: of the round, of the cold start

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Noisy sums; what has no reply, and choices that a trusted server keeps to itself, as they
        are. Raises TaskError for all other work."""
        if wants_sums(task) or is_start(task):
            self._refuse_others(task, clients)
            return self._noisy(task, clients, stream)
        if task.up.arrays and not (
            is_choice(task) and self._secret is None
        ):  # a server of secret sums is not trusted
            self._charge_infinite(task)
        return self._world.run(task, clients, stream)

    def _charge_infinite(self, task: Task) -> None:
        """Note a reply that no noise covers. Raises TaskError where that is refused."""
        if self._mechanism.settings.uncharged == "refuse":
            raise TaskError(
                f"privacy: the task {task.name} sends what no noise covers (round {self._round}); "
                "privacy.uncharged='infinite' runs it, and epsilon is infinite"
            )
        if self._secret is not None and self._secret.others == "refuse":
            raise TaskError(
                f"secret: the task {task.name} sends what is no sum of updates (round "
                f"{self._round}); secret.others='clear' sends it in the clear"
            )
        if task.name not in self._journal.uncharged:
            _log.warning(
                "privacy: the task %s sends what no noise covers: epsilon is infinite", task.name
            )
            self._journal.add(round=self._round, uncharged=task.name)

    def _refuse_others(self, task: Task, clients: Int[np.ndarray, "n"]) -> None:
        """Refuse (TaskError) sums of other clients, or at another time, than those that are
        charged."""
        if len(np.unique(clients)) < len(clients):
            raise TaskError(
                f"privacy: a client has several rows of the task {task.name}, and may add one "
                "vector only"
            )
        if is_start(task):
            if self._round > 0:
                raise TaskError(
                    f"privacy: the task {task.name} is charged as a cold start, and was asked in "
                    f"round {self._round}"
                )
            if self.started >= self._mechanism.start_sums:
                raise TaskError(
                    f"privacy: the task {task.name} is one more noisy sum than the "
                    f"{self._mechanism.start_sums} of a cold start that the method declares "
                    "(Requirements.start_sums)"
                )
        elif self._cohort is not None and not np.isin(clients, self._cohort).all():
            raise TaskError(
                f"privacy: the task {task.name} asks clients that were not drawn in round "
                f"{self._round}"
            )
        elif self._cohort is None:
            raise TaskError(
                f"privacy: the task {task.name} is charged in rounds only, and was asked outside "
                "of one"
            )

    def _noisy(self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None) -> Reply:
        """The reply of sums with noise, of a task that wants means."""
        start = is_start(task)
        self.released += not start
        self.started += start
        if self._secret is not None:
            return self._in_secret(self._secret, task, clients, stream)
        replies = self._single_replies(task, clients, stream)
        arrived = np.concatenate([reply.arrived for reply in replies])
        index, examples = (
            np.concatenate([reply.arrays[name] for reply in replies]) for name in (INDEX, WEIGHT)
        )
        (name,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
        updates = [reply.arrays[name] for reply in replies]
        models = task.sizes()["K"]
        if start:
            sums = self._release_start(task.name, updates, index, arrived, models)
        else:
            sums = self._release(task.name, updates, index, examples, arrived, models)
        return self._means(
            task, sums, index, arrived, np.concatenate([reply.nonfinite for reply in replies])
        )

    def _in_secret(
        self,
        settings: SecretSettings,
        task: Any,
        clients: Int[np.ndarray, "n"],
        stream: Stream | None,
    ) -> Reply:
        """The same, where clients add the noise and the server sees sums only."""
        clip = self._mechanism.settings.clip
        noise = self._mechanism.noise_multiplier
        self._journal.add(
            round=self._round, task=task.name, clip=clip, next_clip=clip, noise_multiplier=noise
        )
        own = stream or Stream(0, self._round)
        seeded = isinstance(self._randomness, SeededRandomness)
        sums, arrived, made, lost = secret_noisy_sums(
            self._world, settings, self._mechanism, task, clients, own, seeded
        )
        for cluster, why in lost.items():
            text = "round %d: no secret sum of cluster %d, which keeps its model: %s"
            _log.warning(text, self._round, cluster, why)
        hidden = settings.hide_choice or task.model_index is None
        counts = {"call": self.released, "asked": len(clients), "answered": int(arrived.sum())}
        faults = {
            "clipped": 0,
            "unusable": 0,
            "lost": {str(cluster): why for cluster, why in lost.items()},
        }
        self._journal.add(round=self._round, sums=made, **counts, **faults)
        index = (
            np.full(len(clients), UNASSIGNED) if hidden else np.asarray(task.model_index, np.int64)
        )
        return self._means(task, sums, index, arrived, np.zeros(len(clients), bool))

    def _means(
        self,
        task: Any,
        sums: Float[np.ndarray, "K P"],
        index: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        nonfinite: np.ndarray,
    ) -> Reply:
        """A reply of noisy means: the sums by a fixed number of clients, of which nothing else is
        known."""
        models = len(sums)
        divisor = 1.0 if is_start(task) else self._mechanism.divisor(len(sums))
        (name,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
        arrays: dict[str, np.ndarray] = {other: np.zeros(models) for other in task.up.of("model")}
        means = (sums / divisor).astype(task.up.arrays[name].dtype)
        arrays |= {name: means, INDEX: index, WEIGHT: np.ones(len(index), np.int64)}
        return Reply(arrays, arrived, nonfinite, np.full(models, divisor))

    def _single_replies(
        self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None
    ) -> list[Reply]:
        """Each client's own reply, in portions that fit into memory."""
        single = task.single()
        if not len(clients):
            none = np.zeros(0, np.int64)
            nobody = np.zeros(0, bool)
            ((name, array),) = (
                (name, array) for name, array in task.up.of("model").items() if array.norm_checked
            )
            empty = np.zeros((0, *array.shape(task.sizes())), array.dtype)
            return [Reply({name: empty, INDEX: none, WEIGHT: none}, nobody, nobody)]
        size = max(1, self.update_memory // (4 * self.spec.parameters))
        portions = np.split(np.arange(len(clients)), range(size, len(clients), size))
        return [self._world.run(single.select(some), clients[some], stream) for some in portions]

    def _release_start(
        self,
        task: str,
        updates: list[Float[np.ndarray, "r p"]],
        index: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        models: int,
    ) -> Float[np.ndarray, "K p"]:
        """Noisy sums of vectors no longer than 1, before the first round; written down before they
        are returned."""
        rows = np.concatenate([clipped(portion, 1.0) for portion in updates]) * arrived[:, None]
        noise = self._mechanism.start_noise
        sums = noisy_sums(rows, np.where(arrived, index, 0), models, noise, 1.0, self._randomness)
        self._journal.add(round=self._round, start=task, noise_multiplier=noise)
        return sums

    def _release(
        self,
        task: str,
        updates: list[Float[np.ndarray, "r P"]],
        index: Int[np.ndarray, "n"],
        examples: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        models: int,
    ) -> Float[np.ndarray, "K P"]:
        """The noisy sums of a round; written down before they are returned."""
        mechanism = self._mechanism
        settings = self._mechanism.settings
        clip = settings.clip
        if settings.adaptive:
            clip = self._journal.next_clip(self._round) or settings.clip
        rows = np.concatenate([clipped(portion, clip) for portion in updates]) * arrived[:, None]
        if settings.examples_cap is not None:
            rows *= np.minimum(examples / settings.examples_cap, 1)[:, None]
        noise = (mechanism.update_noise, clip, self._randomness)
        after = clip
        sums = noisy_sums(rows, np.where(arrived, index, 0), models, *noise)
        if settings.adaptive:
            norms = np.concatenate(
                [np.linalg.norm(portion.astype(np.float64), axis=1) for portion in updates]
            )
            count = (mechanism.cohort, mechanism.count_deviation, self._randomness)
            after = next_clip(norms[arrived], clip, *count)
        own = {"clip": clip, "next_clip": after, "noise_multiplier": mechanism.noise_multiplier}
        self._journal.add(round=self._round, task=task, **own)
        return sums
