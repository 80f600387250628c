"""The command line: output, files, and refusals."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin import __version__
from fedkin.cli import app
from tests.full_disk import no_file_longer_than
from tests.refusals import refused

QUICK = ["run.rounds=2", "run.cohort=3", "local.epochs=1", "data.clients=8"]
KEYS = {
    *("method", "data", "model", "rounds", "seed", "best_accuracy", "final_accuracy"),
    *("clusters", "bytes_down", "bytes_up", "seconds"),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def nothing_in(folder: Path) -> None:
    assert not list(folder.iterdir())


# --- fedkin run


def test_a_run_tells_keeps_and_shows(elsewhere: Path) -> None:
    result = fedkin("run", *QUICK, "--out", "mine")
    first = result.stderr.splitlines()[0]
    assert first == "kept in mine; live page: fedkin watch mine"
    assert result.exit_code == 0, result.output
    assert (
        "FedGroup" in result.stdout
        and "FedAvg" in result.stdout
        and "mine/figure.png" in result.stdout
    )
    assert "FedGroup  round 2/2" in result.stderr
    kept = {p.name for p in (elsewhere / "mine").iterdir()}
    assert kept >= {
        "config.toml",
        "metrics.jsonl",
        "clients.parquet",
        "summary.json",
        "figure.png",
        "figure.svg",
    }
    assert (elsewhere / "mine/against/fedavg/metrics.jsonl").exists()


def test_a_run_ends_with_the_next_command_to_try(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = fedkin("run", *QUICK, "--out", "my run").stdout.splitlines()[-1]
    assert last == "next: fedkin report 'my run'"
    quick = {
        "data": {"name": "digits", "clients": 8},
        "run": {"rounds": 1, "cohort": 3},
        "local": {"epochs": 1},
    }
    monkeypatch.setattr("fedkin.config.run.DEMO", quick)
    following, then = fedkin("run").stdout.splitlines()[-2:]
    assert following.startswith("next: fedkin report runs/") and then.startswith(
        "then: fedkin compare --methods "
    )
    assert fedkin(*following.split()[2:]).exit_code == 0
    told = fedkin("run", *QUICK, "--json", "--out", "b")
    assert json.loads(told.stdout.splitlines()[-1])["out"] == "b" and "next: " not in told.stdout


def test_json_is_the_last_line_of_stdout() -> None:
    result = fedkin("run", *QUICK, "--json", "--out", "mine", "run.target=0.01")
    told = json.loads(result.stdout.splitlines()[-1])
    assert len(result.stdout.splitlines()) == 1
    assert set(told) >= KEYS
    assert (told["method"], told["data"], told["model"], told["rounds"], told["seed"]) == (
        *("fedgroup", "digits", "mclr", 2, 0),
    )
    assert set(told["against"]["fedavg"]) >= KEYS
    assert told["rounds_to_target"] == 0


def test_without_out_a_run_goes_to_a_folder_named_after_it(elsewhere: Path) -> None:
    told = json.loads(fedkin("run", *QUICK, "run.against=[]", "--json").stdout)
    (folder,) = (elsewhere / "runs").iterdir()
    assert folder.name.startswith("digits-fedgroup-")
    assert told["out"] == f"runs/{folder.name}"


def test_a_file_and_changes_to_it(elsewhere: Path) -> None:
    (elsewhere / "my.toml").write_text('[method]\nname = "fedprox"\nmu = 0.5\n[run]\nrounds = 1\n')
    told = json.loads(fedkin("run", "my.toml", *QUICK, "run.seed=4", "--out", "o", "--json").stdout)
    assert (told["method"], told["rounds"], told["seed"], told["against"]) == ("fedprox", 2, 4, {})
    assert "mu = 0.5" in (elsewhere / "o/config.toml").read_text()


def test_a_runs_own_configuration_runs_it_again(elsewhere: Path, run_folder: Path) -> None:
    assert fedkin("run", "a/config.toml", "--out", "b").exit_code == 0
    for file in ("config.toml", "metrics.jsonl", "against/fedavg/metrics.jsonl", "clients.parquet"):
        assert (elsewhere / "a" / file).read_bytes() == (elsewhere / "b" / file).read_bytes()


def test_ones_own_samples(elsewhere: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).astype(np.float32)
    owner = np.repeat(np.arange(6), 20)
    np.savez(elsewhere / "own.npz", x=x, y=(x[:, 0] > 0).astype(np.int64), client_id=owner)
    result = fedkin(
        "run",
        "data.name=file",
        "data.path=own.npz",
        "run.cohort=3",
        "run.rounds=2",
        "--json",
    )
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["cluster_sizes"] != []
    # The name of the file, and not "file", names the data, in the table and in the folder.
    assert summary["data"] == "own"
    assert "own, mclr, 2 rounds" in result.stderr
    (folder,) = (elsewhere / "runs").iterdir()
    assert folder.name.startswith("own-fedgroup-")


def test_a_folder_that_was_moved_resumes_to_the_same_end(elsewhere: Path) -> None:
    arguments = ["run", *QUICK, "method.name=ifca", "run.against=[]"]
    straight = fedkin(*arguments, "run.rounds=3", "--out", "straight")
    assert straight.exit_code == 0, straight.output
    assert fedkin(*arguments, "run.rounds=1", "--out", "study/first").exit_code == 0
    (elsewhere / "archive").mkdir()
    (elsewhere / "study").rename(elsewhere / "archive/old study")
    resumed = fedkin("run", "--resume", "archive/old study/first", "run.rounds=3")
    assert resumed.exit_code == 0, resumed.output
    assert not (elsewhere / "study").exists()
    records = elsewhere / "archive/old study/first/metrics.jsonl"
    assert records.read_bytes() == (elsewhere / "straight/metrics.jsonl").read_bytes()
    checked = fedkin("check", "archive/old study/first")
    assert checked.exit_code == 0, checked.output


def test_resuming_a_finished_run_tells_the_same() -> None:
    first = json.loads(fedkin("run", *QUICK, "--out", "a", "--json").stdout)
    again = fedkin("run", "--resume", "a", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout) == first


def test_without_test_data_a_run_has_no_scores_but_ends_well(
    elsewhere: Path,
) -> None:
    result = fedkin(
        "run",
        "data.train_fraction=1",
        "run.rounds=1",
        "run.cohort=3",
        "data.clients=8",
        "--out",
        "o",
        "--json",
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (
        told["best_accuracy"]
        is told["final_accuracy"]
        is told["against"]["fedavg"]["final_accuracy"]
        is None
    )
    assert (elsewhere / "o/figure.png").exists()


def test_another_environment_is_one_line(
    elsewhere: Path, run_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (elsewhere / "a").rglob("environment.json"):
        path.write_text(path.read_text().replace('"jax": "', '"jax": "1'))
    assert fedkin("run", "--resume", "a", "run.rounds=3").exit_code == 0
    assert len(caplog.records) == 1  # not one for every method
    caplog.clear()
    assert fedkin("run", "--resume", "a", "run.rounds=4").exit_code == 0
    assert not caplog.records


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run.rouns=3"], ["unknown key 'rouns'", "did you mean 'rounds'"]),
        (["rnu.rounds=3"], ["unknown section 'rnu'", "did you mean 'run'"]),
        (["method.name=fedgruop"], ["unknown method", "did you mean 'fedgroup'"]),
        (["data.name=minst"], ["unknown data set", "did you mean 'mnist'"]),
        (["model.name=mlpp"], ["unknown model", "did you mean 'mlp'"]),
        (["run.rounds=ten"], ["run.rounds", "integer", "'ten'"]),
        (["method.clusters=2.5"], ["method.clusters", "integer", "2.5"]),
        (["local.lr=-1"], ["local.lr", "greater than 0", "-1"]),
        (["data.clients=8", "run.cohort=3", "method.clusters=9"], ["clusters", "8", "9"]),
        (["data.clients=8", "run.cohort=9"], ["run.cohort", "8", "9"]),
        (["data.clients=0"], ["clients", "0"]),
        (["data.nam=digits"], ["unknown key 'nam'", "did you mean 'name'"]),
        (["data.clients=0"], ["error: data: ", "clients"]),
        (["model.hidden=0", "model.name=mlp"], ["error: model: ", "hidden"]),
        (
            ["run.against=[{name='fedgroup',clusters=5}]"],
            ["run.against", "'fedgroup' is the main method"],
        ),
        (
            ["run.against=[{name='fedgrouprox',clusters=61}]"],
            ["run.against: fedgrouprox: ", "60", "set clusters=60"],
        ),
        (["study"], ["expected FILE.toml or section.key=value", "'study'"]),
        (["nothere.toml"], ["nothere.toml", "no such file"]),
        (["a.toml", "b.toml"], ["at most one file"]),
        (["rounds=3"], ["expected section.key=value", "such as run.rounds=5", "'rounds=3'"]),
        (["data.name=file", "data.path=nothere.npz"], ["nothere.npz"]),
        (["data.name=file"], ["data.path", "is required"]),
        (["scenario.dropout=1.5"], ["dropout", "[0, 1]"]),
        (["run.devices=10000"], ["devices must be between"]),
    ],
)
def test_a_refusal_is_one_line(elsewhere: Path, arguments: list[str], words: list[str]) -> None:
    refused(fedkin("run", *arguments), *words)
    nothing_in(elsewhere)


def damaged(**changes: Any) -> dict[str, Any]:
    good = {
        "x": np.ones((6, 2), np.float32),
        "y": np.zeros(6, np.int64),
        "client_id": np.repeat([0, 1], 3),
    }
    return good | changes


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (damaged(x=np.full((6, 2), np.nan, np.float32)), ["own.npz", "NaN"]),
        (damaged(x=np.full((6, 2), np.inf, np.float32)), ["own.npz", "infinity"]),
        (damaged(y=np.array([0, 0, -1, 0, 0, 0])), ["own.npz", "-1"]),
        (damaged(y=np.zeros(5, np.int64)), ["own.npz"]),
        ({"x": np.ones((6, 2), np.float32)}, ["own.npz"]),
    ],
)
def test_damaged_data_are_one_line(
    elsewhere: Path, arrays: dict[str, Any], words: list[str]
) -> None:
    np.savez(elsewhere / "own.npz", **arrays)
    refused(
        fedkin("run", "data.name=file", "data.path=own.npz", "run.cohort=1", "method.clusters=1"),
        *words,
    )
    assert [p.name for p in elsewhere.iterdir()] == ["own.npz"]


def test_a_corrupt_file_is_one_line(elsewhere: Path) -> None:
    (elsewhere / "own.npz").write_bytes(b"PK\x03\x04 and then nothing")
    refused(fedkin("run", "data.name=file", "data.path=own.npz"), "own.npz")
    assert [p.name for p in elsewhere.iterdir()] == ["own.npz"]


def test_a_wrong_checksum_is_one_line(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = elsewhere / "data" / "MNIST"
    folder.mkdir(parents=True)
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"{part}-ubyte.gz").write_bytes(b"not the published bytes")
    monkeypatch.setenv("FEDKIN_DATA", str(elsewhere / "data"))
    refused(fedkin("run", "data.name=mnist", "--out", "o"), "ubyte.gz")
    assert not (elsewhere / "o").exists()


def test_a_folder_that_holds_a_run_is_refused(elsewhere: Path, run_folder: Path) -> None:
    before = {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
    refused(fedkin("run", *QUICK, "--out", "a"), "already holds a run", "--resume")
    refused(
        fedkin("run", "--resume", "a", "method.clusters=2"),
        "another configuration",
        "method.clusters is 3",
    )
    refused(fedkin("run", "--resume", "a", "run.rounds=1"), "is already at round 2")
    refused(fedkin("run", "--resume", "a", "--out", "b"), "exclude each other")
    refused(fedkin("run", "--resume", "a", "other.toml"), "other.toml")
    refused(fedkin("run", "--resume", "nowhere"), "nowhere holds no run")
    assert before == {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}


def test_damaged_checkpoints_are_one_line(elsewhere: Path, run_folder: Path) -> None:
    for path in (elsewhere / "a/checkpoints").iterdir():
        path.write_bytes(b"not a checkpoint")
    refused(fedkin("run", "--resume", "a"), "round-000000", "round-000002", "can be read")


def test_lost_checkpoints_are_one_line(elsewhere: Path, run_folder: Path) -> None:
    shutil.rmtree(elsewhere / "a/checkpoints")
    before = (elsewhere / "a/metrics.jsonl").read_bytes()
    refused(fedkin("run", "--resume", "a"), "there are no checkpoints to resume from")
    assert (elsewhere / "a/metrics.jsonl").read_bytes() == before


def test_an_empty_file_is_one_line(elsewhere: Path) -> None:
    (elsewhere / "empty.toml").write_text("")
    refused(fedkin("run", "empty.toml"), "empty.toml", "is empty")


@pytest.mark.parametrize("kind", ["memory", "device"])
def test_a_machine_that_is_too_small_is_one_line(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    import jax

    from fedkin.simulation.engine import SimulatedWorld

    error = (
        MemoryError()
        if kind == "memory"
        else jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nat:")
    )

    def burst(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(SimulatedWorld, "initial", burst)
    word = "no more memory" if kind == "memory" else "RESOURCE_EXHAUSTED"
    refused(
        fedkin("run", *QUICK, "--out", "deep/run"), "too little memory, or a device failed", word
    )
    nothing_in(elsewhere)


def test_a_mistake_in_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedkin.simulation.engine import SimulatedWorld

    monkeypatch.setattr(SimulatedWorld, "initial", None)
    assert isinstance(fedkin("run", *QUICK, "--out", "o").exception, TypeError)


def test_a_checkpoint_of_another_configuration_is_refused(
    elsewhere: Path, run_folder: Path
) -> None:
    assert fedkin("run", *QUICK, "run.seed=1", "--out", "b").exit_code == 0
    for path in (elsewhere / "a/checkpoints").iterdir():
        path.write_bytes((elsewhere / "b/checkpoints" / path.name).read_bytes())
    refused(fedkin("run", "--resume", "a"), "belongs to another run")


def test_a_run_from_python_is_not_resumed_here(elsewhere: Path) -> None:
    import fedkin as fk

    data = fk.data.digits(clients=8)
    fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2, out=elsewhere / "a")
    refused(fedkin("run", "--resume", "a"), "started from Python", "resume=True")


def test_an_unwritable_folder_is_one_line(elsewhere: Path) -> None:
    (elsewhere / "file").write_text("in the way")
    refused(fedkin("run", *QUICK, "--out", "file/run"), "cannot write", "file/run")
    assert [p.name for p in elsewhere.iterdir()] == ["file"]


def test_a_disk_that_is_full_at_the_start_leaves_nothing(elsewhere: Path) -> None:
    fedkin("run", *QUICK, "--out", "warm-up")  # compiled programs are cached on the same disk
    with no_file_longer_than(64):
        result = fedkin("run", *QUICK, "--out", "deep/run")
    assert result.exit_code == 2 and "cannot write" in result.stderr
    assert [p.name for p in elsewhere.iterdir()] == ["warm-up"]


def test_a_disk_that_fills_up_leaves_a_run_that_goes_on(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fedkin("run", *QUICK, "run.checkpoint_every=1", "--out", "whole").exit_code == 0
    fsync = os.fsync
    calls = iter(range(1000))

    def full(descriptor: int) -> None:
        if next(calls) > 16:  # the first checkpoint is written, and its name is
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        result = fedkin("run", *QUICK, "run.checkpoint_every=1", "--out", "cut")
    assert result.exit_code == 2
    assert (
        result.stderr.splitlines()[-1].startswith("error: cannot write")
        and "No space left" in result.stderr
    )
    assert not [p for p in (elsewhere / "cut").rglob(".*")]
    assert fedkin("run", "--resume", "cut").exit_code == 0
    for file in ("metrics.jsonl", "against/fedavg/metrics.jsonl", "clients.parquet"):
        assert (elsewhere / "whole" / file).read_bytes() == (elsewhere / "cut" / file).read_bytes()


@pytest.mark.parametrize(
    "arguments", [["run", "--nonsense"], ["nonsense"], ["data", "nonsense"], ["data", "describe"]]
)
def test_usage_errors_are_one_line(elsewhere: Path, arguments: list[str]) -> None:
    refused(
        fedkin(*arguments),
        "NAME" if arguments[-1] == "describe" else "nonsense",
        "(see: fedkin",
        "--help)",
    )
    nothing_in(elsewhere)


@pytest.mark.parametrize("arguments", [[], ["data"]])
def test_without_arguments_it_is_the_help(arguments: list[str]) -> None:
    result = fedkin(*arguments)
    assert (result.exit_code, result.stderr) == (2, "")
    assert "Usage" in result.stdout and "Commands" in result.stdout


def test_a_run_whose_clients_all_diverge_ends_early_with_a_distinct_status(
    elsewhere: Path,
) -> None:
    result = fedkin(
        "run",
        *QUICK,
        "method.name=fedavg",
        "run.against=[]",
        "local.lr=1e38",
        "run.rounds=9",
        "--out",
        "far",
    )
    assert result.exit_code == 3
    assert (
        "error: fedavg: no client's reply was usable in the last 3 rounds; use a smaller local.lr"
        in result.stderr
    )
    table = " ".join(result.stdout.split())
    assert (
        "FedAvg: stopped after round 3 of 9" in table
        and "replies left out: 9 not finite or impossible" in table
    )
    again = fedkin("run", "--resume", "far")
    assert again.exit_code == 3 and "round 4/9" not in again.stderr


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedkin.reporting.progress import ProgressDisplay

    show = ProgressDisplay.__call__

    def interrupt(self: ProgressDisplay, record: dict[str, Any]) -> None:
        show(self, record)
        if record["round"] == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressDisplay, "__call__", interrupt)
        result = fedkin("run", *QUICK, "--out", "a")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted; go on with: fedkin run --resume a"
    assert "Traceback" not in result.output
    assert fedkin("run", "--resume", "a").exit_code == 0


# --- the rest


def test_data_list_names_every_set() -> None:
    from fedkin.data import DATASETS

    result = fedkin("data", "list")
    assert result.exit_code == 0, result.output
    for name in (*DATASETS, "file", "planted"):
        assert name in result.stdout


def test_data_describe_shows_and_draws(elsewhere: Path) -> None:
    result = fedkin("data", "describe", "digits", "clients=5", "classes_per_client=3")
    assert result.exit_code == 0, result.output
    assert "classes per client" in result.stdout and "data-digits.png" in result.stdout
    assert sorted(p.name for p in elsewhere.iterdir()) == ["data-digits.png", "data-digits.svg"]
    assert (
        fedkin(
            "data", "describe", "planted", "base=digits", "clients=4", "--out", "p.png"
        ).exit_code
        == 0
    )
    assert (elsewhere / "p.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["minst"], ["unknown data set", "did you mean 'mnist'"]),
        (["digits", "cleints=3"], ["unknown key 'cleints'", "did you mean 'clients'"]),
        (["digits", "clients=three"], ["clients", "integer"]),
        (["digits", "clients"], ["expected key=value"]),
        (["digits", "--out", "no/such/folder/p.png"], ["cannot write", "No such file"]),
    ],
)
def test_data_describe_refuses(elsewhere: Path, arguments: list[str], words: list[str]) -> None:
    refused_anyhow = fedkin("data", "describe", *arguments)
    assert refused_anyhow.exit_code == 2
    assert len(refused_anyhow.stderr.splitlines()) == 1
    for word in words:
        assert word in refused_anyhow.stderr
    nothing_in(elsewhere)


def test_version_and_help() -> None:
    assert fedkin("--version").stdout == f"fedkin {__version__}\n"
    assert "run" in fedkin("--help").stdout
    assert "--resume" in fedkin("run", "--help").stdout


COMMANDS = (
    "run",
    "advise",
    "compare",
    "reproduce",
    "report",
    "audit",
    "eps",
    "data",
    "peer",
    "deploy",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_a_sentence_and_hides_no_default(command: str) -> None:
    """The terminal's markup removes text in square brackets."""
    import typer

    shown = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    first = (shown.help or "").split("\n\n")[0].replace("\n", " ")
    assert first.endswith(".") and first[0].isupper()
    parameters = [
        one for each in (shown, *getattr(shown, "commands", {}).values()) for one in each.params
    ]
    assert not [one.name for one in parameters if "[default" in (getattr(one, "help", "") or "")]


