"""The difference of two mean losses over draws, with its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class LossGap(NamedTuple):
    """The loss of a rule minus the loss of another one, over draws.

    Attributes:
        mean: its mean.
        error: its standard error.
        draws: number of draws.
    """

    mean: float
    error: float
    draws: int

    @classmethod
    def of(cls, gaps: list[float]) -> LossGap:
        """The gap of these draws."""
        error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)))
        return cls(float(np.mean(gaps)), error, len(gaps))

    def __str__(self) -> str:
        place = "within" if abs(self.mean) <= 2 * self.error else "more than"
        return f"{self.mean:+.4f} ± {self.error:.4f} ({place} two standard errors)"
