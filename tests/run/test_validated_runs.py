"""Runs whose rounds are scored on validation samples: test samples are read once, and choose
nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.client import ClientRows
from fedkin.core.errors import CheckpointError, MethodError
from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.records import Record
from fedkin.core.task import Task
from fedkin.data.federated import FederatedData
from fedkin.models import mclr, mlp
from fedkin.run.folder import checkpoint
from fedkin.run.folder.checkpoint import BestRound
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.metrics.accuracy import score
from fedkin.run.metrics.final import best_record
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import Evaluate
from tests.option_lists import simulate_arguments
from tests.run.validated_world import Saying, constant_data, constant_model, said
from tests.simulation.numpy_detectors import linear


class Killed(Exception):
    """Stands for a process that is gone."""


def dying_at(round: int) -> Callable[[Record], None]:
    def on_round(record: Record) -> None:
        if record["round"] == round:
            raise Killed

    return on_round


def test_rounds_are_scored_on_validation_samples() -> None:
    """By the shares of the class that the model says, in rounds 0 to 5: 3, 1, 0, 2, 2, 2."""
    run = said()
    assert [record["accuracy"] for record in run.records] == [0.0, 0.3, 0.4, 0.3, 0.3, 0.3]
    assert {record["split"] for record in run.records} == {"validation"}
    tested = said(data=constant_data(validation=False))
    assert [record["accuracy"] for record in tested.records] == [0.0, 0.6, 0.1, 0.3, 0.3, 0.3]
    assert not any("split" in record for record in tested.records)


def test_the_summary_has_the_test_accuracy_of_the_round_that_validation_chooses() -> None:
    """Validation chooses round 2; on test samples round 1 would have been the best, as without
    validation it is."""
    summary = said().summary()
    assert (summary["best_round"], summary["validation_accuracy"]) == (2, 0.4)
    assert (
        summary["best_accuracy"],
        summary["best_median_client"],
        summary["best_bottom_decile"],
    ) == (0.1, 0.1, 0.1)
    assert (summary["final_accuracy"], summary["median_client"], summary["bottom_decile"]) == (
        0.3,
        0.3,
        0.3,
    )
    plain = said(data=constant_data(validation=False)).summary()
    assert (plain["best_round"], plain["best_accuracy"], plain["final_accuracy"]) == (1, 0.6, 0.3)
    assert "validation_accuracy" not in plain and "best_median_client" not in plain


def test_the_state_of_the_best_round_is_kept_next_to_the_final_one() -> None:
    run = said()
    assert run.best_state is not None
    np.testing.assert_array_equal(run.best_state.models[0], constant_model(12, 0))
    np.testing.assert_array_equal(run.models[0], constant_model(12, 2))
    assert said(data=constant_data(validation=False)).best_state is None


def test_a_best_state_without_some_of_the_clients_has_no_accuracy() -> None:
    """Clients that came after that round are in the test of the final state: two tests of different
    clients."""
    data = constant_data()
    world = SimulatedWorld(data, model := mclr(data), fk.LocalTraining())
    whole = State(constant_model(model.spec.parameters, 1)[None], np.zeros(4, int))
    without = replace(whole, assignment=np.array([0, 0, 0, -1]))
    final = score(world, whole, 2)
    assert best_record(world, BestRound(1, 0.3, whole), 2, final)["best_accuracy"] == 0.6
    assert set(best_record(world, BestRound(1, 0.3, without), 2, final).values()) == {None}


def test_of_equal_rounds_the_first_is_chosen() -> None:
    assert said(Saying((3, 1, 2, 1))).summary()["best_round"] == 1  # all score 0.3 for validation


def test_partial_rounds_are_not_chosen() -> None:
    """Clients 1 to 3 have no cluster before a cohort of all of them in round 1."""
    run = said(Saying((0, 1, 2), known=1), cohort=4)
    assert [record["partial"] for record in run.records] == [
        True,
        False,
        False,
        False,
        False,
        False,
    ]
    assert run.summary()["best_round"] == 1
    never = said(Saying((0, 1), known=0), cohort=1, rounds=1)
    assert {
        name: never.summary()[name]
        for name in ("best_round", "best_accuracy", "validation_accuracy")
    } == {**{"best_round": None, "best_accuracy": None, "validation_accuracy": None}}
    assert never.summary()["final_accuracy"] == 0.6 and never.best is None


@pytest.mark.parametrize(("says", "read"), [((3, 1, 0, 2), 2), ((3, 2, 1, 1, 1, 0), 1)])
def test_test_samples_are_read_after_the_last_round_only(
    monkeypatch: pytest.MonkeyPatch, says: tuple[int, ...], read: int
) -> None:
    """Once for the final state, and once for the state of the best round, where it is another."""
    events: list[Any] = []
    compute = Evaluate.compute_rows

    def spy(task: Evaluate, rows: ClientRows) -> Any:
        events.append(task.split)
        return compute(task, rows)

    monkeypatch.setattr(Evaluate, "compute_rows", spy)
    said(Saying(says), on_round=lambda record: events.append(record["round"]))
    assert events == [*(e for r in range(6) for e in ("validation", r)), *["test"] * read]


def test_the_chosen_round_equals_the_end_of_a_shorter_run(tiny: FederatedData) -> None:
    """A run of as many rounds, which trains on the same samples and is scored on test samples, ends
    there. FedPer's heads are on the clients, as they were in that round."""
    data = tiny.with_validation(0.3)
    bare = replace(data, validation=None)
    for method, model in (
        (fk.FedPer(), mlp(data, hidden=3)),
        (fk.IFCA(clusters=2, newcomers="loss"), mclr(data)),
    ):
        options: dict[str, Any] = {"cohort": data.clients, "local": fk.SGD(lr=2.0, epochs=3)}
        run = fk.simulate(method, data, model, rounds=6, **simulate_arguments(options))
        summary = run.summary()
        assert summary["best_round"] is not None and run.best is not None
        assert bool(run.best.memory) == isinstance(method, fk.FedPer)
        shorter = fk.simulate(
            method, bare, model, rounds=max(1, summary["best_round"]), **simulate_arguments(options)
        )
        expected = shorter.records[summary["best_round"]]
        names = {
            "best_accuracy": "accuracy",
            "best_median_client": "median_client",
            "best_bottom_decile": "bottom_decile",
        }
        assert {name: summary[name] for name in names} == {
            name: expected[key] for name, key in names.items()
        }


