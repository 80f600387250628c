"""Every example runs by the commands of its README, ends in time,
and leaves nothing that git sees."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.free_ports import consecutive_ports, free_ports

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LIMIT = 540  # seconds; a quiet machine needs a tenth of them
README = "README.md"
# The short form of each example, as its README has it.
NOTEBOOK = 'jupyter execute examples/quickstart.ipynb --output "$PWD/runs/quickstart.ipynb"'
HOSPITAL = "python examples/hospital/run.py runs/one-round --rounds 1"
PEERS = "python examples/peers/run.py runs/three-peers --peers 3 --rounds 2"
ADAPTERS = "python examples/adapters/run.py runs/desks"
STAYS = "python examples/length_of_stay/statement.py runs/short --folds 2"
FORECASTS = (
    "python examples/forecast/clusters.py runs/short --shared runs/short-shared --local runs/local"
)
STAYS_ADVICE = "fedkin advise examples/length_of_stay/stays.toml --out runs/stays-advice.png"
SHORT = {
    README: NOTEBOOK,
    f"adapters/{README}": ADAPTERS,
    f"forecast/{README}": FORECASTS,
    f"hospital/{README}": HOSPITAL,
    f"length_of_stay/{README}": STAYS,
    f"peers/{README}": PEERS,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the examples, in which everything is committed."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy(ROOT / ".gitignore", folder)
    shutil.copytree(
        EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("runs", "__pycache__")
    )
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(
        folder,
        "-c",
        "user.name=tests",
        "-c",
        "user.email=tests@example.org",
        "commit",
        "--quiet",
        "--message",
        "the examples",
    )
    return folder


def git(folder: Path, *arguments: str) -> str:
    """The output of a git command."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def commands(page: str) -> list[str]:
    """The lines of the shell blocks of a README, without installations."""
    blocks = re.findall(r"```sh\n(.*?)```", (EXAMPLES / page).read_text(), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if not line.startswith("pip install")]


