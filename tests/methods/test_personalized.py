"""A personal part for each client with any method's clusters: heads, and models as Ditto's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.option_registry import known_values
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.methods import METHODS
from fedkin.methods.fedprox import FedProx
from fedkin.methods.flexcfl import FlexCFLState
from fedkin.models import mlp
from fedkin.options.personal.parts import PersonalHead, PersonalModel, refusal
from fedkin.options.server_optimizer import FedAdam
from fedkin.options.with_options import WithOptions, evaluation_task
from fedkin.run.folder import checkpoint
from fedkin.run.folder.checkpoint import Checkpoint
from fedkin.run.metrics.accuracy import score
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.methods import test_conformance as conformance
from tests.methods.test_conformance import CASES
from tests.option_lists import with_options

NOT_HEADS = {name for name, case in CASES.items() if case.personal == "models"}
NEITHER = {name for name, case in CASES.items() if case.personal == "none"}
BY_DIRECTION = {"sattler": {"newcomers": "direction"}, "flhc": {"newcomers": "direction"}}
WITH_HEADS = sorted(CASES.keys() - NOT_HEADS - NEITHER) + sorted(BY_DIRECTION)


def world(name: str, **options: Any) -> SimulatedWorld:
    """The simulated world of the conformance tests, with a hidden layer."""
    plain = conformance.simulated(name)
    return SimulatedWorld(plain.data, mlp(plain.data, conformance.HIDDEN), plain.work, **options)


def made(name: str, *options: Any) -> WithOptions:
    method = conformance.make(name, **BY_DIRECTION.get(name, {}))
    return with_options(method, *options, world=world(name))


def start_of(state: State) -> np.ndarray:
    """The run's initial model, where heads begin."""
    return state.extras["personal"]["start"]


def test_every_method_says_which_personal_parts_it_takes() -> None:
    for name in METHODS:
        method = conformance.make(name)
        assert bool(refusal(method, PersonalHead())) == (name in NOT_HEADS | NEITHER), name
        assert bool(refusal(method, PersonalModel())) == (name in NEITHER), name


@pytest.mark.parametrize(
    ("alone", "personal"),
    [("fedrep", PersonalHead(2)), ("fedper", PersonalHead(0)), ("ditto", PersonalModel())],
)
def test_with_one_cluster_it_is_the_published_method(alone: str, personal: Any) -> None:
    """Models, clients' memory, scores and bytes, to the last bit."""
    one = world("fedavg")
    other = world("fedavg")
    published = conformance.run(conformance.make(alone), one)
    option = conformance.run(made("fedavg", personal), other)
    np.testing.assert_array_equal(option.models, published.models)
    for name, array in one.memory().items():
        np.testing.assert_array_equal(other.memory()[name], array)
    np.testing.assert_array_equal(
        score(other, option, 9).scores.loss, score(one, published, 9).scores.loss
    )
    assert (sum(other.ledger.up.values()), sum(other.ledger.down.values())) == (
        sum(one.ledger.up.values()),
        sum(one.ledger.down.values()),
    )


@pytest.mark.parametrize("name", WITH_HEADS)
def test_heads_stay_on_clients(name: str) -> None:
    """All models keep the first head, in every round; heads differ, and bodies learn."""
    w = world(name)
    method = made(name, PersonalHead(1))
    first = method.init(w, Stream(5, 0, "init"))
    state = conformance.run(method, w, state=first)
    head = w.spec.head
    np.testing.assert_array_equal(
        state.models[:, head], np.repeat(start_of(first)[None, head], len(state.models), 0)
    )
    memory = w.memory()
    heads = memory["clients/personal_head"][memory["clients/personal_head.kept"].astype(bool)]
    assert len(np.unique(heads, axis=0)) == len(heads) > 8
    assert (state.models[0] != first.models[0]).any()
    own = score(w, state, 9)
    shared = score(w, replace(state, extras={}), 9)
    assert own.scores.loss.mean() < shared.scores.loss.mean()


@pytest.mark.parametrize("name", sorted(CASES.keys() - NEITHER))
def test_models_of_clients_leave_the_method_alone(name: str) -> None:
    """Clusters and their models are the method's own, to the last bit; clients are tested with
    theirs."""
    w = world(name)
    state = conformance.run(made(name, PersonalModel()), w)
    plain = conformance.run(conformance.make(name, **BY_DIRECTION.get(name, {})), world(name))
    conformance.assert_same(plain, state)
    assert state.clusters == plain.clusters
    assert (score(w, state, 9).scores.loss != score(w, plain, 9).scores.loss).any()


