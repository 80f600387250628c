"""Embeddings of samples by frozen PyTorch networks: the inputs of the last layer without factors,
in PyTorch and compiled."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedkin as fk
from fedkin.core.errors import ModelError
from fedkin.data.federated import FederatedData
from fedkin.methods.fedrouter import FedRouterState
from fedkin.simulation.workers import worker_factory
from tests.models.test_lora import Net
from tests.simulation.torch.test_adapters import OPTIONS, Twin, bert, texts

__all__ = ["texts"]


def found(model: Any, data: FederatedData, clients: list[int]) -> np.ndarray:
    """The embeddings that the model's scorer computes."""
    scorer, _ = worker_factory(model, np.arange(data.clients), 1, None)(data)
    return scorer.embeddings(np.array(clients), "train")


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_they_are_those_of_the_jax_version(engine: str) -> None:
    digits = fk.data.digits(clients=6)
    net = Net(jax.random.key(0))
    theirs = fk.lora(digits, Twin(net), engine=engine, **OPTIONS)
    ours = fk.lora(digits, net, **OPTIONS)
    assert theirs.spec.embedding == ours.spec.embedding == 6
    expected = found(ours, digits, [1, 4])
    np.testing.assert_allclose(found(theirs, digits, [1, 4]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_hidden_states_are_averaged_over_tokens(texts: Any, engine: str) -> None:
    module = bert("BertModel", hidden_dropout_prob=0.5)
    x = torch.from_numpy(texts.x[texts.train[1]].astype(np.int64))
    with torch.inference_mode():
        hidden = module.eval()(input_ids=x, attention_mask=(x != 0).long()).last_hidden_state
    mask = (x != 0)[..., None].numpy()
    expected = (hidden.numpy() * mask).sum(axis=1) / mask.sum(axis=1)
    model = fk.lora(texts, module.train(), rank=2, engine=engine)
    assert model.spec.embedding == 12
    np.testing.assert_allclose(found(model, texts, [1]), expected, atol=1e-5)


class TokenScores(nn.Module):
    """Scores of each token, of which the last one counts, as in decoders."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.query = nn.Linear(4, 5)
        self.score = nn.Linear(5, 2)
        self.config = type("Config", (), {"pad_token_id": 0})

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.score(self.query(self.embed(input_ids)))[:, -1]


def test_the_inputs_of_a_last_layer_for_tokens_are_averaged(texts: Any) -> None:
    module = TokenScores()
    x = torch.from_numpy(texts.x[texts.train[0]].astype(np.int64))
    with torch.inference_mode():
        hidden = module.query(module.embed(x)).numpy()
    mask = (x != 0)[..., None].numpy()
    model = fk.lora(texts, module, rank=2, targets=("query",), head="score")
    expected = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    np.testing.assert_allclose(found(model, texts, [0]), expected, atol=1e-6)


def test_fedrouter_clusters_and_places_by_them() -> None:
    """Pixels of half of the clients are dark."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(4), 10)
    x = rng.uniform(0, 1, (40, 64)).astype(np.float32)
    x[owners % 2 == 1] *= 0.1
    data = fk.data.from_arrays(x, np.arange(40) % 10, clients=owners)
    torch.manual_seed(0)
    model = fk.lora(data, Twin(), **OPTIONS)
    run = fk.simulate(fk.FedRouter(clusters=2), data, model, rounds=1, cohort=4)
    assert run.assignment.tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    state = run.state
    assert isinstance(state, FedRouterState) and state.centroids.shape == (2, 6)
    for client in range(2):
        assert run.place(x[owners == client + 2]).cluster == run.assignment[client]


def test_without_a_last_layer_or_a_frozen_network_there_are_none() -> None:
    digits = fk.data.digits(clients=3)
    options: dict[str, Any] = OPTIONS | {"head": False}
    assert fk.lora(digits, Twin(), **options).spec.embedding == 0
    plain = fk.torch_model(Twin(), digits)
    assert plain.spec.embedding == 0
    with pytest.raises(ModelError, match=r"no frozen part .*; make the model with fk\.lora"):
        found(plain, digits, [0])
