"""FedSim's round on quadratic clients, worked out by hand from Algorithms 1 and 2 and equations 13
and 14."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.fedsim import QUIRKS, FedSim, FedSimState
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.fedsim_clients import (
    EVERYONE,
    EXAMPLES,
    TARGET,
    RecordingWorld,
    given,
    same,
    world,
    world_of,
)
from tests.methods.test_conformance import arrays

STREAM = Stream(3, 2, "method/round")


def round_of(
    method: FedSim, w: FakeWorld, cohort: np.ndarray = EVERYONE, stream: Stream = STREAM
) -> FedSimState:
    return method.round(w, given(w), cohort, stream)


def verbs(w: RecordingWorld) -> list[tuple[str, bool]]:
    return [(verb, gradient) for verb, _, _, gradient in getattr(w, "calls", [])]


# --- a round (Algorithm 1)


def test_each_kind_counts_alike() -> None:
    """From 0 half the way: solutions 4 and 5 along each axis, weighed 10:40, 20:50 and 30:60; then
    the plain mean."""
    state = round_of(FedSim(clusters=3), world())
    means = [(10 * 4 + 40 * 5) / 50, (20 * 4 + 50 * 5) / 70, (30 * 4 + 60 * 5) / 90]
    np.testing.assert_allclose(state.models, [np.array(means) / 3], rtol=1e-6)
    np.testing.assert_array_equal(state.groups[3:], state.groups[:3])
    assert set(state.groups) == {0, 1, 2}
    np.testing.assert_array_equal(state.assignment, 0)


def test_two_clusters_of_different_size() -> None:
    """Without clients of the third cluster: (4,
    5) of the first and client 1 alone of the second."""
    state = round_of(FedSim(clusters=2), world(), np.array([0, 1, 3]))
    np.testing.assert_allclose(state.models, [[4.8 / 2, 4 / 2, 0]], rtol=1e-6)
    np.testing.assert_array_equal(state.groups[[2, 4, 5]], -1)
    assert state.groups[0] == state.groups[3] != state.groups[1]


def test_it_starts_as_fedavg_does() -> None:
    w = world()
    w.start = None
    state = FedSim().init(w, Stream(5, 0, "init"))
    plain = FedAvg().init(w, Stream(5, 0, "init"))
    np.testing.assert_array_equal(state.models, plain.models)
    np.testing.assert_array_equal(state.assignment, plain.assignment)
    np.testing.assert_array_equal(state.groups, -1)
    np.testing.assert_array_equal(state.last_cluster, plain.models[0])


def test_newcomers_change_nothing() -> None:
    state = given(world())
    assert same(FedSim().place(world(), state, np.array([1, 2]), STREAM), state)


# --- clustering (Algorithm 2)


def test_gradients_come_with_the_solutions() -> None:
    w = world()
    method = FedSim(clusters=3)
    state = given(w)
    for r in (1, 2, 3):
        state = method.round(w, state, EVERYONE, STREAM.at(r))
    assert verbs(w) == [("train", True)] * 3


class Sides(RecordingWorld):
    """Clients on a line, whose gradient says only on which side of the model they are."""

    def slope(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        return np.sign(super().slope(models, clients, model_index))


LINE = [[-4], [-1], [1], [4]]
ALIKE = np.full(4, 10)


def line() -> Sides:
    w = world_of(Sides, LINE, lr=1.0)
    w.examples = ALIKE
    return w


def test_gradients_are_taken_at_the_global_model() -> None:
    """At 0 the clients are parted into (-4, -1) and (1, 4): means -2.5 and 2.5."""
    w = line()
    state = FedSim(clusters=2).round(w, given(w, 0, 2), np.arange(4), STREAM)
    np.testing.assert_allclose(state.models, [[0]], atol=1e-6)


def test_as_coded_gradients_are_taken_at_the_last_cluster_model() -> None:
    """At 2 they are parted into (-4, -1, 1) and 4, and a later round asks at the last cluster model
    of this one."""
    w = line()
    method = FedSim(clusters=2, as_coded=("leftover_model",))
    state = method.round(w, given(w, 0, 2), np.arange(4), STREAM)
    np.testing.assert_allclose(state.models, [[(-4 / 3 + 4) / 2]], rtol=1e-6)
    last = 4 if state.groups[3] == 1 else -4 / 3
    np.testing.assert_allclose(state.last_cluster, [last], rtol=1e-6)
    method.round(w, state, np.arange(4), STREAM.at(3))
    assert sorted(verbs(w)) == [("gradients", True)] * 2 + [("train", False)] * 2
    asked = [models for verb, models, _, _ in w.calls if verb == "gradients"]
    np.testing.assert_array_equal(asked[0], [[2]])
    np.testing.assert_array_equal(asked[1], [state.last_cluster])
    trained = [models for verb, models, _, _ in w.calls if verb == "train"]
    np.testing.assert_array_equal(trained[1], state.models)


def test_as_coded_the_first_gradients_are_taken_at_the_start() -> None:
    w = world()
    method = FedSim(clusters=3, as_coded=("leftover_model",))
    w.start = None
    state = method.init(w, Stream(5, 0, "init"))
    method.round(w, state, EVERYONE, STREAM.at(1))
    [asked] = [models for verb, models, _, _ in w.calls if verb == "gradients"]
    np.testing.assert_array_equal(asked, state.models)


def test_a_round_that_is_dealt_asks_for_no_gradient() -> None:
    w = world()
    round_of(FedSim(clusters=3, clustering="round_robin"), w)
    round_of(
        FedSim(clusters=3, as_coded=("round_robin_start", "leftover_model")), w, stream=STREAM.at(1)
    )
    assert verbs(w) == [("train", False)] * 2
    round_of(FedSim(clusters=3, as_coded=("round_robin_start",)), w, stream=STREAM.at(2))
    assert verbs(w)[2:] == [("train", True)]


@pytest.mark.parametrize(
    ("clients", "sizes"), [(6, [1, 1, 2, 2]), (5, [1, 1, 1, 2]), (4, [1] * 4), (2, [1, 1])]
)
def test_clients_are_dealt_in_turn(clients: int, sizes: list[int]) -> None:
    method = FedSim(clusters=4, clustering="round_robin")
    deals = set()
    for seed in range(8):
        groups = round_of(method, world(), np.arange(clients), Stream(seed, 3, "method")).groups
        assert sorted(np.bincount(groups[:clients])) == sizes
        deals.add(groups.tobytes())
    assert len(deals) > 1
    again = round_of(method, world(), np.arange(clients), Stream(0, 3, "method"))
    assert same(again, round_of(method, world(), np.arange(clients), Stream(0, 3, "method")))


def test_a_dealt_round_by_hand() -> None:
    """Equations 13 and 14 over whatever clusters were dealt; and fewer clusters than four where
    three clients came."""
    state = round_of(FedSim(clusters=4, clustering="round_robin"), world())
    solutions = TARGET / 2
    own = [state.groups == k for k in range(4)]
    cluster_means = [EXAMPLES[mine] @ solutions[mine] / EXAMPLES[mine].sum() for mine in own]
    np.testing.assert_allclose(state.models, [np.mean(cluster_means, axis=0)], rtol=1e-6)
    coded = FedSim(clusters=4, clustering="round_robin", as_coded=("configured_count",))
    few = round_of(coded, world(), np.arange(3))
    np.testing.assert_allclose(few.models, [solutions[:3].sum(axis=0) / 4], rtol=1e-6)


def test_seeds_differ_and_repeat() -> None:
    """Without clear clusters K-means ends in the clusters that its stream leads to; the same
    stream, the same bits."""
    target = np.random.default_rng(1).normal(size=(6, 5))
    method = FedSim(clusters=3)
    states = [
        round_of(method, world(target=target), stream=Stream(seed, 2, "method"))
        for seed in range(12)
    ]
    assert same(states[0], round_of(method, world(target=target), stream=Stream(0, 2, "method")))
    assert len({state.groups.tobytes() for state in states}) > 1


# --- more clusters than can be


class Equal(RecordingWorld):
    """All the gradients are the same, and zero, whatever the targets."""

    def slope(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        return np.zeros((len(clients), models.shape[1]), np.float32)


class EqualAndLarge(RecordingWorld):
    def slope(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        return np.full((len(clients), models.shape[1]), 0.1, np.float32)


@pytest.mark.parametrize("kind", [Equal, EqualAndLarge])
def test_equal_gradients_form_one_cluster(kind: type[RecordingWorld]) -> None:
    state = round_of(FedSim(clusters=3), world_of(kind))
    np.testing.assert_allclose(state.models, [EXAMPLES @ TARGET / 2 / EXAMPLES.sum()], rtol=1e-6)
    np.testing.assert_array_equal(state.groups, 0)


def test_clients_that_are_satisfied_change_nothing() -> None:
    w = world(target=np.zeros((4, 3)))
    state = FedSim(clusters=3).round(w, given(w), np.arange(4), STREAM)
    np.testing.assert_array_equal(state.models, given(w).models)


def test_two_equal_gradients_are_one_cluster() -> None:
    """Clients 0 and 1 want the same, client 2 something else: two clusters of the three, n 10, 20
    and 30."""
    w = world(target=[[2, 0], [2, 0], [0, 6]])
    state = FedSim(clusters=3).round(w, given(w), np.arange(3), STREAM)
    assert state.groups[0] == state.groups[1] != state.groups[2]
    np.testing.assert_allclose(state.models, [[0.5, 1.5]], rtol=1e-6)


@pytest.mark.parametrize("silent", [{1, 2, 5}, {0, 1, 2, 3, 5}], ids=["three came", "one came"])
def test_more_clusters_than_clients_that_answered(silent: set[int]) -> None:
    """Each is a separate cluster: the plain mean of the solutions, whatever their samples."""
    state = round_of(FedSim(clusters=5), world(silent=frozenset(silent)))
    came = np.setdiff1d(EVERYONE, list(silent))
    np.testing.assert_allclose(state.models, [TARGET[came].mean(axis=0) / 2], rtol=1e-6)
    assert sorted(state.groups[came]) == list(range(len(came)))
    np.testing.assert_array_equal(state.groups[list(silent)], -1)


def test_configured_count_shrinks_the_model_where_fewer_form() -> None:
    """Eq. 14 as coded divides by the number asked for; w_t = 1 shows that it is the models that
    shrink."""
    w = world(target=np.repeat(TARGET[:2], 2, axis=0))
    methods = FedSim(clusters=5), FedSim(clusters=5, as_coded=("configured_count",))
    plain, coded = (method.round(w, given(w, 1), np.arange(4), STREAM) for method in methods)
    np.testing.assert_allclose(
        plain.models, [[(1 + 8) / 2 / 2 + 0.25, (1 + 8) / 2 / 2 + 0.25, 0.5]], rtol=1e-6
    )
    np.testing.assert_allclose(coded.models, plain.models * 2 / 5, rtol=1e-6)
    np.testing.assert_array_equal(coded.last_cluster, plain.last_cluster)


def test_configured_count_does_nothing_where_all_form() -> None:
    plain = FedSim(clusters=3)
    coded = FedSim(clusters=3, as_coded=("configured_count",))
    assert same(round_of(plain, world()), round_of(coded, world()))


# --- replies that do not come


@pytest.mark.parametrize(
    "method", [FedSim(clusters=3), FedSim(3, as_coded=QUIRKS), FedSim(3, clustering="round_robin")]
)
@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_no_client_answers(how: str, method: FedSim) -> None:
    w = world(**{how: frozenset(range(6))})  # type: ignore[arg-type]
    before = given(w, 1.5, 2.5)
    for cohort in (EVERYONE, EVERYONE[:0]):
        for r in (1, 2):
            assert same(method.round(w, before, cohort, STREAM.at(r)), before)


class Cracked(RecordingWorld):
    """Client 2 finds no finite gradient."""

    def slope(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        bad = np.where(np.asarray(clients) == 2, np.nan, 0)[:, None]
        return (super().slope(models, clients, model_index) + bad).astype(np.float32)


def test_a_leftover_gradient_that_is_not_finite_is_excluded() -> None:
    """Asked for by itself, a gradient may be broken where the update is sound."""
    method = FedSim(clusters=3, as_coded=("leftover_model",))
    result = round_of(method, world_of(Cracked))
    without = round_of(method, world(), np.array([0, 1, 3, 4, 5]))
    np.testing.assert_allclose(result.models, without.models, rtol=1e-6)


def test_garbage_is_excluded() -> None:
    result = round_of(FedSim(clusters=3), world(garbage=frozenset({2, 3})))
    without = round_of(FedSim(clusters=3), world(), np.array([0, 1, 4, 5]))
    np.testing.assert_array_equal(result.models, without.models)
    np.testing.assert_array_equal(result.groups[[2, 3]], -1)


# --- a run


def test_groups_are_those_of_the_last_cohort() -> None:
    w = world()
    method = FedSim(clusters=2)
    state = method.round(w, given(w), np.array([0, 1, 3]), STREAM.at(1))
    state = method.round(w, state, np.array([2, 4, 5]), STREAM.at(2))
    np.testing.assert_array_equal(state.groups[[0, 1, 3]], -1)
    assert state.groups[2] == state.groups[5] != state.groups[4]


def test_states_are_left_alone() -> None:
    w = world()
    before = given(w, 1, 2)
    for array in arrays(before).values():
        array.flags.writeable = False
    FedSim(clusters=3, as_coded=("leftover_model",)).round(w, before, EVERYONE, STREAM)
    assert same(before, given(w, 1, 2))
