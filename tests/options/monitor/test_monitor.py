"""The monitor in whole runs: changed labels, moves, unions, resumed runs, and refusals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from benchmarks.monitor import OneClientChanges
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MethodError
from fedkin.data.federated import FederatedData

FAST = fk.LocalTraining(lr=0.1, epochs=2)


def digits(clients: int = 6) -> FederatedData:
    """Digits of all classes on every client, with validation samples."""
    return fk.data.digits(partition="iid", clients=clients, seed=1).with_validation(0.2)


def run(method: Any, monitor: fk.Monitor, data: FederatedData, **settings: Any) -> fk.Run:
    """A run of digits with the monitor."""
    settings.setdefault("local", FAST)
    return fk.simulate(
        method,
        data,
        fk.models.mclr(data),
        cohort=data.clients,
        options=[monitor],
        **settings,
    )


def acts(of: fk.Run, *kinds: str) -> list[dict[str, Any]]:
    """All acts of these kinds in a run's records."""
    found = [act for record in of.records for act in record["monitor_acts"]]
    return [act for act in found if act["kind"] in kinds]


def test_a_client_whose_labels_change_is_found_and_others_are_not() -> None:
    shift = OneClientChanges(client=2, kind="labels", at=20)
    watched = run(fk.FedAvg(), fk.Monitor(act="watch"), digits(), rounds=30, shift=shift)
    alarms = acts(watched, "alarm")
    assert {act["client"] for act in alarms} == {2}
    assert 20 < alarms[0]["round"] <= 28
    assert alarms[0]["log_evidence"] > np.log(6 / 0.05)
    # The record of that round has the evidence of the alarm.
    assert watched.records[alarms[0]["round"]]["monitor_evidence"] == alarms[0]["log_evidence"]
    assert watched.records[-1]["monitor_alarms"] == 1
    assert watched.records[alarms[0]["round"]]["monitor_evidence_by_cluster"] == [
        alarms[0]["log_evidence"]
    ]
    assert not acts(watched, "move")


def test_features_that_move_are_found_although_the_loss_stays() -> None:
    """On these digits a move of all pixels by a standard deviation hardly changes the loss."""
    shift = OneClientChanges(client=2, kind="features", at=20)
    both = fk.Monitor(act="watch", features=True)
    watched = run(fk.FedAvg(), both, digits(), rounds=30, shift=shift)
    (alarm,) = acts(watched, "alarm")
    assert (alarm["client"], alarm["cause"]) == (2, "features")
    assert 20 < alarm["round"] <= 28
    only_losses = run(fk.FedAvg(), fk.Monitor(act="watch"), digits(), rounds=30, shift=shift)
    assert not acts(only_losses, "alarm")


def test_labels_that_change_are_found_with_features_too() -> None:
    shift = OneClientChanges(client=2, kind="labels", at=20)
    both = fk.Monitor(act="watch", features=True)
    watched = run(fk.FedAvg(), both, digits(), rounds=30, shift=shift)
    (alarm,) = acts(watched, "alarm")
    assert (alarm["client"], alarm["cause"]) == (2, "loss")
    # The evidence is the mean of the two, and the features have none.
    alone = run(fk.FedAvg(), fk.Monitor(act="watch"), digits(), rounds=30, shift=shift)
    evidence = [record["monitor_evidence"] for record in alone.records]
    with_features = [record["monitor_evidence"] for record in watched.records]
    first = alarm["round"] - 1
    assert with_features[first] < evidence[first]


def test_a_resumed_run_with_features_is_the_whole_run(tmp_path: Path) -> None:
    data = digits()
    shift = OneClientChanges(client=2, kind="features", at=12)
    both = fk.Monitor(features=True)
    whole = run(fk.FedAvg(), both, data, rounds=20, shift=shift)
    run(fk.FedAvg(), both, data, rounds=14, shift=shift, out=tmp_path / "run")
    rest = run(fk.FedAvg(), both, data, rounds=20, shift=shift, out=tmp_path / "run", resume=True)
    assert acts(rest, "alarm") == acts(whole, "alarm") != []


def planted() -> Any:
    """A method of two given clusters: clients 0, 1 and 2, and the others."""
    return fk.Given(groups={str(client): "a" if client < 3 else "b" for client in range(6)})


def labels_of_two_kinds(data: FederatedData) -> FederatedData:
    """The labels of clients 3, 4 and 5 are permuted, so that the clusters need two models."""
    for client in (3, 4, 5):
        data, _ = OneClientChanges(client, "labels", at=1).step(
            data, data, 1, np.arange(6), fk.Stream(0)
        )
    return data


class Returns(OneClientChanges):
    """Client 5 has the labels of the first cluster from a round on."""

    def step(self, original: Any, current: Any, round: int, reachable: Any, stream: Any) -> Any:
        if round != self.at:
            return current, np.zeros(original.clients, bool)
        data, shifted = super().step(original, current, round, reachable, stream)
        rows = np.concatenate([data.part(s)[self.client] for s in ("train", "test", "validation")])
        y = data.y.copy()
        # One step back is nine steps forward.
        y[rows] = (y[rows] + data.classes - 2) % data.classes
        return data.with_rows(data.train, data.test, validation=data.validation, y=y), shifted


