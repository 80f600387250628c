"""What methods without a server share: chance, choice, likeness and averages, each against a slow
computation."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.randomness import Stream
from fedkin.methods.decentralized import (
    Neighbourhood,
    PeerMethod,
    PeerState,
    average_models,
    communities,
    draw_noise,
    gradient_similarity,
    loss_similarity,
    lowest,
    query,
    ranks,
    update_peers,
)
from fedkin.simulation.fake_world import FakeWorld

STREAM = Stream(4, 7, "method/round/ask")


def world(clients: int = 4, **options: Any) -> FakeWorld:
    return FakeWorld(np.zeros((clients, 3), np.float32), np.arange(1, clients + 1), **options)


def initial_state(clients: int = 4, **options: Any) -> PeerState:
    return PeerMethod().init(world(clients, **options), Stream(4, 0, "method/init"))


# --- chance and choice


def test_noise_is_each_peers_own_stream() -> None:
    peers = np.array([5, 0, 3])
    result = draw_noise(STREAM, peers, 6)
    assert result.shape == (3, 6)
    for row, peer in zip(result, peers, strict=True):
        np.testing.assert_array_equal(row, STREAM.client(int(peer)).random(6))


def test_noise_does_not_depend_on_other_peers_or_their_number() -> None:
    everybody = draw_noise(STREAM, np.arange(6), 6)
    np.testing.assert_array_equal(draw_noise(STREAM, np.array([3]), 6), everybody[3:4])
    np.testing.assert_array_equal(draw_noise(STREAM, np.arange(6), 9)[:, :6], everybody)
    assert len(np.unique(everybody)) == 36 and np.any(
        draw_noise(STREAM.at(8), np.arange(6), 6) != everybody
    )


def test_noise_without_peers() -> None:
    assert draw_noise(STREAM, np.arange(0), 6).shape == (0, 6)


def test_lowest_by_hand() -> None:
    values = np.array([[0.5, 0.1, 0.9, 0.3], [0.2, 0.2, 0.1, 0.2], [0.4, 0.3, 0.2, 0.1]])
    mask = np.array([[1, 0, 1, 1], [1, 1, 0, 1], [0, 0, 1, 0]], bool)
    # Equals: the first; fewer: all.
    expected = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0]], bool)
    np.testing.assert_array_equal(lowest(values, mask, 2), expected)
    np.testing.assert_array_equal(lowest(-values, mask, 1), np.eye(4, dtype=bool)[[2, 0, 2]])


@given(st.integers(0, 10_000), st.integers(0, 4), st.integers(1, 8), st.integers(1, 10))
def test_lowest_is_sorting(seed: int, n: int, N: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, size=(n, N)).astype(float)
    mask = rng.random((n, N)) < 0.6
    result = lowest(values, mask, count)
    assert result.shape == (n, N) and result.dtype == bool
    for i in range(n):
        there = sorted((values[i, j], j) for j in range(N) if mask[i, j])
        assert np.flatnonzero(result[i]).tolist() == sorted(j for _, j in there[:count])


def test_ranks_by_hand() -> None:
    """Places from 0 among the values under the mask; the first of equals comes first."""
    values = np.array(
        [[0.5, 0.1, 0.9, 0.3], [0.2, 0.2, 0.1, 0.2], [-0.4, 0.3, -0.2, 7.0], [4.0, 3.0, 2.0, 1.0]]
    )
    mask = np.array([[1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]], bool)
    result = ranks(values, mask)
    assert result.shape == (4, 4)
    assert [row[own].tolist() for row, own in zip(result, mask, strict=True)] == [
        [1, 2, 0],
        [0, 1, 2],
        [0, 2, 1, 3],
        [0],
    ]


def test_a_value_outside_the_mask_has_no_rank() -> None:
    """None that is below any number of places, were it larger than the row."""
    values = np.array([[0.1, np.nan, 0.3]])
    empty_mask = np.zeros((1, 3), bool)
    for count in (-2, 0, 1, 3, 1000):
        assert not (ranks(values, empty_mask) < count).any()
        assert (ranks(values, np.array([[False, False, True]])) < count).tolist() == [
            [False, False, count > 0]
        ]
    assert ranks(np.zeros((0, 3)), np.zeros((0, 3), bool)).shape == (0, 3)


@given(st.integers(0, 10_000), st.integers(0, 4), st.integers(1, 8))
def test_ranks_count_the_values_before(seed: int, n: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    # With equals.
    values = rng.integers(0, 5, size=(n, N)) / 4
    mask = rng.random((n, N)) < 0.6
    result = ranks(np.where(mask, values, np.nan), mask)
    for i, j in zip(*np.nonzero(mask), strict=True):
        before = [k for k in range(N) if mask[i, k] and (values[i, k], k) < (values[i, j], j)]
        assert result[i, j] == len(before)


# --- likeness


def slow_cosine(a: np.ndarray, b: np.ndarray) -> float:
    length = np.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / length if length else 0.0


@pytest.mark.parametrize("alpha", [0, 0.25, 0.5, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_similarity_is_pair_by_pair(alpha: float, dtype: Any) -> None:
    """Eqs. 2-4, of three peers with five others."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=7).astype(dtype)
    own, others = ([rng.normal(size=(n, 7)).astype(dtype) for _ in range(2)] for n in (3, 5))
    result = gradient_similarity(alpha, start, (own[0], own[1]), (others[0], others[1]))
    expected = [
        [
            alpha * slow_cosine(own[1][i], others[1][j])
            + (1 - alpha) * slow_cosine(own[0][i] - start, others[0][j] - start)
            for j in range(5)
        ]
        for i in range(3)
    ]
    np.testing.assert_allclose(result, expected, atol=1e-6 if dtype == np.float32 else 1e-12)


