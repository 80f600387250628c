"""Rotation of the logs of a deployment."""

from __future__ import annotations

import logging
import os
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from fedkin.server.deploy import log_files
from fedkin.server.deploy.status import _fresh


@pytest.fixture(autouse=True)
def _handlers_as_before() -> object:
    log = logging.getLogger("fedkin")
    before = (list(log.handlers), log.propagate, log.level)
    yield
    log.handlers, log.propagate, log.level = before


def test_a_program_goes_on_in_an_emptied_log(tmp_path: Path) -> None:
    log = tmp_path / "site.log"
    with log.open("ab", buffering=0) as output:
        output.write(b"old line\n")
        assert not log_files.rotate_output(log, most=100)
        assert log_files.rotate_output(log, most=5)
        output.write(b"new line\n")
    assert (tmp_path / "site.log.1").read_bytes() == b"old line\n"
    assert log.read_bytes() == b"new line\n"


def test_only_a_few_earlier_logs_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "site.log"
    for number in range(9):
        log.write_text(f"{number}\n" * 9)
        assert log_files.rotate_output(log, most=5)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["site.log", *(f"site.log.{k}" for k in range(1, 6))]
    assert (tmp_path / "site.log.1").read_text()[0] == "8"
    assert (tmp_path / "site.log.5").read_text()[0] == "4"


def test_a_process_rotates_its_own_output(tmp_path: Path) -> None:
    log = tmp_path / "site.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"x" * (log_files.MOST_BYTES + 1))
    log_files.keep_output_small(tmp_path / "other.log", descriptor, wait=0.01)
    log_files.keep_output_small(log, descriptor, wait=0.01)
    end = time.monotonic() + 20
    while not (tmp_path / "site.log.1").exists() or log.stat().st_size:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.close(descriptor)


def test_the_servers_log_is_rotated(tmp_path: Path) -> None:
    log_files.log_to_file(tmp_path / "server.log")
    handler = logging.getLogger("fedkin").handlers[-1]
    assert isinstance(handler, RotatingFileHandler)
    assert handler.maxBytes == log_files.MOST_BYTES and handler.backupCount == log_files.KEPT
    handler.close()


def test_a_reader_of_a_rotated_log_begins_again(tmp_path: Path) -> None:
    log = tmp_path / "site.log"
    log.write_text("a long line\n")
    lines, offset = _fresh(log, 0)
    assert (lines, offset) == (["a long line"], 12)
    log.write_text("new\nha")
    assert _fresh(log, offset) == (["new"], 4)
