"""Running a grid: every cell equals the run alone, nothing is made or run twice, and failures are
named."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedkin as fk
from fedkin.analysis.compare import comparison_folder
from fedkin.analysis.compare.comparison import RANK_TESTS, RANKS, Comparison
from fedkin.analysis.compare.comparison_state import comparison_state
from fedkin.config import comparison as comparison_file
from fedkin.config import registry
from fedkin.config import run as configuration
from fedkin.core.errors import CheckpointError, ConfigError, MethodError, StorageError
from fedkin.measures.table import COMPARED
from fedkin.reporting import comparison_progress, comparison_tables
from fedkin.reporting.comparison_findings import findings
from fedkin.reporting.comparison_tables import RANKS_LATEX
from fedkin.run.run import Run
from fedkin.run.simulate import execute
from tests.analysis.test_repeat import (
    NEVER_THE_SAME,
    TRAIN,
    files,
    release_programs,
    same,
    without_seconds,
)

# All clients are selected in every round, so that shapes are the same from any seed.
QUICK = [
    "data.clients=8",
    "run.rounds=3",
    "run.cohort=8",
    "run.checkpoint_every=2",
    "local.epochs=1",
]
PLANTED = (
    "data.name=planted",
    "data.base=digits",
    "data.kind=label_permutation",
    "data.clusters=2",
    "data.clients=6",
    "data.samples=60",
    "run.rounds=2",
    "run.cohort=6",
    "local.epochs=1",
)
GRID: dict[str, Any] = {"local.lr": [0.01, 0.1]}
METHODS = ["fedavg", "fedprox"]
SECONDS = {"comparison.csv"} | NEVER_THE_SAME  # they hold them
LAST = "cells/lr-0.1/fedprox/1"


class Stop(Exception):
    pass


def compare(
    out: Path,
    *more: str,
    methods: Any = METHODS,
    seeds: Any = 2,
    grid: Any = GRID,
    **options: Any,
) -> Comparison:
    return fk.compare(
        None, *QUICK, *more, out=out, methods=methods, seeds=seeds, grid=grid, **options
    )


@pytest.fixture(scope="module")
def made() -> Iterator[list[str]]:
    """Names of everything that was made of the configuration's choices."""
    names: list[str] = []
    make = registry.Entry.make

    def noted(entry: registry.Entry, *first: Any) -> Any:
        names.append(entry.name)
        return make(entry, *first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.Entry, "make", noted)
        yield names


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, made: list[str]
) -> tuple[Path, Comparison, list[str]]:
    """Two settings, two methods, two seeds, not interrupted; and the names of all that was made."""
    out = tmp_path_factory.mktemp("whole") / "compared"
    made.clear()
    found = compare(out)
    return out, found, list(made)


@pytest.fixture
def copy(whole: tuple[Path, Comparison, list[str]], tmp_path: Path) -> Path:
    return shutil.copytree(whole[0], tmp_path / "copy")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: (folder / path).read_bytes() for path in files(folder)}


# --- cells


@pytest.mark.parametrize(("lr", "method", "seed"), [(0.01, "fedavg", 0), (0.1, "fedprox", 1)])
def test_a_cell_is_the_run_alone(
    whole: tuple[Path, Comparison, list[str]], tmp_path: Path, lr: float, method: str, seed: int
) -> None:
    sections: dict[str, Any] = {"data": {"name": "digits", "clients": 8}, "model": {"name": "mclr"}}
    run = {"rounds": 3, "cohort": 8, "checkpoint_every": 2, "seed": seed}
    sections |= {"method": {"name": method}, "local": {"epochs": 1, "lr": lr}, "run": run}
    execute(configuration.from_dict(sections), out=tmp_path / "alone")
    cell = whole[0] / f"cells/lr-{lr}/{method}/{seed}"
    same(cell, tmp_path / "alone")
    assert without_seconds(cell / "summary.json") == without_seconds(
        tmp_path / "alone/summary.json"
    )


