"""What a sample of the clients says of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.data.federated import FederatedData
from fedkin.reporting import progress
from fedkin.run.metrics.accuracy import EvaluationResults
from fedkin.run.metrics.evaluation_sample import draw_sample, estimate
from fedkin.run.metrics.round_records import estimated_totals
from fedkin.task_types.loss import Loss
from fedkin.task_types.regression import AbsoluteError, Regression, SquaredError
from fedkin.tasks.evaluate import Scores
from tests.option_lists import simulate_arguments


def test_every_cluster_has_its_share_and_at_least_two() -> None:
    cluster = np.repeat([0, 1, 2, 3], [600, 300, 97, 3])
    sample = draw_sample(cluster, 100, np.random.default_rng(0))
    assert sample.sizes.tolist() == [600, 300, 97, 3]
    assert np.bincount(cluster[sample.places]).tolist() == [60, 30, 10, 2]
    assert (np.diff(sample.places) > 0).all()
    assert draw_sample(np.array([0, 1, 1]), 1, np.random.default_rng(0)).places.tolist() == [
        0,
        1,
        2,
    ]


def test_the_estimate_by_hand() -> None:
    """Two clusters of 4 and 10 clients; the residuals c - p e of each have a known variance."""
    correct = np.array([8.0, 6.0, 2.0, 4.0])
    examples = np.array([10, 10, 10, 10])
    cluster = np.array([0, 0, 1, 1])
    p = (4 * 7 + 10 * 3) / (4 * 10 + 10 * 10)
    variance = (16 * (1 - 2 / 4) * 2 / 2 + 100 * (1 - 2 / 10) * 2 / 2) / 140**2
    found = estimate(correct, examples, cluster, np.array([4, 10]))
    assert found is not None and found.mean == pytest.approx(p)
    margin = 1.959963984540054 * variance**0.5
    assert (found.low, found.high) == pytest.approx((p - margin, p + margin))


def test_a_whole_cluster_adds_no_uncertainty() -> None:
    found = estimate(np.array([1.0, 9.0]), np.array([10, 10]), np.array([0, 0]), np.array([2]))
    assert found is not None and found.low == found.mean == found.high == 0.5


def test_nothing_is_known_without_test_samples() -> None:
    assert estimate(np.zeros(2), np.zeros(2, np.int64), np.array([0, 0]), np.array([2])) is None


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """1,000 samples of 60 from 900 clients; 95% within 4 standard deviations of the binomial."""
    rng = np.random.default_rng(1)
    cluster = rng.choice(3, 900, p=[0.6, 0.3, 0.1])
    examples = rng.integers(5, 60, 900)
    correct = rng.binomial(examples, np.array([0.9, 0.6, 0.3])[cluster]).astype(float)
    truth = correct.sum() / examples.sum()
    inside = 0
    for _ in range(1000):
        places = draw_sample(cluster, 60, rng).places
        found = estimate(correct[places], examples[places], cluster[places], np.bincount(cluster))
        assert found is not None
        inside += found.low <= truth <= found.high
    assert 950 - 28 <= inside <= 950 + 28


def test_a_run_scores_a_sample_in_each_round_and_everybody_at_the_end(tiny: FederatedData) -> None:
    whole = fk.simulate(fk.IFCA(clusters=2), tiny, fk.models.mclr(tiny), rounds=4, cohort=6)
    some = fk.simulate(
        fk.IFCA(clusters=2),
        tiny,
        fk.models.mclr(tiny),
        rounds=4,
        cohort=6,
        scoring=fk.Scoring(evaluate_clients=4),
    )
    for record in some.records[1:-1]:
        assert 2 <= record["evaluated"] < 7 and record["accuracy_interval"][0] <= record["accuracy"]
        assert record["accuracy"] <= record["accuracy_interval"][1]
    assert [r["cluster_sizes"] for r in some.records] == [r["cluster_sizes"] for r in whole.records]
    assert "evaluated" not in some.records[-1] and some.records[-1] == whole.records[-1] | {
        name: some.records[-1][name] for name in ("bytes_by_operation",)
    }
    assert len(some.clients) == len(whole.clients)


def test_a_run_that_ends_early_scores_everybody_once(tiny: FederatedData) -> None:
    def stop(record: dict[str, Any]) -> str | None:
        return fk.STOP if record["round"] == 2 else None

    scoring = fk.Scoring(evaluate_clients=4)
    run = fk.simulate(
        fk.FedAvg(), tiny, fk.models.mclr(tiny), rounds=9, cohort=6, scoring=scoring, callbacks=stop
    )
    whole = fk.simulate(fk.FedAvg(), tiny, fk.models.mclr(tiny), rounds=2, cohort=6)
    assert run.records[-1]["evaluated"] <= 4
    assert run.summary()["final_accuracy"] == whole.summary()["final_accuracy"]
    assert len(run.clients) == len(whole.clients)


def test_a_run_may_never_score_everybody(tiny: FederatedData) -> None:
    options = {"rounds": 3, "cohort": 6, "evaluate_clients": 4, "sample_at_end": True}
    run = fk.simulate(
        fk.IFCA(clusters=2), tiny, fk.models.mclr(tiny), **simulate_arguments(options)
    )  # type: ignore[arg-type]
    last = run.records[-1]
    summary = run.summary()
    assert last["evaluated"] <= len(run.clients) < 7
    # One has none.
    assert summary["final_accuracy"] == last["accuracy"] and summary["accuracy_all_clients"] is None
    assert summary["final_interval"] == last["accuracy_interval"]
    assert sum(summary["cluster_sizes"]) == (run.assignment >= 0).sum() == 11
    assert "from a sample of clients; the accuracy of all clients is between" in str(
        progress.table([summary]).caption
    )
    without = fk.simulate(
        fk.IFCA(clusters=2),
        tiny,
        fk.models.mclr(tiny),
        **simulate_arguments(options | {"evaluate_every": 0}),
    )
    assert without.summary()["final_accuracy"] == summary["final_accuracy"]
    average = fk.simulate(
        fk.FedAvg(), tiny, fk.models.mclr(tiny), **simulate_arguments(options)
    ).summary()  # type: ignore[arg-type]
    assert (
        average["accuracy_all_clients"] == average["final_accuracy"] and "final_interval" in average
    )


def test_of_validated_runs_a_sample_is_tested(tiny: FederatedData) -> None:
    data = tiny.with_validation(0.2)
    options = {"rounds": 3, "cohort": 6, "evaluate_clients": 4, "sample_at_end": True}
    arguments: Any = simulate_arguments(options)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), **arguments)
    assert (
        len(run.clients) == 4
        and run.summary()["final_interval"][0] <= run.summary()["final_accuracy"]
    )
    assert run.summary()["best_accuracy"] is not None


def test_a_sample_at_the_end_needs_a_size(tiny: FederatedData) -> None:
    with pytest.raises(ConfigError, match="sample_at_end needs the size of the sample"):
        fk.simulate(
            fk.FedAvg(),
            tiny,
            fk.models.mclr(tiny),
            rounds=1,
            cohort=6,
            scoring=fk.Scoring(sample_at_end=True),
        )


def test_the_sample_stays_while_the_clusters_do(tiny: FederatedData) -> None:
    """So that the best round is not the one with the luckiest draw: a model that hardly moves
    scores the same."""
    run = fk.simulate(
        fk.FedAvg(),
        tiny,
        fk.models.mclr(tiny),
        rounds=8,
        cohort=6,
        local=fk.SGD(lr=1e-12),
        scoring=fk.Scoring(evaluate_clients=2),
    )
    assert len({record["accuracy"] for record in run.records[1:-1]}) == 1


@pytest.mark.parametrize(("loss", "column"), [(SquaredError(), 0), (AbsoluteError(), 1)], ids=str)
def test_the_interval_of_a_score_comes_from_the_sum_that_the_score_follows(
    loss: Loss, column: int
) -> None:
    """The score of absolute errors is their mean, whose interval squares say nothing about."""
    sums = np.array([[80.0, 40, 9, 9], [60, 10, 9, 9], [20, 30, 9, 9], [40, 25, 9, 9]])
    cluster = np.array([0, 0, 1, 1])
    sizes = np.array([4, 10])
    samples = np.full(4, 10)
    scored = EvaluationResults(
        clients=np.arange(4),
        cluster=cluster,
        scores=Scores(sums, samples, np.ones(4)),
        partial=False,
        sizes=sizes,
        task_type=Regression(loss),
    )
    found = estimated_totals(scored)
    mean = estimate(sums[:, column], samples, cluster, sizes)
    assert found is not None and mean is not None
    expected = np.array([mean.low, mean.high])
    expected = np.sqrt(expected) if column == 0 else expected
    assert (found.low, found.high) == pytest.approx(tuple(expected))
