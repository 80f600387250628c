"""The queue of missing runs: their order, the time that they have, and how an interrupted one goes
on."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedkin.core.errors import ConfigError, DataError
from papers import __main__ as program
from papers import run_queue
from papers.catalogue import PAPERS, Paper, Table, tables
from papers.result_store import Job, Line, keep, read
from papers.run_queue import carry_out, queue

SECONDS = {"A": 10, "B": 6, "C": 60}


@dataclass
class Workbench:
    """A catalogue of three jobs whose runs take no time: they are noted, and a clock is put
    forward."""

    folder: Path
    clock: float = 0.0
    started: list[str] = field(default_factory=list)
    # How many lines the store had when each run began.
    stored: list[int] = field(default_factory=list)
    failing: dict[str, BaseException] = field(default_factory=dict)

    def measure(self, row: str, seed: int) -> dict[str, Any]:
        self.stored.append(len(read(self.store).runs))
        self.started.append(f"{row}{seed}")
        self.clock += SECONDS[row]
        if f"{row}{seed}" in self.failing:
            raise self.failing[f"{row}{seed}"]
        return {"row": row, "seed": seed, "seconds": SECONDS[row]}

    def job(
        self, row: str, seeds: tuple[int, ...], published: bool = True, resumable: bool = False
    ) -> Job:
        def measure(seed: int) -> dict[str, Any]:
            return self.measure(row, seed)

        return Job(
            row=row,
            column="method",
            seeds=seeds,
            key={"row": row},
            measure=measure,
            seconds=SECONDS[row],
            setting=lambda seed: f"of {row}",
            published=published,
            resumable=resumable,
        )

    @property
    def store(self) -> Path:
        return self.folder / "toy.jsonl"

    def keep(self, row: str, seed: int, setting: str = "", **figures: Any) -> None:
        with self.store.open("a"):
            keep(
                {"setting": setting or f"of {row}", "row": row, "seed": seed, **figures}, self.store
            )

    def carry_out(self, hours: float | None = None, workers: int = 1) -> list[str]:
        """Which runs were made."""
        return [
            f"{line['row']}{line['seed']}"
            for line in carry_out(self.queue(), self.folder, hours, workers)
        ]

    def queue(self) -> list[run_queue.QueuedRun]:
        return queue(self.folder)


class InThisProcess(Executor):
    """A pool whose runs are done when they are submitted."""

    _processes = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    bench = Workbench(tmp_path)
    jobs = (
        bench.job("A", (0, 1, 2)),
        bench.job("B", (0, 1), published=False),
        bench.job("C", (0,)),
    )
    toy = Table(
        name="toy", title="Toy", statistic="-", rule="-", jobs=jobs, compare=lambda results: []
    )
    monkeypatch.setattr(run_queue, "PAPERS", {"toy": Paper("toy", "Toy", (toy,))})
    monkeypatch.setattr(run_queue, "_pool", lambda workers: InThisProcess())
    monkeypatch.setattr(run_queue, "time", SimpleNamespace(monotonic=lambda: bench.clock))
    return bench


def names(runs: list[run_queue.QueuedRun]) -> list[str]:
    return [f"{run.job.row}{run.seed}" for run in runs]


def test_the_most_informative_run_for_its_time_comes_first(bench: Workbench) -> None:
    """By hand: A takes 10 s and has 1, 1/4 and 1/9 by 10 s. B, not the paper's own, has half of 1
    and 1/4 by 6 s. C has 1 by 60 s. With 1/(n + 1) for the square A's third would come before C,
    without the half B before A."""
    rates = {"A0": 1 / 10, "B0": 1 / 12, "A1": 1 / 40, "B1": 1 / 48, "C0": 1 / 60, "A2": 1 / 90}
    assert names(bench.queue()) == list(rates)
    assert [run.rate for run in bench.queue()] == pytest.approx(list(rates.values()))


def test_a_run_behind_others_is_worth_less_whichever_seed_it_has(bench: Workbench) -> None:
    bench.keep("A", 2, seconds=10)
    assert [(f"{run.job.row}{run.seed}", run.value) for run in bench.queue()] == [
        ("B0", 1 / 2),
        ("A0", 1 / 4),
        ("B1", 1 / 8),
        ("C0", 1),
        ("A1", 1 / 9),
    ]


def test_a_run_of_another_setting_fills_no_place(bench: Workbench) -> None:
    """Nor does it say how long a run takes."""
    bench.keep("A", 0, setting="of a recipe that was changed", seconds=2000)
    assert names(bench.queue()) == ["A0", "B0", "A1", "B1", "C0", "A2"]


def test_measured_seconds_win_over_the_recipes_estimate(bench: Workbench) -> None:
    """The row's runs took 2000 s, so that its next ones come last."""
    bench.keep("A", 0, seconds=2000)
    assert names(bench.queue()) == ["B0", "B1", "C0", "A1", "A2"]
    assert bench.queue()[-1].seconds == 2000