def test_cells_are_the_product_and_no_two_alike(whole: tuple[Path, Comparison, list[str]]) -> None:
    out, found, _ = whole
    assert (found.settings, found.methods, found.seeds) == (
        ("lr 0.01", "lr 0.1"),
        ("FedAvg", "FedProx"),
        (0, 1),
    )
    assert (found.missing, found.failed, found.folder) == ([], {}, out)
    told = [(p.parts[-4], p.parts[-3], p.parts[-2]) for p in out.glob("cells/*/*/*/config.toml")]
    assert sorted(told) == [
        (f"lr-{r}", m, s) for r in ("0.01", "0.1") for m in METHODS for s in "01"
    ]
    assert len({path.read_bytes() for path in out.glob("cells/*/*/*/metrics.jsonl")}) == 8
    assert "2 settings x 2 methods x 2 seeds: 8 finished, 0 missing" in repr(found)


def test_data_are_made_once_and_a_model_once_a_setting(
    whole: tuple[Path, Comparison, list[str]],
) -> None:
    names = whole[2]
    assert (names.count("digits"), names.count("mclr")) == (1, 2)


def test_other_data_are_made_for_the_checks_and_again_for_the_runs(
    tmp_path: Path, made: list[str]
) -> None:
    """Two data sets are never in memory at once. The data of the first setting are checked last,
    and kept."""
    made.clear()
    compare(tmp_path / "c", "run.rounds=1", grid={"data.classes_per_client": [2, 3]}, seeds=1)
    assert (made.count("digits"), made.count("mclr")) == (3, 3)


def test_more_seeds_compile_no_more(tmp_path: Path) -> None:
    def compiled(seeds: int) -> int:
        release_programs()
        compare(tmp_path / str(seeds), "run.rounds=1", grid=None, seeds=seeds)
        return TRAIN._cache_size()

    assert compiled(3) == compiled(1) > 0


def test_a_kept_comparison_is_read_again(whole: tuple[Path, Comparison, list[str]]) -> None:
    out, found, _ = whole
    again = Comparison.load(out)
    assert again.summary() == found.summary() == json.loads((out / "summary.json").read_text())
    assert (again.grid, again.folder) == (found.grid, out)
    assert [run.config.seed for run in again.runs("lr 0.1", "FedProx")] == [0, 1]


def test_a_target_decides_which_methods_reach_it(copy: Path) -> None:
    """The accuracies come from the runs' own records."""
    found = Comparison.load(copy)
    row = found.table().iloc[1]
    runs = [Run.load(copy / f"cells/lr-0.01/fedprox/{seed}") for seed in (0, 1)]
    assert row["final_accuracy"] == pytest.approx(
        np.mean([run.records[-1]["accuracy"] for run in runs])
    )
    assert row["bottom_decile"] == pytest.approx(
        np.mean([run.records[-1]["bottom_decile"] for run in runs])
    )
    assert row["bytes_up"] == np.mean([run.records[-1]["bytes_up"] for run in runs]) > 0


# --- stopped, and gone on with


@pytest.mark.parametrize(("number", "round"), [(1, 0), (3, 1), (8, 3)])
def test_stopped_anywhere_it_goes_on_to_the_same_end(
    whole: tuple[Path, Comparison, list[str]], tmp_path: Path, number: int, round: int
) -> None:
    """It stops after a round, in the cell with this ``number``."""
    begun: list[int] = []

    def stop(record: dict[str, Any]) -> None:
        begun.extend([1] * (record["round"] == 0))
        if (len(begun), record["round"]) == (number, round):
            raise Stop

    again: list[int] = []
    with pytest.raises(Stop):
        compare(tmp_path / "c", on_round=stop)
    halfway = Comparison.load(tmp_path / "c")
    assert len(halfway.finished) == number - 1 and len(halfway.missing) == 9 - number
    compare(tmp_path / "c", resume=True, on_round=lambda record: again.append(record["round"]))
    same(whole[0], tmp_path / "c", SECONDS)
    # The rounds that have a checkpoint.
    last_kept = max(kept for kept in (0, 2, 3) if kept <= round)
    assert again == [*range(last_kept + 1, 4), *[0, 1, 2, 3] * (8 - number)]


