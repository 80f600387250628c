"""The page on tracking: the outputs of its commands for MLflow, with the extra and with the package
of the web page."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.code_blocks import ROOT, blocks, language_of, read
from tests.docs.shell_words import lines_of
from tests.free_ports import free_ports, until

pytest.importorskip("mlflow", reason="this page needs pip install 'fedkin[mlflow]'")
PAGE = ROOT / "docs/tracking.md"
BIN = Path(sys.executable).parent
# An environment with the package mlflow, as the page has it; it cannot be the one of the tests,
# whose pyarrow is newer.
UI_PROGRAM = Path(os.environ.get("FEDKIN_MLFLOW_UI", ROOT / ".venv/mlflow-ui/bin/mlflow"))
PATIENCE = 200  # seconds


def block_with(text: str) -> list[str]:
    """The lines of the shell block that has a text."""
    shell = [block.parsed for block in blocks(read(PAGE)) if language_of(block) == "sh"]
    (found,) = [block for block in shell if text in block]
    return lines_of(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder after the commands of the block on MLflow, but for the installation."""
    folder = tmp_path_factory.mktemp("tracking")
    said = run(block_with("--track mlflow"), folder)
    assert "fedkin" in said and "Experiment Id" in said
    return folder


def run(lines: list[str], folder: Path) -> str:
    """What the lines of a block print; they must end well."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    script = "\n".join(line for line in lines if not line.startswith("pip install"))
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_extra_lists_the_runs(folder: Path) -> None:
    (number,) = [path.name for path in (folder / "runs/mlruns").glob("[1-9]*")]
    export = next(line for line in block_with("--track mlflow") if line.startswith("export"))
    command = "mlflow runs list --experiment-id ID"
    assert f"`{command}`" in PAGE.read_text()
    said = run([export, command.replace("ID", number)], folder)
    assert "logged fedgroup seed 0" in said and "logged fedavg seed 0" in said


def test_the_extra_alone_has_no_web_page(folder: Path) -> None:
    """As the page says."""
    assert "`No module named 'flask'`" in PAGE.read_text()
    if importlib.util.find_spec("flask") is not None:
        pytest.skip("Flask is installed here, so that mlflow ui starts")
    done = subprocess.run([str(BIN / "mlflow"), "ui"], cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0 and "No module named 'flask'" in done.stderr


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    """Where the last command of the block serves MLflow's page."""
    if not UI_PROGRAM.is_file():
        pytest.skip(
            f"{UI_PROGRAM} does not exist; python -m venv, then pip install mlflow (or set "
            "FEDKIN_MLFLOW_UI)"
        )
    variable, program, *arguments = shlex.split(block_with("mlflow ui")[-1])
    assert program == "mlflow-ui/bin/mlflow"
    name, _, value = variable.partition("=")
    port = free_ports(1)[0]
    with (folder / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            [str(UI_PROGRAM), *arguments, "--port", str(port)],
            cwd=folder,
            env={**os.environ, name: value},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        assert until(lambda: answers(url), PATIENCE), (folder / "ui.log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    """Whether a server replies."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def test_the_web_page_has_the_experiment(address: str) -> None:
    with urllib.request.urlopen(address, timeout=60) as page:
        assert "<html" in page.read().decode()
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/experiments/search",
        data=json.dumps({"max_results": 10}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        names = {experiment["name"] for experiment in json.load(reply)["experiments"]}
    assert "fedkin" in names
