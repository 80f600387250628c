"""Small histories worked by hand, and rules for any history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.core.method import UNASSIGNED
from fedkin.run.metrics.clustering import ClusterMetrics, GroundTruth, summary


@dataclass
class History:
    """Tells a watch of round after round, from round 0 on."""

    clients: int

    def __post_init__(self) -> None:
        self.metrics = ClusterMetrics(self.clients)
        self.round = -1
        self.records = []

    def then(
        self,
        assignment: Sequence[int],
        true_clusters: Sequence[int] = (),
        shifted: Sequence[int] = (),
        detected: Sequence[int] | None = (),
        placed: Sequence[int] | None = None,
        gone: Sequence[int] = (),
    ) -> dict[str, Any]:
        """The measures of the next round. Clients that shifted, detected a shift or are gone
        are ids. Clients that detected a shift are placed again unless ``placed`` says otherwise."""
        self.round += 1
        placed = detected if placed is None else placed
        ids = np.arange(self.clients)
        truth = GroundTruth(
            np.array(true_clusters) if len(true_clusters) else None, np.isin(ids, shifted)
        )
        reachable = np.setdiff1d(ids, gone)
        detections = None if detected is None else np.isin(ids, detected)
        self.records.append(
            self.metrics.record(
                round=self.round,
                assignment=np.array(assignment),
                reachable=reachable,
                truth=truth,
                detected=detections,
                placed=np.isin(ids, placed or ()),
            )
        )
        return self.records[-1]


def of(record: dict[str, Any], *names: str) -> list[Any]:
    return [record[name] for name in names]


MOVES = (
    "data_shifts",
    "data_shifts_new",
    "shifts_detected",
    "shifts_detected_true",
    "detection_delay_sum",
)
NEWCOMERS = ("newcomers_matched", "newcomer_delay_sum")
ANSWERS = ("true_cluster_changes", "changes_recovered", "recovery_delay_sum")
MIGRATIONS = ("migrations", "migrations_correct")


def swapped() -> History:
    """Clients 2 and 3 exchange their data in round 1; client 2 notices in round 3 and goes over,
    client 3 never."""
    history = History(6)
    history.then([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1])
    history.then([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1], shifted=[2, 3])
    history.then([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1])
    history.then([0, 0, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1], detected=[2])
    return history


def test_a_swap_that_one_of_two_notices_two_rounds_later() -> None:
    before, swap, between, answer = swapped().records
    assert of(before, *MOVES, *ANSWERS, *MIGRATIONS) == [0] * 10
    assert of(before, "matched_share", "mismatched", "stability") == [1.0, 0, None]
    assert of(swap, *MOVES) == [2, 2, 0, 0, 0]
    assert of(swap, *ANSWERS, *MIGRATIONS) == [2, 0, 0, 0, 0]
    assert of(swap, "matched_share", "mismatched", "stability") == [4 / 6, 2, 1.0]
    assert of(between, *MOVES, *ANSWERS, *MIGRATIONS) == [0] * 10
    assert of(answer, *MOVES) == [0, 0, 1, 1, 2]
    assert of(answer, *ANSWERS, *MIGRATIONS) == [0, 1, 2, 1, 1]
    assert of(answer, "matched_share", "mismatched") == [5 / 6, 1]
    # Pairs together: 6 before, 7 after, 4 both times, of 15: (4 - 42 / 15) / (13 / 2 - 42 / 15).
    assert answer["stability"] == pytest.approx(12 / 37, abs=1e-15)


def test_the_summary_of_that_swap() -> None:
    history = swapped()
    history.then([0, 0, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1], detected=[0, 1])  # for no reason
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
    assert of(history.then([0, 0], shifted=[1]), *MOVES) == [1, 1, 0, 0, 0]
    assert of(history.then([0, 0]), *MOVES) == [0, 0, 0, 0, 0]
    assert of(history.then([0, 0], shifted=[0, 1]), *MOVES) == [2, 1, 0, 0, 0]
    assert of(history.then([0, 0], detected=[1]), *MOVES) == [0, 0, 1, 1, 3]
    assert of(history.then([0, 0], shifted=[1], detected=[1]), *MOVES) == [1, 1, 1, 1, 0]
    assert of(history.then([0, 0], detected=[1]), *MOVES) == [0, 0, 1, 0, 0]
    assert of(summary(history.records), "shift_precision", "shift_recall", "shift_delay") == [
        2 / 3,
        2 / 3,
        3 / 2,
    ]


def test_assigned_shifts_are_those_of_clients_with_a_cluster() -> None:
    """Client 1 is only placed in the round in which it moves, client 2 is cold,
    client 3 is gone."""
    history = History(4)
    history.then([0, UNASSIGNED, UNASSIGNED, 0])
    record = history.then([0, 0, UNASSIGNED, 0], shifted=[0, 1, 2, 3], gone=[3])
    assert of(record, "data_shifts", "data_shifts_assigned", "data_shifts_new") == [3, 1, 1]
    assert of(
        history.then([0, 0, UNASSIGNED, 0], shifted=[0, 1]),
        "data_shifts",
        "data_shifts_assigned",
        "data_shifts_new",
    ) == [2, 2, 1]


def test_a_method_that_does_not_ask_notices_nothing_and_is_charged_nothing() -> None:
    history = History(2)
    history.then([0, 0], detected=None)
    record = history.then([0, 0], shifted=[0, 1], detected=None)
    assert of(record, *MOVES, "data_shifts_assigned") == [2, 2, None, None, None, 2]
    assert of(summary(history.records), "shift_precision", "shift_recall", "shift_delay") == [
        None,
        None,
        None,
    ]
    # In the round in which it asks, the wait of client 1 that began before is found to have lasted
    # one round.
    assert of(history.then([0, 0], detected=[1]), *MOVES) == [0, 0, 1, 1, 1]


def test_one_that_notices_and_gets_no_answer_is_counted_once() -> None:
    history = History(1)
    history.then([0])
    assert of(history.then([0], shifted=[0], detected=[0], placed=[]), *MOVES) == [1, 1, 1, 1, 0]
    assert of(history.then([0], detected=[0], placed=[]), *MOVES) == [0, 0, 0, 0, 0]
    assert of(history.then([0], shifted=[0], detected=[0], placed=[]), *MOVES) == [1, 0, 0, 0, 0]
    assert of(history.then([0], detected=[0], placed=[0]), *MOVES) == [0, 0, 0, 0, 0]
    assert of(history.then([0], shifted=[0], detected=[0]), *MOVES) == [1, 1, 1, 1, 0]


def test_a_wait_ends_without_a_notice_when_the_client_is_placed_again() -> None:
    history = History(2)
    history.then([0, 0])
    assert of(history.then([0, 0], shifted=[0, 1]), *MOVES) == [2, 2, 0, 0, 0]
    assert of(history.then([0, 0], placed=[0]), *MOVES) == [0, 0, 0, 0, 0]
    assert of(history.then([0, 0], detected=[0, 1]), *MOVES) == [0, 0, 2, 1, 2]


def test_a_migration_into_the_wrong_cluster_answers_nothing() -> None:
    history = History(7)
    true_clusters = [0, 0, 0, 1, 1, 2, 2]
    history.then(true_clusters, true_clusters)
    changed = [0, 0, 2, 1, 1, 2, 2]
    assert of(history.then([0, 0, 1, 1, 1, 2, 2], changed), *MIGRATIONS, *ANSWERS) == [
        1,
        0,
        1,
        0,
        0,
    ]
    assert of(history.then([0, 0, 2, 1, 1, 2, 2], changed), *MIGRATIONS, *ANSWERS) == [
        1,
        1,
        0,
        1,
        1,
    ]
    assert of(history.then([0, 0, 1, 1, 1, 2, 2], changed), *MIGRATIONS, "mismatched") == [1, 0, 1]
    # It sits right for the second time: that answers nothing any more.
    assert of(history.then([0, 0, 2, 1, 1, 2, 2], changed), *MIGRATIONS, *ANSWERS) == [
        1,
        1,
        0,
        0,
        0,
    ]
    assert of(
        summary(history.records), "migration_precision", "migration_recall", "migration_delay"
    ) == [0.5, 1.0, 1.0]


def test_a_kind_that_changes_twice_is_two_events_and_one_answer() -> None:
    history = History(7)
    homes = [0, 0, 1, 1, 2, 2]
    history.then([*homes, 0], [*homes, 0])
    assert of(history.then([*homes, 0], [*homes, 1]), *ANSWERS) == [1, 0, 0]
    assert of(history.then([*homes, 0], [*homes, 1]), *ANSWERS) == [0, 0, 0]
    assert of(history.then([*homes, 0], [*homes, 2]), *ANSWERS) == [1, 0, 0]
    assert of(history.then([*homes, 2], [*homes, 2]), *ANSWERS) == [0, 1, 1]
    assert of(summary(history.records), "migration_recall", "migration_delay") == [0.5, 1.0]


def test_a_change_that_asks_for_nothing_is_answered_at_once() -> None:
    history = History(4)
    history.then([0, 0, 0, 0], [0, 0, 1, 1])
    assert of(history.then([0, 0, 0, 0], [0, 1, 1, 1]), *ANSWERS, "matched_share") == [
        1,
        1,
        0,
        3 / 4,
    ]


def test_a_split_counts_the_clients_that_get_the_new_id() -> None:
    history = History(5)
    true_clusters = [0, 0, 0, 1, 1]
    assert of(history.then([0, 0, 0, 0, 0], true_clusters), "matched_share", "mismatched") == [
        3 / 5,
        2,
    ]
    assert of(history.then([0, 0, 0, 1, 1], true_clusters), *MIGRATIONS, "stability") == [2, 2, 0.0]
    assert of(history.then([0, 0, 2, 1, 1], true_clusters), *MIGRATIONS, "mismatched") == [1, 0, 1]


@pytest.mark.parametrize(
    ("assignment", "true_clusters", "right"),
    [
        ([0] * 10, [0, 1, 1, 2, 2, 2, 3, 3, 3, 3], 4),  # one cluster is right for one kind only
        ([0] * 4, [6] * 4, 4),
        (
            [3, 3, 2, 1, 0, UNASSIGNED],
            [7, 7, 7, 5, 5, 5],
            3,
        ),  # kind 7 is at home in 3, kind 5 in 0 or in 1
        (
            [0, 0, 0, 0, 0, 1],
            [5, 5, 5, 7, 7, 7],
            4,
        ),  # most of both sit in 0: kind 7 has to make do with 1
        (
            [0, 0, 0, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 0, 1, 1, 1],
            5,
        ),  # kind 0 gives way, though most of it sit in 0
        ([0, 0, 1, 1, 2], [4, 4, 4, 4, 4], 2),  # one home only, where clusters are more than kinds
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3], 4),  # kinds 1 and 3 have no home
    ],
)
def test_every_kind_has_at_most_one_home_and_every_cluster_is_home_to_at_most_one(
    assignment: list[int], true_clusters: list[int], right: int
) -> None:
    sitting = len(assignment) - assignment.count(UNASSIGNED)
    record = History(len(assignment)).then(assignment, true_clusters)
    assert of(record, "matched_share", "mismatched") == [right / sitting, sitting - right]


def test_a_newcomer_that_settles_late() -> None:
    history = History(5)
    true_clusters = [0, 0, 1, 1, 1]
    assert of(
        history.then([0, 0, 1, 1, UNASSIGNED], true_clusters),
        *NEWCOMERS,
        "matched_share",
        "mismatched",
    ) == [4, 0, 1.0, 0]
    # Its data move before it has a cluster, and in the round in which it gets one: nothing that it
    # could notice.
    assert of(
        history.then([0, 0, 1, 1, UNASSIGNED], true_clusters, shifted=[4]),
        "data_shifts",
        "data_shifts_new",
    ) == [1, 0]
    placed = history.then([0, 0, 1, 1, 0], true_clusters, shifted=[4], detected=[4])
    assert of(placed, "migrations", "stability") == [0, 1.0]
    assert of(placed, *NEWCOMERS, *MOVES) == [0, 0, 1, 0, 1, 0, 0]
    assert of(history.then([0, 0, 1, 1, 0], true_clusters), *NEWCOMERS, "mismatched") == [0, 0, 1]
    settled = history.then([0, 0, 1, 1, 1], true_clusters)
    assert of(settled, *NEWCOMERS, *MIGRATIONS, *ANSWERS) == [1, 2, 1, 1, 0, 0, 0]
    assert summary(history.records)["newcomer_delay"] == 2 / 5


def test_a_kind_that_changes_without_a_cluster_is_no_event() -> None:
    history = History(3)
    history.then([0, 1, UNASSIGNED], [0, 1, 0])
    assert of(history.then([0, 1, 1], [0, 1, 1]), *ANSWERS, "newcomers_matched") == [0, 0, 0, 1]


def test_a_client_that_loses_its_cluster_is_a_newcomer_again_and_owes_nothing() -> None:
    history = History(5)
    true_clusters = [0, 0, 1, 1, 1]
    history.then([0, 0, 1, 1, 0], [0, 0, 1, 1, 0])
    assert of(
        history.then([0, 0, 1, 1, 0], true_clusters, shifted=[4]),
        "data_shifts_new",
        "true_cluster_changes",
    ) == [1, 1]
    lost = history.then([0, 0, 1, 1, UNASSIGNED], true_clusters)
    assert of(lost, "migrations", "stability", "mismatched") == [0, 1.0, 0]
    back = history.then([0, 0, 1, 1, 1], true_clusters, detected=[4])
    assert of(back, "shifts_detected_true", "changes_recovered") == [0, 0]
    assert of(back, "newcomers_matched", "migrations") == [1, 0]


def test_clients_that_are_gone_count_for_nothing() -> None:
    history = History(5)
    history.then([0, 0, 1, 1, 1], [0, 0, 1, 1, 1])
    record = history.then([0, 0, 1, 0, 0], [0, 0, 1, 0, 0], shifted=[3, 4], gone=[3, 4])
    assert of(record, *MOVES, *ANSWERS, *MIGRATIONS) == [0] * 10
    assert of(record, "matched_share", "mismatched", "stability") == [1.0, 0, 1.0]


def test_unknown_values_are_null() -> None:
    unknown = ClusterMetrics(2).record(
        round=0,
        assignment=np.array([0, UNASSIGNED]),
        reachable=np.arange(2),
        truth=GroundTruth(),
        detected=np.array([True, False]),
        placed=np.zeros(2, bool),
    )
    assert {name: value for name, value in unknown.items() if value is not None} == {
        "migrations": 0,
        "shifts_detected": 1,
    }
    known = History(2).then([0, UNASSIGNED], [0, 0])
    assert list(unknown) == list(known)
    empty = summary([unknown])
    assert empty.pop("migrations") == 0
    assert set(empty.values()) == {None}


def test_no_client_with_a_cluster() -> None:
    record = History(3).then([UNASSIGNED] * 3, [0, 1, 1], shifted=[0])
    assert of(record, "matched_share", "stability") == [None, None]
    assert of(record, "mismatched", "data_shifts", "data_shifts_new") == [0, 1, 0]
    assert of(record, *ANSWERS) == [0, 0, 0]


def wild(seed: int, rounds: int = 12, clients: int = 40) -> Iterator[tuple[Any, ...]]:
    """Rounds in which true clusters change, clients come and go, err and detect shifts; most are in
    the cluster with their true cluster's id."""
    rng = np.random.default_rng(seed)
    true_clusters = rng.integers(0, 3, clients)
    for round in range(rounds):
        moved = rng.random(clients) < 0.2
        true_clusters = np.where(moved, rng.integers(0, 3, clients), true_clusters)
        assignment = np.where(rng.random(clients) < 0.2, rng.integers(0, 5, clients), true_clusters)
        assignment[rng.random(clients) < 0.1] = UNASSIGNED
        yield (
            round,
            assignment,
            np.flatnonzero(rng.random(clients) < 0.9),
            GroundTruth(true_clusters, moved),
            rng.random(clients) < 0.3 if round % 4 else None,
            rng.random(clients) < 0.3,
        )