def test_going_on_runs_only_the_missing_cells(copy: Path, made: list[str]) -> None:
    made.clear()
    compare(copy, resume=True, on_round=lambda _: pytest.fail("nothing was missing"))
    assert not {"digits", "mclr"} & set(made)
    shutil.rmtree(copy / LAST)
    assert Comparison.load(copy).missing == [("lr 0.1", "FedProx", 1)]
    rounds: list[tuple[str, int]] = []
    compare(
        copy,
        resume=True,
        on_round=lambda record: rounds.append((record["method"], record["round"])),
    )
    assert rounds == [("fedprox", round) for round in range(4)]


def test_more_seeds_are_added_and_fewer_are_not_counted(
    whole: tuple[Path, Comparison, list[str]], copy: Path
) -> None:
    rounds: list[int] = []
    grid = {"local.lr": [0.01, 0.1]}
    three = compare(
        copy,
        resume=True,
        seeds=3,
        grid=grid,
        on_round=lambda record: rounds.append(record["round"]),
    )
    assert rounds == [0, 1, 2, 3] * 4
    assert (three.seeds, len(three.finished), Comparison.load(copy).seeds) == (
        (0, 1, 2),
        12,
        (0, 1, 2),
    )
    same(whole[0] / "cells/lr-0.1/fedavg/1", copy / "cells/lr-0.1/fedavg/1")
    one = compare(copy, resume=True, seeds=1, on_round=lambda _: pytest.fail("nothing was missing"))
    assert (one.seeds, len(one.finished), one.table()["seeds"].tolist()) == ((0,), 4, [1] * 4)
    assert (copy / "cells/lr-0.1/fedavg/2/summary.json").exists()


# --- failures


def test_a_cell_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "c"
    found = compare(
        out,
        "run.rounds=1",
        methods=["oracle", "ifca"],
        grid={"method.clusters": [2, 9], "run.cohort": [4, 9]},
    )
    assert set(found.finished) == {
        ("cohort 4", "IFCA, clusters 2", 0),
        ("cohort 4", "IFCA, clusters 2", 1),
    }
    assert set(found.failed) == set(found.missing) and len(found.failed) == 10
    assert "needs the true clusters" in found.failed["cohort 4", "Oracle", 0]
    assert (
        "needs at least 9 clients (clusters = 9), and there are 8"
        in found.failed["cohort 4", "IFCA, clusters 9", 1]
    )
    assert "run.cohort" in found.failed["cohort 9", "IFCA, clusters 2", 0]
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 5  # one for all seeds of a method in a setting
    assert all(warning.startswith("left out of the comparison: ") for warning in warnings)
    assert any(": cohort 4, IFCA, clusters 9: " in warning for warning in warnings)
    kept = {str(p.relative_to(out / "cells")) for p in (out / "cells").glob("*/*/*")}
    assert kept == {"cohort-4/ifca-clusters-2/0", "cohort-4/ifca-clusters-2/1"}
    told = json.loads((out / "summary.json").read_text())
    assert len(told["failed"]) == 10
    assert (
        told["failed"][0]["cell"] == ["cohort 4", "Oracle", 0]
        and "true clusters" in told["failed"][0]["reason"]
    )


@pytest.fixture(scope="module")
def one_refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison, list[int]]:
    """FedAvg and Oracle, which needs true clusters that the data do not have; and the rounds that
    were run."""
    out = tmp_path_factory.mktemp("refused") / "c"
    rounds: list[int] = []
    found = compare(
        out,
        "run.rounds=1",
        on_round=lambda record: rounds.append(record["round"]),
        methods=["fedavg", "oracle"],
        grid=None,
        seeds=3,
    )
    comparison_tables.write(found, out)
    return out, found, rounds


