"""The column "worse than alone" of comparisons, from losses that are written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.own_models import client_losses, served_worse
from fedkin.methods.decentralized import PeerState
from fedkin.reporting import comparison_tables
from fedkin.reporting.comparison_progress import notes
from fedkin.reporting.harm_notes import harm_notes
from fedkin.run.run import Run
from tests.analysis.written_comparisons import at_the_end, comparison
from tests.analysis.written_errors import RMSE, as_errors
from tests.client_tables import with_clients

# Client 0 loses 3%, which is 0.015. Client 1 gains 30%, client 2 gains 25%.
OWN = [0.5, 1.0, 2.0]
SHARED = [0.515, 0.7, 1.5]
# The order in which ``written_comparisons`` names methods: local is the fourth.
METHODS = ("FedAvg", "FedProx", "IFCA", "Alone")


def served(run: Run, loss: Any, column: str = "loss", **columns: Any) -> Run:
    """The run with these test losses of its clients, which have 20 test samples each."""
    clients = len(loss)
    table = {
        "client": np.arange(clients),
        "test_samples": np.full(clients, 20),
        "accuracy": np.full(clients, 0.5),
        column: np.array(loss, float),
    }
    state = dataclasses.replace(run.state, assignment=np.zeros(clients, np.int64))
    return with_clients(run, pd.DataFrame(table | columns), state=state)


def by_losses(losses: Mapping[str, list[list[float]]]) -> Comparison:
    """A comparison with a list of the clients' losses for each method and seed."""
    seeds = len(next(iter(losses.values())))
    made = comparison({"": at_the_end(**{name: [0.5] * seeds for name in losses})})
    runs = {
        (setting, method, seed): served(run, losses[method][seed])
        for (setting, method, seed), run in made.finished.items()
    }
    return dataclasses.replace(made, finished=runs)


def written(seeds: int = 1) -> Comparison:
    """FedAvg harms one of three clients from each seed, FedProx none, IFCA all."""
    better = [0.4, 0.9, 1.9]
    worse = [0.6, 1.1, 2.1]
    return by_losses(
        {
            "FedAvg": [SHARED] * seeds,
            "FedProx": [better] * seeds,
            "IFCA": [worse] * seeds,
            "Alone": [OWN] * seeds,
        }
    )


def shares(found: Comparison) -> dict[str, float]:
    return found.table().set_index("method")["worse_than_alone"].to_dict()


def test_each_client_is_compared_with_its_own_model() -> None:
    assert shares(written()) == {
        "FedAvg": pytest.approx(1 / 3),
        "FedProx": 0.0,
        "IFCA": 1.0,
        "Alone": 0.0,
    }


def test_a_share_is_a_mean_over_seeds_each_with_its_own_models() -> None:
    """From seed 1 own models are better, so that all three clients lose with the same losses."""
    found = by_losses(
        {
            "FedAvg": [SHARED, SHARED, SHARED],
            "FedProx": [SHARED, SHARED, SHARED],
            "IFCA": [SHARED, SHARED, SHARED],
            "Alone": [OWN, [0.1, 0.1, 0.1], OWN],
        }
    )
    rows = found.table().set_index("method")
    assert rows.loc["FedAvg", "worse_than_alone"] == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
    runs: Any = found.runs_table().set_index(["method", "seed"])["worse_than_alone"]
    assert runs["FedAvg", 1] == 1.0 and runs["FedAvg", 2] == pytest.approx(1 / 3)


def test_all_tables_have_the_column() -> None:
    found = written(seeds=3)
    text = comparison_tables.markdown(found)
    (line,) = [line for line in text.splitlines() if line.startswith("| FedAvg")]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[5] == "33.3"
    assert r"& 33.3 &" in comparison_tables.latex(found)
    (caption,) = [
        line for line in comparison_tables.latex(found).splitlines() if r"\caption" in line
    ]
    definition = (
        "Worse than alone: share of clients whose mean cross entropy on test samples is more than "
        "2% higher than with the model that they train alone (Alone, same seed), after the last "
        "round."
    )
    assert definition.replace("%", r"\%") in caption
    assert definition in text and definition in notes(found)
    assert "clients do not count" not in text


def test_candidates_of_a_sweep_have_the_column() -> None:
    found = written()
    settings = []
    runs = {}
    for rate in (0.1, 0.3, 0.9):
        (setting,) = found.grid.settings
        label = f"lr {rate}"
        settings.append(dataclasses.replace(setting, label=label, values={"local.lr": rate}))
        runs |= {(label, method, seed): run for (_, method, seed), run in found.finished.items()}
    # With the rate 0.9, the own models are better.
    runs["lr 0.9", "Alone", 0] = served(runs["lr 0.9", "Alone", 0], [0.1, 0.1, 0.1])
    grid = dataclasses.replace(found.grid, settings=tuple(settings))
    found = dataclasses.replace(found, grid=grid, finished=runs)
    table = comparison_tables.further_tables(found)["sweep"]
    place = table.heads.index("worse than alone (%)")
    shown = {(row[0], row[1]): row[place] for row in table.rows}
    assert shown["FedAvg", "0.1"] == "33.3" and shown["FedAvg", "0.9"] == "100.0"
    # The terminal shows the candidates alone, with the note.
    assert any(line.startswith("Worse than alone: share") for line in notes(found))


