"""PyTorch modules compiled by JAX, compared with PyTorch: updates, losses, statistics. A module
that
cannot be compiled is found before a run."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pytest
from torch import nn

import fedkin as fk
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.errors import MissingExtra, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.data.ragged import Ragged
from fedkin.simulation.torch.engine_choice import _compared, hooked_layer, without_dropout
from fedkin.simulation.torch.torchax_library import environment
from fedkin.simulation.workers import check_samples, worker_factory
from tests.simulation.torch.modules import (
    MODULES,
    BackwardHook,
    Branch,
    CountsSamples,
    Hooked,
    NoLowering,
    OwnDropout,
    OwnMean,
    OwnState,
)

WORK = LocalTraining(epochs=2, batch_size=4, lr=0.05, momentum=0.9, weight_decay=1e-3)
THREE = np.arange(3)


def federation(words: bool = False) -> FederatedData:
    """Three clients with 10, 11 and 7 samples: last batches of 2 and 3."""
    chance = np.random.default_rng(0)
    x = (
        chance.integers(0, 20, (28, 7))
        if words
        else chance.normal(size=(28, 64)).astype(np.float32)
    )
    own = Ragged.of(np.split(np.arange(28), [10, 21]))
    return FederatedData(
        name="three", x=x, y=chance.integers(0, 3, 28), classes=3, train=own, test=own
    )


def both(kind: str) -> list[Any]:
    """The module trained by PyTorch and by JAX."""
    return [
        fk.torch_model(lambda: without_dropout(MODULES[kind]()), name=kind, engine=e)
        for e in ("torch", "jax")
    ]


@pytest.mark.parametrize("kind", MODULES)
def test_it_computes_as_pytorch(kind: str) -> None:
    data = federation(kind == "recurrent")
    outcomes = []
    for model in both(kind):
        scorer, trainer = worker_factory(model, THREE, 1, None)(data)
        start = np.stack([model.initial(np.array([1, k], np.uint32)) for k in range(2)])
        steps = 2 * -(-data.train.sizes // 4)
        done = trainer.train(
            TrainCall(
                models=start,
                clients=THREE,
                model_index=THREE % 2,
                work=WORK,
                num_steps=steps,
                stream=Stream(0, 1),
                gradient=True,
            ),
        )
        updated = (start[THREE % 2] + np.asarray(done.update)).astype(np.float32)
        scores = scorer.scores(updated[0], THREE, "test")
        outcomes.append((done.update, done.gradient, done.loss, done.first_loss, scores))
    largest = np.abs(np.asarray(outcomes[0][0])).max()
    for theirs, ours in zip(*outcomes, strict=True):
        np.testing.assert_allclose(
            np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-4 * largest
        )


def test_running_statistics_move_and_frozen_layers_do_not() -> None:
    normal, frozen = (both(kind)[1] for kind in ("batch norm", "frozen"))
    for model, name, moves in ((normal, "norm.running_var", True), (frozen, "first.weight", False)):
        _, trainer = worker_factory(model, THREE, 1, None)(federation())
        start = model.initial(np.array([1, 2], np.uint32))[None]
        done = trainer.train(
            TrainCall(
                models=start,
                clients=THREE,
                model_index=0 * THREE,
                work=WORK,
                num_steps=np.full(3, 2),
                stream=Stream(0, 1),
            )
        )
        assert bool(np.asarray(done.update)[:, model.spec.slices[name]].any()) == moves


def test_dropout_is_drawn_from_the_run_s_seed() -> None:
    data = federation()
    model = fk.torch_model(MODULES["dropout"], engine="jax")
    _, trainer = worker_factory(model, THREE, 1, None)(data)
    start = model.initial(np.array([1, 2], np.uint32))[None]
    one, again, other = (
        np.asarray(
            trainer.train(
                TrainCall(
                    models=start,
                    clients=THREE,
                    model_index=0 * THREE,
                    work=WORK,
                    num_steps=np.full(3, 4),
                    stream=Stream(seed, 1),
                ),
            ).update
        )
        for seed in (0, 0, 1)
    )
    assert (one == again).all() and (one != other).any()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (OwnMean, "samples of a batch that are mixed"),
        (OwnState, "running state that it keeps itself"),
        (Branch, "depends on the values of its samples"),
        (CountsSamples, "depends on the values of its samples"),
        (NoLowering, "no lowering"),
        (BackwardHook, "hooks, which layer 'head' has"),
    ],
)
def test_modules_that_cannot_be_compiled(
    module: type, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ModelError, match=rf"{words}.*set engine='torch'"):
        check_samples(fk.torch_model(module, engine="jax"), federation())
    with caplog.at_level(logging.WARNING, "fedkin"):
        model: Any = fk.torch_model(module, engine="auto", name="own")
        assert model.in_jax(federation()) is None
        assert model.in_jax(federation()) is None  # decided once
    [line] = caplog.messages
    assert line.startswith("PyTorch trains model 'own': ") and words in line


def test_hooks_that_agree_are_compiled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """They compute the same, but no more than once; tied weights and a parametrisation are no
    hooks."""
    model: Any = fk.torch_model(Hooked, engine="jax", name="own")
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert model.in_jax(federation()) is not None
    assert "model 'own' has hooks (layer 'head')" in caplog.text
    assert hooked_layer(MODULES["twice the same"]()) is None
    assert hooked_layer(nn.utils.parametrizations.weight_norm(nn.Linear(64, 3))) is None


def test_dropout_without_a_layer_is_compiled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    model: Any = fk.torch_model(OwnDropout, engine="jax", name="own")
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert model.in_jax(federation()) is not None
    assert (
        "model 'own' draws random numbers in its own code, so the trial compares inference only"
        in caplog.text
    )


def test_a_loss_that_differs_is_a_difference() -> None:
    one = LocalUpdates(*(np.full(shape, 2.0) for shape in ((1, 3), 1, 1, (1, 3))))
    assert _compared(one, one) == 0
    for name in ("update", "gradient", "loss", "first_loss"):
        other = one._replace(**{name: np.full_like(getattr(one, name), 2.002)})
        assert _compared(other, one) == pytest.approx(1e-3)


def test_a_convolution_with_a_stride_is_not_compiled_unasked() -> None:
    model: Any = fk.torch_model(MODULES["group norm"], engine="auto")
    assert model.in_jax(federation()) is None
    assert model.decided(federation()).engine == "torch"


def test_auto_says_which(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fedkin"):
        model: Any = fk.torch_model(MODULES["linear"], engine="auto", name="own")
        assert model.decided(federation()).engine == "jax"
    assert "JAX compiles model 'own': a trial agrees with PyTorch to" in caplog.text


def test_an_optimizer_of_pytorch() -> None:
    import torch

    model = fk.torch_model(
        MODULES["linear"], engine="jax", optimizer=lambda p, lr: torch.optim.RMSprop(p, lr)
    )
    with pytest.raises(ModelError, match=r"it has its own PyTorch optimizer"):
        check_samples(model, federation())


def test_whole_runs_and_their_models() -> None:
    """The same clusters and accuracies, and the module back with its weights."""
    data = fk.data.digits(clients=10)
    runs = []
    for engine in ("torch", "jax"):
        model: Any = fk.torch_model(
            lambda: nn.Sequential(
                nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10)
            ),
            engine=engine,
        )
        work = fk.SGD(epochs=1, batch_size=10, lr=0.1)
        runs.append(
            fk.simulate(
                fk.FedAvg(),
                data,
                model,
                rounds=2,
                cohort=6,
                local=work,
                callbacks=fk.Progress(False),
            )
        )
    theirs, ours = runs
    np.testing.assert_allclose(ours.models, theirs.models, atol=1e-5)
    assert ours.summary()["final_accuracy"] == pytest.approx(
        theirs.summary()["final_accuracy"], abs=2e-3
    )
    weights = model.network(ours.models[0]).state_dict()["0.weight"].numpy()
    np.testing.assert_array_equal(weights.ravel(), ours.models[0][: weights.size])


def test_engines_by_name_and_an_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="engine must be one of torch, jax, auto, got 'tpu'"):
        fk.torch_model(MODULES["linear"], engine="tpu")
    with pytest.raises(ModelError, match=r"Linear is a PyTorch module: use fk\.torch_model"):
        fk.as_model(nn.Linear(2, 2))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torchax", None)
    environment.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[torchax\]'"):
        check_samples(fk.torch_model(MODULES["linear"], engine="jax"), federation())
    model = fk.torch_model(MODULES["linear"], engine="auto")
    assert model.in_jax(federation()) is None  # type: ignore[attr-defined]
    environment.cache_clear()
