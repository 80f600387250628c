"""How replies that come after their round are used."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.validation import check_not_negative, check_positive_integer


@plain_options
@dataclass(frozen=True)
class LateReplies:
    """What becomes of replies that come after their round.

    Attributes:
        max_age: rounds after which one is of no use; 0: at once.
        exponent: of (1 + age)^-exponent, by which an update is shortened; 0: not at all.
        share: of the replies that are late by a round or more; by a rounds or more, share^a.
        same: whether the same clients are late in every round; else each reply is drawn anew.
    """

    max_age: int = 1
    exponent: float = 0.5
    share: float = 0.0
    same: bool = False

    def __post_init__(self) -> None:
        if self.max_age != 0:
            check_positive_integer("max_age", self.max_age)
        check_not_negative("exponent", self.exponent)
        check_not_negative("share", self.share)
        if self.share >= 1:
            raise MethodError(f"share must be below 1, as nobody would ever reply in time, got {self.share:g}")

    def scale(self, age: Int[np.ndarray, "b"]) -> Float[np.ndarray, "b"]:
        """s(a)."""
        return (1.0 + age) ** -self.exponent

    def delays(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Int[np.ndarray, "n"]:
        """How many rounds late each client's reply is, in a simulation: at least a with probability share^a.

        Args:
            clients: ids.
            stream: of their work.
        """
        if not self.share:
            return np.zeros(len(clients), np.int64)
        own = Stream(stream.seed, 0 if self.same else stream.round, "late")
        chance = np.array([1 - own.client(int(c)).random() for c in clients])  # above 0
        return np.floor(np.log(chance) / math.log(self.share)).astype(np.int64)
