"""FedSim's Table 3 on this machine: the measured methods, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import fedsim
from papers.fedsim import round_times
from papers.recipe import Setting

TINY = Setting(
    row="tiny",
    data="digits",
    data_options=(("clients", 12),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    cohort=6,
)


def test_each_method_has_its_turns_on_the_data() -> None:
    times = fedsim.rounds_of(TINY, 2)
    assert list(times) == ["FedAvg", "FedProx", "FedSim", "with PCA", "without PCA"]
    assert all(len(seconds) == 2 and (seconds > 0).all() for seconds in times.values())


def test_only_one_of_the_two_reduces_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    reduced = []

    def count(gradients: np.ndarray, variance: Any) -> np.ndarray:
        reduced.append(gradients.shape)
        return gradients[:, :3]

    monkeypatch.setattr(fedsim, "principal_scores", count)
    every = fedsim.methods_of(2)
    for name, calls in ((fedsim.WITHOUT_PCA, 0), (fedsim.WITH_PCA, 3)):
        monkeypatch.setattr(fedsim, "methods_of", lambda clusters, name=name: {name: every[name]})
        fedsim.rounds_of(TINY, 1)
        assert reduced == [(6, 650)] * calls  # one turn, and two that warm up


def test_the_table_has_ours_and_the_papers() -> None:
    """Medians of 1, 2 and 9 milliseconds times a factor."""
    seconds = np.array([0.001, 0.009, 0.002])
    factors = {"FedAvg": 1, "FedProx": 2, "FedSim": 3, "with PCA": 4, "without PCA": 10}
    times = {name: factor * seconds for name, factor in factors.items()}
    text = round_times.table(fedsim.medians({round_times.MEX: times}))
    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert cells == [
        round_times.MEX.row,
        "2.0 (759.9)",
        "4.0 (949.9)",
        "6.0 (1049.5)",
        "8.0",
        "20.0",
        "12.0 (19.3)",
    ]


def test_stored_times_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(round_times, "STORE", tmp_path / "times.json")
    assert round_times.section([]) == "not run"
    methods = ("FedAvg", "FedProx", "FedSim", "with PCA", "without PCA")
    milliseconds: dict[str, float] = dict.fromkeys(methods, 2.0)
    round_times.write("A processor.", 7, {round_times.MNIST: milliseconds})
    text = round_times.section([])
    assert "2.0 (2929.3)" in text and "0.0 (230.0)" in text
    assert "median of 7 turns" in text and text.endswith("Ours: A processor.")
