"""Runs and clients that cannot be replayed are refused by name, with the way on."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import fedkin as fk
from fedkin.core.errors import CheckpointError, ConfigError, StorageError
from fedkin.removal import forget
from fedkin.removal.refusals import check_run
from tests.removal.removal_world import LEAVER, data, simulated

LATE = fk.Population(arrivals={6: 1})


@pytest.fixture(scope="module")
def run() -> fk.Run:
    """A run in memory, to which one client comes too late to be in a cohort."""
    return simulated(fk.IFCA(clusters=2), scenario=LATE, cohort=3, rounds=6)


def refused(run: fk.Run, clients: list[int | str], *words: str) -> None:
    """Check that the removal is refused with these words."""
    with pytest.raises(ConfigError) as error:
        fk.forget(run, clients)
    for word in words:
        assert word in str(error.value)


def test_clients(run: fk.Run) -> None:
    refused(run, [99], "0 to 11", "99")
    refused(run, ["ward z"], "ward z")
    refused(run, [], "at least one client")
    refused(run, list(range(12)), "at least one must stay")
    asked = {int(c) for record in run.migrations for c in record["clients"]}
    never = next(client for client in range(12) if client not in asked)
    refused(run, [never], f"client {never} took no part", "scenario.silent")
    # It is named too where the others took part.
    refused(run, [min(asked), never], f"client {never} took no part")


def test_a_client_that_was_removed_before(run: fk.Run) -> None:
    done = fk.forget(run, [int(run.migrations[-1]["clients"][0])])
    removed = done.record["clients"][0]["client"]
    refused(done.run, [removed], "was removed from this run before")


def with_section(run: fk.Run, name: str) -> fk.Run:
    """The run, described with one more section."""
    config = run.config.with_sections({name: {"name": "any"}})
    return dataclasses.replace(run, config=config)


@pytest.mark.parametrize("section", ["privacy", "secret", "monitor", "attack", "late"])
def test_options_that_cannot_be_repeated(run: fk.Run, section: str) -> None:
    refused(with_section(run, section), [0], f"{section}: ", "fk.Population(silent=[3])")


def test_real_sites(run: fk.Run) -> None:
    with pytest.raises(ConfigError, match="fedkin deploy remove DIR SITE"):
        check_run(with_section(run, "federation"))


def test_an_option_of_a_user(run: fk.Run) -> None:
    refused(with_section(run, "my_option"), [0], "my_option: ", "scenario=fk.Population")


def test_a_run_from_python_needs_its_objects(tmp_path: Path) -> None:
    simulated(fk.FedAvg(), tmp_path / "run", rounds=1)
    with pytest.raises(ConfigError, match=r"Run\.load\(path, model=\.\.\., data=\.\.\.\)"):
        fk.forget(tmp_path / "run", [LEAVER])


def test_folders(tmp_path: Path, run: fk.Run) -> None:
    stored = simulated(fk.FedAvg(), tmp_path / "run", rounds=1)
    with pytest.raises(StorageError, match="would be overwritten"):
        fk.forget(stored, [LEAVER], out=tmp_path / "run")
    with pytest.raises(ConfigError, match="exclude each other"):
        fk.forget(stored, [LEAVER], out=tmp_path / "new", replace=True)
    with pytest.raises(ConfigError, match="was not saved"):
        fk.forget(run, [0], replace=True)
    with pytest.raises(CheckpointError, match="holds no run"):
        fk.forget(tmp_path, [LEAVER])
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="not empty"):
        fk.forget(stored, [LEAVER], out=tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "run"]


def test_a_failed_replay_leaves_nothing(tmp_path: Path) -> None:
    stored = simulated(fk.FedAvg(), tmp_path / "run", rounds=2)

    def stopped(record: object) -> None:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError):
        fk.forget(stored, [LEAVER], out=tmp_path / "new", on_round=stopped)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_replaced(tmp_path: Path) -> None:
    stored = simulated(fk.FedAvg(), tmp_path / "run", rounds=2)
    done = fk.forget(stored, [LEAVER], replace=True)
    assert done.run.folder == tmp_path / "run"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    loaded = fk.Run.load(tmp_path / "run", data=data(), model=fk.models.mclr(data()))
    assert loaded.config.scenario["silent"] == [LEAVER]


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failed_replacement_keeps_the_recorded_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
    done: bool,
    error: BaseException,
) -> None:
    """One of the three renames fails or is interrupted, before or after its effect."""
    target = tmp_path / "run"
    target.mkdir()
    (target / "name").write_text("recorded")
    work = tmp_path / "work"
    (work / "run").mkdir(parents=True)
    (work / "run/name").write_text("new")
    rename = os.rename
    calls = 0

    def interrupted(source: Path, to: Path) -> None:
        nonlocal calls
        calls += 1
        if calls != failing or done:
            rename(source, to)
        if calls == failing:
            raise error

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises((KeyboardInterrupt, StorageError)):
        forget._move(work, target, replace=True)
    # After the last rename, the new run is in its place and the recorded one is to be deleted.
    expected = "new" if failing == 3 and done else "recorded"
    assert (target / "name").read_text() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "work"]


def test_an_interrupted_replacement_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = simulated(fk.FedAvg(), tmp_path / "run", rounds=1)
    rename = os.rename

    def interrupted(source: Path, to: Path) -> None:
        if Path(source).name == "run" and Path(source).parent.name.startswith(".forget-"):
            raise KeyboardInterrupt
        rename(source, to)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fk.forget(stored, [LEAVER], replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert fk.Run.load(tmp_path / "run").config.scenario.get("silent") is None
    # A process was killed, which cannot be handled: its folder is not overwritten.
    (tmp_path / ".run.before").mkdir()
    with pytest.raises(StorageError, match=r"\.run\.before is left from a process .* delete it"):
        fk.forget(stored, [LEAVER], replace=True)


def test_a_run_that_a_killed_process_has_moved_is_named(tmp_path: Path) -> None:
    before = tmp_path / ".run.before"
    before.mkdir()
    moved = rf"run is missing: .* move it back: mv {before} {tmp_path / 'run'}$"
    for replace in (True, False):
        with pytest.raises(StorageError, match=moved):
            fk.forget(tmp_path / "run", [LEAVER], replace=replace)
    assert [path.name for path in tmp_path.iterdir()] == [".run.before"]


def test_a_folder_that_cannot_be_written(
    run: fk.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: object, **options: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", forbidden)
    with pytest.raises(StorageError, match=r"cannot write .*: Permission denied"):
        fk.forget(run, [0], out=tmp_path / "out")


def test_silent_clients() -> None:
    assert fk.Population(silent=(3, 1, 3)).silent == (1, 3)
    assert fk.Population(silent=()).silent is None
    for wrong in ([-1], [1.5], ["a"], [True], 3):
        with pytest.raises(ConfigError, match="silent must be a list"):
            fk.Population(silent=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="silent: 12 is not a client"):
        simulated(fk.FedAvg(), silent=[12])
    with pytest.raises(ConfigError, match="names every client"):
        simulated(fk.FedAvg(), silent=range(12))


def test_a_silent_client_is_asked_and_is_in_no_score() -> None:
    run = simulated(fk.FedAvg(), silent=[LEAVER], cohort=12)
    assert [record["missing"] for record in run.records] == [0] + [1] * 6
    assert LEAVER not in run.clients["client"].tolist() and len(run.clients) == 11
    assert not any(record["partial"] for record in run.records)
    assert run.summary()["best_accuracy"] is not None
