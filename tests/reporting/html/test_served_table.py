"""What serves each client, in the report: nothing without a choice, and the largest gain first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.analysis.serving.choice_texts import FILE, HEADS, cells, sentences
from fedkin.cli import app
from fedkin.reporting.html.served_table import served_table


def test_a_report_shows_the_choice(tmp_path: Path) -> None:
    data = fk.data.digits(clients=4)
    model = fk.models.mclr(data)
    run = fk.simulate(fk.FedAvg(), data, model, rounds=2, cohort=4, out=tmp_path / "run")
    assert served_table(run)["rows"] == []
    assert served_table(replace(run, folder=None))["rows"] == []

    served = fk.serve(run, folds=2)
    served.save(tmp_path / "run")
    shown = served_table(run)
    gains = sorted((row.gain for row in served.rows), reverse=True)
    assert [row[3] for row in shown["rows"]] == [f"{gain:+.1%}" for gain in gains]
    counts = served.summary()["served_by"]
    for name, count in counts.items():
        assert f"{count} by {name}" in shown["note"] or not count
    assert f"{served.summary()['gain']:+.1%}" in shown["note"]
    # Report, command and Python have the same words.
    assert shown["note"] == " ".join(sentences(served.summary()))
    assert served.text() == "\n".join(sentences(served.summary()))
    assert sorted(shown["rows"]) == sorted(map(cells, served.plain_rows))

    text = fk.report(run, tmp_path / "report.html").read_text()
    assert '<details id="served"' in text and "What serves each client" in text


@pytest.mark.parametrize("content", ["{", "[]", '{"table": 3}', '{"table": [{"client": 1}]}'])
def test_a_damaged_choice_is_left_out(content: str, tmp_path: Path) -> None:
    data = fk.data.digits(clients=4)
    model = fk.models.mclr(data)
    fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=4, out=tmp_path / "run")
    (tmp_path / "run" / FILE).write_text(content)
    text = fk.report(tmp_path / "run", tmp_path / "report.html").read_text()
    assert f"{FILE} is damaged, and is left out." in text


def test_the_command_has_the_same_words(tmp_path: Path) -> None:
    runner = CliRunner()
    folder = tmp_path / "run"
    keys = ["data.name=digits", "data.clients=4", "method.name=fedavg", "run.rounds=1"]
    done = runner.invoke(app, ["run", *keys, "run.cohort=4", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    done = runner.invoke(app, ["serve-choice", str(folder), "--folds", "2"])
    assert done.exit_code == 0, done.output
    printed = " ".join(done.output.split())
    choice = json.loads((folder / FILE).read_text())
    assert all(sentence in printed for sentence in sentences(choice))
    assert all(word in printed for word in " ".join(HEADS).split())
    assert all(cell in printed for row in map(cells, choice["table"]) for cell in row)
