"""The figure shows every method, the same way every time."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import fedkin as fk
from fedkin.config.description import Description
from fedkin.config.plan import Plan
from fedkin.config.registry import method_title
from fedkin.core.errors import StorageError
from fedkin.methods import FedAvg
from fedkin.reporting.run_figure import draw, method_label, save
from fedkin.reporting.style import fit, spread
from fedkin.run.loop import run
from fedkin.run.run import Run
from tests.client_tables import with_clients
from tests.run.toy_method import Toy, fake_world


def finished(method: Any, name: str, plan: Plan, against: dict[str, Run] | None = None) -> Run:
    track = run(fake_world(), method, plan, name=name)
    config: dict[str, Any] = {
        "data": {"name": "fake"},
        "model": {"name": "point"},
        "method": {"name": name},
    }
    config["run"] = {"cohort": plan.cohort, "seed": plan.seed, "rounds": plan.rounds}
    return Run(
        config=Description(config),
        records=track.records,
        state=track.state,
        client_columns={},
        seconds=0.0,
        against=against or {},
    )


@pytest.fixture(scope="module")
def both() -> Run:
    plan = Plan(rounds=12, cohort=3)
    return finished(Toy(warm=3), "toy", plan, {"fedavg": finished(FedAvg(), "fedavg", plan)})


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def panel(figure: Figure, heading: str) -> Axes:
    return next(axes for axes in figure.axes if axes.get_title("left") == heading)


def test_both_methods_are_named_with_their_final_accuracy(both: Run) -> None:
    told = texts(draw(both))
    assert f"toy\n{both.records[-1]['accuracy']:.1%}" in told
    assert f"FedAvg\n{both.against['fedavg'].records[-1]['accuracy']:.1%}" in told
    assert "pale: some clients have no cluster yet" in told


def test_lines_hold_the_records(both: Run) -> None:
    accuracy = panel(draw(both), "Test accuracy")
    drawn = [np.asarray(line.get_ydata(), float) for line in accuracy.lines]
    for one in (both, both.against["fedavg"]):
        expected = np.array([np.nan if r["partial"] else r["accuracy"] for r in one.records], float)
        assert any(np.array_equal(line, expected, equal_nan=True) for line in drawn)


def test_the_bottom_10_percent_has_its_own_panel(both: Run) -> None:
    figure = draw(both)
    drawn = [
        np.asarray(line.get_ydata(), float) for line in panel(figure, "Bottom 10% of clients").lines
    ]
    for one in (both, both.against["fedavg"]):
        expected = np.array([r["bottom_decile"] for r in one.records], float)
        assert any(np.array_equal(line, expected) for line in drawn)
    assert len(panel(figure, "Test accuracy").lines) == 4  # two methods, and their pale lines


def test_axes_fit_the_curves(both: Run) -> None:
    values = [r["accuracy"] for one in (both, both.against["fedavg"]) for r in one.records]
    low, high = panel(draw(both), "Test accuracy").get_ylim()
    assert min(values) - 0.1 < low <= min(values) and max(values) <= high < max(values) + 0.1


def test_sizes_that_never_change_make_room_for_the_clients(both: Run) -> None:
    table = pd.DataFrame({"client": range(4), "accuracy": [0.5, 1.0, np.nan, 0.25]})
    records = [{**r, "cluster_sizes": [5, 3]} for r in both.records]
    still = with_clients(both, table, records=records)
    headings = [axes.get_title("left") for axes in draw(still).axes]
    assert "Cluster sizes" not in headings and headings[-1] == "Accuracy of each client"
    (line, *_) = panel(draw(still), "Accuracy of each client").lines
    assert np.asarray(line.get_ydata()).tolist() == [0.25, 0.5, 1.0]
    moving = replace(
        still,
        records=[
            {**r, "cluster_sizes": [8 - r["round"] % 2, r["round"] % 2]} for r in both.records
        ],
    )
    assert [axes.get_title("left") for axes in draw(moving).axes][-2:] == [
        "Cluster sizes",
        "Accuracy of each client",
    ]


def test_a_method_is_named_with_its_clusters() -> None:
    assert method_label(Description({"method": {"name": "ifca", "clusters": 3}})) == "IFCA (K = 3)"
    assert method_label(Description({"method": {"name": "fedavg"}})) == "FedAvg"


def test_no_note_is_wider_than_its_panel(both: Run) -> None:
    figure = draw(both)
    fit(figure)
    figure.draw_without_rendering()
    for axes in figure.axes:
        (note,) = [text for text in axes.texts if text.get_label() == "_note"]
        assert note.get_window_extent().width <= axes.get_window_extent().width
        heading = axes.title if axes.get_title() else axes._left_title  # type: ignore[attr-defined]
        assert heading.get_window_extent().y0 >= note.get_window_extent().y1 - 1
    assert any("\n" in text.get_text() for text in panel(figure, "Discrepancy").texts)


def test_clusters_may_become_more(both: Run) -> None:
    sizes = [[8] if round < 6 else [5, 3] if round < 9 else [5, 1, 2] for round in range(13)]
    grown = replace(
        both, records=[{**r, "cluster_sizes": s} for r, s in zip(both.records, sizes, strict=True)]
    )
    axes = panel(draw(grown), "Cluster sizes")
    bands = [band.get_paths()[0] for band in axes.collections]
    shown = [
        "".join(
            str(k)
            for height in range(8)
            for k, band in enumerate(bands)
            if band.contains_point((at, height + 0.5))
        )
        for at in (3.5, 7.5, 10.5)
    ]
    # The cluster of each of eight clients, from below.
    assert shown == [
        "00000000",
        "00000111",
        "00000122",
    ]
    assert {text.get_text() for text in axes.texts} >= {"5", "1", "2"}


def test_rounds_in_which_many_data_moved_are_marked(both: Run) -> None:
    moved = {3: 2, 5: 3, 9: 8}  # of eight clients: a quarter is not more than a quarter
    shaken = replace(
        both, records=[{**r, "data_shifts": moved.get(r["round"])} for r in both.records]
    )
    assert upright(both) == []
    assert upright(shaken) == [5, 9]
    assert texts(draw(shaken)).count("data shift") == 1


def test_where_data_move_all_the_time_nothing_is_marked(both: Run) -> None:
    """Three of thirteen rounds are the exception, four are more than a quarter."""
    for many, marked in (((2, 5, 9), [2, 5, 9]), ((2, 5, 9, 11), [])):
        shaken = replace(
            both, records=[{**r, "data_shifts": 8 * (r["round"] in many)} for r in both.records]
        )
        assert upright(shaken) == marked


def upright(run: Run) -> list[float]:
    lines = [
        np.asarray(line.get_xdata(), float) for line in panel(draw(run), "Test accuracy").lines
    ]
    return [float(x[0]) for x in lines if len(x) == 2 and x[0] == x[1]]


def test_files_are_pictures_and_the_same_every_time(both: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save(both, tmp_path / name)
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["figure.png", "figure.svg"]
    for kind in ("png", "svg"):
        assert (tmp_path / f"one/figure.{kind}").read_bytes() == (
            tmp_path / f"two/figure.{kind}"
        ).read_bytes()
    picture = Image.open(io.BytesIO((tmp_path / "one/figure.png").read_bytes()))
    assert picture.size == (2000, 832)
    assert "FedAvg" in (tmp_path / "one/figure.svg").read_text()


@pytest.mark.parametrize("plan", [Plan(1, 1), Plan(5, 2, evaluate_every=5)])
def test_short_and_sparse_runs_can_be_drawn(plan: Plan, tmp_path: Path) -> None:
    save(finished(Toy(clusters=8), "toy", plan), tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_a_folder_that_is_not_there_is_a_storage_error(both: Run, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        save(both, tmp_path / "nowhere")


def test_labels_are_pushedspread() -> None:
    assert spread([0.1, 0.9], 0.1) == [0.1, 0.9]
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    crowd = spread([0.5, 0.5, 0.51, 0.9], 0.1)
    assert crowd[3] == 0.9
    assert (np.diff(crowd) > 0.05).all()


def test_titles() -> None:
    assert method_title("fedgrouprox") == "FedGrouProx"
    assert method_title("mine") == "mine"


@pytest.mark.parametrize("name", ["figure.pdf", "a.png"])
def test_a_figures_name_is_no_folder(name: str, run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(fk.ConfigError, match="into a folder"):
        fk.draw(Run.load(run_folder), tmp_path / name)
    assert not (tmp_path / name).exists()
