"""Runs whose data move: described, scored on the data of the round, and resumed as if they had
never stopped."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedkin as fk
from fedkin.config.run import from_dict
from fedkin.core.errors import CheckpointError
from fedkin.data.federated import FederatedData
from fedkin.methods.flexcfl import FlexCFL
from fedkin.models import mclr
from fedkin.run.run import Run
from fedkin.run.simulate import execute
from fedkin.scenarios.drift import Relabel
from fedkin.scenarios.population import Population
from fedkin.scenarios.swaps import ShiftedRound, SwapAll, SwapPart
from tests.option_lists import simulate_arguments

MOVES = ("migrations", "shifts_detected", "data_shifts", "data_shifts_new", "shifts_detected_true")
METHOD = FlexCFL(clusters=2, alpha=3, migration="label_aware", threshold=0.1)


class Killed(Exception):
    """Stands for a process that is gone."""


def go(
    data: FederatedData, out: Path | None = None, die_at: int | None = None, **options: Any
) -> Run:
    """Seven rounds of FlexCFL, with FedAvg to compare, while pairs swap;
    a checkpoint every other round."""

    def stop(record: dict[str, Any]) -> None:
        if (record["method"], record["round"]) == ("flexcfl", die_at):
            raise Killed

    settings: dict[str, Any] = {
        "rounds": 7,
        "cohort": 4,
        "seed": 2,
        "checkpoint_every": 2,
        "against": [fk.FedAvg()],
    }
    settings |= {
        "shift": SwapAll(probability=0.3),
        "selection": "round_robin",
        "local": fk.SGD(batch_size=5, lr=0.5),
    }
    return fk.simulate(
        METHOD,
        data,
        mclr(data),
        out=out,
        **simulate_arguments({"callbacks": stop} | settings | options),
    )


@pytest.fixture(scope="module")
def whole(tiny: FederatedData, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """The uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return go(tiny, out), out


def column(run: Run, name: str) -> list[Any]:
    return [record[name] for record in run.records]


def test_data_move_clients_notice_and_migrate(whole: tuple[Run, Path]) -> None:
    run, _ = whole
    moved = column(run, "data_shifts")
    assert moved[0] == 0 and all(count % 2 == 0 for count in moved) and sum(moved) > 8
    assert run.records[0]["shifts_detected"] is None, "no client is asked before the first round"
    assert sum(column(run, "shifts_detected")[1:]) > 0 and sum(column(run, "migrations")) > 0
    assert column(run.against["fedavg"], "shifts_detected") == [None] * 8, "it does not ask"


def test_methods_of_one_run_see_the_same_moves(whole: tuple[Run, Path]) -> None:
    run, _ = whole
    assert column(run, "data_shifts") == column(run.against["fedavg"], "data_shifts")


def test_the_last_round_is_scored_on_the_last_samples(
    tiny: FederatedData, whole: tuple[Run, Path]
) -> None:
    """The client without test samples has swapped, and the true clusters moved with the data."""
    run, _ = whole
    table = run.clients
    assert table["test_samples"].tolist() != tiny.test.sizes.tolist()
    assert sorted(table["test_samples"]) == sorted(tiny.test.sizes)
    assert tiny.true_clusters is not None
    assert table["true_cluster"].tolist() != tiny.true_clusters.tolist() and sorted(
        table["true_cluster"]
    ) == sorted(tiny.true_clusters)
    assert table["correct"].sum() / table["test_samples"].sum() == run.records[-1]["accuracy"]


@pytest.mark.parametrize("die_at", [0, 1, 4, 5])
def test_a_run_that_goes_on_ends_with_the_same_bytes(
    tiny: FederatedData, whole: tuple[Run, Path], tmp_path: Path, die_at: int
) -> None:
    run, there = whole
    with pytest.raises(Killed):
        go(tiny, tmp_path / "run", die_at)
    again = go(tiny, tmp_path / "run", resume=True)
    for part in (".", "against/fedavg"):
        for name in ("config.toml", "metrics.jsonl", "clients.parquet"):
            assert (tmp_path / "run" / part / name).read_bytes() == (
                there / part / name
            ).read_bytes(), name
        ours, theirs = (
            load_file(p / part / "checkpoints/round-000007.safetensors")
            for p in (tmp_path / "run", there)
        )
        assert {n: a.tobytes() for n, a in ours.items()} == {
            n: a.tobytes() for n, a in theirs.items()
        }
    assert again.records == run.records
    figures = [{k: v for k, v in r.summary().items() if "second" not in k} for r in (again, run)]
    assert json.dumps(figures[0]) == json.dumps(figures[1])


def test_data_moved_in_the_rounds_after_which_it_was_stopped(whole: tuple[Run, Path]) -> None:
    """At a checkpoint (rounds 0, 2, 4, 6) and between two:
    else the test above would show little."""
    run, _ = whole
    moved = np.array(column(run, "data_shifts"))
    assert (moved[[2, 4, 6]] > 0).any() and (moved[[1, 3, 5]] > 0).any()
    assert any(record["migrations"] for record in run.records[2:])


