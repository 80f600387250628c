"""Clusters by a known fact about clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import DataError, MethodError, TaskError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.client_group import code_of

SHOPS = 6
EACH = 20


def frame() -> pd.DataFrame:
    """Shops in two sectors: in one, sales grow with the temperature, in the other they fall."""
    rng = np.random.default_rng(0)
    shop = np.repeat(np.arange(SHOPS), EACH)
    heat = rng.normal(size=len(shop))
    sector = np.where(shop % 2 == 0, "ice", "coats")
    return pd.DataFrame(
        {
            "shop": [f"shop {number}" for number in shop],
            "heat": heat,
            "size": 10.0 * (shop // 2),
            "sector": sector,
            "sales": np.where(sector == "ice", 1, -1) * heat + 0.1 * rng.normal(size=len(shop)),
        }
    )


def shops(table: pd.DataFrame | None = None, **more: Any) -> fk.data.FederatedData:
    options: dict[str, Any] = {"label": "sales", "client": "shop", "client_columns": "sector"}
    table = frame() if table is None else table
    return fk.data.from_pandas(table, task="regression", name="shops", **(options | more))


def trained(method: Any, data: fk.data.FederatedData) -> fk.Run:
    return fk.simulate(
        method,
        data,
        fk.models.mclr(data),
        rounds=20,
        cohort=SHOPS,
        local=fk.SGD(lr=0.1),
        scoring=fk.Scoring(evaluate_every=20),
        callbacks=fk.Progress(False),
    )


def test_each_sector_gets_a_model() -> None:
    data = shops()
    assert data.client_columns == {"sector": ("ice", "coats") * 3}
    assert data.feature_names == ("heat", "size")
    run = trained(fk.Given(column="sector"), data)
    assert run.state.assignment.tolist() == [0, 1, 0, 1, 0, 1]
    assert run.records[-1]["loss"] < 0.1 * trained(fk.FedAvg(), data).records[-1]["loss"]


def test_a_mapping_is_the_same_as_a_column() -> None:
    data = shops()
    groups = {f"shop {n}": "ice" if n % 2 == 0 else "coats" for n in range(SHOPS)}
    np.testing.assert_array_equal(
        trained(fk.Given(groups=groups), data).models,
        trained(fk.Given(column="sector"), data).models,
    )


def test_a_server_with_a_list_of_names_can_read_the_codes() -> None:
    """As the docstrings of the method and its task say."""
    data = shops()
    run = fk.simulate(fk.Given(column="sector"), data, fk.models.mclr(data), rounds=1, cohort=SHOPS)
    guessed = {code_of(name): name for name in ("coats", "ice", "shoes")}
    state: Any = run.state
    read = [guessed[int(state.codes[k])] for k in state.assignment]
    assert read == ["ice", "coats"] * (SHOPS // 2)


def test_a_feature_that_is_constant_within_clients() -> None:
    """Sizes 0, 10 and 20 are three groups of two shops, although the feature is scaled."""
    run = trained(fk.Given(column="size"), shops())
    assert run.state.assignment.tolist() == [0, 0, 1, 1, 2, 2]


def test_newcomers_join_their_group_or_begin_one() -> None:
    table = frame()
    table.loc[table["shop"] == "shop 5", "sector"] = "books"
    data = shops(table)
    world = SimulatedWorld(data, fk.models.mclr(data))
    method = fk.Given(column="sector")
    state = method.init(world, Stream(0, 0, "init"))
    assert len(state.models) == 3
    # As if the last two shops had not been there.
    early = fk.methods.given.GivenState(
        models=state.models[:2] + np.array([[1.0], [3.0]], np.float32),
        assignment=np.array([0, 1, 0, 1, UNASSIGNED, UNASSIGNED]),
        codes=state.codes[:2],
    )
    placed = method.place(world, early, np.array([4, 5]), Stream(0, 3, "place"))
    assert placed.assignment.tolist() == [0, 1, 0, 1, 0, 2]
    assert placed.codes[2] == code_of("books")
    np.testing.assert_allclose(placed.models[2], early.models.mean(axis=0), rtol=1e-6)


def test_the_column_of_a_file(tmp_path: Path) -> None:
    """A reader of files has the same option, for text and for Parquet."""
    frame().to_csv(tmp_path / "shops.csv", index=False)
    frame().to_parquet(tmp_path / "shops.parquet", index=False)
    for name in ("shops.csv", "shops.parquet"):
        data = fk.data.load(
            tmp_path / name,
            label="sales",
            client="shop",
            client_columns=["sector"],
            task="regression",
        )
        assert data.client_columns == {"sector": ("ice", "coats") * 3}
        assert "sector" not in (data.feature_names or ())
    assert data.select(np.array([1])).client_columns == {"sector": ("coats",)}


def test_wrong_columns() -> None:
    with pytest.raises(TaskError, match=r"no column 'region'.*client_columns"):
        trained(fk.Given(column="region"), shops())
    with pytest.raises(TaskError, match="no column 'heat'"):
        trained(fk.Given(column="heat"), shops())
    with pytest.raises(MethodError, match="groups has no entry for client shop 1"):
        trained(fk.Given(groups={"shop 0": "ice"}), shops())
    with pytest.raises(DataError, match=r"'heat' has \d+ values in the samples of client shop 0"):
        shops(client_columns=["heat"])
    table = frame()
    table.loc[3, "sector"] = None
    with pytest.raises(DataError, match="'sector' is missing in a sample of client shop 0"):
        shops(table)
