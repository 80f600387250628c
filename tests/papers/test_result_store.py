"""The store of runs: missing runs, kept runs, runs that are left out,
and a store that was damaged."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedkin.core.errors import ConfigError, DataError, StorageError
from fedkin.methods import FedAvg
from papers import __main__ as program
from papers import recipe, results_page
from papers.catalogue import PAPERS
from papers.fedgroup import recipes as fedgroup
from papers.fedgroup.recipes import MNIST, TABLE_III
from papers.fedsim import recipes as fedsim
from papers.recipe import Cell, Setting
from papers.result_store import (
    Job,
    carry_out,
    job_of,
    job_of_question,
    pending,
    read,
    seconds_of_rows,
    text_of,
)
from tests.conftest import ROOT

TINY = Setting(
    row="tiny",
    data="digits",
    data_options=(("clients", 12),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    rounds=3,
    seeds=(0, 1),
    seconds=7,
)


def fake(cell: Cell, seed: int) -> dict[str, Any]:
    return {
        "table": cell.table,
        "row": cell.setting.row,
        "column": cell.column,
        "seed": seed,
        "best": 0.5,
    }


def job(
    column: str = "FedAvg", setting: Setting = TINY, published: Any = None, **options: Any
) -> Job:
    cell = Cell(
        table="III",
        setting=setting,
        column=column,
        method=lambda m: FedAvg(),
        published=published,
        **options,
    )
    return job_of(cell, fake)


def run_all(jobs: list[Job], store: Path) -> list[dict[str, Any]]:
    return list(
        carry_out(pending([(job, job.seeds) for job in jobs], read(store, jobs).runs), store)
    )


def test_a_measured_run_is_kept_and_not_measured_again(tmp_path: Path) -> None:
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
    stored = read(store)
    assert [line["seed"] for line in stored.runs] == [0] and stored.damaged == [f"{store}, line 2"]
    run_all([job()], store)
    assert [line["seed"] for line in map(json.loads, store.read_text().splitlines())] == [0, 1]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    run_all([job()], store)
    store.write_text(store.read_text().rstrip("\n"))
    run_all([job(), job("FedProx")], store)
    assert [line["column"] for line in read(store).runs] == ["FedAvg"] * 2 + ["FedProx"] * 2


def test_a_store_that_cannot_be_written_is_named_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    never = Job(
        row="row",
        column="column",
        seeds=(0,),
        key={"row": "row"},
        measure=lambda seed: pytest.fail("run"),
        seconds=1,
        setting=str,
    )
    with pytest.raises(StorageError, match="cannot write"):
        list(carry_out([(never, 0)], tmp_path / "file" / "paper.jsonl"))


def test_how_long_a_run_takes() -> None:
    """The median of the row, whichever method; the recipe's estimate where nothing was measured."""
    of_tiny = {"table": "III", "row": "tiny", "column": "FedAvg"}
    lines = [
        {**of_tiny, "seed": seed, "seconds": seconds}
        for seed, seconds in enumerate((1.0, 30.0, 2.0))
    ]
    assert seconds_of_rows([job(), job("FedProx")], lines) == {"tiny": (2.0, True)}
    assert seconds_of_rows([job("FedProx")], lines) == {"tiny": (7.0, False)}
    without = [{**of_tiny, "seed": 0}]
    assert seconds_of_rows([job()], without) == {"tiny": (7.0, False)}


# --- left out: damaged lines, and runs of other settings

