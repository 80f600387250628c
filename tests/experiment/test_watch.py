"""Small histories worked by hand, and what must hold for any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.experiment.watch import Scene, Watch, summary
from fedkin.method import COLD


@dataclass
class History:
    """Tells a watch of round after round, from round 0 on."""

    clients: int

    def __post_init__(self) -> None:
        self.watch, self.round, self.records = Watch(self.clients), -1, []

    def then(
        self,
        assignment: Sequence[int],
        truth: Sequence[int] = (),
        moved: Sequence[int] = (),
        noticed: Sequence[int] = (),
        gone: Sequence[int] = (),
    ) -> dict[str, Any]:
        """What is measured in the next round; whose data moved, who noticed and who is gone are ids."""
        self.round += 1
        ids = np.arange(self.clients)
        scene = Scene(np.array(truth) if len(truth) else None, np.isin(ids, moved))
        there = np.setdiff1d(ids, gone)
        self.records.append(self.watch.look(self.round, np.array(assignment), there, scene, np.isin(ids, noticed)))
        return self.records[-1]


def of(record: dict[str, Any], *names: str) -> list[Any]:
    return [record[name] for name in names]


MOVES = ("moved", "moved_fresh", "noticed", "noticed_moved", "notice_delay_sum")
ANSWERS = ("events", "answered", "answer_delay_sum")
MIGRATIONS = ("migrations", "migrations_right")


def swapped() -> History:
    """Clients 2 and 3 exchange their data in round 1; client 2 notices in round 3 and goes over, client 3 never."""
    history = History(6)
    history.then([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1])
    history.then([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1], moved=[2, 3])
    history.then([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1])
    history.then([0, 0, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1], noticed=[2])
    return history


def test_a_swap_that_one_of_two_notices_two_rounds_later() -> None:
    before, swap, between, answer = swapped().records
    assert of(before, *MOVES, *ANSWERS, *MIGRATIONS) == [0] * 10
    assert of(before, "right", "astray", "stability") == [1.0, 0, None]
    assert of(swap, *MOVES) == [2, 2, 0, 0, 0]
    assert of(swap, *ANSWERS, *MIGRATIONS) == [2, 0, 0, 0, 0]
    assert of(swap, "right", "astray", "stability") == [4 / 6, 2, 1.0]
    assert of(between, *MOVES, *ANSWERS, *MIGRATIONS) == [0] * 10
    assert of(answer, *MOVES) == [0, 0, 1, 1, 2]
    assert of(answer, *ANSWERS, *MIGRATIONS) == [0, 1, 2, 1, 1]
    assert of(answer, "right", "astray") == [5 / 6, 1]
    # Pairs together: 6 before, 7 after, 4 both times, of 15: (4 - 42 / 15) / (13 / 2 - 42 / 15).
    assert answer["stability"] == pytest.approx(12 / 37, abs=1e-15)


def test_the_summary_of_that_swap() -> None:
    history = swapped()
    history.then([0, 0, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1], noticed=[0, 1])  # for no reason
    assert summary(history.records) == {
        "migrations": 1,
        "stability": pytest.approx((3 + 12 / 37) / 4, abs=1e-15),
        "shift_precision": 1 / 3,
        "shift_recall": 1 / 2,
        "shift_delay": 2.0,
        "migration_precision": 1.0,
        "migration_recall": 1 / 2,
        "migration_delay": 2.0,
        "newcomer_delay": 0.0,
    }


def test_several_moves_before_a_notice_are_one() -> None:
    history = History(2)
    assert of(history.then([0, 0]), *MOVES) == [0, 0, 0, 0, 0]
    assert of(history.then([0, 0], moved=[1]), *MOVES) == [1, 1, 0, 0, 0]
    assert of(history.then([0, 0]), *MOVES) == [0, 0, 0, 0, 0]
    assert of(history.then([0, 0], moved=[0, 1]), *MOVES) == [2, 1, 0, 0, 0]
    assert of(history.then([0, 0], noticed=[1]), *MOVES) == [0, 0, 1, 1, 3]
    assert of(history.then([0, 0], moved=[1], noticed=[1]), *MOVES) == [1, 1, 1, 1, 0]
    assert of(history.then([0, 0], noticed=[1]), *MOVES) == [0, 0, 1, 0, 0]
    assert of(summary(history.records), "shift_precision", "shift_recall", "shift_delay") == [2 / 3, 2 / 3, 3 / 2]


def test_a_migration_into_the_wrong_cluster_answers_nothing() -> None:
    history, truth = History(7), [0, 0, 0, 1, 1, 2, 2]
    history.then(truth, truth)
    changed = [0, 0, 2, 1, 1, 2, 2]
    assert of(history.then([0, 0, 1, 1, 1, 2, 2], changed), *MIGRATIONS, *ANSWERS) == [1, 0, 1, 0, 0]
    assert of(history.then([0, 0, 2, 1, 1, 2, 2], changed), *MIGRATIONS, *ANSWERS) == [1, 1, 0, 1, 1]
    assert of(history.then([0, 0, 1, 1, 1, 2, 2], changed), *MIGRATIONS, "astray") == [1, 0, 1]
    # It sits right for the second time: that answers nothing any more.
    assert of(history.then([0, 0, 2, 1, 1, 2, 2], changed), *MIGRATIONS, *ANSWERS) == [1, 1, 0, 0, 0]
    assert of(summary(history.records), "migration_precision", "migration_recall", "migration_delay") == [0.5, 1.0, 1.0]


def test_a_kind_that_changes_twice_is_two_events_and_one_answer() -> None:
    history, homes = History(7), [0, 0, 1, 1, 2, 2]
    history.then([*homes, 0], [*homes, 0])
    assert of(history.then([*homes, 0], [*homes, 1]), *ANSWERS) == [1, 0, 0]
    assert of(history.then([*homes, 0], [*homes, 1]), *ANSWERS) == [0, 0, 0]
    assert of(history.then([*homes, 0], [*homes, 2]), *ANSWERS) == [1, 0, 0]
    assert of(history.then([*homes, 2], [*homes, 2]), *ANSWERS) == [0, 1, 1]
    assert of(summary(history.records), "migration_recall", "migration_delay") == [0.5, 1.0]


def test_a_change_that_asks_for_nothing_is_answered_at_once() -> None:
    history = History(4)
    history.then([0, 0, 0, 0], [0, 0, 1, 1])
    assert of(history.then([0, 0, 0, 0], [0, 1, 1, 1]), *ANSWERS, "right") == [1, 1, 0, 1.0]


def test_a_split_counts_the_clients_that_get_the_new_id() -> None:
    history, truth = History(4), [0, 0, 1, 1]
    assert of(history.then([0, 0, 0, 0], truth), "right", "astray") == [1.0, 0]
    assert of(history.then([0, 0, 1, 1], truth), *MIGRATIONS, "stability") == [2, 2, 0.0]
    assert of(history.then([0, 2, 1, 1], truth), *MIGRATIONS, "astray") == [1, 0, 1]


def test_a_home_is_where_most_of_a_kind_sit_and_the_lowest_of_equals() -> None:
    record = History(6).then([3, 3, 2, 1, 0, COLD], [7, 7, 7, 5, 5, 5])
    assert of(record, "right", "astray") == [3 / 5, 2]  # kind 7 is at home in 3, kind 5 in 0


def test_a_newcomer_that_settles_late() -> None:
    history, truth, names = History(5), [0, 0, 1, 1, 1], ("newcomers_settled", "newcomer_delay_sum")
    assert of(history.then([0, 0, 1, 1, COLD], truth), *names, "right", "astray") == [4, 0, 1.0, 0]
    # Its data move before it has a cluster, and in the round in which it gets one: nothing that it could notice.
    assert of(history.then([0, 0, 1, 1, COLD], truth, moved=[4]), "moved", "moved_fresh") == [1, 0]
    placed = history.then([0, 0, 1, 1, 0], truth, moved=[4], noticed=[4])
    assert of(placed, "migrations", "stability", *names, *MOVES) == [0, 1.0, 0, 0, 1, 0, 1, 0, 0]
    assert of(history.then([0, 0, 1, 1, 0], truth), *names, "astray") == [0, 0, 1]
    settled = history.then([0, 0, 1, 1, 1], truth)
    assert of(settled, *names, *MIGRATIONS, *ANSWERS) == [1, 2, 1, 1, 0, 0, 0]
    assert summary(history.records)["newcomer_delay"] == 2 / 5


def test_a_kind_that_changes_without_a_cluster_is_no_event() -> None:
    history = History(3)
    history.then([0, 1, COLD], [0, 1, 0])
    assert of(history.then([0, 1, 1], [0, 1, 1]), *ANSWERS, "newcomers_settled") == [0, 0, 0, 1]


def test_who_loses_its_cluster_is_a_newcomer_again_and_owes_nothing() -> None:
    history, truth = History(5), [0, 0, 1, 1, 1]
    history.then([0, 0, 1, 1, 0], [0, 0, 1, 1, 0])
    assert of(history.then([0, 0, 1, 1, 0], truth, moved=[4]), "moved_fresh", "events") == [1, 1]
    lost = history.then([0, 0, 1, 1, COLD], truth)
    assert of(lost, "migrations", "stability", "astray") == [0, 1.0, 0]
    back = history.then([0, 0, 1, 1, 1], truth, noticed=[4])
    assert of(back, "noticed_moved", "answered", "newcomers_settled", "migrations") == [0, 0, 1, 0]


def test_clients_that_are_gone_count_for_nothing() -> None:
    history = History(5)
    history.then([0, 0, 1, 1, 1], [0, 0, 1, 1, 1])
    record = history.then([0, 0, 1, 0, 0], [0, 0, 1, 0, 0], moved=[3, 4], gone=[3, 4])
    assert of(record, *MOVES, *ANSWERS, *MIGRATIONS) == [0] * 10
    assert of(record, "right", "astray", "stability") == [1.0, 0, 1.0]


def test_what_nobody_knows_is_null() -> None:
    unknown = Watch(2).look(0, np.array([0, COLD]), np.arange(2), Scene(), np.array([True, False]))
    assert {name: value for name, value in unknown.items() if value is not None} == {"migrations": 0, "noticed": 1}
    known = History(2).then([0, COLD], [0, 0])
    assert list(unknown) == list(known)
    empty = summary([unknown])
    assert empty.pop("migrations") == 0
    assert set(empty.values()) == {None}


def test_nobody_with_a_cluster() -> None:
    record = History(3).then([COLD] * 3, [0, 1, 1], moved=[0])
    assert of(record, "right", "stability") == [None, None]
    assert of(record, "astray", "moved", "moved_fresh", *ANSWERS) == [0, 1, 0, 0, 0, 0]


def wild(seed: int, rounds: int = 12, clients: int = 40) -> Iterator[tuple[Any, ...]]:
    """Rounds in which kinds change, clients come and go, err and notice; most sit in the cluster of their kind's id."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, clients)
    for round in range(rounds):
        moved = rng.random(clients) < 0.2
        truth = np.where(moved, rng.integers(0, 3, clients), truth)
        assignment = np.where(rng.random(clients) < 0.2, rng.integers(0, 5, clients), truth)
        assignment[rng.random(clients) < 0.1] = COLD
        yield (
            round,
            assignment,
            np.flatnonzero(rng.random(clients) < 0.9),
            Scene(truth, moved),
            rng.random(clients) < 0.3,
        )


