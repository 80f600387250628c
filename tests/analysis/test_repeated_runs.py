"""Runs from several seeds, put together in Python. Their joint numbers are computed again in
another way."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedkin as fk
from fedkin.analysis.repeat import execute_seeds, repeat
from fedkin.analysis.repeated_runs import RepeatedRuns
from fedkin.analysis.scores import score
from fedkin.core.errors import ConfigError
from fedkin.data.federated import FederatedData
from fedkin.measures.lookup import compared_by
from fedkin.models import mclr
from fedkin.run.run import Run
from tests.analysis.written_comparisons import comparison
from tests.analysis.written_seeds import by_hand, with_options
from tests.option_lists import simulate_arguments


def from_python(data: FederatedData, *against: Any, **options: Any) -> Callable[[int], Run]:
    chosen: dict[str, Any] = {
        "rounds": 2,
        "cohort": 4,
        "local": fk.SGD(epochs=1, batch_size=5, lr=0.5),
    } | options
    return lambda seed: fk.simulate(
        fk.FedGroup(clusters=2),
        data,
        mclr(data),
        against=against,
        seed=seed,
        **simulate_arguments(chosen),
    )


def test_an_experiment_is_repeated_from_python(tiny: FederatedData, tmp_path: Path) -> None:
    one = from_python(tiny, fk.FedAvg())
    repeated = repeat(one, [4, 1, 7])
    assert repeated.seeds == [4, 1, 7] and repeated.methods == ["fedgroup", "fedavg"]
    for seed, run, other in zip([4, 1, 7], repeated.runs, repeated.of("fedavg"), strict=True):
        alone = one(seed)
        assert run.records == alone.records and run.models.tobytes() == alone.models.tobytes()
        assert other.records == alone.against["fedavg"].records
    assert repeated.save(tmp_path / "kept") == tmp_path / "kept"
    written = {"curves.csv", "comparisons.csv", "summary.json"}
    assert {p.name for p in (tmp_path / "kept").iterdir()} == written
    assert repeat(one, 2).seeds == [0, 1]


UNTYPED = """
import fedkin as fk
for seeds in (0, -1, True, 2.0, "35", None, [], [3, 3], [0, True], [1.5], [-1]):
    try:
        fk.repeat(lambda seed: print("ran", seed), seeds)
    except fk.ConfigError as error:
        print(error)