def test_the_module_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedkin.cli", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"fedkin {__version__}\n")


# --- fedkin data pni


def test_data_pni_shows_the_index_and_its_clients() -> None:
    result = fedkin("data", "pni", "digits", "clients=5", "--models", "2")
    assert result.exit_code == 0, result.output
    for word in ("digits, mclr-64-10", "non-IID index (PNI)", "lowest", "median", "highest"):
        assert word in result.stdout


def test_data_pni_as_json_equals_python() -> None:
    import fedkin as fk

    result = fedkin(
        "data",
        "pni",
        "digits",
        "clients=5",
        "--model",
        "mlp",
        "--models",
        "2",
        "--seed",
        "3",
        "--json",
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    data = fk.data.digits(clients=5)
    found = fk.non_iid_index(data, fk.models.mlp(data), models=2, seed=3)
    assert (told["data"], told["model"], told["seed"], told["models"]) == (
        "digits",
        "mlp-64-128-10",
        3,
        2,
    )
    assert (
        told["pni"] == found.pni
        and told["clients"] == found.clients.tolist()
        and told["missing"] == 0
    )
    assert told["by_model"] == found.by_model.tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["minst"], ["unknown data set", "did you mean 'mnist'"]),
        (["digits", "cleints=3"], ["unknown key 'cleints'"]),
        (["digits", "--model", "mlcr"], ["--model", "did you mean 'mclr'"]),
        (["digits", "--model", "rnn"], ["digits", "rnn needs text"]),
        (["digits", "--models", "0"], ["models must be an integer of at least 1, got 0"]),
        (["digits", "--models", "many"], ["--models", "fedkin data pni --help"]),
        (["digits", "--seed", "-1"], ["seed must be"]),
        (["file", "path=absent.npz"], ["absent.npz", "no such file"]),
        (["file", "path=absent"], ["absent", "folder in LEAF's layout"]),
        (["file", "path=.", "seed=1"], ["seed = 1 does not apply"]),
        (["sent140", "path=absent.csv"], ["absent.csv", "no such file"]),
    ],
)
def test_data_pni_refuses(elsewhere: Path, arguments: list[str], words: list[str]) -> None:
    refused(fedkin("data", "pni", *arguments), *words)
    nothing_in(elsewhere)


