"""The rounds, in a world small enough to follow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.description import Description
from fedkin.config.plan import Plan
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.methods import FLHC, FedAvg, FlexCFL, SattlerCFL
from fedkin.run.cohort_selection import select_cohort
from fedkin.run.folder.run_folder import Folder
from fedkin.run.loop import RunState, run
from fedkin.run.metrics.clustering import GroundTruth
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import Train
from tests.run.toy_method import Toy, ToyState, fake_world

PLAN = Plan(rounds=7, cohort=3, seed=5, checkpoint_every=2)


class Killed(Exception):
    """Stands for a process that is gone."""


def described(plan: Plan) -> Description:
    """A description, as far as a folder cares."""
    return Description(
        {"method": {"name": "toy"}, "run": {"rounds": plan.rounds, "seed": plan.seed}}
    )


def test_cohorts_depend_on_seed_and_round_only() -> None:
    seen: dict[str, list[list[int]]] = {}
    for method in (FedAvg(), Toy(clusters=3)):
        world = fake_world()
        seen[type(method).__name__] = cohorts = []
        run_task = world.run

        def spy(task, clients, stream=None, run_task=run_task, cohorts=cohorts):
            if isinstance(task, Train):
                cohorts.append(clients.tolist())
            return run_task(task, clients, stream)

        world.run = spy  # type: ignore[method-assign]
        run(world, method, PLAN)
    assert seen["FedAvg"] == seen["Toy"]
    assert seen["Toy"] == [
        select_cohort(np.arange(8), 8, PLAN, Stream(5, r, "cohort")).tolist() for r in range(1, 8)
    ]


def test_one_record_per_round_and_round_zero_is_untrained() -> None:
    told: list[Record] = []
    track = run(fake_world(), Toy(), PLAN, name="toy", on_round=told.append)
    assert track.records == told
    assert [r["round"] for r in told] == list(range(8))
    assert {r["method"] for r in told} == {"toy"}
    assert told[0]["train_loss"] is None and told[0]["bytes_down"] == 0
    assert all(r["train_loss"] is not None and r["discrepancy_mean"] is not None for r in told[1:])


def test_scores_are_taken_after_aggregation() -> None:
    world = fake_world()
    track = run(world, Toy(), PLAN)
    assert isinstance(track.state, ToyState)
    expected = evaluate(world, track.state.models, np.arange(8), track.state.assignment)
    assert track.records[-1]["accuracy"] == expected.correct.sum() / 8
    assert track.scored is not None
    np.testing.assert_array_equal(track.scored.scores.loss, expected.loss)


def test_cold_clients_are_placed_before_they_train_and_rounds_are_partial_until_then() -> None:
    track = run(fake_world(), Toy(warm=2), Plan(rounds=12, cohort=3))
    assert isinstance(track.state, ToyState)
    sizes = [sum(r["cluster_sizes"]) for r in track.records]
    assert sizes[0] == 2 and sizes[-1] == 8 and sizes == sorted(sizes)
    assert [r["partial"] for r in track.records] == [size < 8 for size in sizes]
    assert track.state.rounds_trained.sum() == 12 * 3


def test_the_whole_cohort_goes_to_the_method_placed_or_not() -> None:
    class Shy(Toy):
        def place(
            self, world: Any, state: ToyState, newcomers: np.ndarray, stream: Stream
        ) -> ToyState:
            return state

        def round(
            self, world: Any, state: ToyState, cohort: np.ndarray, stream: Stream
        ) -> ToyState:
            cohorts.append(cohort.tolist())
            return super().round(
                world, state, cohort[state.assignment[cohort] != UNASSIGNED], stream
            )

    cohorts: list[list[int]] = []
    track = run(fake_world(), Shy(warm=1), Plan(rounds=6, cohort=2))
    assert isinstance(track.state, ToyState)
    assert cohorts == [
        select_cohort(np.arange(8), 8, Plan(6, 2), Stream(0, r, "cohort")).tolist()
        for r in range(1, 7)
    ]
    assert (track.state.assignment[1:] == UNASSIGNED).all()


@pytest.mark.parametrize(("rounds", "placed"), [(3, 6), (4, 8)])
def test_newcomers_of_the_last_round_are_placed_and_scored(rounds: int, placed: int) -> None:
    plan = Plan(rounds, cohort=2, selection="round_robin")
    track = run(fake_world(), FlexCFL(clusters=2, alpha=1), plan)
    drawn = fake_world().total_clients - int((track.state.assignment == UNASSIGNED).sum())
    assert drawn >= placed and (track.state.assignment[:placed] != UNASSIGNED).all()
    assert sum(track.records[-1]["cluster_sizes"]) == drawn
    assert track.records[-1]["partial"] == (drawn < 8)


def test_worlds_begin_every_round_once_before_anything_else() -> None:
    class Begun(FakeWorld):
        def begin(self, stream: Stream) -> None:
            calls.append(("begin", stream.round, stream))

        def clients(self, round: int) -> Any:
            calls.append(("clients", round, None))
            return super().clients(round)

    calls: list[tuple[str, int, Stream | None]] = []
    like = fake_world()
    run(Begun(like.target, like.examples, like.work), Toy(), Plan(rounds=3, cohort=2, seed=4))
    begun = [(name, round) for name, round, _ in calls if name == "begin"]
    assert begun == [("begin", r) for r in range(4)]
    firsts = [next(name for name, round, _ in calls if round == r) for r in range(4)]
    assert firsts == ["begin"] * 4
    streams = [stream for _, _, stream in calls if stream is not None]
    assert {stream.at(0) for stream in streams} == {streams[0]} and streams[0].seed == 4


def test_each_round_is_scored_with_its_ground_truth() -> None:
    """Clients are even and odd; from the third record on they are said to be of other kinds, and
    two have moved."""
    parity = np.arange(8) % 2
    looks = iter(range(4))

    def ground_truth() -> GroundTruth:
        late = next(looks) >= 2
        return GroundTruth(
            parity if not late else np.arange(8) // 4, np.arange(8) < (2 if late else 0)
        )

    track = run(fake_world(), Toy(), Plan(rounds=3, cohort=3), ground_truth=ground_truth)
    assert [record["ari"] == 1 for record in track.records] == [True, True, False, False]
    assert [record["data_shifts"] for record in track.records] == [0, 0, 2, 2]


def test_the_record_counts_detected_shifts_and_placed_clients() -> None:
    """Client 5's labels change in round 2. It gives no answer until round 4. There it is placed
    again; in round 5 they change back."""
    counts = np.full((8, 2), 10)

    class Moving(FakeWorld):
        def begin(self, stream: Stream) -> None:
            away = 2 <= stream.round < 5
            self.round = stream.round
            self.counts = counts - 9 * away * (np.arange(8) == 5)[:, None]
            self.silent = frozenset({5}) if stream.round in (2, 3) else frozenset()

    like = fake_world()
    world = Moving(like.target, like.examples, like.work, counts=counts)

    def ground_truth() -> GroundTruth:
        return GroundTruth(shifted=(np.arange(8) == 5) & (world.round in (2, 5)))

    track = run(world, FlexCFL(clusters=2), Plan(rounds=5, cohort=3), ground_truth=ground_truth)
    seen = [
        [r[name] for name in ("shifts_detected", "data_shifts_assigned", "shifts_detected_true")]
        for r in track.records
    ]
    assert seen == [[None, 0, None], [0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0], [1, 1, 1]]
    plain = run(fake_world(), FedAvg(), Plan(rounds=1, cohort=3))
    assert [r["shifts_detected"] for r in plain.records] == [None, None]


def test_unscored_rounds_hold_null_and_the_last_is_always_scored() -> None:
    track = run(fake_world(), Toy(), Plan(rounds=7, cohort=3, evaluate_every=3))
    assert [r["round"] for r in track.records if r["accuracy"] is not None] == [0, 3, 6, 7]
    full = run(fake_world(), Toy(), Plan(rounds=7, cohort=3))
    assert track.records[6]["accuracy"] == full.records[6]["accuracy"]
    assert track.state.models.tobytes() == full.state.models.tobytes()


@pytest.mark.parametrize(
    ("plan", "method", "message"),
    [
        (Plan(1, 9), FedAvg(), r"run\.cohort must be at most the number of clients \(8\), got 9"),
        (
            Plan(1, 2),
            Toy(clusters=9),
            r"at least 9 clients \(clusters = 9\), and there are 8: .* method\.clusters=8",
        ),
    ],
)
def test_the_impossible_is_refused(plan: Plan, method: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(fake_world(), method, plan)


@pytest.mark.parametrize(
    ("method", "first"),
    [(FLHC(cluster_round=8), 8), (SattlerCFL(first_split=7), 8), (FLHC(cluster_round=7), 0)]
    + [(SattlerCFL(first_split=6), 0), (FedAvg(), 0)],
)
def test_clusters_that_would_come_after_the_last_round_are_logged(
    caplog: pytest.LogCaptureFixture, method: Any, first: int
) -> None:
    """FL+HC clusters in ``cluster_round``, Sattler's CFL cuts only after ``first_split``; the run
    has seven rounds."""
    run(fake_world(), method, PLAN, name="it")
    told = [(r.name, r.levelname, r.getMessage()) for r in caplog.records]
    words = f"it: clusters are formed from round {first} on, but the run has only 7"
    assert told == ([("fedkin", "WARNING", words)] if first else [])


def test_scores_can_be_wished_for_the_last_round_only() -> None:
    plan = Plan(rounds=4, cohort=1, evaluate_every=0)
    assert [plan.evaluates(round) for round in range(5)] == [False, False, False, False, True]
    track = run(fake_world(), Toy(), Plan(rounds=2, cohort=3, evaluate_every=0))
    assert [record["accuracy"] is None for record in track.records] == [True, True, False]


def into(
    path: Path, plan: Plan, die_at: int | None = None, resume: bool = False
) -> tuple[FakeWorld, RunState]:
    """Run in a folder; die just after a round's record was written."""
    world = fake_world(silent=frozenset({6}))
    folder = (Folder.reopen if resume else Folder.create)(path, described(plan))

    def on_round(record: Record) -> None:
        if record["round"] == die_at:
            raise Killed

    return world, run(world, Toy(warm=5), plan, name="toy", folder=folder, on_round=on_round)


