"""``fedkin advise``: output, picture, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.analysis.advise import Advice
from fedkin.analysis.advise.split_half_stability import ClusterCount
from fedkin.cli import advise as module
from fedkin.cli import app
from fedkin.clustering.cluster_count import Gap
from fedkin.core.errors import StorageError
from tests.refusals import refused

IID = ["data.partition=iid", "data.clients=12", "local.lr=0.3", "local.epochs=2"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fedkin(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["advise", *arguments])


def test_of_alike_clients_it_says_no(elsewhere: Path) -> None:
    (elsewhere / "study.toml").write_text('[data]\nname = "digits"\n[method]\nname = "ifca"\n')
    result = fedkin("study.toml", *IID, "--out", "a.png")
    assert result.exit_code == 0, result.output
    assert (
        "do not cluster: no number of clusters is stable" in result.stdout
        and 'name = "fedavg"' in result.stdout
    )
    assert result.stdout.startswith("do not cluster: ")
    assert (
        "heterogeneity: label divergence" in result.stdout
        and "in an IID split of the same data" in result.stdout
    )
    assert (
        "number of clusters: 1: no number of clusters is stable: split-half stability is at most"
        in result.stdout
    )
    for other in (
        "silhouette",
        "eigengap",
        "gap statistic",
        "dendrogram",
        "gradient dissimilarity",
    ):
        assert other not in result.stdout
    assert "next: add these sections to a file" in result.stdout
    assert (
        "gains over FedAvg with 2 clusters" in result.stdout
        and "with two clusters: " in result.stdout
    )
    assert "95% intervals cover initial models, cohorts and batches" in result.stdout
    (pilot,) = (line.split() for line in result.stdout.splitlines() if line.startswith("fedavg"))
    # There are no halves of a byte.
    assert pilot[-1] == "0" and pilot[-2].replace(",", "").isdigit()
    assert (
        "cohorts are drawn round robin" in result.stdout
        and "for this federation only" in result.stdout
    )
    assert "private labels" not in result.stdout
    assert "pilot 1 of 5" in result.stderr and "pilot 1 of" not in result.stdout
    assert {path.name for path in elsewhere.iterdir()} == {"study.toml", "a.png", "a.svg"}


def test_one_criterion_decides_and_the_others_are_shown_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def clustered(*_: object, **__: object) -> Advice:
        count = ClusterCount(
            clusters=2,
            clients=np.arange(8),
            stability=np.array([1.0, 0.8, 0.6]),
            chance=0.5,
            gap=Gap(np.array([0.25, 0.3, 0.9]), np.full(3, 0.1)),
            silhouette=np.array([np.nan, 0.3, 0.4]),
            spectrum=np.array([0.0, 0.1, 0.2, 0.9]),
            heights=np.array([3.0, 2.0, 0.5]),
            points=np.zeros((8, 2)),
        )
        measured = pd.DataFrame(
            {"value": [8.0], "iid": [2.0], "low": [1.0], "high": [3.0], "ratio": [4.0]},
            index=pd.Index(["PNI"], name="measure"),
        )
        return Advice(
            data="toy",
            model="mclr",
            clients=9,
            local={"lr": 0.1},
            run={"rounds": 5, "cohort": 4},
            heterogeneity=measured,
            cluster_count=count,
            pilots=None,
        )

    monkeypatch.setattr("fedkin.analysis.advise.of_config", clustered)
    said = fedkin().stdout
    more = fedkin("--verbose").stdout
    assert (
        "number of clusters: 2, by split-half stability: at least 80% of the clients of every "
        "cluster stay in it" in said
    )
    assert "required are 75%, and more than the 50% of IID splits" in said
    assert "heterogeneity: PNI 8; in an IID split of the same data 2 (ratio 4.0)" in said
    assert "silhouette" not in said and "for other measures and criteria, use --verbose" in said
    assert (
        "which do not decide: gap statistic 1, silhouette 3, eigengap 3, dendrogram" in more
        and "gap error" in more
    )
    assert "--verbose" not in more


def test_json_is_all_of_stdout(elsewhere: Path) -> None:
    result = fedkin(*IID, "--json", "--private-labels")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (
        len(result.stdout.splitlines()) == 1
        and told["verdict"] == "do not cluster"
        and told["clusters"] == 1
    )
    assert [row["measure"] for row in told["heterogeneity"]] == ["PNI", "gradient dissimilarity"]
    assert "computed by a simulation on local data, not over a network" in result.stderr
    assert not list(elsewhere.iterdir())


def of_nothing(*_: object, **__: object) -> Advice:
    """An advice that took no time."""
    count = ClusterCount(
        clusters=1,
        clients=np.arange(8),
        stability=np.array([1.0, 0.4]),
        chance=0.5,
        gap=Gap(np.zeros(2), np.zeros(2)),
        silhouette=np.zeros(2),
        spectrum=np.zeros(3),
        heights=np.zeros(2),
        points=np.random.default_rng(0).normal(size=(8, 1)),
    )
    return Advice(
        data="toy",
        model="mclr",
        clients=8,
        local={"lr": 0.1},
        run={"rounds": 5, "cohort": 4},
        heterogeneity=pd.DataFrame(),
        cluster_count=count,
        pilots=None,
    )


def test_with_privacy_it_says_that_its_looking_is_not_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedkin.analysis.advise.of_config", of_nothing)
    as_text = fedkin("privacy.name=client_dp", "privacy.epsilon=2")
    assert "covers neither this output nor settings" in as_text.stdout
    as_json = fedkin("privacy.name=client_dp", "privacy.epsilon=2", "--json")
    assert (
        "covers neither this output nor settings" in as_json.stderr
        and len(as_json.stdout.splitlines()) == 1
    )
    assert "privacy: " not in fedkin().stdout


def test_a_figure_that_cannot_be_written_takes_no_advice_away(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*arguments: object) -> None:
        raise StorageError("cannot write a.png: no space left on device")

    monkeypatch.setattr("fedkin.analysis.advise.of_config", of_nothing)
    monkeypatch.setattr("fedkin.reporting.advice_figure.save", full_disk)
    result = fedkin("--private-labels", "--out", "a")
    assert (
        result.exit_code == 2
        and "do not cluster: no number" in result.stdout
        and "[method]" in result.stdout
    )
    assert "private labels: the advice is computed by a simulation" in result.stdout
    assert (
        result.stderr.startswith("error: cannot write a.png")
        and len(result.stderr.splitlines()) == 1
    )
    told = fedkin("--json", "--out", "a")
    assert told.exit_code == 2 and json.loads(told.stdout)["verdict"] == "do not cluster"


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("nowhere/a.png", ["nowhere: No such file or directory", "choose an existing folder"]),
        ("file/a.png", ["file: Not a directory"]),
        ("folder", ["--out folder is a folder", "folder/advice.png"]),
        (".", ["is a folder"]),
    ],
)
def test_the_path_of_the_figure_is_checked_first(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, out: str, words: list[str]
) -> None:
    (elsewhere / "file").write_text("")
    (elsewhere / "folder").mkdir()
    monkeypatch.setattr(
        "fedkin.analysis.advise.of_config", lambda *_, **__: pytest.fail("computed nevertheless")
    )
    result = fedkin("--out", out)
    refused(result, *words)
    assert "free some space" not in result.stderr
    assert sorted(path.name for path in elsewhere.rglob("*")) == ["file", "folder"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run.rouns=3"], ["unknown key 'rouns'", "did you mean 'rounds'"]),
        (["nothing.toml"], ["nothing.toml", "no such file"]),
        (["data.clients=5"], ["at least 8 clients", "got 5 such clients of 5"]),
        (["data.size=32", "model.name=detector", "data.clients=10"], ["got a detector"]),
        (["data.clents=5"], ["unknown key 'clents'"]),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: list[str]) -> None:
    refused(fedkin(*arguments), *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "a.png"], "--out applies to a configuration, not to the folder of a run"),
        (
            ["--private-labels", "--verbose"],
            "--private-labels, --verbose apply to a configuration",
        ),
    ],
)
def test_options_of_a_configuration_are_refused_for_a_run(
    options: list[str], words: str, elsewhere: Path
) -> None:
    (elsewhere / "run").mkdir()
    refused(fedkin("run", *options), words)


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "load_config", stop)
    result = fedkin()
    assert result.exit_code == 130 and "interrupted" in result.stderr
