"""Streams: names alone decide which numbers are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.randomness import Stream, uniform_of

BASE = Stream(7, 3, "train")


def first(generator: np.random.Generator) -> tuple[int, ...]:
    return tuple(generator.integers(2**62, size=3).tolist())


def test_the_same_name_draws_the_same() -> None:
    assert first(BASE.rng()) == first(BASE.rng()) == first(Stream(7, 3, "train").rng())
    assert first(BASE.client(4)) == first(BASE.client(4))
    np.testing.assert_array_equal(BASE.words(4), BASE.words(4))


def test_drawing_moves_nothing() -> None:
    """A stream has no position: earlier draws leave no trace."""
    expected = first(BASE.client(2))
    used = BASE.rng()
    used.normal(size=100)
    BASE.client(1).normal(size=100)
    assert first(BASE.client(2)) == expected and first(BASE.rng()) != first(used)


def test_every_part_of_the_name_counts() -> None:
    """Seeds, rounds, purposes, parts of a purpose, clients, and the server."""
    streams = [
        Stream(s, r, p)
        for s in (0, 1, 2**40)
        for r in (0, 1, 2)
        for p in ("", "train", "select", "train/")
    ]
    streams += [s.child("batches") for s in streams] + [s.child("a").child("b") for s in streams]
    drawn = [first(s.rng()) for s in streams] + [
        first(s.client(c)) for s in streams for c in (0, 1, 2, 10**6)
    ]
    assert len(set(drawn)) == len(drawn)


def test_words_of_every_name_differ() -> None:
    words = [
        tuple(Stream(s, r, p).words(c))
        for s in (0, 1)
        for r in (0, 1)
        for p in "ab"
        for c in (None, 0, 1, 2)
    ]
    assert len(set(words)) == len(words)
    made = BASE.words()
    assert made.shape == (2,) and made.dtype == np.uint32


def test_names() -> None:
    assert BASE.child("batches") == Stream(7, 3, "train/batches")
    assert BASE.at(9) == Stream(7, 9, "train")
    assert BASE.at(9).at(3) == BASE


def test_the_client_may_be_any_whole_number() -> None:
    assert first(BASE.client(int(np.int64(5)))) == first(BASE.client(5))


@pytest.mark.parametrize("one, other", [((0, 0), (0, 1)), ((0, 0), (1, 0))])
def test_neighbouring_streams_are_not_correlated(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    """Of 10,000 pairs, the correlation stays within five standard deviations of zero."""
    a, b = (Stream(*name, "noise").rng().normal(size=10_000) for name in (one, other))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(10_000)


def test_neighbouring_clients_are_not_correlated() -> None:
    draws = np.array([BASE.client(c).random() for c in range(2_000)])
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 5 / np.sqrt(2_000)
    assert abs(draws.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 2_000)


def test_streams_stay_unchanged() -> None:
    """Literal values: a new way of naming streams changes every run ever published, so it must not
    pass unnoticed."""
    stream = Stream(seed=1, round=2, purpose="run/train")
    assert stream.rng().integers(1000, size=4).tolist() == [774, 450, 287, 972]
    assert stream.client(3).integers(1000, size=4).tolist() == [252, 684, 729, 461]
    assert stream.words().tolist() == [86545508, 387626923]
    assert stream.words(3).tolist() == [3135489905, 661143369]


def test_uniform_numbers_of_bits_are_never_0_or_1() -> None:
    """The largest of 53 bits and a half would be rounded to 1."""
    words = np.array([0, 2**63, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(uniform_of(words), [2.0**-53, 0.5 + 2.0**-53, 1 - 2.0**-53])
    assert 0 < uniform_of(words).min() and uniform_of(words).max() < 1
