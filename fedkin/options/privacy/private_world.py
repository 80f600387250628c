"""The world of a private run: a method gets only noisy sums over clients from it.

In a round a sum is over the updates of the cohort, clipped to the run's norm C. In a cold start
(first clustering, before the first round) it is over one vector of each client, with a norm of at
most 1. The journal (privacy.jsonl) records each sum before the method gets it.
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
from fedkin.options.privacy.clip_and_noise import clipped, next_clip, noisy_sums
from fedkin.options.privacy.randomness import Randomness, SeededRandomness
from fedkin.options.privacy.secret_noise import secret_noisy_sums
from fedkin.options.privacy.settings import Mechanism
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.options.summed_tasks import is_choice, is_start, wants_sums

_log = logging.getLogger("fedkin")


class PrivateWorld(WorldProxy):
    """A proxy of a world that returns only noisy sums.

    Args:
        world: the clients.
        mechanism: sampling, clip and noise.
        journal: journal of releases.
        randomness: source of the noise.
        round: the present round; 0 before the first.
        cohort: clients drawn for the round; None outside a round.
        secret: settings of secret sums; None without secret sums.
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
        self.released = 0  # noisy sums released in the round
        self.started = 0  # noisy sums released in the cold start

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply to a task of training or of a cold start (first clustering): means computed
        from noisy sums.

        A task without a reply goes to the clients unchanged. So does a task in which clients only
        choose among models, since a trusted server does not release the choices.

        Raises:
            TaskError: the task needs replies without noise, and the settings do not allow these.
        """
        if wants_sums(task) or is_start(task):
            self._refuse_others(task, clients)
            return self._noisy(task, clients, stream)
        # With secret sums the server is not trusted, so it may not see choices either.
        kept_secret = is_choice(task) and self._secret is None
        if task.up.arrays and not kept_secret:
            self._charge_infinite(task)
        return self._world.run(task, clients, stream)

    def _charge_infinite(self, task: Task) -> None:
        """Record that clients send replies to a task without noise, which makes epsilon infinite.

        Raises:
            TaskError: the settings do not allow that.
        """
        if self._mechanism.settings.uncharged == "refuse":
            raise TaskError(
                f"privacy: replies to task {task.name} would be sent without noise (round "
                f"{self._round}); privacy.uncharged='infinite' allows this, and epsilon is infinite"
            )
        if self._secret is not None and self._secret.others == "refuse":
            raise TaskError(
                f"secret: replies to task {task.name} are not a sum of updates (round "
                f"{self._round}); secret.others='clear' sends them without masks"
            )
        if task.name not in self._journal.uncharged:
            _log.warning(
                "privacy: replies to task %s are sent without noise, so epsilon is infinite",
                task.name,
            )
            self._journal.add(round=self._round, uncharged=task.name)

    def _refuse_others(self, task: Task, clients: Int[np.ndarray, "n"]) -> None:
        """Refuse a noisy sum that epsilon does not count: a sum over clients that were not drawn or
        are asked twice, or a sum at a time (round, or cold start before the first round) for which
        epsilon does not count it.

        Raises:
            TaskError: epsilon does not count the sum.
        """
        if len(np.unique(clients)) < len(clients):
            raise TaskError(
                f"privacy: task {task.name} asks a client more than once, but a client may add "
                "only one vector to the noisy sums; use another method, or leave out privacy"
            )
        if is_start(task):
            if self._round > 0:
                raise TaskError(
                    f"privacy: epsilon counts task {task.name} in a cold start only, but the "
                    f"method requested it in round {self._round}; use another method, or leave out "
                    "privacy"
                )
            if self.started >= self._mechanism.start_sums:
                raise TaskError(
                    f"privacy: task {task.name} exceeds the {self._mechanism.start_sums} noisy "
                    "sums of a cold start that the method declares; raise Requirements.start_sums"
                )
        elif self._cohort is not None and not np.isin(clients, self._cohort).all():
            raise TaskError(
                f"privacy: task {task.name} asks clients that were not drawn in round "
                f"{self._round}; use a method that asks only the cohort, or leave out privacy"
            )
        elif self._cohort is None:
            raise TaskError(
                f"privacy: epsilon counts task {task.name} in rounds only, but the method "
                "requested it outside a round; use another method, or leave out privacy"
            )

    def _noisy(self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None) -> Reply:
        """The noisy reply to a task that asks for mean updates: the server clips single updates,
        sums them and adds noise, or the clients add the noise in secret sums."""
        start = is_start(task)
        # Exactly one of the two counters goes up: a sum is either one of a round or one of the cold
        # start, and the accountant charges them differently.
        self.released += not start
        self.started += start
        if self._secret is not None:
            return self._in_secret(self._secret, task, clients, stream)
        replies = self._single_replies(task, clients, stream)
        arrived = np.concatenate([reply.arrived for reply in replies])
        index = np.concatenate([reply.arrays[INDEX] for reply in replies])
        vector = _vector_name(task)
        updates = [reply.arrays[vector] for reply in replies]
        if start:
            sums = self._release_start(
                task=task.name,
                updates=updates,
                index=index,
                arrived=arrived,
                models=task.sizes()["K"],
            )
        else:
            sums = self._release(
                task=task.name,
                updates=updates,
                index=index,
                examples=np.concatenate([reply.arrays[WEIGHT] for reply in replies]),
                arrived=arrived,
                models=task.sizes()["K"],
            )
        return self._means(
            task=task,
            sums=sums,
            index=index,
            arrived=arrived,
            nonfinite=np.concatenate([reply.nonfinite for reply in replies]),
        )

    def _in_secret(
        self,
        settings: SecretSettings,
        task: Any,
        clients: Int[np.ndarray, "n"],
        stream: Stream | None,
    ) -> Reply:
        """The noisy reply if clients add the noise, so that the server sees only noisy sums.

        The journal records the release (the noisy sums) before the clients are asked, since clients
        cannot take back noisy sums that they have sent.
        """
        clip = self._mechanism.settings.clip
        self._journal.add(
            round=self._round,
            task=task.name,
            clip=clip,
            next_clip=clip,
            noise_multiplier=self._mechanism.noise_multiplier,
        )
        noisy = secret_noisy_sums(
            world=self._world,
            settings=settings,
            mechanism=self._mechanism,
            task=task,
            clients=clients,
            stream=stream or Stream(0, self._round),
            seeded=isinstance(self._randomness, SeededRandomness),
        )
        for cluster, why in noisy.lost.items():
            _log.warning(
                "round %d: cluster %d has no secret sum and keeps its model: %s",
                self._round,
                cluster,
                why,
            )
        self._journal.add(
            round=self._round,
            sums=noisy.made,
            call=self.released,
            asked=len(clients),
            answered=int(noisy.arrived.sum()),
            # Vectors of a private run carry no such counts, since no noise would protect them.
            clipped=0,
            unusable=0,
            lost={str(cluster): why for cluster, why in noisy.lost.items()},
        )
        if settings.hide_choice or task.model_index is None:
            index = np.full(len(clients), UNASSIGNED)
        else:
            index = np.asarray(task.model_index, np.int64)
        return self._means(
            task=task,
            sums=noisy.sums,
            index=index,
            arrived=noisy.arrived,
            nonfinite=np.zeros(len(clients), bool),
        )

    def _means(
        self,
        task: Any,
        sums: Float[np.ndarray, "K P"],
        index: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        nonfinite: np.ndarray,
    ) -> Reply:
        """A reply with noisy means: the sums divided by a fixed number of clients.

        The number of clients that replied is not used, since it depends on data and would need
        noise. All other numbers of the reply (e.g. losses) are zero.
        """
        models = len(sums)
        divisor = 1.0 if is_start(task) else self._mechanism.divisor(len(sums))
        vector = _vector_name(task)
        arrays: dict[str, np.ndarray] = {name: np.zeros(models) for name in task.up.of("model")}
        arrays[vector] = (sums / divisor).astype(task.up.arrays[vector].dtype)
        arrays[INDEX] = index
        arrays[WEIGHT] = np.ones(len(index), np.int64)
        return Reply(
            arrays=arrays,
            arrived=arrived,
            nonfinite=nonfinite,
            weight=np.full(models, divisor),
        )

    def _single_replies(
        self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None
    ) -> list[Reply]:
        """The replies of single clients to a task that asks for mean updates, one ``Reply`` for
        each portion of clients whose updates fit into memory."""
        if not len(clients):
            return [_empty_reply(task)]
        single = task.single()
        size = max(1, self.update_memory // (4 * self.spec.parameters))
        portions = np.split(np.arange(len(clients)), range(size, len(clients), size))
        return [self._world.run(single.select(rows), clients[rows], stream) for rows in portions]

    def _release_start(
        self,
        task: str,
        updates: list[Float[np.ndarray, "r p"]],
        index: Int[np.ndarray, "n"],
        arrived: np.ndarray,
        models: int,
    ) -> Float[np.ndarray, "K p"]:
        """The noisy sums of a cold start (first clustering), over vectors of norm at most 1. They
        are recorded in the journal before they are returned.

        Args:
            task: name of the task, for the journal.
            updates: the clients' vectors, in portions.
            index: the model to which each client's vector is added.
            arrived: which clients have replied.
            models: number of models K.
        """
        # Clipped here too, since a client may send a longer vector than it should.
        rows = np.concatenate([clipped(portion, 1.0) for portion in updates]) * arrived[:, None]
        noise = self._mechanism.start_noise
        sums = noisy_sums(
            rows=rows,
            model_index=np.where(arrived, index, 0),
            models=models,
            noise_multiplier=noise,
            clip=1.0,
            randomness=self._randomness,
        )
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
        """The noisy sums of the clipped updates of a round. They are recorded in the journal before
        they are returned.

        Args:
            task: name of the task, for the journal.
            updates: the clients' updates, in portions.
            index: the model that each client trained.
            examples: number of samples of each client.
            arrived: which clients have replied.
            models: number of models K.
        """
        mechanism = self._mechanism
        settings = mechanism.settings
        clip = settings.clip
        if settings.adaptive:
            clip = self._journal.next_clip(self._round) or settings.clip

        rows = np.concatenate([clipped(portion, clip) for portion in updates]) * arrived[:, None]
        if settings.examples_cap is not None:
            # Weights of at most 1, so no row becomes longer than the clip.
            rows *= np.minimum(examples / settings.examples_cap, 1)[:, None]
        sums = noisy_sums(
            rows=rows,
            model_index=np.where(arrived, index, 0),
            models=models,
            noise_multiplier=mechanism.update_noise,
            clip=clip,
            randomness=self._randomness,
        )

        clip_after = clip
        if settings.adaptive:
            norms = [np.linalg.norm(portion.astype(np.float64), axis=1) for portion in updates]
            clip_after = next_clip(
                norms=np.concatenate(norms)[arrived],
                clip=clip,
                cohort=mechanism.expected,
                count_deviation=mechanism.count_deviation,
                randomness=self._randomness,
            )

        self._journal.add(
            round=self._round,
            task=task,
            clip=clip,
            next_clip=clip_after,
            noise_multiplier=mechanism.noise_multiplier,
        )
        return sums


def _vector_name(task: Any) -> str:
    """The name of the one array in a task's reply whose sum gets noise: the update."""
    (name,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
    return name


def _empty_reply(task: Any) -> Reply:
    """A reply from no clients, with an update array of the right shape, so that the sums of an
    empty cohort are noise only."""
    vector = _vector_name(task)
    array = task.up.of("model")[vector]
    no_updates = np.zeros((0, *array.shape(task.sizes())), array.dtype)
    no_numbers = np.zeros(0, np.int64)
    no_flags = np.zeros(0, bool)
    arrays = {vector: no_updates, INDEX: no_numbers, WEIGHT: no_numbers}
    return Reply(arrays, no_flags, no_flags)
