"""The winner of a sweep, its columns, and how much each option mattered: numbers by hand and by
other formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.importance import rank_correlation, share_of_variance
from fedkin.analysis.compare.sweep import candidates, chosen
from fedkin.reporting import comparison_tables
from fedkin.reporting.comparison_findings import findings
from fedkin.reporting.comparison_progress import notes, tables
from fedkin.reporting.sweep_tables import NO_WINNER, winner_lines
from tests.analysis.written_comparisons import comparison

# By learning rate and method: the test accuracy of two seeds. Validation samples disagree.
TEST = {
    0.1: {"FedAvg": [0.60, 0.62], "IFCA": [0.90, 0.92]},
    0.3: {"FedAvg": [0.50, 0.52], "IFCA": [0.80, 0.82]},
    0.9: {"FedAvg": [0.40, 0.42], "IFCA": [0.70, 0.72]},
}
VALIDATION = {
    0.1: {"FedAvg": [0.50, 0.52], "IFCA": [0.60, 0.62]},
    0.3: {"FedAvg": [0.70, 0.72], "IFCA": [0.85, 0.87]},
    0.9: {"FedAvg": [0.55, 0.57], "IFCA": [0.61, 0.63]},
}
Scores = Mapping[float, Mapping[str, Sequence[float | None]]]


def sweep(
    test: Scores = TEST, validation: Scores | None = VALIDATION, key: str = "local.lr", **grid: Any
) -> Comparison:
    """The comparison of these values of an option."""
    found = comparison(
        {
            str(value): {
                name: [None if score is None else [0.1, 0.2, score] for score in scores]
                for name, scores in methods.items()
            }
            for value, methods in test.items()
        }
    )
    settings = tuple(
        dataclasses.replace(setting, values={key: value})
        for setting, value in zip(found.grid.settings, test, strict=True)
    )
    found = dataclasses.replace(
        found, grid=dataclasses.replace(found.grid, settings=settings, **grid)
    )
    if validation is None:
        return found
    runs = {}
    for (setting, method, seed), run in found.finished.items():
        records = [{**record, "split": "validation"} for record in run.records]
        end = {
            "final_accuracy": test[float(setting)][method][seed],
            "best_accuracy": test[float(setting)][method][seed],
            "validation_accuracy": validation[float(setting)][method][seed],
        }
        runs[setting, method, seed] = dataclasses.replace(run, records=records, final=end)
    return dataclasses.replace(found, finished=runs)


def test_the_winner_is_best_on_validation_and_not_on_test_samples() -> None:
    found = sweep()
    assert chosen(candidates(found)) == {
        ("0.3", "IFCA"): "winner",
        ("0.3", "FedAvg"): "best of method",
    }
    first, second, *_ = winner_lines(found)
    assert first == (
        "winner on validation samples: IFCA with local.lr=0.3 (86.0% on validation samples, 81.0% "
        "on test samples; 3 candidates of this method)"
    )
    assert second.startswith("best of its method: FedAvg with local.lr=0.3 (71.0% on validation")


def test_a_winner_at_the_edge_of_the_grid_is_said() -> None:
    edge = {**VALIDATION, 0.9: {"FedAvg": [0.1, 0.1], "IFCA": [0.98, 0.98]}}
    (line, *_) = winner_lines(sweep(validation=edge))
    assert line.endswith("local.lr is the largest tried: try values beyond it")


def test_without_validation_samples_there_is_no_winner() -> None:
    found = sweep(validation=None)
    assert winner_lines(found) == [NO_WINNER] and "data.validation=0.2" in NO_WINNER
    assert not any(found.table()["chosen"])
    assert "no winner is chosen" in comparison_tables.markdown(found)


def test_a_candidate_that_lacks_a_seed_cannot_win() -> None:
    few = {**TEST, 0.3: {"FedAvg": [0.50, 0.52], "IFCA": [0.80, None]}}
    found = sweep(test=few)
    assert chosen(candidates(found))["0.9", "IFCA"] == "best of method"
    assert chosen(candidates(found))["0.3", "FedAvg"] == "winner"  # 0.71 is more than 0.62
    assert "1 of 6 candidates cannot win" in winner_lines(found)[-1]


def test_each_problem_has_a_winner_and_options_of_data_are_not_tuned() -> None:
    found = sweep(key="data.alpha")
    assert chosen(candidates(found)) == {} and winner_lines(found) == []
    assert len(found.importance()) == 0 and "chosen" not in found.table()
    assert list(found.table()["data.alpha"]) == [0.1, 0.1, 0.3, 0.3, 0.9, 0.9]


def test_swept_options_are_columns_of_numbers_in_the_files(tmp_path: Path) -> None:
    found = sweep()
    found.write(tmp_path)
    comparison_tables.write(found, tmp_path)
    table = pd.read_csv(tmp_path / "comparison.csv")
    assert table["local.lr"].dtype == np.float64
    marks = table.set_index(["local.lr", "method"])["chosen"].dropna().to_dict()
    assert marks == {(0.3, "FedAvg"): "best of method", (0.3, "IFCA"): "winner"}
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert len(runs) == 12 and runs["local.lr"].dtype == np.float64
    (one,) = runs.query("`local.lr` == 0.9 and method == 'IFCA' and seed == 1").to_dict("records")
    assert (one["validation_accuracy"], one["final_accuracy"]) == (0.63, 0.72)
    for name in ("sweep.tex", "means.tex", "importance.tex"):
        assert r"\caption{" in (tmp_path / name).read_text()
    latex = (tmp_path / "sweep.tex").read_text()
    (winner,) = [line for line in latex.splitlines() if "winner" in line and "&" in line]
    assert winner.startswith(r"\textbf{IFCA} & \textbf{0.3} & \textbf{86.0 $\pm$ 1.4}")


def test_methods_and_settings_are_mean_and_sd() -> None:
    text = comparison_tables.markdown(sweep())
    sd = 100 * np.std([0.90, 0.92], ddof=1)
    assert f"| 0.1 | 61.0 ± {sd:.1f} | **91.0 ± {sd:.1f}** |" in text
    assert "differences are not tested" in text  # two seeds


def test_candidates_have_the_final_accuracy_of_all_clients_as_the_means_have() -> None:
    """Clients without a cluster would flatter a candidate."""
    found = sweep(validation=None)
    end = {"final_accuracy": 0.9, "accuracy_all_clients": 0.5, "final_partial": True}
    runs = {key: dataclasses.replace(run, final=end) for key, run in found.finished.items()}
    found = dataclasses.replace(found, finished=runs)
    candidate_rows = comparison_tables.further_tables(found)["sweep"].rows
    assert {row[-1] for row in candidate_rows} == {"50.0 ± 0.0"}
    means = comparison_tables.further_tables(found)["means"].rows
    assert {cell for row in means for cell in row[1:]} == {"50.0 ± 0.0"}


def test_a_terminal_shows_one_table_of_candidates() -> None:
    shown = tables(sweep())
    assert [str(table.title) for table in shown] == [
        "Sweep: the candidates",
        "Methods and settings: final (%), mean ± SD over the seeds",
        "How much each option mattered: best accuracy on validation samples",
    ]
    assert shown[0].row_count == 6


def test_notes_are_on_the_tables_that_are_shown() -> None:
    """The candidates have no bytes and no target. Methods x settings, which a search has not, has
    bold type."""

    def beginnings(found: Comparison) -> set[str]:
        first = {note.split()[0] for note in notes(found)}
        return first & {"Means", "Bytes", "Bold:", "Target:"}

    assert beginnings(sweep()) == {"Means", "Bold:"}
    assert beginnings(search(40)) == set()
    two_settings = sweep({value: TEST[value] for value in (0.1, 0.3)})
    assert beginnings(two_settings) == {"Means", "Bytes", "Bold:", "Target:"}


def test_lines_that_all_settings_share_are_told_once_and_say_not_tested() -> None:
    told = findings(sweep())
    line = "in each of 3 settings: 1 of 1 pairs share fewer than 3 seeds and are not tested"
    assert told.count(line) == 1 and sum("not tested" in other for other in told) == 1


# --- how much each option mattered


def test_the_share_of_variance_follows_from_the_f_test() -> None:
    """Eta squared = F (k - 1) / (F (k - 1) + n - k), with SciPy's F."""
    rng = np.random.default_rng(5)
    groups = np.repeat([0, 1, 2], [4, 6, 5])
    scores = rng.normal(size=15) + groups
    f = stats.f_oneway(*(scores[groups == group] for group in range(3))).statistic
    assert share_of_variance(scores, groups) == pytest.approx(f * 2 / (f * 2 + 12))
    assert share_of_variance(np.ones(4), np.array([0, 0, 1, 1])) == 0.0


