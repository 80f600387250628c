"""Byzantine clients in a simulation: which clients attack, which updates they send, and what they
report falsely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.core.errors import ConfigError
from fedkin.core.method import State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.replies import Reply, mean_reply
from fedkin.core.requirements import requirements_of
from fedkin.core.schema import INDEX
from fedkin.core.task import Task
from fedkin.core.validation import check_choice, check_fraction
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.data.federated import FederatedData
from fedkin.options.attack.attack_record import attack_record
from fedkin.options.attack.attacks import ATTACKS, OPTIMAL, gaussian, optimal
from fedkin.options.attack.false_reports import LIES, lie
from fedkin.options.attack.sleepers import DISGUISES, Honest
from fedkin.options.base import ActiveOption, Around, Call, Option, RunEnd, RunFacts
from fedkin.options.robust.rules import most_byzantine, parse
from fedkin.scenarios.poisoning import POISONS, LaterPoisoning
from fedkin.scenarios.shift import Shift
from fedkin.scenarios.validation import refuse_other_labels

# Factors by which an attacker multiplies its own update.
OWN = {"stretch": -10.0, "own_sign_flip": -1.0}
LABELS = "label_flip"
BACKDOOR = "backdoor"
REPLACEMENT = "backdoor_replacement"
NOISE = "gaussian"
NOT_FINITE = "nan"
NOTHING = "none"
KINDS = (*ATTACKS, *OPTIMAL, *OWN, *POISONS, NOISE, NOT_FINITE, NOTHING)
# Attacks that need two honest rows, for a standard deviation or a distance.
_PAIRS = ("alie", "min_max", "min_sum", "optimal_alie")


@plain_options
@dataclass(frozen=True)
class Byzantine(Option):
    """Clients that attack, the kind of attack, and the round in which it starts.

    Attributes:
        attack: the vector that an attacker sends as its update. Computed from honest updates:
            ``sign_flip`` (the negated mean), ``ipm`` (-0.5 times the mean), ``alie`` (mean - 1.5
            standard deviations), ``optimal_ipm`` and ``optimal_alie`` (with the factor that does
            most harm to the rule ``against``), ``mimic`` (a copy of one honest update),
            ``min_max``, ``min_sum`` (``attacks.py``), ``gaussian`` (noise), ``nan`` (not finite).
            The attacker's own update: ``own_sign_flip`` (times -1) and ``stretch`` (times -10). An
            update trained on poisoned data: ``label_flip`` (labels y -> classes - 1 - y),
            ``backdoor`` (half of the images get a patch of 3 x 3 in a corner and the label 0),
            ``backdoor_replacement`` (the same update, multiplied by the number of clients that
            train the model and divided by the number of attackers among them, so that the mean
            nearly becomes the attackers' model). ``none``: the unchanged update, for use with a
            ``disguise`` or a ``lie``.
        share: share of the clients that attack.
        spread: whether attackers are spread ``evenly`` over the true clusters, or at ``random``.
        start: first round of the attack. 0 is the cold start, in which clusters are found. With a
            later start the attackers are sleepers: they attack only then.
        disguise: the vector that attackers send before ``start``, to corrupt the clusters:
            ``imitation`` (the mean of another true cluster), ``splitting`` (two groups on either
            side of their cluster's mean), ``blob`` (the mean of all honest updates, sent by all
            attackers), ``bridge`` (vectors between two clusters). ``none``: their own updates.
        lie: false numbers that attackers report in all rounds, also before ``start``. ``lowest``
            or ``highest``: the extreme value, wherever a client reports one number per model (e.g.
            losses or cosines). ``sizes``: 2^40 samples. ``bits``: yes to all questions, such as
            whether the data have shifted. ``choice``: the model that the fewest honest clients
            chose (IFCA). ``none``: no false report.
        against: the robust rule that optimal attacks assume on the server.
        clients: the attackers' positions, from 0, in place of share and spread. A client's name is
            not its position: the position of client "6" is ``data.client_names.index("6")``.
        seed: random seed for the choice of attackers.

    Examples:
        >>> import fedkin as fk
        >>> attack = fk.Byzantine("alie", share=0.2, start=5)
        >>> attack.attack, attack.share, attack.start
        ('alie', 0.2, 5)
    """

    section = "attack"

    attack: str = "sign_flip"
    share: float = 0.3
    spread: Literal["evenly", "random"] = "evenly"
    start: int = 0
    disguise: str = NOTHING
    lie: str = NOTHING
    against: str = "nnm+trimmed_mean"
    clients: tuple[int, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("attack", self.attack, KINDS)
        check_choice("spread", self.spread, ("evenly", "random"))
        check_choice("disguise", self.disguise, (*DISGUISES, NOTHING))
        check_choice("lie", self.lie, (*LIES, NOTHING))
        check_fraction("share", self.share)
        _check_positions(self.clients)
        parse(self.against)
        if self.disguise != NOTHING and not self.start:
            raise ConfigError(
                "attack.disguise: attackers are disguised before the round attack.start, which "
                "is 0; set attack.start to the first round after the clusters are found"
            )

    def refusal(self, run: RunFacts) -> str:
        if requirements_of(run.method).peers:
            return (
                f"{type(run.method).__name__} has no server; attacks between peers are not "
                "simulated"
            )
        return ""

    def simulated(
        self, data: FederatedData, shift: Shift | None
    ) -> tuple[FederatedData, Shift | None]:
        """The data with attackers' samples poisoned, from the start or from a later round on.

        Raises:
            ConfigError: labels are no classes; or poisoning starts after round 0, and the data also
                shift for another reason.
            DataError: these data cannot be poisoned.
        """
        if self.attack not in POISONS:
            return data, shift
        refuse_other_labels(
            data, f"the attack {self.attack}", "choose an attack on updates, such as sign_flip"
        )
        attacks = self.attackers(data.clients, data.true_clusters)
        if not self.start:
            return POISONS[self.attack](data, attacks), shift
        if shift is not None:
            raise ConfigError(
                f"attack.start = {self.start}: {self.attack} poisons the data from that round on, "
                "which cannot be combined with another shift of the data; set attack.start=0, or "
                "leave out the shift"
            )
        return data, LaterPoisoning(
            self.attack, tuple(np.flatnonzero(attacks).tolist()), self.start
        )

    def bind(self, run: RunFacts) -> ActiveOption:
        # Attackers are stored by position, so a shift of the data does not change who they are.
        attackers = np.flatnonzero(self.attackers(run.clients, run.true_clusters))
        return ActiveAttack(replace(self, clients=tuple(attackers.tolist())))

    def attackers(
        self, total: int, true_clusters: Int[np.ndarray, "N"] | None
    ) -> Bool[np.ndarray, "N"]:
        """Which clients attack.

        Args:
            total: number of clients N.
            true_clusters: true clusters, over which attackers are spread; None for one cluster.

        Raises:
            ConfigError: there is no client at a given position.
        """
        if self.clients is not None:
            return _mask(self.clients, total)
        rng = Stream(self.seed, 0, "byzantine").rng()
        clusters = np.zeros(total, np.int64)
        if true_clusters is not None and self.spread != "random":
            clusters = true_clusters
        order = rng.permutation(total)
        chosen: list[int] = []
        for cluster in np.unique(clusters):
            members = order[clusters[order] == cluster]
            # Counted over all clusters so far, so that the shares add up.
            attackers_so_far = round(self.share * np.count_nonzero(clusters <= cluster))
            chosen += members[: attackers_so_far - len(chosen)].tolist()
        return _mask(chosen, total)

    def replies(
        self,
        updates: Float[np.ndarray, "n p"],
        index: Int[np.ndarray, "n"],
        attacks: Bool[np.ndarray, "n"],
        rng: np.random.Generator | None = None,
    ) -> Float[np.ndarray, "n p"]:
        """The updates as the server receives them: attackers' updates are replaced, the others are
        unchanged.

        Args:
            updates: the clients' true updates, one row each.
            index: the model that each row's client trained.
            attacks: which rows belong to attackers.
            rng: generator of the noise.
        """
        sent = updates.copy()
        if self.attack in OWN:
            sent[attacks] *= OWN[self.attack]
        # These attacks scale the update, poison the training data, or change nothing.
        if self.attack in (*OWN, LABELS, BACKDOOR, NOTHING):
            return sent
        if self.attack == NOT_FINITE:
            sent[attacks] = np.nan
            return sent
        # With fewer honest rows the attack is undefined, so attackers send their own updates.
        least_honest = 2 if self.attack in _PAIRS else 1
        for k in np.unique(index[attacks]):
            theirs = (index == k) & attacks
            honest = updates[(index == k) & ~attacks].astype(np.float64)
            if self.attack == REPLACEMENT:
                sent[theirs] *= (len(honest) + theirs.sum()) / theirs.sum()
            elif len(honest) >= least_honest and self._simulated(len(honest), int(theirs.sum())):
                sent[theirs] = self._rows(honest, int(theirs.sum()), rng)
        return sent

    def _simulated(self, honest: int, count: int) -> int:
        """The number of attackers with which attackers choose their update. Optimal attacks apply
        the attacked rule, so there are at most as many as it tolerates; 0 if it tolerates none.

        Args:
            honest: number of the model's honest clients.
            count: number of the model's attackers.
        """
        f = count
        if self.attack in OPTIMAL:
            while f > 0 and f > most_byzantine(self.against, honest + f):
                f -= 1
        return f

    def _rows(
        self, honest: Float64[np.ndarray, "h p"], count: int, rng: np.random.Generator | None
    ) -> Float64[np.ndarray, "..."]:
        """What the attackers of one model send: a row (vector) for each of them, or one row that
        all send.

        Args:
            honest: updates of the model's honest clients.
            count: number of the model's attackers.
            rng: generator of the noise.
        """
        if self.attack == NOISE:
            return gaussian(honest, count, rng or np.random.default_rng(0))
        if self.attack in OPTIMAL:
            f = self._simulated(len(honest), count)
            return optimal(honest, OPTIMAL[self.attack], self.against, f)
        return ATTACKS[self.attack](honest)

    def disguised(
        self,
        updates: Float[np.ndarray, "n p"],
        index: Int[np.ndarray, "n"],
        attacks: Bool[np.ndarray, "n"],
        kinds: Int[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n p"]:
        """The updates as the server receives them before the attack starts, with attackers' updates
        replaced by their disguise (vectors that corrupt the clusters).

        Args:
            updates: the clients' true updates, one row each.
            index: the model that each row's client trained.
            attacks: which rows belong to attackers.
            kinds: true cluster of each row's client.
        """
        sent = updates.copy()
        if self.disguise == NOTHING:
            return sent
        disguise = DISGUISES[self.disguise]
        # A disguise is computed from honest updates of the same model and true cluster. Attackers
        # without such clients send their own updates.
        for k in np.unique(index[attacks]):
            is_honest = (index == k) & ~attacks
            is_attacker = (index == k) & attacks
            honest = Honest(updates[is_honest].astype(np.float64), kinds[is_honest])
            for kind in np.intersect1d(kinds[is_attacker], honest.kinds):
                theirs = is_attacker & (kinds == kind)
                sent[theirs] = disguise(honest, int(kind), int(theirs.sum()))
        return sent


class ActiveAttack(ActiveOption):
    """An attack in a run, which changes attackers' replies and adds to the summary.

    Args:
        attack: the attack, with the attackers given by position.
    """

    def __init__(self, attack: Byzantine) -> None:
        super().__init__(attack.section)
        self._attack = attack

    def around(self, world: World, before: State | None, call: Call) -> Around:
        return Around(AttackedWorld(world, self._attack, call.round))

    def closing(self, end: RunEnd) -> Record:
        attackers = self._attack.attackers(len(end.state.assignment), end.true_clusters)
        return attack_record(attackers, end)


class AttackedWorld(WorldProxy):
    """A world in which attackers change their replies.

    Args:
        world: the clients.
        attack: the attack and its clients.
        round: the round in which clients are asked.

    Raises:
        ConfigError: a disguise (false vectors before the attack) needs true clusters, but they are
            unknown.
    """

    def __init__(self, world: World, attack: Byzantine, round: int) -> None:
        super().__init__(world)
        self._attack = attack
        self._round = round
        self._asleep = round < attack.start
        self._attackers = attack.attackers(world.total_clients, world.true_clusters)
        if attack.disguise != NOTHING and world.true_clusters is None:
            raise ConfigError(
                f"attack.disguise = {attack.disguise!r} needs data with known true clusters"
            )

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply, with the vectors and false reports of attackers."""
        attacks = self._attackers[clients]
        # Attackers change single updates, so a request for means is computed from these here.
        single: Any = task if task.single() is None else task.single()
        vectors = [name for name, array in single.up.of("row").items() if array.norm_checked]
        # Sleepers without a disguise send their true updates until the attack starts.
        silent = self._asleep and self._attack.disguise == NOTHING
        changes = (vectors and not silent) or self._attack.lie != NOTHING
        # A task whose reply holds only means (no single form) has no updates to change.
        if not attacks.any() or not changes or single.up.of("model"):
            return self._world.run(task, clients, stream)
        reply = self._world.run(single, clients, stream)
        if self._attack.lie != NOTHING:
            false_arrays = lie(
                self._attack.lie,
                single,
                reply.arrays,
                liars=attacks & reply.arrived,
                honest=~attacks & reply.arrived,
            )
            reply = replace(reply, arrays=false_arrays)
        reply = self._with_vectors(reply, vectors, clients, attacks)
        return reply if single is task else mean_reply(task, reply, clients)

    def _with_vectors(
        self,
        reply: Reply,
        vectors: list[str],
        clients: Int[np.ndarray, "n"],
        attacks: Bool[np.ndarray, "n"],
    ) -> Reply:
        """A reply with one row per client, in which the attackers' vectors are replaced.

        As on a real server, a row with a vector that is not finite counts as not arrived.

        Args:
            reply: the true reply, with one row per client.
            vectors: names of the arrays that hold updates.
            clients: client of each row.
            attacks: which rows belong to attackers.
        """
        replied = np.flatnonzero(reply.arrived)
        index = reply.arrays.get(INDEX, np.zeros(len(clients), np.int64))[replied]
        kinds = self._true_clusters_of(clients[replied])
        arrays = dict(reply.arrays)
        nonfinite = np.zeros(len(clients), bool)
        for name in vectors:
            rows = arrays[name][replied]
            # Before the attack starts, attackers may send updates that spoil the clustering.
            if self._asleep:
                sent = self._attack.disguised(rows, index, attacks[replied], kinds)
            else:
                # The same noise again if a run is resumed in this round.
                noise = Stream(self._attack.seed, self._round, f"byzantine/{name}").rng()
                sent = self._attack.replies(rows, index, attacks[replied], noise)
            arrays[name] = arrays[name].copy()
            arrays[name][replied] = sent.astype(np.float32)
            nonfinite[replied] |= ~np.isfinite(arrays[name][replied]).all(axis=1)
            arrays[name][nonfinite] = 0
        return replace(
            reply,
            arrays=arrays,
            arrived=reply.arrived & ~nonfinite,
            nonfinite=reply.nonfinite | nonfinite,
        )

    def _true_clusters_of(self, clients: Int[np.ndarray, "r"]) -> Int[np.ndarray, "r"]:
        """True cluster of each client; 0 for all if the clusters are unknown."""
        if self.true_clusters is None:
            return np.zeros(len(clients), np.int64)
        return self.true_clusters[clients]


def _check_positions(clients: Any) -> None:
    """Raise ConfigError if attackers are given in another way than by position (whole numbers), for
    example by name."""
    if clients is None:
        return
    for client in clients if isinstance(clients, (tuple, list)) else [None]:
        if isinstance(client, bool) or not isinstance(client, int):
            given = clients if client is None else client
            raise ConfigError(
                "attack.clients: expected positions of clients, whole numbers from 0 in a tuple "
                f'or list such as (0, 3); got {given!r}. The position of the client "a" is '
                'data.client_names.index("a")'
            )


def _mask(clients: Sequence[int], total: int) -> Bool[np.ndarray, "N"]:
    """A mask over all clients that is True at these positions. Raises ConfigError for a position
    without a client."""
    mask = np.zeros(total, bool)
    for client in clients:
        if not 0 <= client < total:
            raise ConfigError(
                f"attack.clients: there is no client at position {client}; positions are 0 to "
                f"{total - 1}, whatever the clients' names are (data.client_names.index(name) is "
                "the position of a name)"
            )
        mask[client] = True
    return mask
