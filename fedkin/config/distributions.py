"""Distributions of options for random search, written as values: ``log(0.01, 0.3)``.

``DISTRIBUTIONS`` lists them. To add one with two bounds, write its class, and add it to
``Distribution`` and ``DISTRIBUTIONS``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedkin.config.value_texts import parse_values
from fedkin.core.errors import ConfigError, unknown

DIGITS = 4  # significant digits of drawn numbers, so that tables show them without rounding
_FORM = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_CUT = re.compile(r"\s*([A-Za-z_]+)\s*\(([^()]*)")  # the same without its closing bracket


@dataclass(frozen=True)
class Log:
    """Numbers whose logarithm is uniformly distributed."""

    low: float
    high: float

    example: ClassVar[str] = "log(0.01, 0.3)"

    @property
    def text(self) -> str:
        """The distribution as it is written in a value."""
        return f"log({self.low:g}, {self.high:g})"

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one number."""
        return _within(math.exp(rng.uniform(math.log(self.low), math.log(self.high))), self)


@dataclass(frozen=True)
class Uniform:
    """Uniformly distributed numbers."""

    low: float
    high: float

    example: ClassVar[str] = "uniform(0.1, 0.9)"

    @property
    def text(self) -> str:
        """The distribution as it is written in a value."""
        return f"uniform({self.low:g}, {self.high:g})"

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one number."""
        return _within(float(rng.uniform(self.low, self.high)), self)


@dataclass(frozen=True)
class Integers:
    """Uniformly distributed integers; both bounds are included."""

    low: int
    high: int

    example: ClassVar[str] = "int(2, 5)"

    @property
    def text(self) -> str:
        """The distribution as it is written in a value."""
        return f"int({self.low}, {self.high})"

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one integer."""
        return int(rng.integers(self.low, self.high, endpoint=True))


@dataclass(frozen=True)
class RandomChoice:
    """Values of a list, each with the same probability."""

    values: tuple[Any, ...]

    example: ClassVar[str] = "choice(16, 32, 64)"

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one value."""
        return self.values[int(rng.integers(len(self.values)))]


Distribution = Log | Uniform | Integers | RandomChoice
DISTRIBUTIONS = {"log": Log, "uniform": Uniform, "int": Integers, "choice": RandomChoice}


def from_value(value: Any, place: str) -> Distribution | None:
    """The distribution that a text such as ``log(0.01, 0.3)`` describes; None for other values.

    Args:
        value: the value of an option.
        place: where the value was read, for messages.

    Raises:
        ConfigError: the distribution is unknown, or its bounds are invalid.
    """
    if not isinstance(value, str):
        return None
    where = f"{place}: {value.strip()}"
    cut = _CUT.fullmatch(value)
    if cut is not None and cut[1] in DISTRIBUTIONS:
        right = DISTRIBUTIONS[cut[1]].example
        raise ConfigError(f"{where}: the closing bracket is missing, as in {right}")
    match = _FORM.fullmatch(value)
    if match is None:
        return None
    name, arguments = match.groups()
    if name not in DISTRIBUTIONS:
        raise ConfigError(
            f"{where}: {unknown('distribution', name, DISTRIBUTIONS)}; for example {Log.example}"
        )
    values = parse_values(arguments)
    if name == "choice":
        return _choice(values, where)
    return _range(name, values, where)


def is_distribution(value: Any) -> bool:
    """Whether a value of an option is a text of the form of a distribution, such as
    ``log(0.01, 0.3)``: the name of a known one, or any name with two numbers. The closing bracket
    may be missing, so that ``from_value`` can say so."""
    if not isinstance(value, str):
        return False
    match = _FORM.fullmatch(value) or _CUT.fullmatch(value)
    if match is None:
        return False
    numbers = [_is_number(argument) for argument in parse_values(match[2])]
    return match[1] in DISTRIBUTIONS or numbers == [True, True]


def draws(distribution: Distribution, key: str, count: int, seed: int) -> list[Any]:
    """Draw values of an option for all trials of a random search.

    Each option has a separate stream of random numbers. So its values do not depend on the other
    options, and more trials begin with the same values.

    Args:
        distribution: the distribution.
        key: the option, ``section.key``.
        count: number of trials.
        seed: seed of the search.
    """
    digest = hashlib.sha256(key.encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])
    return [distribution.draw(rng) for _ in range(count)]


def _choice(values: list[Any], where: str) -> RandomChoice:
    """The distribution over a list of values. Raises ConfigError for an empty list, or if a value
    occurs twice."""
    known = [json.dumps(value, default=str) for value in values]
    if len(set(known)) < 2 or len(set(known)) < len(known):
        raise ConfigError(
            f"{where}: expected two or more different values, as in {RandomChoice.example}"
        )
    return RandomChoice(tuple(values))


def _range(name: str, values: list[Any], where: str) -> Distribution:
    """A distribution with two bounds. Raises ConfigError if the bounds are invalid."""
    kind = DISTRIBUTIONS[name]
    numbers = [value for value in values if _is_number(value)]
    if len(values) != 2 or len(numbers) != 2:
        raise ConfigError(f"{where}: expected two numbers, as in {kind.example}")
    low, high = numbers
    if name == "int" and not all(isinstance(bound, int) for bound in (low, high)):
        right = f"int({math.floor(low)}, {max(math.ceil(high), math.floor(low) + 1)})"
        raise ConfigError(f"{where}: the bounds of int must be integers, as in {right}")
    if low >= high:
        right = kind.example if low == high else f"{name}({high}, {low})"
        if name == "log" and high <= 0:
            right = kind.example
        raise ConfigError(f"{where}: the first bound must be below the second, as in {right}")
    if name == "log" and low <= 0:
        right = f"log({high / 1000:g}, {high})" if high > 0 else kind.example
        raise ConfigError(f"{where}: the bounds of log must be above 0, as in {right}")
    return kind(low, high) if kind is Integers else kind(float(low), float(high))


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _within(value: float, bounds: Log | Uniform) -> float:
    """A drawn number, rounded to DIGITS significant digits and kept within its bounds."""
    rounded = float(f"{value:.{DIGITS}g}")
    return min(max(rounded, bounds.low), bounds.high)
