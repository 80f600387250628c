"""Whole runs with PyTorch models: from Python and from a configuration, stopped and gone on with,
alone, compared."""

from __future__ import annotations

import inspect
import json
import logging
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from torch import nn
from typer.testing import CliRunner

import fedkin as fk
from fedkin.analysis.advise.pilot_runs import PilotPlan
from fedkin.cli import app
from fedkin.core.errors import CheckpointError, ConfigError, MissingExtra, ModelError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.run import simulate as simulate_module
from fedkin.simulation.torch import model_from_config
from tests.conftest import ROOT
from tests.mappings import merged
from tests.option_lists import simulate_arguments
from tests.refusals import refused
from tests.simulation.torch.twins import of_jax

DESCRIBED = {
    "name": "torch",
    "parameters": 24 + 18,
    "torch": "torch.nn.modules.container:Sequential",
}
LOCAL = fk.SGD(epochs=2, batch_size=5, lr=0.5)


def federation() -> FederatedData:
    """Twelve clients with two features: six of them have the labels the other way round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12 * 20, 2)).astype(np.float32)
    true_clusters = np.arange(12) % 2
    y = (x[:, 0] > 0).astype(np.int64) ^ np.repeat(true_clusters, 20)
    rows = np.arange(len(x)).reshape(12, 20)
    train = Ragged.of([row[:15] for row in rows])
    test = Ragged.of([row[15:] for row in rows])
    return FederatedData(
        name="tiny", x=x, y=y, classes=2, train=train, test=test, true_clusters=true_clusters
    )


DATA = federation()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def go(model: Any, method: Any = None, **options: Any) -> Any:
    settings: dict[str, Any] = {"rounds": 4, "cohort": 6, "local": LOCAL, "seed": 1} | options
    return fk.simulate(
        method or fk.FedGroup(clusters=2), DATA, model, **simulate_arguments(settings)
    )


# --- from Python


def test_a_module_is_simulated_as_it_is() -> None:
    torch.manual_seed(3)
    module = network()
    run = go(module, rounds=8, against=[fk.FedAvg()])
    ours = run.summary()
    theirs = run.against["fedavg"].summary()
    assert ours["best_accuracy"] > 0.8 > theirs["best_accuracy"] and ours["ari"] == 1
    assert run.config.model == DESCRIBED
    assert run.models.shape == (2, 42)


def test_the_whole_run_is_the_simulators() -> None:
    """Every number that a run records, but for the last digits."""
    jax = mclr(DATA)
    expected, got = (go(model, rounds=3) for model in (jax, of_jax(jax, (2, 2))))
    for there, here in zip(expected.records, got.records, strict=True):
        assert there.keys() == here.keys()
        for key, value in there.items():
            exact = value is None or isinstance(value, str | bool | list | dict)
            assert here[key] == (value if exact else pytest.approx(value, rel=1e-3, abs=1e-4)), (
                here["round"],
                key,
            )


def test_an_object_that_is_no_model_is_refused() -> None:
    simulate: Any = inspect.unwrap(fk.simulate)  # past the run-time type check, as users have it
    with pytest.raises(
        ModelError, match=r"must be an instance, fk\.models\.mlp\(data\), got the name 'mlp'"
    ):
        simulate(fk.FedAvg(), DATA, "mlp", rounds=1, cohort=2)
    with pytest.raises(
        ModelError, match=r"fk\.as_model or fk\.torch_model, or a PyTorch nn\.Module; got"
    ):
        simulate(fk.FedAvg(), DATA, network, rounds=1, cohort=2)


def test_slower_training_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    simulate_module._warn_of_pytorch.cache_clear()
    with caplog.at_level(logging.WARNING, "fedkin"):
        for model in (mclr(DATA), fk.torch_model(network), fk.torch_model(network)):
            go(model, rounds=1)
    assert [record.message for record in caplog.records] == [
        "model 'torch' is trained by PyTorch, which is slower than JAX (see docs/benchmarks.md)"
    ]


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = go(fk.torch_model(network), out=tmp_path / "whole")
    go(fk.torch_model(network), out=tmp_path / "cut", rounds=2)
    again = go(fk.torch_model(network), out=tmp_path / "cut", resume=True)
    assert again.models.tobytes() == whole.models.tobytes()
    for file in ("metrics.jsonl", "migrations.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert (
        json.loads((tmp_path / "cut" / "environment.json").read_text())["versions"]["torch"]
        == torch.__version__
    )


def test_the_package_that_computes_is_written_down_and_imported_ones_are_not(
    tmp_path: Path,
) -> None:
    for name, model in (("torch", fk.torch_model(network)), ("mclr", mclr(DATA))):
        go(model, out=tmp_path / name, rounds=1)
        stored = tomllib.loads((tmp_path / name / "config.toml").read_text())["model"]
        versions = json.loads((tmp_path / name / "environment.json").read_text())["versions"]
        assert ("torch" in versions) == ("torch" in stored) == (name == "torch")
        assert stored == DESCRIBED or name == "mclr"


def test_another_module_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    go(fk.torch_model(network), out=tmp_path / "run", rounds=2)
    other = fk.torch_model(
        lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    )
    with pytest.raises(CheckpointError):
        go(other, out=tmp_path / "run", resume=True)


def test_seeds_shifts_and_scenarios() -> None:
    shared = {
        "scenario": fk.Population(dropout=0.2),
        "shift": fk.SwapAll(probability=0.3),
        "rounds": 3,
    }
    model = fk.torch_model(network)
    repeated = fk.repeat(
        lambda seed: go(model, fk.IFCA(clusters=2), **merged(shared, {"seed": seed})), seeds=2
    )
    first, second = (run.models for run in repeated.runs)
    assert (first != second).any()
    np.testing.assert_array_equal(
        first, go(model, fk.IFCA(clusters=2), **merged(shared, {"seed": 0})).models
    )


def test_advice_report_and_index_of_a_module(tmp_path: Path) -> None:
    model = fk.torch_model(lambda: nn.Linear(2, 2))
    pilots = PilotPlan(rounds=1, cohort=6, seeds=3)
    advice = fk.advise(DATA, model, fk.SGD(epochs=2, lr=0.5), max_clusters=3, pilots=pilots)
    assert advice.model == "torch" and advice.cluster_count.clusters == 2
    run = go(model, out=tmp_path / "run")
    assert fk.report(run, data=DATA, model=model, similarity=True).stat().st_size > 10_000
    assert (tmp_path / "run" / "similarity.safetensors").exists()
    assert fk.non_iid_index(DATA, model, models=2).pni > 0


# --- from a configuration


NETS = """
from torch import nn

