"""Accuracy over all clients: those without a cluster, on the model that they would get today."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.data.federated import FederatedData
from fedkin.methods import IFCA, FlexCFL
from fedkin.models import mclr
from fedkin.run.loop import run
from fedkin.run.metrics import final
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.losses import Losses
from tests.option_lists import simulate_arguments
from tests.run.toy_method import Toy, fake_world
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, node_of, remote


class Placing(Toy):
    """A method that learns nothing and has one good model. Two clients know it; ``place`` gives the
    other."""

    def init(self, world: World, stream: Stream) -> Any:
        state = super().init(world, stream)
        models = np.stack([np.ones(3), np.full(3, 50.0)]).astype(np.float32)
        return replace(state, models=models, assignment=np.where(np.arange(8) < 2, 0, UNASSIGNED))

    def round(self, world: World, state: Any, cohort: np.ndarray, stream: Stream) -> Any:
        return state

    def place(self, world: World, state: Any, newcomers: np.ndarray, stream: Stream) -> Any:
        assignment = state.assignment.copy()
        assignment[newcomers] = np.where(newcomers % 2 == 0, 0, 1)
        return replace(state, assignment=assignment)


class Leaving(Placing):
    """The same, but clients choose in their first round."""

    def place(self, world: World, state: Any, newcomers: np.ndarray, stream: Stream) -> Any:
        return state


def test_clients_without_a_cluster_are_tested_where_the_method_places_them() -> None:
    """Even clients are within 1 of (1, 1, 1), odd ones of (-1, -1, -1). Clients 0 and 1 are on the
    first model; even newcomers would be, odd ones on (50, 50, 50): four of eight are correct, and
    one of the two with a cluster."""
    track = run(fake_world(), Placing(), Plan(rounds=1, cohort=0 + 1, seed=0, checkpoint_every=1))
    state = track.state
    with_cluster = np.flatnonzero(state.assignment != UNASSIGNED)
    assert track.records[-1]["partial"] and track.records[-1]["accuracy"] == pytest.approx(
        (with_cluster % 2 == 0).mean()
    )
    assert track.final["accuracy_all_clients"] == 4 / 8


def test_where_a_method_leaves_it_to_the_first_round_the_lowest_loss_decides() -> None:
    """(1, 1, 1) is nearer to all clients than (50, 50, 50)."""
    world = fake_world()
    track = run(world, Leaving(), Plan(rounds=1, cohort=1))
    assert (
        track.final["accuracy_all_clients"] == 4 / 8
        and (track.state.assignment[2:] == UNASSIGNED).all()
    )
    assert world.ledger.down["scoring.losses"] > 0 and "losses" not in world.ledger.down


def test_it_is_the_final_accuracy_where_every_client_has_a_cluster() -> None:
    world = fake_world()
    track = run(world, Toy(), Plan(rounds=2, cohort=3))
    assert track.final == {"accuracy_all_clients": track.records[-1]["accuracy"]}
    assert set(world.ledger.down) == {"train", "scoring.evaluate"}


def ifca_by_hand(data: FederatedData, ended: fk.Run) -> float:
    """Clients without a cluster choose by loss; then all are tested."""
    world = SimulatedWorld(data, mclr(data))
    losses = world.run(Losses(ended.models), np.arange(data.clients)).losses
    own = np.where(ended.assignment == UNASSIGNED, losses.argmin(axis=1), ended.assignment)
    scores = evaluate(world, ended.models, np.arange(data.clients), own)
    return scores.correct.sum() / scores.examples.sum()


def test_ifca_in_numbers(tiny: FederatedData) -> None:
    """IFCA's clients choose their cluster in their first round, and 2 rounds of 3 do not reach 12
    clients."""
    ended = fk.simulate(
        IFCA(clusters=2), tiny, mclr(tiny), rounds=2, cohort=3, local=fk.SGD(lr=0.5, epochs=3)
    )
    summary = ended.summary()
    assert summary["best_accuracy"] is None and (ended.assignment == UNASSIGNED).sum() >= 6
    assert summary["accuracy_all_clients"] == ifca_by_hand(tiny, ended)
    assert summary["accuracy_all_clients"] != summary["final_accuracy"]


@pytest.mark.parametrize("scenario", [fk.Population(), fk.Population(dropout=0.4, stragglers=0.2)])
def test_the_run_stays_as_it_is(tiny: FederatedData, tmp_path: Path, scenario: Any) -> None:
    """State, memory, records and the method's bytes, in a run that goes on and in one that does
    not; clients that drop out of rounds do not drop out of their score."""
    options: dict[str, Any] = {
        "cohort": 3,
        "local": fk.SGD(lr=0.5),
        "scenario": scenario,
        "checkpoint_every": 1,
    }
    method = FlexCFL(clusters=2, alpha=2, migration="label_blind")
    whole = fk.simulate(
        method, tiny, mclr(tiny), rounds=4, out=tmp_path / "whole", **simulate_arguments(options)
    )
    short = fk.simulate(
        method, tiny, mclr(tiny), rounds=1, out=tmp_path / "run", **simulate_arguments(options)
    )
    assert short.summary()["best_accuracy"] is None
    assert 0 <= short.summary()["accuracy_all_clients"] <= 1
    stored = (short.assignment != UNASSIGNED).sum()
    kept = [array for name, array in short.memory.items() if name.endswith("noted_labels.kept")]
    assert kept and all((array != 0).sum() == stored for array in kept)
    fk.simulate(
        method,
        tiny,
        mclr(tiny),
        rounds=4,
        out=tmp_path / "run",
        resume=True,
        **simulate_arguments(options),
    )
    for name in ("metrics.jsonl", "migrations.jsonl", "clients.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert fk.Run.load(tmp_path / "whole").summary() == whole.summary()


def test_a_rehearsal_leaves_no_trace(tiny_world: SimulatedWorld) -> None:
    from fedkin.tasks.shift import Note

    other = tiny_world.rehearsal()
    other.run(Note(), np.arange(4))
    assert other.memory() and not tiny_world.memory()
    assert other.ledger is tiny_world.ledger and other.data is tiny_world.data


def test_it_is_measured_on_test_samples(tiny: FederatedData) -> None:
    """Also where validation samples choose."""
    data = tiny.with_validation(0.3)
    ended = fk.simulate(
        IFCA(clusters=2), data, mclr(data), rounds=2, cohort=3, local=fk.SGD(lr=0.5, epochs=3)
    )
    assert ended.summary()["accuracy_all_clients"] == ifca_by_hand(data, ended)


def test_clients_that_cannot_be_placed_have_no_number(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unable(Placing):
        def place(self, world: World, state: Any, newcomers: np.ndarray, stream: Stream) -> Any:
            raise fk.MethodError("no client can be placed")

    plan = Plan(rounds=1, cohort=1, seed=1)
    cohort_known = next(s for s in range(50) if _first_cohort(s) < 2)
    track = run(fake_world(), Unable(), replace(plan, seed=cohort_known))
    assert track.final["accuracy_all_clients"] is None
    assert "accuracy over all clients is unknown: no client can be placed" in caplog.text
    monkeypatch.setattr(final, "MAX_PLACED", 5)
    assert (
        run(fake_world(), Placing(), replace(plan, seed=cohort_known)).final["accuracy_all_clients"]
        is None
    )


def _first_cohort(seed: int) -> int:
    from fedkin.run.cohort_selection import select_cohort

    plan = Plan(rounds=1, cohort=1, seed=seed)
    return int(select_cohort(np.arange(8), 8, plan, Stream(seed, 1, "cohort"))[0])


def test_clients_that_shall_have_no_cluster_stay_out() -> None:
    class Excluding(State):
        def excluded(self) -> np.ndarray:
            return np.arange(len(self.assignment)) >= 6

    class Method(Placing):
        def init(self, world: World, stream: Stream) -> Any:
            state = super().init(world, stream)
            return Excluding(state.models, state.assignment)

    track = run(
        fake_world(),
        Method(),
        Plan(rounds=1, cohort=1, seed=next(s for s in range(50) if _first_cohort(s) < 2)),
    )
    assert track.final["accuracy_all_clients"] == 3 / 6  # clients 0, 2 and 4 of 0 .. 5


def test_real_clients_are_not_asked() -> None:
    data = clustered_data()
    model = model_of()
    transport = MemoryTransport()
    for client in range(data.clients):
        transport.join(client, node_of(f"site-{client}", [client], data, model))
    world = remote(transport, data, model)
    track = run(world, IFCA(clusters=2), Plan(rounds=1, cohort=2))
    assert track.records[-1]["partial"] and track.final == {"accuracy_all_clients": None}
    assert "scoring.losses" not in world.ledger.down


def test_the_table_shows_it_where_it_differs(tiny: FederatedData) -> None:
    from rich.console import Console

    from fedkin.reporting.progress import table

    def shown(*runs: fk.Run) -> str:
        console = Console(width=140, record=True, file=io.StringIO())
        console.print(table([one.summary() for one in runs]))
        return console.export_text()

    partial = fk.simulate(
        IFCA(clusters=2), tiny, mclr(tiny), rounds=2, cohort=3, local=fk.SGD(lr=0.5, epochs=3)
    )
    whole = fk.simulate(fk.FedAvg(), tiny, mclr(tiny), rounds=2, cohort=3)
    text = shown(partial, whole)
    assert "clients" in text and f"{partial.summary()['accuracy_all_clients']:.1%}" in text
    assert "all" not in shown(whole)
    validated = fk.simulate(
        fk.FedAvg(),
        tiny.with_validation(0.3),
        mclr(tiny),
        rounds=9,
        cohort=3,
        scoring=fk.Scoring(patience=1),
    )
    text = shown(validated)
    assert "best validation accuracy" in text and "stopped after round" in text and "of 9" in text
