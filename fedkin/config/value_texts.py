"""Values of the command line as text: TOML values, words, and lists without brackets."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from fedkin.core.errors import ConfigError

# One value in a list of values separated by commas. Commas within brackets and quotes belong to it.
PARTS = re.compile(r"""(?:\[[^\]]*\]|\{[^}]*\}|"[^"]*"|'[^']*'|[^,])+""")
# A number with a point. It may lack a digit on one side (.5, 1.), which TOML does not allow. Quoted
# texts match too, so that numbers in them stay unchanged.
_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'[^']*'"
_NUMBER_WITH_POINT = re.compile(
    rf"{_QUOTED}|(?<![\w.])([+-]?)(\d[\d_]*)?\.(\d[\d_]*)?(?=[eE][+-]?\d|[^\w.]|$)"
)


def parse_value(text: str) -> Any:
    """Parse a TOML value (7, 0.5, true, [1, 2], "seven"). Any other text is returned as it is.
    Numbers may lack a digit before or after the point (.5, 1.), also within lists and tables.

    Raises ConfigError for brackets that are nested too deeply.
    """
    for spelling in (text, _NUMBER_WITH_POINT.sub(_with_zeros, text)):
        try:
            parsed = tomllib.loads(f"value = {spelling}")
        except ValueError:  # TOMLDecodeError, and a number of thousands of digits
            continue
        except RecursionError:
            raise ConfigError(
                f"{text[:20]}...: the value has too many brackets inside each other"
            ) from None
        # A text with line breaks could define further keys; it is then no single value.
        if len(parsed) == 1:
            return parsed["value"]
    return text.strip()


def parse_values(text: str) -> list[Any]:
    """Parse values separated by commas: TOML values, or words."""
    try:
        return tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        return [parse_value(part) for part in PARTS.findall(text) if part.strip()]


def _with_zeros(match: re.Match[str]) -> str:
    """Add the digits that TOML requires before and after a number's point. A point alone and quoted
    text stay unchanged."""
    sign, before, after = match.groups()
    if not before and not after:
        return match.group()
    return f"{sign}{before or 0}.{after or 0}"
