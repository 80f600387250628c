"""The benchmark of the rule that does no harm reads tables as fedkin does, by the training rows
alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.client_fits import COUNTS, SQUARES
from benchmarks.do_no_harm import (
    PAGE,
    draw,
    federation,
    measure,
    read,
    rows_of,
)
from benchmarks.harm_results import Outcome, Result, compared_losses, promise, upper_limit
from benchmarks.loss_gaps import LossGap
from fedkin.data.natural import natural


def test_rows_are_encoded_and_scaled_by_the_training_rows(shared_data: Path) -> None:
    source = natural("azpro")
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(source.table))
    # Every client needs a training row.
    first = np.unique(source.table[source.client], return_index=True)[1]
    train = np.unique(np.concatenate([rows[:600], first]))
    test = np.setdiff1d(rows, train)[:400]
    data = read(source, train, test)
    assert data.transform is not None
    expected = data.transform.apply(
        data.transform.encoding.apply(source.table.iloc[test], "azpro")
        if data.transform.encoding is not None
        else source.table.iloc[test][list(source.features)].to_numpy(np.float64)
    )
    np.testing.assert_allclose(data.x[len(train) :], expected, rtol=1e-5, atol=1e-6)
    found = rows_of(data, COUNTS, len(train))
    np.testing.assert_array_equal(found.x[0, :, 0], 1)
    counts = source.table[source.label].to_numpy(np.float64)
    np.testing.assert_allclose(found.y[0, len(train) :], counts[test])
    np.testing.assert_allclose(found.offset, np.log(counts[train].mean()), rtol=1e-5)


def test_a_draw_has_equal_numbers_of_training_rows(shared_data: Path) -> None:
    table = federation(natural("exam"))
    assert table.loss == SQUARES
    drawn = draw(table, samples=20, least_test_rows=30, seed=1)
    clients = len(drawn.test)
    assert drawn.train.x.shape[:2] == (clients, 20)
    assert drawn.train.y.mean() == pytest.approx(0, abs=1e-5)
    assert drawn.train.y.std() == pytest.approx(1, abs=1e-5)
    assert min(part.x.shape[1] for part in drawn.test) >= 30
    outcome = measure(table, samples=20, least_test_rows=30, seed=1)
    assert outcome.clients == clients and 0.7 < outcome.loss < 1.05


def test_the_limit_is_the_exact_one_of_a_share() -> None:
    """With none of n harmed it is 1 - 0.05^(1/n), which is never 0."""
    for clients in (9, 44, 125):
        assert upper_limit(0, clients) == pytest.approx(1 - 0.05 ** (1 / clients))
    assert upper_limit(0, 58) > 0.05 > upper_limit(0, 59)
    # As many harmed as 2 of 88 or fewer have a probability of 5%.
    assert stats.binom.cdf(2, 88, upper_limit(2, 88)) == pytest.approx(0.05)
    assert upper_limit(5, 5) == 1.0


def test_the_promise_is_counted_and_its_limits_are_named() -> None:
    """Shares of 0% of 40 and of 2% of 200: only the second has a limit of at most 5%."""
    results = [result("exam", 40, 0.0), result("chem97", 200, 0.02)]
    text = " ".join(promise(results).split())
    assert "held in 2 of 2 settings (at most 2.0%)" in text
    assert "limit is at most 5% in 1 of 2: fewer than 59 clients cannot show it" in text
    limit = f"{upper_limit(4, 240):.1%}"
    assert "Of the 240 clients of all sets with 20 rows, 1.7% lose more than 2%" in text
    assert text.endswith(f"(upper limit {limit}).")
    assert "did not hold on azpro with 20 rows" in promise([result("azpro", 40, 0.1)])


def result(name: str, clients: int, harmed: float) -> Result:
    outcome = Outcome(clients, 0.0, 0.0, harmed, 1.0, 0.0, 0.998)
    return Result(name, 20, True, outcome, gap=LossGap.of([-0.1, -0.2]), further=None)


def test_the_limits_of_the_page_are_those_of_its_shares() -> None:
    """The page rounds a share to a tenth of a percent."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines()]
    rows = [cells for cells in lines if len(cells) == 10 and cells[1].isdigit()]
    assert len(rows) == 19
    for _, _, clients, _, _, harmed, limit, *_ in rows:
        expected = upper_limit(float(harmed[:-1]) / 100 * int(clients), int(clients))
        assert float(limit[:-1]) == pytest.approx(100 * expected, abs=0.15)


def test_a_higher_loss_is_reported_with_further_draws() -> None:
    """By hand: gaps of 1, 2 and 3 thousandths have the mean 2 and the standard error
    1 / sqrt(3)."""
    higher = LossGap.of([0.001, 0.002, 0.003])
    assert higher.mean == pytest.approx(0.002)
    assert higher.error == pytest.approx(0.001 / np.sqrt(3))
    further = LossGap.of([0.002, -0.003, 0.0])
    outcome = Outcome(10, 0.0, 0.0, 0.0, 1.0, 0.0, 0.998)
    one = Result("exam", 20, True, outcome, gap=higher, further=further)
    other = Result("azpro", 20, False, outcome, gap=LossGap.of([-0.1, -0.2]), further=None)
    text = compared_losses([one, other])
    assert "at most the one of the paired test in 1 of 2 settings" in text
    assert "* exam with 20 rows: +0.0020 ± 0.0006 (more than two standard errors);" in text
    assert "in 3 further draws: -0.0003 ± 0.0015 (within two standard errors)" in text
    assert "azpro" not in text