def test_notes_of_clients_are_in_the_checkpoint(
    tiny: FederatedData, whole: tuple[Run, Path]
) -> None:
    _, there = whole
    kept = load_file(there / "checkpoints/round-000007.safetensors")
    noted = kept["memory/clients/noted_labels"]
    assert noted.shape == (12, 2)
    assert noted.tolist() != tiny.label_counts().tolist(), "some have noted what came to them"


def test_a_run_that_was_kept_in_memory_may_go_on(
    tiny: FederatedData, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    run, _ = whole
    go(tiny, rounds=4, evaluate_every=1).save(tmp_path / "run")
    again = go(tiny, tmp_path / "run", resume=True)
    assert again.records == run.records
    assert again.models.tobytes() == run.models.tobytes()


def test_a_shift_is_described_and_another_is_another_run(
    tiny: FederatedData, tmp_path: Path
) -> None:
    short = partial(go, tiny, tmp_path / "run", rounds=1, against=[])
    run = short(shift=SwapPart(probability=0.2))
    assert run.config.shift == {"name": "swap_part", "probability": 0.2, "as_coded": False}
    assert tomllib.loads((tmp_path / "run/config.toml").read_text())["shift"] == run.config.shift
    for other in (SwapPart(probability=0.3), SwapAll(probability=0.2), None):
        with pytest.raises(CheckpointError, match="another configuration"):
            short(shift=other, resume=True)


def test_without_a_shift_no_shift_is_recorded(tiny: FederatedData, tmp_path: Path) -> None:
    run = go(tiny, tmp_path / "run", shift=None, rounds=2, against=[])
    assert (
        "shift" not in run.config.sections
        and "shift" not in (tmp_path / "run/config.toml").read_text()
    )
    assert column(run, "data_shifts") == column(run, "data_shifts_assigned") == [None] * 3
    assert column(run, "shifts_detected") == [None, 0, 0]


def test_ones_own_shift_is_called_by_its_class(tiny: FederatedData) -> None:
    @dataclass(frozen=True)
    class Never:
        def step(
            self, original: Any, current: FederatedData, round: int, reachable: Any, stream: Any
        ) -> ShiftedRound:
            return current, np.zeros(current.clients, bool)

    run = go(tiny, shift=Never(), rounds=1, against=[])
    assert run.config.shift == {"name": "never"}


def test_ones_own_shift_need_not_be_a_dataclass(tiny: FederatedData, tmp_path: Path) -> None:
    class Once:
        """The first two clients exchange all they have, in round 2."""

        def step(
            self, original: Any, current: FederatedData, round: int, reachable: Any, stream: Any
        ) -> ShiftedRound:
            order = np.r_[1, 0, 2 : current.clients] if round == 2 else np.arange(current.clients)
            return current.with_rows(
                current.train.select(order), current.test.select(order)
            ), order != np.arange(current.clients)

    run = go(tiny, tmp_path / "run", shift=Once(), rounds=3, against=[])
    assert run.config.shift == {"name": "once", "is": f"{Once.__module__}.{Once.__qualname__}"}
    assert column(run, "data_shifts") == [0, 0, 2, 0]
    again = go(tiny, tmp_path / "run", shift=Once(), rounds=3, against=[], resume=True)
    assert again.records == run.records


def test_a_renaming_of_classes_in_the_middle_of_a_run(tiny: FederatedData) -> None:
    """Everybody's two labels change names in round 3, after all were placed: the aware notice it,
    the blind cannot."""
    shift = Relabel(kinds=2, fraction=1.0, at=3)
    run = go(tiny, shift=shift, rounds=3, against=[])
    blind = fk.simulate(
        FlexCFL(clusters=2, alpha=3), tiny, mclr(tiny), rounds=3, cohort=4, shift=shift
    )
    assert column(run, "data_shifts") == column(blind, "data_shifts") == [0, 0, 0, 12]
    assert run.records[3]["shifts_detected"] > 0 == sum(column(blind, "shifts_detected")[1:])


def test_a_configuration_and_python_come_to_the_same() -> None:
    raw = {
        "data": {"name": "digits", "clients": 8},
        "method": {"name": "flexcfl", "clusters": 2, "alpha": 2},
        "shift": {"name": "swap_all", "probability": 0.5},
        "local": {"epochs": 1, "lr": 0.1},
        "run": {"rounds": 2, "cohort": 3, "selection": "round_robin"},
    }
    configured = execute(from_dict(raw), out=None)
    data = fk.data.digits(clients=8)
    settings: dict[str, Any] = {
        "rounds": 2,
        "cohort": 3,
        "selection": "round_robin",
        "shift": SwapAll(0.5),
    }
    called = fk.simulate(
        FlexCFL(2, 2),
        data,
        mclr(data),
        local=fk.SGD(epochs=1, lr=0.1),
        **simulate_arguments(settings),
    )
    assert configured.records == called.records
    assert sum(column(configured, "data_shifts")) > 0


def test_departed_clients_neither_move_nor_notice(tiny: FederatedData) -> None:
    run = go(
        tiny, scenario=Population(departures={3: 8}), shift=SwapAll(probability=1.0), against=[]
    )
    assert column(run, "data_shifts") == [0, 12, 12, 4, 4, 4, 4, 4]
    assert all(count <= 4 for count in column(run, "shifts_detected")[3:])
