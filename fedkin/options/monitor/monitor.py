"""The monitor of clusters, as an option of any method: it watches whether clients still fit their
cluster, and says which clusters should change, at a declared rate of false alarms.

After each ``every``-th round:

    watch   the clients of the cohort send the loss x of their cluster's model, from 0 to 1, and on
            request how far their features have moved (``statistics.py``). One e-detector for each
            client and statistic (``evidence.py``), whose mean is the client's evidence. Alarm: e-BH
            over all clients
    probe   a client with an alarm compares its model with those of all other clusters, and sends
            how many samples each one alone gets right (``proposals.py``)
    move    a client whose evidence for another cluster passes e-BH belongs there. ``act="move"``
            changes its cluster; otherwise the move is proposed only
    split   a cluster should be split in two if enough of its clients have an alarm and fit
            nowhere else
    merge   every ``unions_every`` rounds, all clients of the cohort compare their model with the
            others: two clusters could be one, or one model would serve all, if no cluster loses
            more than ``margin``

E-values come from the sources in ``fedkin/measures/e_values.py``. The policy is not from a paper.

The rate of false alarms holds while a client's number exceeds its limit with probability at most
0.1, given the past (``evidence.py``). What cannot be seen: labels that are wrong in the same way in
a whole cluster, clients that send nothing, and changes so slow that the level follows them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.records import Record
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.validation import check_choice, check_positive, check_positive_integer
from fedkin.core.world import World, client_names
from fedkin.measures.e_values import e_bh
from fedkin.options.base import ActiveOption, Around, Call, Option, RunFacts
from fedkin.options.monitor.evidence import WINDOW, Evidence
from fedkin.options.monitor.proposals import (
    Act,
    log_of,
    not_worse,
    probe_rows,
    read_probes,
    splits,
    unions,
)
from fedkin.options.monitor.statistics import FEATURES, LOSS, Statistic
from fedkin.tasks.fit_checks import CompareModels

_log = logging.getLogger("fedkin")
AllEvidence = dict[Statistic, Evidence]


@plain_options
@dataclass(frozen=True)
class Monitor(Option):
    """Watches whether clients still fit their cluster, by tests with a declared rate of false
    alarms.

    Attributes:
        act: ``watch``: only alarms. ``probe``: alarms, and proposals of better clusters. ``move``:
            clients also change to a better cluster.
        false_alarms: alpha, the probability of any false alarm in the whole federation within
            ``horizon`` checks; also the false discovery rate of moves.
        horizon: T, the number of checks for which ``false_alarms`` is declared, such as 365 for a
            year of daily rounds.
        features: whether clients also send how far their features have moved since their first
            reply. Such a change often leaves the loss as it is. The evidence of a client is then
            the mean of its evidence of both, so an alarm needs a little more of it.
        margin: rise of a client's loss, from 0 to 1, that is not worth an alarm (of classes, the
            loss is one minus the geometric mean of the probabilities of the true classes). The same
            margin holds for features, where a move by one standard deviation is 0.5.
        reference: number of observations in the level with which a client's loss is compared.
        lag: number of observations in a row above a client's limit; one more, and all its
            observations are forgotten. Its next 2 ``reference`` observations give no alarm.
        every: number of rounds between two checks.
        dwell: smallest number of rounds between two moves of a client, and for which an alarm
            stays in force.
        split_share: smallest share of a cluster's clients that no longer fit, for a split.
        unions_every: number of rounds between two comparisons of all clusters; 0: none.
        split: samples on which models are compared: ``validation``, or ``train`` where there are
            no validation samples.

    Examples:
        >>> import fedkin as fk
        >>> fk.Monitor(act="move").false_alarms
        0.05
    """

    section = "monitor"

    act: Literal["watch", "probe", "move"] = "probe"
    false_alarms: float = 0.05
    horizon: int = 365
    features: bool = False
    margin: float = 0.03
    reference: int = 5
    lag: int = 25
    every: int = 1
    dwell: int = 10
    split_share: float = 0.3
    unions_every: int = 0
    split: Literal["validation", "train"] = "validation"

    def __post_init__(self) -> None:
        check_choice("act", self.act, ("watch", "probe", "move"))
        check_choice("split", self.split, ("validation", "train"))
        for name in ("horizon", "reference", "lag", "every", "dwell"):
            check_positive_integer(name, getattr(self, name))
        if self.unions_every != 0:
            check_positive_integer("unions_every", self.unions_every)
        if 2 * self.reference > WINDOW:
            raise MethodError(f"reference must be at most {WINDOW // 2}, got {self.reference}")
        for name in ("false_alarms", "margin", "split_share"):
            value = getattr(self, name)
            check_positive(name, value)
            if value >= 1:
                raise MethodError(f"{name} must be below 1, such as 0.05, got {value:g}")

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """What clients send in each check."""
        return (LOSS, FEATURES) if self.features else (LOSS,)

    @property
    def _sends(self) -> str:
        """What every client sends, in words."""
        parts = [statistic.sends for statistic in self.statistics]
        return f"{' and '.join(parts)} (monitor)"

    def refusal(self, run: RunFacts) -> str:
        needs = requirements_of(run.method)
        name = type(run.method).__name__
        if needs.peers:
            return f"{name} has no server that could watch its clients; leave out the monitor"
        if needs.model.detectors:
            return f"{name} has a detector for each class, and no model of a cluster to watch"
        if needs.parts.own:
            return (
                f"{name} has {needs.parts.own}, so the model of a cluster alone "
                "says little about a client's fit; use another method, or no monitor"
            )
        if run.shares_part:
            return (
                "a part of each client's model stays on the client, so the cluster's model alone "
                "says little about its fit; use the monitor without personal parts"
            )
        for section in ("privacy", "secret"):
            if section in run.options:
                return (
                    f"every client sends {self._sends}, which no noise covers and no sum hides; "
                    f"leave out the section {section}, or the monitor"
                )
        return ""

    def requirements(self, needs: Requirements) -> Requirements:
        sends = f"{needs.reads.sends}, and {self._sends}" if needs.reads.sends else self._sends
        return replace(needs, reads=replace(needs.reads, sends=sends))

    def simulated(self, data: Any, shift: Any) -> tuple[Any, Any]:
        """The data as they are. Raises ConfigError if they have no validation samples, but the
        monitor needs them."""
        if self.split == "validation" and data.validation is None:
            raise ConfigError(
                f"monitor: {data.name} has no validation samples; set data.validation = 0.1 (in "
                "Python data.with_validation(0.1)), or monitor.split = 'train'"
            )
        return data, shift

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveMonitor(self, run.clients)


class _Check(NamedTuple):
    """The round that is checked: its clients and its number."""

    world: World
    cohort: Int[np.ndarray, "n"]
    round: int


class ActiveMonitor(ActiveOption):
    """The monitor in a run. The state holds the evidence.

    Args:
        settings: settings of the monitor.
        clients: N.
    """

    def __init__(self, settings: Monitor, clients: int) -> None:
        super().__init__(settings.section)
        self._settings = settings
        self._clients = clients
        self._acts: list[Act] = []
        # The evidence of this round's check, before detectors have started again.
        self._checked_values: Float64[np.ndarray, "N"] | None = None

    def around(self, world: World, before: State | None, call: Call) -> Around:
        self._acts = []
        self._checked_values = None
        cohort = call.clients
        if call.step != "round" or cohort is None:
            return Around(world, self._keeping(before))
        check = _Check(world, cohort, call.round)
        return Around(world, lambda after: self._checked(check, before, after))

    def record(self, state: State) -> Record:
        """Largest evidence of a client, also for each cluster; number of clients with an alarm; and
        the findings of this round."""
        arrays = self.arrays(state)
        values = self._checked_values
        if values is None:
            values = _values(self._evidence(arrays))
        e_values = values / self._settings.horizon
        return {
            "monitor_evidence": log_of(e_values.max(initial=0.0)),
            "monitor_evidence_by_cluster": _largest_by_cluster(
                e_values, state.assignment, clusters=len(state.models)
            ),
            "monitor_alarms": int(arrays["alarmed"].sum()),
            "monitor_acts": [act.plain() for act in self._acts],
        }

    def _keeping(self, before: State | None) -> Callable[[State], State]:
        """The function that gives the method's new state the arrays of the state before; those of
        a beginning if there is none."""
        if before is not None:
            return lambda after: self.with_arrays(after, self.arrays(before))
        none = Evidence.none(self._clients)
        evidence = dict.fromkeys(self._settings.statistics, none)
        return lambda after: self.with_arrays(
            after,
            {
                **_written(evidence),
                # The round of each client's last alarm and last move; 0: none yet.
                "alarm_round": np.zeros(self._clients, np.int64),
                "move_round": np.zeros(self._clients, np.int64),
                "alarmed": np.zeros(self._clients, bool),
                "stray": np.zeros(self._clients, bool),
            },
        )

    def _checked(self, check: _Check, before: State | None, after: State) -> State:
        """The state after the checks of a round."""
        settings = self._settings
        world = check.world
        cohort = check.cohort
        round = check.round
        arrays = {name: array.copy() for name, array in self.arrays(before).items()}
        # A client that the method has moved is compared with its new model from now on, also if it
        # has moved in a round without checks.
        moved = np.zeros(self._clients, bool)
        if before is not None:
            moved = before.assignment != after.assignment
        evidence = _without_model(self._evidence(arrays), moved)
        if round % settings.every:
            arrays.update(_written(evidence))
            return self.with_arrays(after, arrays)
        placed = cohort[after.assignment[cohort] != UNASSIGNED]
        evidence = self._watched(world, after, placed, evidence)
        self._checked_values = _values(evidence)
        alarms = self._alarms(evidence, after, in_force=arrays["alarmed"], round=round)
        arrays["alarm_round"][alarms] = round
        evidence = {statistic: of.restarted(alarms) for statistic, of in evidence.items()}
        after = self._probed(check, after, arrays, np.flatnonzero(alarms))
        done = [act.client for act in self._acts if act.done]
        evidence = _without_model(evidence, np.array(done, np.int64))
        self._compare_clusters(world, after, placed, round)
        arrays.update(_written(evidence))
        recent = arrays["alarm_round"] > max(round - settings.dwell, 0)
        arrays["alarmed"] = recent & (arrays["alarm_round"] > arrays["move_round"])
        arrays["stray"] &= arrays["alarmed"]
        self._find_splits(arrays["stray"], after, round)
        self._log_acts(world)
        return self.with_arrays(after, arrays)

    def _evidence(self, arrays: Mapping[str, np.ndarray]) -> AllEvidence:
        """The evidence that the arrays of a state hold."""
        return {statistic: statistic.read(arrays) for statistic in self._settings.statistics}

    def _watched(
        self, world: World, state: State, clients: Int[np.ndarray, "n"], evidence: AllEvidence
    ) -> AllEvidence:
        """The evidence after the clients have sent their numbers."""
        settings = self._settings
        after = {}
        for statistic, of_statistic in evidence.items():
            observed = statistic.ask(world, state, clients, settings.split)
            after[statistic] = of_statistic.observed(
                clients[observed.known],
                observed.values[observed.known],
                size=settings.reference,
                margin=settings.margin,
                lag=settings.lag,
            )
        return after

    def _alarms(
        self, evidence: AllEvidence, state: State, in_force: Bool[np.ndarray, "N"], round: int
    ) -> Bool[np.ndarray, "N"]:
        """The clients without an alarm in force whose evidence passes e-BH, with an act for
        each."""
        settings = self._settings
        e_values = _values(evidence) / settings.horizon
        alarms = e_bh(e_values, settings.false_alarms) & ~in_force
        for client in np.flatnonzero(alarms).tolist():
            most = max(evidence, key=lambda statistic: evidence[statistic].values[client])
            self._acts.append(
                Act(
                    round,
                    "alarm",
                    int(state.assignment[client]),
                    client=client,
                    cause=most.cause,
                    log_evidence=log_of(e_values[client]),
                )
            )
        return alarms

    def _probed(
        self,
        check: _Check,
        state: State,
        arrays: dict[str, np.ndarray],
        alarmed: Int[np.ndarray, "f"],
    ) -> State:
        """The state after clients with an alarm were probed, and moved if the monitor acts. Changes
        ``arrays``."""
        settings = self._settings
        round = check.round
        used = np.unique(state.assignment[state.assignment != UNASSIGNED])
        if settings.act == "watch" or not len(alarmed):
            return state
        arrays["stray"][alarmed] = True
        clients, pairs = probe_rows(alarmed, state.assignment[alarmed], used)
        if not len(clients):
            return state
        counts = self._counts(check.world, state, clients, pairs)
        assignment = state.assignment.copy()
        for probe in read_probes(clients, pairs, counts, settings.false_alarms):
            if not probe.passes or probe.to is None:
                continue
            arrays["stray"][probe.client] = False
            last = arrays["move_round"][probe.client]
            settled = last == 0 or round - last >= settings.dwell
            moves = settings.act == "move" and bool(settled)
            if moves:
                assignment[probe.client] = probe.to
                arrays["move_round"][probe.client] = round
            self._acts.append(
                Act(
                    round,
                    "move",
                    probe.cluster,
                    client=probe.client,
                    to=probe.to,
                    log_evidence=log_of(probe.e_value),
                    done=moves,
                )
            )
        if np.array_equal(assignment, state.assignment):
            return state
        return replace(state, assignment=assignment)

    def _compare_clusters(
        self, world: World, state: State, clients: Int[np.ndarray, "n"], round: int
    ) -> None:
        """Add the clusters that one model would serve as well to the acts, in the rounds in which
        all clusters are compared."""
        settings = self._settings
        if not settings.unions_every or round % settings.unions_every or not len(clients):
            return
        used = np.unique(state.assignment[clients])
        rows, pairs = probe_rows(clients, state.assignment[clients], used)
        if not len(rows):
            return
        counts = self._counts(world, state, rows, pairs)
        looks = math.ceil(settings.horizon / settings.unions_every)
        e_values = not_worse(pairs, counts, len(state.models), settings.margin)
        self._acts += unions(e_values, settings.false_alarms / looks, round)

    def _counts(
        self,
        world: World,
        state: State,
        clients: Int[np.ndarray, "n"],
        pairs: Int[np.ndarray, "n 2"],
    ) -> Int[np.ndarray, "n 3"]:
        """Better, worse and all samples of each row; zeros for clients that do not reply."""
        task = CompareModels(state.models, pairs, split=self._settings.split)
        return world.run(task, clients).counts

    def _find_splits(self, stray: Bool[np.ndarray, "N"], state: State, round: int) -> None:
        """Add the clusters that should be split in two to the acts."""
        for cluster in splits(stray, state.assignment, self._settings.split_share):
            self._acts.append(Act(round, "split", cluster))

    def _log_acts(self, world: World) -> None:
        """Log the findings of this round, with the names of clients."""
        names = dict(enumerate(client_names(world) or ()))
        for act in self._acts:
            _log.warning("round %d: monitor: %s", act.round, act.in_words(names))


def _values(evidence: AllEvidence) -> Float64[np.ndarray, "N"]:
    """The evidence of each client: the mean over all statistics, since a mean of e-detectors is an
    e-detector."""
    return np.mean([of.values for of in evidence.values()], axis=0)


def _without_model(
    evidence: AllEvidence, clients: Int[np.ndarray, "n"] | Bool[np.ndarray, "N"]
) -> AllEvidence:
    """All evidence, but for some clients none about their models, such as for those that have
    moved."""
    return {
        statistic: of.forgotten(clients) if statistic.of_model else of
        for statistic, of in evidence.items()
    }


def _written(evidence: AllEvidence) -> dict[str, np.ndarray]:
    """The arrays of a state that hold the evidence."""
    arrays = dict[str, np.ndarray]()
    for statistic, of_statistic in evidence.items():
        arrays.update(statistic.written(of_statistic))
    return arrays


def _largest_by_cluster(
    e_values: Float64[np.ndarray, "N"], assignment: Int[np.ndarray, "N"], clusters: int
) -> list[float | None]:
    """The logarithm of the largest e-value of each cluster's clients; None without clients."""
    largest = np.full(clusters, -np.inf)
    placed = assignment != UNASSIGNED
    np.maximum.at(largest, assignment[placed], e_values[placed])
    return [log_of(value) if value >= 0 else None for value in largest]
