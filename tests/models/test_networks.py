"""The named models: sizes as the papers print them, shapes, options, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import ModelSpec
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import MODELS, cnn, lstm, mclr, mlp, mobilenet, rnn
from fedkin.models.model import Model
from fedkin.models.perceptron import hidden_widths

IMAGE = (28, 28, 1)
NUMERIC = ("mclr", "mlp", "cnn")  # the models of text are tested in test_recurrent.py


def data(
    shape: tuple[int, ...] = IMAGE, classes: int = 10, dtype: Any = np.float32
) -> FederatedData:
    """One client with three samples of this shape."""
    rng = np.random.Generator(np.random.PCG64(1))
    x = (10 * rng.normal(size=(3, *shape))).astype(dtype)
    rows = Ragged.of([np.arange(3)])
    return FederatedData(
        name="tiny", x=x, y=np.arange(3) % classes, classes=classes, train=rows, test=rows
    )


COUNTED: dict[str, Callable[[], Model]] = {
    "mclr_784_10": lambda: mclr(data((784,))),
    "mlp_784_128_10": lambda: mlp(data((784,))),
    "mnist_cnn": lambda: cnn(data()),
    "femnist_mlp_512_10": lambda: mlp(data((784,)), hidden=512),
    "femnist_cnn": lambda: cnn(data(), variant="femnist"),
    "fmnist_cnn": lambda: cnn(data(), variant="fashion_mnist"),
    "synthetic": lambda: mclr(data((60,))),
    "femnist_mclr_26": lambda: mclr(data((784,), 26)),
    "femnist_mlp_26": lambda: mlp(data((784,), 26), hidden=512),
    "mex_mclr": lambda: mclr(data((1280,), 7)),
    "goodreads_mclr": lambda: mclr(data((2517,), 2)),
}


@pytest.mark.parametrize("name", COUNTED)
def test_parameter_counts(name: str, oracle: Callable[[str], dict[str, Any]]) -> None:
    assert COUNTED[name]().spec.parameters == oracle("misc")["parameter_counts"][name]


def test_registered_models() -> None:
    assert {
        *NUMERIC,
        "detector",
        "mobilenet",
        "mobilenet_v2",
        "rnn",
        "lstm",
        "cox",
    } <= MODELS.keys()
    assert all(make.__name__ == name and make.__doc__ for name, make in MODELS.items())
    assert not {"as_model", "Model", "suggesting"} & MODELS.keys()


def dense_cnn(window: int, first: int, second: int, hidden: int, classes: int) -> int:
    """Parameters of conv, pool, conv, pool, dense, head on 28 x 28 x 1 images: 7 x 7 pixels reach
    the dense layer."""
    convolutions = (window**2 + 1) * first + (window**2 * first + 1) * second
    return convolutions + (7 * 7 * second + 1) * hidden + (hidden + 1) * classes


@pytest.mark.parametrize("classes", [10, 26])
@pytest.mark.parametrize(
    ("variant", "sizes"), [("fedsim", (3, 64, 64, 2048)), ("fedsim_as_coded", (5, 32, 64, 2048))]
)
def test_fedsims_cnns(variant: Any, sizes: tuple[int, int, int, int], classes: int) -> None:
    """Table 5, and the code's variant of it. Nothing is added to the loss, nothing dropped."""
    model = cnn(data(classes=classes), variant)
    expected = dense_cnn(*sizes, classes)
    assert model.spec.parameters == expected
    if classes == 10:
        assert expected == {"fedsim": 6_482_634, "fedsim_as_coded": 6_497_162}[variant]
    assert model.penalty is None and not model.random
    assert model.spec.head == slice(expected - 2049 * classes, expected)


def test_fedsims_perceptron() -> None:
    """Table 5: three hidden layers for MEx."""
    model = mlp(data((1280,), 7), hidden=(1280, 640, 120))
    assert model.spec.parameters == 1281 * 1280 + 1281 * 640 + 641 * 120 + 121 * 7
    assert model.spec.head == slice(model.spec.parameters - 121 * 7, model.spec.parameters)
    assert_covers(model.spec)


