"""The length of a step of a series, such as a month, and its words in options and messages."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError

MONTHS = "months"
SECONDS = "seconds"
STEPS = "steps"
DAY = 86400
# Usual numbers of steps in a season, by the length of a step.
_SEASONS = {
    (MONTHS, 1): 12,
    (MONTHS, 3): 4,
    (SECONDS, 7 * DAY): 52,
    (SECONDS, DAY): 7,
    (SECONDS, 3600): 24,
    (SECONDS, 1800): 48,
    (SECONDS, 900): 96,
}
_NAMES = {
    (MONTHS, 1): "month",
    (MONTHS, 3): "quarter",
    (MONTHS, 12): "year",
    (SECONDS, 7 * DAY): "week",
    (SECONDS, DAY): "day",
    (SECONDS, 3600): "hour",
    (STEPS, 1): "step",
}
# A number of units, such as "month", "2 weeks" or "15 minutes".
_WORDS = re.compile(r"(?:([1-9]\d{0,8}) )?([a-z]+?)s?")
_UNITS = {
    "step": (STEPS, 1),
    "second": (SECONDS, 1),
    "minute": (SECONDS, 60),
    "hour": (SECONDS, 3600),
    "day": (SECONDS, DAY),
    "week": (SECONDS, 7 * DAY),
    "month": (MONTHS, 1),
    "quarter": (MONTHS, 3),
    "year": (MONTHS, 12),
}
QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])")
_EPOCH = np.datetime64(0, "s")


@dataclass(frozen=True)
class Frequency:
    """The length of a step.

    Attributes:
        unit: ``months``, ``seconds`` or ``steps``.
        every: number of these units in a step.
    """

    unit: str
    every: int

    @classmethod
    def of(cls, given: Any) -> Frequency:
        """The length of a step from its words, such as ``month``, ``2 weeks`` or ``15 minutes``.

        Raises:
            ConfigError: the words are no length of a step.
        """
        match = _WORDS.fullmatch(given) if isinstance(given, str) else None
        if match is None or match[2] not in _UNITS:
            raise ConfigError(
                f"frequency must be one of {', '.join(_UNITS)}, or a number of these such as "
                f"'2 weeks'; got {given!r}"
            )
        unit, every = _UNITS[match[2]]
        return cls(unit, every * int(match[1] or 1))

    @property
    def season(self) -> int:
        """The usual number of steps in a season; 1 if there is none."""
        return _SEASONS.get((self.unit, self.every), 1)

    def __str__(self) -> str:
        name = _NAMES.get((self.unit, self.every))
        if name is not None:
            return f"one {name}"
        if self.unit == SECONDS and self.every % DAY == 0:
            return f"{self.every // DAY} days"
        return f"{self.every} {self.unit}"

    def text(self, step: int) -> str:
        """A step as a date."""
        if self.unit == STEPS:
            return str(step * self.every)
        if self.unit == MONTHS:
            year, month = divmod(step * self.every, 12)
            return f"{year}-{month + 1:02d}"
        moment = _EPOCH + np.timedelta64(int(step) * self.every, "s")
        return str(moment.astype("datetime64[D]") if self.every % DAY == 0 else moment)

    def moment_of(self, date: Any, option: str) -> int:
        """A date, such as ``2018-01``, as ``TimeSteps.moment`` has it, without its time zone.

        Args:
            date: the date, or a number of the table's count.
            option: name of the option, for messages.

        Raises:
            ConfigError: the date cannot be read.
        """
        try:
            if self.unit == STEPS:
                return math.ceil(float(date))
            return math.ceil(_first_moment(str(date)).timestamp())
        except (ValueError, TypeError, OverflowError):
            example = "120" if self.unit == STEPS else "2018-01-01"
            raise ConfigError(
                f"{option} must be a date or a step of the table's time, such as {option} = "
                f"{example!r}; got {date!r}"
            ) from None

    def date_text(self, date: Any, option: str) -> str:
        """A date in the one form that all ways to write it share, such as ``2018-01-01`` for
        ``2018-01`` and for ``2018 Q1``. Arguments and errors are those of ``moment_of``."""
        import pandas as pd

        moment = self.moment_of(date, option)
        if self.unit == STEPS:
            return str(moment)
        return pd.Timestamp(moment, unit="s").isoformat().removesuffix("T00:00:00")


def _first_moment(date: str) -> Any:
    """The first moment of a date, a month, a quarter or a year. Raises ValueError for other
    text."""
    import pandas as pd

    if QUARTER.fullmatch(date):
        period: Any = pd.Period(re.sub("[- ]", "", date), freq="Q")
        return period.to_timestamp()
    return pd.Timestamp(date).tz_localize(None)
