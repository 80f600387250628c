"""``fedkin check`` says how far a run came, and which of its files have changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


def test_a_whole_folder(run_folder: Path) -> None:
    result = check(str(run_folder))
    assert result.exit_code == 0 and not result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith(f"{run_folder}: fedgroup, finished, round ") and first.endswith(
        "; files are unchanged"
    )
    assert second.startswith(f"{run_folder / 'against/fedavg'}: fedavg, finished")


def test_a_run_that_is_not_finished_goes_on_from_its_checkpoint(run_folder: Path) -> None:
    for name in ("summary.json", "clients.parquet", "SHA256SUMS"):
        (run_folder / name).unlink()
    result = check(str(run_folder), "--json")
    state = json.loads(result.stdout)[0]
    assert result.exit_code == 0 and not state["finished"]
    assert state["kept"] == state["recorded"] == state["rounds"]
    assert "not finished, round" in check(str(run_folder)).stdout


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "migrations.jsonl", "summary.json", "clients.parquet", "config.toml"]
)
def test_a_file_that_was_changed_is_named(run_folder: Path, name: str) -> None:
    content = (run_folder / name).read_bytes()
    (run_folder / name).write_bytes(content[: len(content) // 2])
    result = check(str(run_folder))
    assert result.exit_code == 1 and f"{run_folder / name}" in result.stderr
    assert "Traceback" not in result.stderr
    assert all(line.startswith("error: ") for line in result.stderr.splitlines())


def test_a_damaged_checkpoint_is_named_though_an_older_one_is_whole(run_folder: Path) -> None:
    newest = max((run_folder / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    result = check(str(run_folder))
    assert result.exit_code == 1 and newest.name in result.stderr


@pytest.mark.parametrize("name", ["summary.json", "clients.parquet", "checkpoints"])
def test_one_changed_byte_is_found_and_resuming_repairs_it(name: str, run_folder: Path) -> None:
    path = run_folder / name
    path = max(path.iterdir()) if path.is_dir() else path
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    found = check(str(run_folder))
    assert found.exit_code == 1
    lines = found.stderr.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    assert any(path.name in line for line in lines), lines
    resumed = CliRunner().invoke(app, ["run", "--resume", str(run_folder)])
    assert resumed.exit_code == 0, resumed.output
    again = check(str(run_folder))
    assert again.exit_code == 0 and not again.stderr, again.output
    if name == "clients.parquet":
        assert path.read_bytes() == whole


def test_all_seeds_are_checked(run_folder: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        shutil.copytree(run_folder, tmp_path / f"many/seeds/{seed}")
    (tmp_path / "many/seeds/1/metrics.jsonl").unlink()
    result = check(str(tmp_path / "many"))
    assert result.exit_code == 1 and len(result.stdout.splitlines()) == 4
    assert "seeds/1/metrics.jsonl has changed since" in result.stderr
    assert "seeds/0" not in result.stderr


QUICK = ("data.clients=6", "run.rounds=1", "run.cohort=3", "local.epochs=1")


def test_a_comparison_has_all_its_cells_and_tables_that_fit(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    fk.compare(
        None,
        *QUICK,
        methods=["fedavg", "fedprox"],
        seeds=1,
        out=folder,
    )
    whole = check(str(folder))
    assert (
        whole.exit_code == 0
        and f"{folder}: comparison, 2 of 2 cells finished; files are unchanged" in whole.stdout
    )
    table = (folder / "comparison.csv").read_text()
    (folder / "comparison.csv").write_text(table.replace("FedProx", "FedProx2"))
    damaged = check(str(folder))
    assert (
        damaged.exit_code == 1
        and "comparison.csv does not match the finished runs" in damaged.stderr
    )
    (folder / "comparison.csv").write_text(table)
    shutil.rmtree(folder / "cells/all/fedprox")
    lacking = json.loads(check(str(folder), "--json").stdout)[-1]
    assert (lacking["complete"], lacking["begun"], lacking["cells"]) == (1, 1, 2)
    assert "1 of 2 cells finished, 1 not started" in check(str(folder)).stdout


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    result = check(str(tmp_path))
    assert result.exit_code == 2 and "holds no run, no seeds and no comparison" in result.stderr
