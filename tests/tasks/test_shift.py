"""The shift test against distances worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.shift import Note, Shifted

START = np.array([[50, 30, 20, 0], [40, 0, 0, 0], [10, 10, 10, 10]])  # 100, 40 and 40 samples
ALL = np.arange(3)
NO_CLIENTS = np.zeros(0, np.int64)


def federation(counts: np.ndarray = START) -> FakeWorld:
    """Three clients with these samples of four classes."""
    return FakeWorld(np.zeros((3, 1), np.float32), np.ones(3, np.int64), counts=counts.copy())


def shifted(
    world: FakeWorld, counts: np.ndarray, clients: np.ndarray = ALL, task: Shifted | None = None
) -> list[bool]:
    """Which clients find that their data have shifted, with these samples."""
    world.counts = counts
    return world.run(task or Shifted(), clients).shifted.tolist()


def note(world: FakeWorld, clients: np.ndarray, counts: np.ndarray) -> None:
    """Clients are placed, with these samples of all clients."""
    world.counts = counts
    world.run(Note(), clients)


def less(client: int, label: int, by: int) -> np.ndarray:
    """The counts of the start with some samples taken away."""
    counts = START.copy()
    counts[client, label] -= by
    return counts


def test_nothing_has_shifted_at_the_start() -> None:
    assert shifted(federation(), START, task=Shifted(threshold=0.0)) == [False, False, False]


def test_a_fifth_of_the_samples_is_no_shift_and_one_more_is() -> None:
    world = federation()
    assert shifted(world, less(0, 0, 20)) == [False, False, False]
    assert shifted(world, less(0, 0, 21)) == [True, False, False]
    assert shifted(world, less(1, 0, 8)) == [False, False, False]
    assert shifted(world, less(1, 0, 9)) == [False, True, False]


def test_changes_add_up_until_they_are_noted() -> None:
    world = federation()
    assert not shifted(world, less(0, 0, 15))[0]
    assert shifted(world, less(0, 0, 30))[0]
    assert shifted(world, less(0, 0, 30))[0], "asking is not noting"
    note(world, np.array([0]), less(0, 0, 15))
    assert not shifted(world, less(0, 0, 30))[0]


def test_only_clients_that_note_forget() -> None:
    world = federation()
    now = START // 2
    note(world, np.array([2, 0]), now)
    assert shifted(world, now) == [False, True, False]
    note(world, NO_CLIENTS, now)
    assert shifted(world, now) == [False, True, False]


def test_the_size_of_the_start_counts() -> None:
    """Client 0 now has 40 samples; of its first 100 a fifth is 20: to lose 20 more is no shift, 21
    is one."""
    world = federation()
    now = START.copy()
    now[0] = [40, 0, 0, 0]
    note(world, np.array([0]), now)
    for lost, expected in ((20, False), (21, True)):
        after = now.copy()
        after[0, 0] -= lost
        assert shifted(world, after)[0] is expected


def test_a_client_that_notes_again_keeps_its_number_of_samples_before_any_shift() -> None:
    world = federation()
    now = START.copy()
    for _ in range(2):
        now[0] = now[0] // 2
        note(world, np.array([0]), now)
    assert world.memory()["clients/samples_at_first"][0] == 100
    np.testing.assert_array_equal(world.memory()["clients/noted_labels"][0], [12, 7, 5, 0])


@pytest.mark.parametrize(("test", "expected"), [("label_blind", False), ("label_aware", True)])
def test_clients_of_one_class_that_change_it(test: str, expected: bool) -> None:
    """40 samples of class 0 become 40 of class 3: the same numbers with other names."""
    counts = START.copy()
    counts[1] = counts[1, ::-1]
    assert shifted(federation(), counts, task=Shifted(test)) == [False, expected, False]


def test_results_are_in_the_order_of_the_clients() -> None:
    """Counts are those of the asked clients, row by row."""
    world = federation()
    now = less(1, 0, 30)
    assert shifted(world, now, np.array([2, 1, 0])) == [False, True, False]
    assert shifted(world, now, np.array([1, 2])) == [True, False]
    assert shifted(world, now, NO_CLIENTS) == []


def test_the_counts_that_are_given_may_change_afterwards() -> None:
    counts = START.astype(np.int32)
    world = federation()
    note(world, ALL, counts)
    counts[:] = 0
    assert shifted(world, START, task=Shifted(threshold=0.0)) == [False, False, False]


def test_another_world_goes_on_from_the_memory() -> None:
    world = federation()
    now = START // 2
    note(world, np.array([0]), now)
    other = federation()
    other.recall(world.memory())
    assert shifted(other, now) == shifted(world, now) == [False, True, True]
    note(other, ALL, now)
    assert shifted(world, now) == [False, True, True], "they share nothing"


def test_memory_is_copies_of_the_stored_counts() -> None:
    world = federation()
    now = START // 2
    note(world, np.array([1]), START)
    kept = world.memory()
    note(world, ALL, now)
    world.recall(kept)
    assert shifted(world, now) == [True, True, True]


def test_a_note_outlasts_a_change_of_cluster() -> None:
    """A migration follows from the shift test: a client that moves notes again, and forgets nothing
    before."""
    world = federation()
    now = START // 2
    note(world, np.array([0]), now)
    world.reassigned(ALL)
    assert shifted(world, now) == [False, True, True]


def test_an_unknown_test() -> None:
    with pytest.raises(
        MethodError, match="must be one of label_blind, label_aware, label_quantiles, got"
    ):
        Shifted("label_deaf")
