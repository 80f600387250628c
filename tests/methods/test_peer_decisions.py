"""What holds of the decisions of every peer method, for any peers that there may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.methods.decentralized import Neighbourhood
from fedkin.methods.gossip import Gossip, Local
from fedkin.methods.oracle import Oracle
from fedkin.methods.panm import PANM, PANMLoss
from fedkin.methods.pens import PENS

METHODS = [
    PANM(2, 3, 5, 4),
    PANMLoss(2, 3, 5, 4),
    PENS(sampled=3, top=2, stage_one=5),
    Gossip(2),
    Oracle(2),
    Local(),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


def some(
    seed: int, n: int = 6, N: int = 9
) -> tuple[Neighbourhood, np.ndarray, np.ndarray, np.ndarray]:
    """Peers 0 .. n-1 in rounds of all stages: what they know (no peer has left), who is reachable,
    noise, similarity."""
    rng = np.random.default_rng(seed)
    self = np.eye(n, N, dtype=bool)
    trust, reachable = (rng.random((2, n, N)) < [[[0.4]], [[0.7]]]) & ~self
    known = Neighbourhood(
        trust & reachable,
        (rng.integers(0, 4, (n, N)) * ~self).astype(np.int32),
        rng.integers(1, 14, n),
    )
    return known, reachable, rng.random((n, N)), rng.normal(size=(n, N))


def only(known: Neighbourhood, i: int) -> Neighbourhood:
    return Neighbourhood(known.trust[i : i + 1], known.votes[i : i + 1], known.age[i : i + 1])


@each_method
@given(seed=st.integers(0, 10_000))
def test_each_peer_decides_for_itself(method: Any, seed: int) -> None:
    """A row alone, as a real peer calls it, is the row among others; and nothing is changed in
    place."""
    known, reachable, random, similar = some(seed)
    for array in (known.trust, known.votes, known.age, reachable, random, similar):
        array.flags.writeable = False
    asked = method.select_queries(known, reachable, random)
    answered = asked & (similar > -0.8)
    after = method.match_neighbours(known, answered, similar)
    chosen = method.select_partners(after, reachable, random)
    for i in range(len(reachable)):
        alone = only(known, i)
        own = slice(i, i + 1)
        np.testing.assert_array_equal(
            method.select_queries(alone, reachable[own], random[own]), asked[own]
        )
        next_ = method.match_neighbours(alone, answered[own], similar[own])
        for name in ("trust", "votes", "age"):
            np.testing.assert_array_equal(getattr(next_, name), getattr(after, name)[own])
        np.testing.assert_array_equal(
            method.select_partners(next_, reachable[own], random[own]), chosen[own]
        )


@each_method
@given(seed=st.integers(0, 10_000))
def test_no_peer_deals_with_the_absent_or_with_itself(method: Any, seed: int) -> None:
    known, reachable, random, similar = some(seed)
    asked = method.select_queries(known, reachable, random)
    after = method.match_neighbours(
        known, asked & (similar > -0.8), np.where(asked, similar, np.nan)
    )
    assert (
        not (asked & ~reachable).any()
        and not (method.select_partners(after, reachable, random) & ~reachable).any()
    )
    if not isinstance(method, PENS):  # whose neighbours come from votes that it was given
        assert not (after.trust & ~known.trust & ~asked).any()
    assert not (after.trust & np.eye(*reachable.shape, dtype=bool)).any()
