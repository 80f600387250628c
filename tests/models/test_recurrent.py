"""Recurrent networks against NumPy loops, their sizes as published, and their treatment of
words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import fedkin as fk
from fedkin.core.errors import ModelError
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import MODELS, cnn, lstm, mclr, mlp, rnn
from fedkin.models.model import Model
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax.training_losses import cross_entropy
from fedkin.tasks.train import train
from tests.simulation.small_federation import federation

WORDS = np.array([3, 4], np.uint32)


def text(
    length: int = 7,
    classes: int = 2,
    vocabulary: int = 20,
    width: int | None = None,
    samples: int = 9,
    seed: int = 0,
) -> FederatedData:
    """One client with random words; vectors of this width, the first of them zero, or none."""
    rng = np.random.Generator(np.random.PCG64(seed))
    vectors = None if width is None else rng.normal(size=(vocabulary, width)).astype(np.float32)
    if vectors is not None:
        vectors[0] = 0
    x = rng.integers(vocabulary, size=(samples, length))
    y = np.arange(samples) % classes
    rows = Ragged.of([np.arange(samples)])
    names = tuple(f"word{v}" for v in range(vocabulary))
    return FederatedData(
        name="lines",
        x=x,
        y=y,
        classes=classes,
        train=rows,
        test=rows,
        vocabulary=names,
        vectors=vectors,
    )


def weights(model: Model) -> np.ndarray:
    """Initial weights with biases moved away from zero."""
    noise = np.random.Generator(np.random.PCG64(7)).normal(scale=0.3, size=model.spec.parameters)
    return model.initial(WORDS) + noise.astype(np.float32)


def scores(model: Model, w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(model.apply(model.unflatten(jnp.asarray(w)), jnp.asarray(x), None))


def test_fedgroups_network_for_sent140(oracle: Callable[[str], dict[str, Any]]) -> None:
    """(300+100)*400 + 400 + (100+100)*400 + 400 + 3,030 + 31; the vectors are not among them."""
    model = lstm(text(length=25, width=300))
    assert model.spec.parameters == 243_861
    assert model.spec.head == slice(243_830, 243_861) and model.spec.head_bias == slice(
        243_860, 243_861
    )
    assert model.spec.parameters == oracle("misc")["parameter_counts"]["sent140_lstm_v1"]


def test_the_network_for_shakespeare() -> None:
    """80 characters, 8-wide embedding, two layers of 256, a score for each character."""
    model = lstm(
        text(length=80, classes=80, vocabulary=80, samples=80), hidden=256, dense=0, embedding=8
    )
    layers = (8 + 256 + 1) * 1024 + (256 + 256 + 1) * 1024
    assert model.spec.parameters == 80 * 8 + layers + 257 * 80 == 817_872
    assert model.spec.head == slice(817_872 - 257 * 80, 817_872)


def test_fedsims_network_for_goodreads() -> None:
    model = rnn(text(length=40, width=50))
    assert model.spec.parameters == (50 + 128 + 1) * 128 + 128 + 1
    assert model.spec.head == slice(model.spec.parameters - 129, model.spec.parameters)


def part(model: Model, w: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight [out, in] and bias of one layer."""
    bias = w[model.spec.slices[f"{name}.bias"]].astype(np.float64)
    return w[model.spec.slices[f"{name}.weight"]].reshape(len(bias), -1).astype(np.float64), bias


def vectors_of(model: Model, w: np.ndarray, data: FederatedData) -> np.ndarray:
    if data.vectors is not None:
        return data.vectors.astype(np.float64)
    assert data.vocabulary is not None
    return w[model.spec.slices["words"]].reshape(len(data.vocabulary), -1).astype(np.float64)