def test_similarity_by_hand() -> None:
    """w_0 = (1, 1). i: h = (1, 0), g = (0, 2). j: h = (1, 1), g = (0, -1): .25 * -1 + .75 /
    sqrt(2)."""
    start = np.ones(2)
    i = (np.array([[2.0, 1.0]]), np.array([[0.0, 2.0]]))
    j = (np.array([[2.0, 2.0]]), np.array([[0.0, -1.0]]))
    np.testing.assert_allclose(
        gradient_similarity(0.25, start, i, j), [[-0.25 + 0.75 / np.sqrt(2)]]
    )
    np.testing.assert_allclose(gradient_similarity(0.25, start, i, i), [[1.0]])


def test_zeros_are_like_nothing() -> None:
    """A peer that has not moved, in this round or at all: its cosine counts 0, not NaN."""
    start = np.ones(2)
    zero = np.zeros((1, 2))
    one = np.array([[3.0, 1.0]])
    still = (np.ones((1, 2)), zero)
    going = (one, np.array([[1.0, 0.0]]))
    assert (
        gradient_similarity(0.5, start, still, going)
        == gradient_similarity(0.5, start, going, still)
        == 0
    )
    np.testing.assert_allclose(gradient_similarity(0.5, start, (one, zero), going), [[0.5]])


def test_similarity_does_not_see_lengths() -> None:
    rng = np.random.default_rng(1)
    start = rng.normal(size=6)
    models = rng.normal(size=(4, 6))
    updates = rng.normal(size=(4, 6))
    scale = np.array([[1e-9], [1e9], [3.0], [0.5]])
    longer = start + scale * (models - start), scale[::-1] * updates
    result = gradient_similarity(0.5, start, (models, updates), longer)
    np.testing.assert_allclose(
        result, gradient_similarity(0.5, start, (models, updates), (models, updates)), atol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-15, 1e-12, 1.0, 1e12, 1e15])
def test_short_and_long_updates_in_single_precision(scale: float) -> None:
    """The same whether peers are compared among themselves, as in a simulation, or a peer with
    others, alone. Products of two squared lengths are far outside of float32, their cosine is not.
    """
    rng = np.random.default_rng(2)
    unit = rng.normal(size=(4, 6))
    models = np.zeros((4, 6), np.float32)
    updates = (scale * unit).astype(np.float32)
    together = (models, updates)
    start = np.zeros(6, np.float32)
    expected = [[slow_cosine(a, b) for b in unit] for a in unit]
    np.testing.assert_allclose(
        gradient_similarity(1, start, together, together), expected, atol=1e-5
    )
    for i in range(4):
        alone = gradient_similarity(
            1, start, (models[i : i + 1], updates[i : i + 1]), (models.copy(), updates.copy())
        )
        np.testing.assert_allclose(alone, expected[i : i + 1], atol=1e-5)


def test_likeness_by_loss() -> None:
    """Eq. 1; a model without loss is the best of all, one without a number the worst, and both are
    numbers."""
    loss = np.array([0.25, 4.0, 0.0, np.inf, np.nan])
    result = loss_similarity(loss)
    np.testing.assert_allclose(result[[0, 1, 3, 4]], [4.0, 0.25, 0.0, 0.0])
    assert np.isfinite(result[2]) and result[2] > 1e6


# --- averages


