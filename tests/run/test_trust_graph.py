"""The trust graph of peers: its measures and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedkin as fk
from fedkin.core.method import State
from fedkin.methods.decentralized import PeerState
from fedkin.run.metrics.trust_graph import (
    neighbour_agreement,
    pack_trust,
    peers_record,
    trust_over_time,
    unpack_trust,
)

TRUST = np.array(
    [
        [0, 1, 1, 0],  # of kinds 0 0 1 1: one right, one wrong; its only kin found
        [0, 0, 0, 0],  # trusts no peer
        [1, 1, 0, 1],  # one of three right
        [0, 0, 1, 0],  # right
    ],
    bool,
)
KINDS = np.array([0, 0, 1, 1])
DATA = fk.planted("digits", "rotation", clusters=2, clients=8, samples=20, test_samples=4)


def state(trust: np.ndarray = TRUST) -> PeerState:
    n = len(trust)
    counts = np.arange(2 * n).reshape(n, 2)
    models = np.zeros((n, 3), np.float32)
    return PeerState(
        models=models,
        assignment=np.zeros(n, np.int64),
        start=models[0],
        trust=trust,
        votes=trust.astype(np.int32),
        age=np.ones(n, np.int64),
        messages=counts,
        vectors=2 * counts,
    )


def test_precision_and_recall_by_hand() -> None:
    precision, recall = neighbour_agreement(TRUST, KINDS)
    np.testing.assert_allclose(precision, [1 / 2, np.nan, 1 / 3, 1])
    np.testing.assert_allclose(recall, [1, 0, 1, 1])


def test_a_record_counts_present_peers() -> None:
    whole = peers_record(state(), np.arange(4), KINDS, keeping=False)
    assert whole == pytest.approx(
        {
            "neighbours": 6 / 4,
            "neighbour_precision": (1 / 2 + 1 / 3 + 1) / 3,
            "neighbour_recall": 3 / 4,
            "messages": 12,
        }
    )
    # Each trusts the other, of another kind.
    few = peers_record(state(), np.array([0, 2]), KINDS, keeping=False)
    assert (
        few["neighbours"] == 1
        and few["neighbour_precision"] == 0
        and few["neighbour_recall"] is None
    )


def test_without_a_truth_nothing_is_right_or_wrong() -> None:
    record = peers_record(state(), np.arange(4), None, keeping=False)
    assert (
        record["neighbour_precision"] is None
        and record["neighbour_recall"] is None
        and record["neighbours"] == 1.5
    )


@pytest.mark.parametrize("reachable", [[0, 1, 2, 3], [1, 3]])
def test_without_trust_nothing_is_found_and_nothing_missed(
    reachable: list[int],
) -> None:
    """Nor where the trusted peers are not there: 3 trusts only 2, 1 trusts no peer."""
    trust = TRUST if len(reachable) == 2 else np.zeros_like(TRUST)
    kinds = np.zeros(4, np.int64)  # all are kin: there is a peer to find
    record = peers_record(state(trust), np.array(reachable), kinds, keeping=False)
    assert (
        record["neighbours"] == 0
        and record["neighbour_precision"] is None
        and record["neighbour_recall"] is None
    )


def test_one_that_trusts_is_enough_for_a_recall() -> None:
    """1 trusts one of three kin, the others trust no peer: a recall of zero is still a value."""
    trust = np.zeros((4, 4), bool)
    trust[1, 0] = True
    record = peers_record(state(trust), np.arange(4), np.zeros(4, np.int64), keeping=False)
    assert record["neighbour_precision"] == 1 and record["neighbour_recall"] == pytest.approx(
        1 / 3 / 4
    )


def test_other_methods_have_no_neighbours() -> None:
    assert (
        peers_record(
            State(np.zeros((1, 2), np.float32), np.zeros(3, np.int64)), np.arange(3), None, True
        )
        == {}
    )


@given(trust=st.integers(1, 12).flatmap(lambda n: arrays(bool, (n, n))))
def test_a_packed_graph_comes_out_again(trust: np.ndarray) -> None:
    np.testing.assert_array_equal(unpack_trust(pack_trust(trust), len(trust)), trust)


def simulated(data: fk.FederatedData) -> fk.Run:
    return fk.simulate(
        fk.PANM(neighbours=2, candidates=4, stage_one=3, period=2),
        data,
        fk.models.mclr(data),
        rounds=6,
        cohort=8,
        scoring=fk.Scoring(checkpoint_every=3),
    )


@pytest.fixture(scope="module")
def run() -> fk.Run:
    return simulated(DATA)


def test_trust_is_kept_in_some_rounds(run: fk.Run, tmp_path: Path) -> None:
    kept = trust_over_time(run.records, len(run.assignment))
    assert isinstance(run.state, PeerState)
    assert list(kept) == [0, 1, 3, 6] and not kept[0].any()
    np.testing.assert_array_equal(kept[6], run.state.trust)
    run.save(tmp_path / "run")
    read = fk.Run.load(tmp_path / "run")
    np.testing.assert_array_equal(trust_over_time(read.records, len(read.assignment))[3], kept[3])


def test_gossip_has_no_trust_to_measure() -> None:
    run = fk.simulate(fk.Gossip(neighbours=2), DATA, fk.models.mclr(DATA), rounds=2, cohort=8)
    for record in run.records:
        assert (
            record["neighbours"],
            record["neighbour_precision"],
            record["neighbour_recall"],
        ) == (0, None, None)
    assert run.summary()["messages"] == 2 * 8 * 2 and run.summary()["neighbour_recall"] is None


def test_clients_and_summary_tell_of_neighbours(run: fk.Run) -> None:
    assert isinstance(run.state, PeerState)
    table = {name: np.asarray(run.clients[name]) for name in run.clients}
    summary = run.summary()
    np.testing.assert_array_equal(table["messages_got"], run.state.messages[:, 0])
    assert table["messages_got"].sum() == table["messages_given"].sum() == summary["messages"] > 0
    assert table["bytes_got"].sum() == summary["bytes_down"] == summary["bytes_up"] > 0
    assert summary["neighbour_precision"] == pytest.approx(np.nanmean(table["neighbour_precision"]))


def test_without_peers_there_is_no_trust() -> None:
    data = fk.planted("digits", "rotation", clusters=2, clients=4, samples=20, test_samples=4)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4)
    assert trust_over_time(run.records, len(run.assignment)) == {}
    assert "messages" not in run.summary() and "messages_got" not in run.clients
