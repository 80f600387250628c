"""``fk.lora`` of PyTorch modules: compared with the JAX version and with peft, what the vector and
the messages have, and modules that are refused."""

from __future__ import annotations

import dataclasses
import logging
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedkin as fk
from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.simulation.torch.flat_module import shared_entries, to_tensor
from fedkin.simulation.workers import worker_factory
from tests.models.test_lora import Net

WORDS = np.array([1, 2], np.uint32)
THREE = np.arange(3)
OPTIONS: dict[str, Any] = {"rank": 2, "targets": ("first", "second"), "head": "classifier"}
WORK = LocalTraining(optimizer="adamw", lr=0.01)
SMALL: dict[str, Any] = {
    "vocab_size": 20,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "initializer_range": 0.3,  # with 0.02, gradients of so small a network are too small to compare
}


class Twin(nn.Module):
    """The PyTorch module of the Equinox module ``Net``."""

    def __init__(self, net: Net | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(64, 8)
        self.second = nn.Linear(8, 6)
        self.classifier = nn.Linear(6, 10)
        for name in ("first", "second", "classifier") if net is not None else ():
            for part in ("weight", "bias"):
                array = np.asarray(getattr(getattr(net, name), part))
                getattr(getattr(self, name), part).data = torch.tensor(array)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.second(self.first(x.flatten(1)).relu()).relu())


@pytest.fixture(scope="module")
def digits() -> FederatedData:
    return fk.data.digits(clients=6)


@pytest.fixture(scope="module")
def net() -> Net:
    return Net(jax.random.key(0))


@pytest.fixture(scope="module")
def texts() -> FederatedData:
    """Three clients with eight texts of up to six tokens."""
    chance = np.random.default_rng(0)
    x = chance.integers(4, 20, (24, 6)).astype(np.int32)
    lengths = chance.integers(3, 7, 24)
    x[np.arange(6) >= lengths[:, None]] = 0
    return fk.data.from_arrays(x, [0, 1] * 12, clients=np.repeat(THREE, 8), integers=True)


def bert(cls: str = "BertForSequenceClassification", **changes: Any) -> Any:
    """A tiny BERT with random weights, and dropout."""
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    torch.manual_seed(0)
    return getattr(transformers, cls)(transformers.BertConfig(**(SMALL | changes)))


def moved(model: Any) -> np.ndarray:
    """A flat model in which B is not zero."""
    chance = np.random.default_rng(3)
    return (model.initial(WORDS) + 0.1 * chance.normal(size=model.spec.parameters)).astype("f4")


def trained(model: Any, data: FederatedData) -> Any:
    """Updates and gradients of three clients."""
    _, trainer = worker_factory(model, np.arange(data.clients), 1, None)(data)
    return trainer.train(
        TrainCall(
            models=moved(model)[None],
            clients=THREE,
            model_index=0 * THREE,
            work=WORK,
            num_steps=np.full(3, 4),
            stream=Stream(0, 1),
            gradient=True,
        )
    )


