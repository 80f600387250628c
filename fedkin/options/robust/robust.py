"""Robust aggregation for any method that averages: a rule such as a median replaces the mean of
each cluster's updates.

A rule compares single updates, so all updates of a round must fit into memory at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import MethodError, TaskError
from fedkin.core.method import Method, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.replies import Reply, mean_reply, mean_vector
from fedkin.core.requirements import requirements_of
from fedkin.core.schema import INDEX
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.base import ActiveOption, Around, Call, Option, RunEnd, RunFacts
from fedkin.options.robust.preaggregation import BUCKET
from fedkin.options.robust.rules import most_byzantine, parse
from fedkin.options.robust.splitting import SPLIT, Clusters, split, times_left_out
from fedkin.options.robust.update_memory import REMEMBERED, UpdateMemory
from fedkin.options.robust.weights import aggregate_and_weights
from fedkin.options.summed_tasks import averages_itself, check_asks_for_means

# Parts of a rule's name with which the rule always excludes some honest updates too. With these
# rules, an exclusion is no sign of an attack.
SELECTING = ("krum", "mda", "nnm")
# Names of two arrays [N] in the state: the sum of the weights that the rule gave to each client's
# updates, and the number of rounds in that sum.
JUDGED = ("rule_weight", "rule_rounds")
_NO_PLACE = "a rule has no place"  # in a method that averages updates itself


@plain_options
@dataclass(frozen=True)
class RobustAggregation(Option):
    """A robust rule that replaces the mean within each cluster.

    Attributes:
        rule: ``median``, ``trimmed_mean``, ``mean_around_median``, ``krum``, ``multi_krum``,
            ``geometric_median``, ``rfa``, ``centered_clipping``, ``mda`` or ``mean``. A prefix adds
            a step before the rule: ``nnm+`` (nearest-neighbour mixing), ``arc+`` (adaptive
            clipping), ``clip+`` (clipping to the median length), ``bucketing+`` (means of random
            pairs) or ``majority+`` (removes opposing minorities, at most as many updates as may be
            Byzantine).
        byzantine: assumed largest share of Byzantine replies in a cluster; below one half.
        least: minimum number of replies. A cluster with fewer keeps its model in that round, since
            among few clients a few Byzantine ones may be the majority.
        memory: number of rounds for which a client's last update is used again. A rule then
            compares nearly all clients of a cluster, not only those in the round's cohort. 0: only
            the round's updates. The memory stores N x P numbers.
        split_after: number of consecutive exclusions after which a client leaves its cluster.
            Clients that leave one cluster together share a new one. 0: no client leaves.

    Examples:
        >>> import fedkin as fk
        >>> fk.RobustAggregation("median", byzantine=0.2)
        RobustAggregation(rule='median', byzantine=0.2, least=4, memory=0, split_after=0)
    """

    section = "robust"

    rule: str = "nnm+trimmed_mean"
    byzantine: float = 0.3
    least: int = 4
    memory: int = 0
    split_after: int = 0

    def __post_init__(self) -> None:
        before, _ = parse(self.rule)
        check_not_negative("byzantine", self.byzantine)
        check_positive("least", self.least)
        check_not_negative("memory", self.memory)
        check_not_negative("split_after", self.split_after)
        if not self.byzantine < 0.5:
            raise MethodError(
                f"robust.byzantine = {self.byzantine:g}: from one half on no rule can tell "
                "Byzantine clients from the others; set it below 0.5"
            )
        selecting = next((name for name in SELECTING if name in self.rule), None)
        if self.split_after and selecting:
            raise MethodError(
                f"robust.split_after: {selecting} excludes honest updates too, so honest clients "
                "would leave their clusters; set robust.rule to geometric_median, median or "
                "trimmed_mean, or majority+geometric_median"
            )
        if "bucketing" in before and not BUCKET * self.byzantine < 0.5:
            raise MethodError(
                f"robust.byzantine = {self.byzantine:g}: each Byzantine client may spoil a bucket "
                f"of {BUCKET}, so with bucketing it must be below {0.5 / BUCKET:g}"
            )

    def refusal(self, run: RunFacts) -> str:
        if "privacy" in run.options:
            return (
                "a robust rule reads single updates, but privacy releases noisy sums only; use a "
                "robust rule or privacy, not both"
            )
        if run.shares_part:
            return (
                "personal heads also send sums of bodies (models without the last layer), which no "
                "rule replaces; use personal models (ditto), or no personal part"
            )
        if self.split_after and "server_optimizer" in run.options:
            return (
                "a server optimizer stores moments for each cluster, which a split cluster lacks; "
                "leave out robust.split_after"
            )
        return refusal(run.method) or (split_refusal(run.method) if self.split_after else "")

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveRule(self, run.method)

    def average_and_weights(
        self, rows: Float[np.ndarray, "m p"]
    ) -> tuple[Float[np.ndarray, "p"], Float64[np.ndarray, "m"]]:
        """The aggregated update of a cluster, and the weight of each client's update in it.

        Weights are scaled so that 1 is the weight in a plain mean; 0 means excluded.

        Args:
            rows: updates in the order of client numbers. There are enough of them (``enough``).
        """
        average, weights = aggregate_and_weights(rows, self.rule, self.excluded(len(rows)))
        return average.astype(rows.dtype), len(rows) * weights

    def enough(self, count: int) -> bool:
        """Whether a cluster has enough replies for the rule. If not, the cluster keeps its
        model."""
        # Krum sums the distances to n - f - 2 other rows, so there must be some.
        rows = 4 if "krum" in self.rule else 1
        needed = rows * BUCKET if "bucketing" in self.rule else rows
        return count >= max(self.least, needed)

    def excluded(self, count: int) -> int:
        """f: the assumed number of Byzantine replies among ``count``, at most the number that the
        rule can tolerate."""
        return min(math.ceil(self.byzantine * count), most_byzantine(self.rule, count))


def refusal(method: Method) -> str:
    """Why a robust rule cannot be used with a method; empty if it can."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.peers:
        return f"{name} has no server that averages: its peers choose which models they trust"
    if needs.model.detectors:
        return (
            f"{name} trains several models of a client in one round, but a robust rule compares "
            "one update of each client"
        )
    return averages_itself(method, _NO_PLACE) if needs.reads.because else ""


