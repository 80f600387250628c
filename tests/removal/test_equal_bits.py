"""A run without a client has the bits of a run in which the client never replied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from tests.removal.removal_world import LEAVER, ROUNDS, data, simulated

FEDGROUP = fk.FedGroup(clusters=3, alpha=4, eta_g=0.0)
PRETRAINED = 6  # a client of the cold start of "fedgroup, random"
METHODS = {
    "fedavg": fk.FedAvg(),
    "fedprox": fk.FedProx(mu=0.1),
    "fedgroup": FEDGROUP,
    "fedgroup, mixing": fk.FedGroup(clusters=3, alpha=4),
    "fedgroup, random": fk.FedGroup(clusters=3, alpha=2, eta_g=0.0, newcomers="random"),
    "flexcfl": fk.FlexCFL(clusters=3, alpha=4, steps=10),
    "flexcfl, late placement": fk.FlexCFL(clusters=3, alpha=2, steps=10),
    "ifca": fk.IFCA(clusters=3),
    "ifca, examples": fk.IFCA(clusters=3, weighting="examples"),
    "pacfl": fk.PACFL(threshold=12.0),
    "given": fk.Given(groups={str(client): f"group {client % 3}" for client in range(12)}),
    "fesem": fk.FeSEM(clusters=3),
}


def equal(run: fk.Run, reference: fk.Run) -> None:
    """Check that two runs have the same models, assignments and final scores."""
    assert np.array_equal(run.models, reference.models)
    assert np.array_equal(run.assignment, reference.assignment)
    assert run.clients.equals(reference.clients)
    ours, theirs = run.summary(), reference.summary()
    for name in ("final_accuracy", "accuracy_all_clients", "cluster_sizes", "ari"):
        assert ours[name] == theirs[name], name


@pytest.mark.parametrize("keep", [0, 1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_equal_to_a_run_in_which_the_client_never_replied(
    name: str, keep: int, tmp_path: Path
) -> None:
    run = simulated(METHODS[name], tmp_path / "run", keep=keep)
    done = fk.forget(run, [LEAVER], out=tmp_path / "without")
    equal(done.run, simulated(METHODS[name], silent=[LEAVER]))
    assert done.record["equal_bits"]
    # The folder is a run like any other: it loads, and its configuration names the client.
    loaded = fk.Run.load(tmp_path / "without", data=data(), model=fk.models.mclr(data()))
    assert np.array_equal(loaded.models, done.run.models)
    assert loaded.config.scenario["silent"] == [LEAVER]
    assert json.loads((tmp_path / "without/forgotten.json").read_text()) == done.record


def test_only_the_cluster_of_the_client_is_trained(tmp_path: Path) -> None:
    """The clusters of planted rotations stand without one client, so the others keep their bits."""
    run = simulated(METHODS["given"], tmp_path / "run", keep=1)
    done = fk.forget(run, [LEAVER])
    own = int(run.assignment[LEAVER])
    assert done.record["clusters_replayed"] == [own]
    assert done.record["measured"]["client_rounds"] == done.record["planned"]["client_rounds"]
    others = [k for k in range(3) if k != own]
    assert np.array_equal(done.run.models[others], run.models[others])
    assert not np.array_equal(done.run.models[own], run.models[own])
    members = np.flatnonzero(run.assignment == own).tolist()
    assert done.record["clients_with_another_model"] == [c for c in members if c != LEAVER]
    before, after = done.record["models_before"], done.record["models_after"]
    assert [old == new for old, new in zip(before, after, strict=True)] == [
        cluster != own for cluster in range(3)
    ]


def test_rounds_with_all_models_have_the_scores_of_the_reference(tmp_path: Path) -> None:
    run = simulated(FEDGROUP, tmp_path / "run", keep=2)
    done = fk.forget(run, [LEAVER])
    reference = simulated(FEDGROUP, silent=[LEAVER])
    assert not done.record["why_all_clusters"]
    for ours, theirs in zip(done.run.records, reference.records, strict=True):
        evaluated = ours["round"] % 2 == 0
        assert (ours["accuracy"] is not None) == evaluated
        assert not evaluated or ours["accuracy"] == theirs["accuracy"]


def test_without_checkpoints_only_the_last_round_is_evaluated(tmp_path: Path) -> None:
    done = fk.forget(simulated(METHODS["given"], tmp_path / "run"), [LEAVER], out=tmp_path / "new")
    scored = [one["round"] for one in done.run.records if one["accuracy"] is not None]
    assert scored == [0, ROUNDS]
    kept = sorted(path.name for path in (tmp_path / "new/checkpoints").iterdir())
    assert kept == ["round-000000.safetensors", f"round-{ROUNDS:06d}.safetensors"]


def test_drop_outs_and_late_clients_repeat(tmp_path: Path) -> None:
    scenario: dict[str, Any] = {"dropout": 0.3, "stragglers": 0.2, "arrivals": {3: 2}}
    for method in (FEDGROUP, fk.IFCA(clusters=3), METHODS["flexcfl"]):
        name = type(method).__name__
        run = simulated(
            method, tmp_path / name, keep=1, scenario=fk.Population(**scenario), rounds=8
        )
        done = fk.forget(run, [LEAVER])
        silent = fk.Population(**scenario, silent=(LEAVER,))
        equal(done.run, simulated(method, scenario=silent, rounds=8))


def test_a_client_that_came_late_repeats_from_the_checkpoint_before(tmp_path: Path) -> None:
    late: dict[str, Any] = {"scenario": fk.Population(arrivals={4: 1})}
    silent: dict[str, Any] = {"scenario": fk.Population(arrivals={4: 1}, silent=(11,))}
    for method in (fk.FedAvg(), fk.IFCA(clusters=3), METHODS["flexcfl"]):
        run = simulated(method, tmp_path / type(method).__name__, keep=1, **late, cohort=11)
        done = fk.forget(run, [11])
        assert done.record["from_checkpoint_of_round"] == 3
        assert done.record["rounds_replayed"] == ROUNDS - 3
        equal(done.run, simulated(method, **silent, cohort=11))


def test_data_that_shift_and_clients_that_migrate(tmp_path: Path) -> None:
    method = fk.FlexCFL(clusters=3, alpha=4, steps=10, migration="label_aware")
    shift = fk.SwapAll(probability=0.3)
    for keep in (0, 1):
        run = simulated(method, tmp_path / f"run{keep}", keep=keep, shift=shift)
        done = fk.forget(run, [LEAVER])
        equal(done.run, simulated(method, silent=[LEAVER], shift=shift))


def test_several_clients_and_a_second_removal(tmp_path: Path) -> None:
    run = simulated(METHODS["given"], tmp_path / "run", keep=1)
    both = fk.forget(run, [LEAVER, 4])
    equal(both.run, simulated(METHODS["given"], silent=[LEAVER, 4]))
    fk.forget(run, [LEAVER], out=tmp_path / "first")
    first = fk.Run.load(tmp_path / "first", data=data(), model=fk.models.mclr(data()))
    second = fk.forget(first, [4], out=tmp_path / "second")
    equal(second.run, both.run)
    assert second.run.config.scenario["silent"] == [LEAVER, 4]


def test_another_partition_without_stored_models_repeats_everything(tmp_path: Path) -> None:
    """A random placement draws other numbers for fewer newcomers, so others train elsewhere."""
    method = METHODS["fedgroup, random"]
    plans: list[Any] = []
    run = simulated(method, tmp_path / "run")
    done = fk.forget(run, [PRETRAINED], on_plan=plans.append)
    equal(done.run, simulated(method, silent=[PRETRAINED]))
    assert [bool(plan.why_all) for plan in plans] == [False, True]
    assert "which has no checkpoint of round" in done.record["why_all_clusters"]
    assert done.record["planned"]["share"] > plans[0].share


def test_label_noise_stays_the_same(tmp_path: Path) -> None:
    noise: dict[str, Any] = {"options": [fk.SymmetricFlips(rate=0.3, seed=5)]}
    run = simulated(METHODS["given"], tmp_path / "run", keep=1, **noise)
    done = fk.forget(run, [LEAVER])
    assert len(done.record["clusters_replayed"]) == 1
    equal(done.run, simulated(METHODS["given"], silent=[LEAVER], **noise))


def test_a_server_optimizer_and_validation_repeat_everything(tmp_path: Path) -> None:
    adam: dict[str, Any] = {"options": [fk.FedAdam(lr=0.01)]}
    run = simulated(METHODS["given"], tmp_path / "adam", keep=1, **adam)
    done = fk.forget(run, [LEAVER])
    assert "server optimizer" in done.record["why_all_clusters"]
    equal(done.run, simulated(METHODS["given"], silent=[LEAVER], **adam))
    split: dict[str, Any] = {"data": data().with_validation(0.2)}
    run = simulated(fk.FedAvg(), tmp_path / "validated", keep=1, **split)
    done = fk.forget(run, [LEAVER])
    assert done.record["from_checkpoint_of_round"] == 0
    assert "validation" in done.record["why_all_clusters"]
    reference = simulated(fk.FedAvg(), silent=[LEAVER], **split)
    assert done.run.best is not None and reference.best is not None
    assert done.run.best.round == reference.best.round
    assert done.run.best.score == reference.best.score
