"""The benchmark of FedAvg against the central fit reads all draws of a set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import central_fits
from benchmarks.central_fits import Losses


def test_all_draws_of_a_set_are_measured(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = []

    def measured(data: Any, recipe: Any, seed: int) -> Losses:
        assert data.name and recipe.rounds
        seeds.append(seed)
        return Losses(federated=1.01 + seed, central=1.0 + seed)

    monkeypatch.setattr(central_fits, "measure", measured)
    monkeypatch.setattr(sys, "argv", ["central_fits", "--sets", "exam", "azpro", "--draws", "2"])
    central_fits.main()
    assert seeds == [0, 1, 0, 1]
    shown = capsys.readouterr().out
    assert "| exam | 1.5100 | 1.5000 | 1.0067 |" in shown and "| azpro |" in shown
