"""A configuration is understood completely or refused with its place."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from fedkin.config import registry as choices
from fedkin.config.registry import resolve
from fedkin.config.run import from_dict, load
from fedkin.core.errors import ConfigError
from fedkin.core.schedule import Schedule
from fedkin.core.training import AdamW, LocalTraining
from fedkin.methods import FedGroup, FedProx
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Incremental
from fedkin.scenarios.swaps import SwapPart

FILE = """
[data]
name = "planted"
base = "digits"
clients = 12
[model]
name = "mlp"
hidden = 16
[method]
name = "fedgroup"
clusters = 4
eta_g = 1
[local]
epochs = 3
lr = 0.1
momentum = 0.5
[scenario]
dropout = 0.25
arrivals = {5 = 3}
[shift]
name = "swap_part"
probability = 0.1
[run]
rounds = 9
cohort = 4
seed = 2
against = ["fedavg", {name = "fedprox", mu = 0.5}]
target = 0.8
selection = "round_robin"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    return path


def test_a_file_becomes_objects(file: Path) -> None:
    config = load(file)
    assert config.method.made == FedGroup(clusters=4, eta_g=1.0)
    assert config.against[1].made == FedProx(mu=0.5)
    assert config.work == LocalTraining(epochs=3, batch_size=10, lr=0.1, momentum=0.5)
    assert config.scenario == Population(dropout=0.25, arrivals={5: 3})
    data = config.data.make()
    assert data.clients == 12 and data.true_clusters is not None
    assert config.model.make(data).spec.parameters == 64 * 16 + 16 + 16 * 10 + 10
    assert (config.run.rounds, config.run.cohort, config.run.seed, config.run.target) == (
        9,
        4,
        2,
        0.8,
    )
    assert config.run.selection == "round_robin"
    assert config.shift is not None and config.shift.made == SwapPart(probability=0.1)


def test_it_round_trips_through_toml(file: Path) -> None:
    config = load(file)
    again = from_dict(tomllib.loads(tomli_w.dumps(config.description().sections)))
    assert again == config
    assert again.description() == config.description()


def test_every_default_is_spelled_out(file: Path) -> None:
    described = load(file).description().sections
    assert set(described["method"]) == {"name", *inspect.signature(FedGroup).parameters}
    assert described["data"]["kind"] == "rotation"
    assert described["local"]["batch_size"] == 10
    assert described["shift"] == {"name": "swap_part", "probability": 0.1, "as_coded": False}
    assert load().description().run["selection"] == "uniform"


def test_without_arguments_it_is_the_demonstration() -> None:
    config = load()
    assert (config.data.name, config.model.name, config.method.name) == (
        "digits",
        "mclr",
        "fedgroup",
    )
    assert [entry.name for entry in config.against] == ["fedavg"]


def test_every_key_has_the_value_default(file: Path) -> None:
    """A key that is not there is taken away as well, but must be one."""
    plain = load(None, ["data.name=mnist"])
    text = [
        "data.name=mnist",
        "data.partition=dirichlet",
        "data.alpha=0.1",
        "run.rounds=3",
        "local.lr=1.5",
    ]
    away = [
        "data.partition=default",
        "data.alpha=default",
        "run.rounds=default",
        "local.lr=default",
    ]
    assert load(None, [*text, *away]) == plain
    assert (
        load(
            None,
            ["data.name=mnist", "data.alpha=default", "run.target=default", "model.name=default"],
        )
        == plain
    )
    assert (
        load(file, ["shift.name=swap_all", "shift.probability=default"]).shift
        == load(None, ["shift.name=swap_all"]).shift
    )
    with pytest.raises(
        ConfigError, match=r"^data\.alhpa: unknown key 'alhpa'; did you mean 'alpha'"
    ):
        load(None, ["data.name=mnist", "data.alhpa=default"])


def test_data_with_a_path_are_a_file() -> None:
    config = load(
        None,
        [
            "data.path=my.csv",
            "data.label=outcome",
            "data.client=hospital",
            "data.features=['a', 'b']",
        ],
    )
    assert config.data.values == {
        "name": "file",
        "path": "my.csv",
        "label": "outcome",
        "client": "hospital",
        "features": ["a", "b"],
    }
    assert load(None, ["data.path=my.csv"]).data.values == {
        "name": "file",
        "path": "my.csv",
    }


