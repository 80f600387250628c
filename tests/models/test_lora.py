"""Low-rank adapters: the layer against the oracle, what the flat vector has, and runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, FedkinError, ModelError
from fedkin.core.model_spec import Factor, ModelSpec
from fedkin.measures.factor_means import factor_mean_error, product
from fedkin.models.adapter_model import Adapted
from fedkin.models.encoder import Projection
from tests.models.tiny_bert import WIDTH, write_bert

Oracle = Callable[[str], dict[str, Any]]
WORDS = (np.array([1, 2], np.uint32), np.array([3, 4], np.uint32))


class Net(eqx.Module):
    """A small network of two hidden layers on one sample."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    classifier: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 3)
        self.first = eqx.nn.Linear(64, 8, key=keys[0])
        self.second = eqx.nn.Linear(8, 6, key=keys[1])
        self.classifier = eqx.nn.Linear(6, 10, key=keys[2])

    def __call__(self, x: Any) -> Any:
        hidden = jax.nn.relu(self.first(x.ravel()))
        return self.classifier(jax.nn.relu(self.second(hidden)))


@pytest.fixture(scope="module")
def digits() -> Any:
    return fk.data.digits(clients=6)


@pytest.fixture(scope="module")
def net() -> Net:
    return Net(jax.random.key(0))


def adapted_layer(case: dict[str, Any], b: Any) -> Adapted:
    layer = Projection(weight=jnp.asarray(case["W"]), bias=jnp.asarray(case["b"]))
    scale = case["alpha"] / case["rank"]
    return Adapted(layer=layer, a=jnp.asarray(case["A"]), b=jnp.asarray(b), scale=scale)


@pytest.mark.parametrize("number", [0, 1])
def test_the_layer_and_its_gradients_are_the_oracles(number: int, oracle: Oracle) -> None:
    case = oracle("adapters")["lora_linear"][number]
    with jax.enable_x64(True):
        x = jnp.asarray(case["x"])
        layer = adapted_layer(case, case["B"])
        np.testing.assert_allclose(layer(x), case["y"], rtol=1e-9)

        def loss(a: Any, b: Any) -> Any:
            changed = replace(layer, a=a, b=b)
            return jnp.sum((changed(x) - jnp.asarray(case["target"])) ** 2) / (2 * len(x))

        value, (grad_a, grad_b) = jax.value_and_grad(loss, argnums=(0, 1))(layer.a, layer.b)
        np.testing.assert_allclose(value, case["loss"], rtol=1e-9)
        np.testing.assert_allclose(grad_a, case["grad_A"], rtol=1e-8)
        np.testing.assert_allclose(grad_b, case["grad_B"], rtol=1e-8)


def test_the_first_step_moves_b_only(oracle: Oracle) -> None:
    case = oracle("adapters")["first_step_from_zero_B"]
    with jax.enable_x64(True):
        layer = adapted_layer(case, np.zeros((3, case["rank"])))
        x = jnp.asarray(case["x"])
        factors = (layer.a, layer.b)

        def loss(factors: Any) -> Any:
            changed = replace(layer, a=factors[0], b=factors[1])
            return jnp.sum((changed(x) - jnp.asarray(case["target"])) ** 2) / (2 * len(x))

        gradient = jax.grad(loss)(factors)
        np.testing.assert_allclose(gradient[0], 0, atol=1e-12)
        np.testing.assert_allclose(gradient[1], case["grad_B"], rtol=1e-9)
        adamw = optax.adamw(case["lr"], weight_decay=0.01)
        change, _ = adamw.update(gradient, adamw.init(factors), factors)
        stepped: Any = optax.apply_updates(factors, change)
        a, b = stepped
        np.testing.assert_allclose(a, case["A_after_adamw"], rtol=1e-6)
        np.testing.assert_allclose(b, case["B_after_adamw"], rtol=1e-6)


