"""A smallest number of replies for each cluster: means by hand, records, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.ifca import IFCA
from fedkin.options.quorum.minimum_replies import MinimumReplies
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import with_options

START = np.array([[0.0], [10.0]], np.float32)


def after_round(
    least: int, weighting: Any, silent: frozenset[int] = frozenset()
) -> tuple[State, dict[str, Any]]:
    """The state and record after one round of IFCA: clients 0, 1 and 2 want 0, 2 and 4, and choose
    the model 0; client 3 wants 12, and chooses the model 10. A step goes half of the way."""
    target = np.array([[0.0], [2.0], [4.0], [12.0]], np.float32)
    world = FakeWorld(target, np.ones(4, np.int64), LocalTraining(lr=0.5), silent=silent)
    method = with_options(
        IFCA(clusters=2, weighting=weighting), MinimumReplies(least=least), world=world
    )
    state = State(START.copy(), np.full(4, -1))
    after = method.round(world, state, np.arange(4), Stream(0, 1))
    return after, method.options.record(after)


@pytest.mark.parametrize("weighting", ["examples", "simple"])
def test_a_cluster_with_too_few_replies_keeps_its_model(weighting: str) -> None:
    """As means and as single updates: the first model moves by the mean of 0, 1 and 2."""
    after, record = after_round(2, weighting)
    assert after.models.tolist() == [[1.0], [10.0]]
    assert record == {"clusters_waiting": 1}
    plain, record = after_round(1, weighting)
    assert plain.models.tolist() == [[1.0], [11.0]]
    assert record == {"clusters_waiting": 0}


def test_replies_that_did_not_come_do_not_count() -> None:
    after, record = after_round(3, "examples", silent=frozenset({0}))
    assert after.models.tolist() == START.tolist()
    assert record == {"clusters_waiting": 2}


def test_a_run_with_drop_outs_counts_the_rounds() -> None:
    data = fk.data.digits(clients=8)
    run = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=6,
        cohort=3,
        scenario=fk.Population(dropout=0.5),
        options=[fk.MinimumReplies(least=3)],
    )
    waiting = [record["clusters_waiting"] for record in run.records]
    assert 0 < sum(waiting) < 7
    assert set(waiting) == {0, 1}


def test_a_configuration_has_a_section(tmp_path: Path) -> None:
    config = load(None, ["quorum.name=per_cluster", "quorum.least=3"])
    assert config.options["quorum"] == fk.MinimumReplies(least=3)


def test_impossible_quorums_are_refused() -> None:
    with pytest.raises(MethodError, match="least"):
        fk.MinimumReplies(least=0)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        (fk.FedAvg(), [fk.MinimumReplies(least=5)], "no cluster can have 5 replies"),
        (fk.PANM(), [fk.MinimumReplies()], "no server that could wait"),
        (
            fk.FedAvg(),
            [fk.MinimumReplies(), fk.ClientDP(noise_multiplier=1.0)],
            "leave out the quorum, or privacy",
        ),
        (fk.FedAvg(), [fk.MinimumReplies(), fk.SecretSums()], "secret.least"),
    ],
)
def test_it_is_refused_where_it_has_no_place(method: Any, options: list[Any], words: str) -> None:
    data = fk.data.digits(clients=6)
    with pytest.raises(ConfigError, match=words):
        fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=4, options=options)