@pytest.mark.parametrize("die_at", range(8))
def test_a_run_that_goes_on_ends_with_the_same_bits(tmp_path: Path, die_at: int) -> None:
    world, whole = into(tmp_path / "whole", PLAN)
    with pytest.raises(Killed):
        into(tmp_path / "cut", PLAN, die_at)
    again, resumed = into(tmp_path / "cut", PLAN, resume=True)
    assert isinstance(whole.state, ToyState) and isinstance(resumed.state, ToyState)
    for name in ("models", "assignment", "rounds_trained", "noise"):
        assert getattr(whole.state, name).tobytes() == getattr(resumed.state, name).tobytes()
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()
    # Nothing is left to do but to score the last round again, on the account of scoring.
    if die_at == PLAN.rounds:
        assert again.ledger.down.pop("scoring.evaluate") > world.ledger.down.pop("scoring.evaluate")
    assert (world.ledger.down, world.ledger.up) == (again.ledger.down, again.ledger.up)
    assert resumed.records == whole.records


def test_a_run_may_die_again_and_again(tmp_path: Path) -> None:
    _, whole = into(tmp_path / "whole", PLAN)
    with pytest.raises(Killed):
        into(tmp_path / "cut", PLAN, 1)
    for die_at in (2, 3, 3, 5, 6):
        with pytest.raises(Killed):
            into(tmp_path / "cut", PLAN, die_at, resume=True)
    _, resumed = into(tmp_path / "cut", PLAN, resume=True)
    assert resumed.state.models.tobytes() == whole.state.models.tobytes()
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()


