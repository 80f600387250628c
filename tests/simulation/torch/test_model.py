"""A PyTorch module as a model: its vector, its start, its own training, and
refusals."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.torch import torch_model
from fedkin.simulation.torch.flat_module import flat_vector, float_entries
from fedkin.simulation.torch.model import TorchModel
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation, models, samples
from tests.simulation.torch.twins import pair, perceptron

DATA = federation()
WORDS = np.array([3, 4], np.uint32)
STREAM = Stream(3, 2, "run").child("train")
ZEROS = np.zeros(len(EVERYONE), np.int64)
WORK = LocalTraining(epochs=2, batch_size=10, lr=0.1)
BIG = EVERYONE[-1:]  # 130 samples
# Past the run-time type check, as users have it.
torch_model_of_anything: Any = inspect.unwrap(torch_model)


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def with_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def trained(
    model: TorchModel,
    clients: np.ndarray,
    work: LocalTraining = WORK,
    data: Any = DATA,
    **options: Any,
) -> Any:
    world = SimulatedWorld(data, model, work, **options)
    start = model.initial(WORDS)[None]
    return train(world, start, clients, np.zeros(len(clients), np.int64), stream=STREAM)


# --- the flat vector


def test_the_vector_is_the_state_in_its_order() -> None:
    module = with_norm()
    model = torch_model(module)
    state = module.state_dict()
    floating = {name: entry for name, entry in state.items() if entry.is_floating_point()}
    assert "1.num_batches_tracked" in state and list(model.spec.slices) == list(floating)
    flat = model.initial(WORDS)
    np.testing.assert_array_equal(
        flat, np.concatenate([entry.numpy().ravel() for entry in floating.values()])
    )
    for name, part in model.spec.slices.items():
        np.testing.assert_array_equal(
            flat[part].reshape(floating[name].shape), floating[name].numpy()
        )
    assert (
        flat.dtype == np.float32 and model.spec.parameters == len(flat) == 48 + 8 + 4 * 8 + 24 + 3
    )
    assert model.spec.slices["3.bias"] == model.spec.head_bias == slice(112, 115)
    assert model.spec.head == slice(88, 115)


def test_there_and_back() -> None:
    model = torch_model(with_norm)
    flat = np.random.default_rng(0).normal(size=model.spec.parameters).astype(np.float32)
    flat.flags.writeable = False
    np.testing.assert_array_equal(flat_vector(model.network(flat)), flat)
    assert (model.initial(WORDS) != flat).any()


@pytest.mark.parametrize("name", ["mclr", "mlp"])
def test_the_layout_equals_the_same_network_in_jax(name: str) -> None:
    jax, torch = pair(name, DATA)
    assert list(jax.spec.slices.values()) == list(torch.spec.slices.values())
    assert (jax.spec.head, jax.spec.head_bias) == (torch.spec.head, torch.spec.head_bias)


def test_shared_weights_stand_there_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.second = nn.Linear(6, 6)
            self.head = nn.Linear(6, 3)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.second(self.first(x).relu()).relu())

    model = torch_model(Tied)
    assert model.spec.parameters == 36 + 6 + 6 + 21
    network = model.network(model.initial(WORDS) + trained(model, BIG).update[0])
    assert network.first.weight is network.second.weight  # type: ignore[union-attr]


def test_frozen_parameters_stay() -> None:
    module = perceptron((6, 8, 3))
    module[1].weight.requires_grad = False  # type: ignore[index]
    model = torch_model(module)
    frozen = model.spec.slices["1.weight"]
    world = SimulatedWorld(DATA, model, WORK)
    start = model.initial(WORDS)[None]
    for found in (
        trained(model, BIG).update[0],
        trained(model, BIG, replace(WORK, optimizer="adam", mu=1.0)).update[0],
        world.run(Gradients(start, np.array([0])), BIG).gradients[0],
    ):
        assert not found[frozen].any() and found[frozen.stop :].any()


def test_a_module_in_doubles_becomes_one_in_floats() -> None:
    model = torch_model(lambda: perceptron((6, 3)).double())
    assert model.initial(WORDS).dtype == np.float32 and trained(model, BIG).arrived.all()


# --- the start


def test_a_module_is_the_start_of_every_run_and_stays_as_it_is() -> None:
    module = perceptron((6, 8, 3))
    module.train(False)
    before = copy.deepcopy(module.state_dict())
    model = torch_model(module, name="mine")
    start = model.initial(WORDS)
    np.testing.assert_array_equal(start, model.initial(WORDS + np.uint32(1)))
    assert trained(model, BIG).arrived.all() and not module.training
    assert all(torch.equal(before[name], entry) for name, entry in module.state_dict().items())
    with torch.no_grad():
        module[1].weight += 1  # type: ignore[index]
    # What the user does to it later is her own business.
    np.testing.assert_array_equal(model.initial(WORDS), start)


@pytest.mark.parametrize(
    "source",
    [
        with_dropout,
        lambda data: nn.Linear(data.x.shape[1], data.classes),
        lambda data=None, hidden=5: perceptron((6, hidden, 3)),
        lambda *layers, **options: nn.Linear(6, 3),
    ],
    ids=["no argument", "the data", "defaults", "anything"],
)
def test_a_function_draws_weights_from_the_seed(source: Callable[..., nn.Module]) -> None:
    model = torch_model(source, DATA)
    one = model.initial(WORDS)
    np.testing.assert_array_equal(one, model.initial(WORDS))
    assert (one != model.initial(WORDS + np.uint32(1))).any()
    np.testing.assert_array_equal(one, torch_model(source, DATA).initial(WORDS))
    world = SimulatedWorld(DATA, model, LocalTraining(epochs=20, lr=0.1))
    got = train(world, one[None], BIG, np.array([0]), stream=STREAM)
    assert (
        world.run(Losses(one + got.update), BIG).losses[0, 0]
        < world.run(Losses(one[None]), BIG).losses[0, 0]
    )


def test_digests() -> None:
    """Names, shapes, options that the module prints, and the start tell modules apart; nothing of
    the process does."""
    sources: list[Callable[[], nn.Module]] = [
        with_dropout,
        lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3)),
        lambda: nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 3)),
        lambda: perceptron((6, 16, 3)),
        with_norm,
    ]
    digests = [torch_model(source).digest(DATA) for source in sources]
    assert len(set(digests)) == len(sources)
    assert digests == [torch_model(source).digest(DATA) for source in sources]
    torch.manual_seed(0)
    first, second = (torch_model(perceptron((6, 3))).digest(DATA) for _ in range(2))
    assert first != second


# --- the module's own training


def test_dropout_repeats_and_belongs_to_the_client() -> None:
    """One batch holds everything, so the order of samples cannot make two rounds, or two clients,
    differ."""
    model = torch_model(with_dropout)
    work = LocalTraining(batch_size=200, lr=0.1)
    world = SimulatedWorld(DATA, model, work)
    start = model.initial(WORDS)[None]

    def update(round: int) -> np.ndarray:
        return train(world, start, EVERYONE, ZEROS, stream=Stream(0, round, "train")).update

    np.testing.assert_array_equal(update(1), update(1))
    assert (np.abs(update(1) - update(2)).max(axis=1) > 1e-3).all()
    plain = -world.run(Gradients(start, ZEROS), EVERYONE).gradients * np.float32(0.1)
    assert (np.abs(update(1) - plain).max(axis=1) > 1e-3).all()
    first, again = (evaluate(world, start, EVERYONE, ZEROS).loss for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_running_statistics_are_moved_by_samples_only() -> None:
    """One step on all samples of a client: PyTorch's own rule for mean and variance; neither mu nor
    a gradient moves them, and counters begin again."""
    model = torch_model(with_norm)
    start = model.initial(WORDS)
    network = model.network(start)
    x, _ = samples(DATA, BIG[0])
    hidden = network[0](torch.from_numpy(x)).detach()  # type: ignore[index]
    mean = 0.1 * hidden.mean(dim=0)
    variance = 0.9 + 0.1 * hidden.var(dim=0)
    for work in (
        LocalTraining(batch_size=200),
        LocalTraining(batch_size=200, lr=3.0, mu=5.0, momentum=0.9),
    ):
        after = start + trained(model, BIG, work).update[0]
        np.testing.assert_allclose(
            after[model.spec.slices["1.running_mean"]], mean, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(
            after[model.spec.slices["1.running_var"]], variance, rtol=1e-4, atol=1e-6
        )
    gradient = (
        SimulatedWorld(DATA, model).run(Gradients(start[None], np.array([0])), BIG).gradients[0]
    )
    for name, part in model.spec.slices.items():
        assert gradient[part].any() != ("running" in name), name


def test_a_cumulative_average_depends_on_no_other_client() -> None:
    """``momentum=None`` counts batches in an integer that does not travel."""
    model = torch_model(lambda: nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 3)))
    some = EVERYONE[4:]
    together = trained(model, some, LocalTraining(batch_size=200)).update
    for client, update in zip(some, together, strict=True):
        np.testing.assert_array_equal(
            trained(model, np.array([client]), LocalTraining(batch_size=200)).update[0], update
        )


def test_scores_are_those_of_inference() -> None:
    model = torch_model(with_norm)
    flat = models_of(model)
    world = SimulatedWorld(DATA, model)
    x, y = samples(DATA, BIG[0], "test")
    with torch.inference_mode():
        scores = model.network(flat).eval()(torch.from_numpy(x))
        expected = nn.functional.cross_entropy(scores, torch.from_numpy(y)).item()
    got = evaluate(world, flat[None], BIG, np.array([0]))
    np.testing.assert_allclose(got.loss, [expected], rtol=1e-5)
    np.testing.assert_array_equal(got.correct, [(scores.argmax(dim=1).numpy() == y).sum()])


def models_of(model: TorchModel) -> np.ndarray:
    """A model whose statistics are moved off their start."""
    return model.initial(WORDS) + trained(model, BIG).update[0]


def test_company_changes_no_bit() -> None:
    """Neither training nor scores, however many clients, threads of others or models are in the
    call."""
    model = torch_model(with_dropout)
    world = SimulatedWorld(DATA, model, WORK)
    start = np.stack([model.initial(WORDS + np.uint32(k)) for k in range(3)])
    model_index = EVERYONE % 3
    together = train(world, start, EVERYONE, model_index, gradient=True, stream=STREAM)
    scores = evaluate(world, start, EVERYONE, model_index)
    losses = world.run(Losses(start), EVERYONE).losses
    for c in EVERYONE[::-1]:
        one = np.array([c])
        own = model_index[c : c + 1] * 0
        alone = train(world, start[model_index[c]][None], one, own, gradient=True, stream=STREAM)
        np.testing.assert_array_equal(alone.update[0], together.update[c])
        assert alone.gradient is not None and together.gradient is not None
        np.testing.assert_array_equal(alone.gradient[0], together.gradient[c])
        assert alone.loss[0] == together.loss[c]
        assert evaluate(world, start[model_index[c]][None], one, own).loss[0] == scores.loss[c]
        np.testing.assert_array_equal(world.run(Losses(start), one).losses[0], losses[c])


def test_the_state_of_pytorch_is_left_as_found() -> None:
    model = torch_model(with_dropout, threads=1)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        world = SimulatedWorld(DATA, torch_model(with_dropout), WORK)
        start = world.initial(Stream(0))[None]
        with torch.no_grad():
            update = train(world, start, EVERYONE, ZEROS, gradient=True, stream=STREAM).update
            assert not torch.is_grad_enabled()
        evaluate(world, start, EVERYONE, ZEROS)
        model.digest(DATA)
        assert torch.get_num_threads() == 2 and torch.is_grad_enabled() and update.any()
        assert torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_num_threads(threads)


# --- ids


@pytest.mark.parametrize("kind", ["jax", "torch"])
def test_some_of_all_clients_train_as_they_do_among_all(kind: str) -> None:
    """A world of clients 3, 5 and 6, which knows their numbers among all, gives the bits of the
    world of all seven."""
    model: Any = mclr(DATA) if kind == "jax" else torch_model(with_dropout)
    start = model.initial(WORDS)[None]
    mine = np.array([3, 5, 6])
    part = DATA.with_rows(DATA.train.select(mine), DATA.test.select(mine))
    here = np.arange(3)
    for work in (WORK, replace(WORK, steps=7)):
        whole = train(SimulatedWorld(DATA, model, work), start, EVERYONE, ZEROS, stream=STREAM)
        some = train(
            SimulatedWorld(part, model, work, ids=mine), start, here, ZEROS[:3], stream=STREAM
        )
        np.testing.assert_array_equal(some.update, whole.update[mine])
        np.testing.assert_array_equal(some.loss, whole.loss[mine])
        nameless = train(SimulatedWorld(part, model, work), start, here, ZEROS[:3], stream=STREAM)
        assert (nameless.update != some.update).any(axis=1).all()


@pytest.mark.parametrize(
    "ids", [[0, 1], [0, 2, 1, 3, 4, 5, 6], [0, 0, 1, 2, 3, 4, 5], [-1, 0, 1, 2, 3, 4, 5]]
)
def test_ids_that_are_none(ids: list[int]) -> None:
    with pytest.raises(
        ConfigError,
        match=r"ids must be one number for each of 7 clients, ascending from 0 or above",
    ):
        SimulatedWorld(DATA, torch_model(with_dropout), ids=np.array(ids))


# --- other samples


def test_word_numbers_reach_an_embedding_as_integers() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(9, 4)
            self.head = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.words(x).mean(dim=1))

    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (40, 5)).astype(np.int32)
    y = rng.integers(0, 2, 40)
    rows = Ragged.of([np.arange(20), np.arange(20, 40)])
    data = FederatedData(
        name="text", x=x, y=y, classes=2, train=rows, test=rows, vocabulary=tuple("abcdefghi")
    )
    got = trained(torch_model(Words), np.arange(2), data=data)
    assert got.arrived.all() and got.update.any(axis=1).all()


def test_images_come_as_they_lie_in_the_data() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.head = nn.Linear(4 * 36, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[1:] == (8, 8, 1) and x.dtype == torch.float32
            return self.head(self.conv(x.permute(0, 3, 1, 2)).relu().flatten(1))

    rng = np.random.default_rng(0)
    x = rng.random((30, 8, 8, 1))
    y = rng.integers(0, 2, 30)
    rows = Ragged.of([np.arange(30)])
    got = trained(
        torch_model(Net),
        np.arange(1),
        data=FederatedData(name="images", x=x, y=y, classes=2, train=rows, test=rows),
    )
    assert got.arrived.all()


# --- refusals


class Silent(nn.Module):
    """Parameters that no score depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(6, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.detach()


def by_keyword(*, hidden: int) -> nn.Module:
    return nn.Linear(6, hidden)


def nonfinite() -> nn.Module:
    raise KeyError("weights.pt")


def no_leaf() -> nn.Module:
    module = nn.Linear(6, 3)
    module.extra = module.weight * 2  # type: ignore[assignment]
    return module


REFUSED: dict[str, tuple[Any, str]] = {
    "a number": (42, "an nn.Module or a function that makes one, got int"),
    "no module": (lambda: 3, "must return an nn.Module, got int"),
    "two arguments": (lambda data, hidden: None, r"as its only argument; got \(data, hidden\)"),
    "a keyword": (by_keyword, r"as its only argument; got \(hidden\)"),
    "the data, which are not there": (
        lambda data: None,
        r"takes the data \(data\); pass them as the second argument",
    ),
    "no parameters": (nn.ReLU(), "no floating-point parameters that can be trained"),
    "all frozen": (
        lambda: nn.Linear(6, 3).requires_grad_(False),
        "no floating-point parameters that can be trained",
    ),
    "lazy": (nn.LazyLinear(3), "every layer needs explicit sizes"),
    "complex": (nn.Linear(6, 3, dtype=torch.complex64), "complex parameters"),
    "a failing constructor": (
        nonfinite,
        "its function failed to make a module: KeyError: 'weights.pt'",
    ),
    "not to be copied": (no_leaf, "cannot be copied: RuntimeError"),
}


@pytest.mark.parametrize(("source", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_no_model(source: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        torch_model_of_anything(source)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_threads_that_are_none(threads: Any) -> None:
    with pytest.raises(ModelError, match="threads must be an integer of at least 1"):
        torch_model_of_anything(with_dropout, threads=threads)


UNFIT: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "features": (
        lambda: nn.Linear(5, 3),
        r"does not take small's samples of shape \(6,\): RuntimeError: mat1 and mat2",
    ),
    "classes": (
        lambda: nn.Linear(6, 4),
        r"returns scores of shape \(1, 4\) for one sample of small, expected \(1, 3\)",
    ),
    "no batch": (
        lambda: nn.Sequential(nn.Linear(6, 3), nn.Flatten(0)),
        r"shape \(3,\) for one sample",
    ),
    "two results": (lambda: nn.LSTM(6, 3), "returns a tuple, expected scores in a tensor"),
    "nothing to train in them": (Silent, "its scores do not depend on any trainable parameter"),
}


@pytest.mark.parametrize(("source", "said"), UNFIT.values(), ids=UNFIT.keys())
def test_a_module_that_does_not_fit_the_data(source: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        SimulatedWorld(DATA, torch_model(source))


def test_a_detector_has_one_score() -> None:
    with pytest.raises(
        ModelError, match=r"shape \(1, 3\) for one sample of small, expected \(1, 1\)"
    ):
        SimulatedWorld(DATA, torch_model(lambda: nn.Linear(6, 3), detects=True))
    SimulatedWorld(DATA, torch_model(lambda: nn.Linear(6, 1), detects=True))


def test_a_last_layer_that_is_not_last_is_no_head() -> None:
    class Reversed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 3)
            self.body = nn.Linear(6, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x).relu())

    spec = SimulatedWorld(DATA, torch_model(Reversed)).spec
    assert spec.head is None and spec.head_bias is None and next(iter(spec.slices)) == "head.weight"


def test_a_batch_that_a_module_does_not_take_is_named_with_its_client() -> None:
    """Client 4 has 23 samples, and batches of 11 leave one over; client 12 among all."""
    world = SimulatedWorld(
        DATA, torch_model(with_norm), replace(WORK, batch_size=11), ids=EVERYONE * 3
    )
    said = "failed on a batch of 1 samples of client 12: ValueError: Expected more than 1 value"
    with pytest.raises(
        ModelError, match=said + ".*choose a batch_size that leaves no batch with a single sample"
    ):
        train(world, world.initial(Stream(0))[None], EVERYONE[4:5], ZEROS[:1], stream=STREAM)


def test_a_vector_of_another_length() -> None:
    model = torch_model(with_dropout)
    with pytest.raises(
        ModelError, match=re.escape("has 163 parameters, got an array of shape (5,)")
    ):
        model.network(np.zeros(5, np.float32))


def test_entries_are_found_by_name() -> None:
    assert list(float_entries(with_norm()))[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert models(mclr(DATA)).shape[1] == torch_model(lambda: nn.Linear(6, 3)).spec.parameters


def test_the_arguments_of_a_partial_optimizer_are_in_the_digest() -> None:
    def digest(optimizer: Any) -> str:
        return torch_model(with_norm, optimizer=optimizer).digest(DATA)

    rmsprop: Any = torch.optim.RMSprop
    one, same, other = (digest(partial(rmsprop, momentum=m, alpha=0.9)) for m in (0.5, 0.5, 0.6))
    swapped = digest(partial(rmsprop, alpha=0.9, momentum=0.5))
    assert (
        one == same == swapped and len({one, other, digest(partial(rmsprop)), digest(rmsprop)}) == 4
    )
    assert digest(rmsprop) == digest(None)  # its name is in the description of the model
    with_function = [digest(partial(rmsprop, foreach=lambda: 1)) for _ in range(2)]
    assert with_function[0] == with_function[1]
