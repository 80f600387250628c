"""The settings of secret sums in a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedkin.core.errors import ConfigError
from fedkin.core.validation import (
    check_choice,
    check_not_negative,
    check_positive,
    check_positive_integer,
)
from fedkin.secret.client import LEAST
from fedkin.secret.neighbours import ring_size
from fedkin.secret.quantization import IntegerGrid
from fedkin.security.secret_keys import check_installed

# With usual models and learning rates, most numbers of an update are between these two values in
# size.
_SMALL_UPDATE = 1e-5
_LARGE_UPDATE = 1e-3


@dataclass(frozen=True)
class SecretSettings:
    """The settings of secret sums. ``SecretSums`` describes each setting."""

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
                f"secret.least = {self.least}: a sum of one update is that update, and from a sum "
                f"of two updates each client can compute the other's update; set {LEAST} or more"
            )
        if not self.dropout < 1:
            raise ConfigError(f"secret.dropout = {self.dropout:g}: set a share below 1")

    @property
    def least_is_checked(self) -> bool:
        """Whether each client has enough neighbours to check that ``least`` clients take part."""
        return ring_size(self.neighbours) >= self.least

    def warnings(self, clients: int) -> list[str]:
        """A warning if ``limit`` would keep models from learning, with advice; empty if not.

        Updates are sent as integers. With a large limit these are too coarse for small numbers;
        with a small limit, nearly all numbers are clipped.

        Args:
            clients: largest number of clients in a sum.
        """
        grid = IntegerGrid(clients, self.limit, self.examples_cap)
        default = SecretSettings().limit
        # Rounding is unbiased, so its error averages out over clients.
        rounding_of_mean = grid.resolution / math.sqrt(clients)
        cure = f"set it near the largest number of an update, such as secret.limit={default:g}"
        if rounding_of_mean > _SMALL_UPDATE:
            step = f"{grid.resolution:.2g} (limit / (2^{grid.bits - 1} - 1))"
            return [
                f"secret.limit = {self.limit:g}: with {clients} clients in a sum, numbers of "
                f"updates are rounded to multiples of {step}. Many numbers are smaller, so "
                f"models learn little or nothing: {cure}"
            ]
        if self.limit < _LARGE_UPDATE:
            return [
                f"secret.limit = {self.limit:g}: numbers of updates are clipped to at most "
                f"{self.limit:g}. Most are larger, so models learn little or nothing: {cure}"
            ]
        return []
