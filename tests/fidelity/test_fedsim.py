"""FedSim against vectors from the authors' code: partition, cluster models and global model.

A quadratic client that goes all the way to its target (lr 1) sends that target as its solution;
gradients are the published ones, whatever the model. The published gradients are one number shorter
than the published model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.measures.pca import explained_variance, principal_scores
from fedkin.methods.fedsim import FedSim, FedSimState
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.gradients import Gradients

FIRST = Stream(4, 1, "method/round")
LATER = Stream(4, 2, "method/round")


@pytest.fixture
def vector(oracle: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return oracle("others")["fedsim"]


def flat(layers: Any) -> np.ndarray:
    """A model given layer by layer as one vector, in order."""
    return np.concatenate([np.ravel(np.asarray(layer, float)) for layer in layers])


class Published(FakeWorld):
    """Clients with given gradients; remembers where gradients were taken."""

    def given(self, gradients: np.ndarray) -> Published:
        self.given_gradients = gradients.astype(np.float32)
        self.asked = []
        return self

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        reply = super().run(task, clients, stream)
        if isinstance(task, Gradients):
            self.asked.append(task.models.copy())
        names = {"gradient", "gradients"} & reply.arrays.keys()
        return replace(
            reply, arrays=reply.arrays | dict.fromkeys(names, self.given_gradients[clients])
        )


def world(vector: dict[str, Any], gradients: np.ndarray | None = None) -> Published:
    solutions = np.stack([flat(layers) for layers in vector["client_solutions"]]).astype(np.float32)
    gradients = np.array(vector["gradients"]) if gradients is None else gradients
    padded = np.pad(gradients, ((0, 0), (0, solutions.shape[1] - gradients.shape[1])))
    return Published(solutions, np.array(vector["n_k"]), LocalTraining(lr=1.0)).given(padded)


def start(vector: dict[str, Any]) -> FedSimState:
    """Some w_t, on which the next model does not depend where all clients find their solution from
    anywhere."""
    w = np.linspace(-1, 1, len(flat(vector["global_model"]))).astype(np.float32)
    everybody = np.zeros(10, np.int64)
    return FedSimState(w[None], everybody, everybody - 1, w + 1)


def after(
    method: FedSim, w: Published, vector: dict[str, Any], stream: Stream = LATER
) -> FedSimState:
    return method.round(w, start(vector), np.arange(10), stream)


def partition(groups: dict[str, list[int]]) -> np.ndarray:
    labels = np.full(sum(map(len, groups.values())), -1)
    for name, clients in groups.items():
        labels[clients] = int(name.removeprefix("group_"))
    return labels


def test_principal_components(vector: dict[str, Any]) -> None:
    gradients = np.array(vector["gradients"])
    scores = principal_scores(gradients)
    assert scores.shape == (10, vector["pca_n_components"])
    np.testing.assert_allclose(np.abs(scores), vector["pca_abs_scores"], atol=1e-9)
    shares = explained_variance(gradients)
    np.testing.assert_allclose(
        shares[: vector["pca_n_components"]], vector["pca_explained_ratio"], rtol=1e-9
    )


def test_clusters(vector: dict[str, Any]) -> None:
    state = after(FedSim(clusters=3), world(vector), vector)
    assert adjusted_rand_score(partition(vector["round1_groups"]), state.groups) == 1
    assert set(state.groups) == {0, 1, 2}


def test_the_order_of_selection_does_not_matter(vector: dict[str, Any]) -> None:
    order = np.array(vector["round1_active_order"])
    state = FedSim(clusters=3).round(world(vector), start(vector), order, LATER)
    assert adjusted_rand_score(partition(vector["round1_groups"]), state.groups) == 1
    np.testing.assert_allclose(state.models, [flat(vector["global_model"])], atol=1e-6)


def test_the_last_cluster_model_is_one_of_the_published(vector: dict[str, Any]) -> None:
    """Our clusters are not numbered as the published ones: our last one equals the published one
    with the same clients."""
    state = after(FedSim(clusters=3), world(vector), vector)
    members = sorted(np.flatnonzero(state.groups == 2).tolist())
    [name] = [
        name for name, clients in vector["round1_groups"].items() if sorted(clients) == members
    ]
    np.testing.assert_allclose(state.last_cluster, flat(vector["cluster_models"][name]), atol=1e-6)
    assert sum(vector["n_k"][c] for c in members) == vector["cluster_num_samples"][name]


def test_global_model(vector: dict[str, Any]) -> None:
    w = world(vector)
    state = after(FedSim(clusters=3), w, vector)
    np.testing.assert_allclose(state.models, [flat(vector["global_model"])], atol=1e-6)
    assert not w.asked, "gradients come with the solutions"


def test_one_cluster_is_the_mean_by_samples(vector: dict[str, Any]) -> None:
    solutions = np.stack([flat(s) for s in vector["client_solutions"]])
    n = np.array(vector["n_k"])
    state = after(FedSim(clusters=1), world(vector), vector)
    np.testing.assert_allclose(state.models, [n @ solutions / n.sum()], atol=1e-6)


def test_leftover_model(vector: dict[str, Any]) -> None:
    """The published gradients do not depend on the model, so the result is the same. Only the model
    of the query differs."""
    w = world(vector)
    state = after(FedSim(clusters=3, as_coded=("leftover_model",)), w, vector)
    np.testing.assert_allclose(state.models, [flat(vector["global_model"])], atol=1e-6)
    [asked] = w.asked
    np.testing.assert_array_equal(asked, [start(vector).last_cluster])


def three_gradients(vector: dict[str, Any]) -> np.ndarray:
    """Every client with the first gradient of its published cluster: no more than three clusters
    can be formed."""
    gradients = np.array(vector["gradients"])
    true = np.array(vector["true"])
    return np.stack([gradients[np.flatnonzero(true == kind)[0]] for kind in true])


def test_fewer_clusters_than_configured(vector: dict[str, Any]) -> None:
    """By default the mean is over the clusters that were formed; as coded the sum is divided by
    the configured number."""
    state = after(FedSim(clusters=4), world(vector, three_gradients(vector)), vector)
    np.testing.assert_allclose(state.models, [flat(vector["global_model"])], atol=1e-6)
    coded = after(
        FedSim(clusters=4, as_coded=("configured_count",)),
        world(vector, three_gradients(vector)),
        vector,
    )
    expected = flat(vector["global_model_if_num_groups_4_but_3_formed"])
    np.testing.assert_allclose(coded.models, [expected], atol=1e-6)


def test_as_many_clusters_as_configured(vector: dict[str, Any]) -> None:
    state = after(FedSim(clusters=3, as_coded=("configured_count",)), world(vector), vector)
    np.testing.assert_allclose(state.models, [flat(vector["global_model"])], atol=1e-6)


DEALT = {
    "round_robin_start": FedSim(3, as_coded=("round_robin_start",)),
    "always": FedSim(3, clustering="round_robin"),
}


@pytest.mark.parametrize("method", DEALT.values(), ids=DEALT.keys())
def test_round_robin(method: FedSim, vector: dict[str, Any]) -> None:
    """The code deals clients in the order in which they were selected, which is random. Only the
    sizes are promised."""
    sizes = sorted(len(clients) for clients in vector["round0_groups_round_robin"].values())
    deals = set()
    for seed in range(5):
        w = world(vector)
        state = after(method, w, vector, Stream(seed, 1, "method/round"))
        assert sorted(np.bincount(state.groups)) == sizes and not w.asked
        deals.add(state.groups.tobytes())
    assert len(deals) > 1


def test_the_start_is_dealt_and_the_rest_is_not(vector: dict[str, Any]) -> None:
    method = FedSim(clusters=3, as_coded=("round_robin_start",))
    state = after(method, world(vector), vector, LATER)
    assert adjusted_rand_score(partition(vector["round1_groups"]), state.groups) == 1
    np.testing.assert_allclose(state.models, [flat(vector["global_model"])], atol=1e-6)


def test_all_as_coded(vector: dict[str, Any]) -> None:
    """First a round that is dealt, then one with gradients at its last cluster model."""
    method = FedSim(4, as_coded=("leftover_model", "round_robin_start", "configured_count"))
    w = world(vector)
    first = after(method, w, vector, FIRST)
    assert not w.asked and sorted(np.bincount(first.groups)) == [2, 2, 3, 3]
    w = world(vector, three_gradients(vector))
    second = method.round(w, first, np.arange(10), LATER)
    np.testing.assert_array_equal(w.asked, [first.last_cluster[None]])
    expected = flat(vector["global_model_if_num_groups_4_but_3_formed"])
    np.testing.assert_allclose(second.models, [expected], atol=1e-6)