def test_a_finished_run_can_be_extended(tmp_path: Path) -> None:
    longer = Plan(rounds=11, cohort=3, seed=5, checkpoint_every=2)
    _, whole = into(tmp_path / "whole", longer)
    into(tmp_path / "cut", PLAN)
    _, resumed = into(tmp_path / "cut", longer, resume=True)
    assert resumed.state.models.tobytes() == whole.state.models.tobytes()
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()
    assert "rounds = 11" in (tmp_path / "cut/config.toml").read_text()


def test_a_run_cannot_be_shortened(tmp_path: Path) -> None:
    into(tmp_path / "run", PLAN)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(CheckpointError, match=r"is already at round 7, but run\.rounds is 4"):
        into(tmp_path / "run", Plan(rounds=4, cohort=3, seed=5), resume=True)
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("damage", ["", '{"round":0}\n', '{"round":0}\nnonsense\n'])
def test_lost_records_are_noticed(tmp_path: Path, damage: str) -> None:
    into(tmp_path / "run", PLAN)
    (tmp_path / "run/metrics.jsonl").write_text(damage)
    with pytest.raises(CheckpointError, match="does not hold all rounds from 0 to 7"):
        into(tmp_path / "run", PLAN, resume=True)


def test_wall_times_stay_out_of_the_metrics(tmp_path: Path) -> None:
    into(tmp_path / "run", PLAN)
    assert "second" not in (tmp_path / "run/metrics.jsonl").read_text()
    assert len((tmp_path / "run/timings.jsonl").read_text().splitlines()) == 8


def test_lost_checkpoints_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        into(tmp_path / "run", PLAN, die_at=1)
    shutil.rmtree(tmp_path / "run/checkpoints")
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    with pytest.raises(
        CheckpointError,
        match=r"metrics\.jsonl has rounds after round 0, but there are no checkpoints",
    ):
        into(tmp_path / "run", PLAN, resume=True)
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before


def test_an_extended_run_has_scored_its_former_last_round(tmp_path: Path) -> None:
    """What extending changes, and all that it changes."""
    longer = Plan(rounds=11, cohort=3, seed=5, evaluate_every=2, checkpoint_every=2)
    whole = into(tmp_path / "whole", longer)[1].records
    into(tmp_path / "cut", replace(longer, rounds=7))
    resumed = into(tmp_path / "cut", longer, resume=True)[1].records
    assert [
        r["round"] for r, o in zip(resumed, whole, strict=True) if r["accuracy"] != o["accuracy"]
    ] == [7]
    assert [r["train_loss"] for r in resumed] == [r["train_loss"] for r in whole]
