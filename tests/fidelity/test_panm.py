"""PANM against its oracle vectors: similarity, confident neighbour initialisation, neighbour
matching, the bag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.methods.decentralized import Neighbourhood, gradient_similarity, loss_similarity
from fedkin.methods.panm import PANM, PANMLoss

T1 = 100
TAU = 10
# A round of stage one, and one of stage two in which t mod tau = 0.
STAGE_ONE = 7
MATCHING = 110


@pytest.fixture
def vectors(oracle: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return oracle("panm")


def row(N: int, members: Any) -> np.ndarray:
    return np.isin(np.arange(N), list(members))[None]


def one_peer(N: int, trust: Any, age: int) -> Neighbourhood:
    return Neighbourhood(row(N, trust), np.zeros((1, N), np.int32), np.array([age]))


# --- similarity (eqs. 1-4)


def peer(vector: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray]:
    model = np.array([vector[f"w{name}"]])
    before = np.array([vector[f"w{name}_prev"]])
    return model, model - before


@pytest.mark.parametrize(
    ("alpha", "key"),
    [(0.5, "alpha_half"), (0, "alpha_0"), (1, "alpha_1"), (0, "cos2"), (1, "cos1")],
)
def test_similarity_of_gradients(vectors: dict[str, Any], alpha: float, key: str) -> None:
    vector = vectors["similarity"]
    start = np.array(vector["w0"])
    i = peer(vector, "i")
    j = peer(vector, "j")
    np.testing.assert_allclose(gradient_similarity(alpha, start, i, j), [[vector[key]]], rtol=1e-9)
    np.testing.assert_allclose(gradient_similarity(alpha, start, j, i), [[vector[key]]], rtol=1e-9)


def test_similarity_in_single_precision(vectors: dict[str, Any]) -> None:
    """As the models travel."""
    vector = vectors["similarity"]
    start = np.array(vector["w0"], np.float32)
    i, j = (
        (model.astype(np.float32), update.astype(np.float32))
        for model, update in (peer(vector, "i"), peer(vector, "j"))
    )
    np.testing.assert_allclose(
        gradient_similarity(0.5, start, i, j), [[vector["alpha_half"]]], atol=1e-6
    )


def test_similarity_by_loss(vectors: dict[str, Any]) -> None:
    vector = vectors["similarity"]["loss"]
    np.testing.assert_allclose(
        loss_similarity(np.array([vector["F"]])), [vector["similarity"]], rtol=1e-12
    )


# --- stage one (eq. 5)


@pytest.mark.parametrize("kind", [PANM, PANMLoss])
@pytest.mark.parametrize("age", [2, STAGE_ONE, T1])
def test_confident_neighbour_initialisation(
    vectors: dict[str, Any], kind: type[PANM], age: int
) -> None:
    vector = vectors["cni"]
    candidates = vector["candidates"]
    previous = vector["previous_neighbours"]
    method = kind(neighbours=vector["k"], candidates=len(candidates))
    known = one_peer(16, previous, age)
    N = 16
    noise = np.where(row(N, candidates), 0.1, 0.9)  # draws just these candidates
    answered = method.select_queries(known, ~row(N, [0]), noise)
    np.testing.assert_array_equal(answered, row(N, [*candidates, *previous]))
    similar = np.full((1, N), 0.99)  # of those that were not asked
    for j, value in vector["similarities"].items():
        similar[0, int(j)] = value
    assert (
        np.flatnonzero(method.match_neighbours(known, answered, similar).trust[0]).tolist()
        == vector["N_t"]
    )


# --- stage two (eqs. 6-10)


@pytest.mark.parametrize("name", ["clear two modes", "overlap", "grad similarities negative"])
def test_heuristic_neighbour_matching(vectors: dict[str, Any], name: str) -> None:
    """S is the whole bag, members 0, 1, ... of M, and C comes after; peer N - 1 is the one that
    matches."""
    [vector] = [case for case in vectors["hnm"] if case["name"] == name]
    values = vector["S_similarities"] + vector["C_similarities"]
    inside = len(vector["S_similarities"])
    N = len(values) + 1
    method = PANM(neighbours=3, candidates=max(inside, len(values) - inside))
    bag = range(inside)
    asked = method.select_queries(one_peer(N, bag, MATCHING), ~row(N, [N - 1]), np.zeros((1, N)))
    np.testing.assert_array_equal(asked, ~row(N, [N - 1]))
    after = method.match_neighbours(one_peer(N, bag, MATCHING), asked, np.array([[*values, 1.0]]))
    result = np.flatnonzero(after.trust[0]).tolist()
    assert (
        result
        == vector["H_indices_in_M"]
        == [j for j, r in enumerate(vector["labels_component"]) if r == 0]
    )
    assert result != vector["literal_poster_init_H"]


def test_the_bag(vectors: dict[str, Any]) -> None:
    """B <- (B - S) and H, with similarities that determine H: high for its members, low for the
    others of M."""
    vector = vectors["bag_update"]
    B, S, C, H = (vector[key] for key in "BSCH")
    N = 16
    similar = np.full((1, N), np.nan)
    similar[0, [*S, *C]] = 0.1 + 0.01 * np.arange(len(S) + len(C))
    similar[0, H] += 0.7
    noise = np.where(row(N, [*S, *C]), 0.1, 0.9)
    method = PANM(candidates=3)
    known = one_peer(N, B, MATCHING)
    answered = method.select_queries(known, ~row(N, [0]), noise)
    np.testing.assert_array_equal(answered, row(N, [*S, *C]))
    after = method.match_neighbours(known, answered, similar)
    assert np.flatnonzero(after.trust[0]).tolist() == vector["B_next"]
