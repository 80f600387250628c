"""Selective re-clustering on streams: drifts, challengers, drop-outs and merges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.methods import selective_steps
from fedkin.methods.selective_steps import Checked, SelectiveState, merge_equal

LOCAL = fk.LocalTraining(steps=12, lr=0.5, batch_size=10)


DRIFT = ("000000", "010100", "010100", "010100")
QUIET = ("000000",) * 4


def stream(changes: tuple[str, ...] = DRIFT, dropout: float = 0.0, **options: Any) -> fk.Run:
    """A run on SINE, in three steps of five rounds. By default clients 1 and 3 have inverted labels
    from the second step on."""
    data = fk.data.sine(clients=6, samples=80, changes=changes)
    options.setdefault("warmup", 3)
    return fk.simulate(
        fk.SelectiveReclustering(history=True, **options),
        data,
        fk.models.mlp(data, hidden=8),
        rounds=15,
        cohort=6,
        local=LOCAL,
        shift=fk.Steps(5, history=True),
        scenario=fk.Population(dropout=dropout),
    )


def test_drifted_clients_share_a_new_cluster_and_the_others_stay() -> None:
    run = stream()
    assignment = run.assignment
    assert assignment[1] == assignment[3]
    assert len(set(assignment[[0, 2, 4, 5]].tolist())) == 1
    assert assignment[1] != assignment[0]
    # They train on the samples since their move only.
    assert isinstance(run.state, SelectiveState)
    assert run.state.begin.tolist() == [0, 80, 0, 80, 0, 0]
    moves = [record["migrations"] for record in run.records if record["round"] > 3]
    assert sum(moves) == 2


def test_no_client_moves_where_nothing_drifts() -> None:
    run = stream(QUIET)
    assert sum(record["migrations"] for record in run.records if record["round"] > 3) == 0


def test_a_client_that_does_not_reply_does_not_drift() -> None:
    """A missing reply has no correct samples, and must not count as 80 wrong ones."""
    run = stream(QUIET, dropout=0.4)
    assert len(set(run.assignment.tolist()) - {-1}) == 1


def test_only_drifted_clients_receive_other_models() -> None:
    """In a quiet round without new samples, a client receives its own model once."""
    run = stream(probe_every=1000)
    down = [record["bytes_down"] for record in run.records]
    model = run.models.shape[1] * 4
    # Round 13: no new samples, no client is probed, all six clients train.
    assert down[13] - down[12] == 6 * model


def test_a_challenger_that_is_no_better_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no evidence is enough, the clients of the new cluster return to the one that they left."""

    def no_evidence(own: Any, other: Any, samples: Any) -> Any:
        return np.zeros(len(own))

    monkeypatch.setattr(selective_steps, "better_e_value", no_evidence)
    run = stream(trial=2)
    returned = [record["round"] for record in run.records if record["migrations"]]
    opened = next(round for round in returned if round > 3)
    assert opened + 2 in returned
    assert isinstance(run.state, SelectiveState)
    assert not run.state.opened.any() or run.state.opened.max() > opened


@pytest.mark.parametrize(("scale", "clusters"), [(1.0, 1), (-1.0, 2)])
def test_two_clusters_merge_only_if_neither_loses(scale: float, clusters: int) -> None:
    """The second model is the first one, or its opposite, which is wrong where the first is
    right."""
    data = fk.data.digits(partition="iid", clients=6)
    model = fk.models.mclr(data)
    trained = fk.simulate(fk.FedAvg(), data, model, rounds=5, cohort=6, local=LOCAL)
    world = fk.SimulatedWorld(data, model)
    sizes = data.train.sizes.astype(np.int64)
    state = SelectiveState(
        models=np.concatenate([trained.models, scale * trained.models]),
        assignment=np.array([0, 0, 0, 0, 1, 1]),
        error=np.full(6, 0.1),
        begin=np.zeros(6, np.int64),
        end=sizes,
        left=np.full(6, -1),
        opened=np.zeros(2, np.int64),
    )
    merged = merge_equal(world, state, np.arange(6), margin=0.3, alpha=0.05)
    assert len(np.unique(merged.assignment)) == clusters
    # The error of clients with another model is unknown.
    assert np.isnan(merged.error).tolist() == [False] * 4 + [clusters == 1] * 2
    if clusters == 1:
        np.testing.assert_allclose(merged.models[0], trained.models[0], rtol=1e-6)


def test_nothing_is_sent_if_fewer_than_two_clusters_could_merge() -> None:
    """Cluster 2 is a challenger on trial, so only cluster 0 is left."""
    world, state = on_trial()
    state = replace(state, assignment=np.array([2, 2, 0, 0, 2]))
    assert merge_equal(world, state, np.arange(5), margin=0.3, alpha=0.05) is state
    assert world.ledger.total() == (0, 0)


def on_trial(**options: Any) -> tuple[fk.SimulatedWorld, SelectiveState]:
    """Five clients, four of them of a challenger, cluster 2; three of these have left cluster 0 or
    1 for it."""
    data = fk.data.digits(partition="iid", clients=5)
    world = fk.SimulatedWorld(data, fk.models.mclr(data), **options)
    state = SelectiveState(
        models=np.zeros((3, world.spec.parameters), np.float32),
        assignment=np.array([2, 2, 2, 0, 2]),
        error=np.full(5, 0.1),
        begin=np.zeros(5, np.int64),
        end=data.train.sizes.astype(np.int64),
        left=np.array([0, 0, 1, -1, -1]),
        opened=np.array([0, 0, 4]),
    )
    return world, state


def test_a_challenger_stays_on_trial_while_no_client_replies() -> None:
    world, state = on_trial(population=fk.Population(silent=(0,)))
    due = np.array([False, False, True])
    clients = np.array([0, 3])
    after = selective_steps.close_challengers(world, state, clients, due=due, alpha=0.05)
    assert after.assignment.tolist() == [2, 2, 2, 0, 2]
    assert after.left.tolist() == [0, 0, 1, -1, -1]
    assert after.opened.tolist() == [0, 0, 4]


@pytest.mark.parametrize("opens", [False, True])
def test_a_client_that_leaves_a_challenger_by_a_probe_has_left_no_cluster(opens: bool) -> None:
    """Client 0 moves to cluster 1, and would return to 0 from a later challenger. Client 3 opens a
    challenger if a place is free, and has then left cluster 0."""
    world, state = on_trial()
    method = fk.SelectiveReclustering(clusters=4 if opens else 3)
    if opens:
        models = np.concatenate([state.models, state.models[:1]])
        state = replace(state, models=models, opened=np.array([0, 0, 4, 0]))
    state = replace(state, assignment=np.array([2, 2, 1, 0, 2]))
    moved = method._moved(
        world,
        state,
        probed=Checked(np.array([0, 3]), np.zeros(2, np.int64), state.end[[0, 3]]),
        target=np.array([1, -1]),
        stray=np.array([False, True]),
        round=5,
    )
    assert moved.assignment.tolist() == [1, 2, 1, 3 if opens else 0, 2]
    assert moved.left.tolist() == [-1, 0, 1, 0 if opens else -1, -1]


def test_all_clients_of_a_failed_challenger_return() -> None:
    """Also those outside the cohort, and a client that came later."""
    world, state = on_trial()
    due = np.array([False, False, True])
    closed = selective_steps.close_challengers(world, state, np.array([0, 3]), due=due, alpha=0.05)
    assert closed.assignment.tolist() == [0, 0, 1, 0, 0]
    assert closed.left.tolist() == [-1] * 5
    assert not closed.opened.any()
    assert np.isnan(closed.error).tolist() == [True, True, True, False, True]