def split_refusal(method: Method) -> str:
    """Why clusters of a method cannot be split; empty if they can."""
    if requirements_of(method).keeps_clusters:
        return ""
    return (
        f"{type(method).__name__} assigns clients again, or keeps more than a model for each "
        "cluster, so no cluster can be split: leave out robust.split_after, or use flhc (without "
        "migration and eta_g), fedavg or fedprox"
    )


class ActiveRule(ActiveOption):
    """A robust rule in a run.

    It keeps arrays in the state. ``rule_weight`` [N] is the sum of the weights that the rule gave
    to a client's updates, ``rule_rounds`` [N] the number of rounds in that sum. With ``memory``,
    the arrays named in ``REMEMBERED`` hold each client's last update. With ``split_after``, the
    arrays named in ``SPLIT`` hold which clients have left a cluster.

    Args:
        settings: settings of the rule.
        method: the run's method.
    """

    def __init__(self, settings: RobustAggregation, method: Method) -> None:
        super().__init__(settings.section)
        self._settings = settings
        self._method = method

    def around(self, world: World, before: State | None, call: Call) -> Around:
        # Clusters are not judged yet, or new clients are only assigned: the rule averages, but its
        # weights are not recorded.
        if call.step != "round" or before is None:
            seen = RobustWorld(world, self._settings)
            return Around(seen, lambda after: self._with_judgement(before, after, None))
        memory = self._memory(world, before)
        judging = RobustWorld(
            world=world,
            settings=self._settings,
            memory=memory,
            assignment=before.assignment,
            round=call.round,
        )
        return Around(judging, lambda after: self._judged(before, after, judging, call.round))

    def _memory(self, world: World, before: State) -> UpdateMemory | None:
        """The memory of each client's last update, from the state before the round; None if the
        rule uses no earlier updates."""
        if not self._settings.memory:
            return None
        arrays = self.arrays(before)
        if REMEMBERED[0] not in arrays:
            return UpdateMemory.empty(world.total_clients, world.spec.parameters)
        return UpdateMemory(*(arrays[name] for name in REMEMBERED))

    def _judged(self, before: State, after: State, world: RobustWorld, round: int) -> State:
        """The state after a round, with the weights that the rule gave to updates; clients that
        are excluded too often leave their clusters here.

        Raises:
            MethodError: the method reads single updates and averages them itself.
        """
        first_clustering = requirements_of(self._method).rounds.first_clustering
        check_asks_for_means(
            section=self.section,
            method=self._method,
            so_that=_NO_PLACE,
            round=round,
            single=world.single,
            averages=world.averages,
        )
        after = self._with_judgement(before, after, world)
        if self._settings.split_after and round > first_clustering:
            return self._split(after, world)
        return after

    def _with_judgement(
        self, before: State | None, after: State, world: RobustWorld | None
    ) -> State:
        """The state that the method returned, with the rule's arrays (weights, exclusions, last
        updates).

        Args:
            before: the state before the call; None before the first call.
            after: the state that the method returned.
            world: the world of the round, with the weights to add; None outside a round.
        """
        earlier = self.arrays(before)
        clients = len(after.assignment)
        arrays = {name: earlier.get(name, np.zeros(clients)) for name in JUDGED}
        if self._settings.split_after:
            arrays |= {name: earlier.get(name, np.zeros(clients, np.int64)) for name in SPLIT}
        arrays |= {name: earlier[name] for name in REMEMBERED if name in earlier}
        if world is None:
            return self.with_arrays(after, arrays)
        # Clients that have left their cluster keep the weights of their last round in it, so that
        # they stand out in the summary: nothing is added for them any more.
        counts = arrays.get("left_cluster", np.zeros(clients)) == 0
        arrays["rule_weight"] = arrays["rule_weight"] + counts * world.weight
        arrays["rule_rounds"] = arrays["rule_rounds"] + counts * world.judged
        if world.remembered is not None:
            arrays |= {name: getattr(world.remembered, name) for name in REMEMBERED}
        return self.with_arrays(after, arrays)

    def _split(self, after: State, world: RobustWorld) -> State:
        """The state after clients that were excluded often enough have left their clusters.

        The summary shows such clients with the low weight of their last update in the old cluster,
        not with the mean over all rounds. So an attacker that was honest at first stands out.
        """
        arrays = self.arrays(after)
        times = times_left_out(arrays["times_left_out"], world.weight, world.sent)
        due = world.sent & (times >= self._settings.split_after)
        before = Clusters(after.models, after.assignment, arrays["left_cluster"])
        clusters = split(before, due, most=self._settings.excluded)
        moved = clusters.assignment != after.assignment
        after = replace(after, models=clusters.models, assignment=clusters.assignment)
        return self.with_arrays(
            after,
            {
                **arrays,
                "times_left_out": np.where(moved, 0, times),
                "left_cluster": clusters.left_cluster,
                "rule_weight": np.where(moved, world.weight, arrays["rule_weight"]),
                "rule_rounds": np.where(moved, world.judged, arrays["rule_rounds"]),
            },
        )

    def closing(self, end: RunEnd) -> Record:
        return {"rule_weights": rule_weights(end.state)}