def test_the_vector_has_the_trained_numbers(digits: Any, net: Net) -> None:
    model = fk.lora(digits, net, rank=2, targets=("first", "second"), head="classifier")
    sizes = {name: part.stop - part.start for name, part in model.spec.slices.items()}
    assert sizes == {
        "first.lora_A": 2 * 64,
        "first.lora_B": 8 * 2,
        "second.lora_A": 2 * 8,
        "second.lora_B": 6 * 2,
        "head.weight": 60,
        "head.bias": 10,
    }
    assert model.spec.head_bias == slice(model.spec.parameters - 10, model.spec.parameters)
    only_b = fk.lora(digits, net, rank=2, targets=("first",), train="B", head="classifier")
    assert list(only_b.spec.slices) == ["first.lora_B", "head.weight", "head.bias"]


def test_the_first_output_is_the_backbones(digits: Any, net: Net) -> None:
    model = fk.lora(digits, net, rank=2, targets=("first", "second"), head=False)
    flat = jnp.asarray(model.initial(WORDS[0]))
    x = digits.x[:5]
    np.testing.assert_allclose(
        model.scores(flat, x, model.frozen_arrays), jax.vmap(net)(x), rtol=1e-5, atol=1e-6
    )


def test_all_starts_share_a_and_differ_in_the_head(digits: Any, net: Net) -> None:
    model = fk.lora(digits, net, rank=2, targets=("first",), head="classifier")
    one, other = (model.initial(words) for words in WORDS)
    a = model.spec.slices["first.lora_A"]
    assert one[a].any()
    np.testing.assert_array_equal(one[a], other[a])
    assert np.abs(one[a]).max() <= 64**-0.5
    assert not one[model.spec.slices["first.lora_B"]].any()
    head = model.spec.slices["head.weight"]
    assert (one[head] != other[head]).all()
    drawn_again = fk.lora(digits, net, rank=2, targets=("first",), head="classifier", seed=1)
    assert (drawn_again.initial(WORDS[0])[a] != one[a]).all()


def test_training_changes_the_vector_only(digits: Any, net: Net) -> None:
    model = fk.lora(digits, net, rank=2, targets=("first",), head="classifier")
    before = [np.array(leaf) for leaf in jax.tree.leaves(model.frozen_arrays)]
    work = fk.LocalTraining(optimizer="adamw", lr=0.01)
    run = fk.simulate(fk.FedAvg(), digits, model, local=work, rounds=2, cohort=6)
    assert run.models.shape == (1, model.spec.parameters)
    assert (run.models[0] != 0).all()
    for array, leaf in zip(before, jax.tree.leaves(model.frozen_arrays), strict=True):
        np.testing.assert_array_equal(array, leaf)
    # Every client sends the vector and a few numbers in each round, and nothing of the backbone.
    assert run.summary()["bytes_up"] < 2 * 6 * 4 * (model.spec.parameters + 16)


def test_the_frozen_part_is_in_no_program(digits: Any, net: Net) -> None:
    model = fk.lora(digits, net, rank=2, targets=("first",), head="classifier")
    flat = jnp.asarray(model.initial(WORDS[0]))
    text = jax.jit(model.scores).lower(flat, digits.x[:2], model.frozen_arrays).as_text()
    closed_over = jax.jit(lambda flat, x: model.apply(model.unflatten(flat), x, None))
    assert 'dense<"0x' not in text
    assert 'dense<"0x' in closed_over.lower(flat, digits.x[:2]).as_text()