def test_only_selected_runs_are_queued(bench: Workbench) -> None:
    a, b, _ = run_queue.PAPERS["toy"].jobs()
    assert names(queue(bench.folder, {"toy": [b]})) == ["B0", "B1"]
    assert names(queue(bench.folder, {"toy": [a, b]}, [1])) == ["A1", "B1"]
    assert names(queue(bench.folder, {"other": [a, b]})) == []  # keys of another paper
    assert names(queue(bench.folder, seeds=[7])) == []  # a seed that no recipe has


def test_runs_are_made_in_their_order_and_each_is_stored_before_the_next(bench: Workbench) -> None:
    assert bench.carry_out() == bench.started == ["A0", "B0", "A1", "B1", "C0", "A2"]
    assert bench.stored == [0, 1, 2, 3, 4, 5]
    assert bench.queue() == [] and bench.carry_out() == []


def test_a_run_that_is_too_long_for_the_time_left_is_passed_over_for_a_shorter_one(
    bench: Workbench,
) -> None:
    """After A0, B0, A1 and B1 32 of 50 seconds are gone: 18 are too few for C (60 s), and enough
    for A2 (10 s)."""
    assert bench.carry_out(hours=50 / 3600) == ["A0", "B0", "A1", "B1", "A2"]
    assert names(bench.queue()) == ["C0"] and bench.clock == 42


class NeverDone(Executor):
    """A pool whose runs do not end."""

    _processes = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Future()