def test_a_refusal_of_a_method_is_found_before_the_first_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said_at_first: list[str] = []

    def note(record: dict[str, Any]) -> None:
        if not said_at_first:
            said_at_first.extend(one.getMessage() for one in caplog.records)

    compare(
        tmp_path / "c",
        "run.rounds=1",
        methods=["fedavg", "oracle"],
        grid=None,
        seeds=2,
        on_round=note,
    )
    assert len(said_at_first) == 1 == len(caplog.records)
    assert (
        "left out of the comparison: Oracle: " in said_at_first[0]
        and "true clusters" in said_at_first[0]
    )


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        (
            {"name": "pfedme", "strength": 15},
            ["local.lr=0.2"],
            "diverges at a learning rate of 0.2",
        ),
        ({"name": "ifca", "clusters": 9}, [], "IFCA needs at least 9 clients"),
        ({"name": "flhc", "clusters": 9}, [], "FLHC needs at least 9 clients"),
        ({"name": "athena"}, [], "trains a detector"),
        ({"name": "fedper"}, [], "hidden layers"),
    ],
)
def test_each_kind_of_refusal_is_found_before_the_first_run(
    method: dict[str, Any], settings: list[str], words: str, tmp_path: Path
) -> None:
    """Refusals by number of clients, by model, and by the options with the local training."""

    def first_round(record: dict[str, Any]) -> None:
        raise Stop

    with pytest.raises(ConfigError, match="no run of the comparison succeeded") as refused:
        compare(
            tmp_path / "c",
            *settings,
            methods={"one": method},
            grid=None,
            seeds=3,
            on_round=first_round,
        )
    assert words in str(refused.value)


def test_the_reason_stands_in_every_table(one_refused: tuple[Path, Comparison, list[int]]) -> None:
    out, found, rounds = one_refused
    assert rounds == [0, 1] * 3
    assert len(found.not_run) == 1 and found.not_run[0].startswith("Oracle: ")
    reason = found.failed["", "Oracle", 0]
    assert "true clusters" in reason

    (row,) = [
        line
        for line in (out / "comparison.md").read_text().splitlines()
        if line.startswith("| Oracle | 0 |")
    ]
    assert f"| not run: {reason} |" in row
    assert "fewer than 3 seeds" not in (out / "comparison.md").read_text()
    (tex,) = [
        line
        for line in (out / "comparison.tex").read_text().splitlines()
        if line.startswith("Oracle & 0 &")
    ]
    assert r"\multicolumn{8}{l}{not run: " in tex and "true clusters" in tex
    table = pd.read_csv(out / "comparison.csv")
    assert table["reason"].isna().tolist()[0] and table["reason"].tolist()[1] == reason
    told = json.loads((out / "summary.json").read_text())
    assert told["table"][1]["reason"] == reason and told["table"][0]["reason"] is None
    assert reason in fk.report(out).read_text()

    console = Console(width=100, record=True, file=io.StringIO())
    for shown in comparison_progress.tables(found, console=console):
        console.print(shown)
    text = " ".join(console.export_text().split())
    assert "Oracle: not run: " in text and "true clusters" in text


def test_the_reason_is_read_again_and_a_damaged_file_of_reasons_is_left_out(
    one_refused: tuple[Path, Comparison, list[int]], tmp_path: Path
) -> None:
    out = shutil.copytree(one_refused[0], tmp_path / "c")
    again = Comparison.load(out)
    assert again.failed == one_refused[1].failed
    assert comparison_state(out).problems == []
    (out / "failed.json").write_text("[1")
    assert Comparison.load(out).failed == {}


def test_a_run_that_failed_is_tried_again_and_its_reason_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise MethodError("no model came of it")

    with monkeypatch.context() as patch:
        patch.setattr(fk.FedAvg, "round", failing)
        first = compare(tmp_path / "c", "run.rounds=1", methods=METHODS, grid=None, seeds=1)
    assert "no model came of it" in first.failed["", "FedAvg", 0]
    again = compare(
        tmp_path / "c", "run.rounds=1", methods=METHODS, grid=None, seeds=1, resume=True
    )
    assert not again.failed and ("", "FedAvg", 0) in again.finished


def test_ranks_say_why_they_are_missing(tmp_path: Path) -> None:
    """Oracle is refused in both settings, and has no rank; IFCA is refused where there are fewer
    clients than K."""
    methods = {"fedavg": "fedavg", "oracle": "oracle", "ifca": {"name": "ifca", "clusters": 9}}
    found = compare(
        tmp_path / "c", "run.rounds=1", methods=methods, grid={"data.clients": [8, 10]}, seeds=1
    )
    why = (
        "ranks are over 1 of 2 settings: oracle could not be run in any setting; clients 8 has no "
        "score of ifca from every seed"
    )
    assert found.why_ranks_are_missing() == why == found.summary()["ranks_missing"]
    assert why in findings(found)
    assert set(found.ranks().average) == {"fedavg", "ifca"}


