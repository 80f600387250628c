"""Long runs of recipes keep checkpoints, and continue after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedkin.methods import FedAvg
from papers import recipe
from papers.recipe import LONG, Cell, Setting, folder_name
from papers.result_store import job_of, unfinished_of, unfinished_runs

ROUNDS = 4
SETTING = Setting(
    row="a long row",
    data="digits",
    data_options=(("clients", 6),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    rounds=ROUNDS,
    cohort=3,
    seeds=(0, 1),
    seconds=LONG,
)
CELL = Cell(
    table="III", setting=SETTING, column="FedAvg", method=lambda m: FedAvg(), published=50.0
)
simulate = recipe.simulate


def interrupted_in(round: int) -> Callable[..., Any]:
    """``simulate``, with Ctrl-C after the checkpoint of a round."""

    def stop(record: dict[str, Any]) -> None:
        if record["round"] == round:
            raise KeyboardInterrupt

    def run(*args: Any, **options: Any) -> Any:
        return simulate(*args, **options, callbacks=stop)

    return run


def counting(rounds: list[int]) -> Callable[..., Any]:
    """``simulate``, which notes the rounds that are made."""

    def run(*args: Any, **options: Any) -> Any:
        return simulate(*args, **options, callbacks=lambda record: rounds.append(record["round"]))

    return run


def figures(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "seconds"}


def test_an_interrupted_run_continues_with_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(CELL)
    assert job.resumable
    undisturbed = job.run(0)
    assert not unfinished_runs(tmp_path)

    monkeypatch.setattr(recipe, "simulate", interrupted_in(3))
    with pytest.raises(KeyboardInterrupt):
        job.run(0, unfinished_of(tmp_path))
    # A process that was killed leaves the lock of its folder.
    (unfinished_of(tmp_path) / f".{folder_name(CELL, 0)}.lock").touch()
    assert unfinished_runs(tmp_path) == [folder_name(CELL, 0)]

    rounds: list[int] = []
    monkeypatch.setattr(recipe, "simulate", counting(rounds))
    again = job.run(0, unfinished_of(tmp_path))
    assert rounds[-1] == ROUNDS and rounds[0] >= 2, "it starts again"
    assert figures(again) == figures(undisturbed)
    assert not unfinished_runs(tmp_path)


def test_a_damaged_checkpoint_is_named_and_the_run_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(CELL)
    monkeypatch.setattr(recipe, "simulate", interrupted_in(3))
    with pytest.raises(KeyboardInterrupt):
        job.run(0, unfinished_of(tmp_path))
    folder = unfinished_of(tmp_path) / folder_name(CELL, 0)
    checkpoints = [path for path in folder.rglob("*") if "checkpoint" in str(path)]
    for path in checkpoints:
        if path.is_file():
            path.write_bytes(b"damaged")
    monkeypatch.setattr(recipe, "simulate", simulate)
    again = job.run(0, unfinished_of(tmp_path))
    assert figures(again) == figures(job.run(0))
    told = capsys.readouterr().err
    assert checkpoints and folder.name in told and "starts again" in told


def test_a_run_of_another_setting_seed_or_column_has_another_folder() -> None:
    others = [
        replace(CELL, setting=replace(SETTING, lr=0.2)),
        replace(CELL, setting=replace(SETTING, draws=(7,))),
        replace(CELL, column="FedProx"),
        replace(CELL, revision=1),
    ]
    names = {folder_name(cell, 0) for cell in (CELL, *others)}
    names |= {folder_name(CELL, 1), folder_name(CELL, 0, global_model=True)}
    assert len(names) == len(others) + 3


def test_a_short_run_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = replace(CELL, setting=replace(SETTING, seconds=LONG - 1))
    assert not job_of(cell).resumable
    monkeypatch.setattr(recipe, "simulate", interrupted_in(3))
    with pytest.raises(KeyboardInterrupt):
        job_of(cell).run(0, unfinished_of(tmp_path))
    assert not unfinished_runs(tmp_path)