def test_a_resumable_run_uses_the_time_that_is_left_and_is_stopped_at_its_end(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C takes 60 s. It is begun when no other run fits, and the queue returns without it."""
    table = run_queue.PAPERS["toy"].tables[0]
    jobs = (bench.job("A", (0, 1)), bench.job("C", (0,), resumable=True))
    toy = Paper("toy", "Toy", (replace(table, jobs=jobs),))
    monkeypatch.setattr(run_queue, "PAPERS", {"toy": toy})
    assert bench.carry_out(hours=25 / 3600) == ["A0", "A1", "C0"]

    bench.store.unlink()
    monkeypatch.setattr(run_queue, "_pool", lambda workers: NeverDone())
    only_c = queue(bench.folder, {"toy": [jobs[1]]})
    assert not list(carry_out(only_c, bench.folder, 0.05 / 3600, workers=1))
    assert not read(bench.store).runs


def test_a_run_that_ends_exactly_in_time_is_made(bench: Workbench) -> None:
    assert bench.carry_out(hours=16 / 3600) == ["A0", "B0"]
    assert bench.carry_out(hours=5.9 / 3600) == []  # the shortest takes 6 s


def test_as_many_runs_as_processes_are_under_way(bench: Workbench) -> None:
    """Three at a time: the fourth begins when the first three are in the store."""
    assert sorted(bench.carry_out(workers=3)) == sorted(["A0", "B0", "A1", "B1", "C0", "A2"])
    assert bench.started == ["A0", "B0", "A1", "B1", "C0", "A2"]
    assert bench.stored == [0, 0, 0, 3, 3, 3]


def test_an_interrupted_queue_goes_on_with_the_missing_runs(bench: Workbench) -> None:
    bench.failing["A1"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench.carry_out()
    assert [f"{line['row']}{line['seed']}" for line in read(bench.store).runs] == ["A0", "B0"]
    bench.failing.clear()
    assert bench.carry_out() == ["A1", "B1", "C0", "A2"]


def test_a_queue_killed_while_it_wrote_goes_on_with_the_missing_runs(bench: Workbench) -> None:
    bench.carry_out(hours=16 / 3600)
    bench.store.write_text(bench.store.read_text()[:-9])  # B0 is torn
    assert names(bench.queue())[:2] == ["B0", "A1"]
    assert bench.carry_out() == ["B0", "A1", "B1", "C0", "A2"]
    assert len(read(bench.store).runs) == 6 and not read(bench.store).damaged


def test_a_recipe_whose_data_are_missing_does_not_end_the_queue(
    bench: Workbench, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named once, not tried from its other seeds, and nothing of it is stored."""
    bench.failing["A0"] = DataError("letters.npz not found in data; set FEDKIN_DATA")
    assert bench.carry_out() == ["B0", "B1", "C0"]
    assert [line["row"] for line in read(bench.store).runs] == ["B", "B", "C"]
    said = capsys.readouterr().err
    assert said == "toy, A: not run: letters.npz not found in data; set FEDKIN_DATA\n"
    assert names(bench.queue()) == ["A0", "A1", "A2"]


def test_any_other_failure_is_named_and_the_other_rows_go_on(
    bench: Workbench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the same run would end every command at its beginning."""
    bench.failing["B0"] = ZeroDivisionError("no clients")
    assert bench.carry_out() == ["A0", "A1", "C0", "A2"]
    assert capsys.readouterr().err == "toy, B: not run: ZeroDivisionError: no clients\n"


def test_a_recipe_that_was_edited_meanwhile_is_not_run(bench: Workbench) -> None:
    """A process that was renewed has today's recipes; the run was asked for with yesterday's."""
    with pytest.raises(ConfigError, match="the recipe has changed"):
        run_queue._run("toy", {"row": "A"}, "of another setting", 0, bench.folder)
    assert run_queue._run("toy", {"row": "A"}, "of A", 0, bench.folder)["setting"] == "of A"


def test_one_process_at_a_time_runs_the_missing_runs(tmp_path: Path) -> None:
    with (
        run_queue.claimed(tmp_path / "results"),
        pytest.raises(ConfigError, match="another command runs what"),
        run_queue.claimed(tmp_path / "results"),
    ):
        pass
    with run_queue.claimed(tmp_path / "results"):  # the first has ended
        pass


# --- the command line


@pytest.fixture
def command(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """``python -m papers`` on the workbench."""
    monkeypatch.setattr(program, "RESULTS", bench.folder)
    monkeypatch.setattr(program, "write", lambda docs, tables: bench.started.append("page"))
    return bench


def test_without_arguments_nothing_is_run(command: Workbench) -> None:
    program.main([])
    assert command.started == ["page"] and not command.store.exists()


def test_hours_run_the_most_valuable_and_name_the_missing_runs(
    command: Workbench, capsys: pytest.CaptureFixture[str]
) -> None:
    program.main(["--hours", str(50 / 3600), "--workers", "1"])
    assert command.started == ["A0", "B0", "A1", "B1", "A2", "page"]
    out, err = capsys.readouterr()
    assert [json.loads(line)["row"] for line in out.splitlines()] == ["A", "B", "A", "B", "A"]
    assert err.startswith("5 runs made; 1 left, about 0.0 hours of a core\n")
    assert err.endswith("longer than 0.0138889 hours a run: C\n")


def test_ctrl_c_says_which_runs_are_kept_and_writes_no_page(
    command: Workbench, capsys: pytest.CaptureFixture[str]
) -> None:
    command.failing["A1"] = KeyboardInterrupt()
    with pytest.raises(
        SystemExit, match=r"interrupted; 2 runs are kept in .*, and the same command goes on"
    ):
        program.main(["--hours", "1", "--workers", "1"])
    assert "page" not in command.started and "2 runs made; 4 left" in capsys.readouterr().err


def test_sigterm_ends_the_queue_as_ctrl_c_does(
    command: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> Iterator[Line]:
        yield {"row": "A"}
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(program.run_queue, "carry_out", killed)
    with pytest.raises(SystemExit, match=r"interrupted; 1 runs are kept"):
        program.main(["--hours", "1", "--workers", "1"])
    assert signal.getsignal(signal.SIGTERM) is before


BAD_OPTIONS = {
    "--hours 0": "expected a number of hours above 0, got 0",
    "--hours -1": "got -1",
    "--hours nan": "got nan",
    "--hours inf": "got inf",
    "--hours soon": "expected a number of hours above 0, got soon",
    "--workers 0": "expected a whole number from 1 on, got 0",
    "--workers -3": "got -3",
    "--workers two": "got two",
    "--check 0": "expected a whole number from 1 on, got 0",
    "--check 2 --hours 1": "leave out --hours",
}


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS.items(), ids=BAD_OPTIONS)
def test_a_bad_option_is_named_and_nothing_is_run(
    command: Workbench, options: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(options.split())
    assert not command.started and words in capsys.readouterr().err


def test_outside_a_checkout_no_empty_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    for name in ("results.md", "results-fedgroup.md"):
        (tmp_path / "docs" / name).write_text("mine")
    with pytest.raises(
        SystemExit, match="error: papers/results is no folder here: start this in a checkout"
    ):
        program.main([])
    written = {path.name: path.read_text() for path in (tmp_path / "docs").glob("*.md")}
    assert written == {"results.md": "mine", "results-fedgroup.md": "mine"}


def selection(*rows: str, seeds: Sequence[int] = ()) -> set[tuple[str, str]]:
    """Table and row of the cells that these names select in the real catalogue."""
    selected = program._select(rows, seeds) or {}
    return {(str(job.key.get("table")), job.row) for jobs in selected.values() for job in jobs}


def test_rows_and_tables_have_the_names_that_fedkin_reproduce_has() -> None:
    """A figure of a table's runs, the name in any case, and the beginning of a row behind its
    table."""
    assert (
        selection("flexcfl-figure3")
        == selection("FlexCFL-Table3")
        == {("III", job.row) for job in tables()["flexcfl-table3"][1].jobs}
    )
    assert (
        selection("flexcfl/IV/mnist-mclr: swap")
        == selection("flexcfl-table4/MNIST-MCLR: swap")
        == {
            ("IV", "MNIST-MCLR: swap all"),
            ("IV", "MNIST-MCLR: swap part"),
        }
    )
    assert program._select((), ()) is None


@pytest.mark.parametrize("name", tables())
def test_each_job_of_a_table_is_queued_if_it_is_not_stored(name: str, tmp_path: Path) -> None:
    """Also those that two tables have, such as athena-table1's, which are athena-figure2's."""
    paper, table = tables()[name]
    selected = program._select([name], ())
    assert selected is not None and list(selected) == [paper.name]
    wanted = {(str(job.key), seed) for job in table.jobs for seed in job.seeds}
    queued = {(str(run.job.key), run.seed) for run in queue(tmp_path, selected)}
    assert queued == wanted


def test_the_copy_of_a_job_in_another_table_selects_its_runs(command: Workbench) -> None:
    """Each table makes a job of a key again, and two functions are never equal."""
    copy = command.job("A", (0, 1, 2))
    assert names(queue(command.folder, {"toy": [copy]})) == ["A0", "A1", "A2"]
    command.keep("A", 0)
    assert program._check(1, draw=7, jobs={"toy": [copy]}, seeds=()) == 0
    assert command.started == ["A0"]


BAD_ROWS = {
    "femnist-mlcr": (
        "no table and no row begins with 'femnist-mlcr'; did you mean 'FEMNIST-MCLR'? Nothing was "
        "run"
    ),
    "flexcfl-tabel3": "did you mean 'flexcfl-table3'",
    "": "no table and no row begins with ''; `fedkin reproduce` lists all tables. Nothing was run",
}


@pytest.mark.parametrize(("row", "words"), BAD_ROWS.items(), ids=BAD_ROWS)
def test_a_row_that_does_not_exist_is_named_with_the_nearest(
    command: Workbench, row: str, words: str
) -> None:
    with pytest.raises(SystemExit, match="error: ") as refusal:
        program.main([row])
    assert words in str(refusal.value) and not command.started


def test_a_seed_that_no_recipe_has_is_named(command: Workbench) -> None:
    with pytest.raises(
        SystemExit, match="error: --seed 999: no recipe of these rows has this seed"
    ):
        program.main(["--seed", "999", "--hours", "1"])
    assert not command.started


# --- stored runs again


def test_stored_runs_are_made_again_and_compared(
    command: Workbench, capsys: pytest.CaptureFixture[str]
) -> None:
    """C is not stored."""
    command.keep("A", 0)
    command.keep("B", 1, seconds=6, best=0.5)
    assert program._check(3, draw=7, jobs=None, seeds=()) == 1
    first, *outcomes = capsys.readouterr().out.splitlines()
    assert first == "--draw 7"
    assert sorted(outcomes) == [
        "A, method, seed 0: equal",
        "B, method, seed 1: differs in best",
    ]
    only_a = [job for job in run_queue.PAPERS["toy"].jobs() if job.row == "A"]
    assert program._check(1, draw=7, jobs={"toy": only_a}, seeds=(0,)) == 0


def test_runs_to_check_are_drawn_at_random(command: Workbench) -> None:
    """Of four stored runs, one is drawn: each of them by some number, and the same by the same."""
    for row, seed in (("A", 0), ("A", 1), ("A", 2), ("B", 0)):
        command.keep(row, seed, seconds=1)

    def drawn(draw: int) -> str:
        ((job, line),) = run_queue.stored_runs(command.folder, 1, draw)
        return f"{job.row}{line['seed']}"

    assert {drawn(draw) for draw in range(40)} == {"A0", "A1", "A2", "B0"}
    assert [drawn(draw) for draw in range(9)] == [drawn(draw) for draw in range(9)]


def test_runs_made_again_end_in_one_line(command: Workbench) -> None:
    command.keep("A", 0)
    for failure, words in (
        (DataError("no such folder"), "error: no such folder"),
        (KeyboardInterrupt(), "interrupted"),
    ):
        command.failing["A0"] = failure
        with pytest.raises(SystemExit, match=words):
            program.main(["--check", "1"])


# --- real processes


def test_two_processes_store_the_same_runs_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedSim's Figure 10, which needs no data: jobs travel by their place in the catalogue."""
    monkeypatch.setenv("XLA_FLAGS", "")  # the pool adds to them; here its additions are taken back
    job = next(
        job
        for job in PAPERS["fedsim"].jobs()
        if job.key["table"] == "Fig. 10" and job.row == "beta 1"
    )
    small = queue(tmp_path, {"fedsim": [job]}, [1, 2])
    assert [(run.seed, run.seconds) for run in small] == [(1, 1), (2, 1)]
    made = list(carry_out(small, tmp_path, None, workers=2))
    stored = read(tmp_path / "fedsim.jsonl", [job])
    assert (
        sorted(line["seed"] for line in made)
        == sorted(line["seed"] for line in stored.runs)
        == [1, 2]
    )
    assert sorted(stored.runs, key=lambda line: line["seed"]) == [
        json.loads(json.dumps(job.run(seed))) for seed in (1, 2)
    ]
    assert not queue(tmp_path, {"fedsim": [job]}, [1, 2])


def heed_no_sigterm(mark: str) -> None:
    """A run that goes on after SIGTERM, as one that waits for the end of its round."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(mark).touch()
    threading.Event().wait()


def test_processes_end_in_the_middle_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")
    pool = run_queue._pool(2)
    marks = [tmp_path / name for name in "ab"]
    for mark in marks:
        pool.submit(heed_no_sigterm, str(mark))
    while not all(mark.exists() for mark in marks):
        time.sleep(0.05)
    processes = list(pool._processes.values())
    run_queue._stop(pool)
    # Their sentinels, as is_alive() is true of a process that the pool's own thread has just waited
    # for.
    ended = [bool(multiprocessing.connection.wait([process.sentinel], 30)) for process in processes]
    for process in processes:  # else those that have not ended outlive the test
        process.kill()
    assert ended == [True, True]


def test_a_queue_that_another_command_runs_ends_in_words(command: Workbench) -> None:
    with (
        run_queue.claimed(command.folder),
        pytest.raises(SystemExit, match="error: another command runs what"),
    ):
        program.main(["--hours", "1"])


def begin(
    monkeypatch: pytest.MonkeyPatch, owners: Any, process: int, alive: set[int], cores: set[int]
) -> list[set[int]]:
    """Begin as a process of this number on a machine with these cores; to which it keeps."""
    kept = list[set[int]]()
    system = SimpleNamespace(getpid=lambda: process, sched_getaffinity=lambda _: cores, environ={})
    system.sched_setaffinity = lambda _, chosen: kept.append(chosen)
    monkeypatch.setattr(run_queue, "os", system)
    monkeypatch.setattr(
        run_queue, "signal", SimpleNamespace(signal=lambda *_, **__: None, SIGINT=2, SIG_IGN=1)
    )
    monkeypatch.setattr(run_queue, "_is_alive", alive.__contains__)
    run_queue._begin(owners)
    return kept


def test_each_process_has_its_own_core_and_leaves_it_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owners = multiprocessing.get_context("spawn").Array("q", 3)
    cores = {4, 6, 9}
    assert begin(monkeypatch=monkeypatch, owners=owners, process=11, alive=set(), cores=cores) == [
        {4}
    ]
    assert begin(monkeypatch=monkeypatch, owners=owners, process=12, alive={11}, cores=cores) == [
        {6}
    ]
    # 11 has ended.
    assert begin(monkeypatch=monkeypatch, owners=owners, process=13, alive={12}, cores=cores) == [
        {4}
    ]
    assert begin(
        monkeypatch=monkeypatch, owners=owners, process=14, alive={12, 13}, cores=cores
    ) == [{9}]
    assert owners[:] == [13, 12, 14]


@pytest.mark.parametrize("processes", [1, 4])
def test_one_process_or_more_than_cores_keep_to_none(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    owners = multiprocessing.get_context("spawn").Array("q", processes)
    assert (
        begin(monkeypatch=monkeypatch, owners=owners, process=11, alive=set(), cores={0, 1}) == []
    )
    assert owners[:] == [0] * processes


def test_a_process_is_alive_until_it_ends() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert (
        run_queue._is_alive(os.getpid())
        and not run_queue._is_alive(ended.pid)
        and not run_queue._is_alive(0)
    )


def test_a_pool_that_broke_loses_its_own_runs_and_no_other(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs were under way. Runs of the next pool are not ended because of the first pool."""
    pools: list[Executor] = []
    monkeypatch.setattr(
        run_queue, "_pool", lambda workers: pools.append(InThisProcess()) or pools[-1]
    )
    bench.failing = {"A0": BrokenProcessPool("killed"), "B0": BrokenProcessPool("killed")}
    assert bench.carry_out(workers=2) == ["C0"]
    assert (
        len(pools) == 2 and capsys.readouterr().err.count("not run: BrokenProcessPool: killed") == 2
    )
