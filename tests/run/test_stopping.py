"""Runs that end before their last round: by their scores, by a callback, by an error in one."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.analysis.scores import is_partial, score
from fedkin.cli import app
from fedkin.config.plan import Plan
from fedkin.config.run import from_dict
from fedkin.config.server import load_server
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.core.records import Record
from fedkin.data.packed import pack
from fedkin.measures.lookup import compared_by
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.stopping import (
    failure,
    stop_by_reply,
    stop_by_score,
    stop_of_resumed,
    stop_without_replies,
)
from tests.mappings import merged
from tests.run.validated_world import Saying, constant_data, said


def records(*scores: float | None, partial: tuple[int, ...] = ()) -> list[Record]:
    """Rounds with these scores."""
    return [
        {"round": r, "accuracy": score, "partial": r in partial} for r, score in enumerate(scores)
    ]


def stops(plan: Plan, rounds: list[Record]) -> int | None:
    """The first round after which a run would stop."""
    return next(
        (r["round"] for n, r in enumerate(rounds) if stop_by_score(plan, rounds[: n + 1])), None
    )


@pytest.mark.parametrize(
    ("patience", "scores", "expected"),
    [
        (2, (0.1, 0.3, 0.2, 0.3, 0.4), 3),  # 0.3 again is not better
        (3, (0.1, 0.3, 0.2, 0.3, 0.4), None),
        (1, (0.1, 0.2, 0.3, 0.3), 3),
        (2, (0.5, 0.1, 0.1, 0.6), 2),  # round 0 counts
        (2, (0.1, 0.3, None, None, None, 0.2, 0.1), 5),  # rounds without a score decide nothing
        (2, (0.1, 0.3, None, None, None, 0.4, 0.1), None),
    ],
)
def test_patience_counts_rounds_since_the_best(
    patience: int, scores: tuple[float | None, ...], expected: int | None
) -> None:
    assert stops(Plan(rounds=100, cohort=1, patience=patience), records(*scores)) == expected


def test_until_is_reached_by_complete_rounds_only() -> None:
    plan = Plan(rounds=100, cohort=1, until=0.5)
    assert stops(plan, records(0.1, 0.49, 0.5, 0.6)) == 2
    # Round 0 is none, round 1 is partial.
    assert stops(plan, records(0.9, 0.9, 0.4, 0.9, partial=(1,))) == 3
    assert stops(Plan(rounds=100, cohort=1), records(1.0, 1.0, 0.0, 0.0)) is None


def numbers() -> fk.FederatedData:
    """Labels in the hundreds, whose error falls from about 60 towards 10."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)).astype(np.float32)
    y = 500 + 60 * x[:, 0] + 10 * rng.normal(size=400)
    return fk.data.from_arrays(x, y, clients=np.arange(400) % 4, task="regression")


def test_an_error_in_units_of_the_label_is_reached_from_above() -> None:
    data = numbers()
    run = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=60,
        cohort=4,
        local=fk.LocalTraining(epochs=2, batch_size=10, lr=0.05),
        scoring=fk.Scoring(target=40.0, until=30.0),
    )
    errors = [record["root_mean_squared_error"] for record in run.records]
    assert errors[0] > 50
    assert errors[-1] <= 30 < errors[-2]
    assert run.summary()["stopped"]["reason"].endswith("reaches run.until = 30.0")
    reached = next(r for r, error in enumerate(errors) if error <= 40)
    assert run.summary()["rounds_to_target"] == reached


@pytest.mark.parametrize("key", ["target", "until"])
def test_a_share_cannot_exceed_one(key: str, tmp_path: Path) -> None:
    data = fk.data.digits(clients=4)
    scoring = fk.Scoring(**{key: 80})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"scoring\.{key}: .* equal to 1, got 80; .*{key}=0\."):
        fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4, scoring=scoring)
    with pytest.raises(ConfigError, match=rf"scoring\.{key}: expected a value greater than 0"):
        fk.Scoring(**{key: 0})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"run\.{key}: expected .* equal to 1, got 80"):
        from_dict({"data": {"name": "mnist"}, "run": {key: 80}})
    path = tmp_path / "t.csv"
    for options, refused in (
        ({}, True),
        ({"task": "classification"}, True),
        ({"task": "regression"}, False),
        ({"loss": "poisson"}, False),
        ({"quantiles": [0.1, 0.9]}, False),
    ):
        raw = {"data": {"path": str(path), **options}, "run": {key: 80}}
        if not refused:
            assert getattr(from_dict(raw).run, key) == 80
            continue
        with pytest.raises(ConfigError, match=rf"run\.{key}: expected .* equal to 1, got 80"):
            from_dict(raw)
    # The name of a set of numbers does not say its task, so its data are read first.
    natural = {"name": "natural", "set": "azpro"}
    assert getattr(from_dict({"data": natural, "run": {key: 80}}).run, key) == 80