def make(data):
    return nn.Sequential(nn.Linear(data.x.shape[1], 8), nn.ReLU(), nn.Linear(8, data.classes))

net = nn.Linear(64, 10)
number = 3
"""
CONFIG = """
[data]
name = "digits"
clients = 8

[model]
torch = "PLACE"

[method]
name = "ifca"
clusters = 2

[local]
epochs = 1
lr = 0.1

[run]
rounds = 3
cohort = 4
against = ["fedavg"]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the current folder, which no other test has, and a configuration
    that names it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    name = f"nets_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(NETS)
    (tmp_path / f"{name}_broken.py").write_text("raise OSError('no weights here')")
    (tmp_path / "mine.toml").write_text(CONFIG.replace("PLACE", f"{name}:make"))
    return name


def fedkin(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_configuration_names_a_function(place: str, tmp_path: Path) -> None:
    done = fedkin("run", "mine.toml", "--out", "whole")
    assert done.exit_code == 0, done.output
    assert f'torch = "{place}:make"' in (tmp_path / "whole/config.toml").read_text()
    assert fedkin("run", "mine.toml", "--out", "cut", "run.rounds=2").exit_code == 0
    assert fedkin("run", "--resume", "cut", "run.rounds=3").exit_code == 0
    for file in ("metrics.jsonl", "against/fedavg/metrics.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert fedkin("report", "whole", "--similarity").exit_code == 0
    assert (tmp_path / "whole/similarity.safetensors").exists()


def test_a_module_of_the_current_folder_is_found_from_the_command_line(
    place: str, tmp_path: Path
) -> None:
    """In a separate process, without this folder in its path."""
    script = shutil.which("fedkin", path=str(Path(sys.executable).parent))
    assert script, "the command is not installed next to this Python"
    settings = [f"model.torch={place}:net", "method.name=fedgroup", "run.rounds=1"]
    command = [script, "run", "mine.toml", *settings, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "model 'torch' is trained by PyTorch" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["model"] == "torch"


def test_clusters_of_a_module_with_given_weights_are_refused(place: str) -> None:
    """All initial models would be equal."""
    done = fedkin("run", "mine.toml", f"model.torch={place}:net", "--out", "run")
    refused(done, "2 clusters must start from different models", "fk.torch_model(Net)")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{}", ["model", "expected package.module:factory"]),
        ("{}:", ["model", "expected package.module:factory"]),
        (".{}:make", ["model", "expected package.module:factory"]),
        ("{}_not:make", ["model", "there is no module", "_not", "PYTHONPATH"]),
        ("{}:maker", ["model", "has no 'maker'"]),
        ("{}:number", ["model", "expected a module or a function that makes one, got int"]),
        ("{}_broken:make", ["model", "importing it failed: OSError: no weights here"]),
        ("builtins:dict", ["model", "must return an nn.Module, got dict"]),
    ],
)
def test_a_place_where_there_is_no_model(
    place: str, given: str, words: list[str], tmp_path: Path
) -> None:
    refused(
        fedkin("run", "mine.toml", f"model.torch={given.format(place)}", "--out", "run"), *words
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.name=mlp", ["model.torch", "unknown key 'torch'"]),
        ("model.torch=3", ["model", "expected package.module:factory, got '3'"]),
        ("model.threads=0", ["model", "threads must be an integer of at least 1"]),
        ("model.detects=true", ["method", "IFCA trains a model with a score for every class"]),
    ],
)
def test_settings_that_cannot_be(place: str, setting: str, words: list[str]) -> None:
    refused(fedkin("run", "mine.toml", setting), *words)


