"""First tainted rounds, against vectors worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fedkin.removal.taint import (
    NEVER,
    RoundTraces,
    copies_between_all,
    first_tainted_rounds,
    replay_starts,
    rounds_to_replay,
)

ORACLE = Path(__file__).resolve().parents[1] / "oracles" / "production.json"
VECTORS = json.loads(ORACLE.read_text())["leave_and_replay"]


def trace(entry: dict) -> RoundTraces:
    """A round of the vectors."""
    cluster = entry["leaver_trains_in"]
    return RoundTraces(
        entry["round"],
        trained_in=() if cluster is None else (cluster,),
        copies=tuple((source, target) for source, target in entry["copies"]),
    )


def test_vectors() -> None:
    traces = [trace(entry) for entry in VECTORS["rounds"]]
    first = first_tainted_rounds(traces, VECTORS["clusters"])
    assert first.tolist() == VECTORS["first_tainted_round"]
    replayed = rounds_to_replay(first, len(traces))
    assert replayed.tolist() == VECTORS["rounds_to_replay"]


def test_a_copy_of_an_untouched_model_taints_nothing() -> None:
    traces = [RoundTraces(1, copies=((1, 0),)), RoundTraces(2, trained_in=(1,))]
    assert first_tainted_rounds(traces, 2).tolist() == [NEVER, 2]


def test_copies_follow_each_other_within_a_round() -> None:
    chain = RoundTraces(3, trained_in=(0,), copies=((0, 1), (1, 2)))
    assert first_tainted_rounds([chain], 3).tolist() == [3, 3, 3]
    # In the other order, cluster 2 is copied from cluster 1 before that is tainted.
    reverse = RoundTraces(3, trained_in=(0,), copies=((1, 2), (0, 1)))
    assert first_tainted_rounds([reverse], 3).tolist() == [3, 3, NEVER]


def test_unknown_copies_taint_all_only_after_a_tainted_one() -> None:
    assert copies_between_all(2) == ((0, 1), (1, 0))
    split = RoundTraces(5, copies=copies_between_all(3))
    assert first_tainted_rounds([split], 3).tolist() == [NEVER] * 3
    before = RoundTraces(2, trained_in=(0,))
    assert first_tainted_rounds([before, split], 3).tolist() == [2, 5, 5]


def test_a_cluster_tainted_at_the_start_repeats_all_rounds() -> None:
    assert rounds_to_replay(np.array([0, 1, NEVER]), 7).tolist() == [7, 7, 0]


def test_a_replay_begins_at_the_last_stored_round_before_the_first_tainted_one() -> None:
    first = np.array([0, 1, 4, 5, 9, NEVER])
    # The model of round 4 holds the client already, so round 4 begins from round 2.
    assert replay_starts(first, kept=[2, 4, 8], rounds=10).tolist() == [0, 0, 2, 4, 8, 10]
    assert replay_starts(first, kept=[], rounds=10).tolist() == [0, 0, 0, 0, 0, 10]
