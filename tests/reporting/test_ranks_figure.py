"""The critical-difference diagram: its axis, its bar, and methods with equal ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from fedkin.analysis.ranks import Ranks, rank
from fedkin.reporting.method_styles import method_style
from fedkin.reporting.ranks_figure import draw
from fedkin.reporting.style import INK

METHODS = ("FedAvg", "FedProx", "IFCA", "FlexCFL", "FedGroup")


def ranks(scores: dict[str, list[float]]) -> Ranks:
    return rank(pd.DataFrame(scores))


@pytest.fixture
def tied() -> Ranks:
    """FedAvg and FedProx are tied with rank 4.5; the others have ranks 1, 2 and 3 in 8 settings."""
    return ranks(
        {name: [s] * 8 for name, s in zip(METHODS, (0.5, 0.5, 0.8, 0.9, 0.7), strict=True)}
    )


def panel(found: Ranks) -> Axes:
    (axes,) = draw(found).axes
    return axes


def places(axes: Axes) -> dict[str, float]:
    """The place of each method's dot on the axis, by colour."""
    dots: list[Any] = [one for one in axes.collections if isinstance(one, PathCollection)]
    return {to_hex(one.get_facecolor()[0]): float(one.get_offsets()[0][0]) for one in dots}


def place(axes: Axes, name: str) -> float:
    return places(axes)[method_style(name).light.lower()]


def joined(axes: Axes) -> list[tuple[float, float]]:
    """The ends of the bars that join methods."""
    bars = [line for line in axes.lines if line.get_color() == "k"]
    return [tuple(np.asarray(bar.get_xdata(), float)) for bar in bars]


def critical_difference(axes: Axes) -> tuple[float, float]:
    (bar,) = [line for line in axes.lines if line.get_color() == INK and line.get_marker() == "|"]
    low, high = np.asarray(bar.get_xdata(), float)
    return low, high


def test_the_axis_has_all_ranks(tied: Ranks) -> None:
    axes = panel(tied)
    assert axes.get_xlim() == (1, 5)
    assert axes.get_xticks().tolist() == [1, 2, 3, 4, 5]


def test_of_many_ranks_every_second_has_its_number() -> None:
    rng = np.random.default_rng(0)
    axes = panel(ranks({f"method {k}": rng.normal(size=4).tolist() for k in range(24)}))
    assert axes.get_xticks().tolist() == list(range(1, 25, 2))
    # matplotlib leaves out minor ticks at the places of major ones.
    assert axes.get_xticks(minor=True).tolist() == list(range(2, 25, 2))


def test_the_critical_difference_is_a_bar_of_its_length(tied: Ranks) -> None:
    axes = panel(tied)
    # q of 5 methods is 2.728 (Demsar, table 5), times sqrt(5 * 6 / (6 * 8)).
    expected = 2.728 * np.sqrt(30 / 48)
    assert critical_difference(axes) == pytest.approx((1, 1 + expected), abs=1e-3)
    assert [text.get_text() for text in axes.texts].count("critical difference 2.16") == 1


def test_a_critical_difference_longer_than_the_axis_says_so() -> None:
    rng = np.random.default_rng(0)
    found = ranks({name: rng.normal(size=2).tolist() for name in METHODS[:3]})
    axes = panel(found)
    assert found.critical_difference > 2 and critical_difference(axes) == (1, 3)
    assert any("longer than the axis" in text.get_text() for text in axes.texts)


def test_tied_methods_are_both_seen(tied: Ranks) -> None:
    axes = panel(tied)
    both = sorted([place(axes, "FedAvg"), place(axes, "FedProx")])
    assert both[1] - both[0] >= 0.079 and np.mean(both) == pytest.approx(4.5)
    for name, rank_of in (("FlexCFL", 1), ("IFCA", 2), ("FedGroup", 3)):
        assert place(axes, name) == rank_of
    # Every bar ends at the lines that it joins.
    ends = {round(end, 6) for bar in joined(axes) for end in bar}
    assert ends <= {round(one, 6) for one in places(axes).values()}
    assert any(low <= both[0] and high == pytest.approx(both[1]) for low, high in joined(axes))


def test_methods_with_the_same_ranks_are_joined_by_a_visible_bar() -> None:
    scores = {name: [0.9] * 30 for name in METHODS[2:]} | {name: [0.5] * 30 for name in METHODS[:2]}
    axes = panel(ranks(scores))
    bars = sorted(joined(axes))
    assert len(bars) == 2 and all(high - low >= 0.079 for low, high in bars)


def test_dots_of_many_methods_stay_near_their_ranks() -> None:
    """Gaps between the lines of nineteen methods must not push dots to other ranks."""
    rng = np.random.default_rng(0)
    scores = {f"method {k}": (0.06 * k + rng.normal(size=60)).tolist() for k in range(19)}
    found = ranks(scores)
    axes = panel(found)
    dots: list[Any] = [one for one in axes.collections if isinstance(one, PathCollection)]
    drawn = sorted(float(one.get_offsets()[0][0]) for one in dots)
    assert drawn == pytest.approx(sorted(found.average.values()), abs=0.4)
    assert min(np.diff(drawn)) > 0.1


def test_without_a_finding_of_friedman_one_bar_joins_all_methods() -> None:
    rng = np.random.default_rng(3)
    found = ranks({name: rng.normal(size=6).tolist() for name in METHODS})
    assert found.tested and not found.differ
    axes = panel(found)
    dots = places(axes).values()
    assert joined(axes) == [pytest.approx((min(dots), max(dots)))]
