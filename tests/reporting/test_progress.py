"""What a person reads."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from fedkin.reporting.progress import ProgressDisplay, plain_line, table
from fedkin.reporting.seeds_tables import compared, seeds_table
from tests.analysis.written_seeds import by_hand

RECORD: dict[str, Any] = {
    "round": 3,
    "method": "fedavg",
    "accuracy": 0.5,
    "partial": True,
    "cluster_sizes": [4, 0, 2],
}
SUMMARY: dict[str, Any] = {
    "data": "digits",
    "model": "mclr",
    "method": "fedgroup",
    "rounds": 5,
    "seed": 7,
    "best_accuracy": 0.956,
    "best_round": 4,
    "final_accuracy": 0.9,
    "bottom_decile": None,
    "cluster_sizes": [3, 2],
    "bytes_down": 2_500_000,
    "bytes_up": 1_000_000,
    "seconds": 1.26,
    "target": None,
    "rounds_to_target": None,
    "ari": None,
}


def printed(summaries: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(table(summaries))
    return out.getvalue()


def test_a_round_in_words() -> None:
    assert (
        plain_line(RECORD, 9)
        == "FedAvg  round 3/9  accuracy 50.0% (partial)  clusters 2 of 3  sizes 4/0/2"
    )
    unscored = {**RECORD, "accuracy": None, "partial": None, "cluster_sizes": None}
    assert plain_line(unscored, 9) == "FedAvg  round 3/9  accuracy -  clusters -  sizes -"
    validated = {**RECORD, "split": "validation"}
    assert "round 3/9  validation accuracy 50.0% (partial)  clusters" in plain_line(validated, 9)
    many = {**RECORD, "cluster_sizes": [1] * 9 + [0]}
    assert plain_line(many, 9).endswith("clusters 9 of 10  sizes 0 to 1")


@pytest.mark.parametrize("rounds", [1, 7, 20, 21, 300])
def test_elsewhere_than_on_a_terminal_some_twenty_lines(
    rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressDisplay(rounds) as display:
        for round in range(rounds + 1):
            display({**RECORD, "round": round})
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) <= 22
    assert "round 0/" in lines[0] and f"round {rounds}/{rounds} " in lines[-1]


def test_on_a_terminal_one_live_line_per_method() -> None:
    display = ProgressDisplay(4)
    screen = io.StringIO()
    display.console = Console(file=screen, force_terminal=True, width=120)
    display._bars.live.console = display.console
    display._bars.disable = False
    with display:
        for method in ("fedgroup", "fedavg"):
            for round in range(5):
                display(
                    {
                        **RECORD,
                        "method": method,
                        "round": round,
                        "accuracy": None if round == 4 else round / 8,
                    }
                )
    assert [task.fields["method"] for task in display._bars.tasks] == ["FedGroup", "FedAvg"]
    assert all(task.finished for task in display._bars.tasks)
    assert [task.fields["score"] for task in display._bars.tasks] == ["37.5% (partial)"] * 2


def test_the_closing_table() -> None:
    told = printed([SUMMARY, {**SUMMARY, "method": "fedavg", "best_accuracy": 0.8}])
    assert "digits, mclr, 5 rounds, seed 7" in told
    ours, theirs = (line.split() for line in told.splitlines() if line.lstrip().startswith("Fed"))
    assert ours == ["FedGroup", "95.6%", "4", "90.0%", "-", "2:", "3/2", "2.5", "/", "1.0", "1.3"]
    assert theirs[:2] == ["FedAvg", "80.0%"]
    assert "digits, mclr, 1 round, seed 7" in printed([{**SUMMARY, "rounds": 1}])


def test_many_clusters_show_their_smallest_and_largest_size() -> None:
    sizes = [1] * 9
    assert "9: 1 each" in " ".join(printed([{**SUMMARY, "cluster_sizes": sizes}]).split())
    sizes[0] = 4
    assert "9: 1 to 4" in " ".join(printed([{**SUMMARY, "cluster_sizes": sizes}]).split())


@pytest.mark.parametrize(
    ("configured", "shown"), [(3, "3: 2/1/2"), (5, "3 of 5: 2/1/2"), (None, "3: 2/1/2")]
)
def test_a_row_has_the_clusters_with_clients_and_those_configured(
    configured: int | None, shown: str
) -> None:
    told = printed([{**SUMMARY, "cluster_sizes": [2, 1, 2], "configured_clusters": configured}])
    assert shown in " ".join(told.split())


def test_a_run_that_was_never_scored() -> None:
    told = printed([{**SUMMARY, "best_accuracy": None, "best_round": None, "final_accuracy": None}])
    row = next(line.split() for line in told.splitlines() if line.lstrip().startswith("Fed"))
    assert row[:5] == ["FedGroup", "-", "-", "-", "-"]


def test_a_dash_for_the_best_is_explained() -> None:
    told = " ".join(printed([{**SUMMARY, "best_accuracy": None, "best_round": None}]).split())
    assert (
        "best -: there was no round in which every client had a cluster; "
        "run.selection=round_robin selects every client early" in told
    )
    never = {**SUMMARY, "best_accuracy": None, "best_round": None, "final_accuracy": None}
    for other in (SUMMARY, never):
        assert "best -" not in printed([other])


def test_the_accuracy_that_has_chosen_the_best_round_has_a_column() -> None:
    told = printed([{**SUMMARY, "validation_accuracy": 0.625}])
    assert "best on" in told and "62.5%" in told and "validation" in told
    assert "best on" not in printed([SUMMARY])


def test_columns_that_are_not_always_there() -> None:
    told = printed(
        [{**SUMMARY, "ari": 0.5, "target": 0.9, "rounds_to_target": 3}, {**SUMMARY, "target": 0.9}]
    )
    rows = [line.split() for line in told.splitlines() if line.lstrip().startswith("Fed")]
    assert [row[-2:] for row in rows] == [["0.50", "3"], ["-", "-"]]


def test_the_cost_of_privacy_is_below_the_table() -> None:
    statement = {
        "epsilon": 2.1894,
        "delta": 0.001,
        "unit": "one whole client",
        "rounds": {"released": 100, "planned": 100},
    }
    told = " ".join(printed([{**SUMMARY, "privacy": statement}]).split())
    assert (
        "epsilon 2.19 at delta 0.001, of one whole client (100 released)" in told
        and "TESTING" not in told
    )
    insecure = statement | {
        "epsilon": "infinite",
        "warning": "TESTING ONLY: nothing of this run is private",
    }
    told = " ".join(printed([{**SUMMARY, "privacy": insecure}]).split())
    assert "epsilon infinite" in told and "TESTING ONLY: nothing of this run is private" in told
    assert "epsilon" not in printed([SUMMARY])


def test_accuracy_of_honest_clients_and_suspects_are_below_the_table() -> None:
    attacked = {
        "honest_accuracy": 0.8,
        "honest_bottom_decile": None,
        "honest_ari": 0.5,
        "attackers": [1, 4],
    }
    attacked |= {"attackers_alone": 0.5}
    told = " ".join(printed([SUMMARY | attacked]).split())
    assert (
        "FedGroup: honest clients: accuracy 80.0%, bottom 10% -, ARI 0.50; 2 attackers, 50% alone"
        in told
    )
    assert "suspects" not in told and "honest" not in printed([SUMMARY])
    weights = {"rule_weights": [0.4, 0.0, 1.2, None, 0.6]}
    told = " ".join(printed([SUMMARY | attacked | weights]).split())
    assert "the rule suspects 2 clients, 1 of them attackers" in told


def test_the_size_of_the_messages_of_a_deployed_run() -> None:
    told = " ".join(
        printed(
            [{**SUMMARY, "messages_down": 3_100_000, "messages_up": 1_200_000}, SUMMARY]
        ).split()
    )
    assert (
        told.count("FedGroup: messages had 3.1 / 1.2 MB with headers; the table counts arrays") == 1
    )
    assert "messages" not in printed([SUMMARY])


# --- several seeds


def of_seeds(make: Any, summary: dict[str, Any]) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(make(summary))
    return out.getvalue()


def seeds_row(**changes: Any) -> dict[str, Any]:
    """The widest numbers there are."""
    names = ("final_accuracy", "best_accuracy", "mean_accuracy", "bottom_decile")
    known = {
        f"{name}{end}": value
        for name in names
        for end, value in (("", 0.5), ("_low", -0.624), ("_high", 1.624))
    }
    known |= {"clusters": 2.6667, "configured_clusters": 10}
    sent = {"bytes_down": 12_345_600_000, "bytes_up": 12_345_700_000}
    return {"method": "fedgrouprox", "seeds": 35, **known, **sent, **changes}


def seeds_summary(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    shown = {
        "data": "fashion_mnist",
        "model": "mlp",
        "method": "fedgrouprox",
        "rounds": 200,
        "seeds": [*range(35)],
    }
    return {**shown, "methods": list(rows) or [seeds_row()], "comparisons": [], **changes}


VERSUS: dict[str, Any] = {
    **{"against": "fedgrouprox", "difference": -1.0, "low": -1.0, "high": -0.999, "p": 0.0494},
    **{"seeds": 35, "verdict": "not significant", "why": None},
}


def test_the_table_of_seeds_keeps_its_numbers_at_80_columns() -> None:
    told = of_seeds(seeds_table, seeds_summary())
    assert max(map(len, told.splitlines())) <= 80 and "…" not in told
    row = next(
        line.split() for line in told.splitlines() if line.lstrip().startswith("FedGrouProx")
    )
    assert row == ["FedGrouProx", *["50.0%", "±112.4"] * 4, "12345.6", "12345.7"]
    assert any(line.strip() == "K 2.7 of 10" for line in told.splitlines())
    assert "fashion_mnist, mlp, 200 rounds, 35 seeds (0 to 34)" in told
    assert "means over the seeds with 95% intervals" in told


def test_the_comparisons_keep_their_numbers_at_80_columns() -> None:
    told = of_seeds(compared, seeds_summary(comparisons=[VERSUS, {**VERSUS, "against": "fedavg"}]))
    assert max(map(len, told.splitlines())) <= 80 and "…" not in told
    rows = [
        line for line in told.splitlines() if line.lstrip().startswith(("FedGrouProx  ", "FedAvg"))
    ]
    assert len(rows) == 2
    for row in rows:
        assert row.split()[1:8] == ["-100.0", "(-100.0", "to", "-99.9)", "35", "0.049", "not"]
    assert "Holm-adjusted for 2 comparisons" in told


def test_one_comparison_is_not_adjusted() -> None:
    assert "Holm" not in of_seeds(compared, seeds_summary(comparisons=[VERSUS]))


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_have_no_interval_and_no_test(seeds: int) -> None:
    curves = {
        "fedgroup": [[0.1, 0.8]] * seeds,
        "fedavg": [[0.1, 0.5]] * seeds,
        "fedprox": [[0.1, 0.6]] * seeds,
    }
    summary = by_hand(curves).summary()
    assert "±" not in of_seeds(seeds_table, summary) and "interval" not in of_seeds(
        seeds_table, summary
    )
    told = of_seeds(compared, summary)
    row = next(line.split() for line in told.splitlines() if line.lstrip().startswith("FedAvg"))
    assert row == ["FedAvg", "+30.0", str(seeds), "-", "too", "few", "seeds"]
    assert "too few" in told and "Holm" not in told


def test_an_unknown_value_of_seeds_is_a_dash_and_explained() -> None:
    never = {f"best_accuracy{end}": None for end in ("", "_low", "_high")}
    told = of_seeds(seeds_table, seeds_summary(seeds_row(**never), seeds_row(method="fedavg")))
    row = next(
        line.split() for line in told.splitlines() if line.lstrip().startswith("FedGrouProx")
    )
    assert row[:5] == ["FedGrouProx", "50.0%", "±112.4", "-", "50.0%"]
    told = " ".join(told.split())
    assert "best -: some seed has no round in which every client had a cluster" in told
    for quiet in (seeds_summary(), seeds_summary(seeds_row(), seeds_row(), comparisons=[VERSUS])):
        assert " -: " not in of_seeds(seeds_table, quiet)


def test_a_pair_that_is_not_compared_is_named_with_the_reason() -> None:
    nothing = {
        "difference": None,
        "low": None,
        "high": None,
        "p": None,
        "seeds": 0,
        "verdict": "no score",
    }
    told = of_seeds(
        compared,
        seeds_summary(comparisons=[VERSUS, {**VERSUS, **nothing, "why": "fedavg: never."}]),
    )
    assert "left out: fedavg: never." in told and "no score" in told
    assert "Holm" not in told  # one comparison is left


def test_elsewhere_than_on_a_terminal_one_line_per_seed_and_method(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressDisplay(4, seeds=2) as display:
        for number, seed in enumerate((7, 8)):
            display.begin(number, seed)
            for method in ("fedgroup", "fedavg"):
                for round in range(5):
                    display({**RECORD, "method": method, "round": round})
    out, err = capsys.readouterr()
    assert out == ""
    order = [
        (where, name)
        for where in ("seed 7 (1 of 2)", "seed 8 (2 of 2)")
        for name in ("FedGroup", "FedAvg")
    ]
    begins = [f"{where}  {name}" for where, name in order]
    assert [line.split("  round 4/4 ")[0] for line in err.splitlines()] == begins


def test_elsewhere_than_on_a_terminal_the_round_in_which_a_run_stops(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressDisplay(100) as display:
        for round in range(8):
            display({**RECORD, "method": "fedavg", "round": round})
    (first, second, last) = capsys.readouterr().err.splitlines()
    assert "round 0/100" in first and "round 5/100" in second and "round 7/100" in last

    with ProgressDisplay(100, seeds=2) as display:
        for number in range(2):
            display.begin(number, number)
            display({**RECORD, "method": "fedavg", "round": 3 + number})
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("seed 0 (1 of 2)") and "round 3/100" in first
    assert second.startswith("seed 1 (2 of 2)") and "round 4/100" in second


def test_on_a_terminal_one_live_line_per_method_over_all_seeds() -> None:
    display = ProgressDisplay(4, seeds=3)
    display.console = Console(file=io.StringIO(), force_terminal=True, width=120)
    display._bars.live.console = display.console
    display._bars.disable = False
    seen = []
    with display:
        for number in range(3):
            display.begin(number, number)
            for method in ("fedgroup", "fedavg"):
                for round in range(5):
                    display({**RECORD, "method": method, "round": round})
            seen.append([(task.completed, task.total) for task in display._bars.tasks])
    assert seen == [[(4 * done, 12)] * 2 for done in (1, 2, 3)]
