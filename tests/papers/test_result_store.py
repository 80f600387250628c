"""The store of runs: what is missing, what is kept, what is left out, and a store that was damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedkin.core.errors import DataError, StorageError
from fedkin.methods import FedAvg
from papers import __main__ as program
from papers.catalogue import PAPERS
from papers.fedgroup.recipes import MNIST
from papers.recipe import Cell, Setting, measure
from papers.result_store import Job, carry_out, job_of, job_of_question, pending, read, seconds_of_rows
from tests.conftest import ROOT

TINY = Setting("tiny", "digits", (("clients", 12),), "mclr", (), 0.1, 2, epochs=1, rounds=3, seeds=(0, 1), seconds=7)


def fake(cell: Cell, seed: int) -> dict[str, Any]:
    return {"table": cell.table, "row": cell.setting.row, "column": cell.column, "seed": seed, "best": 0.5}


def job(column: str = "FedAvg", setting: Setting = TINY, **options: Any) -> Job:
    return job_of(Cell("III", setting, column, lambda m: FedAvg(), None, **options), fake)


def run_all(jobs: list[Job], store: Path) -> list[dict[str, Any]]:
    return list(carry_out(pending([(job, job.seeds) for job in jobs], read(store, jobs).runs), store))


def test_what_is_measured_is_kept_and_not_measured_again(tmp_path: Path) -> None:
    store = tmp_path / "results" / "paper.jsonl"
    assert [line["seed"] for line in run_all([job()], store)] == [0, 1]
    assert [(line["column"], line["seed"]) for line in run_all([job(), job("FedProx")], store)] == [
        ("FedProx", 0),
        ("FedProx", 1),
    ]
    assert len(read(store).runs) == 4 and not run_all([job(), job("FedProx")], store)


def test_each_run_is_in_the_store_before_the_next_begins(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    runs = carry_out([(job(), 0), (job(), 1)], store)
    next(runs)
    assert [line["seed"] for line in read(store).runs] == [0]


def test_other_seeds_than_the_recipes_may_be_asked_for() -> None:
    todo = pending([(job(), range(4))], [job().run(2)])
    assert [seed for _, seed in todo] == [0, 1, 3]


def test_a_torn_last_line_is_run_again_and_the_store_mended(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    run_all([job()], store)
    store.write_text(store.read_text()[:-9])
    assert [line["seed"] for line in read(store).runs] == [0]
    run_all([job()], store)
    assert [line["seed"] for line in map(json.loads, store.read_text().splitlines())] == [0, 1]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    run_all([job()], store)
    store.write_text(store.read_text().rstrip("\n"))
    run_all([job(), job("FedProx")], store)
    assert [line["column"] for line in read(store).runs] == ["FedAvg"] * 2 + ["FedProx"] * 2


def test_a_store_that_cannot_be_written_is_told_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    never = Job("row", "column", (0,), {"row": "row"}, lambda seed: pytest.fail("run"), 1, str)
    with pytest.raises(StorageError, match="cannot write"):
        list(carry_out([(never, 0)], tmp_path / "file" / "paper.jsonl"))


def test_how_long_a_run_takes() -> None:
    """The median of the row, whichever method; the recipe's estimate where nothing was measured."""
    of_tiny = {"table": "III", "row": "tiny", "column": "FedAvg"}
    lines = [{**of_tiny, "seed": seed, "seconds": seconds} for seed, seconds in enumerate((1.0, 30.0, 2.0))]
    assert seconds_of_rows([job(), job("FedProx")], lines) == {"tiny": (2.0, True)}
    assert seconds_of_rows([job("FedProx")], lines) == {"tiny": (7.0, False)}
    without = [{**of_tiny, "seed": 0}]
    assert seconds_of_rows([job()], without) == {"tiny": (7.0, False)}
