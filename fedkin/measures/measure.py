"""The class ``Measure``: a metric of a run with its name, headings and unit, and whether higher or
lower values are better.

Shapes: c scored clients.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.method import State
from fedkin.measures.number_texts import (
    DIGITS,
    LABEL,
    NO_NUMBER,
    decimals,
    number_text,
    unit_mark,
)

UNITS = tuple(DIGITS)
DIRECTIONS = ("higher", "lower", "neither")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


@dataclass(frozen=True, eq=False)
class ScoredClients:
    """The input of a measure: the clients that were scored (evaluated) after a round, each with its
    cluster's model.

    Clients without samples, and clients that did not reply, are excluded.

    Attributes:
        round: the round's number.
        clients: ids of the scored clients.
        cluster: cluster of each client.
        examples: number of scored samples of each client, at least 1.
        correct: number of correctly classified samples of each client; 0 if labels are numbers.
        accuracy: correct / examples of each client; for numbers, the first measure of the task
            type, such as the root mean squared error.
        loss: mean loss of each client's samples.
        state: the method's state after the round.

    Examples:
        >>> import fedkin as fk
        >>> def spread(scored: fk.ScoredClients) -> float:
        ...     return scored.accuracy.max() - scored.accuracy.min()
        >>> fk.Measure("spread", of=spread, unit="share").name
        'spread'
    """

    round: int
    clients: Int[np.ndarray, "c"]
    cluster: Int[np.ndarray, "c"]
    examples: Int[np.ndarray, "c"]
    correct: Int[np.ndarray, "c"]
    accuracy: Float[np.ndarray, "c"]
    loss: Float[np.ndarray, "c"]
    state: State


@dataclass(frozen=True)
class Measure:
    """A metric of a run: its names, its number format, and whether higher or lower values are
    better.

    Args:
        name: the name in records, summaries and tables: lower-case letters, digits and underscores.
        of: function from ``ScoredClients`` to the value; NaN if undefined. None: fedkin computes
            the measure.
        title: the meaning in a few words; default: the name.
        head: column heading; default: the title.
        short: short column heading for narrow tables.
        unit: ``share`` (0.5 is printed as 50.0%), ``index`` (0.52), ``number``, ``label`` (a
            number in units of the label), ``count``, ``rounds``, ``bytes`` or ``seconds``.
        digits: number of decimal places, or of significant digits if the unit is ``label``;
            default: by unit.
        direction: whether ``higher`` or ``lower`` is better, or ``neither``.
        by: the word that selects this measure in ``fedkin compare --by``; default: the name.
        label: heading that is clear outside of a table.
        phrase: name in a sentence; ``{split}`` is replaced by the scored split.
        column: name in records; default: the name.
        moment: whether the value of a whole run comes from its ``last`` or from its ``best`` round.
        over_all: name of a measure of the same quantity over all clients. A run is compared by that
            measure if this one leaves out clients that had no cluster or were absent.
        kept: where the measure is stored: in the record of a ``round``, in the summary of a
            ``run``, or in ``both``. A measure of a ``comparison`` needs runs of several methods,
            and is in the tables of comparisons only.

    Raises:
        ConfigError: the name, unit or direction is invalid.

    Examples:
        >>> import fedkin as fk
        >>> worst = fk.Measure("worst", of=lambda scored: scored.accuracy.min(), unit="share")
        >>> worst.title, worst.direction
        ('worst', 'higher')
    """

    name: str
    of: Callable[[ScoredClients], float] | None = None
    title: str = ""
    head: str = ""
    short: str = ""
    unit: str = "number"
    digits: int | None = None
    direction: str = "higher"
    by: str = ""
    label: str = ""
    phrase: str = ""
    column: str = ""
    moment: Literal["last", "best"] = "last"
    over_all: str = ""
    kept: Literal["round", "run", "both", "comparison"] = "both"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            expected = "1 to 60 lower-case letters, digits and underscores, beginning with a letter"
            raise ConfigError(f"measure {self.name!r}: the name must have {expected}")
        if self.of is not None and not callable(self.of):
            raise ConfigError(
                f"measure {self.name}: the argument of= must be a function of ScoredClients, got "
                f"{self.of!r:.80}"
            )
        if self.unit not in UNITS:
            raise ConfigError(f"measure {self.name}: {unknown('unit', str(self.unit), UNITS)}")
        if self.direction not in DIRECTIONS:
            raise ConfigError(
                f"measure {self.name}: {unknown('direction', str(self.direction), DIRECTIONS)}"
            )
        self._fill("title", self.name.replace("_", " "))
        self._fill("head", self.title)
        self._fill("label", self.head)
        self._fill("phrase", self.title)
        self._fill("by", self.name)
        self._fill("column", self.name)
        self._fill("digits", DIGITS[self.unit])

    @property
    def highest(self) -> float:
        """The highest possible value: 1 for a share, and for an index of which a higher value is
        better, such as R2; otherwise infinite."""
        bounded = self.unit == "share" or (self.unit == "index" and self.direction == "higher")
        return 1.0 if bounded else math.inf

    def _fill(self, field: str, default: str | int) -> None:
        """Set a field of the measure to this default if the user did not give it."""
        if getattr(self, field) in ("", None):
            object.__setattr__(self, field, default)

    @property
    def narrow(self) -> str:
        """The column heading for a narrow table."""
        return self.short or self.head

    @property
    def heading(self) -> str:
        """The heading for a chart, with a capital first letter."""
        return self.head[:1].upper() + self.head[1:]

    @property
    def head_with_unit(self) -> str:
        """The column heading with the unit: ``final (%)``."""
        mark = unit_mark(self.unit)
        return f"{self.head} ({mark})" if mark else self.head

    @property
    def sign(self) -> int:
        """1 if higher values are better, -1 if lower values are better. Multiplying by it makes
        higher always better."""
        return -1 if self.direction == "lower" else 1

    @property
    def worst_word(self) -> str:
        """The adjective of the worst values: ``lowest``, or ``highest`` for an error."""
        return "highest" if self.direction == "lower" else "lowest"

    @property
    def best_word(self) -> str:
        """The adjective of the best values: ``highest``, or ``lowest`` for an error."""
        return "lowest" if self.direction == "lower" else "highest"

    def better(self, value: float | int, other: float | int) -> bool:
        """Whether ``value`` is better than ``other``."""
        return self.sign * value > self.sign * other

    def text(self, value: float | int | None) -> str:
        """A value as text without its unit, which is in the column heading; a dash for None."""
        if value is None:
            return NO_NUMBER
        return number_text(value, self.unit, self.digits)

    def text_with_unit(self, value: float | int | None) -> str:
        """A value as text with its unit: ``81.2%``, ``0.52``, ``3.1 MB``; a dash for None."""
        return self.mean_with_unit(value, None)

    def mean_with_unit(self, value: float | int | None, high: float | int | None) -> str:
        """A mean as text with its unit, and with half of its interval if there is one:
        ``81.2 ± 0.6%``.

        Args:
            value: the mean.
            high: upper bound of the interval; None without an interval.
        """
        if value is None:
            return NO_NUMBER
        mark = unit_mark(self.unit)
        space = "" if mark in ("", "%") else " "
        return f"{self.text_with_half(value, high)}{space}{mark}"

    def gain_text(self, difference: float | int) -> str:
        """A difference of two values as text, with its sign: ``+1.2`` for shares (in percentage
        points), ``-0.031`` for numbers. In units of the label it has a digit less than a value.
        """
        digits = self.digits
        if self.unit == LABEL and digits is not None:
            digits = max(1, digits - 1)
        return number_text(difference, self.unit, digits, signed=True)

    def end_text(self, difference: float | int) -> str:
        """A bound of the interval of a difference as text; in units of the label, as ``gain_text``
        writes it."""
        return self.gain_text(difference) if self.unit == LABEL else self.text(difference)

    @property
    def points(self) -> str:
        """The unit that follows a difference of two values: `` points`` (percentage points) for
        shares, empty for other units."""
        return " points" if self.unit == "share" else ""

    def text_with_half(self, value: float | int | None, high: float | int | None) -> str:
        """A mean as text, with half of its interval if there is one: ``81.2 ± 0.6``; a dash for
        None.

        Args:
            value: the mean.
            high: upper bound of the interval; None without an interval.
        """
        if value is None or high is None:
            return self.text(value)
        half = high - value
        if self.unit == LABEL:
            # Both numbers have the decimal places of the mean.
            places = decimals(value, self.unit, self.digits)
            return f"{self.text(value)} ± {number_text(half, 'number', places)}"
        return f"{self.text(value)} ± {self.text(half)}"

    def compute(self, scored: ScoredClients) -> float | None:
        """Compute the measure's value after a round; None for NaN.

        Raises:
            ConfigError: the measure's function raises an error, or does not return one number that
                is finite or NaN.
        """
        assert self.of is not None
        place = f"run.measures: {self.name} in round {scored.round}"
        try:
            value = self.of(scored)
        # A user's function may raise any exception.
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"{place} raised {type(error).__name__}: {reason}") from error
        number = _number(value)
        if number is None or math.isinf(number):
            shown = " ".join(repr(value).split())
            raise ConfigError(f"{place} returned {shown:.80}; expected one number, finite or NaN")
        return None if math.isnan(number) else number


def _number(value: Any) -> float | None:
    """The value that a measure's function returned, as a float; None if it is not one number."""
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        return float(value)
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "iufb":
        return float(value)
    return None
