"""FedRouter with several kinds of samples of a client: clusters of kinds, training in turn, a model
for each sample, and newcomers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.measures.distances import nearest_centre
from fedkin.methods.fedrouter_kinds import FedRouterKindsState
from fedkin.tasks.train import train

CLIENTS = 4
WORK = fk.LocalTraining(lr=0.5, epochs=5)


def kinds_of(clients: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples, labels and owners. Each client has 20 samples of one kind and 10 of another; the
    kinds give equal samples the opposite label."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(clients), 30)
    kind = (np.arange(len(owners)) % 30 >= 20) ^ (owners % 2 == 1)
    x = rng.normal(size=(len(owners), 3)).astype(np.float32)
    x[:, 0] = 5.0 * kind + 0.1 * x[:, 0]
    return x, ((x[:, 1] > 0) ^ kind).astype(int), owners


@pytest.fixture(scope="module")
def data() -> FederatedData:
    x, labels, owners = kinds_of(CLIENTS, 0)
    return fk.data.from_arrays(x, labels, clients=owners)


def simulated(data: FederatedData, method: Any, rounds: int = 6) -> fk.Run:
    model = fk.models.mclr(data)
    return fk.simulate(method, data, model, rounds=rounds, cohort=data.clients, local=WORK)


def rows_of(part: Any) -> list[np.ndarray]:
    """The rows of each client in a part of the data."""
    return [part[client] for client in range(CLIENTS)]


def state_of(run: fk.Run) -> FedRouterKindsState:
    assert isinstance(run.state, FedRouterKindsState)
    return run.state


@pytest.fixture(scope="module")
def run(data: FederatedData) -> fk.Run:
    return simulated(data, fk.FedRouter(clusters=2, kinds=2))


def test_texts_go_to_the_oracles_adapters(oracle: Callable[[str], dict[str, Any]]) -> None:
    (case,) = oracle("adapters")["fedrouter"]
    samples = np.array(case["samples"])
    centroids = np.array(case["global_centroids"])
    assert nearest_centre(samples, centroids).tolist() == case["global_mode"]
    for client, expected in case["local_mode"].items():
        usable = np.zeros((1, len(centroids)), bool)
        usable[0, case["adapter_of_local_cluster"][int(client)]] = True
        assert nearest_centre(samples, centroids, usable).tolist() == expected


def test_kinds_of_clients_are_clustered(run: fk.Run, data: FederatedData) -> None:
    state = state_of(run)
    # The kind with more samples is the first: of even clients the one at 0, of odd ones that at 5.
    at_five = int(state.centroids[:, 0].argmax())
    assert state.cluster_of.tolist() == [[1 - at_five, at_five], [at_five, 1 - at_five]] * 2
    assert state.assignment.tolist() == [1 - at_five, at_five] * 2
    np.testing.assert_allclose(state.centroids[at_five, 0], 5, atol=0.1)
    for client, rows in enumerate(rows_of(data.train)):
        is_five = data.x[rows, 0] > 2.5
        counts = sorted([is_five.sum(), (~is_five).sum()], reverse=True)
        assert state.counts[client].tolist() == counts
        shares = np.zeros(2)
        shares[at_five] = is_five.mean()
        shares[1 - at_five] = 1 - is_five.mean()
        np.testing.assert_allclose(state.membership[client], shares)
        first = data.x[rows][is_five == (client % 2 == 1)]
        np.testing.assert_allclose(state.centres[client, 0], first.mean(axis=0), rtol=1e-5)


def test_a_model_for_each_sample_beats_one_for_each_client(run: fk.Run, data: Any) -> None:
    alone = simulated(data, fk.FedRouter(clusters=2))
    assert run.summary()["final_accuracy"] > 0.8
    assert alone.summary()["final_accuracy"] < 0.7


def test_clients_train_one_kind_in_turn(data: FederatedData) -> None:
    """Round 1 trains the second kind (1 mod 2), and the mean is weighted by its samples."""
    run = simulated(data, fk.FedRouter(clusters=2, kinds=2), rounds=1)
    state = state_of(run)
    world = fk.SimulatedWorld(data, fk.models.mclr(data), WORK)
    start = world.initial(Stream(0, 0, "method/init").child("model"))
    at_five = int(state.centroids[:, 0].argmax())
    # Even clients have trained the model at 5, odd ones that at 0, on ten samples less tests.
    stream = Stream(0, 1, "method/round").child("train")
    clients = np.arange(CLIENTS)
    own = [
        np.flatnonzero((data.x[rows, 0] > 2.5) == (client % 2 == 0))
        for client, rows in enumerate(rows_of(data.train))
    ]
    parts = fk.data.from_arrays(
        np.concatenate(
            [data.x[rows][part] for rows, part in zip(rows_of(data.train), own, strict=True)]
        ),
        np.concatenate(
            [data.y[rows][part] for rows, part in zip(rows_of(data.train), own, strict=True)]
        ),
        clients=np.repeat(clients, [len(part) for part in own]),
        test=np.zeros(sum(map(len, own)), int),
    )
    alone = fk.SimulatedWorld(parts, fk.models.mclr(parts), WORK)
    reply = train(alone, start[None], clients, 0 * clients, work=WORK, stream=stream)
    weights = np.array([len(part) for part in own], float)
    for first, cluster in ((0, at_five), (1, 1 - at_five)):
        of_cluster = slice(first, None, 2)
        mean = np.average(reply.update[of_cluster], axis=0, weights=weights[of_cluster])
        np.testing.assert_allclose(run.models[cluster], start + mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("routing", ["local", "global"])
def test_predictions_are_those_of_the_evaluation(data: FederatedData, routing: Any) -> None:
    run = simulated(data, fk.FedRouter(clusters=3, kinds=2, routing=routing))
    correct = [
        int((run.predict(data.x[rows], client=client) == data.y[rows]).sum())
        for client, rows in enumerate(rows_of(data.test))
    ]
    assert run.clients["correct"].tolist() == correct


def test_local_routing_uses_the_clusters_of_the_client() -> None:
    """Client 0 has the first kind only, and a test sample that is nearer to the other one."""
    x, labels, _ = kinds_of(2, 1)
    five = x[:, 0] > 2.5
    owners = np.where(five, 1, 0)
    data = fk.data.from_arrays(x, labels, clients=owners)
    local = simulated(data, fk.FedRouter(clusters=2))
    whole = simulated(data, fk.FedRouter(clusters=2, routing="global"))
    of_five = x[five][:1]
    routes = whole.model_for(0).routes
    assert routes is not None and len(routes) == 2
    # Locally, a client with one kind has the model of its cluster.
    assert local.model_for(0).routes is None
    cluster = whole.place(of_five).cluster
    expected = whole.predict(of_five, cluster=cluster, proba=True)
    np.testing.assert_allclose(whole.predict(of_five, client=0, proba=True), expected, atol=1e-6)


def test_newcomers_and_single_samples_are_placed(run: fk.Run) -> None:
    state = state_of(run)
    x, _, owners = kinds_of(2, 5)
    for client in range(2):
        assert run.place(x[owners == client]).cluster == state.assignment[client]
    at_five = int(state.centroids[:, 0].argmax())
    assert run.place(x[x[:, 0] > 2.5][:1]).cluster == at_five
    assert run.place(x[x[:, 0] < 2.5][:1]).cluster == 1 - at_five


def test_a_client_may_have_fewer_kinds_than_others() -> None:
    """Client 0 has two equal samples, and so one kind, which it trains in every round."""
    x, labels, owners = kinds_of(3, 2)
    x[owners == 0] = x[0]
    data = fk.data.from_arrays(x, labels, clients=owners)
    state = state_of(simulated(data, fk.FedRouter(clusters=2, kinds=2), rounds=2))
    assert (state.counts[0] > 0).tolist() == [True, False]
    assert state.cluster_of[0, 1] == UNASSIGNED
    assert state.membership[0].max() == 1


def few() -> FederatedData:
    """Each client has two different samples, so there are eight kinds."""
    x = np.arange(2 * CLIENTS, dtype=np.float32)[:, None].repeat(3, axis=1).repeat(5, axis=0)
    rows = np.arange(len(x))
    return fk.data.from_arrays(x, rows % 2, clients=rows // 10, test=0 * rows)


def test_what_it_cannot_do(run: fk.Run, data: FederatedData, tmp_path: Path) -> None:
    with pytest.raises(MethodError, match=r"chooses a model for each text.*method\.kinds=1"):
        run.export(tmp_path / "models")
    with pytest.raises(MethodError, match="trains models of kinds of texts"):
        run.fine_tune(0)
    with pytest.raises(MethodError, match=r"9 clusters need .* sent 8; lower method\.clusters"):
        simulated(few(), fk.FedRouter(clusters=9, kinds=3), rounds=1)
    with pytest.raises(MethodError, match="kinds"):
        fk.FedRouter(kinds=0)
    with pytest.raises(MethodError, match="routing"):
        fk.FedRouter(routing="nearest")  # type: ignore[arg-type]


def test_a_run_resumes_with_the_same_bits(data: FederatedData, tmp_path: Path) -> None:
    method = fk.FedRouter(clusters=2, kinds=2)
    model = fk.models.mclr(data)
    common: dict[str, Any] = {"cohort": CLIENTS, "local": WORK}
    whole = fk.simulate(method, data, model, rounds=3, **common)
    fk.simulate(method, data, model, rounds=2, out=tmp_path / "run", **common)
    resumed = fk.simulate(
        method, data, model, rounds=3, out=tmp_path / "run", resume=True, **common
    )
    np.testing.assert_array_equal(resumed.models, whole.models)
    loaded = fk.Run.load(tmp_path / "run", data=data, model=model)
    np.testing.assert_array_equal(
        loaded.predict(data.x[:5], client=1), whole.predict(data.x[:5], client=1)
    )
