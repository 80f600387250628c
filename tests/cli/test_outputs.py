"""No command writes over a file from elsewhere; its own output may be replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from tests.refusals import refused

FOREIGN = "name,value\n1,2\n"
DIGITS = ["data.clients=8", "run.rounds=1", "run.cohort=4", "run.against=[]", "method.clusters=2"]


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs") / "run"
    assert fedkin("run", *DIGITS, "--out", folder).exit_code == 0
    return folder


def foreign(path: Path) -> Path:
    path.write_text(FOREIGN)
    return path


def test_a_report_replaces_reports_only(run: Path, tmp_path: Path) -> None:
    table = foreign(tmp_path / "table.csv")
    refused(fedkin("report", run, "--out", table), "table.csv exists", "name another file", "rm ")
    refused(fedkin("report", run, "--out", run / "config.toml"), "config.toml exists")
    with pytest.raises(fk.StorageError, match=r"table\.csv exists"):
        fk.report(run, table)
    assert table.read_text() == FOREIGN
    for _ in range(2):
        assert fedkin("report", run, "--out", tmp_path / "page.html").exit_code == 0
        assert fedkin("report", run).exit_code == 0
    (tmp_path / "empty.html").touch()
    assert fedkin("report", run, "--out", tmp_path / "empty.html").exit_code == 0


def test_figures_of_a_report_replace_figures_only(run: Path, tmp_path: Path) -> None:
    mine = foreign(tmp_path / "accuracy.pdf")
    result = fedkin("report", run, "--out", tmp_path / "page.html", "--figures", tmp_path)
    refused(result, "accuracy.pdf exists")
    assert mine.read_text() == FOREIGN and list(tmp_path.iterdir()) == [mine]
    for _ in range(2):
        result = fedkin(
            "report", run, "--out", tmp_path / "page.html", "--figures", tmp_path / "figures"
        )
        assert result.exit_code == 0, result.output


def test_an_evaluation_replaces_evaluations_only(run: Path, tmp_path: Path) -> None:
    mine = foreign(tmp_path / "evaluation-test.csv")
    refused(fedkin("evaluate", run, "--out", tmp_path), "evaluation-test.csv exists")
    assert mine.read_text() == FOREIGN and list(tmp_path.iterdir()) == [mine]
    for _ in range(2):
        assert fedkin("evaluate", run, "--out", tmp_path / "evaluation").exit_code == 0


@pytest.mark.parametrize("ending", [".png", ".svg"])
@pytest.mark.parametrize("command", ["data describe", "eps", "advise"])
def test_a_figure_replaces_figures_only(command: str, ending: str, tmp_path: Path) -> None:
    """Refused before anything is computed: the configuration is not even read."""
    mine = foreign(tmp_path / f"figure{ending}")
    settings = ["nothing"] if command == "data describe" else ["data.name=nothing"]
    result = fedkin(*command.split(), *settings, "--out", tmp_path / "figure.png")
    refused(result, f"figure{ending} exists", "name another file")
    assert list(tmp_path.iterdir()) == [mine]


def test_its_own_figure_is_replaced(tmp_path: Path) -> None:
    data = fk.data.digits(clients=8)
    for _ in range(2):
        paths = fk.data.picture(data, tmp_path / "digits.png")
    assert [path.name for path in paths] == ["digits.png", "digits.svg"]
    foreign(tmp_path / "mine.svg")
    with pytest.raises(fk.StorageError, match=r"mine\.svg exists"):
        fk.data.picture(data, tmp_path / "mine.png")


def test_a_run_is_drawn_over_its_own_figures_only(run: Path, tmp_path: Path) -> None:
    foreign(tmp_path / "figure.svg")
    with pytest.raises(fk.StorageError, match=r"figure\.svg exists"):
        fk.draw(fk.Run.load(run), tmp_path)
    assert (tmp_path / "figure.svg").read_text() == FOREIGN and not (
        tmp_path / "figure.png"
    ).exists()
    for _ in range(2):
        fk.draw(fk.Run.load(run), tmp_path / "figures")


def test_new_folders_are_asked_for(run: Path, tmp_path: Path) -> None:
    foreign(tmp_path / "metrics.jsonl")
    for command in (
        ["run", *DIGITS, "--out", tmp_path],
        ["export", run, "--out", tmp_path],
        ["data", "make", "digits", "--out", tmp_path],
    ):
        refused(fedkin(*command), str(tmp_path))
    assert [path.read_text() for path in tmp_path.iterdir()] == [FOREIGN]