@dataclass(frozen=True)
class Faulty(fk.FedAvg):
    """A user's method that raises an error."""

    def round(self, world: Any, state: Any, cohort: Any, stream: Any) -> Any:
        """No round."""
        raise ZeroDivisionError("no clients to divide by")


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_a_users_own_method_stops_no_other_cell(tmp_path: Path, jobs: int) -> None:
    methods = {"mine": Faulty(), "fedavg": "fedavg"}
    found = compare(tmp_path / "c", "run.rounds=1", methods=methods, seeds=1, grid={}, jobs=jobs)
    assert list(found.finished) == [("", "fedavg", 0)]
    assert found.failed == {("", "mine", 0): "ZeroDivisionError: no clients to divide by"}


def test_data_that_one_setting_lacks_stop_no_other(tmp_path: Path) -> None:
    found = compare(
        tmp_path / "c", "run.rounds=1", methods=["fedavg"], seeds=1, grid={"data.clients": [0, 8]}
    )
    assert list(found.finished) == [("clients 8", "FedAvg", 0)]
    assert "data: " in found.failed["clients 0", "FedAvg", 0]


def test_where_every_cell_fails_nothing_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(
        ConfigError, match=r"no run of the comparison succeeded; .*at most .*\(8\), got 9"
    ):
        compare(tmp_path / "deep/c", "run.cohort=9")
    assert not list(tmp_path.iterdir()) and not caplog.records
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep me")
    with pytest.raises(ConfigError, match="no run of the comparison succeeded"):
        compare(tmp_path / "mine", "run.cohort=9")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.toml", b"[run", "config.toml"),
        ("config.toml", None, "config.toml"),
        ("metrics.jsonl", b"", "metrics.jsonl"),
        ("metrics.jsonl", None, "metrics.jsonl"),
        ("metrics.jsonl", b"{\n", "metrics.jsonl"),
        ("clients.parquet", b"nothing", "clients.parquet"),
        ("clients.parquet", None, "clients.parquet"),
        ("checkpoints/round-000003.safetensors", b"x", "can be read"),
    ],
)
def test_a_damaged_cell_is_refused_and_left_as_it_is(
    copy: Path, file: str, content: bytes | None, words: str
) -> None:
    if content is None:
        (copy / LAST / file).unlink()
    else:
        (copy / LAST / file).write_bytes(content)
    if "checkpoints" in file:  # an older checkpoint serves; then all of them are gone
        for path in (copy / LAST / "checkpoints").iterdir():
            path.write_bytes(b"x")
    before = contents(copy)
    with pytest.raises(CheckpointError, match=words):
        compare(copy, resume=True)
    assert contents(copy) == before


@pytest.mark.parametrize("end", ["finished", "begun"])
@pytest.mark.parametrize(
    "other", ["cells/lr-0.1/fedprox/0", "cells/lr-0.1/fedavg/1", "cells/lr-0.01/fedprox/1"]
)
def test_another_run_in_a_cells_place_is_refused(copy: Path, other: str, end: str) -> None:
    shutil.rmtree(copy / LAST)
    shutil.copytree(copy / other, copy / LAST)
    if end == "begun":
        (copy / LAST / "summary.json").unlink()
    before = contents(copy / "cells")
    with pytest.raises(CheckpointError, match="fedprox/1 holds"):
        compare(copy, resume=True)
    assert contents(copy / "cells") == before


