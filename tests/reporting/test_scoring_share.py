"""The note that scoring took much of a run suggests a setting with which it takes about 5%."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.core.records import Record
from fedkin.reporting import scoring_share
from fedkin.reporting.scoring_share import scoring_note


def timings(train: float, score: float, rounds: int = 23) -> list[Record]:
    """Twenty rounds after three that compiled, and round 0."""
    lines: list[Record] = [{"round": 0, "train": 50.0, "score": 90.0, "total": 140.0}]
    for round in range(1, rounds + 1):
        total = lines[-1]["total"] + train + score
        lines.append({"round": round, "train": train, "score": score, "total": total})
    return lines


def test_a_sample_of_the_clients_is_suggested() -> None:
    # Scoring takes a quarter of the time of training, so a fifth of the clients takes 5%.
    note = scoring_note(timings(4.0, 1.0), fk.Scoring(), 1000)
    assert note == (
        "scoring took 25% of the time of training; about 5% with run.evaluate_clients=200 (a "
        "random sample, except after the last round)"
    )


def test_the_sample_is_rounded_down_to_two_digits() -> None:
    assert "run.evaluate_clients=1600 " in scoring_note(timings(4.0, 1.2), fk.Scoring(), 9999)
    assert "run.evaluate_clients=83 " in scoring_note(timings(4.0, 0.24), fk.Scoring(), 100)


def test_few_clients_are_scored_in_fewer_rounds() -> None:
    # A sample of 30 of 100 would say little.
    scoring = fk.Scoring(evaluate_every=2)
    note = scoring_note(timings(6.0, 1.0), scoring, 100)
    assert note.endswith("; about 5% with run.evaluate_every=7")


@pytest.mark.parametrize(
    ("lines", "scoring"),
    [
        (timings(4.0, 0.19), fk.Scoring()),  # less than 5%
        (timings(4.0, 0.8, rounds=3), fk.Scoring()),  # only rounds that compile
        (timings(4.0, 0.8), fk.Scoring(evaluate_clients=100)),
        (timings(4.0, 0.8), fk.Scoring(evaluate_every=0)),
        ([{"round": round} for round in range(30)], fk.Scoring()),  # a saved run has no seconds
    ],
)
def test_nothing_is_suggested(lines: list[Record], scoring: fk.Scoring) -> None:
    assert scoring_note(lines, scoring, 1000) == ""


def test_a_short_run_gets_no_note() -> None:
    short = [{"round": r, "train": 1.0, "score": 0.5, "total": 1.5 * r} for r in range(1, 40)]
    assert scoring_note(short, fk.Scoring(), 1000) == ""
    longer = [{"round": r, "train": 1.0, "score": 0.5, "total": 1.5 * r} for r in range(1, 41)]
    assert scoring_note(longer, fk.Scoring(), 1000) != ""


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["run.against=[]", "run.rounds=5", "run.cohort=4", "data.clients=8"]
    short = CliRunner().invoke(app, ["run", *settings, "--out", str(tmp_path / "short")])
    assert short.exit_code == 0 and "note: scoring took" not in short.stdout
    monkeypatch.setattr(scoring_share, "LONG", 0.0)
    monkeypatch.setattr(scoring_share, "SHARE", 1e-6)
    long = CliRunner().invoke(app, ["run", *settings, "--out", str(tmp_path / "long")])
    assert long.exit_code == 0
    assert "note: scoring took" in long.stdout and "run.evaluate_every=" in long.stdout
