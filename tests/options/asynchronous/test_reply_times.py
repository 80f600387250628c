"""How long simulated clients take to reply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream


def test_one_client_in_ten_takes_twenty_times_longer() -> None:
    option = fk.FirstReplies(reply_seconds=3.0, slow_share=0.1)
    medians = option.medians(40, seed=1)
    assert sorted(medians.tolist()) == [3.0] * 36 + [60.0] * 4
    assert option.medians(40, seed=1).tolist() == medians.tolist()
    assert option.medians(40, seed=2).tolist() != medians.tolist()


def test_times_are_log_normal() -> None:
    option = fk.FirstReplies(reply_seconds=2.0, spread=0.5)
    logs = np.log(option.times(np.arange(4000), 4000, Stream(3, 7)))
    assert logs.mean() == pytest.approx(np.log(2), abs=4 * 0.5 / np.sqrt(4000))
    assert logs.std() == pytest.approx(0.5, rel=0.05)


def test_the_time_of_a_client_does_not_depend_on_the_others() -> None:
    option = fk.BufferedClusters(buffer=2)
    every = option.times(np.arange(10), 10, Stream(3, 7))
    some = option.times(np.array([8, 3]), 10, Stream(3, 7, "any purpose"))
    assert some.tolist() == every[[8, 3]].tolist()
    assert option.times(np.arange(10), 10, Stream(3, 8)).tolist() != every.tolist()


def test_measured_times_replace_the_median() -> None:
    option = fk.FirstReplies(measured=(1.0, 5.0, 2.0), spread=0.0, slow_share=1.0)
    assert option.times(np.array([2, 1]), 3, Stream(0, 1)).tolist() == [2.0, 5.0]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"reply_seconds": 0}, "reply_seconds must be a number above 0"),
        ({"spread": -0.1}, "spread must be a number from 0 up"),
        ({"slow_share": 1.5}, r"slow_share must be at most 1 \(all clients\), got 1.5"),
        ({"slow_factor": 0.0}, "slow_factor must be a number above 0"),
        ({"measured": (1.0, -2.0)}, "measured must be a number"),
    ],
)
def test_impossible_times_are_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(MethodError, match=words):
        fk.FirstReplies(**option)
    with pytest.raises(MethodError, match=words):
        fk.BufferedClusters(**option)


def test_settings_of_simulated_times_are_named() -> None:
    assert fk.FirstReplies(share=0.8, spread=0.5).only_simulated() == []
    option = fk.FirstReplies(slow_share=0.1, deadline=3.0)
    assert option.only_simulated() == ["slow_share", "deadline"]
