"""Clients that swap data: against the authors' result for the same pairs, by hand, and
invariants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.swaps import SwapAll, SwapPart, draw_labels, swap_all, swap_labels
from tests.scenarios.other_labels import other_labels

Oracle = Callable[[str], dict[str, Any]]
STREAM = Stream(3, 1, "shift")


def federation(
    labels: list[list[int]], tests: list[list[int]] | None = None, true_clusters: bool = False
) -> FederatedData:
    """Clients with these training and test labels; the truth of client i is i."""
    tests = labels if tests is None else tests
    y = np.array([label for part in (labels, tests) for own in part for label in own], np.int64)
    rows = iter(range(len(y)))
    train, test = (
        Ragged.of([np.array([next(rows) for _ in own], np.int64) for own in part])
        for part in (labels, tests)
    )
    x = np.arange(len(y), dtype=np.float32)[:, None]
    return FederatedData(
        name="toy",
        x=x,
        y=y,
        classes=10,
        train=train,
        test=test,
        true_clusters=np.arange(len(labels)) if true_clusters else None,
    )


@pytest.mark.parametrize("task", ["regression", "survival"])
def test_labels_that_are_no_classes_are_not_swapped(task: str) -> None:
    data = other_labels(task)
    with pytest.raises(ConfigError, match=f"swap_part changes labels that are classes.*{task}"):
        SwapPart(1.0).step(
            original=data, current=data, round=1, reachable=np.arange(2), stream=STREAM
        )


def test_patients_are_not_swapped() -> None:
    """Their risk sets would go to another client without them."""
    data = other_labels("survival")
    with pytest.raises(ConfigError, match="not the patients of whom they are made"):
        SwapAll(1.0).step(
            original=data, current=data, round=1, reachable=np.arange(2), stream=STREAM
        )


def published() -> FederatedData:
    """The oracle's clients: client i has labels i % 5 and the next two, 4, 3 and 2 times, and one
    test sample each."""
    own = [[(i + k) % 5 for k in range(3)] for i in range(8)]
    data = federation([list(np.repeat(labels, [4, 3, 2])) for labels in own], own)
    x = np.zeros((len(data.y), 1), np.float32)
    x[data.train.rows, 0] = 100 * data.train.owners() + np.tile(np.arange(9), 8)
    x[data.test.rows, 0] = 100 * data.test.owners() + np.tile([50, 51, 52], 8)
    return data.with_rows(data.train, data.test, x=x)


def samples(data: FederatedData, part: Ragged, client: int) -> list[tuple[float, float]]:
    rows = part[client]
    return sorted(zip(data.x[rows, 0].tolist(), data.y[rows].tolist(), strict=True))


def rows_of(part: Ragged) -> list[list[int]]:
    return [sorted(part[i].tolist()) for i in range(len(part))]


@pytest.mark.parametrize("kind", ["all", "part"])
def test_the_authors_result_for_the_authors_pairs(oracle: Oracle, kind: str) -> None:
    """In their run 0 and 6 exchanged labels 0 and 3, 3 and 2 labels 0 and 2, 7 and 4 labels 2 and
    0."""
    swap = oracle("flexcfl")["swap"]
    pairs = np.array(swap["rng_trace_p0.5"]["pairs"])
    before = published()
    if kind == "all":
        data, moved = swap_all(before, pairs)
    else:
        data, moved = swap_labels(before, before, pairs, np.array([[0, 3], [0, 2], [2, 0]]))
    after = swap[f"{kind}_p0.5"]["after"]
    for client, expected in enumerate(after):
        for split, part in (("train", data.train), ("test", data.test)):
            want = sorted(zip(expected[f"{split}_x"], expected[f"{split}_y"], strict=True))
            assert samples(data, part, client) == want, (client, split)
    assert moved.tolist() == [client["flag"] for client in after]


def test_only_labels_that_the_other_has_not_are_drawn() -> None:
    """Pairs (0, 6), (3, 2) and (7, 4) may draw {0} and {3}, {0} and {2}, {2, 3} and {0, 1}."""
    pairs = np.array([[0, 6], [3, 2], [7, 4]])
    seen = []
    for round in range(100):
        labels, possible = draw_labels(published(), pairs, STREAM.at(round))
        assert possible.all()
        seen.append(labels.tolist())
    assert {str(draw[0]) for draw in seen} == {"[0, 3]"} and {str(draw[1]) for draw in seen} == {
        "[0, 2]"
    }
    counts = [[draw[2] for draw in seen].count([a, b]) for a in (2, 3) for b in (0, 1)]
    assert sum(counts) == 100 and max(abs(count - 25) for count in counts) < 5 * np.sqrt(
        100 * 3 / 16
    )


def test_a_label_qualifies_only_where_training_and_test_data_have_it() -> None:
    data = federation([[0, 1, 2], [3, 4]], [[1, 2], [3]])
    drawn = [
        draw_labels(data, np.array([[0, 1]]), STREAM.at(round))[0][0].tolist()
        for round in range(30)
    ]
    assert {tuple(labels) for labels in drawn} == {(1, 3), (2, 3)}
    untested = federation([[0, 1], [2, 3]], [[0], []])
    assert not draw_labels(untested, np.array([[0, 1]]), STREAM)[1].any()


def test_the_true_cluster_moves_with_the_data() -> None:
    data = federation([[0], [1, 2], [3]], true_clusters=True)
    after, _ = swap_all(data, np.array([[0, 2]]))
    assert after.true_clusters is not None and after.true_clusters.tolist() == [2, 1, 0]
    assert rows_of(after.train) == [[3], [1, 2], [0]]


@pytest.mark.parametrize(
    ("labels", "true_clusters"),
    [
        (
            [[0, 0, 0, 1], [2, 2, 3]],
            [1, 0],
        ),  # client 0 keeps one sample and has two of the other's
        ([[0, 1], [2, 3]], [0, 1]),  # as many of either: unchanged
        ([[0, 1, 1], [2, 3, 3]], [0, 1]),
        ([[0, 1], [2, 2, 3, 3]], [1, 1]),  # 1 and 2, 2; the other 0 and 3, 3
    ],
)
def test_part_most_training_samples_decide_the_true_cluster(
    labels: list[list[int]], true_clusters: list[int]
) -> None:
    data = federation(labels, true_clusters=True)
    after, _ = swap_labels(data, data, np.array([[0, 1]]), np.array([[0, 2]]))
    assert after.true_clusters is not None and after.true_clusters.tolist() == true_clusters
    assert data.true_clusters is not None and data.true_clusters.tolist() == [0, 1]


def test_a_part_swapped_back_is_as_before() -> None:
    data = federation([[0, 0, 0, 1], [2, 2, 3]], true_clusters=True)
    away, _ = swap_labels(data, data, np.array([[0, 1]]), np.array([[0, 2]]))
    back, _ = swap_labels(data, away, np.array([[0, 1]]), np.array([[2, 0]]))
    assert rows_of(back.train) == rows_of(data.train) and rows_of(back.test) == rows_of(data.test)
    assert back.true_clusters is not None and back.true_clusters.tolist() == [0, 1]


def test_as_coded_the_rest_of_a_round_is_dropped() -> None:
    """Client 3 can swap with anybody, the other three have nothing to give each other. So one of
    the two pairs is possible, and as coded only where it comes first: every other time."""
    data = federation([[0, 1], [0, 1], [0, 1], [2, 3]])
    everybody = np.arange(4)
    swaps = 0
    for round in range(1, 201):
        _, moved = SwapPart(1.0).step(
            original=data, current=data, round=round, reachable=everybody, stream=STREAM.at(round)
        )
        _, coded = SwapPart(1.0, as_coded=True).step(
            original=data, current=data, round=round, reachable=everybody, stream=STREAM.at(round)
        )
        assert moved.sum() == 2 and moved[3]
        assert not coded.any() or coded.tolist() == moved.tolist()
        swaps += int(coded[3])
    assert abs(swaps - 100) < 5 * np.sqrt(200 / 4)


@pytest.mark.parametrize("shift", [SwapAll(1.0), SwapPart(1.0)])
@pytest.mark.parametrize(
    ("there", "count"), [(range(8), 8), (range(2, 7), 4), (range(3, 4), 0), (range(0), 0)]
)
def test_with_probability_one_everybody_there_has_a_partner(
    shift: SwapAll, there: range, count: int
) -> None:
    data = federation([[i, i] for i in range(8)])
    after, moved = shift.step(
        original=data, current=data, round=1, reachable=np.array(there, np.int64), stream=STREAM
    )
    assert moved.sum() == count and set(np.flatnonzero(moved)) <= set(there)
    home = [own[0] // 2 for own in rows_of(after.train)]  # whose samples each client has now
    assert [home[home[i]] for i in range(8)] == list(range(8))
    assert [home[i] != i for i in range(8)] == moved.tolist()


@pytest.mark.parametrize("shift", [SwapAll(0.0), SwapPart(0.0), SwapPart(1.0)])
def test_where_nothing_moves_the_data_are_the_same(shift: SwapAll) -> None:
    """All have the same labels. One client alone has no other to swap with."""
    for data in (federation([[0, 1]] * 6), federation([[0]] * 6), federation([[0, 1]])):
        after, moved = shift.step(
            original=data, current=data, round=1, reachable=np.arange(data.clients), stream=STREAM
        )
        assert after is data and not moved.any()


@pytest.mark.parametrize("shift", [SwapAll(1.0), SwapPart(1.0)])
def test_no_client_swaps_before_the_first_communication_round(shift: SwapAll) -> None:
    data = federation([[0], [1], [2], [3]])
    assert (
        shift.step(
            original=data, current=data, round=0, reachable=np.arange(4), stream=STREAM.at(0)
        )[0]
        is data
    )
    assert shift.step(
        original=data, current=data, round=1, reachable=np.arange(4), stream=STREAM.at(1)
    )[1].all()


@pytest.mark.parametrize("probability", [0.05, 0.5])
def test_pairs_swap_with_the_given_probability(probability: float) -> None:
    data = federation([[0]] * 1000)
    moved = [
        SwapAll(probability)
        .step(original=data, current=data, round=r, reachable=np.arange(1000), stream=STREAM.at(r))[
            1
        ]
        .sum()
        for r in range(1, 21)
    ]
    expected = 20 * 500 * probability
    assert abs(sum(moved) / 2 - expected) < 5 * np.sqrt(expected * (1 - probability))


@settings(max_examples=40)
@given(
    labels=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=7),
    seed=st.integers(0, 99),
    probability=st.sampled_from([0.3, 1.0]),
)
@pytest.mark.parametrize("kind", [SwapAll, SwapPart])
def test_swaps_keep_samples_and_sizes(
    kind: type[SwapAll] | type[SwapPart], labels: list[list[int]], seed: int, probability: float
) -> None:
    original = current = federation(labels, [own[::2] for own in labels], true_clusters=True)
    rows = rows_of(original.train), rows_of(original.test), np.arange(len(labels)).tolist()
    for round in range(1, 6):
        stream = Stream(seed, round, "shift")
        everybody = np.arange(len(labels))
        before = current
        current, moved = kind(probability).step(
            original=original, current=before, round=round, reachable=everybody, stream=stream
        )
        again, _ = kind(probability).step(
            original=original, current=before, round=round, reachable=everybody, stream=stream
        )
        assert rows_of(again.train) == rows_of(current.train) and rows_of(again.test) == rows_of(
            current.test
        )
        assert sorted(current.train.rows) == sorted(original.train.rows)  # the union is unchanged
        assert sorted(current.test.rows) == sorted(original.test.rows)
        assert current.x is original.x and current.y is original.y
        assert (current.label_counts().sum(0) == original.label_counts().sum(0)).all()
        assert current.train.sizes.min() >= 1
        changed = [
            a != b for a, b in zip(rows_of(current.train), rows_of(before.train), strict=True)
        ]
        assert changed == moved.tolist()
    assert original.true_clusters is not None
    assert (
        rows_of(original.train),
        rows_of(original.test),
        original.true_clusters.tolist(),
    ) == rows


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_probabilities_are_checked(probability: float) -> None:
    for kind in (SwapAll, SwapPart):
        with pytest.raises(ConfigError, match="probability must be a fraction"):
            kind(probability)