@pytest.mark.parametrize("seed", range(3))
def test_ids_of_clusters_mean_nothing(seed: int) -> None:
    one = ClusterMetrics(40)
    other = ClusterMetrics(40)
    names = np.array([4, 2, 0, 3, 1, UNASSIGNED])
    for round, assignment, *rest in wild(seed):
        assert one.record(round, assignment, *rest) == other.record(round, names[assignment], *rest)


@pytest.mark.parametrize("stop", range(12))
def test_resumed_metrics_measure_the_same(stop: int) -> None:
    whole = ClusterMetrics(40)
    before = ClusterMetrics(40)
    records = [whole.record(*measured) for measured in wild(0)]
    for measured in list(wild(0))[: stop + 1]:
        before.record(*measured)
    memory = before.memory()
    for measured in list(wild(0))[stop + 1 :]:
        before.record(*measured)  # the kept record is a copy
    # Two: going on does not change the kept record either.
    for after in (
        ClusterMetrics(40),
        ClusterMetrics(40),
    ):
        after.recall(memory | {"labels": np.zeros(3)})
        rest = [after.record(*measured) for measured in list(wild(0))[stop + 1 :]]
        assert [json.dumps(r, allow_nan=False) for r in rest] == [
            json.dumps(r) for r in records[stop + 1 :]
        ]
    assert all(
        name.startswith("cluster_metrics_") and len(array) == 40 for name, array in memory.items()
    )


def test_a_memory_without_metrics_is_a_new_beginning() -> None:
    resumed = ClusterMetrics(40)
    resumed.recall({"labels": np.zeros(3)})
    assert [resumed.record(*measured) for measured in wild(1)] == [
        fresh.record(*measured) for fresh in [ClusterMetrics(40)] for measured in wild(1)
    ]