def test_a_folder_of_classes_is_checked_before_the_run(tmp_path: Path) -> None:
    pack(fk.data.digits(clients=4), tmp_path / "packed")
    keys = [f"data.path={tmp_path / 'packed'}", "run.until=80", "run.rounds=1", "run.cohort=4"]
    done = CliRunner().invoke(app, ["run", *keys])
    assert done.exit_code != 0
    assert "run.until: expected a value less than or equal to 1, got 80" in done.output


def test_partial_rounds_are_neither_better_nor_the_end() -> None:
    plan = Plan(rounds=100, cohort=1, patience=2)
    assert stops(plan, records(0.1, 0.3, 0.9, 0.2, partial=(2,))) == 3
    assert stops(plan, records(0.1, 0.3, 0.2, 0.2, 0.2, partial=(0, 1, 2, 3, 4))) is None


def test_the_last_round_is_no_early_end() -> None:
    assert stop_by_score(Plan(rounds=2, cohort=1, until=0.5), records(0.1, 0.2, 0.6)) is None
    assert stop_by_score(Plan(rounds=3, cohort=1, until=0.5), records(0.1, 0.2, 0.6)) == {
        "round": 2,
        "of": 3,
        "reason": "the score 0.6000 reaches run.until = 0.5",
    }
    assert stop_by_reply(Plan(rounds=2, cohort=1), 2, fk.STOP) is None


@pytest.mark.parametrize("reply", [None, True, 1, "go on", np.array([1, 2]), "STOP"])
def test_no_other_reply_stops(reply: Any) -> None:
    assert stop_by_reply(Plan(rounds=5, cohort=1), 1, reply) is None


def test_a_resumed_run_decides_by_its_new_settings() -> None:
    rounds = records(0.1, 0.3, 0.2, 0.2)
    stopped = stop_by_score(Plan(rounds=9, cohort=1, patience=2), rounds)
    assert stopped is not None
    # As from the start.
    assert stop_of_resumed(Plan(rounds=20, cohort=1, patience=2), rounds, stopped) is not None
    assert stop_of_resumed(Plan(rounds=9, cohort=1, patience=3), rounds, stopped) is None
    assert stop_of_resumed(Plan(rounds=9, cohort=1), rounds, stopped) is None
    replied = stop_by_reply(Plan(rounds=9, cohort=1), 3, fk.STOP)
    assert stop_of_resumed(Plan(rounds=9, cohort=1), rounds, replied) == replied
    # More rounds are asked for.
    assert stop_of_resumed(Plan(rounds=10, cohort=1), rounds, replied) is None


def replies(*rounds: tuple[float | None, int]) -> list[Record]:
    """Rounds from 1 on with this training loss and so many replies that were not finite; round 0
    trained no client."""
    both = [(None, 0), *rounds]
    score = {"accuracy": None, "partial": None}
    return [
        {"round": r, "train_loss": loss, "nonfinite": count, **score}
        for r, (loss, count) in enumerate(both)
    ]


BAD = (None, 4)
GOOD = (0.5, 1)
NO_CLIENTS = (None, 0)


@pytest.mark.parametrize(
    ("rounds", "stops"),
    [
        ((BAD, BAD, BAD), True),
        ((GOOD, BAD, BAD, BAD), True),
        ((BAD, BAD, GOOD, BAD, BAD), False),
        ((BAD, BAD, NO_CLIENTS), False),  # everybody dropped out, which is no failure
        ((NO_CLIENTS, NO_CLIENTS, NO_CLIENTS, NO_CLIENTS), False),
        ((GOOD, GOOD, GOOD), False),
    ],
)
def test_three_rounds_without_a_usable_reply_end_a_run(
    rounds: tuple[Any, ...], stops: bool
) -> None:
    records = replies(*rounds)
    plan = Plan(rounds=50, cohort=1)
    stopped = stop_without_replies(plan, records)
    assert (stopped is not None) == stops == bool(failure(records))
    if stopped:
        reason = "no client's reply was usable in the last 3 rounds"
        assert stopped == {"round": len(rounds), "of": 50, "reason": reason}
        assert stop_of_resumed(plan, records, stopped) == stopped
        # More rounds are asked for.
        assert stop_of_resumed(replace(plan, rounds=60), records, stopped) is None


