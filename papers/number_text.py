"""The text of a number in a sentence: rounded, as a range, or "not run"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isnan, nan

NOT_RUN = "(not run)"


def format_number(value: float | int, form: str) -> str:
    """A number in a format of Python's; never a minus before zero."""
    if isnan(value):
        return NOT_RUN
    text = format(value, form)
    return text.removeprefix("-") if float(text) == 0 else text


def at_most_four_decimals(value: float | None) -> str:
    """A number for a file; empty for None."""
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")


def span(values: list[float], form: str) -> str:
    """The lowest and the highest; one number where they are written alike."""
    ends = [format_number(extreme(choose, values), form) for choose in (min, max)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def format_count(number: int, of: int | None = None) -> str:
    """A number of runs; "not run" if there are none."""
    return str(number) if (number if of is None else of) else NOT_RUN


def extreme(choose: Callable[..., float], values: Iterable[float]) -> float:
    """The least or largest value; NaN if one is NaN, or if there is none."""
    numbers = list(values)
    return choose(numbers) if numbers and not any(isnan(value) for value in numbers) else nan
