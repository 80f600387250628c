"""Files that differ from those that a run has written are found by every reader, and are named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedkin as fk
from fedkin.core.errors import CheckpointError
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.reporting.html.lenient_reader import read_run
from fedkin.run.folder.folder_state import states_of
from fedkin.run.run import Run
from tests.option_lists import simulate_arguments


def go(data: FederatedData, out: Path, **options: Any) -> Run:
    settings: dict[str, Any] = {
        "rounds": 4,
        "cohort": 4,
        "local": fk.SGD(epochs=1, batch_size=5, lr=0.5),
    } | options
    return fk.simulate(
        fk.FedGroup(clusters=2), data, mclr(data), out=out, **simulate_arguments(settings)
    )


@pytest.fixture(scope="module")
def runs(tiny: FederatedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run from two seeds."""
    made = tmp_path_factory.mktemp("runs")
    for seed in (0, 7):
        go(tiny, made / str(seed), seed=seed)
    return made


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(runs / "0", tmp_path / "run")


@pytest.fixture
def other(runs: Path) -> Path:
    return runs / "7"


def edit_line(name: str, key: str, value: Any, line: int = 1) -> Callable[[Path, Path], None]:
    def damage(folder: Path, _: Path) -> None:
        lines = (folder / name).read_text().splitlines()
        lines[line] = json.dumps({**json.loads(lines[line]), key: value}, separators=(",", ":"))
        (folder / name).write_text("".join(f"{text}\n" for text in lines))

    return damage


def edit_summary(folder: Path, _: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(
        json.dumps({**summary, "final_accuracy": 0.99}, indent=2) + "\n"
    )


def edit_config(folder: Path, _: Path) -> None:
    text = (folder / "config.toml").read_text()
    assert "lr = 0.5" in text
    (folder / "config.toml").write_text(text.replace("lr = 0.5", "lr = 0.4"))


def of_another_seed(name: str) -> Callable[[Path, Path], None]:
    def damage(folder: Path, other: Path) -> None:
        shutil.copy(other / name, folder / name)

    return damage


def remove(name: str) -> Callable[[Path, Path], None]:
    def damage(folder: Path, _: Path) -> None:
        (folder / name).unlink()

    return damage


DAMAGE: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "an accuracy": ("metrics.jsonl", edit_line("metrics.jsonl", "accuracy", 0.99)),
    "the last accuracy": ("metrics.jsonl", edit_line("metrics.jsonl", "accuracy", 0.99, line=-1)),
    "a move": ("migrations.jsonl", edit_line("migrations.jsonl", "clusters", [1], line=0)),
    "no moves": ("migrations.jsonl", remove("migrations.jsonl")),
    "another seed's records": ("metrics.jsonl", of_another_seed("metrics.jsonl")),
    "another seed's clients": ("clients.parquet", of_another_seed("clients.parquet")),
    "another seed's summary": ("summary.json", of_another_seed("summary.json")),
    "an edited summary": ("summary.json", edit_summary),
    "an edited configuration": ("config.toml", edit_config),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_finished_run_that_was_changed_is_refused_and_reported(
    what: str, folder: Path, other: Path
) -> None:
    name, damage = DAMAGE[what]
    Run.load(folder)
    damage(folder, other)
    with pytest.raises(CheckpointError, match=rf"{name}.* damaged or changed"):
        Run.load(folder)
    remarks = " ".join(read_run(folder)[1])
    assert f"{folder / name} has changed since the run wrote it" in remarks


@pytest.mark.parametrize(
    "what", [what for what, (name, _) in DAMAGE.items() if name.endswith(".jsonl")]
)
def test_changed_records_are_refused_where_the_run_goes_on(
    what: str, tiny: FederatedData, folder: Path, other: Path
) -> None:
    name, damage = DAMAGE[what]
    damage(folder, other)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(CheckpointError, match=rf"{name}.* damaged or changed"):
        go(tiny, folder, rounds=6, resume=True)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_files_written_again_at_the_end_are_mended_by_resuming(
    tiny: FederatedData, folder: Path
) -> None:
    whole = (folder / "summary.json").read_bytes()
    edit_summary(folder, folder)
    go(tiny, folder, resume=True)
    assert (
        json.loads((folder / "summary.json").read_bytes())["final_accuracy"]
        == json.loads(whole)["final_accuracy"]
    )
    Run.load(folder)


def test_records_behind_the_checkpoint_are_cut_off_as_ever(
    tiny: FederatedData, folder: Path, tmp_path: Path
) -> None:
    go(tiny, tmp_path / "straight", rounds=6)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round":5,"half')
    go(tiny, folder, rounds=6, resume=True)
    assert (folder / "metrics.jsonl").read_bytes() == (
        tmp_path / "straight" / "metrics.jsonl"
    ).read_bytes()
    Run.load(folder)


def test_the_sums_are_those_of_the_usual_tool(folder: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 7


@pytest.mark.parametrize("content", ["", "nonsense\n", "../../etc/passwd\n"])
def test_damaged_sums_are_named(folder: Path, content: str) -> None:
    (folder / "SHA256SUMS").write_text(content)
    with pytest.raises(CheckpointError, match="SHA256SUMS is damaged"):
        Run.load(folder)


def test_a_run_of_an_earlier_version_has_no_sums_and_is_read(folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()
    assert len(Run.load(folder).records) == 5


def test_a_run_whose_records_are_gone_is_in_no_round(folder: Path) -> None:
    (folder / "metrics.jsonl").write_text("")
    (state,) = states_of(folder)
    assert state.words == "finished, no round of 4 recorded" and state.problems


def test_a_saved_run_has_digests_too(tiny: FederatedData, folder: Path, tmp_path: Path) -> None:
    Run.load(folder).save(tmp_path / "copy")
    edit_line("metrics.jsonl", "accuracy", 0.99)(tmp_path / "copy", folder)
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        Run.load(tmp_path / "copy")


def test_results_that_are_written_again_are_named(
    tiny: FederatedData, folder: Path, other: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, fedkin check names them; a whole folder is resumed without a word."""
    whole = (folder / "clients.parquet").read_bytes()
    go(tiny, folder, resume=True)
    assert not caplog.text
    of_another_seed("clients.parquet")(folder, other)
    remove("summary.json")(folder, other)
    (folder / "summary.json").write_text("{}")
    problems = [problem for state in states_of(folder) for problem in state.problems]
    assert f"{folder / 'clients.parquet'} has changed since the run wrote it" in problems
    go(tiny, folder, resume=True)
    (line,) = [one.getMessage() for one in caplog.records]
    assert (
        line.startswith(f"{folder}: clients.parquet and summary.json are damaged")
        and "again" in line
    )
    assert (folder / "clients.parquet").read_bytes() == whole