def test_a_run_of_one_round_can_fail_too() -> None:
    assert failure(replies(BAD)) and not failure(replies(GOOD)) and not failure(replies())
    # It was the last one.
    assert stop_without_replies(Plan(rounds=3, cohort=1), replies(BAD, BAD, BAD)) is None


# --- whole runs: validation scores are 0, 0.3, 0.4, 0.3, 0.3, ...


def test_patience_ends_a_run() -> None:
    run = said(rounds=50, patience=3)
    summary = run.summary()
    assert (
        summary["rounds"] == 5
        and summary["stopped"]["round"] == 5
        and summary["stopped"]["of"] == 50
    )
    assert (
        "run.patience = 3" in summary["stopped"]["reason"]
        and "round 2" in summary["stopped"]["reason"]
    )
    assert (summary["best_round"], summary["best_accuracy"], summary["final_accuracy"]) == (
        2,
        0.1,
        0.3,
    )
    assert "stopped" not in said().summary()


def test_until_ends_a_run_with_and_without_validation() -> None:
    assert said(rounds=50, until=0.35).summary()["rounds"] == 2
    tested = said(rounds=50, until=0.5, data=constant_data(validation=False)).summary()
    assert (tested["rounds"], tested["best_accuracy"], tested["final_accuracy"]) == (1, 0.6, 0.6)


def test_a_callback_may_end_a_run() -> None:
    seen: list[int] = []

    def on_round(record: Record) -> str | None:
        seen.append(record["round"])
        return fk.STOP if record["round"] == 3 else None

    summary = said(on_round=on_round, rounds=50).summary()
    assert seen == [0, 1, 2, 3] and summary["rounds"] == 3
    assert summary["stopped"] == {"round": 3, "of": 50, "reason": "a callback returned STOP"}


def test_a_run_that_ends_between_scores_is_still_scored() -> None:
    """On test samples round 3 says class 2, a share of 0.3; it is the last round, and its record
    has no score."""
    data = constant_data(validation=False)
    run = said(
        data=data,
        evaluate_every=2,
        rounds=50,
        on_round=lambda r: fk.STOP if r["round"] == 3 else None,
    )
    assert run.records[-1]["accuracy"] is None
    summary = run.summary()
    assert (summary["final_accuracy"], summary["bottom_decile"], summary["cluster_sizes"]) == (
        0.3,
        0.3,
        [4],
    )
    assert summary["accuracy_all_clients"] == 0.3


def test_a_final_score_over_some_of_the_clients_is_known_as_such() -> None:
    """The record of round 1 has no score; without client 3, only the accuracy of all clients is
    fair to compare."""
    data = constant_data(validation=False)
    run = said(
        Saying(known=0),
        data,
        evaluate_every=3,
        cohort=1,
        on_round=lambda r: fk.STOP if r["round"] == 1 else None,
    )
    assert run.records[-1]["partial"] is None and is_partial(run)
    assert (
        np.isnan(score(run, compared_by("bottom")).value)
        and score(run, compared_by("final")).value == run.summary()["accuracy_all_clients"]
    )
    whole = said(
        data=data, evaluate_every=3, on_round=lambda r: fk.STOP if r["round"] == 1 else None
    )
    assert not is_partial(whole) and score(whole, compared_by("bottom")).value == 0.6


def test_the_rounds_of_a_stopped_run_are_those_of_a_longer_one() -> None:
    stopped = said(rounds=50, patience=3)
    whole = said(rounds=7)
    assert stopped.records == whole.records[:6]


STOPS: list[dict[str, Any]] = [
    {"patience": 3},
    {"until": 0.35},
    {"on_round": lambda record: "stop" if record["round"] == 3 else None},
]


@pytest.mark.parametrize("how", STOPS, ids=["patience", "until", "on_round"])
def test_a_stopped_run_is_a_finished_run(how: dict[str, Any], tmp_path: Path) -> None:
    run = said(out=tmp_path / "run", rounds=50, **how)
    loaded = fk.Run.load(tmp_path / "run")
    assert (
        loaded.summary() == run.summary() == json.loads((tmp_path / "run/summary.json").read_text())
    )
    fk.report(tmp_path / "run", tmp_path / "report.html")
    assert fk.draw(run, tmp_path / "drawn")
    before = {
        name: (tmp_path / "run" / name).read_bytes()
        for name in ("metrics.jsonl", "clients.parquet")
    }
    seen: list[Record] = []
    again = said(
        out=tmp_path / "run", resume=True, rounds=50, **merged(how, {"on_round": seen.append})
    )
    assert not seen and again.summary()["stopped"] == run.summary()["stopped"]
    assert before == {name: (tmp_path / "run" / name).read_bytes() for name in before}
    run.save(tmp_path / "copy")
    assert (
        said(
            out=tmp_path / "copy", resume=True, rounds=50, **merged(how, {"on_round": seen.append})
        ).summary()["rounds"]
        == run.summary()["rounds"]
    )
    assert not seen


