"""The policies any clustered method can be given, on quadratic clients of two parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods import cluster_steps
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Note
from fedkin.tasks.similarities import Similarities
from fedkin.tasks.train import TrainingReply

ZERO = np.zeros(2, np.float32)
STREAM = Stream(2, 1, "policies")
TARGET = np.array([[4, 0], [0, 4], [3, 1], [-2, 0]], np.float32)
EVERYONE = np.arange(4)


class RecordingWorld(FakeWorld):
    """A fake world that remembers who noted, with which work clients trained, and that can answer
    odd losses."""

    odd_losses: Any = None
    noted: Any = None
    steps: Any = None

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        reply = super().run(task, clients, stream)
        if isinstance(task, Note):
            self.noted = clients.tolist()
        if isinstance(task, Similarities):
            self.steps = task.work.steps
        if isinstance(task, Losses) and self.odd_losses is not None:
            return replace(reply, arrays={"losses": np.array(self.odd_losses)[clients]})
        return reply


@dataclass(frozen=True)
class Settings:
    """The fields of a method that policies read."""

    newcomers: str = "loss"
    migration: str = "label_blind"
    threshold: float = 0.2
    eta_g: float = 0.0


def world(target: Any = TARGET, **options: Any) -> RecordingWorld:
    target = np.asarray(target, np.float32)
    return RecordingWorld(target, np.full(len(target), 5), LocalTraining(lr=0.5), **options)


def state(assignment: Any = (UNASSIGNED,) * 4, models: Any = ((1, 0), (0, 1))) -> State:
    return State(np.array(models, np.float32), np.array(assignment, np.int64))


# --- by loss


def test_the_lowest_loss_and_the_first_of_equals() -> None:
    """Clients 0 and 2 are nearer to (1, 0), client 1 to (0, 1); client 3 at (-2, 0) is nearer to
    (0, 1)."""
    np.testing.assert_array_equal(
        cluster_steps.cluster_by_loss(world(), state(), EVERYONE), [0, 1, 0, 1]
    )
    middle = world([[2, 2], [0, 0], [1, 1.5], [1.5, 1]])
    np.testing.assert_array_equal(
        cluster_steps.cluster_by_loss(middle, state(), EVERYONE), [0, 0, 1, 0]
    )


def test_losses_that_are_not_finite_never_win() -> None:
    w = world()
    w.odd_losses = [[np.nan, np.nan], [np.nan, 7.0], [np.inf, 9.0], [-np.inf, np.inf]]
    np.testing.assert_array_equal(
        cluster_steps.cluster_by_loss(w, state(), EVERYONE), [UNASSIGNED, 1, 1, UNASSIGNED]
    )


def test_one_that_gives_no_answer_has_no_lowest_loss() -> None:
    w = world(silent=frozenset({0}), garbage=frozenset({1}))
    np.testing.assert_array_equal(
        cluster_steps.cluster_by_loss(w, state(), EVERYONE), [UNASSIGNED, UNASSIGNED, 0, 1]
    )


# --- by direction


def directed(w: FakeWorld, directions: Any, **options: Any) -> np.ndarray:
    directions = np.array(directions, np.float32)
    return cluster_steps.cluster_by_direction(
        world=w,
        start=ZERO,
        directions=directions,
        clients=np.arange(len(w.target)),
        stream=STREAM,
        **options,
    ).cluster


def test_the_nearest_direction_of_any_length() -> None:
    np.testing.assert_array_equal(directed(world(), [[0.001, 0], [0, 1000]]), [0, 1, 0, 1])


def test_equal_directions_go_to_the_first() -> None:
    np.testing.assert_array_equal(
        directed(world([[1, 1], [0, 3]]), [[2, 0], [0, 2], [0, 2]]), [0, 1]
    )


def test_opposite_is_farther_than_across() -> None:
    """From (-2, 0) the direction (2, 0) is opposite, (0, 2) across: across is nearer."""
    np.testing.assert_array_equal(directed(world(TARGET[3:]), [[2, 0], [0, 2]]), [1])


def test_no_answer_and_no_direction_are_left_cold() -> None:
    w = world([[4, 0], [0, 4], [0, 0], [0, 4]], silent=frozenset({0}), garbage=frozenset({1}))
    np.testing.assert_array_equal(
        directed(w, [[1, 0], [0, 1]]), [UNASSIGNED, UNASSIGNED, UNASSIGNED, 1]
    )


def test_pretraining_is_fifty_mini_batches_by_default() -> None:
    w = world()
    directed(w, [[1, 0]])
    assert w.steps == 50
    directed(w, [[1, 0]], steps=3)
    assert w.steps == 3


# --- seats


def test_one_without_a_cluster_stays_where_it_was_and_notes_nothing() -> None:
    w = world()
    before = state([1, UNASSIGNED, 0, 0])
    after = cluster_steps.assign(
        w, before, np.array([3, 0, 1]), np.array([1, UNASSIGNED, UNASSIGNED])
    )
    np.testing.assert_array_equal(after.assignment, [1, UNASSIGNED, 0, 1])
    np.testing.assert_array_equal(before.assignment, [1, UNASSIGNED, 0, 0])
    assert w.noted == [3]


def test_only_newcomers_among_the_choosing_clients_note() -> None:
    """Clients 0 and 2 had clusters and change them; client 3 had none and gets none."""
    w = world()
    before = state([1, UNASSIGNED, 0, UNASSIGNED])
    after = cluster_steps.update_assignment(
        w, before, np.array([0, 1, 2, 3]), np.array([0, 1, 1, UNASSIGNED])
    )
    np.testing.assert_array_equal(after.assignment, [0, 1, 1, UNASSIGNED])
    np.testing.assert_array_equal(before.assignment, [1, UNASSIGNED, 0, UNASSIGNED])
    assert w.noted == [1]


def test_placed_by_loss() -> None:
    w = world()
    after = cluster_steps.place_by_policy(
        world=w, state=state(), policy="loss", clients=np.array([1, 3]), stream=STREAM
    )
    np.testing.assert_array_equal(after.assignment, [UNASSIGNED, 1, UNASSIGNED, 1])
    assert w.noted == [1, 3]


def test_placed_at_random_is_even_and_follows_the_stream() -> None:
    n = 3000
    models = np.zeros((3, 2))
    w = world(np.ones((n, 2)))
    seats = [
        cluster_steps.place_by_policy(
            world=w,
            state=state([UNASSIGNED] * n, models),
            policy="random",
            clients=np.arange(n),
            stream=s,
        ).assignment
        for s in (STREAM, STREAM, STREAM.at(2))
    ]
    np.testing.assert_array_equal(seats[0], seats[1])
    assert (seats[0] != seats[2]).any()
    assert np.abs(np.bincount(seats[0]) - 1000).max() < 6 * 26  # six standard deviations
    assert w.ledger.total() == (0, 0)


def test_placed_by_direction_measures_from_the_start() -> None:
    """Models lie at (11, 10) and (20, 20), from (10, 10): directions (1, 0) and (1, 1). Client 1
    points to (4, 3), nearer to the second; measured from zero the models would look alike, and the
    first nearer."""
    start = np.array([10, 10], np.float32)
    w = world([[30, 14], [14, 13], [11, 10], [9, 11]])
    before = state(models=[[11, 10], [20, 20]])
    after = cluster_steps.place_by_policy(
        world=w, state=before, policy="direction", clients=EVERYONE, stream=STREAM, start=start
    )
    np.testing.assert_array_equal(after.assignment, [0, 1, 0, 1])
    assert w.ledger.down == {"send": 4 * 2 * 2 * 4}, "two directions to each of four clients"
    np.testing.assert_array_equal(after.models, before.models)


def test_a_cluster_that_never_left_the_start_attracts_only_opposed_clients() -> None:
    """A direction of zeros is like nothing: cosine 0, between (1, 0) for and (1, 0) against."""
    w = world([[4, 0], [-4, 0]])
    before = state([UNASSIGNED, UNASSIGNED], models=[[1, 0], [0, 0]])
    after = cluster_steps.place_by_policy(
        world=w, state=before, policy="direction", clients=np.arange(2), stream=STREAM, start=ZERO
    )
    np.testing.assert_array_equal(after.assignment, [0, 1])


# --- migration

COUNTS = np.full((4, 2), 10)


def test_only_warm_clients_that_shifted_are_placed_again() -> None:
    w = world(counts=COUNTS)
    w.counts = COUNTS - [[9, 0], [9, 0], [0, 0], [0, 0]]
    asked: list[list[int]] = []

    def place(world: Any, state: State, moved: np.ndarray, stream: Stream) -> State:
        asked.append(moved.tolist())
        assert stream.round == STREAM.round and stream != STREAM
        return replace(state, assignment=np.where(np.isin(EVERYONE, moved), 1, state.assignment))

    after = cluster_steps.migrate(
        world=w, state=state([0, UNASSIGNED, 0, 0]), method=Settings(), place=place, stream=STREAM
    )
    assert asked == [[0]]
    np.testing.assert_array_equal(after.assignment, [1, UNASSIGNED, 0, 0])
    before = state([0, UNASSIGNED, 0, 0])
    assert (
        cluster_steps.migrate(
            world=w, state=before, method=Settings(migration="none"), place=place, stream=STREAM
        )
        is before
    )
    assert (
        cluster_steps.migrate(
            world=w, state=before, method=Settings(threshold=0.9), place=place, stream=STREAM
        )
        is before
    )
    assert asked == [[0]]


# --- weights of the mean


def trained(model_index: Any, arrived: Any = True, examples: int = 5) -> TrainingReply:
    n = len(model_index)
    arrived = np.broadcast_to(np.asarray(arrived), n)
    update = np.zeros((n, 2), np.float32)
    loss = np.ones(n)
    return TrainingReply(
        update=update,
        model_index=np.asarray(model_index),
        examples=np.full(n, examples),
        loss=loss,
        first_loss=loss,
        arrived=arrived,
        nonfinite=~arrived,
    )


def first_of(
    model_index: Any, arrived: Any = True, rounds: int = 600, clients: Any = None
) -> np.ndarray:
    """How often each client has weight 1."""
    reply = trained(np.array(model_index), arrived)
    clients = np.arange(len(model_index)) if clients is None else clients
    later = [STREAM.at(r) for r in range(1000, 1000 + rounds)]  # after the turns of a round robin
    weights = [
        cluster_steps.aggregation_weights(
            weighting="first_client", reply=reply, clients=clients, world=world(), stream=at
        )
        for at in later
    ]
    assert set(np.unique(weights)) <= {0, 1}
    return np.sum(weights, axis=0)


def test_every_client_of_a_cluster_is_first_equally_often() -> None:
    """Four clients of cluster 0 and two of cluster 1 in 600 rounds: 150 and 300 times each, six
    standard deviations (11 and 12). The first by id would be first always."""
    times = first_of([0, 0, 1, 0, 1, 0])
    assert np.abs(times - [150, 150, 300, 150, 300, 150]).max() < 75
    assert times[[0, 1, 3, 5]].sum() == times[[2, 4]].sum() == 600


def test_the_first_client_is_one_that_replied() -> None:
    assert first_of([0, 1, 0, 2], [False, True, True, False], rounds=20).tolist() == [0, 20, 20, 0]


def test_the_only_client_of_a_cluster_is_its_first() -> None:
    assert first_of([2, 0, 1], rounds=20).tolist() == [20, 20, 20]


def test_the_first_client_does_not_depend_on_the_order_of_rows() -> None:
    order = np.array([3, 1, 5, 0, 2, 4])
    assert (
        first_of([0] * 6, rounds=20)[order].tolist()
        == first_of([0] * 6, rounds=20, clients=order).tolist()
    )


@pytest.mark.parametrize(
    ("round", "clients", "first"),
    [
        (1, [0, 1, 2, 3], 0),
        (2, [7, 6, 5, 4], 4),  # rows in another order
        (3, [0, 1, 8, 9], 8),  # ten clients: the last turn begins with 8 and goes on with 0
    ],
)
def test_the_first_client_of_a_turn_has_the_lowest_id(
    round: int, clients: list[int], first: int
) -> None:
    """The authors' rounds r < N / K take clients [rK, rK + K) in the order of ids (FACTS 2.4),
    whatever the seed."""
    reply = trained(np.zeros(4, np.int64))
    ten = world(np.zeros((10, 2)))
    for seed in range(20):
        stream = Stream(seed).at(round)
        weight = cluster_steps.aggregation_weights(
            weighting="first_client",
            reply=reply,
            clients=np.array(clients),
            world=ten,
            stream=stream,
        )
        assert np.array(clients)[weight == 1].tolist() == [first]


# After the turns; not its turn.
@pytest.mark.parametrize(("round", "clients"), [(4, [2, 3, 4, 5]), (2, [3, 4, 5, 6])])
def test_a_cohort_out_of_turn_was_drawn_in_any_order(round: int, clients: list[int]) -> None:
    reply = trained(np.zeros(4, np.int64))
    ten = world(np.zeros((10, 2)))
    weights = [
        cluster_steps.aggregation_weights(
            weighting="first_client",
            reply=reply,
            clients=np.array(clients),
            world=ten,
            stream=Stream(seed).at(round),
        )
        for seed in range(60)
    ]
    assert (np.sum(weights, axis=0) > 0).all()


@pytest.mark.parametrize(("weighting", "weight"), [("simple", 1), ("examples", 5)])
def test_other_weights_of_clients_that_replied(weighting: str, weight: int) -> None:
    reply = trained(np.zeros(3, np.int64), [True, False, True])
    weights = cluster_steps.aggregation_weights(
        weighting=weighting, reply=reply, clients=np.arange(3), world=world(), stream=STREAM
    )
    np.testing.assert_array_equal(weights, [weight, 0, weight])


# --- sharing between clusters


def test_sharing_nothing_does_nothing() -> None:
    w = world()
    before = state([0, 1, 0, 1])
    assert cluster_steps.aggregate_between_clusters(w, before, 0.0) is before
    assert not w.ledger.down and not w.ledger.up


@pytest.mark.parametrize(("normalize", "divisor"), [(True, [[1.2], [1.4]]), (False, 1)])
def test_sharing_is_among_clusters_with_clients_and_between_servers(
    normalize: bool, divisor: Any
) -> None:
    """eta 2 and lengths 5 and 10; the third cluster has no clients."""
    w = world()
    before = state([0, 1, UNASSIGNED, 1], models=[[3, 4], [0, 10], [6, 8]])
    after = cluster_steps.aggregate_between_clusters(w, before, 2.0, normalize)
    np.testing.assert_allclose(
        after.models[:2], np.array([[3, 6], [1.2, 11.6]]) / divisor, rtol=1e-6
    )
    np.testing.assert_array_equal(after.models[2], [6, 8])
    assert (w.ledger.up["servers.sharing"], w.ledger.total()) == (2 * 2 * 4, (0, 0))


@pytest.mark.parametrize("assignment", [[1] * 4, [UNASSIGNED] * 4], ids=["alone", "none"])
def test_one_cluster_alone_or_none_shares_nothing(assignment: list[int]) -> None:
    w = world()
    before = state(assignment, models=[[3, 4], [0.1, 0.7]])
    assert cluster_steps.aggregate_between_clusters(w, before, 5.0) is before
    assert not w.ledger.up


# --- refusals


@pytest.mark.parametrize(
    ("field", "value"),
    [("newcomers", "charm"), ("migration", "often"), ("threshold", -0.1), ("eta_g", np.inf)],
)
def test_impossible_policies_are_refused(field: str, value: Any) -> None:
    cluster_steps.check_policies(Settings(), ("loss", "random"))
    with pytest.raises(MethodError, match=field):
        cluster_steps.check_policies(replace(Settings(), **{field: value}), ("loss", "random"))


def test_the_test_of_losses_has_no_threshold_and_says_so() -> None:
    """It would be ignored: 0.3 of what? The limit of that test is t = 3."""
    by_loss = replace(Settings(), migration="loss")
    cluster_steps.check_policies(by_loss, ("loss", "random"))
    with pytest.raises(
        MethodError, match=r"threshold = 0\.3 does not apply.*loss.*label_quantiles"
    ):
        cluster_steps.check_policies(replace(by_loss, threshold=0.3), ("loss", "random"))
    for migration in ("label_blind", "label_aware", "label_quantiles"):
        allowed = replace(Settings(), migration=migration, threshold=0.3)
        cluster_steps.check_policies(allowed, ("loss", "random"))