def test_without_local_there_is_a_dash_and_how_to_get_a_number(tmp_path: Path) -> None:
    found = by_losses({"FedAvg": [SHARED], "FedProx": [SHARED]})
    assert list(shares(found).values()) == [None, None]
    assert "worse_than_alone" not in found.runs_table()
    assert harm_notes(found) == [
        "Worse than alone -: it needs each client's own model; add the method 'local', by which "
        "every client trains alone."
    ]
    (caption,) = [
        line for line in comparison_tables.latex(found).splitlines() if r"\caption" in line
    ]
    assert "Worse than alone" not in caption
    found.write(tmp_path)
    assert "worse_than_alone" in pd.read_csv(tmp_path / "comparison.csv")


def test_a_seed_without_own_models_has_no_share() -> None:
    found = written(seeds=2)
    runs = {key: run for key, run in found.finished.items() if key != ("", "Alone", 1)}
    found = dataclasses.replace(found, finished=runs)
    # A mean over the other seed alone would hide that one is missing.
    assert np.isnan(shares(found)["FedAvg"])
    assert "Worse than alone -: Alone has no finished run with the same seed." in harm_notes(found)


def peers(run: Run, age: list[int], cohort: int) -> Run:
    """The run of a method without a server, in which clients have trained so often."""
    total = len(age)
    none = np.zeros((total, total), bool)
    state = PeerState(
        models=np.zeros((total, 2), np.float32),
        assignment=np.arange(total),
        start=np.zeros(2, np.float32),
        trust=none,
        votes=none.astype(np.int32),
        age=np.array(age),
        messages=np.zeros((total, 2), np.int64),
        vectors=np.zeros((total, 2), np.int64),
    )
    return dataclasses.replace(run, state=state, config=run.config.with_run(cohort=cohort))


def test_clients_that_do_not_count() -> None:
    found = written()
    run = found.finished["", "FedAvg", 0]
    alone = found.finished["", "Alone", 0]
    assert served_worse(run, alone) == (pytest.approx(1 / 3), 3, 3)
    few = served(run, SHARED, test_samples=np.array([9, 20, 20]))
    assert served_worse(few, alone) == (0.0, 2, 3)
    # Client 2 was never drawn, so its own model is untrained.
    drawn = peers(alone, age=[1, 2, 0], cohort=2)
    assert served_worse(run, drawn) == (0.5, 2, 3)
    absent = with_clients(run, run.clients.iloc[:2])
    assert served_worse(absent, alone) == (0.5, 2, 3)
    assert served_worse(run, with_clients(alone, alone.clients.iloc[1:])) == (
        0.0,
        2,
        3,
    )
    attacked = dataclasses.replace(run, final={"attackers": [0]})
    assert served_worse(attacked, alone) == (0.0, 2, 3)
    share, counted, _ = served_worse(with_clients(run, pd.DataFrame()), alone)
    assert np.isnan(share) and counted == 0


def test_clients_that_do_not_count_and_untrained_models_are_named() -> None:
    found = written()
    runs = dict(found.finished)
    runs["", "Alone", 0] = peers(runs["", "Alone", 0], age=[1, 2, 0], cohort=2)
    told = harm_notes(dataclasses.replace(found, finished=runs))
    assert told[1:] == [
        "Up to 1 of 3 clients do not count there: fewer than 10 test samples, no own model, or not "
        "scored.",
        "Clients train their own models only in the rounds of their cohorts (2 of 3 clients a "
        "round), so these models are weaker than they could be; run.cohort=3 trains all in every "
        "round.",
    ]
    runs["", "FedAvg", 0] = dataclasses.replace(runs["", "FedAvg", 0], final={"attackers": [0]})
    told = harm_notes(dataclasses.replace(found, finished=runs))
    assert "Up to 2 of 3 clients" in told[1] and "attackers, or not scored" in told[1]


def test_of_numbers_the_squared_error_is_compared() -> None:
    """An RMSE that is 1.5% higher is a mean squared error that is 3% higher."""
    found = written()
    run = served(as_errors(found.finished["", "FedAvg", 0]), [1.015, 1.005, 0.9], column=RMSE)
    alone = served(as_errors(found.finished["", "Alone", 0]), [1.0, 1.0, 1.0], column=RMSE)
    np.testing.assert_allclose(client_losses(run).loss, [1.030225, 1.010025, 0.81])
    assert served_worse(run, alone).share == pytest.approx(1 / 3)


def test_runs_of_local_and_of_a_shared_model() -> None:
    """Two kinds of clients whose labels are opposite: no shared model serves both, and each client
    is better off alone."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(6), 60)
    x = rng.normal(size=(len(owners), 2)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (owners % 2 == 1)).astype(np.int64)
    data = fk.data.from_arrays(x, y, clients=owners, test=0.5)
    model = fk.models.mclr(data)
    run = fk.simulate(fk.FedAvg(), data, model, rounds=12, cohort=6, against=[fk.Local()])
    assert served_worse(run, run.against["local"]) == (1.0, 6, 6)
    assert served_worse(run.against["local"], run).share == 0.0