def test_more_rounds_are_consistent(tmp_path: Path) -> None:
    """Its scores end the run after the same round, whatever comes later; with more patience it goes
    on, and ends as from the start."""
    said(out=tmp_path / "run", rounds=50, patience=3)
    assert said(out=tmp_path / "run", resume=True, rounds=60, patience=3).summary()["rounds"] == 5
    patient = said(out=tmp_path / "run", resume=True, rounds=60, patience=5)
    whole = said(out=tmp_path / "whole", rounds=60, patience=5)
    assert patient.summary()["rounds"] == whole.summary()["rounds"] == 7
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()
    said(out=tmp_path / "told", on_round=lambda r: fk.STOP if r["round"] == 3 else None)
    assert said(out=tmp_path / "told", resume=True, rounds=6).summary()["rounds"] == 6


@pytest.mark.parametrize("die_at", [0, 1, 3])
def test_an_error_in_a_callback_leaves_a_run_that_goes_on(tmp_path: Path, die_at: int) -> None:
    class OwnError(Exception):
        """Raised by a callback."""

    def on_round(record: Record) -> None:
        if record["round"] == die_at:
            raise OwnError

    stopping = partial(said, rounds=50, patience=3, checkpoint_every=2)
    whole = stopping(out=tmp_path / "whole")
    with pytest.raises(OwnError):
        stopping(out=tmp_path / "cut", on_round=on_round)
    resumed = stopping(out=tmp_path / "cut", resume=True)
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()
    assert {**resumed.summary(), "seconds": 0} == {**whole.summary(), "seconds": 0}
    assert resumed.models.tobytes() == whole.models.tobytes()


def test_a_finished_run_that_goes_on_is_unfinished_until_it_ends(tmp_path: Path) -> None:
    """Else a run that is killed then has new rounds and old test scores."""

    def on_round(record: Record) -> None:
        if record["round"] == 5:
            raise KeyboardInterrupt

    said(out=tmp_path / "run", rounds=3)
    with pytest.raises(KeyboardInterrupt):
        said(out=tmp_path / "run", rounds=6, resume=True, on_round=on_round)
    with pytest.raises(CheckpointError, match="is not finished; resume it"):
        fk.Run.load(tmp_path / "run")
    assert said(out=tmp_path / "run", rounds=6, resume=True).summary()["rounds"] == 6
    assert fk.Run.load(tmp_path / "run").summary()["rounds"] == 6


def test_methods_side_by_side_stop_on_their_own() -> None:
    run = said(Saying(), against=[fk.FedAvg()], rounds=4, patience=1)
    assert run.summary()["rounds"] == 3 and run.against["fedavg"].summary()["stopped"]["round"] < 3
    assert fk.RepeatedRuns((run,)).summary()["comparisons"] is not None


# --- configurations


def test_configurations_have_it_and_old_ones_stay_as_they_are() -> None:
    config = from_dict({"run": {"patience": 7, "until": 0.9}})
    assert (config.run.patience, config.run.until) == (7, 0.9)
    bare = from_dict({})
    assert not {"patience", "until"} & set(bare.description().run)
    # No number of any round depends on it.
    assert fingerprint(config.description()) == fingerprint(bare.description())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": 0}, r"run\.patience: expected a value greater than or equal to 1, got 0"),
        ({"patience": 2.5}, r"run\.patience: .*integer"),
        ({"until": 0}, r"run\.until: expected a value greater than 0, got 0"),
        ({"until": 1.1}, r"run\.until: expected a value less than or equal to 1, got 1\.1"),
    ],
)
def test_invalid_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict({"run": options})


@pytest.mark.parametrize("options", [{"until": 0.5}, {"patience": 2}])
def test_rounds_must_be_scored(options: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError, match=r"run\.(until|patience) needs evaluated rounds.*evaluate_every"
    ):
        said(**options, evaluate_every=0)
    with pytest.raises(
        ConfigError, match=r"scoring\.until: expected a value less than or equal to 1, got 1\.1"
    ):
        said(until=1.1)