def run(checkout: Path, command: str, variables: Mapping[str, str] | None = None) -> str:
    """What a command of a README prints, with this interpreter's programs; it must end well, and in
    time."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **(variables or {})}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def check_clean(checkout: Path) -> None:
    """Git sees no new file, and no change."""
    assert git(checkout, "status", "--porcelain") == ""


def test_every_example_has_a_readme_that_the_index_names() -> None:
    index = (EXAMPLES / README).read_text()
    folders = [
        path.name
        for path in EXAMPLES.iterdir()
        if path.is_dir() and path.name not in ("runs", "__pycache__")
    ]
    notebooks = [path.name for path in EXAMPLES.glob("*.ipynb")]
    assert len(folders) >= 2 and len(notebooks) >= 1
    assert {f"{name}/{README}" for name in folders} | {README} == set(SHORT)
    for name in folders:
        assert f"]({name}/{README})" in index
    for name in notebooks:
        assert f"]({name})" in index


@pytest.mark.parametrize("page", SHORT)
def test_the_short_form_stands_in_the_readme(page: str) -> None:
    assert SHORT[page] in commands(page)


def test_the_notebook(checkout: Path) -> None:
    (checkout / "runs").mkdir()
    run(checkout, NOTEBOOK)
    assert (checkout / "runs/quickstart.ipynb").is_file()
    assert (checkout / "examples/runs/figure.png").is_file()
    check_clean(checkout)


def test_the_peers(checkout: Path) -> None:
    pytest.importorskip("zenoh", reason="the peers need pip install 'fedkin[p2p]'")
    said = run(checkout, f"{PEERS} --port {consecutive_ports(4)} --minutes 8")
    assert "peer-3 joins" in said and "neighbours are of the same cluster" in said
    assert (checkout / "runs/three-peers/trust.png").is_file()
    check_clean(checkout)


# The refusal repeats no part of the example; the test above has its smallest form.
@pytest.mark.process
def test_the_peers_refuse_a_folder_that_exists(checkout: Path) -> None:
    pytest.importorskip("zenoh", reason="the peers need pip install 'fedkin[p2p]'")
    (checkout / "runs/three-peers").mkdir(parents=True)
    refused = run(checkout, f"{PEERS} 2>&1 || true")
    assert refused.strip() == "error: runs/three-peers exists: remove it, or name another folder"


def test_the_forecasts_begin(checkout: Path, tmp_path: Path) -> None:
    """The series and a run of the short form; the next test has all commands."""
    nothing = {"FEDKIN_DATA": "", "FEDKIN_CACHE": str(tmp_path / "cache")}
    lines = commands(f"forecast/{README}")
    (short,) = [line for line in lines if line.endswith("run.rounds=5 --out runs/short-shared")]
    said = [run(checkout, line, nothing) for line in (lines[0], short)]
    assert "the series are made up" in said[0]
    assert "MASE" in said[1]
    check_clean(checkout)


# Ten processes, one after another.
@pytest.mark.process
def test_the_forecasts(checkout: Path, tmp_path: Path) -> None:
    """All commands of the README, without data on the machine."""
    nothing = {"FEDKIN_DATA": "", "FEDKIN_CACHE": str(tmp_path / "cache")}
    lines = commands(f"forecast/{README}")
    assert len(lines) == 10
    said = {line: run(checkout, line, nothing) for line in lines}
    assert "the series are made up" in said[lines[0]]
    assert "MASE" in said[lines[1]]
    whole = said[next(line for line in lines if "clusters.py runs/clusters" in line)]
    # Four kinds of industries: a cluster each, and better than last year's value.
    assert "Clusters help: their squared error is" in whole
    table = [row.split() for row in whole.splitlines()[1:5]]
    assert [row[0] for row in table] == ["0", "1", "2", "3"]
    assert all(float(mase) < float(naive) for _, _, mase, naive, _ in table)
    assert "The lowest MASE has: clusters" in whole
    assert "Clusters help" in said[FORECASTS]
    forecasts = pd.read_csv(checkout / "runs/forecasts.csv")["prediction"]
    assert len(forecasts) == 125 * 138
    assert (
        int(np.isnan(forecasts.to_numpy(float)).sum()) == 125 * 3
    )  # the months before the first lags
    check_clean(checkout)


@pytest.mark.process
def test_the_adapters(checkout: Path) -> None:
    """All commands of the README."""
    said = {line: run(checkout, line) for line in commands(f"adapters/{README}")}
    result = said[ADAPTERS]
    # The three regions, and a model for each of them.
    assert "clusters 3  sizes 4/4/4" in result
    assert "adapter 0: desk 00, desk 03, desk 06, desk 09\n" in result
    scores = dict(re.findall(r"(FedLEASE|FedAvg) +([0-9.]+)%", result.split("next:")[0]))
    assert float(scores["FedLEASE"]) > 90 > 60 > float(scores["FedAvg"])
    check_clean(checkout)


def test_the_lengths_of_stay_begin(checkout: Path, tmp_path: Path) -> None:
    """The table and a first command; the next test has all commands but the advice."""
    nothing = {"FEDKIN_DATA": "", "FEDKIN_CACHE": str(tmp_path / "cache")}
    said = [run(checkout, line, nothing) for line in commands(f"length_of_stay/{README}")[:2]]
    assert "17 hospitals" in "".join(said)
    check_clean(checkout)


# Ten processes, one after another.
@pytest.mark.process
def test_the_lengths_of_stay(checkout: Path, tmp_path: Path) -> None:
    """All commands of the README but the advice, without data on the machine; the comparisons with
    fewer rounds."""
    nothing = {"FEDKIN_DATA": "", "FEDKIN_CACHE": str(tmp_path / "cache")}
    lines = commands(f"length_of_stay/{README}")
    others = [line for line in lines if line != STAYS_ADVICE]
    assert len(others) == len(lines) - 1 == 10
    said = ""
    for line in others:
        shortened = line.replace("--out", "run.rounds=2 --out") if " compare " in line else line
        said += run(checkout, shortened, nothing)
    assert "17 hospitals" in said
    assert "Local" in said and "FedAvg" in said
    assert "What serves each client" in said

    stays = pd.read_csv(checkout / "runs/stays.csv")
    for name in ("stays", "short"):
        folder = checkout / "runs" / name / "statements"
        pages = {path.stem: path.read_text() for path in folder.iterdir()}
        assert set(pages) == set(stays["hospital"])
        for hospital, days in stays.groupby("hospital")["los"]:
            page = pages[str(hospital)]
            assert f"| patients | {len(days):,} |" in page
            assert f"| mean stay | {days.mean():.1f} days |" in page
            assert re.search(r"alone \| \d+\.\d days \|", page)
            assert re.search(r"\nUse the (mean of two predictions|prediction that)", page)
            # A manager reads it.
            assert not re.search(r"client|cluster|model|deviance|nan", page)
    choice = json.loads((checkout / "runs/stays/serving.json").read_text())
    mixed = [row["name"] for row in choice["table"] if row["served_by"] != "own model"]
    statements = checkout / "runs/stays/statements"
    assert mixed == [
        row["name"]
        for row in choice["table"]
        if "mean of two" in (statements / f"{row['name']}.md").read_text()
    ]
    check_clean(checkout)


# The advice fits six kinds of models in five draws, which takes longer than the whole example.
@pytest.mark.process
def test_the_advice_on_lengths_of_stay(checkout: Path) -> None:
    """Made-up hospitals differ in level, and in nothing else."""
    run(checkout, "python examples/length_of_stay/stays.py runs/stays.csv --made-up")
    said = run(checkout, STAYS_ADVICE)
    assert "levels, not clusters" in " ".join(said.split())
    assert "shared + own intercept" in said
    assert (checkout / "runs/stays-advice.png").is_file()
    check_clean(checkout)


# It starts some thirty processes, one after another, which takes longer than all other tests of
# ``make test`` together. The next test has the same hospitals in one process.
@pytest.mark.process
def test_the_hospitals(checkout: Path) -> None:
    pytest.importorskip("flwr", reason="the hospitals need pip install 'fedkin[flower,torch]'")
    pytest.importorskip("torch", reason="the hospitals need pip install 'fedkin[flower,torch]'")
    said = run(checkout, f"{HOSPITAL} --port {free_ports(1)[0]} --minutes 8")
    assert "site-4 joins" in said
    assert re.search(
        r"^flexcfl: accuracy 0\.\d+, worst hospital 0\.\d+, clusters of \[", said, re.MULTILINE
    )
    assert re.search(r"^fedavg: accuracy 0\.\d+", said, re.MULTILINE)
    run(checkout, "fedkin report runs/one-round/run")
    assert (checkout / "runs/one-round/run/report.html").is_file()
    check_clean(checkout)


def test_the_hospitals_in_one_process(checkout: Path) -> None:
    """The last block of the README, with two rounds."""
    pytest.importorskip("torch", reason="the hospitals need pip install 'fedkin[flower,torch]'")
    lines = commands(f"hospital/{README}")
    block = lines[next(k for k, line in enumerate(lines) if line.startswith("mkdir")) :]
    assert shlex.split(block[-1])[:2] == ["fedkin", "run"] and "run.rounds=6" in block[-1]
    said = run(checkout, "\n".join(block).replace("run.rounds=6", "run.rounds=2"))
    assert "FedAvg" in said
    check_clean(checkout)


# Separate processes again, as of the hospitals above.
@pytest.mark.process
def test_a_hospital_that_is_refused_ends_the_example(checkout: Path) -> None:
    """The table of one site lacks a column. The message names the site and the column."""
    pytest.importorskip("flwr", reason="the hospitals need pip install 'fedkin[flower,torch]'")
    pytest.importorskip("torch", reason="the hospitals need pip install 'fedkin[flower,torch]'")
    program = checkout / "examples/hospital/findings.py"
    wrong = 'table = table.rename(columns={"p0": "first"}) if hospital == 2 else table\n'
    text = program.read_text()
    place = "    table[table.client_id"
    assert text.count(place) == 1
    program.write_text(text.replace(place, f"    {wrong}{place}"))
    said = run(checkout, f"! {HOSPITAL} --port {free_ports(1)[0]} --minutes 3 2>&1")
    assert "error" in said and "site-2" in said and "p0" in said, said


def test_the_forecast_example_names_industries_without_a_test_month() -> None:
    """Its table of clusters counts only industries with a month in the test period."""
    line = runpy.run_path(str(EXAMPLES / "forecast/clusters.py"))["without_test_months"]
    clients = pd.DataFrame({"name": ["mills", "mines", "malls"], "test_samples": [21, 0, 21]})
    assert line(clients) == "without a month in the test period, so in no cluster above: mines"
    assert line(clients[clients["name"] != "mines"]) == ""
