"""The checks of fields. They refuse types that outside these tests no other check refuses."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.scenarios.validation import at_least, fraction, one_of, switch


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.5", True, None])
def test_no_fraction(value: object) -> None:
    with pytest.raises(ConfigError, match=r"p must be a fraction in \[0, 1\], got"):
        fraction("p", value)


@pytest.mark.parametrize("value", [1, 0, 2.0, 5.5, "3", True, None])
def test_no_integer_from_two_up(value: object) -> None:
    with pytest.raises(ConfigError, match="k must be an integer of at least 2, got"):
        at_least(2, "k", value)


@pytest.mark.parametrize("value", [0, 1, "no", None])
def test_no_switch(value: object) -> None:
    with pytest.raises(ConfigError, match="s must be true or false, got"):
        switch("s", value)


@pytest.mark.parametrize("value", ["suden", 3])
def test_no_known_word(value: object) -> None:
    with pytest.raises(ConfigError, match="unknown pattern"):
        one_of("pattern", value, ("sudden", "gradual"))


def test_valid_values_pass() -> None:
    """NumPy's numbers serve for Python's. Each check would raise."""
    for value in (0, 1, 0.5, np.float32(0.5)):
        fraction("p", value)
    for value in (2, np.int64(3)):
        at_least(2, "k", value)
    for value in (True, np.bool_(False)):
        switch("s", value)
    one_of("pattern", "sudden", ("sudden", "gradual"))
