"""Secret sums as a run has them: the settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.validation import check_choice, check_not_negative, check_positive, check_positive_integer
from fedkin.secret.client import LEAST
from fedkin.secret.neighbours import ring_size
from fedkin.secret.quantization import Grid
from fedkin.security.secret_keys import check_installed

# Of usual models and learning rates most numbers of an update are between these two.
_SMALL_UPDATE = 1e-5
_LARGE_UPDATE = 1e-3


@plain_options
@dataclass(frozen=True)
class SecretSums:
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
