"""Terms of every step's gradient, in JAX and PyTorch, compared with a loop in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.train_call import Envelope, GradientTerms, MixedModel, TrainCall
from fedkin.core.training import LocalTraining
from fedkin.simulation.batching import epoch_batches
from fedkin.simulation.engine import SimulatedWorld
from tests.simulation import numpy_reference
from tests.simulation.small_federation import SIZES, federation, models, samples
from tests.simulation.torch.twins import WIDTHS, pair

DATA = federation()
STREAM = Stream(3, 2, "run").child("train")
CLIENTS = np.array([4, 2, 5])
INDEX = np.array([1, 0, 1])
SGD = LocalTraining(epochs=2, batch_size=10, lr=0.1)
WORK = {
    "sgd": SGD,
    "momentum and decay": replace(SGD, momentum=0.5, weight_decay=0.3),
    "clipping": replace(SGD, clip_norm=0.4),
    "adamw": replace(SGD, optimizer="adamw", lr=0.01, weight_decay=0.3),
}


def call(start: np.ndarray, work: LocalTraining, **options: Any) -> TrainCall:
    """Two epochs of the three rows."""
    return TrainCall(
        models=start,
        clients=CLIENTS,
        model_index=INDEX,
        work=work,
        num_steps=np.full(3, 2),
        stream=STREAM,
        **options,
    )


def options(names: str, size: int) -> dict[str, Any]:
    """The named terms of a call, and the parameters that it trains."""
    rng = np.random.default_rng(5)
    drawn = {
        "correction": rng.normal(size=(3, size)).astype(np.float32),
        "anchor": rng.normal(size=(3, size)).astype(np.float32),
        "strength": np.array([0.5, 0.0, 2.0], np.float32),
        "trained": rng.random(size) < 0.5,
    }
    given = {name: drawn[name] for name in names.split()}
    trained = given.pop("trained", None)
    return {"terms": GradientTerms(**given) if given else None, "trained": trained}


def by_hand(row: int, own: TrainCall) -> np.ndarray:
    start = own.models[INDEX[row]]
    work = own.work
    terms = own.terms or GradientTerms()
    client = int(CLIENTS[row])
    x, y = samples(DATA, client)
    made = epoch_batches(SIZES[client], work.batch_size, 2, STREAM.child("batches").client(client))
    w = start.astype(np.float64)
    optimizer = numpy_reference.Optimizer(work, np.zeros(len(w)), np.zeros(len(w)))
    trained = np.ones(len(w)) if own.trained is None else own.trained
    decoupled = work.optimizer == "adamw"
    for rows, count in zip(made.rows, made.valid, strict=True):
        _, gradient = numpy_reference.loss_and_gradient(
            w, WIDTHS["mclr"], x[rows[:count]], y[rows[:count]]
        )
        if terms.correction is not None:
            gradient = gradient + terms.correction[row]
        if terms.anchor is not None:
            gradient = gradient + terms.strength[row] * (w - terms.anchor[row])
        gradient = gradient * trained
        if work.clip_norm is not None:
            gradient = gradient * min(1, work.clip_norm / np.linalg.norm(gradient))
        move = optimizer.move(gradient + (0 if decoupled else work.weight_decay * w))
        w = w + trained * (move - (work.lr * work.weight_decay * w if decoupled else 0))
    return w - start


@pytest.mark.parametrize("library", [0, 1], ids=["jax", "torch"])
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize(
    "names", ["correction", "anchor strength", "trained", "correction anchor strength trained"]
)
def test_terms(names: str, work: str, library: int) -> None:
    model = pair("mclr", DATA)[library]
    own = call(models(pair("mclr", DATA)[0]), WORK[work], **options(names, model.spec.parameters))
    trainer: Any = SimulatedWorld(DATA, model)._trainer
    got = trainer.train(own)
    expected = [by_hand(row, own) for row in range(3)]
    np.testing.assert_allclose(got.update, expected, rtol=1e-4, atol=5e-6)
    if own.trained is not None:
        assert not got.update[:, ~own.trained].any()


def own_by_hand(
    row: int,
    start: np.ndarray,
    own: MixedModel,
    work: LocalTraining,
) -> tuple[np.ndarray, np.ndarray]:
    """The updates of a row's shared model w and of its personal model v, trained in the mix."""
    client = int(CLIENTS[row])
    x, y = samples(DATA, client)
    made = epoch_batches(SIZES[client], work.batch_size, 2, STREAM.child("batches").client(client))
    w = start.astype(np.float64)
    v = own.start[row].astype(np.float64)
    share = float(own.share[row])
    optimizers = [
        numpy_reference.Optimizer(work, np.zeros(len(w)), np.zeros(len(w))) for _ in range(2)
    ]
    decoupled = work.optimizer == "adamw"
    for rows, count in zip(made.rows, made.valid, strict=True):
        valid = rows[:count]
        moves = []
        mix = share * v + (1 - share) * w
        for optimizer, at, model, factor in zip(
            optimizers, (w, mix), (w, v), (1, share), strict=True
        ):
            _, slope = numpy_reference.loss_and_gradient(at, WIDTHS["mclr"], x[valid], y[valid])
            gradient = factor * slope
            if work.clip_norm is not None:
                gradient = gradient * min(1, work.clip_norm / np.linalg.norm(gradient))
            move = optimizer.move(gradient + (0 if decoupled else work.weight_decay * model))
            moves.append(move - (work.lr * work.weight_decay * model if decoupled else 0))
        w = w + moves[0]
        v = v + moves[1]
    return w - start, v - own.start[row]


