"""Axes from tick to tick, and labels at the ends of curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from fedkin.reporting.style import (
    draw_curve,
    fit,
    index_axis,
    label_ends,
    new_figure,
    round_axis,
    share_axis,
    share_ticks,
    spread,
    write,
)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.05, 0.93, (0.0, 1.0, 0.2)),  # near 100%, so the axis ends with it
        (0.79, 0.88, (0.78, 0.88, 0.02)),
        (0.975, 0.991, (0.975, 0.995, 0.005)),
        (0.0, 0.18, (0.0, 0.2, 0.05)),
        (0.0, 0.0, (0.0, 0.2, 0.2)),  # equal values need no fine ticks
        (1.0, 1.0, (0.8, 1.0, 0.2)),
        (0.62, 1.0, (0.6, 1.0, 0.1)),
        (0.3, 0.6, (0.3, 0.6, 0.1)),  # 0.3 / 0.1 is below 3 in floating point
        (-0.2, 1.3, (0.0, 1.0, 0.2)),  # an interval beyond 0 and 1
    ],
)
def test_an_axis_of_shares_begins_and_ends_with_a_tick(
    low: float, high: float, ticks: tuple[float, float, float]
) -> None:
    assert share_ticks(low, high) == pytest.approx(ticks)


def panel(values: list[float]) -> Axes:
    axes = new_figure(6.0, 3.0).add_subplot()
    for value in values:
        axes.plot([0, 4], [0.5, value])
    return axes


def test_the_ticks_and_limits_are_set() -> None:
    axes = panel([0.97])
    share_axis(axes)
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "50%",
        "60%",
        "70%",
        "80%",
        "90%",
        "100%",
    ]
    low, high = axes.get_ylim()
    assert 0.45 < low < 0.5 and 1 < high < 1.05
    empty = new_figure(6.0, 3.0).add_subplot()
    share_axis(empty)
    assert empty.get_yticks().tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


@pytest.mark.parametrize("values", [[0.9, 0.9, 0.9], [0.5, 0.51, 0.9, 0.905], [0.99, 1.0, 1.0]])
def test_labels_at_the_ends_of_lines_do_not_overlap(values: list[float]) -> None:
    axes = panel(values)
    share_axis(axes)
    label_ends(axes, [(value, f"method {i}", "k") for i, value in enumerate(values)])
    figure = axes.figure
    assert not isinstance(figure, Axes) and figure is not None
    fit(figure)  # pyright: ignore[reportArgumentType]
    figure.draw_without_rendering()  # pyright: ignore[reportAttributeAccessIssue]
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == len(values)
    for below, above in zip(boxes, boxes[1:], strict=False):
        assert above.y0 >= below.y1 - 0.5
    frame = axes.get_window_extent()
    middles = [(box.y0 + box.y1) / 2 for box in boxes]
    assert frame.y0 - 1 <= middles[0] and middles[-1] <= frame.y1 + 1


def test_a_label_at_the_lower_end_does_not_touch_the_last_tick() -> None:
    """For errors, the best curve ends at the bottom."""
    axes = panel([1.79, 1.86, 2.77])
    label_ends(axes, [(1.79, "local", "k"), (1.86, "flexcfl", "k"), (2.77, "fedavg", "k")])
    figure = axes.figure
    fit(figure)  # pyright: ignore[reportArgumentType]
    figure.draw_without_rendering()  # pyright: ignore[reportAttributeAccessIssue]
    lowest = min(text.get_window_extent().y0 for text in axes.texts)
    assert lowest >= axes.get_window_extent().y0


def test_a_written_figure_has_fitted_labels(tmp_path: Path) -> None:
    axes = panel([0.8, 0.801])
    share_axis(axes)
    label_ends(axes, [(0.8, "a", "k"), (0.801, "b", "k")])
    figure = axes.figure
    write(figure, tmp_path / "a.svg")  # pyright: ignore[reportArgumentType]
    low, high = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert high.y0 >= low.y1 - 0.5 and (tmp_path / "a.svg").stat().st_size


def test_an_axis_of_agreement_reaches_one_and_has_the_lowest_value() -> None:
    axes = panel([-0.0003, 0.0])
    index_axis(axes)
    low, high = axes.get_ylim()
    assert -0.05 < low < 0 and 1 < high < 1.05  # no ticks of tiny differences
    axes = panel([-0.4, 0.9])
    index_axis(axes)
    assert axes.get_ylim()[0] < -0.4


def test_labels_stay_in_their_order_and_between_the_ends() -> None:
    assert spread([0.2, 0.7], 0.1, 0.0, 1.0) == [0.2, 0.7]
    assert spread([0.5, 0.5, 0.5], 0.1, 0.0, 1.0) == pytest.approx([0.4, 0.5, 0.6])
    assert spread([0.99, 1.0], 0.1, 0.0, 1.0) == pytest.approx([0.9, 1.0])
    assert spread([0.0, 0.0], 0.1, 0.0, 1.0) == pytest.approx([0.0, 0.1])
    # The group of the lower two meets the third, and all three move.
    assert spread([0.5, 0.5, 0.56], 0.1) == pytest.approx([0.42, 0.52, 0.62])


def test_a_curve_of_one_point_is_a_dot_on_an_axis_of_whole_rounds() -> None:
    axes = new_figure(4.0, 3.0).add_subplot()
    draw_curve(axes, [0, 1], [np.nan, 0.4], ("k", "-"), width=1.0)
    draw_curve(axes, [0, 1], [0.2, 0.4], ("k", "-"), width=1.0)
    round_axis(axes, 1)
    assert [line.get_marker() for line in axes.lines] == ["o", "None"]
    assert axes.get_xlim() == (0, 1)
    round_axis(axes, 0)
    assert axes.get_xlim() == (0, 1)
