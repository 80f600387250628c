"""The benchmark of the field: the order of its queue, one run, and its page from a small store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.advise.field_benchmark import FINDINGS
from fedkin.analysis.ranks import rank
from fedkin.core.errors import ConfigError
from fedkin.data import digits
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.regression import Regression
from fedkin.tasks.evaluate import Scores
from papers.benchmark import __main__ as program
from papers.benchmark import federations, findings, page, queue, runs, tables
from papers.benchmark.contenders import CONTENDERS, STEPS, TRIALS, Contender
from papers.benchmark.federations import LABELS, SETTINGS, Setting
from papers.result_store import Line, keep, prepare, read


def small(seed: int) -> FederatedData:
    return digits(partition="iid", clients=6, seed=seed)


SMALL = Setting("small", LABELS, "digits", small, rounds=2, clusters=2, newcomers=2)


def contender(name: str) -> Contender:
    return next(one for one in CONTENDERS if one.name == name)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    prepare(path)
    return path


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Runs that take no time: the accuracy is high for the second candidate."""
    made: list[tuple[Any, ...]] = []

    def measure(
        setting: Setting, contender: Contender, trial: int, seed: int, validated: bool
    ) -> Line:
        made.append((setting.name, contender.name, trial, seed, validated))
        if contender.name == "FedRC":
            return {"refused": "not here"}
        return {
            "accuracy": (0.5, 0.9, 0.7)[trial] + seed / 1e6,
            "newcomers": 0.4,
            "bytes_down": 8,
            "bytes_up": 4,
        }

    monkeypatch.setattr(queue, "measure", measure)
    return made


def test_the_field() -> None:
    """At least 20 methods at 12 settings, each with as many trials, and steps that its models can
    share."""
    assert len(CONTENDERS) >= 20 and len(SETTINGS) >= 12 and len(queue.SEEDS) == 5
    for cell in queue.cells():
        assert len({cell.digest(trial) for trial in range(TRIALS)}) == TRIALS, cell.place
        assert len(cell.contender.grid(cell.setting)) == TRIALS
        assert STEPS % cell.contender.passes(cell.setting) == 0
    assert queue.TRIAL_SEED not in queue.SEEDS
    assert len({cell.digest(None) for cell in queue.cells()}) == len(queue.cells())


def test_settings_follow_each_other_to_three_seeds(store: Path) -> None:
    runs = queue.missing(store)
    places = [(job.row, job.column, job.key["trial"], seed) for job, seed in runs]
    assert len(places) == len(queue.cells()) * (TRIALS + len(queue.SEEDS))
    first = SETTINGS[0].name
    second = SETTINGS[1].name
    cell = [(first, CONTENDERS[0].name, trial, queue.TRIAL_SEED) for trial in range(TRIALS)]
    assert places[: TRIALS + 3] == cell + [
        (first, CONTENDERS[0].name, None, seed) for seed in range(3)
    ]
    rows = [row for row, _, _, seed in places if seed not in (3, 4)]
    assert (
        rows == sorted(rows, key=[s.name for s in SETTINGS].index)
        and rows.index(second) == len(CONTENDERS) * 6
    )
    assert {seed for _, _, _, seed in places[len(rows) :]} == {3, 4}


def test_runs_are_of_the_candidate_that_did_best(store: Path, fake: list) -> None:
    lines = list(queue.carry_out(queue.missing(store)[:6], store, 1.0))
    assert [run[2] for run in fake] == [0, 1, 2, 1, 1, 1] and [run[4] for run in fake] == [
        True
    ] * 3 + [False] * 3
    assert [line.get("chosen") for line in lines] == [None, None, None, 1, 1, 1]
    assert len(queue.missing(store)) == len(queue.cells()) * 8 - 6  # and the same command goes on
    assert list(queue.carry_out(queue.missing(store), store, 0.0)) == []