def test_a_named_model_needs_its_place(place: str) -> None:
    refused(fedkin("run", "model.name=torch"), "model.torch: is required")


def test_a_comparison(place: str, tmp_path: Path) -> None:
    done = fedkin("compare", "mine.toml", "run.seeds=2", "run.rounds=1", "--out", "all")
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "all/cells").rglob("summary.json"))) >= 4


# --- which package is imported when


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_world_of_pytorch_brings_no_jax() -> None:
    """A client that starts again for every message would pay for it every time; and for PyTorch's
    compiler."""
    code = """
import sys
import numpy as np
from torch import nn
from fedkin import SGD, SimulatedWorld, Stream, torch_model
from fedkin.data.federated import FederatedData, Ragged
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import train

rows = Ragged.of([np.arange(9)])
data = FederatedData("nine", np.ones((9, 2), np.float32), np.zeros(9, np.int64), 2, rows, rows)
world = SimulatedWorld(data, torch_model(lambda: nn.Linear(2, 2)), SGD(epochs=2))
start, one = world.initial(Stream(0))[None], np.zeros(1, np.int64)
assert (
    train(world, start, one, one, stream=Stream(0)).arrived.all()
    and evaluate(world, start, one, one).examples == 9
)
print(
    [
        name
        for name in ("jax", "equinox", "optax", "torch._dynamo", "torch._inductor")
        if name in sys.modules
    ]
)
"""
    assert fresh(code) == "[]"


def test_no_other_model_brings_pytorch() -> None:
    code = """
import sys
import fedkin as fk
from fedkin.config import registry
from fedkin.run import simulate
assert fk.torch_model and "torch" in registry.models()
data = fk.data.digits(clients=4)
fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2)
print("torch" in sys.modules)
"""
    assert fresh(code) == "False"


def test_without_pytorch_there_is_one_clear_line() -> None:
    code = """
import sys
sys.modules["torch"] = None
import fedkin as fk
try:
    fk.torch_model(lambda: None)
except fk.MissingExtra as error:
    print(error)
"""
    assert (
        fresh(code)
        == "PyTorch models need PyTorch, which is not installed: pip install 'fedkin[torch]'"
    )
    assert issubclass(MissingExtra, ImportError)


def test_configured_takes_a_place_only() -> None:
    with pytest.raises(ConfigError, match=r"torch: expected package\.module:factory, got 'nets'"):
        model_from_config(DATA, "nets")


# --- with a server optimiser


def test_a_server_optimizer_leaves_running_statistics_alone() -> None:
    """A step of size lr would make a variance negative; frozen parameters stay as they are."""

    def with_statistics() -> nn.Module:
        made = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3), nn.Linear(3, 2))
        made[1].weight.requires_grad_(False)
        return made

    model = fk.torch_model(with_statistics)
    slices = model.spec.slices
    assert model.spec.untrained == tuple(
        slices[name] for name in ("0.running_mean", "0.running_var", "1.weight")
    )
    run = go(model, fk.FedAvg(), options=[fk.FedAdam(lr=0.5)])
    plain = go(model, fk.FedAvg(), rounds=1)
    first = go(model, fk.FedAvg(), rounds=1, options=[fk.FedAdam(lr=0.5)])
    for name in ("0.running_mean", "0.running_var", "1.weight"):
        np.testing.assert_array_equal(first.models[0][slices[name]], plain.models[0][slices[name]])
    assert np.abs(run.models[0][slices["0.running_var"]] - 1).max() < 0.5
