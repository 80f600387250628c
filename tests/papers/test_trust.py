"""The table of attacks: names of attacks, federations, figures of a run, the order of runs, and the
page of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.data.federated import FederatedData, Ragged
from papers import run_queue
from papers.result_store import keep, pending, prepare, read
from papers.trust import __main__ as program
from papers.trust import page, runs
from papers.trust.cells import BEST, CLAIM, FEDERATIONS, NONE, RECIPE, SUITE, Cell, attack_of, cells
from tests.client_tables import with_clients


def test_names_of_attacks() -> None:
    assert attack_of(NONE, "evenly", RECIPE, 0) is None
    sleeper = attack_of("optimal_ipm@2", "random", RECIPE, 3)
    assert sleeper == fk.Byzantine("optimal_ipm", spread="random", start=2, against=RECIPE, seed=3)
    disguised = attack_of("blob>ipm@2", "evenly", "mean", 0)
    assert disguised == fk.Byzantine("ipm", start=2, disguise="blob", against="mean")
    assert attack_of("sizes:ipm", "evenly", "mean", 0) == fk.Byzantine(
        "ipm", lie="sizes", against="mean"
    )
    for cell in cells():  # all can be made
        attack_of(cell.attack, "evenly", cell.rule, 0)


def test_the_goal_names_each_attack_and_its_sleepers() -> None:
    named = ("sign_flip", "alie", "label_flip", "ipm", "stretch")
    assert {*named, *(f"{name}@2" for name in named)} <= set(CLAIM) <= set(SUITE)


def figures(
    weights: list[float | None], accuracy: list[float], attackers: list[int]
) -> dict[str, Any]:
    """Figures of a run with these final values: four clients, two kinds."""
    data = FederatedData(
        name="four",
        x=np.zeros((8, 1), np.float32),
        y=np.zeros(8, np.int64),
        classes=2,
        train=Ragged.of([np.array([i]) for i in range(4)]),
        test=Ragged.of([np.array([i]) for i in range(4, 8)]),
        true_clusters=np.array([0, 0, 1, 1]),
    )
    run = fk.simulate(
        fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4, callbacks=fk.Progress(False)
    )
    table = run.clients.assign(accuracy=accuracy)
    attacked = {"attackers": attackers, "rule_weights": weights, "attackers_alone": 0.0}
    final = run.final | attacked | {"honest_ari": 1.0}
    return runs.figures(with_clients(run, table, final=final), data)


def test_figures_are_of_honest_clients() -> None:
    line = figures([0.1, 1.0, None, 0.4], [0.0, 0.8, 0.6, 0.4], [0])
    assert line["accuracy"] == pytest.approx(0.6) and line["worst_kind"] == pytest.approx(0.5)
    assert (
        line["suspected"] == pytest.approx(1 / 3, abs=1e-4)
        and line["caught"] == 1
        and line["ari"] == 1
    )


def test_the_claimed_attacks_come_first_and_a_setting_is_known_by_its_digest() -> None:
    every = runs.jobs()
    first = [cell.attack for cell in cells()[: 1 + len(CLAIM)]]
    assert first == [NONE, *CLAIM] and {c.method for c in cells()[:20]} == {BEST}
    settings = [job.setting(0) for job in every]
    assert len(set(settings)) == len(settings)
    (job,) = [j for j in every if tuple(j.key.values()) == ("even", BEST, RECIPE, NONE)]
    line = {**job.key, "seed": 1, "setting": job.setting(1), "accuracy": 0.5}
    assert job.matches(line) and not job.matches({**line, "setting": "old"})
    assert [seed for _, seed in pending([(job, job.seeds)], [line])] == [0, 2]


def test_the_page_shows_the_worst_attack_and_the_missing_runs() -> None:
    own: page.Runs = {}
    for attack, value in ((NONE, 0.9), ("ipm", 0.8), ("sign_flip", 0.7)):
        figure = {
            "accuracy": value,
            "worst_kind": 0.5,
            "bottom_decile": 0.4,
            "ari": 1.0,
            "alone": 0.25,
            "suspected": 0,
        }
        own[Cell("even", BEST, RECIPE, attack)] = [{**figure, "seed": seed} for seed in range(3)]
    own[Cell("even", BEST, RECIPE, "alie")] = [{"accuracy": 0.85, "seed": 0, "ari": 0.5}]
    own[Cell("even", BEST, "mean", NONE)] = [{"accuracy": 0.91, "seed": 0, "ari": 1.0}]
    text = page.page(own)
    assert (
        "Worst 0.700 (sign_flip), mean 0.783 over 3 attacks without disguise or lie, lowest ARI "
        "0.50; price" in text
    )
    assert "price without attack +0.010." in text
    assert (
        "| ipm | 0.800 | 0.800 | 0.500 | 0.400 | 1.00 | 0.25 | 0.00 |" in text
        and "0.850 (n = 1)" in text
    )
    assert f"**3 of {len(cells())} cells have all 3 seeds.**" in text and "No runs yet." in text


def test_the_committed_page_shows_the_committed_runs(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    page.write(runs.STORE, tmp_path / "docs")
    for name in ("benchmark-attacks.md", "benchmark-attacks-grid.md"):
        assert (tmp_path / "docs" / name).read_text() == Path("docs", name).read_text()
    assert not read(runs.STORE, runs.jobs()).left_out()


def test_a_run_of_another_setting_is_named_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job,) = [j for j in runs.jobs() if tuple(j.key.values()) == ("even", BEST, RECIPE, NONE)]
    store = tmp_path / "trust.jsonl"
    prepare(store)
    for seed, setting, accuracy in (
        (0, job.setting(0), 0.3),
        (1, "of a recipe that was changed", 0.8),
    ):
        keep({**job.key, "seed": seed, "setting": setting, "accuracy": accuracy, "ari": 0.5}, store)
    page.write(store, tmp_path)
    text = (tmp_path / "benchmark-attacks.md").read_text()
    # Nor the mean of both.
    assert "0.300 (n = 1)" in text and "0.800" not in text and "0.550" not in text
    assert "1 run of another setting" in capsys.readouterr().err


def test_of_the_federation_with_a_minority_five_clients_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted = fk.planted

    def small(*args: Any, **options: Any) -> FederatedData:
        return planted("digits", "rotation", **options | {"samples": 6, "test_samples": 2})

    monkeypatch.setattr(fk, "planted", small)
    data = FEDERATIONS["minority"].data(0)
    assert data.true_clusters is not None
    assert data.clients == 100 and np.bincount(data.true_clusters).tolist() == [32, 32, 31, 5]


def test_missing_runs_are_found_again_by_another_process_by_their_keys() -> None:
    jobs = run_queue.jobs_of(run_queue.TRUST)
    for run in program.missing_runs()[:1]:
        assert (run.job in jobs) and run.paper == runs.STORE.stem and run.seconds > 0
    assert run_queue.jobs_of("fedsim") == run_queue.PAPERS["fedsim"].jobs()


def test_hours_must_be_a_number_of_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, value, words in (
        ("--hours", "-1", "a number of hours above 0"),
        ("--workers", "0", "a whole number"),
    ):
        with pytest.raises(SystemExit, match="2"):
            program.main([option, value])
        error = capsys.readouterr().err
        assert f"argument {option}: expected {words}" in error and f"got {value}" in error
    prepare(tmp_path / "store.jsonl")
    keep({"seed": 0}, tmp_path / "store.jsonl")
    assert read(tmp_path / "store.jsonl", runs.jobs()).unknown