@pytest.mark.parametrize("seed", range(3))
def test_ids_of_clusters_mean_nothing(seed: int) -> None:
    one, other, names = Watch(40), Watch(40), np.array([4, 2, 0, 3, 1, COLD])
    for round, assignment, *rest in wild(seed):
        assert one.look(round, assignment, *rest) == other.look(round, names[assignment], *rest)


@pytest.mark.parametrize("stop", range(12))
def test_a_resumed_watch_measures_the_same(stop: int) -> None:
    whole, before = Watch(40), Watch(40)
    records = [whole.look(*look) for look in wild(0)]
    for look in list(wild(0))[: stop + 1]:
        before.look(*look)
    memory = before.memory()
    for look in list(wild(0))[stop + 1 :]:
        before.look(*look)  # what was kept is a copy
    for after in (Watch(40), Watch(40)):  # two: going on changes nothing in what was kept either
        after.recall(memory | {"labels": np.zeros(3)})
        rest = [after.look(*look) for look in list(wild(0))[stop + 1 :]]
        assert [json.dumps(r, allow_nan=False) for r in rest] == [json.dumps(r) for r in records[stop + 1 :]]
    assert all(name.startswith("watch_") and len(array) == 40 for name, array in memory.items())


def test_a_memory_without_a_watch_is_a_new_beginning() -> None:
    resumed = Watch(40)
    resumed.recall({"labels": np.zeros(3)})
    assert [resumed.look(*look) for look in wild(1)] == [fresh.look(*look) for fresh in [Watch(40)] for look in wild(1)]
