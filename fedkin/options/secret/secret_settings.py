"""Secret sums as a run has them: the settings."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.validation import check_choice, check_not_negative, check_positive, check_positive_integer
from fedkin.options.base import ActiveOption, Option, RunFacts
from fedkin.secret.client import LEAST
from fedkin.secret.neighbours import ring_size
from fedkin.secret.quantization import Grid
from fedkin.security.secret_keys import check_installed

_log = logging.getLogger("fedkin")

# Of usual models and learning rates most numbers of an update are between these two.
_SMALL_UPDATE = 1e-5
_LARGE_UPDATE = 1e-3


@plain_options
@dataclass(frozen=True)
class SecretSums(Option):
    """A server that follows the protocol learns sums of each cluster's updates, and no update: clients add masks that
    cancel in the sum.

    Attributes:
        least: clients; a sum of fewer is refused, and the cluster keeps its model in that round. At least 3. Each
            client checks that so many of its neighbours and itself are there, where it has so many.
        neighbours: with how many others each client masks: all where there are no more.
        limit: the largest size of a number of an update; a client clips larger ones, and the number of such clients is
            reported.
        examples_cap: a client weighs its training examples, at most this number; 1: all weigh the same.
        hide_choice: whether clusters are hidden too: all clients of a round add one vector over all clusters, which is
            as many times longer. Methods whose clients choose as they train (IFCA) need it.
        signed: whether sites sign their keys, so that the server cannot put its own in their place. Each site needs a
            certificate of an authority that is not the server.
        others: what becomes of client work that is no sum: it is refused, or sent in the clear, and reported.
        dropout: in a simulation, the share of clients that are lost before each of the four exchanges.
    """

    section = "secret"

    least: int = LEAST
    neighbours: int = 20
    limit: float = 8.0
    examples_cap: int = 1000
    hide_choice: bool = False
    signed: bool = False
    others: Literal["refuse", "clear"] = "refuse"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_installed()
        check_positive_integer("neighbours", self.neighbours)
        check_positive("limit", self.limit)
        check_positive_integer("examples_cap", self.examples_cap)
        check_choice("hide_choice", self.hide_choice, (True, False))
        check_choice("signed", self.signed, (True, False))
        check_choice("others", self.others, ("refuse", "clear"))
        check_not_negative("dropout", self.dropout)
        if self.least < LEAST:
            raise ConfigError(
                f"secret.least = {self.least}: a sum of one is its update, and of two either's; {LEAST} or more"
            )
        if not self.dropout < 1:
            raise ConfigError(f"secret.dropout = {self.dropout:g}: expected a share below 1")

    def refusal(self, run: RunFacts) -> str:
        from fedkin.options.secret.secret_sums import refusal  # it imports this module

        return _refusal_beside(self, run.options) or refusal(run.method, self)

    def check(self, runs: Sequence[RunFacts]) -> None:
        """Refuse (ConfigError) settings with which no round has a sum, and those that privacy sets itself.

        A limit with which models would not learn is logged.
        """
        cohort = runs[0].plan.cohort
        if cohort < self.least:
            raise ConfigError(
                f"secret.least = {self.least}: cohorts of run.cohort = {cohort} are too small for such a sum: "
                "raise run.cohort"
            )
        if "privacy" not in runs[0].options:
            for warning in self.warnings(cohort):
                _log.warning("%s", warning)
            return
        for name, instead in (("limit", "clip"), ("examples_cap", "examples_cap")):
            if getattr(self, name) != getattr(SecretSums(), name):
                raise ConfigError(f"secret.{name} is of sums without privacy: set privacy.{instead}, and leave it out")

    def simulated(self, data: Any, shift: Any) -> tuple[Any, Any]:
        if self.signed:
            raise ConfigError("secret.signed: simulated clients have no certificates to sign with; leave it out")
        return data, shift

    def bind(self, run: RunFacts) -> ActiveOption:
        from fedkin.options.secret.secret_sums import active_secret_sums

        return active_secret_sums(self, run)

    @property
    def least_is_checked(self) -> bool:
        """Whether each client has so many neighbours that it can check ``least``."""
        return ring_size(self.neighbours) >= self.least

    def warnings(self, clients: int) -> list[str]:
        """Why ``limit`` would keep models from learning, and the cure; empty where it would not.

        Args:
            clients: most clients of a sum.
        """
        grid = Grid(clients, self.limit, self.examples_cap)
        default = SecretSums().limit
        rounding_of_mean = grid.resolution / math.sqrt(clients)  # rounding is unbiased, so more clients even it out
        cure = f"set it near the largest number of an update, such as secret.limit={default:g}"
        if rounding_of_mean > _SMALL_UPDATE:
            step = f"{grid.resolution:.2g} (limit / (2^{grid.bits - 1} - 1))"
            return [
                f"secret.limit = {self.limit:g}: with {clients} clients in a sum, numbers of updates are rounded to "
                f"multiples of {step}. Many are smaller than that, so models learn little or nothing: {cure}"
            ]
        if self.limit < _LARGE_UPDATE:
            return [
                f"secret.limit = {self.limit:g}: numbers of updates are cut to at most {self.limit:g}. Most are "
                f"larger, so models learn little or nothing: {cure}"
            ]
        return []


def _refusal_beside(settings: SecretSums, options: Mapping[str, Any]) -> str:
    """Why secret sums do not go with another option of the run; empty where they do."""
    privacy = options.get("privacy")
    if privacy is not None and privacy.adaptive:
        return "a clip that follows the median norm needs the norms of single updates; leave out privacy.adaptive"
    if privacy is not None and privacy.scores is not None:
        return "the server would add the noise to scores that it sees one by one; leave out privacy.scores"
    if privacy is not None and not settings.least_is_checked:
        return (
            f"with privacy each client checks that {settings.least} add noise, and sees its neighbours only: "
            f"set secret.neighbours={settings.least} or more"
        )
    if "robust" in options:
        return "a robust rule needs single updates, and secret sums show sums only; take one of the two"
    if "late" in options:
        return "a masked reply that comes late fits into no other round's sum; take one of the two"
    if "attack" in options:
        return "a simulated attack changes single updates, which are masked; take one of the two"
    personal = options.get("personal")
    if personal is not None and personal.head:
        return "personal heads send sums of bodies, which have no masked form; take personal models (ditto), or none"
    return ""