def rule_weights(state: State) -> list[float | None]:
    """Each client's mean weight under the rule, over the rounds in which the rule judged it.

    1 is the weight in a plain mean, 0 means always excluded, None that the rule never judged the
    client.
    """
    arrays = state.extras[RobustAggregation.section]
    weights = zip(arrays["rule_weight"], arrays["rule_rounds"], strict=True)
    return [round(float(weight / rounds), 4) if rounds else None for weight, rounds in weights]


class RobustWorld(WorldProxy):
    """A world whose means come from a robust rule.

    Args:
        world: the clients.
        settings: settings of the rule.
        memory: the last update of each client; None if no updates are reused.
        assignment: cluster of each client before the round; needed only with memory.
        round: the round in which clients are asked.

    The world sums the weights of each client's updates (``weight``) and counts these updates
    (``judged``). It also records which clients sent a new update (``sent``), and keeps updates in
    ``remembered``.
    """

    def __init__(
        self,
        world: World,
        settings: RobustAggregation,
        memory: UpdateMemory | None = None,
        assignment: Int[np.ndarray, "N"] | None = None,
        round: int = 0,
    ) -> None:
        super().__init__(world)
        self._settings = settings
        self.averages = 0
        self.single = 0
        self.remembered = memory
        self._assignment = assignment
        self._round = round
        self.weight = np.zeros(world.total_clients)
        self.judged = np.zeros(world.total_clients)
        self.sent = np.zeros(world.total_clients, bool)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply. A request for means gets the rule's averages instead; any other task
        goes to the clients unchanged.

        Raises TaskError if the means are of several vectors per client, for which no rule is known.
        """
        vector = mean_vector(task)
        if vector is None:
            if task.charged == "sum" and task.up.of("model"):
                raise TaskError(
                    f"robust: task {task.name} asks for means of more than one update of each "
                    "client, for which there is no robust rule; use another method, or leave out "
                    "robust"
                )
            # Counts the calls in which the method asked for updates one by one: only tasks that
            # send updates have ``charged == "sum"``.
            self.single += task.charged == "sum"
            return self._world.run(task, clients, stream)
        self.averages += 1
        single = task.single()
        assert single is not None
        reply = self._world.run(single, clients, stream)
        means = mean_reply(task, reply, clients)
        index = reply.arrays[INDEX]
        for k in range(len(means.arrays[vector])):
            rows = np.flatnonzero(reply.arrived & (index == k))
            # In a fixed order, ties between equal rows do not depend on the order of replies.
            rows = rows[np.argsort(clients[rows], kind="stable")]
            if len(rows):
                means.arrays[vector][k] = self._average(
                    reply.arrays[vector][rows], clients[rows], k
                )
        return means

    def _average(
        self, updates: Float[np.ndarray, "m p"], clients: Int[np.ndarray, "m"], model: int
    ) -> Float[np.ndarray, "p"]:
        """The rule's average of a model's updates of this round and remembered updates.

        It is zero, so that the model stays, if there are too few updates.
        """
        senders = clients
        if self.remembered is not None and self._assignment is not None:
            self.remembered = self.remembered.kept(updates, senders, model, self._round)
            remembered = self.remembered.clients(model, self._round - self._settings.memory)
            # A remembered update counts only while its client is still in this cluster.
            still_there = self._assignment[remembered] == model
            clients = remembered[still_there | np.isin(remembered, senders)]
            updates = self.remembered.last_update[clients]
        if not self._settings.enough(len(clients)):
            return np.zeros(updates.shape[1], updates.dtype)
        average, weights = self._settings.average_and_weights(updates)
        self.weight[clients] += weights
        self.judged[clients] += 1
        self.sent[senders] = True
        return average
