"""What a comparison says, in tables, files and pictures; every number is computed here once more,
by hand."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console
from scipy import stats

import fedkin as fk
from fedkin.analysis.compare.comparison import Comparison
from fedkin.core.errors import ConfigError
from fedkin.options.privacy.private import NOT_PRIVATE
from fedkin.reporting import comparison_figure, comparison_tables, ranks_figure
from fedkin.reporting.comparison_findings import findings
from fedkin.reporting.comparison_progress import Pace, tables
from tests.analysis.written_comparisons import LOWER, at_the_end, comparison

# From each of three seeds, rounds 0 to 2. FedAvg is at its best in round 1.
HEADS = (
    *("final (%)", "best (%)", "bottom 10% of clients (%)", "worse than alone (%)"),
    *("clusters", "rounds to target", "download / upload (MB)", "seconds"),
)
HONEST_HEADS = ("honest clients (%)", "honest bottom 10% (%)", "honest ARI", "attackers alone (%)")
AVG = [[0.1, 0.62, 0.60], [0.1, 0.64, 0.61], [0.1, 0.63, 0.62]]
IFCA = [[0.1, 0.50, 0.81], [0.1, 0.66, 0.83], [0.1, 0.55, 0.82]]
PROX = [[0.1, 0.55, 0.60], [0.1, 0.50, 0.63], None]
CURVES = {"FedAvg": AVG, "IFCA": IFCA, "FedProx": PROX}


def row(found: Comparison, method: str, setting: str = "") -> dict:
    table = found.table().set_index(["setting", "method"])
    return table.loc[(setting, method)].to_dict()


# --- the table


def cells_of(found: Comparison, place: int) -> list[str]:
    """The cells of a row of the table."""
    return comparison_tables.cells(
        found.summary()["table"][place], comparison_tables.columns(found)
    )


def test_a_row_is_means_with_scipys_intervals() -> None:
    told = row(comparison({"": CURVES}), "FedAvg")
    last = [0.60, 0.61, 0.62]
    top = [0.62, 0.64, 0.63]
    for name, values in (
        ("final_accuracy", last),
        ("best_accuracy", top),
        ("bottom_decile", [value - LOWER for value in last]),
    ):
        low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        assert [told[name], told[f"{name}_low"], told[f"{name}_high"]] == pytest.approx(
            [np.mean(values), low, high]
        )
    assert (told["seeds"], told["seconds"]) == (3, 0.5)
    # A run's: seed s has s + 1 millions down.
    assert (told["bytes_down"], told["bytes_up"]) == (2e6, 4e6)
    assert cells_of(comparison({"": CURVES}), 0)[6] == "2.0 / 4.0"


def test_without_a_target_the_first_methods_final_accuracy_is_the_target() -> None:
    found = comparison({"": CURVES})
    assert found.target("") == pytest.approx(0.61)
    # FedAvg reaches 0.61 in round 1 (always), IFCA in rounds 2, 1 and 2, FedProx in the last of one
    # of two seeds.
    expected = {"FedAvg": (3, 1.0), "IFCA": (3, 5 / 3), "FedProx": (1, 2.0)}
    assert {
        m: (row(found, m)["reached"], pytest.approx(row(found, m)["rounds_to_target"]))
        for m in expected
    } == expected


def test_a_target_that_is_asked_for() -> None:
    found = comparison({"": CURVES}, target=0.82)
    assert [found.target(""), *found.table()["target"]] == [0.82] * 4
    assert (row(found, "IFCA")["reached"], row(found, "IFCA")["rounds_to_target"]) == (2, 2.0)
    assert row(found, "FedAvg")["reached"] == 0
    assert cells_of(found, 0)[5] == "-"
    assert cells_of(found, 1)[5] == "2.0 (2 of 3)"


def test_rounds_with_unassigned_clients_reach_no_target() -> None:
    found = comparison({"": {"FedAvg": AVG, "IFCA": IFCA}}, partial=[1], target=0.60)
    assert row(found, "FedAvg")["rounds_to_target"] == 2.0
    assert row(found, "FedAvg")["best_accuracy"] == pytest.approx(0.61)


def test_a_target_is_of_the_samples_that_rounds_are_scored_on() -> None:
    """Test accuracy at the end may be out of reach for rounds that are scored on validation
    samples, or too easy."""
    found = comparison({"": {"FedAvg": AVG, "IFCA": IFCA}})
    assert "validation" not in comparison_tables.markdown(found)
    validated = {}
    for key, run in found.finished.items():
        records = [{**record, "split": "validation"} for record in run.records]
        validated[key] = dataclasses.replace(
            run, records=records, final={"final_accuracy": 0.99, "best_accuracy": 0.9}
        )
    found = dataclasses.replace(found, finished=validated)
    assert found.target("") == pytest.approx(0.61) and row(found, "IFCA")["reached"] == 3
    assert (
        "accuracy of FedAvg in its last round, on validation samples, 61.0%"
        in comparison_tables.markdown(found)
    )


def test_each_setting_has_its_own_target() -> None:
    found = comparison({"a": {"FedAvg": AVG}, "b": {"FedAvg": IFCA}})
    assert [found.target("a"), found.target("b")] == pytest.approx([0.61, 0.82])


def test_cells_that_are_missing() -> None:
    found = comparison(
        {"": CURVES, "hard": {"FedAvg": [None] * 3, "IFCA": IFCA, "FedProx": [None] * 3}}
    )
    assert found.missing == [
        ("", "FedProx", 2),
        *(("hard", m, s) for m in ("FedAvg", "FedProx") for s in range(3)),
    ]
    assert [run.config.seed for run in found.runs("", "FedProx")] == [0, 1]
    two = row(found, "FedProx")
    assert (two["seeds"], two["final_accuracy"]) == (2, pytest.approx(0.615))
    assert np.isnan(two["final_accuracy_low"])
    none = row(found, "FedAvg", "hard")
    assert (none["seeds"], none["reached"]) == (0, 0)
    assert np.isnan(
        [none[name] for name in ("final_accuracy", "bytes_down", "seconds", "rounds_to_target")]
    ).all()
    assert found.target("hard") is None  # the first method has no run there
    assert found.values("hard", "final_accuracy")["IFCA"].tolist() == [0.81, 0.83, 0.82]
    assert np.isnan(found.values("hard", "final_accuracy")["FedAvg"]).all()
    assert list(found.curves("hard")) == ["IFCA"]


def test_differences_are_named_by_setting_and_measure() -> None:
    found = comparison({"a": CURVES, "b": CURVES})
    table = found.differences()
    assert table["setting"].tolist() == ["a"] * 3 + ["b"] * 3
    first = table.loc[0]
    p = stats.ttest_rel([0.81, 0.83, 0.82], [0.60, 0.61, 0.62]).pvalue
    assert (first["method"], first["against"], first["measure"]) == ("IFCA", "FedAvg", "final")
    # The other pairs have two seeds in common, so there is nothing to adjust for.
    assert first["p"] == pytest.approx(p)
    assert first["difference"] == pytest.approx(0.21)
    best = found.differences("best").set_index(["setting", "method", "against"])["difference"]
    assert best.to_dict()["a", "IFCA", "FedAvg"] == pytest.approx(
        np.mean([0.81, 0.83, 0.82]) - np.mean([0.62, 0.64, 0.63])
    )
    bottom = found.differences("bottom")
    assert bottom.loc[0, "difference"] == pytest.approx(0.21) and set(bottom["measure"]) == {
        "bottom"
    }
    with pytest.raises(ConfigError, match="unknown measure 'fianl'; did you mean 'final'"):
        found.differences("fianl")


def test_ranks_are_means_over_the_settings_that_all_methods_finished() -> None:
    settings = {
        "a": at_the_end(x=[0.3, 0.4], y=[0.5, 0.6], z=[0.1, 0.2]),  # y x z
        "b": at_the_end(x=[0.7, 0.7], y=[0.5, 0.5], z=[0.5, 0.5]),  # x, then y and z share
        "c": at_the_end(x=[0.9, 0.9], y=[0.1, 0.1], z=[0.2, None]),  # not finished
    }
    assert comparison(settings).ranks().average == {"x": 1.5, "y": 1.75, "z": 2.75}
    assert comparison({"c": settings["c"]}).ranks().average == {}
    with pytest.raises(ConfigError, match="unknown measure 'fianl'"):
        comparison(settings).ranks("fianl")


FIVE = {str(i): at_the_end(x=[0.9 - i / 50], y=[0.8 - i / 70], z=[0.5 + i / 90]) for i in range(5)}


def test_ranks_of_many_settings_are_written_and_drawn(tmp_path: Path) -> None:
    found = comparison(FIVE)
    found.write(tmp_path)
    fk.draw(found, tmp_path)
    assert {p.name for p in tmp_path.glob("rank*")} == {
        *("ranks.csv", "rank_tests.csv", "ranks.tex", "ranks.png", "ranks.svg")
    }
    assert pd.read_csv(tmp_path / "ranks.csv")["method"].tolist() == ["x", "y", "z"]
    assert "Average rank" in (tmp_path / "ranks.tex").read_text()
    bars = [np.asarray(line.get_xdata()) for line in ranks_figure.draw(found.ranks()).axes[0].lines]
    joined = [bar for bar in bars if len(bar) == 2 and bar[0] != bar[1]]  # those that join methods
    assert joined and all(bar[0] < bar[1] for bar in joined)  # in one order, in every process
    assert "Friedman p = " in (tmp_path / "comparison.md").read_text()
    fewer = {label: FIVE[label] for label in list(FIVE)[:4]}
    comparison(fewer).write(tmp_path / "few")
    fk.draw(comparison(fewer), tmp_path / "few")
    assert not list((tmp_path / "few").glob("rank*"))


def test_without_its_library_the_picture_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "scikit_posthocs", None)
    fk.draw(comparison(FIVE), tmp_path)
    assert (tmp_path / "ranks.tex").exists() and not (tmp_path / "ranks.png").exists()
    assert "pip install 'fedkin[ranks]'; then fedkin compare --resume draws it" in caplog.text


def test_a_summary_is_plain_json() -> None:
    found = comparison(
        {"": CURVES, "hard": {"FedAvg": [None] * 3, "IFCA": IFCA, "FedProx": [None] * 3}}
    )
    told = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert told == found.summary()
    assert (told["settings"], told["methods"], told["seeds"]) == (
        ["", "hard"],
        list(CURVES),
        [0, 1, 2],
    )
    assert (len(told["table"]), len(told["differences"]), len(told["missing"])) == (6, 6, 7)
    assert told["table"][3]["final_accuracy"] is None
    assert (
        json.loads(
            json.dumps(comparison({"": {"FedAvg": [None, None]}}).summary(), allow_nan=False)
        )["ranks"]
        == {}
    )


def test_runs_without_test_data_have_no_numbers(tmp_path: Path) -> None:
    nan = float("nan")
    found = comparison({"": {"FedAvg": [[nan] * 3] * 3, "IFCA": [[nan] * 3] * 3}})
    json.dumps(found.summary(), allow_nan=False)
    assert row(found, "FedAvg")["seeds"] == 3 and found.target("") is None
    comparison_tables.write(found, tmp_path)
    assert "| FedAvg | 3 | - | - | - | - | 2 | - |" in (tmp_path / "comparison.md").read_text()


def with_clusters(found: Comparison, configured: int) -> Comparison:
    """The same runs of a method with so many clusters. Two of these have clients."""
    entry = {"name": "ifca", "clusters": configured}
    runs = {
        key: dataclasses.replace(run, config=run.config.with_sections({"method": entry}))
        for key, run in found.finished.items()
    }
    return dataclasses.replace(found, finished=runs)


def test_every_table_has_the_clusters_at_the_end_and_those_configured() -> None:
    for configured, text in ((2, "2"), (5, "2 of 5")):
        found = with_clusters(comparison({"": CURVES}), configured)
        told = row(found, "IFCA")
        assert (told["clusters"], told["configured_clusters"]) == (2, configured)
        assert markdown_table(comparison_tables.markdown(found))[2][6] == text
        assert comparison_tables.latex(found).count(f"& {text} &") >= 3


# --- Markdown, LaTeX, CSV


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def markdown_table(text: str) -> list[list[str]]:
    return [cells(line) for line in text.splitlines() if line.startswith("|")]


def test_markdown_has_one_cell_per_column_with_any_label() -> None:
    found = comparison({"a|b": {"Fed|Avg": AVG, "IFCA": IFCA}, "c": {"Fed|Avg": AVG, "IFCA": IFCA}})
    text = comparison_tables.markdown(found)
    table = markdown_table(text)
    assert [len(line) for line in table] == [11] * 6 + [3] * 4  # the second is methods x settings
    assert table[0] == ["setting", "method", "seeds", *HEADS]
    assert [line[:2] for line in table[2:6]] == [
        [s, m] for s in ("a\\|b", "c") for m in ("Fed\\|Avg", "IFCA")
    ]
    assert "* a|b: IFCA over Fed|Avg: +21.0 points" in text


def test_one_setting_has_no_column() -> None:
    assert markdown_table(comparison_tables.markdown(comparison({"": CURVES})))[0] == [
        "method",
        "seeds",
        *HEADS,
    ]
    assert r"\begin{tabular}{lrrrrrrrrr}" in comparison_tables.latex(comparison({"": CURVES}))


def validated(found: Comparison, chosen: dict[str, float]) -> Comparison:
    """The same with an accuracy on validation samples by method, a little more from each seed."""
    more = {"FedAvg": 0.01, "IFCA": 0.02}
    runs = {
        key: dataclasses.replace(
            run, final={**run.final, "validation_accuracy": chosen[key[1]] + more[key[1]] * key[2]}
        )
        for key, run in found.finished.items()
    }
    return dataclasses.replace(found, finished=runs)


def test_methods_are_compared_by_validation_where_that_is_asked() -> None:
    """FedAvg is best on validation samples, IFCA in the last round: the mark and the first of the
    pair follow."""
    found = validated(comparison({"": {"FedAvg": AVG, "IFCA": IFCA}}), {"FedAvg": 0.9, "IFCA": 0.7})
    table = markdown_table(comparison_tables.markdown(found, "validation"))
    assert table[0][-1] == "best on validation (%)" and table[2][-1].startswith("**91.0")
    assert table[3][2][:4] == "82.0" and table[3][-1].startswith("72.0")  # neither is marked
    (pair,) = found.summary("validation")["differences"]
    assert (pair["method"], pair["against"]) == ("FedAvg", "IFCA") and pair[
        "difference"
    ] == pytest.approx(0.19)
    assert markdown_table(comparison_tables.markdown(found))[3][2].startswith("**82.0")
    without = comparison({"": {"FedAvg": AVG, "IFCA": IFCA}})
    (pair,) = without.summary("validation")["differences"]
    assert pair["p"] is None and "no validation samples; set data.validation=0.2" in pair["why"]


def test_numbers_are_those_of_the_table() -> None:
    table = markdown_table(comparison_tables.markdown(comparison({"": CURVES})))
    half = (stats.t.interval(0.95, 2, 0.61, stats.sem([0.60, 0.61, 0.62]))[1] - 0.61) * 100
    assert table[2][:3] == ["FedAvg", "3", f"61.0 ± {half:.1f}"]
    assert table[4][:3] == ["FedProx", "2", "61.5"]  # two seeds have no interval
    assert table[4][7] == "2.0 (1 of 2)"


@pytest.mark.parametrize(("measure", "place"), [("final", 2), ("best", 3), ("bottom", 4)])
def test_bold_are_the_best_and_methods_that_do_not_differ_significantly(
    measure: str, place: int
) -> None:
    near = [[0.1, 0.6, 0.82], [0.1, 0.6, 0.81], [0.1, 0.6, 0.84]]
    found = comparison({"": {"FedAvg": AVG, "IFCA": IFCA, "near": near}})
    bold = {
        line[0]: [i for i, cell in enumerate(line) if "**" in cell]
        for line in markdown_table(comparison_tables.markdown(found, measure))[2:]
    }
    assert bold == {"FedAvg": [], "IFCA": [place], "near": [place]}
    latex = {
        line.split(" & ")[0]: r"\textbf" in line
        for line in comparison_tables.latex(found, measure).splitlines()
        if "&" in line
    }
    assert latex == {"Method": False, "FedAvg": False, "IFCA": True, "near": True}


def test_with_two_seeds_only_the_highest_is_bold_and_nothing_is_tested() -> None:
    text = comparison_tables.markdown(
        comparison({"": at_the_end(FedAvg=[0.80, 0.81], IFCA=[0.80, 0.82])})
    )
    assert [line[2] for line in markdown_table(text)[2:]] == ["80.5", "**81.0**"]
    assert "1 of 1 pairs share fewer than 3 seeds and are not tested" in text
    assert "interval" not in text and "t-test" not in text


def test_findings() -> None:
    near = [[0.1, 0.6, 0.82], [0.1, 0.6, 0.81], [0.1, 0.6, 0.84]]
    told = findings(comparison({"": {"FedAvg": AVG, "IFCA": IFCA, "near": near}}))
    assert len(told) == 3  # two are significant, one is not
    d = np.array([0.21, 0.22, 0.20])
    low, high = stats.t.interval(0.95, 2, d.mean(), stats.sem(d))
    (line,) = [line for line in told if line.startswith("IFCA over FedAvg")]
    assert f"+21.0 points ({100 * low:.1f} to {100 * high:.1f}), p = " in line
    assert told[-1] == "1 of 3 differences are not significant"
    assert findings(comparison({"": {"FedAvg": AVG}})) == []


def under_attack(found: Comparison, setting: str, accuracies: dict[str, float]) -> Comparison:
    """The same, with runs of that setting as under an attack; every seed of a method has its
    accuracy."""
    runs = dict(found.finished)
    for key, run in found.finished.items():
        if key[0] == setting:
            honest = {
                "honest_accuracy": accuracies[key[1]],
                "honest_bottom_decile": 0.3,
                "honest_ari": 0.9,
            }
            honest |= {"attackers_alone": 0.25, "attackers": [1, 2]}
            runs[key] = dataclasses.replace(run, final=run.final | honest)
    return dataclasses.replace(found, finished=runs)


def test_under_attack_there_are_columns_of_honest_clients_and_the_worst_of_all_attacks() -> None:
    found = comparison({"none": CURVES, "alie": CURVES, "ipm": CURVES})
    assert [column.head for column in comparison_tables.columns(found)][-1] == "seconds"
    found = under_attack(found, "alie", {"FedAvg": 0.4, "IFCA": 0.7, "FedProx": 0.5})
    # One has no worst.
    assert not [line for line in findings(found) if "attacks" in line]
    found = under_attack(found, "ipm", {"FedAvg": 0.1, "IFCA": 0.9, "FedProx": 0.4})
    heads = tuple(column.head for column in comparison_tables.columns(found))
    assert heads[-4:] == HONEST_HEADS
    told = row(found, "IFCA", "ipm")
    assert (told["honest_accuracy"], told["honest_ari"], told["attackers_alone"]) == pytest.approx(
        (0.9, 0.9, 0.25)
    )
    shown = comparison_tables.columns(found)
    rows = {
        (one["setting"], one["method"]): comparison_tables.cells(one, shown)
        for one in found.summary()["table"]
    }
    assert rows["ipm", "FedProx"][-4:] == ["40.0", "30.0", "0.90", "25.0"]  # two seeds: no interval
    assert rows["none", "IFCA"][-4:] == ["-"] * 4
    worst = [line for line in findings(found) if "under 2 attacks" in line]
    assert (
        worst[1]
        == "IFCA under 2 attacks, accuracy of honest clients: worst 70.0% (alie), mean 80.0%"
    )
    assert "| honest clients (%) |" in comparison_tables.markdown(found)


def test_table_notes_explain_the_numbers() -> None:
    told = " ".join(comparison_tables.table_notes(comparison({"": CURVES})))
    assert "with their 95% intervals" in told and "Holm" in told
    assert (
        "Target: accuracy of FedAvg in its last round, 61.0%" in told
        and "Not finished: 1 of 9 runs." in told
    )
    assert "Target: run.target, 70.0%" in " ".join(
        comparison_tables.table_notes(comparison({"": CURVES}, target=0.7))
    )
    alone = " ".join(comparison_tables.table_notes(comparison({"": {"FedAvg": AVG[:1]}})))
    assert "interval" not in alone and "test" not in alone and "Not finished" not in alone


@pytest.mark.parametrize(("last", "sum_"), [(0.5, "epsilon 4.5"), ("infinite", "epsilon inf")])
def test_private_runs_of_a_comparison_are_added_up(last: float | str, sum_: str) -> None:
    """Tuning on the same clients costs as much as all its runs: 2 + 2 + 0.5 at 3 x 0.001."""
    found = comparison({"": {"FedAvg": AVG}})
    prices = [2.0, 2.0, last]
    finished = {
        key: dataclasses.replace(
            run, final=run.final | {"privacy": {"epsilon": price, "delta": 1e-3, "clients": 50}}
        )
        for (key, run), price in zip(found.finished.items(), prices, strict=True)
    }
    told = " ".join(comparison_tables.table_notes(dataclasses.replace(found, finished=finished)))
    assert (
        f"all 3 finished private runs, on the same clients, cost up to {sum_} at delta 0.003 "
        f"together" in told
    )
    assert "Privacy" not in " ".join(comparison_tables.table_notes(found))


def test_faults_in_the_privacy_of_a_comparison_are_named() -> None:
    """Seeded noise; a delta that is no protection; runs that are still going on have spent, too."""
    found = comparison({"": CURVES})
    said = {"epsilon": 1.0, "delta": 1e-6, "clients": 20}
    notes = [
        " ".join(
            comparison_tables.table_notes(
                dataclasses.replace(
                    found,
                    finished={
                        key: dataclasses.replace(run, final=run.final | {"privacy": said | more})
                        for key, run in found.finished.items()
                    },
                )
            )
        )
        for more in ({}, {"delta": 0.2}, {"warning": NOT_PRIVATE})
    ]
    assert all("releases of unfinished runs cost more." in note for note in notes)
    assert "permits publishing" not in notes[0] and NOT_PRIVATE not in notes[0]
    assert "with 20 clients permits publishing" in notes[1]
    assert notes[2].count(f"Privacy: {NOT_PRIVATE}.") == 1


def test_a_dash_for_the_best_is_explained() -> None:
    never = comparison({"": {"FedAvg": AVG, "IFCA": IFCA}}, partial=[0, 1, 2])
    told = " ".join(comparison_tables.table_notes(never))
    assert "Best -: some seed has no round in which every client had a cluster" in told
    assert "Best -" not in " ".join(comparison_tables.table_notes(comparison({"": CURVES})))


NASTY = r"[50%] a_b & c # {d} $5 ^~ \x"


def test_latex_is_balanced_with_any_label() -> None:
    found = comparison({NASTY: {NASTY: AVG, "*IFCA": IFCA}, "b": {NASTY: AVG, "*IFCA": IFCA}})
    lines = comparison_tables.latex(found).splitlines()
    body = [line for line in lines if line.endswith(r"\\")]
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", "\n".join(lines))
    assert columns and columns[1] == "llrrrrrrrrr"
    for line in body:
        assert len(re.findall(r"(?<!\\)&", line)) == 10
        assert not re.search(r"(?<!\\)[%#_]", line)
        bare = re.sub(r"\\[\\{}&%$#_]", "", line)
        assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
        assert not line.startswith(("[", "*"))  # \\ of the line before would take it for its own
    assert (
        r"a\_b \& c \# \{d\} \$5 \textasciicircum{}\textasciitilde{} \textbackslash{}x" in body[1]
    )
    rules = [line for line in lines if line.startswith("\\") and "rule" in line]
    assert rules == [r"\toprule", r"\midrule", r"\midrule", r"\bottomrule"]
    assert lines.index(r"\end{tabular}") == lines.index(r"\bottomrule") + 1
    caption, label, end, *after = lines[lines.index(r"\end{tabular}") + 1 :]
    assert caption.startswith(r"\caption{Means over the seeds") and caption.endswith("}")
    assert (label, end) == (r"\label{tab:comparison}", r"\end{table}")
    assert not re.search(r"(?<!\\)[%#_]", caption)
    assert after and all(line.startswith("%") for line in after)
    # A setting is told once.
    assert [line.startswith(" & ") for line in body[1:]] == [False, True, False, True]


def test_all_is_written_and_csv_reads_back(tmp_path: Path) -> None:
    found = comparison({"x, y": CURVES, 'say "z"': CURVES})
    out = tmp_path / "deep/out"
    found.write(out)
    assert fk.draw(found, out) == out / "figure.png"
    assert sorted(p.name for p in out.iterdir()) == sorted(
        [
            *(f"comparison.{e}" for e in ("csv", "md", "tex")),
            "means.tex",
            "runs.csv",
            "differences.csv",
            "curves.csv",
            "summary.json",
        ]
        + ["figure.png", "figure.svg"]
    )
    for name, table in (("comparison", found.table()), ("differences", found.differences())):
        again = pd.read_csv(out / f"{name}.csv", na_values=[""])
        table = table.fillna(np.nan)
        pd.testing.assert_frame_equal(again, table, check_dtype=False)
    curves = (
        pd.read_csv(out / "curves.csv")
        .set_index(["setting", "method", "seed", "round"])["accuracy"]
        .to_dict()
    )
    assert len(curves) == 2 * 8 * 3
    assert curves['say "z"', "IFCA", 1, 2] == 0.83 and curves["x, y", "FedProx", 0, 1] == 0.55
    assert json.loads((out / "summary.json").read_text()) == found.summary()


def test_a_comparison_without_a_run_is_written_too(tmp_path: Path) -> None:
    found = comparison({"": {"FedAvg": [None] * 3, "IFCA": [None] * 3}})
    found.write(tmp_path)
    comparison_tables.write(found, tmp_path)
    assert not list(tmp_path.glob("figure.*"))
    assert list(pd.read_csv(tmp_path / "curves.csv").columns) == [
        "setting",
        "method",
        "seed",
        "round",
        "accuracy",
    ]
    assert [line[1:] for line in markdown_table(comparison_tables.markdown(found))[2:]] == [
        ["0", "-", "-", "-", "-", "-", "-", "- / -", "-"]
    ] * 2
    assert "Not finished: 6 of 6 runs." in (tmp_path / "comparison.md").read_text()


# --- the figure


def test_the_figure_has_a_panel_for_every_setting_and_a_line_for_every_method() -> None:
    shown = comparison_figure.draw(comparison({"": CURVES}))
    (axes,) = shown.axes
    assert axes.get_title("left") == "Test accuracy"
    lines = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    expected = [np.mean(rows, axis=0) for rows in (AVG, IFCA, PROX[:2])]
    assert len(lines) == 3 and all(
        np.allclose(line, mean) for line, mean in zip(lines, expected, strict=True)
    )
    four = comparison_figure.draw(
        comparison({label: {"FedAvg": AVG, "IFCA": IFCA} for label in "abcd"})
    )
    assert [axes.get_title("left") for axes in four.axes if axes.axison] == ["a", "b", "c", "d"]
    assert "FedAvg / IFCA: 3 seeds" in four.get_suptitle()


def test_more_methods_than_colours(tmp_path: Path) -> None:
    nine = {f"method {i}": [[0.1, 0.2 + i / 20, 0.3 + i / 20]] for i in range(9)}
    found = comparison({"": nine})
    (axes,) = comparison_figure.draw(found).axes
    looks = [
        (
            line.get_color(),
            str(line.get_linestyle()),
            line._unscaled_dash_pattern,  # pyright: ignore
        )
        for line in axes.lines
    ]
    assert len(axes.lines) == 9 and len({str(look) for look in looks}) == 9
    comparison_tables.write(found, tmp_path)
    image = Image.open(io.BytesIO((tmp_path / "figure.png").read_bytes()))
    assert image.format == "PNG" and image.width > 600


def test_more_settings_than_panels_are_counted() -> None:
    shown = comparison_figure.draw(
        comparison({str(i): {"FedAvg": AVG[:1]} for i in range(comparison_figure.PANELS + 2)})
    )
    assert len([axes for axes in shown.axes if axes.axison]) == comparison_figure.PANELS
    assert "2 more settings in the tables" in shown.get_suptitle()


def test_settings_without_a_run_have_no_panel() -> None:
    shown = comparison_figure.draw(comparison({"a": {"FedAvg": [None]}, "b": {"FedAvg": AVG[:1]}}))
    assert [axes.get_title("left") for axes in shown.axes] == ["b"]


# --- on a terminal


def test_the_closing_tables_show_labels_as_they_are() -> None:
    label = "[red]IFCA[/nothing]"
    found = comparison(
        {"[bold] one": {"FedAvg": AVG, label: IFCA}, "two": {"FedAvg": AVG, label: PROX}}
    )
    console = Console(record=True, width=200, file=io.StringIO())
    for table in tables(found):
        console.print(table)
    text = console.export_text()
    assert "[bold] one" in text and text.count(label) == 3  # the third is of methods x settings
    assert "61.0 ± 2.5" in text and "61.5" in text


def printed(found: Comparison, width: int, unfinished: bool = False) -> str:
    """The closing tables on a terminal of this width."""
    console = Console(record=True, width=width, file=io.StringIO())
    for table in tables(found, console=console, unfinished=unfinished):
        console.print(table)
    return console.export_text()


def test_seconds_have_no_table_for_themselves() -> None:
    found = comparison({"": {"FedAvg": AVG, "IFCA": IFCA}})
    assert "0.5" in printed(found, 100) and "left out" not in printed(found, 100)
    narrow = printed(found, 72)
    assert narrow.count("method") == 1 and "download" in narrow
    assert "columns left out on this narrow terminal: seconds" in narrow


def test_an_interrupted_comparison_shows_the_settings_that_have_a_run() -> None:
    begun = comparison({"one": {"FedAvg": AVG, "IFCA": [None]}, "two": {"FedAvg": [None]}})
    assert "two" in printed(begun, 100) and "Methods and settings" in printed(begun, 100)
    shown = printed(begun, 100, unfinished=True)
    assert "one" in shown and "two" not in shown and "Methods and settings" not in shown


def test_runs_that_stopped_early_are_named_with_their_rounds() -> None:
    found = comparison({"": CURVES})
    assert "Stopped early" not in comparison_tables.markdown(found)
    ends = {("", "FedAvg", 0): 5, ("", "FedAvg", 1): 9, ("", "FedAvg", 2): 7, ("", "IFCA", 1): 6}
    runs = dict(found.finished)
    for key, round in ends.items():
        stopped = {"round": round, "of": 40, "reason": "run.patience = 2"}
        runs[key] = dataclasses.replace(runs[key], final={**runs[key].final, "stopped": stopped})
    notes = comparison_tables.table_notes(dataclasses.replace(found, finished=runs))
    assert (
        "Stopped early, of 40 rounds: FedAvg after rounds 5 to 9, IFCA after round 6 (1 of 3 runs)."
    ) in notes


def test_columns_that_have_no_room_follow_without_repeating_the_heading() -> None:
    setting = "a setting with a name that is longer than the column"
    shown = tables(
        comparison({setting: {"FedAvg": AVG, "IFCA": IFCA}}),
        console=Console(width=66, file=io.StringIO()),
    )
    assert [str(table.title or "") for table in shown] == [f"{setting}, 3 seeds", ""]
    assert [column.header for column in shown[1].columns][-1] == "seconds"


def test_time_left_is_rounds_at_each_methods_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 2.0, 4.0, 4.0, 14.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    pace = Pace()
    assert pace.seconds_left({"a": 3}) is None
    pace.begin()
    pace.lap("a")
    pace.lap("a")
    pace.begin()
    pace.lap("b")
    # a: 2 seconds a round, b: 10, others: 14 seconds in 3 rounds
    assert pace.seconds_left({"a": 5, "b": 1}) == 20
    assert pace.seconds_left({"c": 3}) == 14
