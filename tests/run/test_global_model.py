"""The auxiliary global model of FedGroup and FlexCFL, scored next to the clusters: numbers worked
out by hand, the methods that have it, resumed runs and real clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.config.run import from_dict
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.core.method import UNASSIGNED, AssignedModels, State
from fedkin.core.records import Record
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.methods import FedAvg, FedPer, Gossip
from fedkin.models import mclr
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.loop import run
from fedkin.run.metrics.accuracy import mean_and_distances, score
from fedkin.run.metrics.round_records import score_record
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import simulate_arguments
from tests.run.toy_method import Toy, fake_world
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, node_of, remote

NAMES = {"global_accuracy", "global_loss", "discrepancy_to_global"}
MODELS = np.array([[0, 0], [3, 0], [0, 6]], np.float32)
MEAN = (1.0, 2.0)  # of these three; weighted by the four clients below it would be (0.75, 1.5)


def hand_world(**options: Any) -> FakeWorld:
    """Two clients of cluster 0, one of each other cluster. On the model (1, 2) they have losses 5,
    5, 8 and 1/4."""
    target = np.array([[0, 0], [0, 0], [3, 0], [1.5, 2]], np.float32)
    return FakeWorld(target, np.full(4, 10), work=LocalTraining(lr=0.25), **options)


def hand_state() -> State:
    return State(MODELS, np.array([0, 0, 1, 2]))


def test_the_mean_is_of_clusters_and_not_of_clients() -> None:
    mean, distance = mean_and_distances(MODELS)
    np.testing.assert_array_equal(mean, MEAN)
    assert mean.dtype == np.float32
    np.testing.assert_allclose(distance, np.sqrt([1 + 4, 4 + 4, 1 + 16]), rtol=1e-15)


def test_the_global_model_is_scored_on_every_client() -> None:
    """Only the fourth client is within a distance of 1 of the mean, but not of its cluster's
    model."""
    result = score(hand_world(), hand_state(), 1, global_model=True)
    record = score_record(result, 3, None)
    assert record["accuracy"] == 3 / 4
    assert record["global_accuracy"] == 1 / 4
    assert record["global_loss"] == pytest.approx((5 + 5 + 8 + 0.25) / 4, abs=1e-12)
    assert record["discrepancy_to_global"] == pytest.approx(np.sqrt([5, 8, 17]), rel=1e-15)


def test_clients_without_a_cluster_are_not_scored() -> None:
    state = State(MODELS, np.array([0, UNASSIGNED, 1, 2]))
    record = score_record(score(hand_world(), state, 1, global_model=True), 3, None)
    assert record["global_accuracy"] == 1 / 3 and record["partial"]


def test_scoring_the_global_model_costs_the_method_nothing() -> None:
    world = hand_world()
    plain = hand_world()
    score(world, hand_state(), 1, global_model=True)
    score(plain, hand_state(), 1)
    assert world.ledger.total() == plain.ledger.total() == (0, 0)
    assert world.ledger.down == {"scoring.evaluate": 2 * plain.ledger.down["scoring.evaluate"]}


class Detecting(State):
    """Two detectors, which are not averaged."""

    def models_for(self, clients: np.ndarray) -> AssignedModels:
        return AssignedModels(
            self.models, np.tile([0, 1], (len(clients), 1)), np.array([0, 1]), np.array([0, 1])
        )


def test_detectors_are_not_averaged() -> None:
    world = fake_world(clients=4, counts=np.eye(2, dtype=np.int64)[[0, 1, 0, 1]], detects=True)
    state = Detecting(np.zeros((2, 3), np.float32), np.array([0, 0, 1, 1]))
    assert score(world, state, 1, global_model=True).global_model is None


@pytest.mark.parametrize(
    "method", [FedAvg(), FedPer(), Gossip(neighbours=2)], ids=["one model", "heads", "peers"]
)
def test_where_there_is_nothing_to_average_nothing_is_recorded(method: Any) -> None:
    world = fake_world(head=slice(1, 3)) if isinstance(method, FedPer) else fake_world()
    records = run(world, method, Plan(rounds=2, cohort=8, global_model=True)).records
    assert not NAMES & {name for record in records for name in record}


def test_it_is_off_by_default_and_changes_nothing_else() -> None:
    plain = run(fake_world(), Toy(), Plan(rounds=3, cohort=3, evaluate_every=2)).records
    records = run(
        fake_world(), Toy(), Plan(rounds=3, cohort=3, evaluate_every=2, global_model=True)
    ).records
    assert not NAMES & {name for record in plain for name in record}
    # As rounds are scored.
    assert [set(NAMES & set(record)) for record in records] == [
        NAMES,
        set(),
        NAMES,
        NAMES,
    ]
    for record, other in zip(records, plain, strict=True):
        kept = {
            name: value
            for name, value in record.items()
            if name not in NAMES | {"bytes_by_operation"}
        }
        assert kept == {
            name: value for name, value in other.items() if name != "bytes_by_operation"
        }


def test_a_configuration_turns_it_on() -> None:
    assert from_dict({"run": {"global_model": True}}).run.global_model
    assert not from_dict({}).run.global_model
    with pytest.raises(
        ConfigError, match=r"run\.global_model: expected a valid boolean, got 'yes'"
    ):
        from_dict({"run": {"global_model": "yes"}})


def test_runs_from_before_the_option_can_be_resumed_and_others_not() -> None:
    """Off equals absent. The option changes the records, so it changes the fingerprint."""
    off, on = (from_dict({"run": {"global_model": value}}).description() for value in (False, True))
    absent = off.with_run(global_model=None)
    assert fingerprint(off) == fingerprint(absent) != fingerprint(on)


def go(data: FederatedData, out: Path, resume: bool = False, **options: Any) -> fk.Run:
    settings: dict[str, Any] = {
        "rounds": 4,
        "cohort": 4,
        "local": fk.SGD(lr=0.5),
        "checkpoint_every": 1,
    } | options
    return fk.simulate(
        fk.FedGroup(clusters=2),
        data,
        mclr(data),
        out=out,
        resume=resume,
        **simulate_arguments(settings),
    )


def test_a_resumed_run_records_the_same(tiny: FederatedData, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(record: Record) -> None:
        if record["round"] == 2:
            raise Stop

    whole = go(tiny, tmp_path / "whole", global_model=True)
    with pytest.raises(Stop):
        go(tiny, tmp_path / "cut", global_model=True, on_round=stop)
    with pytest.raises(CheckpointError, match=r"run\.global_model"):
        go(tiny, tmp_path / "cut", resume=True)
    resumed = go(tiny, tmp_path / "cut", resume=True, global_model=True)
    assert resumed.records == whole.records
    assert all(record["global_accuracy"] is not None for record in whole.records)
    distance = np.linalg.norm(whole.models - whole.models.mean(axis=0, dtype=float), axis=1)
    assert whole.records[-1]["discrepancy_to_global"] == pytest.approx(distance, rel=1e-12)


def test_real_clients_score_it_and_keep_their_own_clusters_model() -> None:
    data = clustered_data()
    model = model_of()
    transport = MemoryTransport()
    disks = []
    for client in range(data.clients):
        node = node_of(f"site-{client}", [client], data, model)
        transport.join(client, node)
        disks.append(node.disk)
    plan = Plan(rounds=2, cohort=data.clients, seed=2, global_model=True)
    track = run(remote(transport, data, model), fk.IFCA(clusters=2), plan)
    assert set(track.records[-1]) >= NAMES
    for models, cluster in zip(
        (disk.models["trial-run"] for disk in disks), track.state.assignment, strict=True
    ):
        np.testing.assert_array_equal(models["cluster"], track.state.models[cluster])
