"""Searches by bisection: their results, and the log of a long one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedkin.options.privacy.search import Search


def clock(step: float) -> Callable[[], float]:
    """A clock that is so many seconds later each time that it is read."""
    now = 0.0

    def read() -> float:
        nonlocal now
        now += step
        return now

    return read


def test_the_least_value_is_found_to_a_thousandth() -> None:
    search = Search("a search")
    low, high = search.bracket(lambda value: value >= 11.3, 1.0)
    assert (low, high) == (8.0, 16.0)
    assert 11.3 <= search.least(lambda value: value >= 11.3, low, high) < 11.3 * 1.001


def test_a_bracket_begins_at_nothing_where_the_first_value_is_enough() -> None:
    assert Search("a search").bracket(lambda value: value >= 0.2, 1.0) == (0.0, 1.0)


def test_a_value_that_is_nearly_right_is_approached_from_above() -> None:
    tried: list[float] = []

    def enough(value: float) -> bool:
        tried.append(value)
        return value >= 9.5

    assert 9.5 <= Search("a search").least(enough, 5.0, 10.0, nearest=0.9) < 9.51
    assert min(tried) == 9.0


@pytest.mark.parametrize("right", [0, 1, 7, 10])
def test_the_largest_count_is_found(right: int) -> None:
    assert Search("a search").most(lambda count: count <= right, 10) == right


@pytest.mark.parametrize(("step", "lines"), [(0.1, 0), (2.0, 3), (10.0, 10)])
def test_a_long_search_says_how_far_it_has_come(
    step: float, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten steps in all, and a line whenever five seconds have gone by."""
    Search("finding the noise", clock(step)).least(lambda value: value >= 1.5, 1.0, 2.0)
    assert len(caplog.messages) == lines
    if lines:
        first = caplog.messages[0]
        assert first.startswith("finding the noise: searching between ")
        assert first.endswith(" s so far")
