"""What goes with any method: a server optimiser, a part of each client's own, privacy of clients, a robust rule, late
replies, secret sums, and clients that attack."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.layout import ModelSpec
from fedkin.core.method import Method, State
from fedkin.core.requirements import requirements_of
from fedkin.methods import personal_parts, server_optimized
from fedkin.methods.personal_parts import PersonalPart
from fedkin.methods.personalized import MARKS, Personalized, with_personal
from fedkin.methods.server_optimized import MOMENTS, ServerOptimized, with_moments
from fedkin.methods.server_optimizers import ServerOptimizer
from fedkin.privacy import private, secret_sums
from fedkin.privacy.client_dp import ClientDP
from fedkin.privacy.secret_settings import SecretSums
from fedkin.robust import robust
from fedkin.robust.attacked_world import Attacked
from fedkin.robust.byzantine import Byzantine
from fedkin.robust.robust import JUDGED, Robust, RobustAggregation, with_judged
from fedkin.robust.splitting import SPLIT
from fedkin.robust.update_memory import REMEMBERED
from fedkin.staleness import late_replies
from fedkin.staleness.late_replies import LATE, Late, with_late
from fedkin.staleness.settings import LateReplies


@dataclass(frozen=True)
class MethodOptions:
    """Options of all methods of a run; None: without.

    Attributes:
        server_optimizer: takes mean updates for gradients.
        personal: what is each client's own.
        privacy: clips and noise of the sums that are released.
        robust: a rule in place of the mean.
        attack: clients that send other updates than they have computed.
        late: what replies that come after their round count for.
        secret: that the server sees sums of updates only.
    """

    server_optimizer: ServerOptimizer | None = None
    personal: PersonalPart | None = None
    privacy: ClientDP | None = None
    robust: RobustAggregation | None = None
    attack: Byzantine | None = None
    late: LateReplies | None = None
    secret: SecretSums | None = None

    def refusal(self, method: Method, spec: ModelSpec) -> tuple[str, str] | None:
        """The option that does not go with a method and a model, and why; None where both do."""
        if self.server_optimizer is not None and (why := server_optimized.refusal(method)):
            return "server_optimizer", why
        if self.privacy is not None and (why := self._private_refusal(method)):
            return "privacy", why
        if self.robust is not None and (why := self._robust_refusal(method)):
            return "robust", why
        if self.late is not None and (why := self._late_refusal(method)):
            return "late", why
        if self.secret is not None and (why := self._secret_refusal(method)):
            return "secret", why
        if self.attack is not None and requirements_of(method).peers:
            return "attack", f"{type(method).__name__} has no server; attacks between peers are not simulated"
        if self.personal is None:
            return None
        why = personal_parts.refusal(method, self.personal)
        if why is None and self.personal.head:
            why = personal_parts.head_refusal(method, spec)
        return ("personal", why) if why else None

    def _private_refusal(self, method: Method) -> str | None:
        """Why privacy does not go with a method; None where it does, or where the user takes what it costs."""
        assert self.privacy is not None
        if self.personal is not None and self.personal.head:
            return "personal heads send sums of bodies, which are not noised; take personal models (ditto), or none"
        return private.refusal(method, self.privacy.uncharged)

    def _robust_refusal(self, method: Method) -> str | None:
        """Why a robust rule does not go with a method or with another option; None where it does."""
        if self.privacy is not None:
            return "a rule reads single updates, and privacy releases noisy sums only; take one of the two"
        if self.personal is not None and self.personal.head:
            return "personal heads send sums of bodies besides; take personal models (ditto), or none"
        assert self.robust is not None
        if self.robust.split_after and self.server_optimizer is not None:
            return "a server optimizer has moments of each cluster, which no split has; leave out robust.split_after"
        return robust.refusal(method) or (robust.split_refusal(method) if self.robust.split_after else None)

    def _late_refusal(self, method: Method) -> str | None:
        """Why late replies do not go with a method or with another option; None where they do."""
        if self.privacy is not None:
            return (
                "a late reply would count in two rounds' sums, and privacy counts each client once; take one of the two"
            )
        if self.robust is not None:
            return "a robust rule compares replies of one round; take one of the two"
        return late_replies.refusal(method)

    def _secret_refusal(self, method: Method) -> str | None:
        """Why secret sums do not go with a method or with another option; None where they do."""
        assert self.secret is not None
        if self.privacy is not None and self.privacy.adaptive:
            return "a clip that follows the median norm needs the norms of single updates; leave out privacy.adaptive"
        if self.privacy is not None and self.privacy.scores is not None:
            return "the server would add the noise to scores that it sees one by one; leave out privacy.scores"
        if self.privacy is not None and not self.secret.least_is_checked:
            return (
                f"with privacy each client checks that {self.secret.least} add noise, and sees its neighbours only: "
                f"set secret.neighbours={self.secret.least} or more"
            )
        if self.robust is not None:
            return "a robust rule needs single updates, and secret sums show sums only; take one of the two"
        if self.late is not None:
            return "a masked reply that comes late fits into no other round's sum; take one of the two"
        if self.attack is not None:
            return "a simulated attack changes single updates, which are masked; take one of the two"
        if self.personal is not None and self.personal.head:
            return (
                "personal heads send sums of bodies, which have no masked form; take personal models (ditto), or none"
            )
        return secret_sums.refusal(method, self.secret)

    def named(self, total: int, true_clusters: Int[np.ndarray, "N"] | None) -> MethodOptions:
        """The same, with attackers by their numbers: data that shift change none of them.

        Args:
            total: N.
            true_clusters: of the clients at the start.
        """
        if self.attack is None:
            return self
        clients = np.flatnonzero(self.attack.attackers(total, true_clusters)).tolist()
        return replace(self, attack=replace(self.attack, clients=tuple(clients)))

    def applied(self, method: Method) -> Method:
        """The method with these options."""
        own: Any = method if self.personal is None else Personalized(method, self.personal)
        own = own if self.server_optimizer is None else ServerOptimized(own, self.server_optimizer)
        own = own if self.robust is None else Robust(own, self.robust)
        own = own if self.late is None else Late(own, self.late)
        return own if self.attack is None else Attacked(own, self.attack)


NO_OPTIONS = MethodOptions()
OPTION_ARRAYS = frozenset((*MOMENTS, *MARKS, *JUDGED, *REMEMBERED, *SPLIT, *LATE))  # what options add to a state

_EXPECTED = {
    "server_optimizer": (ServerOptimizer, "an optimizer, such as fk.FedAdam()"),
    "personal": (PersonalPart, "a part of each client's own, such as fk.PersonalHead()"),
    "privacy": (ClientDP, "a value, such as fk.ClientDP(epsilon=2, delta=1e-4)"),
    "robust": (RobustAggregation, "a value, such as fk.RobustAggregation('median')"),
    "attack": (Byzantine, "a value, such as fk.Byzantine('alie', share=0.3)"),
    "late": (LateReplies, "a value, such as fk.LateReplies(max_age=2)"),
    "secret": (SecretSums, "a value, such as fk.SecretSums(least=5)"),
}

# The class of each option.
OPTION_KINDS: dict[str, type] = {name: kind for name, (kind, _) in _EXPECTED.items()}


def checked_options(*options: Any) -> MethodOptions:
    """Options of simulated methods, in their order, or None for those that are left out. Raises ConfigError for others,
    and for keys that simulated clients cannot sign."""
    for option, (name, (kind, expected)) in zip(options, _EXPECTED.items(), strict=True):
        if isinstance(option, type) or not isinstance(option, kind | None):
            raise ConfigError(f"{name} must be {expected}, got {option!r}")
    made = MethodOptions(*options)
    if made.secret is not None and made.secret.signed:
        raise ConfigError("secret.signed: simulated clients have no certificates to sign with; leave it out")
    return made


def with_options(kind: type[State], arrays: Collection[str]) -> type[State]:
    """The type of a method's states that have these arrays of options besides, in the order of ``applied``."""
    for mark in MARKS:
        kind = with_personal(kind, mark) if mark in arrays else kind
    kind = with_moments(kind) if set(MOMENTS) & set(arrays) else kind
    if set(JUDGED) & set(arrays):
        kind = with_judged(kind, bool(set(REMEMBERED) & set(arrays)), bool(set(SPLIT) & set(arrays)))
    return with_late(kind) if set(LATE) & set(arrays) else kind