def test_a_rank_correlation_is_scipys_with_an_interval_around_it() -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(size=30)
    scores = np.exp(values) + rng.normal(size=30)
    rho, low, high = rank_correlation(values, scores)
    assert rho == pytest.approx(np.asarray(stats.spearmanr(values, scores))[0])
    assert low < rho < high and rank_correlation(values, scores) == (rho, low, high)
    assert np.isnan(rank_correlation(values, np.ones(30))).all()


def test_the_options_of_a_grid_are_judged_within_a_method() -> None:
    rows = sweep().importance().set_index(["method", "key"])
    scores = np.array([0.60, 0.62, 0.85, 0.87, 0.61, 0.63])
    means = np.repeat([0.61, 0.86, 0.62], 2)
    total = ((scores - scores.mean()) ** 2).sum()
    share = ((means - scores.mean()) ** 2).sum() / total
    assert rows.loc[("IFCA", "local.lr"), "share"] == pytest.approx(share)
    assert rows.loc[("IFCA", "local.lr"), "by_chance"] == pytest.approx(2 / 5)
    assert rows.loc[("IFCA", "seed"), "share"] == pytest.approx(6 * 0.01**2 / total)


def search(count: int) -> Comparison:
    """A random search of one method, whose optimum lies in the middle of the rates."""
    rates = np.linspace(0.1, 0.9, count).round(4)
    scores = {float(rate): {"FedAvg": [0.9 - (rate - 0.5) ** 2]} for rate in rates}
    found = sweep(scores, scores, trials=count)
    settings = tuple(
        dataclasses.replace(setting, values={"trial": number, **setting.values})
        for number, setting in enumerate(found.grid.settings, 1)
    )
    return dataclasses.replace(found, grid=dataclasses.replace(found.grid, settings=settings))


