"""What a person reads."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from fedkin.experiment.progress import Display, plain_line, table

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
    "worst_decile": None,
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
    assert plain_line(RECORD, 9) == "FedAvg  round 3/9  accuracy 50.0% (partial)  clusters 4/0/2"
    unscored = {**RECORD, "accuracy": None, "partial": None, "cluster_sizes": None}
    assert plain_line(unscored, 9) == "FedAvg  round 3/9  accuracy -  clusters -"
    many = {**RECORD, "cluster_sizes": [1] * 9 + [0]}
    assert plain_line(many, 9).endswith("clusters 9 of 10")


@pytest.mark.parametrize("rounds", [1, 7, 20, 21, 300])
def test_elsewhere_than_on_a_terminal_some_twenty_lines(rounds: int, capsys: pytest.CaptureFixture[str]) -> None:
    with Display(rounds) as display:
        for round in range(rounds + 1):
            display({**RECORD, "round": round})
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) <= 22
    assert "round 0/" in lines[0] and f"round {rounds}/{rounds} " in lines[-1]


def test_on_a_terminal_one_live_line_per_method() -> None:
    display = Display(4)
    screen = io.StringIO()
    display.console = Console(file=screen, force_terminal=True, width=120)
    display._bars.live.console = display.console
    display._bars.disable = False
    with display:
        for method in ("fedgroup", "fedavg"):
            for round in range(5):
                display({**RECORD, "method": method, "round": round, "accuracy": None if round == 4 else round / 8})
    assert [task.fields["method"] for task in display._bars.tasks] == ["FedGroup", "FedAvg"]
    assert all(task.finished for task in display._bars.tasks)
    assert [task.fields["accuracy"] for task in display._bars.tasks] == ["37.5% (partial)"] * 2


def test_the_closing_table() -> None:
    told = printed([SUMMARY, {**SUMMARY, "method": "fedavg", "best_accuracy": 0.8}])
    assert "digits, mclr, 5 rounds, seed 7" in told
    ours, theirs = (line.split() for line in told.splitlines() if line.lstrip().startswith("Fed"))
    assert ours == ["FedGroup", "95.6%", "4", "90.0%", "-", "3/2", "2.5", "1.0", "1.3"]
    assert theirs[:2] == ["FedAvg", "80.0%"]


def test_a_run_that_was_never_scored() -> None:
    told = printed([{**SUMMARY, "best_accuracy": None, "best_round": None, "final_accuracy": None}])
    row = next(line.split() for line in told.splitlines() if line.lstrip().startswith("Fed"))
    assert row[:5] == ["FedGroup", "-", "-", "-", "-"]


def test_a_dash_for_the_best_is_explained() -> None:
    told = " ".join(printed([{**SUMMARY, "best_accuracy": None, "best_round": None}]).split())
    assert "best -: in no round every client had a cluster; run.selection=round_robin gives everybody a turn" in told
    never = {**SUMMARY, "best_accuracy": None, "best_round": None, "final_accuracy": None}
    for other in (SUMMARY, never):
        assert "best -" not in printed([other])


def test_columns_that_are_not_always_there() -> None:
    told = printed([{**SUMMARY, "ari": 0.5, "target": 0.9, "rounds_to_target": 3}, {**SUMMARY, "target": 0.9}])
    rows = [line.split() for line in told.splitlines() if line.lstrip().startswith("Fed")]
    assert [row[-2:] for row in rows] == [["0.50", "3"], ["-", "-"]]