def test_a_file_alone_is_compared_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[method]\nname = "fedavg"\n')
    assert load(tmp_path / "run.toml").against == ()


def test_the_main_method_is_not_run_against_itself() -> None:
    assert load(None, ["method.name=fedavg"]).against == ()
    assert len(load(None, ["run.against=['fedgroup', 'fedavg']"]).against) == 1
    assert [entry.name for entry in load(None, ["run.against=ifca, fedavg"]).against] == [
        "ifca",
        "fedavg",
    ]


def test_overrides_win_over_the_file(file: Path) -> None:
    config = load(
        file,
        ["method.clusters=2", "data.kind=label_permutation", "run.target=0.5", "model.hidden = 8"],
    )
    assert config.method.values["clusters"] == 2 and config.method.values["eta_g"] == 1.0
    assert (config.data.values["kind"], config.run.target, config.model.values["hidden"]) == (
        "label_permutation",
        0.5,
        8,
    )


def test_a_shift_may_be_named_on_the_command_line() -> None:
    config = load(None, ["shift.name=incremental", "shift.every=20", "shift.releases=[0.5, 1.0]"])
    assert config.shift is not None and config.shift.made == Incremental(
        every=20, releases=(0.5, 1.0)
    )
    assert from_dict(tomllib.loads(tomli_w.dumps(config.description().sections))) == config


def test_data_stay_where_no_shift_is_named() -> None:
    assert load().shift is None and "shift" not in load().description().sections


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("data.nam=digits", r"^data\.nam: unknown key 'nam'; did you mean 'name'\?"),
        ("method.nmae=fedavg", r"^method\.nmae: unknown key 'nmae'; did you mean 'name'\?"),
        (
            "run.against=['fedgroup', {name = 'fedgroup', clusters = 5}]",
            r"^run\.against: method 'fedgroup' is named twice",
        ),
        (
            "run.against=[{name = 'fedgroup', clusters = 5}]",
            r"^run\.against: 'fedgroup' is the main method",
        ),
        ("run.rouns=3", r"^run\.rouns: unknown key 'rouns'; did you mean 'rounds'\?"),
        ("rum.rounds=3", r"^rum: unknown section 'rum'; did you mean 'run'\?"),
        ("data.name=minst", r"^data\.name: unknown data set 'minst'; did you mean 'mnist'\?"),
        ("model.name=mclt", r"^model\.name: unknown model 'mclt'; did you mean 'mclr'\?"),
        (
            "method.name=fedgruop",
            r"^method\.name: unknown method 'fedgruop'; did you mean 'fedgroup'\?",
        ),
        ("method.cluster=3", r"^method\.cluster: unknown key 'cluster'; did you mean 'clusters'\?"),
        ("data.claints=3", r"^data\.claints: unknown key 'claints'; did you mean 'clients'\?"),
        ("run.rounds=ten", r"^run\.rounds: expected a valid integer, got 'ten'"),
        ("run.rounds=0", r"^run\.rounds: expected a value greater than or equal to 1, got 0"),
        ("run.cohort=2.5", r"^run\.cohort: expected a valid integer"),
        ("run.seed=-1", r"^run\.seed: expected a value greater than or equal to 0, got -1"),
        ("run.target=1.5", r"^run\.target: expected a value less than or equal to 1, got 1\.5"),
        ("local.lr=0", r"^local\.lr: expected a value greater than 0, got 0"),
        ("local.lr=nan", r"^local\.lr: expected a"),
        ("local.optimizer=sgdd", r"^local: optimizer must be 'sgd', 'adam' or 'adamw', got 'sgdd'"),
        ("local.weight_decay=-1.0", r"^local: weight_decay must be a number from 0 up, got -1\.0"),
        (
            "local.schedule=cosine",
            r"^local: schedule: 'cosine' needs length, the number of rounds until its end",
        ),
        (
            "local.step_schedule={name='cosin'}",
            r"^local: step_schedule: unknown schedule 'cosin'; did you mean 'cosine'",
        ),
        (
            "local.class_weights=[1.0, -2.0]",
            r"^local: class_weights must be 'balanced' or a number above 0",
        ),
        ("local.momentum=1.0", r"^local: momentum must be a number in \[0, 1\), got 1\.0"),
        ("method.clusters=0", r"^method: clusters must be an integer of at least 1, got 0"),
        ("scenario.dropout=2", r"^scenario: dropout must be a fraction in \[0, 1\], got 2"),
        (
            "scenario.dropoot=0.2",
            r"^scenario\.dropoot: unknown key 'dropoot'; did you mean 'dropout'\?",
        ),
        (
            "run.selection=robin",
            r"^run\.selection: expected .*'uniform', 'round_robin', 'poisson' or",
        ),
        ("shift.name=swap_al", r"^shift\.name: unknown shift 'swap_al'; did you mean 'swap_all'\?"),
        (
            "shift.nmae=swap_all",
            r"^shift\.name: is required; known: swap_all, swap_part, incremental",
        ),
        ("shift.probability=0.5", r"^shift\.name: is required; known: swap_all"),
        ("shfit.name=swap_all", r"^shfit: unknown section 'shfit'; did you mean 'shift'\?"),
        (
            "run.against=['fedavh']",
            r"^run\.against: name: unknown method 'fedavh'; did you mean 'fedavg'\?",
        ),
        ("run.against=['fedavg', 'fedavg']", r"^run\.against: method 'fedavg' is named twice"),
        (
            "run.against=[{mu = 1}]",
            r"^run\.against: expected a method's name or a table with a name",
        ),
        ("run.against=3", r"^run\.against: expected a valid (array|list), got 3"),
        (
            "run.against=[{name = 'fedprox', mu = -1}]",
            r"^run\.against: mu must be a number from 0 up",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, [line])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "shift.probabilty=0.5",
            r"^shift\.probabilty: unknown key 'probabilty'; did you mean 'probability'\?",
        ),
        ("shift.probability=often", r"^shift\.probability: expected a valid number, got 'often'"),
        ("shift.probability=2", r"^shift: probability must be a fraction"),
    ],
)
def test_mistakes_in_a_shift(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, ["shift.name=swap_all", line])


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[run]\nrounds = 'ten'\n")
    with pytest.raises(
        ConfigError, match=r"run\.toml: run\.rounds: expected a valid integer, got 'ten'"
    ):
        load(path)
    for section in ("[shift]\nprobability = 0.5\n", "[shift]\n"):
        path.write_text(section)
        with pytest.raises(
            ConfigError, match=r"run\.toml: shift\.name: is required; known: swap_all"
        ):
            load(path)
    path.write_text("run = 3\n")
    for overrides in ([], ["run.rounds=3"]):
        with pytest.raises(ConfigError, match=r"run\.toml: run: expected a section, got 3"):
            load(path, overrides)