def scores(model: Any, flat: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Scores of a PyTorch model."""
    with torch.inference_mode():
        return model.network(flat)(to_tensor(x)).numpy()


@pytest.mark.parametrize("train", ["AB", "B"])
def test_it_computes_as_the_jax_version(digits: Any, net: Net, train: str) -> None:
    ours = fk.lora(digits, Twin(net), train=train, **OPTIONS)
    theirs = fk.lora(digits, net, train=train, **OPTIONS)
    assert list(ours.spec.slices.items()) == list(theirs.spec.slices.items())
    assert (ours.spec.factors, ours.spec.head, ours.spec.head_bias) == (
        theirs.spec.factors,
        theirs.spec.head,
        theirs.spec.head_bias,
    )
    np.testing.assert_array_equal(ours.initial(WORDS), theirs.initial(WORDS))
    flat = moved(ours)
    x = digits.x[:9]
    expected = theirs.scores(jnp.asarray(flat), x, theirs.frozen_arrays)
    np.testing.assert_allclose(scores(ours, flat, x), expected, atol=1e-5)
    done, expected = trained(ours, digits), trained(theirs, digits)
    np.testing.assert_allclose(done.update, expected.update, atol=1e-4)
    np.testing.assert_allclose(done.gradient, expected.gradient, atol=1e-4)
    assert np.abs(done.update).max() > 0.01


def test_it_computes_as_peft(texts: Any) -> None:
    peft = pytest.importorskip("peft", reason="pip install peft")
    module = bert()
    model = fk.lora(texts, module, rank=2, alpha=6.0, head="classifier")
    config = peft.LoraConfig(
        r=2,
        lora_alpha=6,
        target_modules=["query", "value"],
        modules_to_save=["classifier"],
        task_type="SEQ_CLS",
    )
    theirs = peft.get_peft_model(module, config).eval()
    flat = moved(model)
    entries = {}
    for name, parameter in theirs.named_parameters():
        if parameter.requires_grad:
            place = name.removeprefix("base_model.model.").removesuffix(".weight")
            place = place.replace(".default", "").replace("classifier.modules_to_save", "head")
            entries[f"{place}.weight" if place == "head" else place] = parameter
    assert entries.keys() == model.spec.slices.keys()
    for name, parameter in entries.items():
        parameter.data = torch.tensor(flat[model.spec.slices[name]]).reshape(parameter.shape)
    rows = texts.train[0]
    x = to_tensor(texts.x[rows])
    logits = theirs(input_ids=x, attention_mask=(x != 0).long()).logits
    np.testing.assert_allclose(scores(model, flat, texts.x[rows]), logits.detach(), atol=1e-5)
    loss = nn.functional.cross_entropy(logits, to_tensor(texts.y[rows]))
    expected = torch.autograd.grad(loss, list(entries.values()))
    _, trainer = worker_factory(model, THREE, 1, None)(texts)
    done = trainer.gradients(flat[None], THREE[:1], THREE[:1])[0]
    for name, gradient in zip(entries, expected, strict=True):
        found = done[model.spec.slices[name]]
        np.testing.assert_allclose(found, gradient.reshape(-1), atol=1e-5)
        assert np.abs(found).max() > 1e-4


def test_a_model_without_a_head_gets_one_on_the_mean_of_the_tokens(texts: Any) -> None:
    module = bert("BertModel")
    model = fk.lora(texts, module, rank=2)
    flat = moved(model)
    flat[[np.r_[factor.b] for factor in model.spec.factors]] = 0
    x = to_tensor(texts.x[:5])
    with torch.inference_mode():
        hidden = module.eval()(input_ids=x, attention_mask=(x != 0).long()).last_hidden_state
    tokens = (texts.x[:5] != 0)[..., None]
    means = (hidden.numpy() * tokens).sum(axis=1) / tokens.sum(axis=1)
    weight = flat[model.spec.slices["head.weight"]].reshape(2, 12)
    expected = means @ weight.T + flat[model.spec.slices["head.bias"]]
    np.testing.assert_allclose(scores(model, flat, texts.x[:5]), expected, atol=1e-5)


def test_copies_share_the_frozen_network(texts: Any) -> None:
    module = bert().to(torch.bfloat16)
    module.train()
    before = {name: entry.clone() for name, entry in module.state_dict().items()}
    model = fk.lora(texts, module, rank=2, head="classifier")
    one, other = (model.network(moved(model)).train() for _ in range(2))
    shared = shared_entries(one)
    assert len(shared) > 30
    for name, entry in shared_entries(other).items():
        assert entry is shared[name]
        assert not name.startswith("_network") or entry.dtype in (torch.bfloat16, torch.int64)
    # Dropout is off in training too.
    x = to_tensor(texts.x[:4])
    with torch.no_grad():
        torch.testing.assert_close(one(x), other.eval()(x), rtol=0, atol=0)
    assert one(x).dtype == torch.float32
    # The user's module is as it was.
    assert module.training and all(p.requires_grad for p in module.parameters())
    for name, entry in module.state_dict().items():
        assert torch.equal(entry, before[name])


@pytest.mark.parametrize("method", [fk.FedAvg(), fk.FlexCFL(part="B"), fk.FedLEASE()])
def test_a_run_sends_trained_entries(texts: Any, method: Any) -> None:
    model = fk.lora(texts, bert(), rank=2, head="classifier")
    assert model.spec.parameters == 2 * 2 * (2 * 12 + 12 * 2) + 2 * 12 + 2
    run = fk.simulate(method, texts, model, local=WORK, rounds=2, cohort=3)
    assert run.models.shape[1] == model.spec.parameters
    assert (run.models[0] != model.initial(WORDS)).any()
    # Three clients send the vector in at most three rounds (a cold start counts as one), and a few
    # numbers.
    assert run.summary()["bytes_up"] <= 3 * 3 * 4 * (model.spec.parameters + 16)
    layers = run.model_for(0).layers
    assert layers.keys() == model.spec.slices.keys()


def test_the_compiled_module_computes_as_pytorch(texts: Any) -> None:
    pytest.importorskip("jax")
    module = bert()
    ours, theirs = (
        fk.lora(texts, module, rank=2, head="classifier", engine=engine)
        for engine in ("jax", "torch")
    )
    done, expected = trained(ours, texts), trained(theirs, texts)
    np.testing.assert_allclose(done.update, expected.update, atol=1e-4)
    np.testing.assert_allclose(done.gradient, expected.gradient, atol=1e-5)
    # The frozen arrays are an argument of the program, and not differentiated.
    compiled = ours.in_jax(texts)
    assert compiled.frozen is ours.frozen
    flat = jnp.asarray(moved(ours))
    text = jax.jit(compiled.scores).lower(flat, texts.x[:2], compiled.frozen_arrays).as_text()
    assert 'dense<"0x' not in text


class Positions(nn.Module):
    """Position numbers and a scale are buffers that the state leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", torch.arange(64), persistent=False)
        self.register_buffer("scale", torch.tensor(0.5), persistent=False)
        self.embed = nn.Embedding(64, 4)
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1) @ self.embed(self.positions) * self.scale)


