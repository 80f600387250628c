"""Whole runs with a server optimiser: described, resumed, read again, named in tables, refused with
the place."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.registry import method_title
from fedkin.config.run import from_dict, load
from fedkin.core.errors import ConfigError
from fedkin.models import mclr
from fedkin.run.simulate import execute
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

DATA = federation()
GROUPS = fk.FlexCFL(clusters=2, alpha=3, steps=4)


def simulate(*optimizers: Any, rounds: int = 5, method: Any = GROUPS, **settings: Any) -> fk.Run:
    asked: dict[str, Any] = {"rounds": rounds, "cohort": 5, "checkpoint_every": 2, **settings}
    return fk.simulate(
        method,
        DATA,
        mclr(DATA),
        local=fk.SGD(lr=0.1),
        options=optimizers,
        **simulate_arguments(asked),
    )


def test_a_resumed_run_is_the_same_and_can_be_read(tmp_path: Path) -> None:
    adam = fk.FedAdam(lr=0.05)
    whole = simulate(adam)
    plain = simulate()
    simulate(adam, rounds=3, out=tmp_path / "run")
    resumed = simulate(adam, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.models, whole.models)
    squares = [run.state.extras["server_optimizer"]["square"] for run in (resumed, whole)]
    np.testing.assert_array_equal(squares[0], squares[1])
    assert resumed.records == whole.records
    read = fk.Run.load(tmp_path / "run")
    np.testing.assert_array_equal(read.models, whole.models)
    assert read.config.section("server_optimizer") == {
        "name": "fedadam",
        "lr": 0.05,
        "beta1": 0.9,
        "beta2": 0.99,
        "tau": 0.001,
    }
    assert np.abs(whole.models - plain.models).max() > 0.01
    assert (whole.records[-1]["bytes_down"], whole.records[-1]["bytes_up"]) == tuple(
        plain.records[-1][name] for name in ("bytes_down", "bytes_up")
    )


def test_another_optimiser_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    simulate(fk.FedAvgM(), rounds=2, out=tmp_path / "run")
    with pytest.raises(fk.CheckpointError, match="server_optimizer"):
        simulate(fk.FedAvgM(beta=0.5), rounds=3, out=tmp_path / "run", resume=True)


def test_tables_name_it() -> None:
    run = simulate(fk.FedYogi(), rounds=1, against=[fk.FedAvg()])
    assert run.summary()["method"] == "flexcfl+fedyogi" == run.records[0]["method"]
    assert run.against["fedavg"].summary()["method"] == "fedavg+fedyogi"
    assert (
        method_title("flexcfl+fedyogi") == "FlexCFL + FedYogi"
        and method_title("flexcfl") == "FlexCFL"
    )
    assert method_title("mine+other") == "mine+other"


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        (fk.PANM(), {}, "server_optimizer: method: PANM has no server"),
        (
            fk.FedAvg(),
            {"against": [fk.Local()]},
            "server_optimizer: run.against: local: Local has no server",
        ),
    ],
)
def test_methods_and_options_without_server_optimizers_are_refused(
    method: Any, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        simulate(fk.FedAdam(), rounds=1, method=method, out=tmp_path / "run", **options)
    assert words in str(error.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", ["fedadam", fk.FedAdam, fk.SGD(), None])
def test_objects_that_are_no_optimizers_are_refused(wrong: Any) -> None:
    unchecked = inspect.unwrap(fk.simulate)  # as users have it: types are checked in tests only
    with pytest.raises(
        ConfigError, match=r"options: expected options such as fk\.FedAdam\(\), got"
    ):
        unchecked(fk.FedAvg(), DATA, mclr(DATA), rounds=1, cohort=3, options=[wrong])


def test_two_options_of_one_section_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="options: server_optimizer is given twice; give at most one"
    ):
        simulate(fk.FedAdam(), fk.FedYogi())


def test_a_configuration() -> None:
    config = load(
        None,
        [
            "server_optimizer.name=fedadagrad",
            "server_optimizer.lr=0.02",
            "run.rounds=1",
            "run.against=[]",
        ],
    )
    assert from_dict(config.description().sections) == config
    run = execute(config, out=None)
    assert run.config.section("server_optimizer") == {
        "name": "fedadagrad",
        "lr": 0.02,
        "beta1": 0.0,
        "tau": 0.001,
    }
    assert run.summary()["method"] == "fedgroup+fedadagrad"
    assert (
        "server_optimizer" not in load(None, ["server_optimizer.name=none"]).description().sections
    )
    assert (
        "server_optimizer"
        not in load(None, ["server_optimizer.name=none", "server_optimizer.lr=0.1"])
        .description()
        .sections
    )
    assert "server_optimizer" not in load().description().sections


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["name=fedadan"],
            r"^server_optimizer\.name: unknown server optimizer 'fedadan'; did you mean 'fedadam'",
        ),
        (
            ["lr=0.1"],
            r"^server_optimizer\.name: is required; known: fedavgm, fedadam, fedyogi, fedadagrad, "
            r"none",
        ),
        (["name=fedavgm", "tau=0.1"], r"^server_optimizer\.tau: unknown key 'tau'"),
        (
            ["name=fedadam", "beta1=1.0"],
            r"^server_optimizer: beta1 must be a number in \[0, 1\), got 1.0",
        ),
    ],
)
def test_settings_that_cannot_be(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, [f"server_optimizer.{text}" for text in settings])
