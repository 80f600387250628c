"""Drift: clients whose labels are permuted or whose images are rotated, when,
and to which variant."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.drift import Drift, Relabel, Rotate
from fedkin.scenarios.shift import ShiftedData
from tests.scenarios.other_labels import other_labels

Pattern = Literal["sudden", "gradual", "recurring"]
STREAM = Stream(2, 0, "run/shift")
N = 40


def federation(shape: tuple[int, ...] = (9,), classes: int = 5, clients: int = N) -> FederatedData:
    """Six training and two test samples per client, in their order in x; pixels from -1 to 1, no
    two images alike."""
    M = 8 * clients
    x = np.random.default_rng(0).uniform(-1, 1, (M, *shape)).astype(np.float32)
    train = Ragged(np.arange(6 * clients), 6 * np.arange(clients + 1))
    test = Ragged(6 * clients + np.arange(2 * clients), 2 * np.arange(clients + 1))
    return FederatedData(
        name="toy", x=x, y=np.arange(M) % classes, classes=classes, train=train, test=test
    )


def everybody(_: int) -> np.ndarray:
    return np.arange(N)


@pytest.mark.parametrize("task", ["regression", "survival"])
def test_labels_that_are_no_classes_are_not_permuted(task: str) -> None:
    data = other_labels(task)
    drifting = ShiftedData(data, Relabel(kinds=2, at=1), lambda _: np.arange(data.clients))
    with pytest.raises(ConfigError, match=f"relabel changes labels that are classes.*{task}"):
        drifting.at(STREAM)


def variants(drift: Drift, rounds: int, clients: int = N) -> np.ndarray:
    """One row per round."""
    return np.stack([drift.variants(clients, round, STREAM.at(round)) for round in range(rounds)])


@given(kinds=st.integers(2, 6), seed=st.integers(0, 99), fraction=st.sampled_from([0.0, 0.5, 1.0]))
def test_start_variants_and_moves(kinds: int, seed: int, fraction: float) -> None:
    drift = Relabel(kinds=kinds, fraction=fraction, at=3)
    origin, then = (drift.variants(N, round, Stream(seed, round, "s")) for round in (0, 3))
    sizes = np.bincount(origin, minlength=kinds)
    assert len(sizes) == kinds and sizes.max() - sizes.min() <= 1
    assert then.min() >= 0 and then.max() < kinds
    moved = (origin != then).sum()
    assert abs(moved - N * fraction) <= 5 * np.sqrt(N * fraction * (1 - fraction))


def test_targets_are_any_other_variant() -> None:
    drift = Relabel(fraction=1.0, at=1)
    origin, target = variants(drift, 2, clients=3000)
    steps = np.bincount((target - origin) % 4, minlength=4)
    assert steps[0] == 0 and np.abs(steps[1:] - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


def test_sudden() -> None:
    when = variants(Relabel(fraction=1.0, at=4), 9)
    assert (
        (when[:4] == when[0]).all() and (when[4:] == when[4]).all() and (when[4] != when[0]).all()
    )


def test_gradual() -> None:
    """From round 4 on for 5 rounds, 1,000 clients: everybody once, as many in each round."""
    when = variants(Relabel(pattern="gradual", fraction=1.0, at=4, length=5), 12, clients=1000)
    moves = (when[1:] != when[:-1]).sum(axis=1)  # entry r is round r + 1
    assert moves.sum() == 1000 and (when[-1] != when[0]).all()
    assert moves[:3].sum() == 0 and moves[8:].sum() == 0
    assert np.abs(moves[3:8] - 200).max() < 5 * np.sqrt(1000 * 4 / 25)


def test_recurring() -> None:
    """Away in rounds 4-6 and 10-12, at home in 0-3, 7-9 and 13."""
    when = variants(Relabel(pattern="recurring", fraction=1.0, at=4, length=3), 14)
    away = (when != when[0]).all(axis=1)
    assert np.flatnonzero(away).tolist() == [4, 5, 6, 10, 11, 12]
    assert (when[~away] == when[0]).all() and (when[away] == when[4]).all()


@pytest.mark.parametrize("pattern", ["sudden", "gradual", "recurring"])
def test_moved_and_truth_follow_the_variants(pattern: Pattern) -> None:
    drift = Relabel(pattern=pattern, at=3, length=4)
    moving = ShiftedData(federation(), drift, everybody)
    when = variants(drift, 12)
    before = None
    for round in range(12):
        data, moved = moving.at(STREAM.at(round))
        assert moved.tolist() == (when[round] != when[max(round - 1, 0)]).tolist()
        assert (
            data.true_clusters is not None and data.true_clusters.tolist() == when[round].tolist()
        )
        # Nothing is copied where no client moves.
        assert moved.any() or before is None or data is before
        before = data


def test_the_truth_that_is_there_makes_a_pair() -> None:
    data = federation()
    data = data.with_rows(data.train, data.test, np.arange(N) // 20)
    now, _ = ShiftedData(data, Relabel(), everybody).at(STREAM)
    assert now.true_clusters is not None
    assert (now.true_clusters // 4).tolist() == [0] * 20 + [1] * 20
    assert (now.true_clusters % 4).tolist() == Relabel().variants(N, 0, STREAM).tolist()


def test_relabel_gives_every_variant_different_names() -> None:
    data = federation()
    drift = Relabel(at=2)
    for round in (0, 2):
        now, _ = ShiftedData(data, drift, everybody).at(STREAM.at(round))
        variant = drift.variants(N, round, STREAM)
        names = {}
        assert np.array_equal(now.x, data.x)
        for split in ("train", "test"):
            for client in range(N):
                pairs = zip(
                    data.y[data.part(split)[client]], now.y[now.part(split)[client]], strict=True
                )
                for true, name in pairs:
                    assert names.setdefault((variant[client], true), name) == name
        permutation = [tuple(int(names[kind, label]) for label in range(5)) for kind in range(4)]
        assert permutation[0] == (0, 1, 2, 3, 4) and len(set(permutation)) == 4
        assert all(sorted(permutation[kind]) == [0, 1, 2, 3, 4] for kind in range(4))
    assert (data.y == np.arange(8 * N) % 5).all()


@pytest.mark.parametrize(("kinds", "quarters"), [(2, 2), (3, 1), (4, 1)])
@pytest.mark.parametrize("shape", [(9,), (3, 3), (3, 3, 2)])
def test_rotate_by_quarters(shape: tuple[int, ...], kinds: int, quarters: int) -> None:
    data = federation(shape)
    drift = Rotate(kinds=kinds, at=1)
    given_x = data.x.copy()
    for round in (0, 1):
        now, _ = ShiftedData(data, drift, everybody).at(STREAM.at(round))
        variant = drift.variants(N, round, STREAM)
        assert (
            np.array_equal(now.y, data.y)
            and now.x.shape == data.x.shape
            and now.x.dtype == np.float32
        )
        for split in ("train", "test"):
            for client in range(N):
                upright = data.x[data.part(split)[client]].reshape(-1, 3, 3, *shape[2:])
                rotated = np.rot90(upright, quarters * variant[client], axes=(1, 2))
                got = now.x[now.part(split)[client]].reshape(rotated.shape)
                np.testing.assert_array_equal(got, rotated)
    assert np.array_equal(data.x, given_x)


def test_recurring_rotation_comes_back_exactly() -> None:
    """Turned from the original, not from the current samples: five kinds interpolate, and that
    would
        add up."""
    moving = ShiftedData(
        federation(), Rotate(kinds=5, pattern="recurring", at=1, length=1, fraction=1.0), everybody
    )
    start, away, back = (moving.at(STREAM.at(round))[0] for round in range(3))
    assert np.array_equal(start.x, back.x) and not np.array_equal(start.x, away.x)


def test_odd_angles_stay_within_the_pixels_range() -> None:
    """Corners that open are as dark as the darkest pixel, which is not 0 here: of images of one
    grey they all are."""
    data = federation((64,), clients=N)
    data = data.with_rows(data.train, data.test, x=np.full_like(data.x, 3.0))
    now, _ = ShiftedData(data, Rotate(kinds=5), everybody).at(STREAM)
    np.testing.assert_allclose(now.x, 3.0, rtol=1e-6)


def test_two_owners_of_a_sample_may_see_two_variants() -> None:
    data = federation(clients=2)
    shared = Ragged(np.array([0, 1, 2, 0, 1, 2]), np.array([0, 3, 6]))
    data = data.with_rows(shared, data.test)
    drift = Rotate(kinds=2, fraction=0.0)
    now, _ = ShiftedData(data, drift, lambda _: np.arange(2)).at(STREAM)
    variant = drift.variants(2, 0, STREAM)
    assert sorted(variant) == [0, 1]
    for client in range(2):
        # Flat and rotated by 180 degrees: reversed.
        want = data.x[:3, ::-1] if variant[client] else data.x[:3]
        np.testing.assert_array_equal(now.x[now.train[client]], want)


@pytest.mark.parametrize("shape", [(10,), (3, 4), (2, 3, 3), (), (3, 3, 1, 1)])
def test_only_square_images_can_be_turned(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"toy: only square images .*use relabel"):
        ShiftedData(federation(shape), Rotate(), everybody).at(STREAM)


def test_text_cannot_be_turned() -> None:
    data = federation()
    data = data.with_rows(data.train, data.test, x=np.ones((8 * N, 9), np.int64))
    with pytest.raises(DataError, match="got int64 of shape"):
        ShiftedData(data, Rotate(), everybody).at(STREAM)


def test_more_variants_than_permutations() -> None:
    with pytest.raises(ConfigError, match="2 labels have only 2 permutations, but 3"):
        ShiftedData(federation(classes=2), Relabel(kinds=3), everybody).at(STREAM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": 1}, "kinds must be an integer of at least 2, got 1"),
        ({"fraction": 1.5}, "fraction must be a fraction"),
        ({"at": 0}, "at must be an integer of at least 1, got 0"),
        ({"length": 0}, "length must be an integer of at least 1"),
    ],
)
@pytest.mark.parametrize("kind", [Relabel, Rotate])
def test_invalid_values_are_refused(
    kind: type[Drift], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**options)


@pytest.mark.parametrize("pattern", ["sudden", "gradual", "recurring"])
def test_clients_that_change_are_drawn_from_the_stream_that_the_docs_name(pattern: Any) -> None:
    """How many change is a draw: about a half of 20, by seed, and the same in every round."""
    shift = Relabel(kinds=2, pattern=pattern, fraction=0.5, at=1, length=1)
    numbers = set()
    for seed in range(20):
        rng = Stream(seed, 0, "scenario").child("drift").rng()
        origin = rng.permutation(np.arange(20) % 2)
        rng.integers(1, 2, 20)
        changes = rng.random((2, 20))[0] < 0.5
        after = shift.variants(20, 1, Stream(seed, 1, "scenario"))
        assert (after == np.where(changes, 1 - origin, origin)).all()
        numbers.add(int(changes.sum()))
    assert len(numbers) > 3
