"""``fedkin report``: its file, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from tests.refusals import refused
from tests.reporting.written_runs import a_run, unfinished, wandering


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was stopped."""
    return unfinished(a_run(wandering(8, 5)), tmp_path / "a")


def test_a_report_lies_in_the_folder_or_at_the_given_place(run: Path, tmp_path: Path) -> None:
    result = fedkin("report", run)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"report: {run / 'report.html'}\n" and (run / "report.html").exists()
    elsewhere = fedkin("report", run, "--out", tmp_path / "b.html", "--similarity")
    assert elsewhere.exit_code == 0 and (tmp_path / "b.html").exists()


def test_refusals_are_one_line(run: Path, tmp_path: Path) -> None:
    refused(fedkin("report", tmp_path / "absent"), "absent", "holds no run")
    refused(fedkin("report", tmp_path), "holds no run, no seeds and no comparison")
    for old in ("--portrait", "--no-portrait"):
        refused(fedkin("report", run, old), f"{old} was removed", "--similarity")
    refused(fedkin("report"), "DIR", "fedkin report --help")
    refused(fedkin("report", run, "--out", tmp_path / "no/such/r.html"), "cannot write", "r.html")
    (tmp_path / "file").write_text("in the way")
    refused(fedkin("report", run, "--figures", tmp_path / "file"), "cannot write", "file")
    (run / "metrics.jsonl").write_text("nonsense\n")
    refused(fedkin("report", run), "no round that can be shown", "damaged in line 1")


def test_ctrl_c_is_130(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedkin.reporting.html.report.contents", interrupt)
    result = fedkin("report", run)
    assert result.exit_code == 130 and result.stderr == "interrupted\n"
    assert not (run / "report.html").exists()
