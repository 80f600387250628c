"""A client's own model, of APFL and pFedMe, where the module has more than trained weights: in
PyTorch and in JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

import fedkin as fk
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.randomness import Stream
from fedkin.core.train_call import Envelope, MixedModel, TrainCall
from fedkin.core.training import LocalTraining
from fedkin.simulation.workers import worker_factory
from tests.simulation.torch.test_compiled_modules import THREE, federation

WORK = LocalTraining(epochs=2, batch_size=4, lr=0.05)
MOMENTUM = 0.5  # of running statistics
DATA = federation()


def normalised() -> nn.Module:
    """Batch normalisation between a layer that is frozen and one that is trained."""
    frozen = nn.Linear(64, 5).requires_grad_(False)
    return nn.Sequential(frozen, nn.BatchNorm1d(5, momentum=MOMENTUM), nn.ReLU(), nn.Linear(5, 3))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 3))


def trained(
    make: Callable,
    engine: str,
    work: LocalTraining,
    option: Any,
) -> tuple[np.ndarray, LocalUpdates, Any]:
    """The start, the result of a training from there, and the model.

    ``option`` is a function from the start of the three clients to their own model, or to the
    envelope.
    """
    model = fk.torch_model(make, engine=engine)
    _, trainer = worker_factory(model, THREE, 1, None)(DATA)
    start = model.initial(np.array([1, 2], np.uint32))[None]
    steps = work.count * -(-DATA.train.sizes // work.batch_size)
    given = option(np.repeat(start, 3, axis=0))
    call = TrainCall(
        models=start,
        clients=THREE,
        model_index=0 * THREE,
        work=work,
        num_steps=steps,
        stream=Stream(0, 1),
    )
    name = "mixed" if isinstance(given, MixedModel) else "envelope"
    return start, trainer.train(replace(call, **{name: given})), model


def mixed_model(start: np.ndarray) -> MixedModel:
    """v is another model than w, running statistics included; the frozen layer is the same."""
    own = start.copy()
    own[:, 64 * 5 + 5 :] += (
        np.random.default_rng(3).uniform(0.1, 0.5, own[:, 64 * 5 + 5 :].shape).astype(np.float32)
    )
    return MixedModel(own, np.array([0.25, 1.0, 0.7], np.float32))


def envelope(start: np.ndarray) -> Envelope:
    return Envelope(1.5, 3, 0.2)


@pytest.mark.parametrize("option", [mixed_model, envelope])
def test_both_engines_give_the_same(option: Callable) -> None:
    (_, torch, _), (_, jax, _) = (
        trained(normalised, engine, WORK, option) for engine in ("torch", "jax")
    )
    np.testing.assert_allclose(jax.update, torch.update, atol=2e-5)
    np.testing.assert_allclose(jax.own, torch.own, atol=2e-5)
    assert np.abs(torch.own - torch.update).max() > 0.01


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_statistics_of_the_mix_after_a_batch(engine: str) -> None:
    """By hand: the frozen layer's outputs of the batch, and the mix of both running means."""
    start, made, model = trained(
        normalised, engine, LocalTraining(batch_size=100, lr=0.05), mixed_model
    )
    mixed = mixed_model(np.repeat(start, 3, axis=0))
    mean = model.spec.slices["1.running_mean"]
    weight, bias = (start[0, model.spec.slices[f"0.{name}"]] for name in ("weight", "bias"))
    for client in range(3):
        batch = (DATA.x[DATA.train[client]] @ weight.reshape(5, 64).T + bias).mean(axis=0)
        share = mixed.share[client]
        before = share * mixed.start[client, mean] + (1 - share) * start[0, mean]
        after = (1 - MOMENTUM) * before + MOMENTUM * batch
        np.testing.assert_allclose(
            mixed.start[client, mean] + made.own[client, mean],
            after,
            atol=1e-5,
        )


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_statistics_of_the_minimiser_are_those_of_the_model(engine: str) -> None:
    _, made, model = trained(normalised, engine, WORK, envelope)
    for name in ("1.running_mean", "1.running_var", "0.weight"):
        part = model.spec.slices[name]
        np.testing.assert_array_equal(made.own[:, part], made.update[:, part])
    assert np.abs(made.own[:, model.spec.slices["1.running_mean"]]).max() > 0.01


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_a_batch_has_one_draw_of_dropped_units(engine: str) -> None:
    """From the same model, one step of v is the share of w's; and two short steps to theta are
    twice one."""
    one = LocalTraining(batch_size=100, lr=0.05)
    share = np.array([0.25, 1.0, 0.7], np.float32)
    _, made, _ = trained(dropping, engine, one, lambda start: MixedModel(start, share))
    np.testing.assert_allclose(made.own, share[:, None] * made.update, atol=1e-6)
    short, twice = (
        trained(dropping, engine, one, lambda start, n=n: Envelope(0.01, n, 1e-3))[1].own
        for n in (1, 2)
    )
    np.testing.assert_allclose(twice, 2 * short, atol=0.02 * np.abs(short).max())