def test_trials_of_another_setting_do_not_count(
    store: Path, fake: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(queue.carry_out(queue.missing(store)[:TRIALS], store, 1.0))
    with monkeypatch.context() as another:
        another.setattr(queue, "STEPS", STEPS // 2)
        another.setattr(queue, "measure", lambda trial, **_: {"accuracy": (0.99, 0.1, 0.1)[trial]})
        list(queue.carry_out(queue.missing(store)[:TRIALS], store, 1.0))
    (line,) = queue.carry_out(queue.missing(store)[:1], store, 1.0)
    assert len(read(store).runs) == 2 * TRIALS + 1 and line["chosen"] == 1


def test_a_method_that_refuses_is_not_tried_again(store: Path, fake: list) -> None:
    refused = [(job, seed) for job, seed in queue.missing(store) if job.column == "FedRC"][:6]
    lines = list(queue.carry_out(refused, store, 1.0))
    assert [line["refused"] for line in lines] == ["not here"] * 6
    assert len(fake) == TRIALS  # its runs are refused by its trials


def test_a_fault_of_one_method_stops_no_other(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> Line:
        raise ValueError("broken")

    monkeypatch.setattr(queue, "measure", fail)
    assert list(queue.carry_out(queue.missing(store)[:2], store, 1.0)) == []
    assert (
        capsys.readouterr().err.count("not run: ValueError: broken") == 2 and not read(store).runs
    )


def test_a_changed_grid_has_no_runs(
    store: Path, fake: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(queue.carry_out(queue.missing(store)[:6], store, 1.0))
    other = [cell for cell in queue.cells() if cell.setting is SETTINGS[0]]
    monkeypatch.setattr(queue, "cells", lambda: tuple(other))
    assert len(queue.missing(store)) == len(other) * 8 - 6
    monkeypatch.setattr(queue, "STEPS", STEPS // 2)
    assert len(queue.missing(store)) == len(other) * 8


@pytest.mark.parametrize("name", ["FedAvg", "FedAvg, fine-tuned", "IFCA", "FedEM"])
def test_a_run(name: str) -> None:
    line = runs.measure(setting=SMALL, contender=contender(name), trial=1, seed=0, validated=False)
    assert 0 < line["accuracy"] <= 1 and 0 < line["newcomers"] <= 1 and line["bytes_up"] > 0
    trial = runs.measure(setting=SMALL, contender=contender(name), trial=1, seed=0, validated=True)
    assert trial["accuracy"] != line["accuracy"] and "newcomers" not in trial  # of other samples


def test_a_run_stores_the_loss_of_each_client() -> None:
    """Of six clients the last two are newcomers. A trial only chooses a candidate."""
    line, trial = (
        runs.measure(
            setting=SMALL, contender=contender("Local"), trial=1, seed=0, validated=validated
        )
        for validated in (False, True)
    )
    losses = line["client_losses"]
    counted = small(0).test.sizes >= 10
    assert [loss is not None for loss in losses[:4]] == counted[:4].tolist()
    assert losses[4:] == [None, None] and "client_losses" not in trial


def test_clients_that_do_not_count_and_models_that_diverged() -> None:
    scores = Scores(
        np.zeros((4, 1)),
        np.array([19, 18, 17, 9]),
        loss=np.array([0.1234567, np.inf, np.nan, 0.5]),
    )
    losses = runs._client_losses(CLASSIFICATION, scores, np.array([3, 0, 1, 2]), all_clients=5)
    assert losses == [runs.DIVERGED, runs.DIVERGED, None, 0.1235, None]


def test_of_numbers_the_squared_errors_are_stored() -> None:
    sums = np.array([[80.0, 20.0, 400.0, 90.0]])
    scores = Scores(sums, np.array([20]), loss=np.array([-7.0]))
    assert runs._client_losses(Regression(), scores, np.array([0]), all_clients=1) == [4.0]
    # R2 = 1 - 80 / 400.
    assert runs._accuracy(Regression(), sums[0], 20) == pytest.approx(0.8)
    diverged = np.array([1e9, 20.0, 400.0, 90.0])
    assert runs._accuracy(Regression(), diverged, 20) == runs.LEAST_GAIN
    assert runs._accuracy(Regression(), diverged * np.nan, 20) == runs.LEAST_GAIN


def of_losses(losses: dict[tuple[str, int], list[float | None]]) -> Any:
    """The table of runs at the first setting, from the losses by method and seed."""
    return page.frame(
        [
            {
                "row": SETTINGS[0].name,
                "column": column,
                "trial": None,
                "seed": seed,
                "client_losses": values,
            }
            for (column, seed), values in losses.items()
        ]
    )


def test_clients_that_are_worse_off_than_alone() -> None:
    """FedAvg harms one of three clients from seed 0, and all from seed 1, whose own models are
    better. The fourth client has too few test samples. IFCA left a client without a score."""
    table = of_losses(
        {
            ("Local", 0): [0.5, 1.0, 2.0, None],
            ("Local", 1): [0.1, 0.1, 0.1, None],
            ("FedAvg", 0): [0.515, 0.7, 1.5, None],
            ("FedAvg", 1): [0.515, 0.7, 1.5, None],
            ("IFCA", 0): [None, 0.9, 2.5, None],
            ("FedRC", 3): [0.515, 0.7, 1.5, None],
        }
    )
    found = tables.worse_alone(table, SETTINGS[:1])
    assert found == {"Local": 0.0, "FedAvg": pytest.approx((1 / 3 + 1) / 2), "IFCA": 0.5}
    assert tables.worse_alone(table, SETTINGS[1:2]) == {}


def test_ranks_stand_next_to_the_share_of_harmed_clients(filled: Path) -> None:
    table = page.frame(read(filled, queue.jobs(filled)).runs)
    ranks = rank(tables.means(table))
    text = page.ranking("all", ranks, "settings", {"FedAvg": 1 / 3})
    assert "| method | average rank | worse than alone, % |" in text
    assert "| FedAvg | 1.00 | 33 |" in text and "| IFCA | 2.00 |  |" in text


def test_tables_that_share_rows_are_counted_like_arrays() -> None:
    """FeSEM keeps two models, and the last solution of each of six clients."""
    line = runs.measure(
        setting=SMALL, contender=contender("FeSEM"), trial=1, seed=0, validated=False
    )
    assert 8 <= line["server_memory"] / line["model_bytes"] < 9


def test_peers_have_no_newcomers() -> None:
    """A newcomer of peers would have to train first, so it has no model to be scored with."""
    line = runs.measure(
        setting=SMALL, contender=contender("Local"), trial=1, seed=0, validated=False
    )
    assert line["newcomers"] is None and line["accuracy"] > 0


def test_kept_bytes() -> None:
    """One model and the clusters of N = 6 clients on the server; with Ditto a model on each client,
    too."""
    plain, own = (
        runs.measure(setting=SMALL, contender=contender(name), trial=1, seed=0, validated=False)
        for name in ("FedAvg", "Ditto")
    )
    model = plain["model_bytes"]
    assert plain["server_memory"] == own["server_memory"] == model + 6 * 8
    assert (plain["client_memory"], own["client_memory"]) == (0, model)
    shares = [
        runs.measure(
            setting=SMALL, contender=contender("APFL"), trial=trial, seed=0, validated=False
        )["own_share"]
        for trial in (0, 2)
    ]
    # Learned, and kept as it was.
    assert "own_share" not in own and 0 < shares[0] != shares[1] == 0.5


def test_newcomers_take_no_part() -> None:
    """What they have changes their own score alone."""

    def wrong(seed: int) -> FederatedData:
        data = small(seed)
        y = data.y.copy()
        own = np.concatenate([data.train[4], data.train[5], data.test[4], data.test[5]])
        y[own] = (y[own] + 1) % 10
        return replace(data, y=y)

    line = runs.measure(
        setting=SMALL, contender=contender("FedAvg"), trial=1, seed=0, validated=False
    )
    changed = runs.measure(
        setting=replace(SMALL, make=wrong),
        contender=contender("FedAvg"),
        trial=1,
        seed=0,
        validated=False,
    )
    assert changed["accuracy"] == line["accuracy"] and changed["newcomers"] < line["newcomers"]


def test_refusals_are_lines() -> None:
    assert (
        "12"
        in runs.measure(
            setting=replace(SMALL, clusters=12),
            contender=contender("FlexCFL"),
            trial=0,
            seed=0,
            validated=False,
        )["refused"]
    )
    stream = next(setting for setting in SETTINGS if setting.every)
    assert (
        "last round"
        in runs.measure(
            setting=stream,
            contender=contender("FedAvg, fine-tuned"),
            trial=0,
            seed=0,
            validated=False,
        )["refused"]
    )


@pytest.fixture
def filled(store: Path, fake: list) -> Path:
    """All methods but one at five settings from three seeds, the last setting from two; one method
    refuses."""
    rng = np.random.default_rng(0)
    for number, cell in enumerate(queue.cells()):
        row, column = cell.place
        place = [s.name for s in SETTINGS].index(row)
        if place > 5:
            break
        for seed in range(3 if place < 5 else 2):
            line: Line = {
                "row": row,
                "column": column,
                "trial": None,
                "seed": seed,
                "setting": cell.digest(None),
            }
            figures = {
                "accuracy": 0.9 - 0.01 * (number % len(CONTENDERS)) + 1e-4 * rng.random(),
                "newcomers": 0.5,
            }
            figures |= {
                "bytes_down": 10 + number % len(CONTENDERS),
                "bytes_up": 10,
                "seconds": 1.0,
                "chosen": 1,
            }
            figures |= {
                "server_memory": 100 * (1 + number % len(CONTENDERS)),
                "client_memory": 50,
                "model_bytes": 100,
            }
            refuses = column == "FedRC" and place == 0
            keep(line | ({"refused": "no last layer"} if refuses else figures), store)
    return store


def test_the_page_ranks_cells_with_three_seeds(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    page.write(filled, tmp_path)
    text = (tmp_path / "benchmark-field.md").read_text()
    assert (
        f"**{5 * len(CONTENDERS)} of {len(queue.cells())} cells have 3 seeds or more, 0 all 5.**"
        in text
    )
    assert (
        text.count("(n = 2)") == len(CONTENDERS) and "* FedRC at rotations: `no last layer`" in text
    )
    table = page.frame(read(filled, queue.jobs(filled)).runs)
    ranks = rank(tables.means(table))
    assert len(ranks.scores) == 4 and min(ranks.average, key=ranks.average.__getitem__) == "FedAvg"
    assert SETTINGS[5].name not in tables.means(table).dropna(how="all").index
    assert tables.winners(table, {regime: ranks for regime in federations.REGIMES}).count(
        "FedAvg (1.0)"
    ) == len(federations.REGIMES)
    labels = tables.per_draw(table, [SETTINGS[0].name])
    assert "FedRC" not in labels and len(labels) == 3
    assert "| IFCA | 1.10 | 1.00 | 1.00 | 2.00 | 0.50 |" in tables.costs(table)
    assert "Local" in tables.breaks(table) and "rotations (-20)" in tables.breaks(table)


def test_runs_of_another_setting_are_named_and_not_shown(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row, column = queue.cells()[0].place
    for seed in range(3):
        place: Line = {
            "row": row,
            "column": column,
            "trial": None,
            "seed": seed,
            "setting": "of a recipe that changed",
        }
        keep(place | {"accuracy": 0.5, "chosen": 1}, store)
    page.write(store, tmp_path)
    assert f"**0 of {len(queue.cells())} cells" in (tmp_path / "benchmark-field.md").read_text()
    assert f"{row}, {column}: 3 runs of another setting" in capsys.readouterr().err


def test_an_empty_store_has_a_page(store: Path, tmp_path: Path) -> None:
    page.write(store, tmp_path)
    assert f"**0 of {len(queue.cells())} cells" in (tmp_path / "benchmark-field.md").read_text()


def test_the_page_is_the_committed_one(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    findings.write(page.write(queue.STORE, tmp_path), tmp_path / "findings.json")
    for name in ("benchmark-field.md", "benchmark-field-tables.md"):
        assert (tmp_path / name).read_bytes() == Path("docs", name).read_bytes()
    assert (tmp_path / "findings.json").read_bytes() == FINDINGS.read_bytes()
    stored = read(queue.STORE, queue.jobs(queue.STORE))
    assert not stored.left_out()


@pytest.mark.parametrize("hours", ["-1", "nan"])
def test_hours_that_are_none(hours: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["--hours", hours])
    assert (
        f"argument --hours: expected a number of hours above 0, got {hours}"
        in capsys.readouterr().err
    )


def test_two_commands_at_a_time(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from papers.run_queue import claimed

    monkeypatch.setattr(program, "STORE", store)
    with claimed(tmp_path), pytest.raises(ConfigError, match="another command"):
        program.run_missing(1.0)


def test_trials_of_survival_keep_their_risk_sets_of_training_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``with_validation`` refuses them, but the stored trials have them."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    times = np.random.default_rng(1).exponential(np.exp(-x[:, 0]))

    def patients(seed: int) -> FederatedData:
        return fk.data.from_patients(
            x, times, times < 2, clients=np.repeat([0, 1, 2], 20), seed=seed
        )

    found = replace(SMALL, name="patients", make=patients).data(seed=0, validated=True)
    monkeypatch.setattr("fedkin.data.federated.Survival", type("Nothing", (), {}))
    expected = patients(0).with_validation(federations.VALIDATION)
    assert data_digest(found) == data_digest(expected)
    assert found.patients is not None and found.task_type == expected.task_type