def tanh_states(weight: np.ndarray, bias: np.ndarray, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """One sequence through BasicRNNCell: tanh of the kernel times input and state."""
    states = [np.zeros(len(bias))]
    for x in inputs:
        states.append(np.tanh(weight @ np.concatenate([x, states[-1]]) + bias))
    return states[1:]


def lstm_states(weight: np.ndarray, bias: np.ndarray, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """One sequence through BasicLSTMCell: gates i, j, f, o, each with a separate kernel here;
    forget bias 1."""
    units = len(bias) // 4
    memory = np.zeros(units)
    states = [np.zeros(units)]
    for x in inputs:
        both = np.concatenate([x, states[-1]])
        i, j, f, o = (
            weight[g * units : (g + 1) * units] @ both + bias[g * units : (g + 1) * units]
            for g in range(4)
        )
        memory = expit(f + 1.0) * memory + expit(i) * np.tanh(j)
        states.append(expit(o) * np.tanh(memory))
    return states[1:]


CELLS: dict[str, Any] = {"rnn": tanh_states, "lstm": lstm_states}


def by_hand(kind: str, model: Model, w: np.ndarray, data: FederatedData) -> np.ndarray:
    """Sample after sample, step after step, in float64; a single output is the score of class 1."""
    found = []
    for words in data.x:
        sequence = list(vectors_of(model, w, data)[words])
        layer = 0
        while f"layers.{layer}.weight" in model.spec.slices:
            sequence = CELLS[kind](*part(model, w, f"layers.{layer}"), sequence)
            layer = layer + 1
        y = sequence[-1]
        for name in ("dense", "head"):
            if f"{name}.weight" in model.spec.slices:
                weight, bias = part(model, w, name)
                y = weight @ y + bias
        found.append([0.0, *y] if len(y) == 1 else y)
    return np.array(found)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize(("length", "width"), [(1, 6), (7, 6), (7, None)])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("rnn", {"hidden": 4}),
        ("lstm", {"hidden": 4}),
        ("lstm", {"hidden": 5, "layers": 1, "dense": 0}),
    ],
)
def test_against_a_loop(
    kind: str, options: dict[str, int], length: int, width: int | None, classes: int
) -> None:
    data = text(length, classes, width=width)
    model = MODELS[kind](data, **options)
    w = weights(model)
    found = scores(model, w, data.x)
    assert found.shape == (9, classes)
    np.testing.assert_allclose(found, by_hand(kind, model, w, data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [rnn, lstm])
def test_two_classes_are_sigmoid_cross_entropy(make: Callable[..., Model]) -> None:
    """log(1 + e^z) - y z, of the one output z."""
    data = text(width=6)
    model = make(data, hidden=4)
    found = scores(model, 5 * weights(model), data.x)
    assert not found[:, 0].any() and len(np.unique(found[:, 1])) > 1
    z = found[:, 1].astype(np.float64)
    losses = cross_entropy(jnp.asarray(found), jnp.asarray(data.y))
    np.testing.assert_allclose(losses, np.logaddexp(0, z) - data.y * z, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [rnn, lstm])
def test_zero_vectors_in_front_change_nothing_at_first(make: Callable[..., Model]) -> None:
    """With zero biases the state stays at zero until the first word comes, however long the
    sequence is."""
    data = text(length=5, width=6)
    model = make(data, hidden=4)
    w = model.initial(WORDS)
    expected = scores(model, w, data.x)
    assert len(np.unique(expected)) > 2
    for more in (1, 20):
        padded = np.pad(data.x, ((0, 0), (more, 0)))
        np.testing.assert_allclose(scores(model, w, padded), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.int64])
def test_any_integers_number_the_words(kind: Any) -> None:
    """200 words: the last do not fit into a signed byte."""
    data = text(vocabulary=200, width=6)
    model = rnn(data, hidden=4)
    w = weights(model)
    x = np.arange(130, 200).reshape(10, 7)
    typed = replace(data, x=x.astype(kind), y=np.arange(10) % 2)
    np.testing.assert_array_equal(scores(model, w, typed.x), scores(model, w, x))
    np.testing.assert_allclose(
        scores(model, w, typed.x), by_hand("rnn", model, w, typed), rtol=1e-5, atol=1e-5
    )


def gradient(model: Model, w: np.ndarray, data: FederatedData) -> np.ndarray:
    def loss(w: jax.Array) -> jax.Array:
        scores = model.apply(model.unflatten(w), jnp.asarray(data.x), None)
        return cross_entropy(scores, jnp.asarray(data.y)).mean()

    return np.asarray(jax.grad(loss)(jnp.asarray(w)))


@pytest.mark.parametrize("make", [rnn, lstm])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_parameter_has_a_gradient(make: Callable[..., Model], classes: int) -> None:
    """In the embedding, only the words that occur."""
    data = text(classes=classes, vocabulary=100)
    model = make(data, hidden=4, embedding=3)
    found = gradient(model, weights(model), data)
    embedding = found[model.spec.slices["words"]].reshape(100, 3)
    np.testing.assert_array_equal(np.flatnonzero(embedding.any(axis=1)), np.unique(data.x))
    assert found[300:].all()


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_the_gradient_is_a_difference_quotient(kind: str) -> None:
    """Along a random direction, of the loss by hand."""
    data = text(classes=3, width=6)
    model = MODELS[kind](data, hidden=4)
    w = weights(model).astype(np.float64)
    along = np.random.Generator(np.random.PCG64(3)).normal(size=len(w))

    def loss(at: np.ndarray) -> float:
        found = by_hand(kind, model, at, data)
        return float(
            np.mean(np.logaddexp.reduce(found, axis=1) - found[np.arange(len(found)), data.y])
        )

    derivative = (loss(w + 1e-5 * along) - loss(w - 1e-5 * along)) / 2e-5
    assert float(gradient(model, w.astype(np.float32), data) @ along) == pytest.approx(
        derivative, rel=1e-4, abs=1e-5
    )