def test_an_optimum_in_the_middle_of_a_search_counts() -> None:
    (row,) = search(15).importance().to_dict("records")
    assert (row["key"], row["scores"], row["groups"]) == ("local.lr", 15, 3)
    assert row["share"] > 0.5 and abs(row["rho"]) < 0.1  # rank correlation does not see it
    assert row["by_chance"] == pytest.approx(2 / 14)


def test_a_trial_without_a_score_for_each_seed_does_not_count() -> None:
    """Its mean over the other seeds would be biased."""
    found = search(15)
    key = next(iter(found.finished))
    fewer = dataclasses.replace(
        found, finished={each: run for each, run in found.finished.items() if each != key}
    )
    (row,) = fewer.importance().to_dict("records")
    assert row["scores"] == 14


def test_too_few_trials_and_too_few_runs_are_said() -> None:
    (row,) = search(9).importance().to_dict("records")
    assert row["note"] == "too few trials: 9, at least 10 are needed" and np.isnan(row["share"])
    assert "Too few trials: 9, at least 10 are needed." in comparison_tables.markdown(search(9))
    one_seed = {rate: {"FedAvg": [scores["FedAvg"][0]]} for rate, scores in TEST.items()}
    (row,) = sweep(one_seed, None).importance().to_dict("records")
    assert row["note"].startswith("too few runs: a value has 1")


def test_a_long_search_is_shortened_on_a_terminal() -> None:
    first, *_ = tables(search(40))
    assert first.row_count == 5 and "comparison.md has all" in str(first.caption)
    assert comparison_tables.markdown(search(40)).count("| FedAvg | ") >= 40


# --- alignment


def test_words_are_aligned_left_and_numbers_right_in_latex_and_markdown() -> None:
    two = {rate: TEST[rate] for rate in (0.1, 0.3)}
    found = sweep(two, {rate: VALIDATION[rate] for rate in (0.1, 0.3)})
    settings = tuple(
        dataclasses.replace(setting, values={"local.optimizer": name})
        for setting, name in zip(found.grid.settings, ("sgd", "adam"), strict=True)
    )
    found = dataclasses.replace(found, grid=dataclasses.replace(found.grid, settings=settings))
    # Setting, method, seeds; eight columns of results; best on validation, chosen.
    assert r"\begin{tabular}{llrrrrrrrrrrl}" in comparison_tables.latex(found)
    sweep_table = comparison_tables.further_tables(found)["sweep"]
    # Method and optimiser; three scores; chosen.
    assert r"\begin{tabular}{llrrrl}" in sweep_table.latex("sweep")
    assert [column.justify for column in sweep_table.rich().columns] == [
        *("left", "left"),
        *("right", "right", "right"),
        "left",
    ]
    (shown, *_) = tables(found)  # two settings have a table each
    assert [column.justify for column in shown.columns][-2:] == ["right", "left"]
    text = comparison_tables.markdown(found)
    marks = [line for line in text.splitlines() if line.startswith("| ---")]
    assert marks[0] == f"| --- | --- {'| ---: ' * 10}| --- |"
    assert "| --- | --- | ---: | ---: | ---: | --- |" in marks
