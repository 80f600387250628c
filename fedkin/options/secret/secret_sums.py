"""Secret sums for any method that averages.

A training task that asks for mean updates becomes four exchanges with the clients. Exchanges are
ordinary tasks, so simulated and real clients do the same work. The method sees means computed from
exact sums of masked integers. If a method requests anything else from clients, the run stops with
an error that names the task, or the replies are sent unmasked ("in the clear") and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, TaskError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.replies import Reply
from fedkin.core.requirements import requirements_of
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.base import ActiveOption, Around, Call, Option, RunEnd, RunFacts
from fedkin.options.journal import SECRET_SUMS, Journal
from fedkin.options.secret.secret_call import (
    GroupSum,
    SecretCall,
    by_model,
    group_rows,
    lost_by_model,
)
from fedkin.options.secret.secret_record import secret_record
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.options.summed_tasks import wants_sums
from fedkin.secret.quantization import IntegerGrid, ModelSums

_log = logging.getLogger("fedkin")
SECTION = "secret"


def refusal(method: Method, settings: SecretSettings) -> str:
    """Why a method needs more than sums of updates; empty if sums are enough.

    Args:
        method: any method.
        settings: settings of secret sums.
    """
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.peers:
        return f"{name} has no server that could add up updates: its peers see each other's models"
    if needs.model.detectors:
        return (
            f"{name} has several models of a client in one round, but a client adds only one vector"
        )
    if needs.start_sums:
        return (
            f"{name} begins with sums of sketches of updates, but secret sums add up updates only"
        )
    if settings.others == "clear":
        return ""
    insist = "secret.others='clear' sends these replies without masks"
    sums = "secret sums reveal only sums"
    reads = needs.reads
    if reads.updates == "single":
        why = f" because of its option {reads.because}" if reads.because else ""
        return f"{name} needs single updates{why}, but {sums}; {insist}"
    if reads.sends:
        return f"{name} needs {reads.sends} from each client, but {sums}; {insist}"
    if reads.standing:
        tasks = ", ".join(task.name for task in reads.standing)
        return f"{name} needs each client's single answer in every round ({tasks}); {insist}"
    return ""


@plain_options
@dataclass(frozen=True)
class SecretSums(SecretSettings, Option):
    """Secret sums: a server that follows the protocol learns sums of each cluster's updates, but no
    single update. Clients add masks that cancel in the sum.

    Attributes:
        least: minimum number of clients in a sum, at least 3. A sum of fewer clients is refused,
            and the cluster keeps its model in that round. Each client checks the minimum among
            itself and its neighbours, if it has that many.
        neighbours: number of other clients with which each client has common masks; all if there
            are fewer.
        limit: largest absolute value of a number in an update. A client clips larger numbers, and
            the number of clients that clip is reported.
        examples_cap: a client's weight is its number of training samples, at most this number; 1:
            equal weights.
        hide_choice: whether the server does not learn a client's cluster either. Each client then
            sends a vector with a part for each of the K clusters, in which only its cluster's part
            is not zero, so messages are K times as long. Methods whose clients choose their cluster
            while training (IFCA) need it.
        signed: whether sites sign their keys, so that the server cannot replace them. Each site
            needs a certificate from an authority that is not the server.
        others: what happens if the method asks for replies that are not sums: ``refuse`` stops the
            run, ``clear`` sends these replies without masks and reports them.
        dropout: in a simulation, the share of clients that drop out before each of the four
            exchanges.

    Examples:
        >>> import fedkin as fk
        >>> secret = fk.SecretSums(least=5, neighbours=10)
        >>> secret.least, secret.neighbours
        (5, 10)
    """

    section = SECTION

    def refusal(self, run: RunFacts) -> str:
        return _refusal_with_options(self, run) or refusal(run.method, self)

    def check(self, runs: Sequence[RunFacts]) -> None:
        """Check the settings against the runs.

        A warning is logged if ``limit`` is so small that updates are clipped to almost nothing, or
        so large that they are rounded to almost nothing.

        Raises:
            ConfigError: the cohort has fewer clients than ``least``, the number that a sum needs.
                Or ``limit`` or ``examples_cap`` is set in a private run, where the settings of
                privacy determine both.
        """
        cohort = runs[0].plan.cohort
        if cohort < self.least:
            raise ConfigError(
                f"secret.least = {self.least}: cohorts of run.cohort = {cohort} are too small for "
                "a secret sum: raise run.cohort"
            )
        if "privacy" not in runs[0].options:
            for warning in self.warnings(cohort):
                _log.warning("%s", warning)
            return
        for name, instead in (("limit", "clip"), ("examples_cap", "examples_cap")):
            if getattr(self, name) != getattr(SecretSettings(), name):
                raise ConfigError(
                    f"secret.{name} does not apply to a private run: set privacy.{instead} "
                    f"instead, and leave out secret.{name}"
                )

    def simulated(self, data: Any, shift: Any) -> tuple[Any, Any]:
        if self.signed:
            raise ConfigError(
                "secret.signed: simulated clients have no certificates to sign with; leave out "
                "secret.signed"
            )
        return data, shift

    def bind(self, run: RunFacts) -> ActiveOption:
        return active_secret_sums(self, run)


def _refusal_with_options(settings: SecretSettings, run: RunFacts) -> str:
    """Why secret sums cannot be used with another option of the run; empty if they can."""
    options: Mapping[str, Any] = run.options
    privacy = options.get("privacy")
    if privacy is not None and privacy.adaptive:
        return (
            "a clip that follows the median norm needs the norms of single updates; leave out "
            "privacy.adaptive"
        )
    if privacy is not None and privacy.scores is not None:
        return (
            "the server would add the noise to scores that it sees one by one; leave out "
            "privacy.scores"
        )
    if privacy is not None and not settings.least_is_checked:
        return (
            f"with privacy each client checks that {settings.least} clients add noise, but it sees "
            f"only its neighbours: set secret.neighbours={settings.least} or more"
        )
    if "robust" in options:
        return (
            "a robust rule needs single updates, but secret sums reveal only sums; use secret sums "
            "or a robust rule, not both"
        )
    if "late" in options:
        return (
            "a masked reply that arrives late fits into the sum of no other round; use secret sums "
            "or late replies, not both"
        )
    if "attack" in options:
        return (
            "a simulated attack changes single updates, but these are masked; use secret sums or "
            "an attack, not both"
        )
    if run.shares_part:
        return (
            "personal heads send sums of bodies (models without the last layer), which have no "
            "masked form; use personal models (ditto), or no personal part"
        )
    return ""


def active_secret_sums(settings: SecretSettings, run: RunFacts) -> ActiveOption:
    """The option of secret sums in a run. In a private run it does nothing, since the privacy
    option requests the sums and writes the journal."""
    if "privacy" in run.options:
        return ActiveOption(SECTION)
    return ActiveSecretSums(settings, Journal(run.folder / SECRET_SUMS if run.folder else None))


class ActiveSecretSums(ActiveOption):
    """Secret sums in a run.

    Args:
        settings: settings of secret sums.
        journal: journal of the sums of every round.
    """

    def __init__(self, settings: SecretSettings, journal: Journal) -> None:
        super().__init__(SECTION)
        self.settings = settings
        self.journal = journal

    def around(self, world: World, before: State | None, call: Call) -> Around:
        return Around(SecretWorld(world, self.settings, self.journal, call.stream))

    def closing(self, end: RunEnd) -> Record:
        clear = [entry["clear"] for entry in self.journal.entries if "clear" in entry]
        return secret_record(self.journal, clear)


class SecretWorld(WorldProxy):
    """A proxy of a world that returns only sums of masked vectors.

    Args:
        world: the clients.
        settings: settings of secret sums.
        journal: journal of the sums.
        stream: random numbers of the round.
    """

    def __init__(
        self, world: World, settings: SecretSettings, journal: Journal, stream: Stream
    ) -> None:
        super().__init__(world)
        self._settings = settings
        self._journal = journal
        self._stream = stream
        self._calls = 0

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply to a training task: means computed from secret sums. A task without a reply
        goes to the clients unchanged.

        Raises:
            TaskError: the task needs replies that are not sums, and the settings do not allow these
                without masks.
        """
        if wants_sums(task):
            return self._secret(task, clients, stream)
        if task.up.arrays:
            self._in_the_clear(task)
        return self._world.run(task, clients, stream)

    def _in_the_clear(self, task: Task) -> None:
        """Record that clients send replies to a task without masks.

        Raises:
            TaskError: the settings do not allow that.
        """
        if self._settings.others == "refuse":
            raise TaskError(
                f"secret: replies to task {task.name} are not a sum of updates (round "
                f"{self._stream.round}); secret.others='clear' sends them without masks"
            )
        if task.name not in {entry.get("clear") for entry in self._journal.entries}:
            _log.warning("secret: clients send their replies to task %s without masks", task.name)
            self._journal.add(round=self._stream.round, clear=task.name)

    def _secret(self, task: Any, clients: Int[np.ndarray, "n"], stream: Stream | None) -> Reply:
        """The reply to a task that asks for mean updates, computed by one secret sum per cluster
        (or one sum in all, if the clients' clusters are hidden)."""
        settings = self._settings
        rows, members = group_rows(task, clients, settings.hide_choice)
        grid = IntegerGrid(members, settings.limit, settings.examples_cap)
        if not grid.fits():
            raise TaskError(
                f"secret: sums over {members} clients with up to {settings.examples_cap} samples "
                "each do not fit into 32 bits: lower secret.examples_cap, or the cohort"
            )
        call = SecretCall(
            world=self._world,
            settings=settings,
            task=task,
            clients=clients,
            stream=stream or self._stream,
            grid=grid,
        )
        sums = call.sums(rows)
        lost = lost_by_model(task, call.lost, settings.hide_choice)
        means = self._means(task, sums, lost, grid)
        arrived = np.zeros(len(clients), bool)
        for group_sum in sums.values():
            arrived[group_sum.rows] = True
        self._report(means, lost, asked=len(clients), answered=int(arrived.sum()))
        return Reply(
            arrays=self._arrays(task, means, len(clients)),
            arrived=arrived,
            nonfinite=np.zeros(len(clients), bool),
            weight=means.weight.astype(np.float64),
        )

    def _arrays(self, task: Any, means: ModelSums, count: int) -> dict[str, np.ndarray]:
        """The arrays of a reply that holds means.

        Numbers other than the means (e.g. losses) are zero, since the server does not learn them.
        Every client gets the weight 1, since its number of samples is secret.

        Args:
            task: the task that asks for mean updates.
            means: mean update of each model.
            count: number of clients that were asked.
        """
        models = task.sizes()["K"]
        # The update is the only array whose norm is checked.
        (vector,) = (name for name, array in task.up.of("model").items() if array.norm_checked)
        arrays: dict[str, np.ndarray] = {name: np.zeros(models) for name in task.up.of("model")}
        arrays[vector] = means.mean.astype(np.float32)
        if self._settings.hide_choice:
            arrays[INDEX] = np.full(count, UNASSIGNED)
        else:
            arrays[INDEX] = np.asarray(task.model_index, np.int64)
        arrays[WEIGHT] = np.ones(count, np.int64)
        return arrays

    def _means(
        self, task: Any, sums: dict[int, GroupSum], lost: dict[int, str], grid: IntegerGrid
    ) -> ModelSums:
        """The mean update of each model.

        It is zero, so that the model stays as it is, if the model has no sum, or if too few clients
        sent an update of it. Models with too few clients are added to ``lost``.
        """
        means = grid.sums(by_model(task, sums, self._settings.hide_choice))
        # The sum has enough vectors, but fewer clients may have an update in a model's part of it:
        # others chose another model (``hide_choice``) or sent no finite update. A mean of so few
        # updates would reveal too much about each, so it is not passed on.
        few = (means.clients > 0) & (means.clients < self._settings.least)
        for k in np.flatnonzero(few):
            lost[int(k)] = f"only {means.clients[k]} clients have added a vector"
        means.mean[few] = 0
        means.weight[few] = 0
        return means

    def _report(self, means: ModelSums, lost: dict[int, str], asked: int, answered: int) -> None:
        """Write the counts of one training to the journal, and log what went wrong.

        Args:
            means: the mean update of each model.
            lost: reason for each model without a sum.
            asked: number of clients that were asked.
            answered: number of clients whose vectors are in a sum.
        """
        for cluster, why in lost.items():
            _log.warning(
                "round %d: cluster %d has no secret sum and keeps its model: %s",
                self._stream.round,
                cluster,
                why,
            )
        clipped = int(means.clipped.sum())
        if clipped:
            _log.warning(
                "round %d: %d of %d clients have clipped numbers above secret.limit = %g: raise "
                "it to the largest number of an update",
                self._stream.round,
                clipped,
                answered,
                self._settings.limit,
            )
        unusable = int(means.unusable.sum())
        if unusable:
            _log.warning(
                "round %d: %d of %d clients sent no update of finite numbers",
                self._stream.round,
                unusable,
                answered,
            )
        self._calls += 1
        self._journal.add(
            round=self._stream.round,
            call=self._calls,
            sums=int((means.weight > 0).sum()),
            asked=asked,
            answered=answered,
            clipped=clipped,
            unusable=unusable,
            lost={str(cluster): why for cluster, why in lost.items()},
        )
