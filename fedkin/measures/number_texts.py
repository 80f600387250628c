"""Formatting of numbers as text, by unit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

NO_NUMBER = "-"
LABEL = "label"  # numbers in units of the label, which may have any size
_MOST_DECIMALS = 6  # of numbers in units of the label
_SMALL = 1e5  # bytes, 0.1 MB
_NUMBER = re.compile(r"[+\-\u2212<]? ?\.?\d")  # how the text of a number begins
# Number of decimal places by unit; of numbers in units of the label, of significant digits.
DIGITS = {
    "share": 1,
    "index": 2,
    "number": 3,
    LABEL: 4,
    "count": 0,
    "rounds": 1,
    "bytes": 1,
    "seconds": 1,
}
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
_MARKS = {"share": "%", "bytes": "MB"}


def unit_mark(unit: str) -> str:
    """The mark that is written after a number with this unit: ``%`` or ``MB``; empty for other
    units."""
    return _MARKS.get(unit, "")


def number_text(
    value: float | int,
    unit: str,
    digits: int | None = None,
    signed: bool = False,
    grouped: bool | None = None,
) -> str:
    """A number as text without its unit. Shares are in per cent, bytes in megabytes.

    Args:
        value: the number.
        unit: the number's unit.
        digits: number of decimal places; None: the unit's default.
        signed: whether to write a plus sign.
        grouped: whether to write thousands as 1,000; None: only for counts and numbers without a
            unit.
    """
    places = decimals(value, unit, digits)
    apart = unit in ("count", "number", LABEL) if grouped is None else grouped
    # The letter z writes a rounded -0.004 as 0.00, not as -0.00.
    form = f"{'+' if signed else ''}z{',' if apart else ''}.{places}f"
    if unit == "share":
        return format(100 * value, form)
    if unit == "bytes":
        return format(value / 1e6, form)
    return format(value, form)


def decimals(value: float | int, unit: str, digits: int | None = None) -> int:
    """The number of decimal places of a value. Numbers in units of the label have some significant
    digits, because a label may be a share or an income.

    Args:
        value: the value.
        unit: the value's unit.
        digits: number of decimal places, or of significant digits; None: the unit's default.
    """
    wanted = DIGITS[unit] if digits is None else digits
    if unit != LABEL:
        return wanted
    size = math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    return min(max(wanted - 1 - size, 0), _MOST_DECIMALS)


def numeric_columns(rows: Sequence[Sequence[str]]) -> list[bool]:
    """For each column of a table, whether at least half of its texts are numbers, such as ``+1.5``
    or ``81.2 ± 0.6``. Empty cells and dashes are ignored.

    Args:
        rows: cells of each row; all rows have the same length.
    """
    columns = [
        [cell for cell in column if cell not in ("", NO_NUMBER)]
        for column in zip(*rows, strict=True)
    ]
    numbers = [[cell for cell in column if _NUMBER.match(cell)] for column in columns]
    return [2 * len(found) >= len(column) for found, column in zip(numbers, columns, strict=True)]


def percent(value: float | int | None, digits: int = 1) -> str:
    """A share as text in per cent: ``81.2%``; a dash for None."""
    return NO_NUMBER if value is None else f"{number_text(value, 'share', digits)}%"


def megabytes(count: float | int | None, grouped: bool = False) -> str:
    """Bytes as text in megabytes, without the unit; a dash for None. Less than 0.1 MB has two
    significant digits, so that the traffic of a small model is not 0.0."""
    if count is None:
        return NO_NUMBER
    if 0 < count < _SMALL:
        return f"{float(f'{count / 1e6:.1e}'):f}".rstrip("0")
    return number_text(count, "bytes", grouped=grouped)


def both_ways(down: float | int | None, up: float | int | None) -> str:
    """Download and upload as text in megabytes: ``1.2 / 0.8``.

    Args:
        down: downloaded bytes.
        up: uploaded bytes.
    """
    return f"{megabytes(down)} / {megabytes(up)}"


def seconds_text(seconds: float | int) -> str:
    """Seconds as text without the unit, with grouped thousands."""
    return number_text(seconds, "seconds", grouped=True)


def byte_text(count: float | int) -> str:
    """Bytes as text with a suitable unit: ``1.2 MB``, ``310 B``."""
    for unit in _BYTE_UNITS:
        if count < 1000 or unit == "TB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError


def byte_ticks(most: float | int) -> list[tuple[int, str]]:
    """Ticks of an axis of bytes: values and texts. All ticks have one unit: ``0``, ``2 MB``,
    ``4 MB``.

    Args:
        most: the largest number of bytes on the axis.
    """
    power = min(len(_BYTE_UNITS) - 1, int(math.log10(max(1, most))) // 3)
    unit = _BYTE_UNITS[power]
    highest = max(1, most) / 1000**power
    # The largest step of 1, 2 or 5 times a power of ten with at least two ticks above zero.
    scale = 10 ** math.floor(math.log10(highest / 2))
    step = max(factor * scale for factor in (1, 2, 5) if 2 * factor * scale <= highest)
    if unit == "B":
        step = max(1, step)
    numbers = [place * step for place in range(int(highest / step + 1e-9) + 1)]
    return [
        (round(number * 1000**power), f"{number:,g} {unit}" if number else "0")
        for number in numbers
    ]


def duration(seconds: float | int) -> str:
    """A duration as text in seconds, minutes or hours; empty for 0."""
    if seconds < 120:
        return f"{seconds:,.1f} s" if seconds else ""
    minutes = round(seconds / 60)
    return f"{minutes:,} min" if minutes < 120 else f"{minutes / 60:,.1f} h"