def test_no_program_of_a_run_closes_over_the_frozen_part(digits: Any, net: Net) -> None:
    """``Model.apply`` has the arrays with it. Training, scores, losses, gradients and predictions
    must take them as an argument instead."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a program closes over the frozen arrays")

    model = fk.lora(digits, net, rank=2, targets=("first",), head="classifier")
    checked = replace(model, apply=refuse)
    for method in (fk.FedAvg(), fk.IFCA(clusters=2), fk.SCAFFOLD(), fk.CFLGP(clusters=2)):
        run = fk.simulate(method, digits, checked, rounds=2, cohort=6)
        assert np.isfinite(run.models).all()
        assert len(run.predict(digits.x[:3], cluster=0)) == 3


def test_a_sequential_module(digits: Any) -> None:
    """``eqx.nn.Sequential`` passes a key to every layer."""
    keys = jax.random.split(jax.random.key(0), 2)
    layers = [
        eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(64, 8, key=keys[0]),
        eqx.nn.Lambda(jax.nn.relu),
        eqx.nn.Linear(8, 10, key=keys[1]),
    ]
    model = fk.lora(digits, eqx.nn.Sequential(layers), rank=2, targets=("1",), head=True)
    assert list(model.spec.slices)[-2:] == ["head.weight", "head.bias"]
    run = fk.simulate(fk.FedAvg(), digits, model, rounds=1, cohort=6)
    assert np.isfinite(run.models).all()


def test_another_backbone_is_another_run(digits: Any, net: Net, tmp_path: Path) -> None:
    options: dict[str, Any] = {"rank": 2, "targets": ("first",), "head": "classifier"}
    settings: dict[str, Any] = {"cohort": 6, "out": tmp_path / "run"}
    fk.simulate(fk.FedAvg(), digits, fk.lora(digits, net, **options), rounds=1, **settings)
    other = fk.lora(digits, Net(jax.random.key(1)), **options)
    with pytest.raises(FedkinError, match=r"model\.backbone_digest is"):
        fk.simulate(fk.FedAvg(), digits, other, rounds=2, resume=True, **settings)


def test_a_backbone_in_a_run(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")
    backbone = fk.models.from_transformers(write_bert(tmp_path / "tiny"))
    texts = ["the red cat", "blue dog sat", "a b c", "d e f"] * 6
    tokens = backbone.tokens(texts, 6)
    clients = np.repeat([0, 1, 2], 8)
    data = fk.data.from_arrays(tokens, [0, 1] * 12, clients=clients, integers=True)
    model = fk.lora(data, backbone, rank=2)
    assert model.spec.parameters == 2 * 2 * (2 * WIDTH + WIDTH * 2) + 2 * WIDTH + 2
    computed = fk.models.features(data, backbone, layer=1)
    upper = fk.lora(computed, backbone, rank=2, layers=(1,))
    whole = fk.lora(data, backbone, rank=2, layers=(1,))
    assert list(upper.spec.slices) == list(whole.spec.slices)
    work = fk.LocalTraining(optimizer="adamw", lr=0.01)
    runs = [
        fk.simulate(fk.FedAvg(), samples, network, local=work, rounds=2, cohort=3)
        for samples, network in ((data, whole), (computed, upper))
    ]
    np.testing.assert_allclose(runs[0].models, runs[1].models, atol=1e-4)
    with pytest.raises(ConfigError, match="has no layer 99 with these targets; there are 0, 1"):
        fk.lora(data, backbone, rank=2, layers=(1, 99))
    # Equal weights with other heads compute something else.
    heads = fk.models.from_transformers(write_bert(tmp_path / "heads", num_attention_heads=2))
    assert heads.digest != backbone.digest
    with pytest.raises(ModelError, match="give the backbone of the features"):
        fk.lora(computed, heads, rank=2)
    other = fk.models.from_transformers(write_bert(tmp_path / "other", seed=1))
    with pytest.raises(ModelError, match="give the backbone of the features"):
        fk.lora(computed, other, rank=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"targets": ("quary",)}, "ends with quary; there are first, second, classifier"),
        ({"targets": ()}, "ends with nothing"),
        ({"rank": 0}, "rank must be between 1 and 8"),
        ({"rank": True}, "rank must be a whole number, got True"),
        ({"rank": 2.0}, r"rank must be a whole number, got 2\.0; for example rank = 8"),
        ({"alpha": 0}, "alpha must be a number above 0, got 0"),
        ({"alpha": "16"}, "alpha must be a number above 0, got '16'; for example alpha = 16"),
        ({"alpha": True}, "alpha must be a number above 0, got True"),
        ({"alpha": None}, "alpha must be a number above 0, got None"),
        ({"targets": 3}, "targets must be ends of names of dense layers, got 3; for example"),
        ({"targets": ("first", 3)}, "targets must be ends of names of dense layers, got 3"),
        ({"seed": "a"}, "seed must be a whole number, got 'a'; for example seed = 0"),
        ({"layers": "1"}, r"layers must be whole numbers, got '1'; for example layers = \[0, 1\]"),
        ({"layers": ("1",)}, "layers must be whole numbers, got '1'"),
        ({"layers": 1.5}, r"layers must be whole numbers, got 1\.5"),
        ({"layers": True}, "layers must be whole numbers, got True"),
        ({"alpha": float("nan")}, "alpha must be a number above 0, got nan"),
        ({"rank": 9}, "rank must be between 1 and 8"),
        ({"train": "A"}, "train must be 'AB' or 'B'"),
        ({"head": "clasifier"}, "ends with 'clasifier'; there are first, second, classifier"),
    ],
)
def test_bad_options(
    digits: Any,
    net: Net,
    options: dict[str, Any],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Users' arguments are not checked by type.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    good: dict[str, Any] = {"targets": ("first",), "head": "classifier"}
    with pytest.raises((ConfigError, ModelError), match=words):
        fk.lora(digits, net, **(good | options))


def test_numbers_of_numpy_are_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")
    backbone = fk.models.from_transformers(write_bert(tmp_path / "tiny"))
    tokens = backbone.tokens(["the red cat", "blue dog sat"] * 6, 6)
    data = fk.data.from_arrays(tokens, [0, 1] * 6, clients=[0, 1, 2] * 4, integers=True)
    expected = fk.lora(data, backbone, rank=4, alpha=8, layers=(1,), seed=3)
    numbers: dict[str, Any] = {"rank": np.int64(4), "alpha": np.float32(8), "seed": np.int32(3)}
    given: list[Any] = [np.int64(1), [np.int64(1)], np.array([1]), np.array(1)]
    for layers in given:
        model = fk.lora(data, backbone, layers=layers, **numbers)
        assert model.spec == expected.spec
        np.testing.assert_array_equal(model.initial(WORDS[0]), expected.initial(WORDS[0]))
        section = model.frozen.origin.section
        assert section | {"layers": [1]} == expected.frozen.origin.section
        assert {type(section[name]) for name in ("rank", "seed")} == {int}
        assert section["layers"] in (1, [1])


def test_a_backbone_that_is_none(digits: Any) -> None:
    with pytest.raises(ModelError, match="got int"):
        fk.lora(digits, 3)  # type: ignore[arg-type]


class TiedNet(eqx.Module):
    """A network whose last layer has the weight of an embedding."""

    pair: eqx.nn.Shared

    def __init__(self, embedding_is_tied: bool) -> None:
        embedding = eqx.nn.Embedding(10, 64, key=jax.random.key(0))
        last = eqx.nn.Linear(64, 10, key=jax.random.key(1))
        tied, source = (0, 1) if embedding_is_tied else (1, 0)
        self.pair = eqx.nn.Shared(
            (embedding, last), lambda pair: pair[tied].weight, lambda pair: pair[source].weight
        )

    def __call__(self, x: Any) -> Any:
        embedding, last = self.pair()
        return last(x.ravel() + embedding.weight[0])


@pytest.mark.parametrize("embedding_is_tied", [True, False])
def test_tied_weights_are_refused(digits: Any, embedding_is_tied: bool) -> None:
    """Otherwise the embedding would be trained with the last layer."""
    with pytest.raises(
        ModelError, match=r"^pair of 'tiednet' is an eqx.nn.Shared, .*pytree\.1\); untie them: give"
    ):
        fk.lora(digits, TiedNet(embedding_is_tied), rank=2, targets=("1",), head=False)


def test_tied_weights_that_stay_frozen_are_not_refused(digits: Any) -> None:
    class Scaled(eqx.Module):
        scales: eqx.nn.Shared
        last: eqx.nn.Linear

        def __call__(self, x: Any) -> Any:
            one, other = self.scales()
            return self.last(one * x.ravel() + other)

    scales = eqx.nn.Shared((jnp.ones(64), jnp.ones(64)), lambda pair: pair[0], lambda pair: pair[1])
    net = Scaled(scales, eqx.nn.Linear(64, 10, key=jax.random.key(0)))
    model = fk.lora(digits, net, rank=2, targets=("last",), head=False)
    assert list(model.spec.slices) == ["last.lora_A", "last.lora_B"]


# --- means of factors


@pytest.mark.parametrize("number", [0, 1])
def test_the_mean_of_factors_is_not_the_mean_of_products(number: int, oracle: Oracle) -> None:
    case = oracle("adapters")["averaging"][number]
    a = np.array(case["A"])
    b = np.array(case["B"])
    split = a[0].size
    models = np.concatenate([a.reshape(len(a), -1), b.reshape(len(b), -1)], axis=1)
    factor = Factor(
        layer="layer",
        a=slice(0, split),
        b=slice(split, models.shape[1]),
        rank=case["rank"],
        scale=case["alpha"] / case["rank"],
    )
    spec = ModelSpec(parameters=models.shape[1], factors=(factor,))
    sizes = np.array(case["sizes"])
    mean = sizes / sizes.sum() @ models
    np.testing.assert_allclose(product(factor, mean), case["fedit_product_of_means"], rtol=1e-8)
    error = factor_mean_error(models, spec, sizes)
    assert error == pytest.approx(case["relative_error_fedit"], rel=1e-9)
    # With one A for all clients (FFA), means are exact.
    shared = models.copy()
    shared[:, :split] = models[0, :split]
    mean = sizes / sizes.sum() @ shared
    np.testing.assert_allclose(product(factor, mean), case["ffa_ideal"], rtol=1e-8)
    assert factor_mean_error(shared, spec, sizes) == pytest.approx(0, abs=1e-12)


def test_rotated_factors_have_the_same_product_and_another_mean(oracle: Oracle) -> None:
    case = oracle("adapters")["rotation_of_factors"]
    rows = [
        np.concatenate([np.ravel(case[f"A{end}"]), np.ravel(case[f"B{end}"])])
        for end in ("", "_rotated")
    ]
    models = np.stack(rows)
    factor = Factor(layer="layer", a=slice(0, 8), b=slice(8, 14), rank=2, scale=1.0)
    for model in models:
        np.testing.assert_allclose(product(factor, model), case["same_product"], atol=1e-6)
    np.testing.assert_allclose(
        product(factor, models.mean(axis=0)), case["mean_of_factors_product"], atol=1e-6
    )


def test_no_factors_no_error() -> None:
    with pytest.raises(ModelError, match=r"make it with fk\.lora"):
        factor_mean_error(np.ones((2, 3)), ModelSpec(parameters=3))


def test_numbers_that_are_no_weights_enter_the_digest(digits: Any, net: Net) -> None:
    class Picking(eqx.Module):
        """A network that reads some of the pixels, in an order that is an integer array."""

        net: Net
        order: Any
        scale: Any
        key: Any

        def __call__(self, x: Any) -> Any:
            return self.net(self.scale * x.ravel()[self.order])

    def frozen_of(order: Any, scale: float = 1.0, key: int = 0) -> str:
        module = Picking(net, order, scale, jax.random.key(key))
        return fk.lora(digits, module, rank=2, targets=("first",)).spec.frozen

    order = jnp.arange(64)
    assert frozen_of(order) == frozen_of(order, key=1)
    assert len({frozen_of(order), frozen_of(order[::-1]), frozen_of(order, scale=0.5)}) == 3
    # A network without such numbers keeps the digest of its weights.
    model = fk.lora(digits, net, rank=2, targets=("first",))
    assert model.frozen is not None and not model.frozen.constants


def test_methods_with_random_starts_refuse_equal_models(digits: Any, net: Net) -> None:
    """Without a last layer that is drawn, all starts are equal, and all losses tie."""
    model = fk.lora(digits, net, rank=2, targets=("first",), head=False)
    with pytest.raises(FedkinError, match="2 clusters must start from different models"):
        fk.simulate(fk.IFCA(clusters=2), digits, model, rounds=1, cohort=2)
