"""Requests, buffers and steps of asynchronous clusters, against the vectors of
``production.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.options.asynchronous.buffer_rule import BufferRule
from fedkin.options.asynchronous.progress import BufferProgress
from fedkin.options.asynchronous.requests import Requests

ORACLE = Path(__file__).parents[2] / "oracles" / "production.json"
VECTORS = json.loads(ORACLE.read_text())["buffered"]
TOLERANCE = VECTORS["tolerance"]


def rule(**changed: Any) -> BufferRule:
    numbers = {"buffer": VECTORS["buffer"], "exponent": 0.5, "max_staleness": 3}
    return BufferRule(**{**numbers, "lr": VECTORS["server_rate"], **changed})


def request(progress: BufferProgress, client: int, cluster: int) -> Requests:
    """A request whose update is not known yet."""
    return Requests(
        client=np.array([client]),
        cluster=np.array([cluster]),
        version=progress.versions[[cluster]],
        models=np.array([2]),
        examples=np.array([1]),
        buffered=np.array([False]),
        time=np.zeros(1),
        update=np.zeros((1, 2)),
        numbers=np.zeros((1, 0)),
    )


def played(rule: BufferRule) -> tuple[BufferProgress, np.ndarray]:
    """The progress and the models after all events, each of which is compared."""
    progress = BufferProgress.begin(2)
    models = np.array(VECTORS["start"])
    for event in VECTORS["events"]:
        client = event["client"]
        requests = progress.requests
        if event["event"] == "send":
            assert event["version"] == progress.versions[event["cluster"]]
            sent = request(progress, client, event["cluster"])
            progress.requests = requests.and_others(sent)
            continue
        waiting = np.flatnonzero((requests.client == client) & ~requests.buffered)
        row = int(waiting[0])
        requests.update[row] = event["update"]
        cluster = int(requests.cluster[row])
        staleness = progress.versions[cluster] - requests.version[row]
        used = progress.arrive(row, event["cluster_now"], rule)
        assert used == event["used"]
        if used:
            assert staleness == event["staleness"]
            assert rule.scale(np.array([staleness])) == pytest.approx(event["scale"], abs=TOLERANCE)
        if progress.held(cluster) < rule.buffer:
            assert "flush" not in event
            continue
        step, weight = progress.step(progress.take(cluster), rule)
        models = models + step
        assert event["flush"]["cluster"] == cluster
        assert event["flush"]["version"] == progress.versions[cluster]
        assert weight[cluster] == rule.buffer
        np.testing.assert_allclose(models[cluster], event["flush"]["model"], atol=TOLERANCE)
    return progress, models


def test_the_events_of_two_clusters() -> None:
    progress, models = played(rule())
    np.testing.assert_allclose(models, VECTORS["end"], atol=TOLERANCE)
    assert progress.versions.tolist() == VECTORS["versions"]
    assert [progress.held(0), progress.held(1)] == VECTORS["left_in_buffer"]
    events = [event for event in VECTORS["events"] if event["event"] == "reply"]
    used = sum(event["used"] for event in events)
    left = sum(VECTORS["left_in_buffer"])
    assert progress.counts.tolist() == [used - left, len(events) - used]


@pytest.mark.parametrize("wrong", [{"exponent": 0.0}, {"exponent": 1.0}, {"lr": 0.5}])
def test_other_formulas_differ_from_the_vector(wrong: dict[str, float]) -> None:
    with pytest.raises(AssertionError):
        played(rule(**wrong))


def test_one_buffer_with_four_kinds_of_staleness() -> None:
    """The divisor is 4, the number of updates, and not the sum of the factors."""
    one = VECTORS["one_flush"]
    staleness = np.array(one["staleness"])
    step, _ = rule(lr=one["server_rate"]).step(
        update=np.array(one["updates"]),
        staleness=staleness,
        examples=np.ones(4, np.int64),
        cluster=np.zeros(4, np.int64),
        clusters=1,
    )
    np.testing.assert_allclose(one["model"] + step[0], one["after"], atol=TOLERANCE)
    scale = (1.0 + staleness) ** -0.5
    by_factors = one["server_rate"] * (scale @ np.array(one["updates"])) / scale.sum()
    assert np.abs(by_factors - one["after"]).max() > 0.01


def test_samples_weigh_updates_and_stale_ones_keep_their_weight() -> None:
    """By hand: (1 * 4 + 3 * 8 / 2) / 4 with staleness 0 and 3."""
    step, weight = rule().step(
        update=np.array([[4.0], [8.0]]),
        staleness=np.array([0, 3]),
        examples=np.array([1, 3]),
        cluster=np.array([1, 1]),
        clusters=2,
    )
    assert step.tolist() == [[0.0], [4.0]]
    assert weight.tolist() == [0.0, 4.0]


def test_a_reply_that_is_too_stale_is_dropped() -> None:
    progress = BufferProgress.begin(2)
    progress.requests = request(progress, client=5, cluster=1)
    progress.versions[1] = 4
    assert not progress.arrive(0, 1, rule())
    assert len(progress.requests) == 0
    assert progress.counts.tolist() == [0, 1]


def test_another_number_of_models_drops_requests() -> None:
    progress = BufferProgress.begin(2)
    progress.requests = request(progress, client=5, cluster=1)
    progress.versions[1] = 4
    progress.match_models(2)
    assert len(progress.requests) == 1
    progress.match_models(3)
    assert len(progress.requests) == 0
    assert progress.versions.tolist() == [0, 4, 0]
    assert progress.counts.tolist() == [0, 1]
    progress.match_models(1)
    assert progress.versions.tolist() == [0]
