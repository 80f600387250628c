"""One server at a time in a run folder."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from fedkin.core.errors import StorageError
from fedkin.run.folder.lock import folder_checks
from fedkin.server.deploy.run_server import run_lock


def test_another_server_waits_with_a_warning_until_the_first_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "fed" / "run"
    held = threading.Event()
    ends = threading.Event()

    def first() -> None:
        with run_lock(folder):
            held.set()
            ends.wait(30)

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(30)
    with caplog.at_level(logging.WARNING, "fedkin"):
        with pytest.raises(StorageError, match=r"another server uses .*run; stop it first"):
            run_lock(folder, timeout=0.05, poll=0.01).__enter__()
        assert caplog.text.count("waiting until it ends") == 1
        threading.Timer(0.2, ends.set).start()
        with run_lock(folder, timeout=30, poll=0.01):
            assert ends.is_set()
    thread.join()


def test_the_holder_of_the_lock_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    check = folder_checks(folder)["lock"]
    with run_lock(folder):
        found = check()
        assert found is not None and found.status == "pass"
        # Another process has taken the lock.
        (tmp_path / ".run.owner").write_text("process 1 on another host")
        assert check() == ("fail", "the lock is held by process 1 on another host")
    assert not (tmp_path / ".run.owner").exists()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"):
        run_lock(tmp_path / "file" / "run").__enter__()