def test_data_that_changed_since_are_noticed(tmp_path: Path) -> None:
    def own(shift: float) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(shift, size=(80, 3)).astype(np.float32)
        np.savez(
            tmp_path / "own.npz",
            x=x,
            y=(x[:, 0] > 0).astype(np.int64),
            client_id=np.repeat(np.arange(4), 20),
        )

    compared = partial(
        fk.compare,
        tmp_path / "s.toml",
        "data.name=file",
        f"data.path={tmp_path / 'own.npz'}",
        out=tmp_path / "c",
    )
    text = '[compare]\nmethods = ["fedavg"]\n[data]\nname = "file"\npath = "x"\n'
    text += "[run]\nrounds = 1\ncohort = 4\n"
    (tmp_path / "s.toml").write_text(text)
    own(0.0)
    compared(seeds=1)
    # Written again, with the same content.
    own(0.0)
    assert len(compared(seeds=2, resume=True).finished) == 2
    own(0.5)
    with pytest.raises(CheckpointError, match="other data"):
        compared(seeds=3, resume=True)
    assert not (tmp_path / "c/cells/all/fedavg/2").exists()


# --- folders


def test_a_comparison_of_another_grid_is_refused(copy: Path, tmp_path: Path) -> None:
    before = contents(copy)
    for options, words in (
        ({"methods": ["fedavg"]}, "a comparison with other methods"),
        ({"grid": {"local.lr": [0.01, 0.2]}}, "a comparison with other settings"),
        (
            {"grid": {"local.lr": [0.01, 0.1], "method.mu": [0.5]}},
            "a comparison with other methods",
        ),
    ):
        with pytest.raises(CheckpointError, match=words):
            compare(copy, resume=True, **options)
        with pytest.raises(
            StorageError, match=f"already holds a comparison with other {words.split()[-1]}"
        ):
            compare(copy, **options)
    with pytest.raises(
        StorageError, match=r"already holds this comparison; resume it: --resume .* --seeds"
    ):
        compare(copy)
    with pytest.raises(StorageError, match="already holds a run"):
        compare(copy / LAST)
    with pytest.raises(CheckpointError, match="nowhere holds no comparison"):
        compare(tmp_path / "nowhere", resume=True)
    with pytest.raises(CheckpointError, match="holds no comparison"):
        Comparison.load(tmp_path)
    assert contents(copy) == before


def test_invalid_arguments_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for options, words in (
        ({"by": "fianl"}, "did you mean 'final'"),
        ({"seeds": 0}, "seeds"),
        ({"methods": ["nothing"]}, "unknown method"),
        ({"grid": {"local.lr": []}}, "no cell"),
    ):
        with pytest.raises(ConfigError, match=words):
            compare(tmp_path / "c", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "seeds = [", "seeds = []\n", "seeds = 3\n"])
def test_a_damaged_description_is_refused(copy: Path, text: str) -> None:
    (copy / "comparison.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"comparison\.toml"):
        Comparison.load(copy)
    with pytest.raises(ConfigError, match=r"comparison\.toml"):
        compare(copy, resume=True)


def test_measures_are_names_of_figures(whole: tuple[Path, Comparison, list[str]]) -> None:
    summary = whole[1].runs("lr 0.1", "FedAvg")[0].summary()
    # Which has validation samples only.
    assert set(COMPARED) - {"validation_accuracy"} <= set(summary)


def test_agreement_with_true_clusters_is_in_the_table_and_in_words(tmp_path: Path) -> None:
    found = fk.compare(
        None,
        *PLANTED,
        methods=["fedavg", "ifca"],
        seeds=1,
        out=tmp_path / "c",
    )
    row = found.table().set_index("method").loc["IFCA"]
    assert row["ari"] == found.finished["", "IFCA", 0].summary()["ari"]
    (line,) = [line for line in findings(found) if "true clusters" in line]
    assert f"IFCA {row['ari']:.2f}" in line
    unknown = fk.compare(None, *QUICK, methods=["fedavg"], seeds=1, out=tmp_path / "d")
    assert "ari" not in unknown.table() and not any(
        "true clusters" in line for line in findings(unknown)
    )


@pytest.mark.parametrize("name", [RANKS, RANK_TESTS, RANKS_LATEX, "ranks.png", "ranks.svg"])
def test_a_new_comparison_overwrites_no_file_of_ranks(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(StorageError, match=name):
        comparison_folder.create(tmp_path, comparison_file.load(None, QUICK, ["fedavg"], 1))
    assert (tmp_path / name).read_text() == "mine"