def test_patience_without_validation_names_the_cure() -> None:
    with pytest.raises(
        ConfigError, match=r"run\.patience needs a validation split.*data\.validation=0\.1"
    ):
        said(data=constant_data(validation=False), patience=3)


def test_real_sites_have_no_validation(tmp_path: Path) -> None:
    from fedkin.config import peer
    from fedkin.config.server import load_client

    samples = '[samples]\nshape = [64]\nclasses = 10\n[model]\nname = "mclr"\n'
    (tmp_path / "server.toml").write_text(
        f'{samples}[federation]\nname = "it"\ncapacity = 3\n[run]\npatience = 3\n'
    )
    with pytest.raises(ConfigError, match=r"run\.patience: does not apply to a real federation"):
        load_server(tmp_path / "server.toml")
    (tmp_path / "client.toml").write_text(
        f'{samples}[client]\nname = "a"\nfederation = "it"\n[data]\nname = "digits"\nvalidation '
        f"= 0.1\n"
    )
    with pytest.raises(ConfigError, match=r"data\.validation: does not apply to a real site"):
        load_client(tmp_path / "client.toml")
    with pytest.raises(ConfigError, match=r"data\.validation: does not apply to a real site"):
        peer.from_dict(
            {
                "peer": {"name": "ada", "folder": "state"},
                "data": {"name": "digits", "validation": 0.1},
            }
        )


# --- several seeds, and comparisons


def seeds_of_unequal_length() -> fk.RepeatedRuns:
    """Seed 0 stops after round 5, seed 1 after round 4, seed 2 not at all."""

    def one(seed: int) -> fk.Run:
        says = {0: (3, 1, 0, 2), 1: (3, 0, 2), 2: (3, 3, 2, 2, 0)}[seed]
        against = said(Saying((2,) * 4), seed=seed, rounds=6)
        return replace(
            said(Saying(says), seed=seed, rounds=6, patience=3), against={"other": against}
        )

    return fk.repeat(one, 3)


def test_seeds_may_stop_after_different_rounds(tmp_path: Path) -> None:
    repeated = seeds_of_unequal_length()
    assert [run.summary()["rounds"] for run in repeated.runs] == [5, 4, 6]
    curves = repeated.curves()
    assert curves["saying"].shape == curves["other"].shape == (3, 7)
    np.testing.assert_array_equal(np.isnan(curves["saying"]).sum(axis=1), [1, 2, 0])
    np.testing.assert_array_equal(curves["saying"][1, :5], [0.0, 0.4, 0.3, 0.3, 0.3])
    assert repeated.summary()["rounds"] == 6 and "6 rounds" in repr(repeated)
    assert len(repeated.comparisons()) == 1
    row = repeated.table().iloc[0]
    assert row["final_accuracy"] == pytest.approx((0.3 + 0.3 + 0.1) / 3)
    repeated.save(tmp_path / "saved")
    assert fk.draw(repeated, tmp_path)


def test_runs_with_other_budgets_are_no_repetition() -> None:
    with pytest.raises(ConfigError, match="the same methods and rounds"):
        fk.RepeatedRuns((said(seed=0, rounds=3), said(seed=1, rounds=4)))


IMPATIENT = (
    "data.name=digits",
    "data.clients=6",
    "data.validation=0.3",
    "local.epochs=1",
    "local.lr=1e-9",
    "run.rounds=8",
    "run.cohort=6",
    "run.patience=1",
    "run.checkpoint_every=4",
)


def test_a_comparison_takes_stopped_runs_for_finished(tmp_path: Path) -> None:
    compared = partial(
        fk.compare,
        None,
        *IMPATIENT,
        methods=["fedavg", "ifca"],
        seeds=2,
        out=tmp_path / "study",
        by="best",
    )
    first = compared()
    assert all(run.summary()["stopped"]["of"] == 8 for run in first.finished.values())
    table = first.table()
    assert np.isfinite(table["best_accuracy"].to_numpy(float)).all()
    validated = [
        np.mean([run.summary()["validation_accuracy"] for run in first.runs("", m)])
        for m in first.methods
    ]
    assert table["validation_accuracy"].tolist() == pytest.approx(validated)
    assert first.curves("") and len(first.differences()) == 1
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("metrics.jsonl")}
    again = compared(resume=True)
    assert len(again.finished) == 4
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}  # none was run again
