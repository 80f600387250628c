"""FedRouter: its rule against the oracle, and clusters, placement and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.clustering.density import nearest_label
from fedkin.core.errors import MethodError, TaskError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fedrouter import FedRouter, FedRouterState
from fedkin.simulation.fake_world import FakeWorld
from tests.models.tiny_bert import WIDTH, write_bert

# Two topics; in each client's texts, words of the other one occur, too.
TOPICS = ("the red cat sat", "blue dog e f")
CLIENTS = 6
MEANS = np.array([[0, 0], [9, 0], [1, 0], [9, 1], [0, 2]], np.float32)


def test_texts_go_to_the_oracles_adapters(oracle: Callable[[str], dict[str, Any]]) -> None:
    (case,) = oracle("adapters")["fedrouter"]
    samples = np.array(case["samples"])
    centroids = np.array(case["global_centroids"])
    found, _ = nearest_label(samples, centroids, np.arange(len(centroids)))
    assert found.tolist() == case["global_mode"]
    # A client that knows only the adapters of its clusters.
    for client, expected in case["local_mode"].items():
        own = np.array(case["adapter_of_local_cluster"][int(client)])
        found, _ = nearest_label(samples, centroids[own], own)
        assert found.tolist() == expected
    centres = np.array(case["local_centres"])
    for own, client in zip(case["adapter_of_local_cluster"], centres, strict=True):
        assert nearest_label(client, centroids, np.arange(3))[0].tolist() == own


def world(**options: Any) -> FakeWorld:
    return FakeWorld(
        target=MEANS,
        examples=np.full(len(MEANS), 10),
        work=LocalTraining(lr=0.5),
        start=lambda _: np.zeros(2),
        features=MEANS.copy(),
        **options,
    )


def test_clusters_are_made_once_from_means() -> None:
    state = FedRouter(clusters=2).init(world(), Stream(1, 0, "method/init"))
    near, far = state.assignment[:2]
    assert state.assignment.tolist() == [near, far, near, far, near]
    np.testing.assert_allclose(state.centroids[near], [1 / 3, 2 / 3])
    np.testing.assert_allclose(state.centroids[far], [9, 0.5])
    assert (state.models == 0).all()


def test_newcomers_join_the_nearest_centroid() -> None:
    method = FedRouter(clusters=2)
    state = method.init(world(silent=frozenset({3, 4})), Stream(1, 0, "method/init"))
    near, far = state.assignment[:2]
    assert state.assignment.tolist() == [near, far, near, UNASSIGNED, UNASSIGNED]
    # Client 3 replies now; client 4 is still silent, and has no cluster.
    late = world(silent=frozenset({4}))
    placed = method.place(late, state, np.array([3, 4]), Stream(1, 1, "place"))
    assert placed.assignment.tolist() == [near, far, near, far, UNASSIGNED]
    np.testing.assert_array_equal(placed.centroids, state.centroids)


def test_a_frozen_network_gives_the_embeddings() -> None:
    """In this world a client's embedding is its target, and its features are zeros."""
    clients = world()
    clients.data.x[:] = 0.0
    clients.spec = replace(clients.spec, embedding=2)
    state = FedRouter(clusters=2).init(clients, Stream(1, 0, "method/init"))
    near, far = state.assignment[:2]
    assert state.assignment.tolist() == [near, far, near, far, near]


def test_clusters_need_clients_that_differ() -> None:
    with pytest.raises(MethodError, match=r"3 clusters .*, but 2 of 5 clients sent one"):
        FedRouter(clusters=3).init(world(silent=frozenset({0, 1, 2})), Stream(1, 0, "method/init"))
    same = world()
    same.data.x[:] = 1.0
    with pytest.raises(MethodError, match="distinct"):
        FedRouter(clusters=2).init(same, Stream(1, 0, "method/init"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A federation in which every other client writes about cats, and a backbone."""
    backbone = fk.models.from_transformers(write_bert(tmp_path_factory.mktemp("tiny")))
    rng = np.random.default_rng(0)
    written = [
        " ".join(rng.permutation([*TOPICS[client % 2].split(), rng.choice(["the", "a"])]))
        for client in range(CLIENTS)
        for _ in range(8)
    ]
    data = fk.data.from_arrays(
        backbone.tokens(written, 8),
        np.arange(len(written)) % 2,
        clients=np.repeat(np.arange(CLIENTS), 8),
        integers=True,
    )
    return data, backbone


def centroids(run: fk.Run) -> np.ndarray:
    state = run.state
    assert isinstance(state, FedRouterState)
    return state.centroids


def test_embeddings_are_the_frozen_networks(texts: tuple[Any, Any]) -> None:
    data, backbone = texts
    model = fk.lora(data, backbone, rank=2)
    assert model.spec.embedding == WIDTH
    run = fk.simulate(fk.FedRouter(clusters=2), data, model, rounds=1, cohort=CLIENTS)
    means = [np.asarray(backbone.encoder(data.x[rows])).mean(axis=0) for rows in data.train]
    labels = run.assignment
    assert labels.tolist() in ([0, 1] * 3, [1, 0] * 3)
    expected = [np.mean(np.array(means)[labels == k], axis=0) for k in range(2)]
    np.testing.assert_allclose(centroids(run), expected, rtol=1e-4, atol=1e-5)
    # Features of the first layer give the same embeddings.
    computed = fk.models.features(data, backbone, layer=1)
    upper = fk.lora(computed, backbone, rank=2)
    again = fk.simulate(fk.FedRouter(clusters=2), computed, upper, rounds=1, cohort=CLIENTS)
    np.testing.assert_allclose(centroids(again), centroids(run), rtol=1e-4, atol=1e-5)


def test_a_single_text_finds_its_cluster_without_a_label(texts: tuple[Any, Any]) -> None:
    data, backbone = texts
    model = fk.lora(data, backbone, rank=2)
    run = fk.simulate(fk.FedRouter(clusters=2), data, model, rounds=1, cohort=CLIENTS)
    for client, text in enumerate(("the sat red cat", "e f dog blue")):
        placed = run.place(backbone.tokens([text], 8))
        assert placed.cluster == run.assignment[client]


def test_texts_need_a_network_that_embeds_them(texts: tuple[Any, Any]) -> None:
    data, _ = texts
    model = fk.as_model((lambda key: jnp.zeros((2, 8)), lambda w, x, key: x @ w.T))
    with pytest.raises(TaskError, match=r"token numbers .* cannot be averaged.*use fk\.lora"):
        fk.simulate(fk.FedRouter(clusters=2), data, model, rounds=1, cohort=CLIENTS)


def test_the_embedding_of_a_module_is_the_input_of_its_last_layer() -> None:
    data = fk.data.digits(clients=4)
    net = eqx.nn.MLP(64, 10, width_size=5, depth=1, key=jax.random.key(0))
    model = fk.lora(data, net, rank=2, targets=["layers.0"])
    assert model.spec.embedding == 5
    assert model.embedded is not None
    found = model.embedded(model.frozen_arrays, data.x[:3])
    expected = jax.vmap(lambda x: jax.nn.relu(net.layers[0](x)))(data.x[:3])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert fk.lora(data, net, rank=2, targets=["layers.0"], head=False).spec.embedding == 0
