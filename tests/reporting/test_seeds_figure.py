"""The figure of several seeds: mean curves and mean gains, with their intervals."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image
from scipy import stats

from fedkin.core.errors import StorageError
from fedkin.reporting.method_styles import method_style
from fedkin.reporting.seeds_figure import accuracies, draw, save
from fedkin.reporting.style import new_figure
from tests.analysis.written_seeds import by_hand

# Against FedAvg, every seed gains in rounds 2 and 3; in round 1 as many lose as gain.
OURS = [
    [0.1, 0.30, 0.61, 0.80],
    [0.1, 0.50, 0.62, 0.82],
    [0.1, 0.30, 0.60, 0.84],
    [0.1, 0.50, 0.63, 0.81],
]
THEIRS = [
    [0.1, 0.40, 0.41, 0.50],
    [0.1, 0.40, 0.40, 0.51],
    [0.1, 0.40, 0.42, 0.52],
    [0.1, 0.40, 0.41, 0.50],
]


def panel(figure: Figure, heading: str) -> Axes:
    return next(axes for axes in figure.axes if axes.get_title("left") == heading)


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def bands(axes: Axes) -> list[PolyCollection]:
    return [each for each in axes.collections if isinstance(each, PolyCollection)]


def drawn(axes: Axes, expected: np.ndarray) -> bool:
    lines = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    return any(
        len(line) == len(expected) and np.allclose(line, expected, equal_nan=True) for line in lines
    )


def test_lines_are_means_and_bands_their_intervals() -> None:
    axes = panel(draw(by_hand({"fedgroup": OURS, "fedavg": THEIRS})), "Test accuracy")
    for curves, band in zip((OURS, THEIRS), bands(axes), strict=True):
        values = np.array(curves)
        assert drawn(axes, values.mean(axis=0))
        low, high = stats.t.interval(0.95, 3, values[:, 3].mean(), stats.sem(values[:, 3]))
        ends = [y for x, y in np.asarray(band.get_paths()[0].vertices) if x == 3]
        assert (min(ends), max(ends)) == pytest.approx((low, high))


def test_gains_are_means_and_bands_their_intervals() -> None:
    figure = draw(by_hand({"fedgroup": OURS, "fedavg": THEIRS, "fedprox": np.array(THEIRS) + 0.05}))
    axes = panel(figure, "Gain of FedGroup")
    gain = 100 * (np.array(OURS) - np.array(THEIRS))
    assert drawn(axes, gain.mean(axis=0)) and drawn(axes, gain.mean(axis=0) - 5)
    low, high = stats.t.interval(0.95, 3, gain[:, 3].mean(), stats.sem(gain[:, 3]))
    ends = [y for x, y in np.asarray(bands(axes)[0].get_paths()[0].vertices) if x == 3]
    assert (min(ends), max(ends)) == pytest.approx((low, high))
    assert "over FedAvg" in texts(figure) and "over FedProx" in texts(figure)


def test_a_method_that_was_never_scored_takes_no_other_gain_away() -> None:
    never = np.full((4, 4), np.nan)
    axes = panel(
        draw(by_hand({"fedgroup": OURS, "fedprox": never, "fedavg": THEIRS})), "Gain of FedGroup"
    )
    assert drawn(axes, 100 * (np.array(OURS) - np.array(THEIRS)).mean(axis=0))
    assert axes.lines[0].get_color() == method_style("fedavg").light


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_have_no_band(seeds: int) -> None:
    figure = draw(by_hand({"fedgroup": OURS[:seeds], "fedavg": THEIRS[:seeds]}))
    assert not bands(panel(figure, "Test accuracy"))
    assert not bands(panel(figure, "Gain of FedGroup")) and "interval" not in texts(figure)
    assert drawn(panel(figure, "Test accuracy"), np.mean(OURS[:seeds], axis=0))


def test_one_method_has_one_panel() -> None:
    assert len(draw(by_hand({"fedgroup": OURS})).axes) == 1


def test_rounds_without_a_score_are_passed_over() -> None:
    ours = np.array(OURS)
    theirs = np.array(THEIRS)
    ours[:, 2] = theirs[:, 2] = np.nan
    figure = draw(by_hand({"fedgroup": ours, "fedavg": theirs}))
    # Joined, or nothing would be seen.
    assert drawn(panel(figure, "Test accuracy"), ours[:, [0, 1, 3]].mean(axis=0))
    assert drawn(
        panel(figure, "Gain of FedGroup"), 100 * (ours - theirs)[:, [0, 1, 3]].mean(axis=0)
    )
    assert np.asarray(panel(figure, "Test accuracy").lines[0].get_xdata()).tolist() == [0, 1, 3]


def test_a_gain_compares_the_same_seeds_in_every_round() -> None:
    """Rounds that one seed of one method lacks are left out of the difference, and do not turn its
    sign."""
    ours = np.array(OURS)
    theirs = np.array(THEIRS)
    ours[0, 1] = np.nan
    theirs[1, 2] = np.nan
    figure = draw(by_hand({"fedgroup": ours, "fedavg": theirs}))
    assert np.asarray(panel(figure, "Gain of FedGroup").lines[0].get_xdata()).tolist() == [0, 3]


def test_a_method_that_was_never_complete_is_drawn_without_a_comparison(tmp_path: Path) -> None:
    repeated = by_hand({"flexcfl": OURS, "fedavg": THEIRS}, partial=[0, 1, 2, 3])
    assert len(draw(repeated).axes) == 1
    save(repeated, tmp_path)
    assert "FedAvg" in (tmp_path / "figure.svg").read_text()


def test_a_method_that_is_never_complete_is_pale_in_a_comparison() -> None:
    axes = new_figure(4.0, 3.0).subplots()
    never = np.full((1, 3), np.nan)
    whole = np.array([[0.1, 0.2, 0.3]])
    curves = {"A": whole, "B": never}
    pale = np.array([[np.nan, 0.5, 0.6]])
    accuracies(axes, curves, incomplete={"A": whole, "B": pale})
    first, second = axes.lines
    assert first.get_alpha() == 1 and second.get_alpha() == 0.4
    np.testing.assert_array_equal(second.get_xydata(), [[1, 0.5], [2, 0.6]])
    note = "pale: rounds in which some clients have no cluster"
    assert any(note in text.get_text() for text in axes.texts)
    plain = new_figure(4.0, 3.0).subplots()
    accuracies(plain, curves)
    assert any("complete in all seeds: B" in text.get_text() for text in plain.texts)


def test_partial_rounds_are_pale_and_complete_ones_are_not() -> None:
    """Rounds 0 and 3 are complete, rounds 1, 2 and 4 are not, and round 5 was not evaluated. No
    line joins two complete rounds across a partial one."""
    every = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, np.nan, 0.7, 0.8]] * 2)
    complete = every.copy()
    complete[0, [1, 2, 4]] = np.nan  # in one seed is enough
    axes = new_figure(4.0, 3.0).subplots()
    accuracies(axes, {"A": complete}, incomplete={"A": every})
    pale, whole, alone = axes.lines
    rounds = [0, 1, 2, 3, 4, 6, 7]
    assert (pale.get_alpha(), np.asarray(pale.get_xdata()).tolist()) == (0.4, rounds)
    nan = np.nan
    np.testing.assert_allclose(
        np.asarray(whole.get_ydata(), float), [0.1, nan, nan, 0.4, nan, 0.7, 0.8]
    )
    # A line through one round is invisible.
    assert (alone.get_marker(), np.asarray(alone.get_xdata()).tolist()) == ("o", [0, 3])
    notes = [text.get_text() for text in axes.texts]
    assert any("pale: rounds in which some clients have no cluster" in note for note in notes)
    without = new_figure(4.0, 3.0).subplots()
    accuracies(without, {"A": every}, incomplete={"A": every})
    assert not any("pale" in text.get_text() for text in without.texts)


def test_the_heading_names_the_run() -> None:
    told = draw(by_hand({"fedgroup": OURS, "fedavg": THEIRS})).get_suptitle()
    assert told.strip() == "FedGroup / FedAvg on fake: 8 clients, 3 a round, 4 seeds"


def test_files_are_pictures_and_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save(by_hand({"fedgroup": OURS, "fedavg": THEIRS}), tmp_path / name)
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["figure.png", "figure.svg"]
    for kind in ("png", "svg"):
        assert (tmp_path / f"one/figure.{kind}").read_bytes() == (
            tmp_path / f"two/figure.{kind}"
        ).read_bytes()
    assert Image.open(io.BytesIO((tmp_path / "one/figure.png").read_bytes())).format == "PNG"
    assert "FedAvg" in (tmp_path / "one/figure.svg").read_text()


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        save(by_hand({"fedgroup": OURS}), tmp_path / "nowhere")