def test_buffers_outside_the_state_are_constants_of_the_compiled_module(digits: Any) -> None:
    ours, theirs = (fk.torch_model(Positions(), engine=engine) for engine in ("jax", "torch"))
    theirs = dataclasses.replace(ours, engine="torch")
    done, expected = trained(ours, digits), trained(theirs, digits)
    np.testing.assert_allclose(done.update, expected.update, atol=1e-4)


def test_a_pickled_model_has_its_frozen_arrays_once_and_apart(texts: Any) -> None:
    model = fk.lora(texts, bert(hidden_size=96), rank=2, head="classifier")
    apart: list[pickle.PickleBuffer] = []
    content = pickle.dumps(model, protocol=5, buffer_callback=apart.append)
    sizes = sum(buffer.raw().nbytes for buffer in apart)
    assert sizes == pytest.approx(model.frozen.bytes, rel=0.05)
    assert len(content) < model.frozen.bytes / 4
    again = pickle.loads(content, buffers=[bytes(buffer.raw()) for buffer in apart])
    flat = moved(model)
    np.testing.assert_array_equal(scores(again, flat, texts.x), scores(model, flat, texts.x))
    assert again.digest(texts) == model.digest(texts)


def test_factors_count_in_inference_too(digits: Any) -> None:
    """PyTorch's layer has a fast path in inference that does not call its dense layers."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.head = nn.Linear(8, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x.reshape(-1, 8, 8)).mean(1))

    model = fk.lora(digits, Encoder(), rank=2, targets=("linear1", "linear2"))
    flat = moved(model)
    with_gradients = model.network(flat)(to_tensor(digits.x[:5])).detach()
    np.testing.assert_allclose(scores(model, flat, digits.x[:5]), with_gradients, atol=1e-6)
    without = flat.copy()
    for factor in model.spec.factors:
        without[factor.b] = 0
    assert np.abs(scores(model, without, digits.x[:5]) - with_gradients.numpy()).max() > 1e-3


def test_pytorchs_random_state_stays(digits: Any) -> None:
    module = Twin()
    before = torch.get_rng_state()
    fk.lora(digits, module, **OPTIONS)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_layer_that_gives_no_scores_is_no_head(digits: Any) -> None:
    model = fk.lora(digits, Twin(), rank=2, targets=("first",), head="second")
    assert list(model.spec.slices)[-2:] == ["head.weight", "head.bias"]
    assert (model.spec.head, model.spec.head_bias) == (None, None)
    assert model.check(digits).head is None


def test_another_scale_or_backbone_is_another_model(digits: Any, net: Net) -> None:
    digests = {
        fk.lora(digits, Twin(net), **OPTIONS).digest(digits),
        fk.lora(digits, Twin(net), alpha=1.0, **OPTIONS).digest(digits),
        fk.lora(digits, Twin(Net(jax.random.key(1))), **OPTIONS).digest(digits),
    }
    assert len(digests) == 3
    described = fk.lora(digits, Twin(net), **OPTIONS).description()
    assert described["torch"].endswith("test_adapters:Twin")
    assert described["backbone_bytes"] == 4 * (64 * 8 + 8 + 8 * 6 + 6)


def test_frozen_parameters_in_messages_are_mentioned(
    texts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    peft = pytest.importorskip("peft", reason="pip install peft")
    wrapped = peft.get_peft_model(bert(), peft.LoraConfig(r=2, target_modules=["query", "value"]))
    with caplog.at_level(logging.WARNING, "fedkin"):
        fk.torch_model(wrapped)
    assert [record.message for record in caplog.records] == [
        "model 'torch': 3,030 of 3,222 parameters are frozen, but clients send them; "
        "fk.lora sends trained parameters only (192 here)"
    ]
    with pytest.raises(ModelError, match="give the model before get_peft_model"):
        fk.lora(texts, wrapped, rank=2)


class Tied(nn.Module):
    """A network whose last layer has the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.query = nn.Linear(6, 6)
        self.decoder = nn.Linear(6, 10)
        self.decoder.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.query(self.embed((x.flatten(1) > 0).long()).mean(1)))


