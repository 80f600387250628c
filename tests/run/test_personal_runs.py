"""Whole runs with a personal part: described, resumed, read again, used, named in tables, refused
with the place."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.registry import method_title
from fedkin.config.run import load
from fedkin.core.errors import ConfigError
from fedkin.models import mclr, mlp
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

DATA = federation()
GROUPS = fk.FlexCFL(clusters=2, alpha=3, steps=4)


def simulate(
    personal: Any, rounds: int = 5, method: Any = GROUPS, model: Any = None, **options: Any
) -> fk.Run:
    asked: dict[str, Any] = {
        "rounds": rounds,
        "cohort": 5,
        "checkpoint_every": 2,
        "personal": personal,
        **options,
    }
    return fk.simulate(
        method, DATA, model or mlp(DATA, 6), local=fk.SGD(lr=0.1), **simulate_arguments(asked)
    )


@pytest.mark.parametrize(
    "personal", [fk.PersonalHead(head_epochs=1), fk.PersonalModel(strength=0.5)]
)
def test_a_resumed_run_is_the_same_and_can_be_read(tmp_path: Path, personal: Any) -> None:
    whole = simulate(personal)
    simulate(personal, rounds=3, out=tmp_path / "run")
    resumed = simulate(personal, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.models, whole.models)
    assert resumed.records == whole.records
    read = fk.Run.load(tmp_path / "run", model=mlp(DATA, 6), data=DATA)
    np.testing.assert_array_equal(read.models, whole.models)
    x = DATA.x[:7]
    np.testing.assert_array_equal(
        read.predict(x, client=1, proba=True), whole.predict(x, client=1, proba=True)
    )
    assert whole.evaluate().summary["accuracy"] == whole.summary()["final_accuracy"]
    if personal.layers:
        with pytest.raises(fk.MethodError, match="has a model for each client"):
            whole.predict(x, cluster=0)
    else:  # a personal part, in addition to the models of the clusters
        assert whole.predict(x, cluster=0).shape == (7,)


def test_another_part_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    simulate(fk.PersonalHead(), rounds=2, out=tmp_path / "run")
    with pytest.raises(fk.CheckpointError, match="personal"):
        simulate(fk.PersonalModel(), rounds=3, out=tmp_path / "run", resume=True)


def test_tables_name_it() -> None:
    run = simulate(
        fk.PersonalHead(1), rounds=1, against=[fk.FedAvg()], server_optimizer=fk.FedYogi()
    )
    assert run.summary()["method"] == "flexcfl+head+fedyogi"
    assert run.against["fedavg"].summary()["method"] == "fedavg+head+fedyogi"
    assert method_title("flexcfl+head+fedyogi") == "FlexCFL + personal heads + FedYogi"
    assert method_title("ifca+ditto") == "IFCA + Ditto"


def test_a_configuration_names_it() -> None:
    config = load(None, ["personal.name=ditto", "personal.strength=0.1", "run.against=[]"])
    assert config.description().section("personal")["strength"] == 0.1
    assert "personal" not in load(None, ["personal.name=none"]).description().sections
    assert "personal" not in load().description().sections


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["name=heads"], r"^personal\.name: unknown personal part 'heads'; did you mean 'head'"),
        (
            ["strength=0.1"],
            r"^personal\.name: is required; known: head, fedbn, bias, ditto, linear, none",
        ),
        (["name=head", "strength=0.1"], r"^personal\.strength: unknown key 'strength'"),
        (["name=ditto", "strength=-1.0"], r"^personal: strength"),
    ],
)
def test_bad_sections(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, [f"personal.{text}" for text in settings])


def test_refusals_name_the_place() -> None:
    with pytest.raises(ConfigError, match=r"^personal: run\.against: ifca: IFCA compares losses"):
        simulate(fk.PersonalHead(), method=fk.FedAvg(), against=[fk.IFCA(clusters=2)])
    with pytest.raises(
        ConfigError, match=r"^personal: method: FlexCFL with personal heads .* has no other layer"
    ):
        simulate(fk.PersonalHead(), model=mclr(DATA))
    unchecked = inspect.unwrap(fk.simulate)  # as users have it: types are checked in tests only
    with pytest.raises(
        ConfigError, match=r"options: expected options .*, got <class .*\.PersonalHead'>"
    ):
        unchecked(fk.FedAvg(), DATA, mlp(DATA, 6), rounds=1, cohort=3, options=[fk.PersonalHead])