WHOLE = text_of(job().run(0))
DAMAGED = {
    "no JSON": b"nonsense",
    "cut off": WHOLE[:-9].encode(),
    "torn in its middle": WHOLE[:30].encode() + b"\x00\xff\xfe" + WHOLE[40:].encode(),
    "two in one": (WHOLE + WHOLE).encode(),
    "empty": b"",
    "a number": b"3",
    "a list": b"[]",
    "null": b"null",
    "nested without end": b"[" * 100_000,
    "no seed": text_of({k: v for k, v in job().run(0).items() if k != "seed"}).encode(),
    "a seed that is a bool": text_of(job().run(0) | {"seed": False}).encode(),
    "a seed that is a text": text_of(job().run(0) | {"seed": "0"}).encode(),
    "a seed that is no integer": text_of(job().run(0) | {"seed": 0.0}).encode(),
    "another figure": WHOLE.replace("0.5", "7.5").encode(),
    "a figure that is a text": WHOLE.replace("0.5", '"0.5"').encode(),
    "a figure that is none": WHOLE.replace("0.5", "NaN").encode(),
    "a figure that is gone": WHOLE.replace('"best": 0.5, ', "").encode(),
    "no checksum": json.dumps(job().run(0)).encode(),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named_and_left_out(tmp_path: Path, damaged: bytes) -> None:
    store = tmp_path / "paper.jsonl"
    after = text_of(job().run(1))
    store.write_bytes(b"\n".join([WHOLE.encode(), damaged, after.encode()]) + b"\n")
    for stored in (read(store), read(store, [job()])):
        assert [line["seed"] for line in stored.runs] == [0, 1] and not stored.unknown
        assert stored.damaged == [f"{store}, line 2"]
        assert stored.left_out() == [f"{store}, line 2: not a run, damaged"]


def test_each_damaged_line_is_numbered_and_its_run_is_repeated(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    run_all([job()], store)
    first, second = store.read_text().splitlines()
    store.write_text(f"nonsense\n{first}\n{second[:-5]}\n{{}}\n")
    assert read(store, [job()]).damaged == [f"{store}, line {number}" for number in (1, 3, 4)]
    assert [line["seed"] for line in run_all([job()], store)] == [1]
    # Nothing is deleted.
    assert store.read_text().startswith(f"nonsense\n{first}\n{second[:-5]}\n{{}}\n")


CHANGED = {
    "learning rate": replace(TINY, lr=0.2),
    "rounds": replace(TINY, rounds=4),
    "data": replace(TINY, data_options=(("clients", 13),)),
    "draw": replace(TINY, draws=(1,)),
}


@pytest.mark.parametrize("setting", CHANGED.values(), ids=CHANGED)
def test_a_changed_recipe_does_not_show_old_runs(tmp_path: Path, setting: Setting) -> None:
    store = tmp_path / "paper.jsonl"
    changed = job(setting=setting)
    run_all([job()], store)
    stored = read(store, [changed])
    assert not stored.runs and len(stored.unknown) == 2
    assert stored.left_out() == ["III, tiny, FedAvg: 2 runs of another setting"]
    assert len(run_all([changed], store)) == 2  # both are run again
    # And the old recipe's are kept.
    assert len(read(store, [changed]).runs) == len(read(store, [job()]).runs) == 2


def test_a_corrected_cell_does_not_show_old_runs(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    run_all([job()], store)
    assert not read(store, [job(revision=1)]).runs
    # These are not about the run.
    assert len(read(store, [job(published=12.0, variant_of="FedProx")]).runs) == 2


def test_a_run_on_the_draw_of_another_seed_is_unknown(tmp_path: Path) -> None:
    in_turn = job(setting=replace(TINY, draws=(7, 9)))
    store = tmp_path / "paper.jsonl"
    run_all([in_turn], store)
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    assert lines[0]["setting"] != lines[1]["setting"]
    runs = [{name: value for name, value in line.items() if name != "checksum"} for line in lines]
    store.write_text(text_of(runs[0] | {"seed": 1}) + "\n" + text_of(runs[1]) + "\n")
    stored = read(store, [in_turn])
    assert stored.runs == [runs[1]] and stored.left_out() == [
        "III, tiny, FedAvg: 1 run of another setting"
    ]


@pytest.mark.parametrize("setting", ["0123456789ab", "", None, 7, "none at all"])
def test_a_run_of_an_unknown_digest_is_left_out(tmp_path: Path, setting: object) -> None:
    line = {name: value for name, value in job().run(0).items() if name != "setting"}
    line |= {} if setting == "none at all" else {"setting": setting}
    (tmp_path / "paper.jsonl").write_text(text_of(line) + "\n")
    stored = read(tmp_path / "paper.jsonl", [job()])
    assert not stored.runs and stored.left_out() == ["III, tiny, FedAvg: 1 run of another setting"]


def test_a_run_of_no_job_is_left_out_under_its_name(tmp_path: Path) -> None:
    store = tmp_path / "paper.jsonl"
    runs = [
        {"table": "V", "row": ["a", "b"], "column": "FedSGD", "seed": 0},
        {"seed": 1},
        {"seed": 2},
    ]
    store.write_text("".join(text_of(run) + "\n" for run in runs))
    assert read(store, [job()]).left_out() == [
        "V, ['a', 'b'], FedSGD: 1 run of another setting",
        "a run without a name: 2 runs of another setting",
    ]


def test_the_same_run_once_more_is_no_second_seed(tmp_path: Path) -> None:
    """Two processes had the same queue; the first line counts."""
    store = tmp_path / "paper.jsonl"
    lines = run_all([job(), job("FedProx")], store)
    with store.open("a") as file:
        file.writelines(
            text_of(line | {"best": 0.7}) + "\n" for line in (lines[0], lines[0], lines[3])
        )
    stored = read(store, [job(), job("FedProx")])
    assert stored.runs == lines
    assert stored.left_out() == [
        "III, tiny, FedAvg: 2 runs stored again",
        "III, tiny, FedProx: 1 run stored again",
    ]


def test_a_seed_that_the_recipe_does_not_have_counts_only_where_it_was_asked_for(
    tmp_path: Path,
) -> None:
    store = tmp_path / "paper.jsonl"
    lines = list(carry_out([(job(), 0), (job(), 99)], store))
    stored = read(store, [job()])
    assert stored.runs == lines[:1]
    assert stored.left_out() == [
        "III, tiny, FedAvg: 1 run from a seed that the recipe does not have"
    ]
    assert read(store, [job()], any_seed=True).runs == lines


@dataclass(frozen=True)
class Toy:
    """A question that is no cell."""

    panel: str
    images: int


def test_a_question_is_known_by_its_fields_and_the_common_settings(tmp_path: Path) -> None:
    def ask(images: int = 5, **fixed: Any) -> Job:
        question = Toy("found", images)
        return job_of_question(
            question=question,
            seeds=(0,),
            measure=lambda q, s: {"panel": q.panel, "images": 5, "seed": s},
            row="r",
            column="c",
            seconds=1,
            fixed=fixed,
        )

    store = tmp_path / "paper.jsonl"
    run_all([ask(rounds=100)], store)
    assert len(read(store, [ask(rounds=100)]).runs) == 1
    for other in (ask(rounds=200), ask(6, rounds=100), ask()):
        assert read(store, [other]).left_out() == ["found: 1 run of another setting"]


# --- the page, from a store with faults

FEDAVG = next(
    job for job in PAPERS["fedgroup"].jobs() if job.key["table"] == "III" and job.row == MNIST.row
)
RUN = {"table": "III", "row": MNIST.row, "column": FEDAVG.column, "final": 0.8765, "seconds": 8.0}


def store_with_faults(folder: Path) -> None:
    """A run of today's recipe, a damaged one, and one of a recipe with another learning rate."""
    old = replace(next(c for c in TABLE_III if c.setting is MNIST), setting=replace(MNIST, lr=0.3))
    today = RUN | {"setting": FEDAVG.setting(0), "seed": 0, "best": 0.8931}
    damaged = text_of(today | {"seed": 1, "best": 0.1234})[:-1]
    changed = RUN | {"setting": job_of(old).setting(2), "seed": 2, "best": 0.2345}
    (folder / "fedgroup.jsonl").write_text(f"{text_of(today)}\n{damaged}\n{text_of(changed)}\n")


def test_the_page_names_the_runs_left_out_and_shows_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store_with_faults(tmp_path)
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    monkeypatch.setattr(program, "PAPERS", {"fedgroup": replace(PAPERS["fedgroup"], draw=None)})
    program.write(docs=tmp_path, tables=tmp_path)
    overview, text = (
        (tmp_path / name).read_text() for name in ("results.md", "results-fedgroup.md")
    )
    said = capsys.readouterr().err
    damaged = f"{tmp_path}/fedgroup.jsonl, line 2: not a run, damaged"
    changed = "III, MNIST-MCLR, FedAvg: 1 run of another"
    assert "\nLeft out of every count and table:\n" in overview
    assert f"* fedgroup: {damaged}\n" in overview
    assert f"* fedgroup: {changed} setting\n" in overview
    assert damaged in said and changed in said
    # Alone: the mean with the others would be 41.7.
    assert "| MNIST-MCLR | FedAvg | 89.3 | 89.3 |  | 1 | 87.6 | ✓ |" in text
    for number in ("12.3", "23.4", "23.5", "56.4", "50.8", "41.7"):
        assert f"| {number}" not in overview + text, number
    assert "| 1 of 43 |" in overview


def test_the_page_of_whole_stores_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_with_faults(tmp_path)
    store = tmp_path / "fedgroup.jsonl"
    store.write_text(store.read_text().splitlines()[0] + "\n")
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    monkeypatch.setattr(program, "PAPERS", {"fedgroup": replace(PAPERS["fedgroup"], draw=None)})
    program.write(docs=tmp_path, tables=tmp_path)
    assert "Left out of every count" not in (tmp_path / "results.md").read_text()


def test_a_wrong_note_overwrites_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the pages before the one with the note."""
    store_with_faults(tmp_path)
    (tmp_path / "fedgroup.md").write_text("{no-such-table; MNIST-MCLR; FedAvg}")
    (tmp_path / "results.md").write_text("mine")
    monkeypatch.setattr(results_page, "TEXTS", tmp_path)
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    monkeypatch.setattr(program, "PAPERS", {"fedgroup": replace(PAPERS["fedgroup"], draw=None)})
    with pytest.raises(ConfigError, match="no-such-table"):
        program.write(docs=tmp_path, tables=tmp_path)
    assert (tmp_path / "results.md").read_text() == "mine"
    assert not (tmp_path / "results-fedgroup.md").exists()


# --- the committed stores


@pytest.mark.parametrize("paper", PAPERS)
def test_every_line_of_a_committed_store_is_a_run_of_todays_recipes(paper: str) -> None:
    stored = read(ROOT / "papers" / "results" / f"{paper}.jsonl", PAPERS[paper].jobs())
    assert stored.left_out() == []


# --- recipes whose data are missing

CELLS = [*fedgroup.CELLS, *fedsim.CELLS]
NOT_TO_DOWNLOAD = {  # data -> the named file, and the way to get it
    "femnist": ("femnist_aj_pool.npz", "set FEDKIN_DATA to the folder that has FEMNIST/ in it"),
    "goodreads": (
        "fed_goodreads_counts.npz",
        "Set FEDKIN_DATA to the folder that has FedGoodreads/ in it",
    ),
    "mex": ("fed_mex_TESTONLY.npz", "Put train.json and test.json of Fed-MEx there"),
    "published": (
        "synthetic_fedsim_0_0_full.npz",
        "set FEDKIN_DATA to the folder that has synthetic/ in it",
    ),
}


@pytest.mark.parametrize("data", NOT_TO_DOWNLOAD)
def test_a_recipe_without_its_data_says_how_to_go_on_and_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDKIN_CACHE", str(tmp_path / "cache"))
    recipe.load.cache_clear()
    cell = next(cell for cell in CELLS if cell.setting.data == data)
    file, advice = NOT_TO_DOWNLOAD[data]
    with pytest.raises(
        DataError, match=f"{file} not found in {tmp_path}/data/.*{re.escape(advice)}"
    ):
        list(carry_out([(job_of(cell), 0)], tmp_path / "paper.jsonl"))
    stored = read(tmp_path / "paper.jsonl", [job_of(cell)])
    assert (stored.runs, stored.left_out()) == ([], [])
    assert pending([(job_of(cell), (0,))], stored.runs)  # it is still to be run