@pytest.mark.parametrize("library", [0, 1], ids=["jax", "torch"])
@pytest.mark.parametrize("work", WORK)
def test_a_mixed_model(work: str, library: int) -> None:
    model = pair("mclr", DATA)[library]
    start = models(pair("mclr", DATA)[0])
    rng = np.random.default_rng(6)
    drawn = rng.normal(size=(3, model.spec.parameters)).astype(np.float32)
    own = MixedModel(drawn, np.array([0.25, 1.0, 0.7], np.float32))
    trainer: Any = SimulatedWorld(DATA, model)._trainer
    got = trainer.train(call(start, WORK[work], mixed=own))
    assert trainer.train(call(start, WORK[work])).own is None
    expected = [own_by_hand(row, start[INDEX[row]], own, WORK[work]) for row in range(3)]
    np.testing.assert_allclose(got.update, [w for w, _ in expected], rtol=1e-4, atol=5e-6)
    np.testing.assert_allclose(got.own, [v for _, v in expected], rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("library", [0, 1], ids=["jax", "torch"])
@pytest.mark.parametrize("work", WORK)
def test_an_envelope(work: str, library: int) -> None:
    """Each step along strength (w - theta), compared with a loop in NumPy."""
    model = pair("mclr", DATA)[library]
    envelope = Envelope(1.5, 3, 0.2)
    settings = WORK[work]
    start = models(pair("mclr", DATA)[0])
    trainer: Any = SimulatedWorld(DATA, model)._trainer
    got = trainer.train(call(start, settings, envelope=envelope))
    decoupled = settings.optimizer == "adamw"
    for row, client in enumerate(CLIENTS.tolist()):
        x, y = samples(DATA, client)
        made = epoch_batches(
            SIZES[client], settings.batch_size, 2, STREAM.child("batches").client(client)
        )
        begin = start[INDEX[row]].astype(np.float64)
        w = theta = begin
        optimizer = numpy_reference.Optimizer(settings, np.zeros(len(w)), np.zeros(len(w)))
        for rows, count in zip(made.rows, made.valid, strict=True):
            theta = w
            for _ in range(envelope.steps):
                slope = numpy_reference.loss_and_gradient(
                    theta, WIDTHS["mclr"], x[rows[:count]], y[rows[:count]]
                )[1]
                theta = theta - envelope.lr * (slope + envelope.strength * (theta - w))
            gradient = envelope.strength * (w - theta)
            if settings.clip_norm is not None:
                gradient = gradient * min(1, settings.clip_norm / np.linalg.norm(gradient))
            move = optimizer.move(gradient + (0 if decoupled else settings.weight_decay * w))
            w = w + move - (settings.lr * settings.weight_decay * w if decoupled else 0)
        np.testing.assert_allclose(got.update[row], w - begin, rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(got.own[row], theta - begin, rtol=1e-4, atol=2e-5)