# --- which eps

KIN = (
    *("method.name=hierarchical", "method.pretraining=3", "data.name=digits", "data.clients=10"),
    *(
        "data.partition=blocks",
        "data.classes_per_client=2",
        "local.optimizer=adam",
        "run.cohort=10",
    ),
)


def test_eps_shows_the_clusters_of_each_value_and_the_run_finds_them(elsewhere: Path) -> None:
    shown = fedkin("eps", *KIN, "privacy.name=client_dp", "privacy.epsilon=2", "--out", "kin.png")
    assert shown.exit_code == 0, shown.output
    assert "covers neither this output nor settings" in shown.stdout
    assert "suggested" in shown.stdout and Path("kin.png").exists() and Path("kin.svg").exists()
    told = json.loads(fedkin("eps", *KIN, "--json").stdout, parse_constant=pytest.fail)
    result = fedkin(
        "run", *KIN, f"method.eps={told['suggested']}", "run.rounds=1", "run.against=[]", "--json"
    )
    assert result.exit_code == 0, result.output
    (one,) = [r for r in told["ranges"] if r["low"] <= told["suggested"] < (r["high"] or 9e9)]
    assert json.loads(result.stdout.splitlines()[-1])["clusters"] == one["clusters"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["method.epss=1"], ["unknown key 'epss'", "did you mean 'eps'"]),
        (["method.eps=0"], ["eps must be a number above 0"]),
        (["method.clusters=3"], ["set the option clusters for algorithm 'kmeans'"]),
        (["method.name=athena"], ["Athena trains a detector"]),
        (["model.name=detector"], ["at least 32 x 32"]),
        (["data.classes_per_client=3"], ["classes_per_client", "10"]),
    ],
)
def test_eps_refuses(elsewhere: Path, arguments: list[str], words: list[str]) -> None:
    refused(fedkin("eps", *KIN, *arguments), *words)
    refused(fedkin("eps", "method.name=fedavg"), "method.name", "hierarchical or athena", "FedAvg")
    # Before the clustering round, which would be lost.
    refused(fedkin("eps", *KIN, "--out", "missing/eps.png"), "--out missing/eps.png", "no file can")
    nothing_in(elsewhere)


