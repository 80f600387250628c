"""Signals end a run after its round; two processes never share a folder; a folder of others is left
alone."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.config.description import Description
from fedkin.core.errors import StorageError
from fedkin.core.records import Record
from fedkin.run.folder.lock import folder_lock
from fedkin.run.folder.run_folder import Folder
from fedkin.run.interruption import RunInterrupted, exit_status, interruptible, is_interrupted
from tests.refusals import refused
from tests.run.test_every_write import content, go

pytestmark = pytest.mark.usefixtures("hangup")
DESCRIPTION = Description({"method": {"name": "toy"}, "run": {"rounds": 3, "cohort": 2, "seed": 0}})


def signalling(*numbers: int, round: int = 1) -> Callable[[Record], None]:
    """An observer that sends its own process signals."""

    def on_round(record: Record) -> None:
        if record["round"] == round:
            for number in numbers:
                os.kill(os.getpid(), number)

    return on_round


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_after_its_round(number: int, tmp_path: Path) -> None:
    go(tmp_path / "whole")
    before = signal.getsignal(number)
    with pytest.raises(RunInterrupted) as caught, interruptible():
        go(tmp_path / "run", on_round=signalling(number))
    assert exit_status(caught.value) == 128 + number
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2  # rounds 0 and 1
    assert (tmp_path / "run/checkpoints/round-000001.safetensors").exists()
    assert signal.getsignal(number) is before and not is_interrupted()
    go(tmp_path / "run", resume=True)
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_a_signal_in_a_callback_of_the_garbage_collector_is_not_lost(tmp_path: Path) -> None:
    """An exception that is raised there is printed and forgotten."""

    def collected(phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(collected)
        os.kill(os.getpid(), signal.SIGINT)

    def on_round(record: Record) -> None:
        if record["round"] == 1:
            gc.callbacks.append(collected)
            gc.collect()

    with pytest.raises(RunInterrupted), interruptible():
        go(tmp_path / "run", on_round=on_round)
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    heard: list[int] = []
    with pytest.raises(RunInterrupted), interruptible(first=heard.append):
        go(tmp_path / "run", on_round=signalling(signal.SIGINT, signal.SIGTERM))
    assert heard == [signal.SIGINT]
    assert not (tmp_path / "run/checkpoints/round-000001.safetensors").exists()


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            run = go(tmp_path / "run", on_round=signalling(signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert len(run.records) == 4


def test_a_signal_after_the_last_round_is_raised_at_the_end() -> None:
    with pytest.raises(RunInterrupted), interruptible():
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_terminal_that_closes_may_say_so_more_than_once(tmp_path: Path) -> None:
    with pytest.raises(RunInterrupted), interruptible():
        go(tmp_path / "run", on_round=signalling(signal.SIGHUP, signal.SIGHUP))
    assert (tmp_path / "run/checkpoints/round-000001.safetensors").exists()


def test_a_signal_is_noted_even_where_it_cannot_be_printed(tmp_path: Path) -> None:
    def tell(_: int) -> None:
        raise OSError("the terminal has gone")

    with pytest.raises(OSError, match="has gone"), interruptible(first=tell):
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        except OSError:
            assert is_interrupted()
            raise


def test_a_thread_leaves_signals_to_the_main_one() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def run() -> None:
        with interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


METHOD = """
import os, signal
from dataclasses import dataclass
from fedkin import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    def round(self, world, state, cohort, stream):
        if not os.path.exists("signalled"):
            open("signalled", "w").close()
            os.kill(os.getpid(), signal.SIGTERM)
        return super().round(world, state, cohort, stream)