@pytest.mark.parametrize("die_at", range(6))
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, die_at: int) -> None:
    whole = said(out=tmp_path / "whole")
    with pytest.raises(Killed):
        said(out=tmp_path / "cut", on_round=dying_at(die_at))
    resumed = said(out=tmp_path / "cut", resume=True)
    for name in ("metrics.jsonl", "clients.parquet", "config.toml"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert {**resumed.summary(), "seconds": 0} == {**whole.summary(), "seconds": 0}
    assert (
        resumed.best is not None
        and whole.best is not None
        and resumed.best.round == whole.best.round
    )
    assert resumed.best.state.models.tobytes() == whole.best.state.models.tobytes()


def test_heads_of_the_best_round_survive_a_kill(tiny: FederatedData, tmp_path: Path) -> None:
    data = tiny.with_validation(0.3)
    options: dict[str, Any] = {
        "rounds": 4,
        "cohort": 3,
        "local": fk.SGD(lr=2.0),
        "checkpoint_every": 1,
    }
    whole = fk.simulate(fk.FedPer(), data, mlp(data, hidden=3), **simulate_arguments(options))
    out = tmp_path / "run"
    with pytest.raises(Killed):
        fk.simulate(
            fk.FedPer(),
            data,
            mlp(data, hidden=3),
            out=out,
            **simulate_arguments({"callbacks": dying_at(3)} | options),
        )
    resumed = fk.simulate(
        fk.FedPer(), data, mlp(data, hidden=3), out=out, resume=True, **simulate_arguments(options)
    )
    assert {**resumed.summary(), "seconds": 0} == {**whole.summary(), "seconds": 0}
    assert resumed.best is not None and whole.best is not None
    assert {k: v.tobytes() for k, v in resumed.best.memory.items()} == {
        k: v.tobytes() for k, v in whole.best.memory.items()
    }


def test_a_folder_gives_it_back(tmp_path: Path) -> None:
    run = said(out=tmp_path / "run")
    run.save(tmp_path / "copy")
    for folder in ("run", "copy"):
        loaded = fk.Run.load(tmp_path / folder)
        assert loaded.summary() == run.summary()
        assert loaded.best_state is not None and run.best_state is not None
        np.testing.assert_array_equal(loaded.best_state.models, run.best_state.models)
    (tmp_path / "copy/summary.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"summary\.json is damaged or changed"):
        fk.Run.load(tmp_path / "copy")


def test_a_damaged_best_round_is_noticed(tmp_path: Path) -> None:
    said(out=tmp_path / "run")
    path = max((tmp_path / "run/checkpoints").iterdir())
    whole = path.read_bytes()
    stored = checkpoint.newest(path.parent)[0]
    assert stored.best is not None and stored.best.round == 2 and stored.best.score == 0.4
    position = whole.index(constant_model(12, 0).tobytes())
    path.write_bytes(whole[:position] + b"\1" + whole[position + 1 :])
    assert checkpoint.newest(path.parent)[0].round < 5  # the one before it is taken


def test_the_validation_split_decides_which_run_it_is(tmp_path: Path) -> None:
    run = said(out=tmp_path / "run")
    other = said(data=constant_data(validation=False))
    assert run.config.data == {"name": "constant", "clients": 4, "validation_samples": 40}
    assert other.config.data == {"name": "constant", "clients": 4}
    assert fingerprint(run.config) != fingerprint(other.config)
    with pytest.raises(
        CheckpointError, match=r"data\.validation_samples is 40 there and None here"
    ):
        said(data=constant_data(validation=False), out=tmp_path / "run", resume=True)


def test_rounds_between_scores_are_not_chosen() -> None:
    """Only rounds 0, 3 and 5 are scored."""
    summary = said(Saying((3, 0, 0, 1, 0, 2)), evaluate_every=3).summary()
    assert (summary["best_round"], summary["validation_accuracy"], summary["best_accuracy"]) == (
        3,
        0.3,
        0.6,
    )


@pytest.mark.parametrize(
    "shift", [fk.SwapAll(probability=1.0), fk.Incremental(every=1), fk.Relabel(kinds=2, at=2)]
)
def test_data_may_shift(tiny: FederatedData, shift: Any, tmp_path: Path) -> None:
    data = tiny.with_validation(0.3)
    options: dict[str, Any] = {"rounds": 4, "cohort": 3, "shift": shift, "checkpoint_every": 1}
    whole = fk.simulate(fk.FedAvg(), data, mclr(data), **simulate_arguments(options))
    assert whole.summary()["best_accuracy"] is not None
    with pytest.raises(Killed):
        fk.simulate(
            fk.FedAvg(),
            data,
            mclr(data),
            out=tmp_path / "run",
            **simulate_arguments({"callbacks": dying_at(2)} | options),
        )
    resumed = fk.simulate(
        fk.FedAvg(),
        data,
        mclr(data),
        out=tmp_path / "run",
        resume=True,
        **simulate_arguments(options),
    )
    assert resumed.records == whole.records
    assert {**resumed.summary(), "seconds": 0} == {**whole.summary(), "seconds": 0}


def test_the_global_model_is_scored_on_the_same_samples(tiny: FederatedData) -> None:
    """Where validation samples are the test samples, all numbers are the same."""
    same = replace(tiny, validation=tiny.test)
    options: dict[str, Any] = {"rounds": 2, "cohort": 4, "global_model": True}
    ours = fk.simulate(
        fk.FedGroup(clusters=2), same, mclr(tiny), **simulate_arguments(options)
    ).records
    theirs = fk.simulate(
        fk.FedGroup(clusters=2), tiny, mclr(tiny), **simulate_arguments(options)
    ).records
    assert [{k: v for k, v in record.items() if k != "split"} for record in ours] == theirs
    other = fk.simulate(
        fk.FedGroup(clusters=2),
        replace(tiny, validation=tiny.train),
        mclr(tiny),
        **simulate_arguments(options),
    ).records
    assert other[-1]["global_loss"] != theirs[-1]["global_loss"]


@dataclass(frozen=True)
class TestOnly(Task):
    """A test that knows test samples only."""

    __test__ = False
    up = Evaluate.up


@dataclass(frozen=True)
class OwnTest(Saying):
    """A method whose state has its own test."""

    def init(self, world: Any, stream: Any) -> Any:
        state = super().init(world, stream)

        class Own(type(state)):  # type: ignore[misc]
            def evaluation(self, spec: ModelSpec, clients: np.ndarray) -> Task:
                return TestOnly()

        return Own(state.models, state.assignment)


def test_a_test_of_a_methods_own_must_know_the_samples() -> None:
    with pytest.raises(
        MethodError,
        match=r'test_only evaluates test samples only.*split: str = "test"',
    ):
        said(OwnTest())


def test_detectors_are_scored_on_them(tiny: FederatedData) -> None:
    """Where validation samples are the test samples, all numbers are the same, each detector's
    too."""
    data = replace(tiny, validation=tiny.test)
    method = fk.Athena(eps=100.0, pretraining=1)
    options: dict[str, Any] = {"rounds": 2, "cohort": 12, "local": fk.SGD(lr=0.1)}
    ours = fk.simulate(method, data, linear(2), **simulate_arguments(options)).records
    theirs = fk.simulate(method, tiny, linear(2), **simulate_arguments(options)).records
    assert [{k: v for k, v in record.items() if k != "split"} for record in ours] == theirs
    assert ours[-1]["accuracy_by_detector"] is not None
    other = fk.simulate(
        method, replace(tiny, validation=tiny.train), linear(2), **simulate_arguments(options)
    ).records
    assert other[-1]["loss"] != theirs[-1]["loss"]


def test_pytorch_models_are_scored_on_them(tiny: FederatedData) -> None:
    nn = pytest.importorskip("torch").nn
    data = tiny.with_validation(0.3)
    run = fk.simulate(
        fk.FedAvg(), data, fk.torch_model(lambda: nn.Linear(2, 2)), rounds=2, cohort=4
    )
    assert run.scored_split == "validation" and run.summary()["best_accuracy"] is not None
    samples = sum(run.clients["test_samples"])
    assert samples == tiny.test.sizes.sum()


def test_figures_say_on_which_samples(tmp_path: Path) -> None:
    text = {}
    for name, data in (("validated", constant_data()), ("tested", constant_data(validation=False))):
        run = said(data=data)
        fk.draw(run, tmp_path / name)
        fk.draw(fk.RepeatedRuns((run,)), tmp_path / f"{name} seeds")
        text[name] = [path.read_text() for path in sorted(tmp_path.glob(f"{name}*/figure.svg"))]
    assert all(
        "Validation accuracy" in one and "Test accuracy" not in one for one in text["validated"]
    )
    assert all(
        "Validation accuracy" not in one and "Test accuracy" in one for one in text["tested"]
    )
    assert [len(one) for one in text.values()] == [2, 2]


def test_advice_chooses_by_them(monkeypatch: pytest.MonkeyPatch, tiny: FederatedData) -> None:
    """Test samples that would say the opposite change nothing."""
    from fedkin.analysis.advise.pilot_runs import PilotPlan, run_pilots

    data = tiny.with_validation(0.3)
    wrong = replace(
        data, y=np.where(np.isin(np.arange(len(data.y)), data.test.rows), 1 - data.y, data.y)
    )
    plan = PilotPlan(rounds=2, cohort=12, seeds=3)
    tables = [
        run_pilots(data=one, model=mclr(one), local=fk.SGD(lr=0.5, epochs=2), clusters=2, plan=plan)
        for one in (data, wrong)
    ]
    columns = ["accuracy", "bottom_decile", "gain"]
    assert tables[0][columns].equals(tables[1][columns])
    # Of two classes: clusters are compared with own intercepts too, here with few short runs.
    levels = fk.LevelPlan(clusters=(2,), starts=1, rounds=2, rates=(0.3,))
    advice = fk.advise(
        data,
        mclr(data),
        fk.SGD(lr=0.5, epochs=2),
        max_clusters=2,
        pilots=plan,
        levels=levels,
    )
    assert advice.pilots is not None