"""


def test_missing_seeds_are_refused_without_a_type_checker() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNTYPED], capture_output=True, text=True, check=True
    )
    many = "seeds must be an integer of at least 1, got"
    each = "a seed must be an integer of at least 0, got"
    different = "seeds must be different integers, at least one, got"
    assert done.stdout.splitlines() == [
        *(
            f"{many} {value}; for example seeds=1"
            for value in ("0", "-1", "True", "2.0", "'35'", "None")
        ),
        *(f"{different} []", f"{different} [3, 3]", f"{each} True", f"{each} 1.5", f"{each} -1"),
    ]


def test_runs_that_are_not_of_one_experiment(tiny: FederatedData) -> None:
    plain = from_python(tiny)
    against_fedavg = from_python(tiny, fk.FedAvg())
    long = from_python(tiny, rounds=3)
    with pytest.raises(
        ConfigError, match=r"same methods and rounds; seed 0 has .*fedgroup.* seed 1 .*fedavg"
    ):
        repeat(lambda seed: (against_fedavg if seed else plain)(seed), 2)
    with pytest.raises(ConfigError, match=r"seed 0 has .*2 rounds.* seed 1 .*3 rounds"):
        repeat(lambda seed: (long if seed else plain)(seed), 2)
    # The seed was forgotten.
    with pytest.raises(ConfigError, match=r"different seeds, got \[0, 0\]"):
        repeat(lambda _: plain(0), 2)
    with pytest.raises(ConfigError, match="at least one run"):
        RepeatedRuns(())


# --- numbers of all seeds

OURS = [[0.1, 0.6, 0.7], [0.1, 0.5, 0.8], [0.1, 0.7, 0.75], [0.1, 0.55, 0.9]]
THEIRS = [[0.1, 0.3, 0.5], [0.1, 0.4, 0.45], [0.1, 0.35, 0.65], [0.1, 0.5, 0.6]]


def test_the_table_holds_means_and_their_intervals() -> None:
    rows = by_hand({"fedgroup": OURS, "fedavg": THEIRS}).table().set_index("method")
    for name, curves in (("fedgroup", np.array(OURS)), ("fedavg", np.array(THEIRS))):
        columns = {
            "final": curves[:, -1],
            "best": curves.max(axis=1),
            "mean": curves[:, 1:].mean(axis=1),
        }
        for column, values in columns.items():
            low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
            told = [rows.loc[name, f"{column}_accuracy{end}"] for end in ("", "_low", "_high")]
            assert told == pytest.approx([values.mean(), low, high]), (name, column)
    assert list(rows["seeds"]) == [4, 4]


def only(table: pd.DataFrame) -> dict[str, Any]:
    (row,) = table.to_dict(orient="records")
    return row


def test_the_comparison_is_the_two_sided_paired_test_of_the_last_round() -> None:
    made = only(by_hand({"fedgroup": OURS, "fedavg": THEIRS}).comparisons())
    ours = np.array(OURS)[:, -1]
    theirs = np.array(THEIRS)[:, -1]
    gain = ours - theirs
    low, high = stats.t.interval(0.95, 3, gain.mean(), stats.sem(gain))
    p = stats.ttest_rel(ours, theirs).pvalue
    assert [made[name] for name in ("difference", "low", "high", "p")] == pytest.approx(
        [gain.mean(), low, high, p]
    )
    assert (made["method"], made["against"], made["seeds"], made["measure"]) == (
        "fedgroup",
        "fedavg",
        4,
        "final",
    )
    assert p < 0.05 and made["verdict"] == "significant" and made["why"] is None


def test_a_worse_main_method_stays_first() -> None:
    better, worse = (
        by_hand(dict(pair)).comparisons()
        for pair in (
            [("fedgroup", OURS), ("fedavg", THEIRS)],
            [("fedgroup", THEIRS), ("fedavg", OURS)],
        )
    )
    assert only(worse)["difference"] == pytest.approx(-only(better)["difference"])
    assert (
        only(worse)["p"] == pytest.approx(only(better)["p"])
        and only(worse)["verdict"] == "significant"
    )


def test_another_measure() -> None:
    best = only(
        by_hand({"fedgroup": [[0.1, 0.9, 0.5]] * 3, "fedavg": [[0.1, 0.2, 0.6]] * 3}).comparisons(
            "best"
        )
    )
    assert (best["measure"], best["difference"]) == ("best", pytest.approx(0.3))
    with pytest.raises(ConfigError, match="unknown measure 'fianl'; did you mean 'final'"):
        by_hand({"fedgroup": OURS}).comparisons("fianl")


def test_a_comparison_of_the_same_runs_says_the_same() -> None:
    """Runs from several seeds and ``fedkin compare`` have one test."""
    curves = {"fedgroup": OURS, "fedavg": THEIRS}
    ours = only(by_hand(curves).comparisons())
    theirs = only(comparison({"": curves}).differences())
    for name in ("method", "against", "seeds", "verdict"):
        assert ours[name] == theirs[name], name
    assert [ours[n] for n in ("difference", "low", "high", "p")] == [
        theirs[n] for n in ("difference", "low", "high", "p")
    ]


def test_several_comparisons_are_adjusted() -> None:
    other = np.array(THEIRS) - [0.0, 0.05, 0.01]
    other[0, 2] += 0.1
    alone = [
        only(by_hand({"fedgroup": OURS, "fedavg": curve}).comparisons())["p"]
        for curve in (THEIRS, other)
    ]
    both = by_hand({"fedgroup": OURS, "fedavg": THEIRS, "fedprox": other}).comparisons()
    assert both["against"].tolist() == ["fedavg", "fedprox"]
    small, large = sorted(alone)
    adjusted = {small: 2 * small, large: max(2 * small, large)}  # Holm's, written out for two
    assert both["p"].tolist() == pytest.approx([adjusted[p] for p in alone])


def test_a_method_without_a_score_takes_no_other_comparison_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """FedProx was never tested. FedAvg is still compared, without adjustment."""
    nan = float("nan")
    repeated = by_hand({"fedgroup": OURS, "fedprox": [[nan] * 3] * 4, "fedavg": THEIRS})
    without, tested = repeated.comparisons().to_dict(orient="records")
    assert (without["against"], without["seeds"], without["verdict"]) == ("fedprox", 0, "no score")
    assert without["why"] == "fedprox: not evaluated in the last round (seeds 0, 1, 2, 3)."
    assert tested["p"] == pytest.approx(
        only(by_hand({"fedgroup": OURS, "fedavg": THEIRS}).comparisons())["p"]
    )
    assert tested["why"] is None
    assert sum("fedprox: not scored" in record.getMessage() for record in caplog.records) <= 1
    assert (
        json.loads(json.dumps(repeated.summary(), allow_nan=False))["comparisons"][0]["why"]
        == without["why"]
    )


def test_the_table_prints_the_number_that_is_tested() -> None:
    """FlexCFL is ahead over the clients that have a cluster, and behind over all of them."""
    whole = by_hand({"flexcfl": [[0.1, 0.5, 0.9]], "fedavg": [[0.1, 0.5, 0.6]]})
    assert "all clients" not in whole.latex().lower() and r"\textbf{90.0}" in whole.latex()
    (run,) = by_hand({"flexcfl": [[0.1, 0.5, 0.9]], "fedavg": [[0.1, 0.5, 0.6]]}, partial=[2]).runs
    other = dataclasses.replace(run.against["fedavg"], final={"accuracy_all_clients": 0.6})
    ours = dataclasses.replace(run, final={"accuracy_all_clients": 0.25}, against={"fedavg": other})
    repeated = RepeatedRuns((ours,))
    assert (
        r"90.0 (all clients 25.0) &" in repeated.latex() and r"\textbf{60.0} &" in repeated.latex()
    )
    assert repeated.table()["accuracy_all_clients"].tolist() == [0.25, 0.6]
    assert "% All clients: includes clients without a cluster" in repeated.latex()


def test_where_clients_have_no_cluster_methods_are_compared_over_all_clients() -> None:
    """FlexCFL serves the others well, and the rest with whatever model they would get."""
    run = by_hand({"flexcfl": [OURS[0]]}, partial=[2]).runs[0]
    summary = {**run.summary(), "accuracy_all_clients": 0.25}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "summary", lambda self: summary)
        assert [score(run, compared_by(measure)).value for measure in ("final", "best")] == [
            0.25,
            0.6,
        ]
        assert np.isnan(score(run, compared_by("bottom")).value)


def test_a_last_round_with_unassigned_clients_is_no_match_for_one_that_served_all() -> None:
    repeated = by_hand({"flexcfl": OURS, "fedavg": THEIRS}, partial=[2])
    made = only(repeated.comparisons())
    assert (
        made["verdict"] == "no score"
        and "flexcfl: clients without a cluster in the last round" in made["why"]
    )
    assert np.isnan(made["p"])
    assert only(repeated.comparisons("best"))["seeds"] == 4  # of the rounds before


def test_latex_has_the_table_and_the_tests() -> None:
    repeated = by_hand({"fedgroup": OURS, "fedavg": THEIRS})
    lines = repeated.latex().splitlines()
    body = [line for line in lines if line.endswith(r"\\")]
    assert [line.split(" & ")[0] for line in body] == ["Method", "FedGroup", "FedAvg"]
    assert {line.count(" & ") for line in body} == {6} and r"\begin{tabular}{lrrrrrr}" in lines
    half = 100 * (stats.t.interval(0.95, 3, 0, stats.sem(np.array(OURS)[:, -1]))[1])
    assert rf"& \textbf{{78.8 $\pm$ {half:.1f}}} &" in body[1] and "textbf" not in body[2]
    (test,) = [line for line in lines if "FedGroup over FedAvg" in line]
    assert test.startswith("% ") and "+23.8 points" in test and "significant" in test
    two = by_hand({"fedgroup": OURS[:2], "fedavg": THEIRS[:2]}).latex()
    assert "not tested (too few seeds)" in two and "pm" not in two


def test_the_same_seeds_say_the_same() -> None:
    one, two = (by_hand({"fedgroup": OURS, "fedavg": THEIRS}).summary() for _ in range(2))
    assert one == two


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_claim_nothing(seeds: int) -> None:
    repeated = by_hand({"fedgroup": OURS[:seeds], "fedavg": THEIRS[:seeds]})
    summary = repeated.summary()
    (made,) = summary["comparisons"]
    assert made["verdict"] == "too few seeds" and made["difference"] > 0
    assert [made[name] for name in ("p", "low", "high", "why")] == [None] * 4
    ends = [
        value
        for row in summary["methods"]
        for name, value in row.items()
        if name.endswith(("_low", "_high"))
    ]
    assert len(ends) == 20 and set(ends) == {None}
    assert repeated.table().filter(regex="_(low|high)$").isna().all(axis=None)


def test_rounds_that_were_not_scored_or_not_complete_are_left_out() -> None:
    nan = float("nan")
    ours = [[0.1, nan, 0.5, 0.6, 0.8]] * 3
    theirs = [[0.1, nan, 0.4, 0.3, 0.5]] * 3
    repeated = by_hand({"flexcfl": ours, "fedavg": theirs}, partial=[3])
    expected = np.array([0.1, nan, 0.5, nan, 0.8])
    for curve in repeated.curves()["flexcfl"]:
        np.testing.assert_array_equal(curve, expected)
    assert only(repeated.comparisons())["difference"] == pytest.approx(0.3)
    # Not round 3's, which was partial.
    assert only(repeated.comparisons("best"))["difference"] == pytest.approx(0.3)
    row = repeated.table().iloc[0]
    assert row["mean_accuracy"] == pytest.approx((0.5 + 0.8) / 2)
    # Other figures have no partial rounds.
    assert set(repeated.curves("bottom_decile")) == {
        "flexcfl",
        "fedavg",
    }
    with pytest.raises(ConfigError, match=r"no 'acuracy'; it has .*accuracy"):
        repeated.curves("acuracy")


def test_one_method_is_compared_with_nothing() -> None:
    repeated = by_hand({"fedgroup": OURS})
    assert repeated.methods == ["fedgroup"] and repeated.comparisons().empty
    assert repeated.summary()["comparisons"] == []


# --- runs with rounds that say nothing


def test_real_runs_leave_rounds_out(tmp_path: Path) -> None:
    """FlexCFL starts four of twenty clients; one round of six more is not yet everybody."""
    flex = {"name": "flexcfl", "clusters": 2, "alpha": 2}
    run = {"seeds": 3, "evaluate_every": 2, "rounds": 3, "cohort": 2}
    options = {"data": {"clients": 20}, "method": flex, "run": run}
    repeated = execute_seeds(with_options(options), out=tmp_path / "run")
    assert np.isnan(repeated.curves()["flexcfl"]).all()
    np.testing.assert_array_equal(
        np.isnan(repeated.curves()["fedavg"][0]), [False, True, False, False]
    )
    summary = json.loads((tmp_path / "run/summary.json").read_text(), parse_constant=pytest.fail)
    (made,) = summary["comparisons"]
    ours, theirs = (
        [r.summary()["accuracy_all_clients"] for r in repeated.of(m)] for m in ("flexcfl", "fedavg")
    )
    assert (made["seeds"], made["why"]) == (3, None)
    assert made["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert [row["best_accuracy"] is None for row in summary["methods"]] == [True, False]
    assert pd.read_csv(tmp_path / "run/comparisons.csv")["difference"].tolist() == [
        made["difference"]
    ]


def test_without_test_samples_nothing_is_claimed(tmp_path: Path) -> None:
    options = {"data": {"train_fraction": 1.0}, "run": {"seeds": 3, "rounds": 1}}
    repeated = execute_seeds(with_options(options), out=tmp_path / "run")
    summary = json.loads((tmp_path / "run/summary.json").read_text(), parse_constant=pytest.fail)
    assert [made["verdict"] for made in summary["comparisons"]] == ["no score"]
    assert {row["final_accuracy"] for row in summary["methods"]} == {None}
    assert fk.draw(repeated, tmp_path / "run").exists()