@pytest.mark.parametrize("kind", ["datasets", "models", "methods", "shifts"])
def test_every_named_choice_has_options_that_can_be_checked(kind: str) -> None:
    registry = getattr(choices, kind)()
    for name, call in registry.items():
        parameters = inspect.signature(call).parameters.values()
        required = {
            p.name: "x"
            for p in parameters
            if p.default is p.empty and p.name not in choices.NOT_OPTIONS
        }
        entry = resolve(kind, registry, {"name": name, **required}, str)
        assert entry.values["name"] == name


def test_a_recipe_of_local_training() -> None:
    settings = [
        "local.optimizer=adamw",
        "local.weight_decay=0.1",
        "local.clip_norm=1.0",
        "local.class_weights=balanced",
    ]
    config = load(
        None,
        [
            *settings,
            "local.schedule={name='cosine', length=50, warmup=5}",
            "local.step_schedule=linear",
        ],
    )
    expected = AdamW(10, 10, 0.03, 0.1, clip_norm=1.0, class_weights="balanced")
    assert config.work == replace(
        expected, schedule=Schedule("cosine", length=50, warmup=5), step_schedule=Schedule("linear")
    )
    assert from_dict(config.description().sections).work == config.work


def test_a_recipe_that_is_not_used_is_not_described() -> None:
    """A run from before there were any of these options has the same description, and goes on."""
    assert list(load().description().local) == [
        "epochs",
        "batch_size",
        "lr",
        "optimizer",
        "momentum",
    ]