def test_a_perceptron_of_two_hidden_layers() -> None:
    """Against NumPy."""
    d = data((20,), 4)
    model = mlp(d, hidden=(9, 5))
    w = model.initial(np.array([1, 2], np.uint32)) + np.float32(0.01)
    y = d.x.astype(np.float64)
    parts = [w[part] for part in model.spec.slices.values()]
    for kernel, bias in zip(parts[::2], parts[1::2], strict=True):
        y = y @ kernel.reshape(len(bias), -1).T + bias
        y = y if len(bias) == 4 else np.maximum(y, 0)
    np.testing.assert_allclose(scores(model, w, d.x), y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "hidden", [[9, 5], np.array([9, 5]), (np.int64(9), 5), [np.int32(9), np.int32(5)]]
)
def test_widths_may_be_a_list_or_an_array(hidden: Any) -> None:
    d = data((20,), 4)
    untyped: Any = mlp
    assert untyped(d, hidden) == untyped(d, hidden=hidden) == mlp(d, hidden=(9, 5))
    assert untyped(d, hidden=np.array([9])) == untyped(d, hidden=[9]) == mlp(d, hidden=9)


@pytest.mark.parametrize("hidden", [0, (8, 0), 2.5, (8.0,), "8", True, ([8, 4],)])
def test_other_widths_are_refused(hidden: Any) -> None:
    with pytest.raises(
        ModelError,
        match=r"mlp: hidden must be whole numbers of at least 1, such as 128 or \(128, 64",
    ):
        hidden_widths("mlp", hidden)


def test_a_width_below_one_and_no_width_are_refused() -> None:
    with pytest.raises(ModelError, match=r"mlp: hidden must be whole numbers of at least 1.*got 0"):
        mlp(data((20,), 4), hidden=(8, 0))
    with pytest.raises(ModelError, match="mlp: hidden names no width"):
        mlp(data((20,), 4), hidden=())


def assert_covers(spec: ModelSpec) -> None:
    at = 0
    for part in spec.slices.values():
        assert part.start == at and part.stop > at
        at = part.stop
    assert at == spec.parameters


@pytest.mark.parametrize(
    ("make", "hidden", "classes"),
    [
        (lambda: mclr(data((60,), 7)), 60, 7),
        (lambda: mlp(data((60,), 7), hidden=30), 30, 7),
        (lambda: cnn(data()), 3136, 10),
        (lambda: cnn(data(), "femnist"), 128, 10),
        (lambda: cnn(data(), "fashion_mnist"), 1024, 10),
    ],
)
def test_slices_and_head(make: Callable[[], Model], hidden: int, classes: int) -> None:
    """Slices cover the vector without a gap; the head is the last layer, its bias the last entries
    of all."""
    spec = make().spec
    assert_covers(spec)
    parameters = spec.parameters
    assert spec.head == slice(parameters - hidden * classes - classes, parameters)
    assert spec.head_bias == slice(parameters - classes, parameters)


@pytest.mark.parametrize("name", NUMERIC)
def test_a_head_bias_moves_every_score(name: str) -> None:
    """This shows that the slices have the right names."""
    model = MODELS[name](data())
    d = data()
    w = model.initial(np.array([1, 2], np.uint32)).copy()
    before = scores(model, w, d.x)
    assert before.shape == (3, 10)
    w[model.spec.head_bias] += np.arange(10, dtype=np.float32)
    np.testing.assert_allclose(scores(model, w, d.x), before + np.arange(10), rtol=1e-4, atol=1e-3)


def scores(model: Model, w: np.ndarray, x: np.ndarray, key: jax.Array | None = None) -> np.ndarray:
    return np.asarray(model.apply(model.unflatten(jnp.asarray(w)), jnp.asarray(x), key))


@pytest.mark.parametrize("name", ["mclr", "mlp"])
def test_initial_weights(name: str) -> None:
    """Glorot uniform kernels, zero biases; a name in the random stream and nothing else decides."""
    model = MODELS[name](data((20,)))
    one, other = (model.initial(np.array([5, seed], np.uint32)) for seed in (6, 7))
    np.testing.assert_array_equal(one, model.initial(np.array([5, 6], np.uint32)))
    assert (one != other).any() and one.dtype == np.float32
    shapes = {"mclr": [(10, 20)], "mlp": [(128, 20), (10, 128)]}[name]
    for position, (out, inputs) in enumerate(shapes):
        kernel, bias = list(model.spec.slices.values())[2 * position : 2 * position + 2]
        assert not one[bias].any()
        assert one[kernel].size == out * inputs
        limit = np.sqrt(6 / (out + inputs))
        assert 0.9 * limit < np.abs(one[kernel]).max() <= limit * (1 + 1e-6)