"""


def test_the_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "signalling_method.py").write_text(METHOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    quick = ["run.rounds=3", "run.cohort=2", "local.epochs=1", "data.clients=6", "run.against=[]"]
    result = CliRunner().invoke(
        app, ["run", *quick, "method.name=signalling_method:Mine", "--out", "a b"]
    )
    assert result.exit_code == 143, result.output
    assert "interrupted; go on with: fedkin run --resume 'a b'" in result.stderr
    again = CliRunner().invoke(app, ["run", "--resume", "a b"])
    assert again.exit_code == 0 and "round 3/3" in again.stderr


# --- one process at a time


def test_a_folder_in_use_is_refused_with_its_owner(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "run"):
        words = f"is in use by process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(StorageError, match=words), folder_lock(tmp_path / "run"):
            pass
        result = CliRunner().invoke(app, ["run", "run.rounds=1", "--out", str(tmp_path / "run")])
        refused(result, words)
    with folder_lock(tmp_path / "run"):
        pass


def test_a_link_to_a_folder_in_use_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    with (
        folder_lock(tmp_path / "run"),
        pytest.raises(StorageError, match="link is in use by process"),
    ):
        folder_lock(tmp_path / "link").__enter__()


def test_where_nothing_can_be_written_next_to_a_folder_the_lock_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    (tmp_path / "run").mkdir()
    with folder_lock(tmp_path / "run"):
        assert [path.name for path in tmp_path.iterdir()] == ["run"]
        with pytest.raises(StorageError, match="in use by process"):
            folder_lock(tmp_path / "run").__enter__()


def test_a_peer_has_its_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["peer", "init", "fed", "--peers", "1"]).exit_code == 0
    with folder_lock(Path("fed/peer-0")):
        refused(
            CliRunner().invoke(app, ["peer", "--config", "fed/peer-0/peer.toml"]),
            "fed/peer-0 is in use by process",
        )


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from fedkin.run.folder.lock import "
        "folder_lock\n"
        "with folder_lock(Path(sys.argv[1])): print('locked', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "locked\n"
        with (
            pytest.raises(StorageError, match=f"process {child.pid} on"),
            folder_lock(tmp_path / "run"),
        ):
            pass
        child.kill()
    with folder_lock(tmp_path / "run"):
        pass


def test_a_lock_of_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "deep/er/run"):
        assert list(tmp_path.rglob("*.lock"))
    assert not list(tmp_path.iterdir())


# --- folders of others


@pytest.mark.parametrize("name", ["summary.json", "figure.png", "clients.parquet", "against"])
def test_files_of_others_are_not_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(
        StorageError, match=rf"has {name}, which would be overwritten; choose another folder"
    ):
        Folder.create(tmp_path, DESCRIPTION)
    assert (tmp_path / name).read_text() == "mine"


def test_an_empty_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    for command in ("run", "compare"):
        refused(CliRunner().invoke(app, [command, "--out", ""]), "out is the current folder")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "name", ["summary.json", "comparison.csv", "differences.csv", "figure.png", "cells"]
)
def test_neither_does_a_comparison_overwrite_them(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    refused(
        CliRunner().invoke(app, ["compare", "--out", str(tmp_path)]),
        f"has {name}, which would be overwritten",
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["curves.csv", "comparisons.csv", "seeds"])
def test_nor_do_seeds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    quick = [
        "run",
        "run.rounds=1",
        "run.cohort=2",
        "data.clients=6",
        "run.seeds=2",
        "--out",
        str(tmp_path),
    ]
    refused(CliRunner().invoke(app, quick), f"has {name}, which would be overwritten")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_files_of_a_killed_start_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/environment.json").write_text("{}")
    go(tmp_path / "run")


def test_an_empty_name_is_refused_from_python_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="out is the current folder"):
        go(Path(""))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("parts", "cause"), [("x" * 300, "File name too long"), ("file/run", "File exists")]
)
def test_a_path_that_cannot_be_says_why_and_leaves_nothing(
    parts: str, cause: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match=f"cannot write .*: {cause}; choose another folder"):
        folder_lock(tmp_path / parts).__enter__()
    with pytest.raises(StorageError, match=cause if len(parts) > 9 else "Not a directory"):
        folder_lock(tmp_path / parts / "inner").__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_was_deleted_is_named_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(
        StorageError, match="the current folder was deleted; change into another one"
    ):
        folder_lock(Path("run")).__enter__()


def test_a_deleted_folder_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os, sys; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        "from fedkin.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "data", "list"], capture_output=True, text=True
    )
    assert (
        done.returncode == 2
        and done.stderr == "error: the current folder was deleted; change into another one\n"
    )


def test_a_file_in_the_way_is_no_lack_of_space(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="Not a directory; choose another folder"):
        Folder.create(tmp_path / "file/run", DESCRIPTION)
