"""Byzantine clients in a simulation: who they are, what they send for their updates, and what they lie about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.validation import check_choice, check_fraction
from fedkin.robust.attacks import ATTACKS, OPTIMAL, gaussian, optimal
from fedkin.robust.disguises import DISGUISES, Honest
from fedkin.robust.lies import LIES
from fedkin.robust.rules import parse

OWN = {"stretch": -10.0, "own_sign_flip": -1.0}  # what each attacker multiplies its own update with
LABELS, BACKDOOR, REPLACEMENT = "label_flip", "backdoor", "backdoor_replacement"
POISONS = (LABELS, BACKDOOR, REPLACEMENT)  # it trains on other data, and sends what comes of it
NOISE, NOT_FINITE, NOTHING = "gaussian", "nan", "none"
KINDS = (*ATTACKS, *OPTIMAL, *OWN, *POISONS, NOISE, NOT_FINITE, NOTHING)
_PAIRS = ("alie", "min_max", "min_sum", "optimal_alie")  # attacks that need two honest rows


@plain_options
@dataclass(frozen=True)
class Byzantine:
    """Who attacks, how, and from when on.

    Attributes:
        attack: ``sign_flip`` (- mean of the honest), ``ipm`` (- 0.5 mean), ``alie`` (mean - 1.5 deviations),
            ``optimal_ipm``, ``optimal_alie`` (with the factor that does most harm to the rule ``against``), ``mimic``
            (a copy of one), ``min_max``, ``min_sum``, ``gaussian`` (noise), ``nan`` (not finite); of the attacker's own
            update, ``own_sign_flip`` (-1 times) and ``stretch`` (-10 times); or what comes of training on other data:
            ``label_flip`` (labels y -> classes - 1 - y), ``backdoor`` (half of the images have a patch of 3 x 3 in a
            corner and the label 0), ``backdoor_replacement`` (that, times the clients of the model for each attacker);
            ``none``: its own update, beside a ``disguise`` or a ``lie``.
        share: of the clients.
        spread: ``evenly`` over the true clusters, or ``random``.
        start: the round from which on they attack (sleepers: above 0); 0 is the start, where clusters are found.
        disguise: what they send before ``start``, so that clusters are wrong: ``imitation`` (the mean of another
            kind), ``splitting`` (two bundles on either side of their kind's mean), ``blob`` (all the same row, in the
            middle of all), ``bridge`` (rows between two kinds); ``none``: their own.
        lie: what they say besides, from the start on: ``lowest`` or ``highest`` of all numbers that a client says of
            every model, such as losses and cosines; ``sizes`` (2^40 samples), ``bits`` (yes to all questions, such as
            whether their data have shifted), ``choice`` (IFCA: the model that fewest others chose); ``none``.
        against: the rule that optimal attacks know.
        clients: the attackers' positions, from 0, in place of share and spread. Names of clients are not positions:
            the position of the client "6" is ``data.client_names.index("6")``.
        seed: of who they are.
    """

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
                "attack.disguise: attackers are disguised before the round attack.start, which is 0; set it to the "
                "first round after the clusters are found"
            )

    def attackers(self, total: int, true_clusters: Int[np.ndarray, "N"] | None) -> Bool[np.ndarray, "N"]:
        """Which clients attack.

        Args:
            total: N.
            true_clusters: of the clients, over which they are spread; None: as if there were one.

        Raises:
            ConfigError: a client that is not there.
        """
        if self.clients is not None:
            return _mask(self.clients, total)
        rng = Stream(self.seed, 0, "byzantine").rng()
        known = np.zeros(total, np.int64) if true_clusters is None or self.spread == "random" else true_clusters
        order = rng.permutation(total)
        chosen: list[int] = []
        for cluster in np.unique(known):
            members = order[known[order] == cluster]
            upto = round(
                self.share * np.count_nonzero(known <= cluster)
            )  # of all clusters so far, so that shares add up
            chosen += members[: upto - len(chosen)].tolist()
        return _mask(chosen, total)

    def replies(
        self,
        updates: Float[np.ndarray, "n p"],
        index: Int[np.ndarray, "n"],
        attacks: Bool[np.ndarray, "n"],
        rng: np.random.Generator | None = None,
    ) -> Float[np.ndarray, "n p"]:
        """What arrives: the honest updates as they are, the attackers' as the attack has it.

        Args:
            updates: of all rows.
            index: the model that each row trained.
            attacks: whose rows are changed.
            rng: of noise.
        """
        sent = updates.copy()
        if self.attack in OWN:
            sent[attacks] *= OWN[self.attack]
        if self.attack in (*OWN, LABELS, BACKDOOR, NOTHING):  # what is in the data is in the update
            return sent
        if self.attack == NOT_FINITE:
            sent[attacks] = np.nan
            return sent
        for k in np.unique(index[attacks]):
            theirs, honest = (index == k) & attacks, updates[(index == k) & ~attacks].astype(np.float64)
            if self.attack == REPLACEMENT:
                sent[theirs] *= (len(honest) + theirs.sum()) / theirs.sum()
            elif len(honest) >= (2 if self.attack in _PAIRS else 1):  # else nobody to imitate: they stay honest
                sent[theirs] = self._rows(honest, int(theirs.sum()), rng)
        return sent

    def _rows(
        self, honest: Float64[np.ndarray, "h p"], count: int, rng: np.random.Generator | None
    ) -> Float64[np.ndarray, "..."]:
        """The attackers' rows, or one for all of them."""
        if self.attack == NOISE:
            return gaussian(honest, count, rng or np.random.default_rng(0))
        if self.attack in OPTIMAL:
            f = min(count, len(honest) - 1)  # of more the rule would not hear
            return optimal(honest, OPTIMAL[self.attack], self.against, f)
        return ATTACKS[self.attack](honest)

    def disguised(
        self,
        updates: Float[np.ndarray, "n p"],
        index: Int[np.ndarray, "n"],
        attacks: Bool[np.ndarray, "n"],
        kinds: Int[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n p"]:
        """What arrives before they attack.

        Args:
            updates, index, attacks: as of ``replies``.
            kinds: true cluster of each row's client.
        """
        sent = updates.copy()
        if self.disguise == NOTHING:
            return sent
        for k in np.unique(index[attacks]):
            own = (index == k) & ~attacks
            honest = Honest(updates[own].astype(np.float64), kinds[own])
            for kind in np.intersect1d(kinds[(index == k) & attacks], honest.kinds):
                theirs = (index == k) & attacks & (kinds == kind)
                sent[theirs] = DISGUISES[self.disguise](honest, int(kind), int(theirs.sum()))
        return sent


def _check_positions(clients: Any) -> None:
    """Refuse (ConfigError) attackers that are no positions, such as names."""
    if clients is None:
        return
    for client in clients if isinstance(clients, (tuple, list)) else [None]:
        if isinstance(client, bool) or not isinstance(client, int):
            given = clients if client is None else client
            raise ConfigError(
                "attack.clients: expected positions of clients, whole numbers from 0 in a tuple or list such as "
                f'(0, 3); got {given!r}. The position of the client "a" is data.client_names.index("a")'
            )


def _mask(clients: Sequence[int], total: int) -> Bool[np.ndarray, "N"]:
    mask = np.zeros(total, bool)
    for client in clients:
        if not 0 <= client < total:
            raise ConfigError(
                f"attack.clients: there is no client at position {client}; positions are 0 to {total - 1}, "
                "whatever the names of clients are (data.client_names.index(name) is the position of one)"
            )
        mask[client] = True
    return mask
