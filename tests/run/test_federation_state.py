"""The file of a federation's state: a written state is read, and no file is an empty state."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fedkin.core import storage
from fedkin.run.federation_state import (
    FederationState,
    read_state,
    remove_state,
    server_state_file,
    write_state,
)

STATE = FederationState(
    accepted=("site-0",),
    ready=("site-1",),
    refused={"site-2": "it has no column age"},
    failing={"site-0": "round 3: no reply"},
    waiting="waiting for 2 clients",
    error="too few clients",
    nodes={"site-0": 7},
    failed_checks={"site-3": "no data"},
)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = server_state_file(tmp_path / "fed/run")
    assert path == tmp_path / "fed/.run.sites.json"
    write_state(path, STATE)
    assert read_state(path) == STATE
    remove_state(path)
    assert read_state(path) == FederationState() and not path.exists()


@pytest.mark.parametrize("content", ["", "nothing", "[]", "{}", '{"accepted": 3}'])
def test_a_file_that_cannot_be_read_is_an_empty_state(content: str, tmp_path: Path) -> None:
    (tmp_path / "state").write_text(content)
    assert read_state(tmp_path / "state") == FederationState()


def test_each_refusal_failure_and_error_has_a_line() -> None:
    assert STATE.lines() == [
        "site-2 is refused: it has no column age",
        "site-0 has failed: round 3: no reply",
        "error: too few clients",
    ]


def test_checks_that_have_failed_are_the_end_of_no_run() -> None:
    state = FederationState(failed_checks={"server": "port 0", "site-3": "no data"})
    assert state.end == "fedkin deploy up has started nothing: server: port 0; site-3: no data"
    assert STATE.end == "too few clients" and FederationState().end == ""


def test_a_state_is_forced_to_disk_under_a_hidden_name_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half-way leaves the former state, and is a warning."""
    path = tmp_path / "state.json"
    write_state(path, STATE)
    synced: list[Path] = []

    class Failing(storage.FileSystem):
        def sync(self, path: Path) -> None:
            synced.append(path)
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "file_system", Failing())
    write_state(path, FederationState())
    assert read_state(path) == STATE
    assert synced == [tmp_path / ".state.json.part"] and not synced[0].exists()


def test_a_state_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "fedkin"):
        write_state(tmp_path / "file/state", STATE)
    assert (
        str(tmp_path / "file/state") in caplog.text and "cannot show refused sites" in caplog.text
    )
