"""The overview of a run, of simulated and of real clients."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np

from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.overview import overview
from fedkin.reporting.html.read_runs import read_runs
from fedkin.reporting.run_figure import method_label
from fedkin.run.run import Run
from tests.client_tables import with_clients
from tests.reporting.written_runs import a_run


def lines(run: Run) -> dict[str, str]:
    return dict(overview(read_runs(run)))


def deployed() -> Run:
    """Four of six real clients ever had a cluster; a reply was lost."""
    run = a_run(np.tile([0, 1, 0, 1, -1, -1], (3, 1)), missing=[0, 1, 0])
    config = run.config.with_sections({"federation": {"name": "trial", "capacity": 6}})
    return with_clients(run, run.clients.iloc[:4], config=config)


def test_the_overview_of_a_run() -> None:
    run = a_run(np.zeros((6, 10), np.int64), "ifca", data="digits")
    run.config.method["clusters"] = 3
    run.config.data.update({"classes_per_client": 2, "seed": 4, "augment": []})
    run.config.sections["local"] = {"epochs": 1, "batch_size": 10, "lr": 0.03, "optimizer": "sgd"}
    said = lines(run)
    assert (
        said["Data"] == "digits, classes_per_client 2"
        and said["Clients"] == "10, 3 selected a round"
    )
    assert said["Local training"] == "1 epoch, batches of 10, SGD, learning rate 0.03"
    assert said["Methods"] == "IFCA (K = 3)" and said["Rounds"] == "5" and said["Seeds"] == "1 (0)"
    assert "Data shift" not in said and said["Computing time"] == "1.5 s"


def test_local_training_has_all_that_is_not_default() -> None:
    run = a_run(np.zeros((2, 4), np.int64))
    schedule = {"name": "cosine", "rounds": 20}
    run.config.sections["local"] = {
        "epochs": 1,
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "mu": 0.0,
        "schedule": schedule,
    }
    said = lines(run)["Local training"]
    assert (
        said == "1 epoch, SGD, learning rate 0.1, momentum 0.9, schedule (name cosine, rounds 20)"
    )


def test_the_server_optimiser_is_in_title_and_overview() -> None:
    run = a_run(np.zeros((2, 4), np.int64))
    run.config.sections["server_optimizer"] = {"name": "fedadam", "lr": 0.05}
    assert lines(run)["Server optimiser"] == "fedadam, lr 0.05"
    assert contents(read_runs(run))["title"] == "IFCA + FedAdam on tiny"
    assert (
        method_label(run.config.with_sections({"method": {"name": "ifca", "clusters": 3}}))
        == "IFCA + FedAdam (K = 3)"
    )


def test_privacy_a_rule_and_an_attack_are_there() -> None:
    run = a_run(np.zeros((2, 4), np.int64))
    statement = {
        "epsilon": 0.5,
        "delta": 0.01,
        "unit": "one whole client",
        "rounds": {"released": 1, "planned": 1},
    }
    run = dataclasses.replace(run, final={"privacy": statement | {"warning": "TESTING ONLY"}})
    run.config.sections["robust"] = {"name": "aggregation", "rule": "median", "byzantine": 0.2}
    run.config.sections["attack"] = {"name": "byzantine", "attack": "alie", "share": 0.2}
    said = lines(run)
    assert (
        said["Privacy"]
        == "epsilon 0.5 at delta 0.01, of one whole client (1 released); TESTING ONLY"
    )
    assert (
        said["Robust rule"] == "aggregation, rule median, byzantine 0.2"
        and "alie" in said["Attack"]
    )


def test_dropout_arrivals_and_departures() -> None:
    run = a_run(np.zeros((2, 4), np.int64))
    run.config.sections["scenario"] = {
        "dropout": 0.1,
        "mute": 0.0,
        "stragglers": 0.0,
        "arrivals": {"3": 4, "5": 1},
    }
    assert lines(run)["Scenario"] == "dropout 0.1, arrivals: 4 in round 3, arrivals: 1 in round 5"
    run.config.sections["scenario"] = {"dropout": 0.0, "departures": {}}
    assert "Scenario" not in lines(run)


def test_rounds_that_are_still_to_come() -> None:
    run = a_run(np.zeros((6, 4), np.int64))
    run.config.run["rounds"] = 50
    assert lines(run)["Rounds"] == "5 of 50 so far"


def test_a_run_that_stopped_early_is_not_so_far() -> None:
    run = a_run(np.zeros((6, 4), np.int64))
    run.config.run["rounds"] = 50
    stopped = replace(run, final={"stopped": {"round": 5, "of": 50, "reason": "run.until = 0.5"}})
    assert lines(stopped)["Rounds"] == "stopped after 5 of 50"


def test_how_many_real_clients_took_part() -> None:
    assert (
        lines(deployed())["Clients"]
        == "4 of at most 6 took part, 3 selected a round, 1 reply did not arrive"
    )


def test_real_clients_are_not_trained_for_a_report() -> None:
    report = read_runs(deployed())
    assert contents(report)["hint"] == "" and contents(report)["notes"] == []
    (note,) = contents(report, similarity=True)["notes"]
    assert "real clients keep their data" in note and "section" not in note
