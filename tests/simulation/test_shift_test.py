"""The shift test against distances worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.simulation.shift_test import LabelMemory

START = np.array([[50, 30, 20, 0], [40, 0, 0, 0], [10, 10, 10, 10]])  # 100, 40 and 40 samples
ALL = np.arange(3)


def blind(memory: LabelMemory, counts: np.ndarray, threshold: float = 0.2) -> list[bool]:
    return memory.shifted(ALL, counts, "label_blind", threshold).tolist()


def less(client: int, label: int, by: int) -> np.ndarray:
    """The counts of the start with some samples taken away."""
    counts = START.copy()
    counts[client, label] -= by
    return counts


def test_nothing_has_shifted_at_the_start() -> None:
    assert blind(LabelMemory(START), START, threshold=0.0) == [False, False, False]


def test_a_fifth_of_the_samples_is_no_shift_and_one_more_is() -> None:
    memory = LabelMemory(START)
    assert blind(memory, less(0, 0, 20)) == [False, False, False]
    assert blind(memory, less(0, 0, 21)) == [True, False, False]
    assert blind(memory, less(1, 0, 8)) == [False, False, False]
    assert blind(memory, less(1, 0, 9)) == [False, True, False]


def test_changes_add_up_until_they_are_noted() -> None:
    memory = LabelMemory(START)
    assert not blind(memory, less(0, 0, 15))[0]
    assert blind(memory, less(0, 0, 30))[0]
    assert blind(memory, less(0, 0, 30))[0], "asking is not noting"
    memory.note(np.array([0]), less(0, 0, 15)[[0]])
    assert not blind(memory, less(0, 0, 30))[0]


def test_only_those_who_note_forget() -> None:
    memory, now = LabelMemory(START), START // 2
    memory.note(np.array([2, 0]), now[[2, 0]])
    assert blind(memory, now) == [False, True, False]
    memory.note(np.zeros(0, np.int64), now[:0])
    assert blind(memory, now) == [False, True, False]


def test_the_size_that_counts_is_that_of_the_start() -> None:
    """Client 0 now has 40 samples; of its first 100 a fifth is 20: to lose 20 more is no shift, 21 is one."""
    memory, now = LabelMemory(START), START.copy()
    now[0] = [40, 0, 0, 0]
    memory.note(np.array([0]), now[[0]])
    for lost, expected in ((20, False), (21, True)):
        after = now.copy()
        after[0, 0] -= lost
        assert blind(memory, after)[0] is expected


@pytest.mark.parametrize(("test", "expected"), [("label_blind", False), ("label_aware", True)])
def test_clients_of_one_class_that_change_it(test: str, expected: bool) -> None:
    """40 samples of class 0 become 40 of class 3: the same numbers with other names."""
    counts = START.copy()
    counts[1] = counts[1, ::-1]
    found = LabelMemory(START).shifted(ALL, counts, test, 0.2)
    np.testing.assert_array_equal(found, [False, expected, False])


def test_results_are_in_the_order_of_the_clients() -> None:
    """Counts are those of the asked clients, row by row."""
    now = less(1, 0, 30)
    found = LabelMemory(START).shifted(np.array([2, 1, 0]), now[[2, 1, 0]], "label_blind", 0.2)
    np.testing.assert_array_equal(found, [False, True, False])
    found = LabelMemory(START).shifted(np.array([1, 2]), now[[1, 2]], "label_blind", 0.2)
    np.testing.assert_array_equal(found, [True, False])
    assert LabelMemory(START).shifted(np.zeros(0, np.int64), START[:0], "label_blind", 0.2).shape == (0,)


def test_the_counts_that_are_given_may_change_afterwards() -> None:
    counts = START.astype(np.int32)
    memory = LabelMemory(counts)
    counts[:] = 0
    assert blind(memory, START, threshold=0.0) == [False, False, False]


def test_another_memory_goes_on_from_its_arrays() -> None:
    memory, now = LabelMemory(START), START // 2
    memory.note(np.array([0]), now[[0]])
    other = LabelMemory(START)
    other.restore(memory.arrays())
    assert blind(other, now) == blind(memory, now) == [False, True, True]
    other.note(ALL, now)
    assert blind(memory, now) == [False, True, True], "they share nothing"


def test_arrays_are_copies_of_the_stored_counts() -> None:
    memory, now = LabelMemory(START), START // 2
    kept = memory.arrays()
    memory.note(ALL, now)
    memory.restore(kept)
    assert blind(memory, now) == [True, True, True]


def test_an_unknown_test() -> None:
    with pytest.raises(MethodError, match="must be one of label_blind, label_aware, got 'label_deaf'"):
        LabelMemory(START).shifted(ALL, START, "label_deaf", 0.2)
