"""The first sentence of a report: which method was better, by how much, how sure that is, at what
cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedkin as fk
from fedkin.analysis.repeat import execute_seeds
from fedkin.config.run import from_dict
from fedkin.reporting.html.headline import _shared, main_method, verdict
from fedkin.reporting.html.read_runs import ReportedRun, ReportInput, read_runs
from fedkin.run.run import Run
from fedkin.run.simulate import execute
from tests.reporting.written_runs import a_run

ROWS = np.tile([0, 0, 1, 1], (3, 1))  # two rounds after the first


def one(method: str, accuracy: float | None, seed: int = 0, traffic: int = 100, **more: Any) -> Run:
    """A run of two rounds that ends at an accuracy."""
    rows = ROWS if method != "fedavg" else 0 * ROWS
    return a_run(
        rows,
        method,
        seed=seed,
        accuracy=[0.1, 0.2, accuracy],
        bytes_down=[0, traffic, 2 * traffic],
        bytes_up=[0, 0, 0],
        **more,
    )


def with_others(run: Run, *others: Run) -> Run:
    return replace(run, against={each.config.method_name: each for each in others})


def seeds(ours: list[float], theirs: list[float], **more: Any) -> fk.RepeatedRuns:
    pairs = enumerate(zip(ours, theirs, strict=True))
    return fk.RepeatedRuns(
        tuple(with_others(one("ifca", a, s, **more), one("fedavg", b, s)) for s, (a, b) in pairs)
    )


def sentence(result: Any) -> str:
    said = verdict(read_runs(result))
    assert len(said.sentences) == 1
    return said.sentences[0]


def test_a_significant_gain_has_its_interval_p_and_cost() -> None:
    ours = [0.70, 0.72, 0.66, 0.75]
    theirs = [0.60, 0.64, 0.60, 0.66]
    gains = 100 * np.subtract(ours, theirs)
    low, high = stats.t.interval(0.95, 3, gains.mean(), stats.sem(gains))
    p = stats.ttest_rel(ours, theirs).pvalue
    assert sentence(seeds(ours, theirs, traffic=126)) == (
        f"IFCA {gains.mean():+.1f} points of test accuracy over FedAvg after 2 rounds (95% "
        f"interval {low:+.1f} to {high:+.1f}, p = {p:.2g}, 4 seeds), at 1.26 times the bytes."
    )
    assert 0.001 < p < 0.05
    assert "Holm-adjusted" in verdict(read_runs(seeds(ours, theirs))).note


def test_a_loss_is_written_from_the_side_of_the_main_method() -> None:
    said = sentence(seeds([0.60, 0.64, 0.60, 0.66], [0.70, 0.72, 0.71, 0.75]))
    gains = np.array([-10.0, -8.0, -11.0, -9.0])
    low, high = stats.t.interval(0.95, 3, gains.mean(), stats.sem(gains))
    assert said.startswith("IFCA -9.5 points of test accuracy against FedAvg")
    assert f"95% interval {low:+.1f} to {high:+.1f}" in said and "at as many bytes" in said


def test_a_difference_that_is_not_significant_says_so_first() -> None:
    said = sentence(seeds([0.7, 0.6, 0.8], [0.6, 0.7, 0.6]))
    assert said.startswith(
        "No significant difference: IFCA +6.7 points of test accuracy over FedAvg"
    )


@pytest.mark.parametrize(
    ("number", "words"), [(1, "(1 seed: not tested)"), (2, "(2 seeds: not tested)")]
)
def test_few_seeds_claim_nothing(number: int, words: str) -> None:
    result = seeds([0.7, 0.72][:number], [0.6, 0.61][:number])
    said = verdict(read_runs(result))
    assert words in said.sentences[0] and said.note == "" and "significant" not in said.sentences[0]


def test_alone_there_is_nothing_to_compare_with() -> None:
    assert sentence(one("ifca", 0.7)) == (
        "IFCA reaches 70.0% test accuracy after 2 rounds; no other method was run, so "
        "there is no comparison."
    )


def test_no_client_was_tested() -> None:
    run = a_run(ROWS)
    for record in run.records:
        record["accuracy"] = None
    assert sentence(run) == "IFCA has no test accuracy to compare: not evaluated in the last round."


def test_of_several_others_fedavg_comes_first_and_then_the_best() -> None:
    run = with_others(
        one("flexcfl", 0.7), one("fedgroup", 0.65), one("fedavg", 0.5), one("fesem", 0.72)
    )
    said = sentence(run)
    assert said.startswith("FlexCFL +20.0 points of test accuracy over FedAvg")
    assert said.endswith("; -2.0 points against FeSEM (1 seed: not tested).")


def test_other_methods_are_compared_with_fedavg() -> None:
    assert sentence(with_others(one("fedavg", 0.5), one("ifca", 0.7))).startswith(
        "IFCA +20.0 points"
    )
    runs = {
        "FedAvg": [one("fedavg", 0.9)],
        "IFCA": [one("ifca", 0.7)],
        "FeSEM": [one("fesem", 0.8)],
    }
    means = {"FedAvg": 0.9, "IFCA": 0.7, "FeSEM": 0.8}
    assert main_method(runs, means, None) == "FeSEM" and main_method(runs, means, "IFCA") == "IFCA"


def test_clients_without_a_cluster_are_mentioned() -> None:
    partial = replace(
        one("ifca", 0.7, partial=[True, True, True]), final={"accuracy_all_clients": 0.7}
    )
    said = sentence(with_others(partial, one("fedavg", 0.5)))
    assert said.endswith(" Some clients had no cluster yet in the last round of IFCA.")
    assert "FedAvg" not in said.split(". Some")[1]


def test_a_run_that_cannot_be_compared_still_says_its_accuracy() -> None:
    assert sentence(one("ifca", 0.7, partial=[True, True, True])) == (
        "IFCA reaches 70.0% test accuracy after 2 rounds; this is not compared: clients without a "
        "cluster in the last round."
    )


def test_methods_without_a_seed_in_common_are_not_compared() -> None:
    runs = (
        ReportedRun("", "IFCA", one("ifca", 0.7)),
        ReportedRun("", "FedAvg", one("fedavg", 0.5, seed=1)),
    )
    (said,) = verdict(ReportInput("comparison", runs)).sentences
    assert said.startswith("IFCA reaches 70.0%") and "FedAvg have no scored seed in common" in said


def test_scores_and_tests_are_those_of_the_tables() -> None:
    """A whole run is compared by the same numbers as in ``RepeatedRuns.comparisons``: here all
    clients."""
    settings: dict[str, Any] = {
        "data": {"name": "digits", "clients": 8, "classes_per_client": 2},
        "method": {"name": "flexcfl", "clusters": 2, "alpha": 2},
        "local": {"epochs": 1},
        "run": {"rounds": 2, "cohort": 4, "seeds": 3, "against": ["fedavg"]},
    }
    repeated = execute_seeds(from_dict(settings), out=None)
    (row,) = repeated.comparisons().to_dict("records")
    said = sentence(repeated)
    assert f"p = {row['p']:.2g}" in said and f"{100 * row['difference']:+.1f} points" in said
    assert said.endswith("Some clients had no cluster yet in the last round of FlexCFL.")


def test_an_unfinished_run_is_compared_in_the_round_that_all_have_reached() -> None:
    longer = one("ifca", 0.7)
    shorter = one("fedavg", 0.5)
    shorter.config.run["rounds"] = 2
    shorter.records.pop()
    longer.config.run["rounds"] = 2
    assert sentence(with_others(longer, shorter)).startswith(
        "So far: IFCA +0.0 points of test accuracy over FedAvg after 1 "
    )


def stopped(run: Run, accuracy: float) -> Run:
    """The run as one that was to have 25 rounds, scored on validation samples, with its test
    accuracy."""
    run.config.run["rounds"] = 25
    for record in run.records:
        record["split"] = "validation"
    stop = {"round": run.records[-1]["round"], "of": 25, "reason": "run.patience = 2"}
    return replace(
        run, final={"final_accuracy": accuracy, "best_accuracy": accuracy, "stopped": stop}
    )


def test_runs_that_stopped_early_are_compared_by_their_test_accuracy_as_in_the_tables() -> None:
    ours = [0.70, 0.72, 0.66]
    theirs = [0.60, 0.64, 0.60]
    runs = []
    for seed, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        shorter = stopped(one("fedavg", 0.9, seed), b)
        shorter.records.pop()
        runs.append(with_others(stopped(one("ifca", 0.9, seed), a), shorter))
    repeated = fk.RepeatedRuns(tuple(runs))
    (row,) = repeated.comparisons().to_dict("records")
    said = sentence(repeated)
    assert said.startswith(
        f"IFCA {100 * row['difference']:+.1f} points of test accuracy over FedAvg (95% interval "
    )
    assert f"p = {row['p']:.2g}" in said and "at 2.00 times the bytes" in said
    assert sentence(runs[0]).endswith("(1 seed: not tested), at 2.00 times the bytes.")


def test_a_method_without_test_accuracy_yet_is_named_by_its_split() -> None:
    unfinished = replace(stopped(one("ifca", 0.7), 0.6), final={})
    whole = stopped(one("fedavg", 0.5), 0.65)
    assert sentence(with_others(unfinished, whole)).startswith(
        "So far: IFCA +20.0 points of validation accuracy over FedAvg after 2 rounds"
    )


def test_a_folder_and_the_run_itself_have_one_verdict(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "data": {"name": "digits", "clients": 10, "classes_per_client": 2, "validation": 0.3},
        "method": {"name": "fedavg"},
        "local": {"epochs": 1},
        "run": {"rounds": 25, "cohort": 5, "patience": 1},
    }
    run = execute(from_dict(settings), out=tmp_path / "a")
    read = read_runs(tmp_path / "a").runs[0].run
    assert (
        run.summary()["final_accuracy"] != run.records[-1]["accuracy"] and run.summary()["stopped"]
    )
    assert sentence(run) == sentence(tmp_path / "a") and not sentence(run).startswith("So far")
    assert read.summary() == run.summary()
    assert read.best is not None and run.best is not None and read.best.round == run.best.round


def test_seeds_that_differ_by_the_same_have_a_sign_test_and_no_interval() -> None:
    result = seeds([0.7, 0.7, 0.7], [0.6, 0.6, 0.6])
    assert (
        "IFCA +10.0 points of test accuracy over FedAvg after 2 rounds (the same in all seeds, p "
        "= 0.25" in sentence(result)
    )
    assert "sign test" in verdict(read_runs(result)).note
    assert "sign test" not in verdict(read_runs(seeds([0.7, 0.72, 0.7], [0.6, 0.6, 0.6]))).note


def test_a_difference_that_rounds_to_zero_has_no_minus() -> None:
    assert sentence(with_others(one("ifca", 0.7), one("fedavg", 0.7003))).startswith(
        "IFCA +0.0 points of test accuracy over"
    )


def test_every_setting_has_its_sentence_and_too_many_are_counted() -> None:
    runs = tuple(ReportedRun(f"s{i}", "IFCA", one("ifca", 0.7)) for i in range(10))
    said = verdict(ReportInput("comparison", runs)).sentences
    assert said[0].startswith("s0: IFCA reaches 70.0%") and len(said) == 9
    assert said[-1] == "2 more settings are in the table."


def test_methods_that_have_not_begun_are_named() -> None:
    """While the other methods wait, the page does not say that nothing is compared."""
    main = one("ifca", 0.7)
    main.config.run["against"] = [{"name": "fedavg"}, {"name": "flexcfl", "clusters": 3}]
    assert sentence(main) == (
        "So far: IFCA reaches 70.0% test accuracy after 2 rounds; FedAvg and FlexCFL have not "
        "begun yet, so there is no comparison yet."
    )
    begun = sentence(with_others(main, one("fedavg", 0.6)))
    assert "over FedAvg" in begun and begun.endswith("FlexCFL has not begun yet.")
    both = sentence(with_others(main, one("fedavg", 0.6), one("flexcfl", 0.5)))
    assert "begun" not in both


def test_means_are_over_the_seeds_that_all_methods_share() -> None:
    nan = float("nan")
    values = {"a": np.array([0.5, 0.6, 0.9]), "b": np.array([0.7, nan, 0.4])}
    assert _shared(values) == {"a": [0.5, 0.9], "b": [0.7, 0.4]}
    # A method without a score takes no seed from the others.
    assert _shared({**values, "c": np.full(3, nan)}) == {"a": [0.5, 0.9], "b": [0.7, 0.4], "c": []}
    apart = {"a": np.array([0.5, nan]), "b": np.array([nan, 0.4])}
    assert _shared(apart) == {"a": [0.5], "b": [0.4]}
