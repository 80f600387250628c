"""The PyTorch world compared with the compiled simulator: the same starts, the same batches, the
same
models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods import METHODS
from fedkin.models import mclr, mlp
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.losses import Losses
from fedkin.tasks.similarities import Similarities
from fedkin.tasks.train import train
from tests.methods import test_conformance as conformance
from tests.simulation import numpy_detectors
from tests.simulation.small_federation import EVERYONE, SIZES, federation, models
from tests.simulation.torch.twins import of_jax, pair

DATA = federation()
STREAM = Stream(3, 2, "run").child("train")
WHICH = np.array([0, 1, 1, 0, 1, 0, 1])
SGD = LocalTraining(epochs=3, batch_size=10, lr=0.1)
WORK = {
    "one epoch": replace(SGD, epochs=1),
    "three epochs": SGD,
    "one sample at a time": replace(SGD, batch_size=1),
    "larger than every client": replace(SGD, batch_size=200),
    "epochs of each": replace(SGD, epochs=np.array([1, 2, 3, 4, 3, 2, 1])),
    "steps": replace(SGD, steps=9),
    "proximal": replace(SGD, mu=1.0),
    "momentum": replace(SGD, momentum=0.9, lr=0.02),
    "proximal momentum": replace(SGD, mu=0.5, momentum=0.5),
    "adam": replace(SGD, optimizer="adam", lr=0.01),
    "proximal adam": replace(SGD, optimizer="adam", lr=0.01, mu=1.0),
}
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 3e-6}


def worlds(name: str, **options: Any) -> tuple[SimulatedWorld, SimulatedWorld]:
    """The same network in JAX and in PyTorch."""
    jax, torch = pair(name, DATA)
    return SimulatedWorld(DATA, jax, **options), SimulatedWorld(DATA, torch, **options)


def assert_same_training(name: str, **asked: Any) -> None:
    two = worlds(name)
    assert two[0].spec.parameters == two[1].spec.parameters
    start = models(two[0].model)  # type: ignore[arg-type]
    expected, got = (train(world, start, EVERYONE, WHICH, stream=STREAM, **asked) for world in two)
    for field in ("update", "loss", "first_loss", "weight", "gradient"):
        there = getattr(expected, field)
        here = getattr(got, field)
        assert (there is None) == (here is None)
        if here is not None:
            np.testing.assert_allclose(here, there, **CLOSE, err_msg=field)
            assert here.dtype == there.dtype
    for field in ("examples", "model_index", "arrived", "nonfinite"):
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field))
    assert got.arrived.all() and np.abs(got.update).max() > 0.01
    assert (two[0].ledger.down, two[0].ledger.up) == (two[1].ledger.down, two[1].ledger.up)


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("name", ["mclr", "mlp"])
def test_training(name: str, work: str) -> None:
    assert_same_training(name, work=WORK[work])


@pytest.mark.parametrize(
    "asked", [{"reduce": True}, {"gradient": True}, {"part": slice(54, 80)}], ids=str
)
def test_arrays_that_travel_back(asked: dict[str, Any]) -> None:
    assert_same_training("mlp", work=SGD, **asked)


@pytest.mark.parametrize("work", ["one epoch", "adam", "momentum"])
@pytest.mark.parametrize("name", ["linear", "small"])
def test_detectors(name: str, work: str) -> None:
    """Several rows of a client; those without a positive sample too."""
    two = worlds(name)
    start = models(two[0].model, 3)  # type: ignore[arg-type]
    clients = np.repeat(EVERYONE, 3)
    model_index = np.tile(np.arange(3), len(EVERYONE))
    own = replace(WORK[work], positive=model_index)
    expected, got = (
        train(world, start, clients, model_index, work=own, stream=STREAM) for world in two
    )
    np.testing.assert_allclose(got.update, expected.update, **CLOSE)
    np.testing.assert_allclose(got.loss, expected.loss, **CLOSE)
    np.testing.assert_allclose(got.first_loss, expected.first_loss, **CLOSE)


@pytest.mark.parametrize("name", ["mclr", "mlp"])
def test_questions(name: str) -> None:
    two = worlds(name)
    start = models(two[0].model, 3)  # type: ignore[arg-type]
    third = np.array([0, 1, 2, 0, 1, 2, 2])
    for ask in (
        lambda world: world.run(Losses(start), EVERYONE).losses,
        lambda world: world.run(LabelErrors(start), EVERYONE).error,
        lambda world: world.run(Gradients(start, third), EVERYONE).gradients,
        lambda world: evaluate(world, start, EVERYONE, third).loss,
        lambda world: world.run(Similarities(start[0], start, SGD), EVERYONE, STREAM).cosine,
    ):
        expected, got = (ask(world) for world in two)
        np.testing.assert_allclose(got, expected, **CLOSE)
        assert got.shape == expected.shape
    for split in ("train", "test"):
        expected, got = (evaluate(world, start, EVERYONE, third, split=split) for world in two)
        np.testing.assert_array_equal(got.correct, expected.correct)
        np.testing.assert_array_equal(got.examples, expected.examples)
        assert 0 < got.correct.sum() < got.examples.sum()


@pytest.mark.parametrize("split", ["train", "test"])
def test_detectors_are_scored(split: str) -> None:
    two = worlds("small")
    start = models(two[0].model, 4)  # type: ignore[arg-type]
    model_index = np.array(
        [[0, 1, 2], [3, 1, -1], [0, -1, -1], [-1, -1, 2], [3, 1, 2], [0, 0, 0], [2, 1, 0]]
    )
    expected, got = (evaluate(world, start, EVERYONE, model_index, split=split) for world in two)
    np.testing.assert_array_equal(got.correct, expected.correct)
    # Infinite where the class has no detector.
    np.testing.assert_allclose(got.loss, expected.loss, **CLOSE)
    third = np.arange(len(EVERYONE)) % 3
    expected, got = (
        world.run(Detections(start, WHICH, third, split=split), EVERYONE).counts for world in two
    )
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(got.sum(axis=(1, 2)), DATA.part(split).sizes)


def test_a_client_chooses_its_model() -> None:
    two = worlds("mlp")
    start = models(two[0].model, 4)  # type: ignore[arg-type]
    expected, got = (train(world, start, EVERYONE, work=SGD, stream=STREAM) for world in two)
    np.testing.assert_array_equal(got.model_index, expected.model_index)
    assert len(set(got.model_index.tolist())) > 1
    np.testing.assert_allclose(got.update, expected.update, **CLOSE)


def test_the_same_clients_drop_out_and_straggle() -> None:
    """The world decides which clients fail, whatever library computes."""
    two = worlds("mclr", population=Population(dropout=0.3, stragglers=0.5))
    start = models(two[0].model)
    seen = []
    for partial in (False, True):
        work = replace(SGD, epochs=6, partial=partial)
        expected, got = (
            train(world, start, EVERYONE, WHICH, work=work, stream=STREAM) for world in two
        )
        np.testing.assert_array_equal(got.arrived, expected.arrived)
        np.testing.assert_allclose(got.update, expected.update, **CLOSE)
        seen.append(int(got.arrived.sum()))
    assert 0 < seen[0] < seen[1] < len(SIZES)


def test_a_broken_model_is_set_aside() -> None:
    world = worlds("mclr")[1]
    start = models(world.model.like)  # type: ignore[attr-defined]
    start[1] = np.nan
    got = train(world, start, EVERYONE, WHICH, work=SGD, stream=STREAM)
    np.testing.assert_array_equal(got.nonfinite, WHICH == 1)
    np.testing.assert_array_equal(got.update[WHICH == 1], 0)


# --- whole methods


def both(name: str) -> tuple[SimulatedWorld, SimulatedWorld]:
    """The conformance suite's federation of three kinds, in both worlds."""
    there = conformance.simulated(name)
    jax, widths = (
        (numpy_detectors.linear(), (6, 1)) if there.spec.detects else (mclr(there.data), (6, 6))
    )
    if conformance.CASES[name].hidden:
        jax = mlp(there.data, conformance.HIDDEN)
        widths = (6, conformance.HIDDEN, 6)
    return there, SimulatedWorld(there.data, of_jax(jax, widths), there.work)


@pytest.mark.parametrize("name", METHODS)
def test_two_rounds_of_every_method_are_the_simulators(name: str) -> None:
    """The same clusters, and the same models to float tolerance."""
    expected, got = (
        conformance.run(conformance.make(name), world, rounds=2) for world in both(name)
    )
    assert type(got) is type(expected)
    np.testing.assert_array_equal(got.assignment, expected.assignment)
    np.testing.assert_allclose(got.models, expected.models, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_states_are_sound(name: str) -> None:
    conformance.test_states_are_sound_and_keep_their_shapes(name, lambda name: both(name)[1])
