"""FLUX: the code's clusters from its descriptors, when they are made,
and newcomers without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.clustering import density
from fedkin.core.errors import DataError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.measures.descriptors import random_axes
from fedkin.methods.flux import FLUX, FLUXState
from fedkin.methods.random_head import class_count, with_projection
from fedkin.models import mclr, mlp
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.score_moments import ScoreMoments
from tests.option_lists import simulate_arguments

LOCAL = fk.SGD(epochs=2, batch_size=10, lr=0.1)
GAP = FLUX(latest=1, eps="gap", noise="nearest")


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return fk.planted(
        "digits", "rotation", clusters=3, clients=6, samples=200, test_samples=20, seed=0
    )


def world(data: FederatedData, hidden: int | None = 64) -> SimulatedWorld:
    return SimulatedWorld(data, mlp(data, hidden) if hidden else mclr(data), LOCAL)


def rounds(
    method: FLUX, w: SimulatedWorld, count: int, state: FLUXState | None = None, first: int = 1
) -> FLUXState:
    state = method.init(w, Stream(1, 0, "init")) if state is None else state
    for r in range(first, count + 1):
        state = method.round(w, state, np.arange(6), Stream(1, r, "method"))
    return state


# --- the published rule


def test_the_codes_eps_and_clusters(oracle: Callable[[str], dict[str, Any]]) -> None:
    """With fedkin's eps, and not the oracle's.

    eps is the distance of two clients, so these two are neighbours by DBSCAN's definition. In the
    first two cases the code finds the same. In the third the code computes the distance twice, and
    its eps is 3.6e-15 below the distance that its DBSCAN uses: it leaves the two apart.
    """
    found = []
    for case in oracle("methods2")["flux"]:
        points = np.array(case["scaled"])
        eps = FLUX()._eps(points)
        assert eps == pytest.approx(case["eps"], abs=case["tolerance"])
        labels = clusters_at(points, eps)
        pair = np.argwhere(density.euclidean(points) == eps)[0]
        assert labels[pair[0]] == labels[pair[1]]

        expected = np.array(case["clusters"])
        if case["case"] == "flux-12-2":
            assert clusters_agree(clusters_at(points, np.nextafter(eps, 0)), expected)
            expected[expected == expected[pair[1]]] = expected[pair[0]]
        assert clusters_agree(labels, expected)
        found.append(int(labels.max()) + 1)
    assert found == [5, 4, 4]


def clusters_at(points: np.ndarray, eps: float) -> np.ndarray:
    """DBSCAN's clusters, where each noise point is a cluster."""
    return density.assign_noise(points, density.dbscan(points, eps, 2), "own")


def clusters_agree(labels: np.ndarray, expected: np.ndarray) -> bool:
    return adjusted_rand_score(labels, expected) == 1


def test_the_codes_centres_without_labels(oracle: Callable[[str], dict[str, Any]]) -> None:
    """The means of its clusters, which it compares with newcomers."""
    for case in oracle("methods2")["flux"]:
        points = np.array(case["scaled"])
        clusters = np.array(case["clusters"])
        for cluster, centre in case["test_time_centroids_label_free_part"].items():
            mine = points[clusters == int(cluster)]
            np.testing.assert_allclose(
                mine[:, : len(centre)].mean(axis=0), centre, atol=case["tolerance"]
            )


def test_where_the_published_rule_cannot_find_the_number_of_clusters() -> None:
    """Two kinds a thousand apart, whose clients differ by 1, 1, 1.1 and 2: the knee comes before
    the last client, which is alone then. The gap is plain."""
    line = np.array([0.0, 1, 2, 3.1, 5.1])
    points = np.concatenate([line, 1000 + line])[:, None]
    published = density.assign_noise(points, density.dbscan(points, FLUX()._eps(points), 2), "own")
    assert published.max() + 1 > 2
    gap = density.dbscan(points, FLUX(eps="gap")._eps(points), 2)
    assert gap.tolist() == [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("points", "eps"), [([0.0, 1, 2, 3], 1.0), ([4.0, 4, 4], np.finfo(float).tiny)]
)
def test_without_a_knee_it_is_the_median(points: list[float], eps: float) -> None:
    assert FLUX()._eps(np.array(points)[:, None]) == eps


# --- descriptors through the last layer