def test_dropout_of_a_cnn_acts_in_training_only() -> None:
    wet = cnn(data())
    dry = cnn(data(), dropout=False)
    d = data()
    w = wet.initial(np.array([1, 2], np.uint32))
    plain = scores(wet, w, d.x)
    np.testing.assert_array_equal(plain, scores(wet, w, d.x))
    np.testing.assert_array_equal(plain, scores(dry, w, d.x))
    one = scores(wet, w, d.x, jax.random.key(0))
    np.testing.assert_array_equal(one, scores(wet, w, d.x, jax.random.key(0)))
    assert (one != plain).any() and (one != scores(wet, w, d.x, jax.random.key(1))).any()
    np.testing.assert_array_equal(scores(dry, w, d.x, jax.random.key(0)), plain)


def test_penalty_is_the_sum_of_squared_dense_kernels() -> None:
    """Neither biases nor, in the FEMNIST network, convolutions."""
    for model, dense in (
        (mclr(data((20,)), l2=0.5), ["layers.0.weight"]),
        (mlp(data((20,)), l2=0.5), ["layers.0.weight", "layers.1.weight"]),
        (cnn(data(), "femnist", l2=0.5), ["hidden.weight", "head.weight"]),
    ):
        w = model.initial(np.array([1, 2], np.uint32)) + np.float32(0.01)
        assert model.penalty is not None
        expected = 0.5 * sum(
            np.square(w[model.spec.slices[name]], dtype=np.float64).sum() for name in dense
        )
        np.testing.assert_allclose(
            model.penalty(model.unflatten(jnp.asarray(w))), expected, rtol=1e-4
        )
    assert mclr(data((20,))).penalty is None


def test_equal_options_give_the_same_model() -> None:
    """So that a second run compiles nothing."""
    assert mlp(data()) is mlp(data((784,)), hidden=128)
    assert mlp(data()) is not mlp(data(), hidden=512)
    assert cnn(data()) is cnn(data((784,)))
    assert mlp(data(), hidden=(128,)) is mlp(data())


@pytest.mark.parametrize("shape", [(784,), (28, 28), (28, 28, 1)])
def test_images_may_come_flat(shape: tuple[int, ...]) -> None:
    assert cnn(data(shape)).spec.parameters == cnn(data()).spec.parameters
    assert mclr(data(shape)).spec.parameters == 7850


def test_colour_images() -> None:
    model = cnn(data((20, 24, 3)))
    assert model.spec.parameters == (3 * 9 + 1) * 32 + (32 * 9 + 1) * 64 + (5 * 6 * 64 + 1) * 10
    w = jnp.zeros(model.spec.parameters)
    x = jnp.zeros((3, 20, 24, 3))
    assert jax.eval_shape(lambda w, x: model.apply(model.unflatten(w), x, None), w, x).shape == (
        3,
        10,
    )


@pytest.mark.parametrize("name", NUMERIC)
def test_integer_features_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"numeric features.*int64"):
        MODELS[name](data((784,), dtype=np.int64))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: mlp(data(), hidden=0), "hidden"),
        (lambda: mlp(data(), hidden=()), "hidden"),
        (lambda: mlp(data(), hidden=(64, 0)), "hidden"),
        (lambda: mclr(data(), l2=-1.0), "l2"),
        (lambda: mlp(data(), l2=float("nan")), "l2"),
        (lambda: cnn(data(), l2=0.001), "femnist"),
        (lambda: cnn(data(), "fedsim", l2=0.001), "femnist"),
        (lambda: cnn(data((60,))), "60"),
        (
            lambda: cnn(data((8, 8))),
            "at least 16 x 16, got 8 x 8; use mclr or mlp for such small images, or larger images",
        ),
    ],
)
def test_invalid_options_of_a_model_are_refused(make: Callable[[], Model], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        make()


def test_the_data_set_digits_is_too_small_for_a_cnn_and_another_is_named() -> None:
    small = replace(data((8, 8)), name="digits")
    with pytest.raises(ModelError, match=r"use mclr or mlp .*: the data set mnist has 28 x 28$"):
        cnn(small)


@pytest.mark.parametrize(
    "make", [mclr, mlp, cnn, rnn, lstm, mobilenet], ids=lambda make: make.__name__
)
def test_a_table_in_place_of_federated_data_is_refused_with_the_right_call(
    make: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As users call it, without the types of tests.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(
        ModelError, match=r"fk.data.from_pandas\(table, label=..., client=...\), got DataFrame"
    ):
        make(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(ModelError, match=r"fk.data.from_arrays.*got list"):
        make([1.0])
