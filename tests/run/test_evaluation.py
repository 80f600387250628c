"""The evaluation of a finished run: its accuracies are the run's, and nothing of the run's folder
changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.measures.classification import classification_measures
from tests.option_lists import simulate_arguments
from tests.refusals import refused

LOCAL = fk.SGD(epochs=2, batch_size=5, lr=0.5)


def simulated(method: Any, data: fk.data.FederatedData, **options: Any) -> fk.Run:
    options = {"rounds": 3, "cohort": 12, "local": LOCAL} | options
    return fk.simulate(
        method,
        data,
        options.pop("model", None) or fk.models.mclr(data),
        **simulate_arguments(options),
    )


def test_accuracies_are_those_of_the_run(tiny: fk.data.FederatedData) -> None:
    for method in (fk.FedAvg(), fk.IFCA(clusters=2), fk.PANM(neighbours=2, stage_one=2)):
        run = simulated(method, tiny)
        found = run.evaluate()
        tested = run.clients[run.clients["test_samples"] > 0]
        assert found.clients["client"].tolist() == tested["client"].tolist()
        assert found.clients["accuracy"].tolist() == pytest.approx(tested["accuracy"].tolist())
        assert found.summary["accuracy"] == pytest.approx(run.records[-1]["accuracy"])
        assert found.summary["bottom_decile"] == pytest.approx(run.records[-1]["bottom_decile"])
        assert found.summary["samples"] == 55 and found.summary["clients"] == 11


def test_measures_are_of_the_clients_samples_and_of_its_cluster(
    tiny: fk.data.FederatedData,
) -> None:
    run = simulated(fk.IFCA(clusters=2), tiny, rounds=1)
    found = run.evaluate("train")
    rows = tiny.train[4]
    expected = classification_measures(
        tiny.y[rows], run.predict(tiny.x[rows], client=4, proba=True)
    )
    row = found.clients.set_index("client").loc[4].to_dict()
    assert {name: row[name] for name in expected} == pytest.approx(expected) and row[
        "samples"
    ] == 15
    k = int(run.assignment[4])
    members = np.flatnonzero(run.assignment == k)
    rows = np.concatenate([tiny.train[int(m)] for m in members])
    pooled = classification_measures(tiny.y[rows], run.predict(tiny.x[rows], cluster=k, proba=True))
    cluster = found.clusters.set_index("cluster").loc[k].to_dict()
    assert {name: cluster[name] for name in pooled} == pytest.approx(pooled) and cluster[
        "clients"
    ] == len(members)
    assert found.summary["mean_auroc"] == pytest.approx(found.clients["auroc"].mean())


def test_fine_tuning_takes_all_epochs_without_validation(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.FedAvg(), tiny, rounds=1)
    found = run.evaluate(fine_tune_epochs=6)
    accuracy = dict(
        zip(found.clients["client"], found.clients["fine_tuned_accuracy"].tolist(), strict=True)
    )
    for client in (0, 1):
        rows = tiny.test[client]
        tuned = run.fine_tune(client, 6).predict(tiny.x[rows])
        assert accuracy[client] == pytest.approx(np.mean(tuned == tiny.y[rows]))
    assert found.summary["fine_tune_epochs"] == 6
    assert found.summary["fine_tuned_accuracy"] > found.summary["accuracy"] + 0.1
    assert found.summary["fine_tuned_accuracy_variance"] == pytest.approx(
        np.var(list(accuracy.values()))
    )
    with pytest.raises(fk.ConfigError, match="fine_tune_epochs must be"):
        run.evaluate(fine_tune_epochs=0)


def test_the_number_of_epochs_is_chosen_on_validation_samples(tiny: fk.data.FederatedData) -> None:
    """The validation labels are the joint model's predictions: fine-tuning gains nothing, so no
    epoch is chosen."""
    data = tiny.with_validation(0.3)
    run = simulated(fk.FedAvg(), data, rounds=1)
    assert data.validation is not None
    gained = run.evaluate(fine_tune_epochs=4)
    assert 1 <= gained.summary["fine_tune_epochs"] <= 4
    y = data.y.copy()
    y[data.validation.rows] = run.predict(data.x[data.validation.rows])
    predicted = data.with_rows(data.train, data.test, y=y)
    made_of = replace(run.made_of, samples=predicted)  # type: ignore[type-var]
    same = replace(run, made_of=made_of)
    none = same.evaluate(fine_tune_epochs=4)
    assert none.summary["fine_tune_epochs"] == 0
    assert none.summary["fine_tuned_accuracy"] == pytest.approx(none.summary["accuracy"])


def test_rounds_bytes_and_seconds_to_a_target(tiny: fk.data.FederatedData, tmp_path: Path) -> None:
    run = simulated(fk.IFCA(clusters=2), tiny, rounds=4, target=0.9, out=tmp_path / "run")
    summary = run.evaluate().summary
    record = run.records[summary["rounds_to_target"]]
    assert (
        summary["rounds_to_target"] == run.summary()["rounds_to_target"]
        and summary["target"] == 0.9
    )
    assert summary["bytes_to_target"] == record["bytes_down"] + record["bytes_up"]
    lines = [json.loads(line) for line in (tmp_path / "run/timings.jsonl").read_text().splitlines()]
    assert summary["seconds_to_target"] == lines[record["round"]]["total"]
    assert summary["target_split"] == "test"
    validated = (
        simulated(fk.FedAvg(), tiny.with_validation(0.3), rounds=1).evaluate(target=0.0).summary
    )
    assert (validated["split"], validated["target_split"]) == ("test", "validation")
    never = run.evaluate(target=1.0 + 1e-9).summary
    assert never["bytes_to_target"] is None and never["rounds_to_target"] is None
    assert "target" not in simulated(fk.FedAvg(), tiny, rounds=1).evaluate().summary


def test_no_client_with_a_model_is_an_empty_table(tiny: fk.data.FederatedData) -> None:
    run = simulated(fk.IFCA(clusters=2), tiny, rounds=1, cohort=2)
    unassigned = replace(run, state=replace(run.state, assignment=np.full(12, -1)))
    found = unassigned.evaluate()
    assert (
        not len(found.clients)
        and found.summary["accuracy"] is None
        and found.summary["without_cluster"] == 12
    )


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def test_the_command_writes_no_file_of_the_run(run_folder: Path, tmp_path: Path) -> None:
    before = digests(run_folder)
    result = CliRunner().invoke(app, ["evaluate", str(run_folder), "--fine-tune", "1"])
    assert result.exit_code == 0, result.output
    for word in ("macro f1", "fine tuned accuracy", "jain index", "FedAvg", "by cluster"):
        assert word in result.stdout
    after = digests(run_folder)
    new = {"evaluation-test.csv", "evaluation-test-clusters.csv", "evaluation-test.json"}
    assert after.keys() - before.keys() == new and {name: after[name] for name in before} == before
    table = pd.read_csv(run_folder / "evaluation-test.csv")
    assert table["accuracy"].tolist() == pytest.approx(
        fk.Run.load(run_folder).clients["accuracy"].tolist()
    )
    result = CliRunner().invoke(
        app, ["evaluate", str(run_folder), "--json", "--out", str(tmp_path / "o")]
    )
    summaries = json.loads(result.stdout.splitlines()[-1])
    assert [one["method"] for one in summaries] == ["fedgroup", "fedavg"]
    assert json.loads((tmp_path / "o/evaluation-test.json").read_text()) == summaries[0]


def test_the_command_refuses_in_one_line(run_folder: Path, tmp_path: Path) -> None:
    def evaluate(*options: str) -> Any:
        return CliRunner().invoke(app, ["evaluate", *options])

    refused(evaluate(str(tmp_path / "absent")), "holds no run")
    refused(evaluate(str(run_folder), "--split", "tset"), "split must be one of", "tset")
    refused(evaluate(str(run_folder), "--split", "validation"), "no validation split")
    refused(evaluate(str(run_folder), "--fine-tune", "0"), "fine_tune_epochs must be")
    (run_folder / "summary.json").unlink()
    refused(evaluate(str(run_folder)), "not finished")
