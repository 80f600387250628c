"""Random search of a comparison: distributions, drawn trials, and refusals with a right example."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedkin.config.comparison import load
from fedkin.config.comparison_grid import from_description
from fedkin.config.distributions import DIGITS, draws, from_value, is_distribution
from fedkin.core.errors import ConfigError

LR = "local.lr=log(0.01,0.3)"


def drawn(text: str, count: int = 400, seed: int = 0) -> list[Any]:
    """Values of a distribution."""
    distribution = from_value(text, "local.lr")
    assert distribution is not None
    return draws(distribution, "local.lr", count, seed)


def test_values_lie_within_their_bounds_and_have_their_distribution() -> None:
    logs = np.array(drawn("log(0.01, 1)"))
    assert logs.min() >= 0.01 and logs.max() <= 1
    assert np.mean(logs < 0.1) == pytest.approx(0.5, abs=0.1)  # half lie below the geometric mean
    uniform = np.array(drawn("uniform(0.01, 1)"))
    assert np.mean(uniform < 0.505) == pytest.approx(0.5, abs=0.1)
    assert np.mean(uniform < 0.1) < 0.2
    integers = drawn("int(2,4)")
    assert set(integers) == {2, 3, 4} and all(isinstance(value, int) for value in integers)
    assert set(drawn("choice(16, 32)")) == {16, 32}


def test_numbers_are_shown_exactly_as_they_are_run() -> None:
    assert all(value == float(f"{value:.{DIGITS}g}") for value in drawn("log(0.01, 0.3)"))


def test_more_trials_begin_with_the_same_values_and_seeds_differ() -> None:
    assert drawn("log(0.01,0.3)", 20)[:5] == drawn("log(0.01,0.3)", 5)
    assert drawn("log(0.01,0.3)", 5) != drawn("log(0.01,0.3)", 5, seed=1)


@pytest.mark.parametrize(
    ("text", "reason", "example"),
    [
        ("log(3,1)", "first bound must be below", "log(1, 3)"),
        ("log(0,1)", "must be above 0", "log(0.001, 1)"),
        ("log(-3,-1)", "must be above 0", "log(0.01, 0.3)"),
        ("int(2.5,3)", "must be integers", "int(2, 3)"),
        ("int(3,2)", "first bound must be below", "int(2, 3)"),
        ("uniform(1,1)", "first bound must be below", "uniform(0.1, 0.9)"),
        ("uniform(1)", "two numbers", "uniform(0.1, 0.9)"),
        ("log(a,b)", "two numbers", "log(0.01, 0.3)"),
        ("log(0.1,inf)", "two numbers", "log(0.01, 0.3)"),
        ("choice(2)", "two or more different values", "choice(16, 32, 64)"),
        ("lug(1,2)", "unknown distribution 'lug'; did you mean 'log'?", "log(0.01, 0.3)"),
        ("range(5,1)", "unknown distribution 'range'; known: choice, int", "log(0.01, 0.3)"),
        ("log(1,2", "closing bracket is missing", "log(0.01, 0.3)"),
    ],
)
def test_a_range_that_is_none_is_refused_with_a_right_example(
    text: str, reason: str, example: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, [], sweeps=[f"local.lr={text}"], trials=3)
    told = str(error.value)
    assert told.startswith(f"local.lr: {text}: ") and "\n" not in told
    assert reason in told and told.endswith(example)
    if example.startswith(("log", "int", "uniform", "choice")):
        assert from_value(example, "local.lr") is not None  # the example is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("local.epochs=uniform(1,3)", "local.epochs=int(1, 3)"),
        ("local.epochs=uniform(0.5,2.5)", "local.epochs=int(1, 2)"),
        ("local.epochs=uniform(0,4)", "local.epochs=int(1, 4)"),  # 0 epochs are refused
        ("local.epochs=uniform(1.2,1.8)", "local.epochs=int(2, 3)"),
        ("local.batch_size=log(8,64)", "local.batch_size=int(8, 64)"),
        ("method.clusters=uniform(2,4)", "method.clusters=int(2, 4)"),
    ],
)
def test_an_option_of_integers_has_no_distribution_of_other_numbers(text: str, right: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, [LR, text], methods=["fedavg", "ifca"], trials=3)
    told = str(error.value)
    key = text.partition("=")[0]
    assert told.startswith(f"{key}: ") and "takes integers" in told and "\n" not in told
    assert told.endswith(f"; for example {right}")
    # The example is right.
    grid = load(None, [LR, right], methods=["fedavg", "ifca"], trials=3)
    assert len(grid.settings) == 3


def test_two_options_of_integers_are_refused_one_after_the_other() -> None:
    both = ["local.epochs=uniform(1,3)", "local.batch_size=uniform(8,64)"]
    with pytest.raises(ConfigError, match=r"local.epochs: uniform\(1, 3\) draws numbers"):
        load(None, both, methods=["fedavg"], trials=3)


def test_options_of_other_numbers_have_distributions_as_before() -> None:
    grid = load(
        None, ["local.lr=uniform(1,3)", "method.mu=uniform(0,2)"], methods=["fedprox"], trials=2
    )
    assert all(setting.values["local.lr"] % 1 for setting in grid.settings)


def test_other_values_are_no_distributions() -> None:
    assert from_value("relu", "x") is None and from_value(0.1, "x") is None
    assert from_value('"log(1,2) of a path"', "x") is None
    assert is_distribution("log(0.1, 1)") and not is_distribution("logistic")
    assert not is_distribution("of(a, b)") and not is_distribution("mine(1)")


def test_every_method_has_the_same_trials_and_its_own_options() -> None:
    grid = load(
        None, [LR, "method.clusters=int(2,5)"], methods=["fedavg", "ifca", "fedgroup"], trials=6
    )
    assert len(grid.settings) == 6 and [m.label for m in grid.methods] == [
        "FedAvg",
        "IFCA",
        "FedGroup",
    ]
    avg, ifca, group = grid.methods
    for setting in grid.settings:
        rates = {setting.config(method).local.lr for method in grid.methods}
        assert rates == {setting.values["local.lr"]}
        clusters = setting.values["method.clusters"]
        assert setting.config(ifca).method.values["clusters"] == clusters
        assert setting.config(group).method.values["clusters"] == clusters
        assert "method.clusters" not in setting.swept(avg)
        assert setting.swept(ifca)["method.clusters"] == clusters
    assert len({setting.values["local.lr"] for setting in grid.settings}) == 6


def test_the_same_command_has_the_same_trials() -> None:
    one = load(None, [LR], trials=4)
    assert one == load(None, [], sweeps=[LR], trials=4)
    assert one == load(None, axes={"local.lr": "log(0.01, 0.3)"}, trials=4)
    # Another option draws from another stream.
    more = load(None, [LR, "local.epochs=int(1,3)"], trials=4)
    rates = [setting.values["local.lr"] for setting in one.settings]
    assert [setting.values["local.lr"] for setting in more.settings] == rates
    other = load(None, [LR, "run.seed=7"], trials=4)
    assert [setting.values["local.lr"] for setting in other.settings] != rates


def test_a_file_has_trials_and_problems_are_crossed_with_them(tmp_path: Path) -> None:
    path = tmp_path / "search.toml"
    path.write_text(
        '[data]\nname = "digits"\n[compare]\ntrials = 3\n'
        'grid = {"local.lr" = "log(0.01, 0.3)", "data.classes_per_client" = [2, 5]}\n'
    )
    grid = load(path)
    values = [(s.values["data.classes_per_client"], s.values["trial"]) for s in grid.settings]
    assert values == [(2, 1), (2, 2), (2, 3), (5, 1), (5, 2), (5, 3)]
    rates = [s.values["local.lr"] for s in grid.settings]
    assert rates[:3] == rates[3:]
    described = tomllib.loads(tomli_w.dumps(grid.description()))
    assert from_description(described, path) == grid


def test_lists_are_drawn_from_with_trials() -> None:
    grid = load(None, sweeps=["local.epochs=1,2"], trials=12)
    assert {setting.raw["local"]["epochs"] for setting in grid.settings} == {1, 2}
    assert len(grid.settings) == 12


@pytest.mark.parametrize(
    ("overrides", "trials", "words"),
    [
        ([LR], None, "add --trials 20"),
        ([], 3, "--grid 'local.lr=log(0.01, 0.3)'"),
        (["data.classes_per_client=int(2,5)"], 3, "--grid data.classes_per_client=A,B"),
        ([LR], 0, "trials must be an integer of at least 1"),
        (["local.lr=normal(0,1)"], 3, "local.lr: normal(0,1): unknown distribution 'normal'"),
        (["local.lr=log(0.01,0.3"], 3, "local.lr: log(0.01,0.3: the closing bracket is missing"),
        (["local.epochs=int(0,900)"], 1, "local.epochs (a bound of int(0, 900)): expected a value"),
    ],
)
def test_searches_that_cannot_be(overrides: list[str], trials: int | None, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, overrides, trials=trials)
    assert words in str(error.value)


def test_the_bounds_of_a_network_are_checked_with_its_name() -> None:
    """The demo's own model has no hidden layer."""
    grid = load(None, ["model.hidden=int(8,16)"], sweeps=["model.name=mlp"], trials=2)
    assert {setting.raw["model"]["name"] for setting in grid.settings} == {"mlp"}
