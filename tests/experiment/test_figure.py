"""The figure shows every method, the same way every time."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from fedkin.errors import StorageError
from fedkin.experiment.figure import _apart, draw, save, title
from fedkin.experiment.results import Run
from fedkin.experiment.runner import Plan, run
from fedkin.methods import FedAvg
from tests.experiment.toy import Toy, fake_world


def finished(method: Any, name: str, plan: Plan, against: dict[str, Run] | None = None) -> Run:
    track = run(fake_world(), method, plan, name=name)
    config: dict[str, Any] = {"data": {"name": "fake"}, "model": {"name": "point"}, "method": {"name": name}}
    config["run"] = {"cohort": plan.cohort, "seed": plan.seed, "rounds": plan.rounds}
    return Run(config, track.records, track.state, pd.DataFrame(), 0.0, against or {})


@pytest.fixture(scope="module")
def both() -> Run:
    plan = Plan(rounds=12, cohort=3)
    return finished(Toy(warm=3), "toy", plan, {"fedavg": finished(FedAvg(), "fedavg", plan)})


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_both_methods_are_named_with_their_final_accuracy(both: Run) -> None:
    told = texts(draw(both))
    assert f"toy\n{both.records[-1]['accuracy']:.1%}" in told
    assert f"FedAvg\n{both.against['fedavg'].records[-1]['accuracy']:.1%}" in told
    assert "pale: some clients have no cluster yet" in told


def test_lines_hold_the_records(both: Run) -> None:
    accuracy = next(axes for axes in draw(both).axes if axes.get_title("left") == "Test accuracy")
    drawn = [np.asarray(line.get_ydata(), float) for line in accuracy.lines]
    for one in (both, both.against["fedavg"]):
        expected = np.array([np.nan if r["partial"] else r["accuracy"] for r in one.records], float)
        assert any(np.array_equal(line, expected, equal_nan=True) for line in drawn)


def test_files_are_pictures_and_the_same_every_time(both: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save(both, tmp_path / name)
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["figure.png", "figure.svg"]
    for kind in ("png", "svg"):
        assert (tmp_path / f"one/figure.{kind}").read_bytes() == (tmp_path / f"two/figure.{kind}").read_bytes()
    picture = Image.open(io.BytesIO((tmp_path / "one/figure.png").read_bytes()))
    assert picture.size == (1680, 832)
    assert "FedAvg" in (tmp_path / "one/figure.svg").read_text()


@pytest.mark.parametrize("plan", [Plan(1, 1), Plan(5, 2, evaluate_every=5)])
def test_short_and_sparse_runs_can_be_drawn(plan: Plan, tmp_path: Path) -> None:
    save(finished(Toy(clusters=8), "toy", plan), tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_a_folder_that_is_not_there_is_a_storage_error(both: Run, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        save(both, tmp_path / "nowhere")


def test_labels_are_pushed_apart() -> None:
    assert _apart([0.1, 0.9], 0.1) == [0.1, 0.9]
    assert _apart([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    crowd = _apart([0.5, 0.5, 0.51, 0.9], 0.1)
    assert crowd[3] == 0.9
    assert (np.diff(crowd) > 0.05).all()


def test_titles() -> None:
    assert title("fedgrouprox") == "FedGrouProx"
    assert title("mine") == "mine"