# --- many seeds


def test_jobs_are_for_several_seeds(elsewhere: Path) -> None:
    refused(
        fedkin("run", *QUICK, "--jobs", "2"), "--jobs and --engine run several seeds", "run.seeds=4"
    )
    nothing_in(elsewhere)


def test_many_seeds_in_one_run(elsewhere: Path) -> None:
    result = fedkin("run", *QUICK, "run.seeds=3", "--json", "--out", "a")
    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()  # the tables went to the other stream
    told = json.loads(line, parse_constant=pytest.fail)
    assert (told["method"], told["rounds"], told["seeds"], told["out"]) == (
        "fedgroup",
        2,
        [0, 1, 2],
        "a",
    )
    assert [row["method"] for row in told["methods"]] == ["fedgroup", "fedavg"]
    assert [made["against"] for made in told["comparisons"]] == ["fedavg"]
    assert (
        "seed 2 (3 of 3)  FedAvg  round 2/2" in result.stderr
        and "FedGroup against" in result.stderr
    )
    again = fedkin("run", "--resume", "a", "--json")
    assert json.loads(again.stdout) == told
    more = fedkin("run", "--resume", "a", "run.seeds=4")
    assert (
        more.exit_code == 0 and "4 seeds (0 to 3)" in more.stdout and "a/figure.png" in more.stdout
    )
    shown = fedkin("run", "--resume", "a/seeds/3", "run.rounds=1")
    refused(shown, "is already at round 2")


def test_ctrl_c_between_seeds_says_how_to_go_on(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedkin.reporting.progress import ProgressDisplay

    def interrupt(self: ProgressDisplay, number: int, seed: int) -> None:
        if number == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressDisplay, "begin", interrupt)
        result = fedkin("run", *QUICK, "run.seeds=2", "--out", "a")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted; go on with: fedkin run --resume a"
    assert fedkin("run", "--resume", "a").exit_code == 0
    assert json.loads((elsewhere / "a/summary.json").read_text())["seeds"] == [0, 1]


def test_a_single_run_takes_no_more_seeds(elsewhere: Path) -> None:
    assert fedkin("run", *QUICK, "run.against=[]", "--out", "a").exit_code == 0
    refused(
        fedkin("run", "--resume", "a", "run.seeds=2"),
        "a holds one run",
        "start them in another folder",
    )
    refused(
        fedkin("run", *QUICK, "run.seeds=0", "--out", "b"),
        "run.seeds",
        "greater than or equal to 1",
    )
    assert sorted(p.name for p in elsewhere.iterdir()) == ["a"]