def test_the_pull_is_to_the_cluster_by_hand() -> None:
    """Two clusters at 0 and 10: from v = 0 one step of 0.5 towards the target 8, then 4 + 2 - 0.5
    (4 - 0) = 4; from v = 10 towards 16 to 13, then 13 + 1.5 - 0.5 (13 - 10) = 13."""
    w = FakeWorld(
        np.array([[8.0], [16.0]], np.float32),
        np.array([1, 1]),
        conformance.LocalTraining(2, lr=0.5),
    )
    method = with_options(conformance.make("fedavg"), PersonalModel(), world=w)
    state = method.init(w, Stream(1))
    state = replace(
        state, models=np.array([[0.0], [10.0]], np.float32), assignment=np.array([0, 1])
    )
    method.round(w, state, np.arange(2), Stream(1, 1))
    np.testing.assert_allclose(w.memory()["clients/own_model"], [[4], [13]])


def test_fedprox_pulls_the_shared_model_only() -> None:
    """The client's own model has one pull: the same with any mu."""
    kept = []
    for mu in (0.0, 2.0):
        w = world("fedavg")
        method = with_options(FedProx(mu), PersonalModel(strength=0.0), world=w)
        method.round(w, method.init(w, Stream(5, 0, "init")), np.arange(4), Stream(5, 1))
        kept.append(w.memory()["clients/own_model"])
    np.testing.assert_array_equal(*kept)


def test_a_client_that_moves_keeps_its_head() -> None:
    w = world("flexcfl")
    method = made("flexcfl", PersonalHead(1))
    state = conformance.run(method, w)
    before = w.memory()["clients/personal_head"].copy()
    w.reassigned(np.flatnonzero(state.assignment != UNASSIGNED))
    np.testing.assert_array_equal(w.memory()["clients/personal_head"], before)


@pytest.mark.parametrize("personal", [PersonalHead(1), PersonalModel()])
def test_a_state_goes_through_a_checkpoint_with_a_server_optimiser_too(
    tmp_path: Path, personal: Any
) -> None:
    w = world("flexcfl")
    for number, optimizers in enumerate(((), (FedAdam(lr=0.01),))):
        method = made("flexcfl", personal, *optimizers)
        state = conformance.run(method, w)
        folder = tmp_path / str(number)
        checkpoint.save(
            folder, Checkpoint(round=3, state=state, down={}, up={}, seconds=1.0), "run"
        )
        read = checkpoint.newest(folder)[0].state
        conformance.assert_same(read, state)
        assert type(read) is FlexCFLState and read.extras.keys() == state.extras.keys()
        assert len(read.extras) == 1 + len(optimizers)
        assert evaluation_task(read, w.spec, np.arange(2)) is not None
    head = w.spec.head
    if personal.layers:  # which no optimiser moves
        np.testing.assert_array_equal(
            state.models[:, head], np.repeat(start_of(state)[None, head], 3, 0)
        )


@pytest.mark.parametrize(
    ("name", "personal", "words"),
    [
        ("ifca", PersonalHead(), "IFCA compares losses of all models, .* personal.name=ditto"),
        ("flhc", PersonalHead(), "FLHC compares losses of all models .newcomers = 'loss'"),
        (
            "scaffold",
            PersonalModel(),
            "SCAFFOLD cannot have a personal part, since it already keeps control variates",
        ),
        (
            "panm",
            PersonalModel(),
            "PANM cannot have a personal part, since it already keeps the model of each peer",
        ),
        (
            "athena",
            PersonalHead(),
            "Athena cannot have a personal part, since it already keeps detectors",
        ),
    ],
)
def test_methods_that_refuse_a_personal_part(name: str, personal: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^personal: method: {words}"):
        with_options(conformance.make(name), personal, world=conformance.fake(name))


@pytest.mark.parametrize(
    ("head", "words"), [(None, "does not end in a weight"), (slice(0, 4), "has no other layer")]
)
def test_a_model_without_a_head(head: Any, words: str) -> None:
    w = conformance.fake("fedavg")
    w.spec = replace(w.spec, head=head)
    with pytest.raises(
        ConfigError, match=f"FedAvg with personal heads .*{words}.*personal.name=ditto"
    ):
        with_options(conformance.make("fedavg"), PersonalHead(), world=w)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("head", {"head_epochs": -1}),
        ("ditto", {"strength": -1.0}),
        ("ditto", {"own_epochs": 0}),
        ("ditto", {"own_lr": 0.0}),
    ],
)
def test_bad_options(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        known_values("personal")[name](**bad)
