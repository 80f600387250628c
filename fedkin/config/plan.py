"""How long a run is, with how many clients, and how often one looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedkin.core.errors import ConfigError

SELECTIONS = ("uniform", "round_robin")


@dataclass(frozen=True)
class Plan:
    """How long, with how many clients, from which seed, and how often to look.

    ``selection`` says how cohorts are drawn: ``uniform`` (without replacement), or ``round_robin`` (all N clients take
    turns once, in the order of ids, and uniform from then on, as FlexCFL's code does, so that clients that are there
    from the start are soon placed). The last round is always scored and kept, whatever ``evaluate_every`` and
    ``checkpoint_every`` say.
    """

    rounds: int
    cohort: int
    seed: int = 0
    evaluate_every: int = 1
    checkpoint_every: int = 10
    selection: str = "uniform"

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("cohort", 1), ("evaluate_every", 0), ("checkpoint_every", 1), ("seed", 0)):
            whole_number(f"run.{name}", getattr(self, name), least)
        if self.selection not in SELECTIONS:
            raise ConfigError(f"run.selection must be one of {', '.join(SELECTIONS)}, got {self.selection!r}")

    def scores(self, round: int) -> bool:
        return round == self.rounds or (self.evaluate_every > 0 and round % self.evaluate_every == 0)

    def keeps(self, round: int) -> bool:
        return round % self.checkpoint_every == 0 or round == self.rounds


def whole_number(name: str, value: object, least: int) -> None:
    """Refuse anything but an integer that is large enough (ConfigError)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, got {value!r}")