def test_a_client_moves_to_the_cluster_that_serves_it_better() -> None:
    data = labels_of_two_kinds(digits())
    shift = Returns(client=5, kind="labels", at=20)
    moved = run(planted(), fk.Monitor(act="move"), data, rounds=32, shift=shift)
    (move,) = acts(moved, "move")
    assert (move["client"], move["done"]) == (5, True)
    assert moved.state.assignment[5] == moved.state.assignment[0] != moved.state.assignment[3]
    only = run(planted(), fk.Monitor(act="probe"), data, rounds=32, shift=shift)
    proposed = acts(only, "move")
    assert proposed[0]["client"] == 5 and not proposed[0]["done"]
    assert only.state.assignment[5] == only.state.assignment[3]


@dataclass(frozen=True)
class MovesFirstClient(fk.Given):
    """Given clusters, of which the method itself moves client 0 to the other one in round 12."""

    def round(self, world: Any, state: Any, cohort: Any, stream: fk.Stream) -> Any:
        after = super().round(world, state, cohort, stream)
        if stream.round != 12:
            return after
        assignment = after.assignment.copy()
        assignment[0] = 1 - assignment[0]
        return replace(after, assignment=assignment)


def test_a_move_of_the_method_between_two_checks_is_noticed() -> None:
    """The losses of the former model are forgotten, although round 12 has no check."""
    groups = planted().groups
    monitor = fk.Monitor(act="watch", every=5)
    data = digits()
    seen = [
        ~np.isnan(run(method, monitor, data, rounds=12).state.extras["monitor"]["losses"])
        for method in (fk.Given(groups=groups), MovesFirstClient(groups=groups))
    ]
    assert [of.sum(axis=1).tolist() for of in seen] == [[2] * 6, [0] + [2] * 5]


def test_clusters_of_equal_data_are_one() -> None:
    data = digits()
    monitor = fk.Monitor(unions_every=30, margin=0.2, horizon=30)
    same = run(planted(), monitor, data, rounds=30)
    different = run(planted(), monitor, labels_of_two_kinds(data), rounds=30)
    assert [act["round"] for act in acts(same, "merge", "one_model")][:1] == [30]
    assert not acts(different, "merge", "one_model")


def test_the_monitor_changes_no_bit_of_a_run_unless_it_moves_clients() -> None:
    data = digits()
    shift = OneClientChanges(client=2, kind="labels", at=12)
    watched = run(fk.FedGroup(clusters=2), fk.Monitor(), data, rounds=20, shift=shift)
    plain = fk.simulate(
        fk.FedGroup(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=20,
        cohort=6,
        local=FAST,
        shift=shift,
    )
    np.testing.assert_array_equal(watched.models, plain.models)
    # The losses cost a model down and two numbers up for each client and check.
    down, up = watched.records[-1]["bytes_by_operation"]["bounded_loss"]
    assert down == 20 * 6 * 650 * 4
    assert up == 20 * 6 * 2 * 4
    assert "bounded_loss" not in plain.records[-1]["bytes_by_operation"]


def test_a_resumed_run_is_the_whole_run(tmp_path: Path) -> None:
    data = digits()
    shift = OneClientChanges(client=2, kind="labels", at=12)
    whole = run(fk.FedAvg(), fk.Monitor(), data, rounds=20, shift=shift)
    run(fk.FedAvg(), fk.Monitor(), data, rounds=14, shift=shift, out=tmp_path / "run")
    rest = run(
        fk.FedAvg(), fk.Monitor(), data, rounds=20, shift=shift, out=tmp_path / "run", resume=True
    )
    assert acts(rest, "alarm") == acts(whole, "alarm") != []


def test_clients_that_drop_out_are_not_observed() -> None:
    scenario = fk.Population(dropout=0.5)
    watched = run(fk.FedAvg(), fk.Monitor(), digits(), rounds=6, scenario=scenario)
    known = (~np.isnan(watched.state.extras["monitor"]["losses"])).sum(axis=1)
    assert 0 < known.sum() < 36


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"false_alarms": 1.5}, "false_alarms must be below 1"),
        ({"margin": 0}, "margin"),
        ({"act": "jump"}, "act"),
        ({"horizon": 0}, "horizon"),
        ({"unions_every": -1}, "unions_every"),
        ({"reference": 11}, "reference must be at most 10, got 11"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(MethodError, match=words):
        fk.Monitor(**settings)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        (fk.FedAvg(), [fk.Monitor(), fk.FedBias()], "without personal parts"),
        (fk.FedEM(), [fk.Monitor()], "FedEM has .*, so the model of a cluster alone"),
        (fk.PANM(), [fk.Monitor()], "no server"),
        (fk.FedAvg(), [fk.Monitor(), fk.ClientDP(noise_multiplier=1.0)], "which no noise covers"),
        (fk.FedAvg(), [fk.Monitor(), fk.SecretSums()], "secret"),
    ],
)
def test_what_cannot_be_watched_is_refused_by_name(
    method: Any, options: list[Any], words: str
) -> None:
    data = digits()
    with pytest.raises(ConfigError, match=words):
        fk.simulate(
            method, data, fk.models.mclr(data), rounds=2, cohort=6, options=options, local=FAST
        )


def test_a_monitor_needs_validation_samples() -> None:
    data = fk.data.digits(clients=6)
    with pytest.raises(ConfigError, match=r"no validation samples; set data\.validation = 0\.1"):
        run(fk.FedAvg(), fk.Monitor(), data, rounds=2)
    assert run(fk.FedAvg(), fk.Monitor(split="train"), data, rounds=2).records


def test_a_configuration_has_a_section_for_the_monitor(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[monitor]\nname = "clusters"\nact = "move"\nfalse_alarms = 0.01\n')
    monitor = load(file).options["monitor"]
    assert monitor == fk.Monitor(act="move", false_alarms=0.01)