def test_scores_of_the_projected_model_are_the_projected_samples(data: FederatedData) -> None:
    """With logistic regression the input of the last layer is the sample. With an MLP it is the
    rectified hidden layer."""
    for hidden in (None, 16):
        w = world(data, hidden)
        model = w.initial(Stream(3)) + 0.01
        z = data.x[data.train[2]]
        if hidden:
            kernel, bias = (model[part] for name, part in list(w.spec.slices.items())[:2])
            z = np.maximum(z @ kernel.reshape(hidden, -1).T + bias, 0)
        projected = z @ random_axes(z.shape[1], 10).T
        reply = w.run(ScoreMoments(with_projection(model, w.spec)), np.array([2]))
        np.testing.assert_allclose(
            reply.overall[0], [projected.mean(axis=0), projected.std(axis=0)], atol=1e-4
        )
        own = data.y[data.train[2]] == 4
        np.testing.assert_allclose(reply.by_class[0, 0, 4], projected[own].mean(axis=0), atol=1e-4)


def test_a_model_without_a_last_layer_is_refused() -> None:
    with pytest.raises(MethodError, match=r"does not end in a weight .*model\.name=mlp"):
        class_count(ModelSpec(3))


def test_rounds_are_whole_numbers() -> None:
    with pytest.raises(MethodError, match=r"latest must be an integer from 0 up, got 2\.5"):
        FLUX(latest=2.5)  # pyright: ignore


# --- when


def history(*accuracies: float, latest: int = 8) -> np.ndarray:
    return np.array([*accuracies, *[np.nan] * (latest - len(accuracies))])


@pytest.mark.parametrize(
    ("accuracies", "due"),
    [
        ((0.1, 0.12), False),  # two rounds are too few, however small the gain
        ((0.1, 0.12, 0.5), True),  # any gain so far counts, not only the last
        ((0.1, 0.3, 0.5), False),
        ((0.1, 0.3, 0.2), True),  # a loss is no gain
        ((0.1, 0.3, 0.5, 0.55), True),
    ],
)
def test_the_clustering_comes_when_a_gain_was_small(
    data: FederatedData, accuracies: tuple[float, ...], due: bool
) -> None:
    state = replace(FLUX().init(world(data), Stream(1, 0, "init")), accuracies=history(*accuracies))
    assert FLUX()._is_due(state, len(accuracies)) == due


def test_it_comes_at_the_latest(data: FederatedData) -> None:
    w = world(data)
    state = rounds(GAP, w, 1)
    assert len(state.models) == 1 and np.isfinite(state.accuracies).all() and not state.clustered
    before = w.ledger.total()
    after = rounds(GAP, w, 2, state, first=2)
    assert after.clustered and len(after.models) > 1
    down, up = (b - a for a, b in zip(before, w.ledger.total(), strict=True))
    moments = 6 * 4 * (2 * 10 + 2 * 10 * 10)
    assert (down, up) == (2 * 6 * 4 * w.spec.parameters, 6 * 4 * w.spec.parameters + moments)


# --- newcomers


def test_a_newcomers_labels_are_not_read(data: FederatedData) -> None:
    state = rounds(GAP, world(data), 2)
    unlabelled = replace(data, y=np.zeros_like(data.y))
    cold = replace(state, assignment=np.full(6, UNASSIGNED))
    known = replace(cold, assignment=np.where(np.arange(6) == 4, UNASSIGNED, state.assignment))
    placed = GAP.place(world(unlabelled), known, np.array([4]), Stream(1, 3, "place"))
    np.testing.assert_array_equal(placed.assignment, state.assignment)


def test_a_run_places_newcomers_without_labels(data: FederatedData) -> None:
    run = fk.simulate(GAP, data, mlp(data, 64), rounds=3, cohort=6, local=LOCAL)
    assert run.summary()["ari"] == 1
    for client in range(6):
        placed = run.place(data.x[data.train[client]], resamples=4)
        assert placed.cluster == run.assignment[client] and placed.confidence > 0.5
    with pytest.raises(DataError):
        run.place(data.x[:0])


def test_methods_that_read_labels_refuse_by_name(data: FederatedData) -> None:
    run = fk.simulate(fk.IFCA(clusters=2), data, mlp(data, 64), rounds=1, cohort=6, local=LOCAL)
    with pytest.raises(
        MethodError,
        match=r"ifca needs labels to place a newcomer; give them: run\.place\(x, y\)",
    ):
        run.place(data.x[data.train[0]])
    one = fk.simulate(fk.FedAvg(), data, mlp(data, 64), rounds=1, cohort=6, local=LOCAL)
    assert one.place(data.x[data.train[0]]).cluster == 0


def test_a_server_optimiser_leaves_newcomers_unlabelled(data: FederatedData) -> None:
    options: dict[str, Any] = {"rounds": 3, "cohort": 6, "local": LOCAL, "options": [fk.FedAvgM()]}
    run = fk.simulate(GAP, data, mlp(data, 64), **simulate_arguments(options))
    assert run.place(data.x[data.train[3]], resamples=1).cluster == run.assignment[3]