class Packed(nn.Module):
    """A network with a weight of eight bits."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(64, 10)
        self.query.weight = nn.Parameter(torch.zeros(10, 64, dtype=torch.int8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x


class Unused(Twin):
    """A network that does not call one of its layers."""

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.first(x.flatten(1))[:, :6])


class Own(nn.Linear):
    """A dense layer that computes something else."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu()


class Heads(nn.Module):
    """A network with attention of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(-1, 8, 8)
        return self.head(self.heads(x, x, x)[0].mean(1))


class Wrong(Twin):
    """A network that returns no tensor."""

    def forward(self, x: Tensor) -> Any:
        return {"scores": super().forward(x)}


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (Twin, {"targets": ("quary",)}, "ends with quary; there are first, second, classifier"),
        (Twin, {"rank": 9}, "rank must be between 1 and 6"),
        (Twin, {"train": "A"}, "train must be 'AB' or 'B'"),
        (Twin, {"head": "clasifier"}, "ends with 'clasifier'; there are first, second, classifier"),
        (Twin, {"engine": "tpu"}, "engine must be one of torch, jax, auto"),
        (Tied, {"targets": ("query",), "head": "decoder"}, "decoder .* shares its weight with emb"),
        (Packed, {"targets": ("query",)}, r"weights of query are quantised \(torch.int8\)"),
        (Unused, {}, "do not depend on second.lora_A"),
        (
            lambda: nn.Sequential(nn.Flatten(), Own(64, 8), nn.Linear(8, 10)),
            {"targets": ("1",), "head": True},
            "1 of 'sequential' is a Own with another forward",
        ),
        (Heads, {"targets": ("out_proj",), "head": "head"}, "is part of nn.MultiheadAttention"),
        (Wrong, {}, "the network returns a dict"),
        (lambda: Twin, {}, "got the class Twin"),
    ],
)
def test_modules_and_options_that_are_refused(
    digits: Any, make: Callable[[], Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises((ConfigError, ModelError), match=words):
        fk.lora(digits, make(), **(OPTIONS | options))


def test_models_of_transformers_that_are_refused(digits: Any, texts: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    config = transformers.GPT2Config(
        vocab_size=20,
        n_embd=12,
        n_layer=1,
        n_head=3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    gpt = transformers.GPT2ForSequenceClassification(config)
    with pytest.raises(ModelError, match=r"h\.0\.attn\.c_attn .* is a Conv1D"):
        fk.lora(texts, gpt, rank=2, targets=("c_attn",))
    with pytest.raises(ModelError, match=r"set module\.config\.pad_token_id"):
        fk.lora(texts, bert(pad_token_id=None), rank=2)
    with pytest.raises(ModelError, match=r"takes token numbers \[M, L\]"):
        fk.lora(digits, bert(), rank=2)
    with pytest.raises(ModelError, match="set head=True, got False"):
        fk.lora(texts, bert("BertModel"), rank=2, head=False)
    quantised = bert()
    quantised.config.quantization_config = {"load_in_8bit": True}
    with pytest.raises(ModelError, match="the weights are quantised"):
        fk.lora(texts, quantised, rank=2)


def test_a_last_layer_without_a_bias_stays_without(texts: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    llama = transformers.LlamaForSequenceClassification(
        transformers.LlamaConfig(**SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=1)
    )
    model = fk.lora(texts, llama, rank=2, targets=("q_proj", "v_proj"), head="score")
    spec = model.check(texts)
    assert spec.head == slice(spec.parameters - 24, spec.parameters)
    assert spec.head_bias is None
    run = fk.simulate(fk.FlexCFL(part="head"), texts, model, local=WORK, rounds=1, cohort=3)
    assert np.isfinite(run.models).all()