@pytest.mark.parametrize("make", [rnn, lstm])
def test_vectors_are_used_and_not_trained(make: Callable[..., Model]) -> None:
    data = text(width=6, samples=30)
    before = np.array(data.vectors)
    model = make(data, hidden=4)
    assert next(iter(model.spec.slices)) == "layers.0.weight" and not model.random
    world = SimulatedWorld(data, model, LocalTraining(lr=0.1))
    update = train(
        world, model.initial(WORDS)[None], np.array([0]), np.array([0]), stream=fk.Stream(0)
    ).update
    assert update.shape == (1, model.spec.parameters) and update.any()
    np.testing.assert_array_equal(np.asarray(data.vectors), before)
    other = make(replace(data, vectors=-before), hidden=4)
    w = weights(model)
    assert (scores(model, w, data.x) != scores(other, w, data.x)).any()


@pytest.mark.parametrize(("make", "gates"), [(rnn, 1), (lstm, 4)])
def test_initial_weights(make: Callable[..., Model], gates: int) -> None:
    """Glorot uniform over the whole kernel (inputs and state in, all gates out), zero biases, from
    the seed alone."""
    model = make(text(), hidden=30, embedding=10)
    one = model.initial(WORDS)
    np.testing.assert_array_equal(one, model.initial(WORDS))
    assert (one != model.initial(WORDS + 1)).any()
    slices = model.spec.slices
    for name, fans in (("words", 20 + 10), ("layers.0.weight", 10 + 30 + gates * 30)):
        limit = np.sqrt(6 / fans)
        assert 0.95 * limit < np.abs(one[slices[name]]).max() <= limit * (1 + 1e-6)
    assert not any(one[where].any() for name, where in slices.items() if name.endswith("bias"))


def test_equal_options_give_the_same_model() -> None:
    """So that a second run compiles nothing; vectors are equal where they are the same array."""
    plain = text()
    data = text(width=6)
    assert rnn(plain) is rnn(text(seed=1)) is rnn(plain, embedding=8)
    assert lstm(data) is lstm(data.with_rows(data.test, data.train))
    assert lstm(data) is not lstm(replace(data, vectors=np.array(data.vectors)))
    assert (
        len(
            {
                rnn(plain),
                rnn(plain, hidden=5),
                rnn(plain, embedding=5),
                lstm(plain),
                lstm(plain, dense=0),
            }
        )
        == 5
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rnn(federation()), "rnn needs text.*float32.*no vocabulary"),
        (lambda: lstm(federation()), "lstm needs text.*float32.*no vocabulary"),
        (lambda: lstm(replace(text(), vocabulary=None)), "int64.*no vocabulary"),
        (lambda: rnn(text(length=0)), r"\(9, 0\)"),
        (lambda: rnn(text(width=6), embedding=8), "leave embedding out"),
        (lambda: rnn(text(), embedding=0), "embedding"),
        (lambda: rnn(text(), hidden=0), "hidden"),
        (lambda: lstm(text(), hidden=-1), "hidden"),
        (lambda: lstm(text(), layers=0), "layers"),
        (lambda: lstm(text(), dense=-1), "dense"),
        (lambda: mclr(text()), "rnn or lstm"),
        (lambda: mlp(text()), "rnn or lstm"),
        (lambda: cnn(text()), "rnn or lstm"),
    ],
)
def test_refused_models(make: Callable[[], Model], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        make()


def first_word(width: int | None) -> FederatedData:
    """Six clients. A line's class is the class of its first word, which is to be remembered over
    four
        others."""
    data = text(length=5, vocabulary=12, width=width, samples=240)
    lists = np.split(np.arange(240), 12)
    return replace(data, y=data.x[:, 0] // 6, train=Ragged.of(lists[:6]), test=Ragged.of(lists[6:]))


@pytest.mark.parametrize(("kind", "width"), [("rnn", None), ("lstm", 6)])
def test_federated_averaging_learns(kind: str, width: int | None) -> None:
    """Two classes of about equal size; the same bits in every run."""
    data = first_word(width)
    model = MODELS[kind](data, hidden=16)
    local = LocalTraining(epochs=3, batch_size=10, lr=0.02, optimizer="adam")
    one, two = (
        fk.simulate(fk.FedAvg(), data, model, rounds=12, cohort=6, local=local) for _ in range(2)
    )
    assert one.summary()["final_accuracy"] > 0.8
    assert one.models.tobytes() == two.models.tobytes()