def test_average_models_by_hand() -> None:
    """Weights are examples: 10 and 30 of models 0 and 4 make 3."""
    models = np.array([[0, 8], [4, 0], [100, 100]], np.float32)
    result = average_models(models, np.array([[10, 30, 0], [0, 5, 0], [1, 1, 2]]) * 1.0)
    np.testing.assert_allclose(result, [[3, 2], [4, 0], [51, 52]], rtol=1e-6)
    assert result.dtype == np.float32


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 9))
def test_average_models_is_each_rows_mean(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    models = rng.normal(size=(m, 4)).astype(np.float32)
    weights = rng.integers(0, 60, size=(n, m)) + 0.0
    weights[np.arange(n), rng.integers(m, size=n)] += 1
    expected = [np.average(models.astype(np.float64), axis=0, weights=row) for row in weights]
    np.testing.assert_allclose(average_models(models, weights), expected, atol=1e-5)
    np.testing.assert_allclose(
        average_models(models, 1000 * weights), average_models(models, weights), atol=1e-6
    )


# --- queries and their count


def test_query_by_hand() -> None:
    """Peers 2 and 0 ask; peer 3 is silent. An answer of two vectors of three numbers is 24 bytes,
    down and up."""
    w = world(silent=frozenset({3}))
    asked = np.array([[1, 1, 0, 1], [0, 0, 1, 1]], bool)
    answered, state = query(
        world=w, state=initial_state(), peers=np.array([2, 0]), queried=asked, vectors=2
    )
    np.testing.assert_array_equal(answered, [[1, 1, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_array_equal(state.messages, [[1, 1], [0, 1], [2, 1], [0, 0]])  # got and given
    np.testing.assert_array_equal(state.vectors, 2 * state.messages)
    assert w.ledger.down == w.ledger.up == {"ask": 3 * 2 * 3 * 4}
    _, state = query(
        world=w, state=state, peers=np.array([1]), queried=np.array([[1, 0, 0, 0]], bool), vectors=1
    )
    np.testing.assert_array_equal(state.messages, [[1, 2], [1, 1], [2, 1], [0, 0]])
    np.testing.assert_array_equal(state.vectors, [[2, 3], [1, 2], [4, 2], [0, 0]])
    assert w.ledger.total() == (7 * 3 * 4, 7 * 3 * 4)


def test_no_peer_asks() -> None:
    w = world()
    before = initial_state()
    answered, state = query(
        world=w, state=before, peers=np.arange(4), queried=np.zeros((4, 4), bool), vectors=2
    )
    assert not answered.any() and not state.messages.any() and w.ledger.total() == (0, 0)


def test_update_peers_changes_the_peers_of_the_round_only() -> None:
    before = initial_state()
    peers = np.array([3, 1])
    trust = np.array([[0, 1, 0, 0], [0, 0, 0, 1]], bool)
    neighbourhood = Neighbourhood(trust, 2 * trust.astype(np.int32), np.array([9, 5]))
    models = np.arange(12, dtype=np.float32).reshape(4, 3)
    after = update_peers(before, peers, neighbourhood, models)
    np.testing.assert_array_equal(after.models, models)  # of all, as it is given them
    np.testing.assert_array_equal(after.age, [0, 5, 0, 9])
    np.testing.assert_array_equal(after.trust[peers], trust)
    np.testing.assert_array_equal(after.votes[peers], neighbourhood.votes)
    assert not after.trust[[0, 2]].any() and not after.votes[[0, 2]].any()
    np.testing.assert_array_equal(after.assignment, [0, 1, 2, 1])
    assert not before.trust.any() and not before.age.any()


# --- communities


def test_communities_are_of_mutual_trust() -> None:
    """0-3 and 3-4 trust each other, so 0, 3, 4 are one; 1 trusts 2, who does not trust 1."""
    trust = np.zeros((5, 5), bool)
    for i, j in ((0, 3), (3, 0), (3, 4), (4, 3), (1, 2), (2, 0)):
        trust[i, j] = True
    np.testing.assert_array_equal(communities(trust), [0, 1, 2, 0, 0])


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_communities_are_connected_components(seed: int, N: int) -> None:
    trust = np.random.default_rng(seed).random((N, N)) < 0.4
    reach = (trust & trust.T) | np.eye(N, dtype=bool)
    for _ in range(N):
        reach = reach @ reach
    result = communities(trust)
    np.testing.assert_array_equal(result[:, None] == result, reach)
    seen = list(dict.fromkeys(result.tolist()))
    assert seen == list(range(len(seen)))  # numbered by first members


# --- states


def test_all_begin_with_the_same_model_and_know_no_peer() -> None:
    stream = Stream(4, 0, "method/init")
    state = initial_state(5)
    start = world(5).initial(stream.child("model"))
    np.testing.assert_array_equal(state.start, start)
    np.testing.assert_array_equal(state.models, np.tile(start, (5, 1)))
    assert not any(
        getattr(state, name).any() for name in ("trust", "votes", "age", "messages", "vectors")
    )
    np.testing.assert_array_equal(state.assignment, np.arange(5))
    assert state.clusters == 5
    assert all(
        isinstance(getattr(state, f.name), np.ndarray) for f in fields(state) if f.name != "extras"
    )


def test_each_peer_is_tested_on_its_own_model() -> None:
    """Whatever community it is in."""
    state = update_peers(
        initial_state(),
        np.arange(4),
        Neighbourhood(*trusting(4)),
        np.arange(12, dtype=np.float32).reshape(4, 3),
    )
    assert state.clusters == 1
    assigned = state.models_for(np.array([3, 1]))
    np.testing.assert_array_equal(assigned.models[assigned.model_index], [[9, 10, 11], [3, 4, 5]])
    np.testing.assert_array_equal(state.aggregated_into(np.array([3, 1]), np.array([3, 1])), [3, 1])
    assert not state.excluded().any()


def trusting(N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Trust, votes and ages where everybody trusts everybody."""
    return ~np.eye(N, dtype=bool), np.zeros((N, N), np.int32), np.ones(N, np.int64)
