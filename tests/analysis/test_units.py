"""Samples of units, such as the visits of patients: the own model is not scored on patients whom it
knows, and no division of the data cuts a unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.analysis.clusters_or_levels import redrawn
from fedkin.analysis.serving.held_out import folds_of, number_of_parts
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.digest import data_digest
from fedkin.measures.do_no_harm import held_out_gains
from fedkin.scenarios.own_rows import with_own_rows

CLIENTS = 12
UNITS = 10  # units of each client for training
VISITS = 4


def visits() -> pd.DataFrame:
    """Patients of clients that are all alike: each visit has the features and the label of its
    patient."""
    rng = np.random.default_rng(0)
    patients = 4 * UNITS
    parts = []
    for client in range(CLIENTS):
        x = rng.standard_normal((patients, 10))
        table = pd.DataFrame(x, columns=[f"x{number}" for number in range(10)])
        table["y"] = x[:, 0] + rng.standard_normal(patients)
        table["client"] = client
        # The same numbers of patients occur at every client.
        table["patient"] = np.arange(patients)
        table["split"] = np.where(np.arange(patients) < UNITS, "train", "test")
        parts.append(table.loc[table.index.repeat(VISITS)])
    return pd.concat(parts, ignore_index=True)


OPTIONS: dict[str, Any] = {"label": "y", "client": "client", "task": "regression"}


def read(unit: str | None, **options: Any) -> fk.FederatedData:
    drop = [] if unit else ["patient"]
    return fk.data.from_pandas(visits(), unit=unit, drop=drop, **OPTIONS, **options)


def served(data: fk.FederatedData) -> Any:
    run = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=20,
        cohort=CLIENTS,
        local=fk.LocalTraining(epochs=2, batch_size=10, lr=0.1),
    )
    return fk.serve(run, folds=5)


def true_loss(found: Any, data: fk.FederatedData) -> float:
    """The mean loss of the own models on patients who are new."""
    losses = []
    for client in range(data.clients):
        rows = data.test[client]
        scores = found.candidates.own.of_client(client).scores_of(data.x[rows])
        losses.append(data.task_type.score_losses(scores, data.y[rows]).mean())
    return float(np.mean(losses))


def test_folds_by_rows_flatter_the_own_model_and_folds_by_units_do_not() -> None:
    by_rows = read(None, test="split")
    by_units = read("patient", test="split")
    # Only the folds differ.
    assert by_rows.x.tobytes() == by_units.x.tobytes()
    rows = served(by_rows)
    units = served(by_units)
    flattered = np.mean([row.own_loss for row in rows.rows]) / true_loss(rows, by_rows)
    honest = np.mean([row.own_loss for row in units.rows]) / true_loss(units, by_units)
    assert flattered < 0.5
    assert 0.8 < honest < 1.6
    # All clients are alike, so the common model is better. Folds by rows keep own models instead.
    assert rows.summary()["served_by"]["own model"] == CLIENTS
    assert units.summary()["gate_open"]
    assert units.summary()["served_by"]["own + global"] > CLIENTS / 2
    assert all(row.held_out == UNITS * VISITS for row in rows.rows)
    assert all(row.held_out == UNITS for row in units.rows)


def units_of_parts(data: fk.FederatedData, client: int) -> list[set[int]]:
    assert data.unit is not None
    return [set(data.unit[data.part(split)[client]].tolist()) for split in data.splits]


def assert_whole(data: fk.FederatedData, shares: list[int]) -> None:
    """No unit of a client is in two parts, and parts have these numbers of units."""
    for client in range(data.clients):
        parts = units_of_parts(data, client)
        assert [len(part) for part in parts] == shares
        assert len(set.union(*parts)) == sum(shares)


def test_no_division_cuts_a_unit() -> None:
    table = visits().drop(columns="split")
    data = fk.data.from_pandas(table, unit="patient", test=0.25, **OPTIONS)
    assert data.feature_names is not None and "patient" not in data.feature_names
    assert_whole(data, [30, 10])
    assert_whole(data.with_validation(0.2), [24, 6, 10])
    # 40 units: a fifth for testing, and of the others a quarter for validation.
    assert_whole(redrawn(data, seed=3), [24, 8, 8])
    fold_of = folds_of(data, folds=5, seed=0)
    for client in range(data.clients):
        folds = pd.Series(fold_of[client]).groupby(data.unit[data.train[client]])  # type: ignore[index]
        assert folds.nunique().tolist() == [1] * 30
        assert folds.first().value_counts().tolist() == [6] * 5


def test_a_unit_of_one_sample_is_a_sample() -> None:
    """Units that never repeat give the number of samples in each part that rows give."""
    table = visits().drop_duplicates(["client", "patient"]).drop(columns="split")
    by_rows = fk.data.from_pandas(table, drop=["patient"], test=0.25, **OPTIONS)
    by_units = fk.data.from_pandas(table, unit="patient", test=0.25, **OPTIONS)
    assert by_rows.train.sizes.tolist() == by_units.train.sizes.tolist()
    x = {"own": np.array([1.0, 2.0, 4.0]), "other": np.array([0.5, 2.5, 1.0])}
    client = np.zeros(3, int)
    one = held_out_gains(x["own"], x["other"][None], client, 1)
    two = held_out_gains(x["own"], x["other"][None], client, 1, unit=np.arange(3))
    for mine, other in zip(one, two, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_samples_of_a_unit_are_no_further_evidence() -> None:
    """By hand: gains 1, 1 of a unit and 4 of another. The mean is 2, the units' sums of distances
    from it are -2 and 2, and the squared standard error of a clustered mean is
    u / (u - 1) (4 + 4) / n^2 = 16 / 9. Rows would give 1."""
    own = np.array([1.0, 1.0, 4.0])
    found = held_out_gains(own, np.zeros((1, 3)), np.zeros(3, int), 1, unit=np.array([7, 7, 8]))
    assert found.mean[0, 0] == 2
    assert found.samples.tolist() == [2]
    assert found.variance[0, 0] / found.samples[0] == pytest.approx(16 / 9, rel=1e-12)
    # Copies of samples change neither the mean nor its error; equal units of two clients are two.
    copies = np.repeat([3.0, 1.0, 2.0, 6.0], 5)
    client = np.repeat([0, 0, 1, 1], 5)
    unit = np.repeat([1, 2, 1, 2], 5)
    copied = held_out_gains(copies, np.zeros((1, 20)), client, 2, unit=unit)
    single = held_out_gains(copies[::5], np.zeros((1, 4)), client[::5], 2)
    for mine, other in zip(copied, single, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_the_pull_of_own_models_is_chosen_on_new_units() -> None:
    """All clients are alike, so own models are pulled to the shared one. Folds by rows choose a
    weak pull, since each patient is on both sides."""
    records = {}
    for unit in (None, "patient"):
        data = read(unit, test="split")
        run = fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=20,
            cohort=CLIENTS,
            local=fk.LocalTraining(epochs=2, batch_size=10, lr=0.1),
            options=[fk.PersonalLinear()],
        )
        records[unit] = {**run.records[-1], **run.summary()}
    assert records[None]["own_fit_strength"] < 1 and records[None]["r2_score"] < -1
    assert records["patient"]["own_fit_strength"] > 10 and records["patient"]["r2_score"] > 0.4


def test_a_client_with_one_unit_chooses_no_pull() -> None:
    data = read("patient", test="split")
    lone = data.with_rows(data.train, data.test, unit=np.zeros(len(data.y), np.int64))
    model = fk.models.mclr(lone)
    options = [fk.PersonalLinear()]
    run = fk.simulate(fk.FedAvg(), lone, model, rounds=1, cohort=CLIENTS, options=options)
    assert run.summary()["own_fit_strength"] is None


def test_units_are_part_of_the_digest() -> None:
    data = read("patient", test="split")
    assert data.unit is not None
    others = data.with_rows(data.train, data.test, unit=data.unit + 1)
    digests = {data_digest(read(None, test="split")), data_digest(data), data_digest(others)}
    assert len(digests) == 3


def test_a_client_with_one_unit_holds_none_out() -> None:
    data = read("patient", test="split")
    lone = np.zeros(len(data.y), np.int64)
    alone = data.with_rows(data.train, data.test, unit=lone)
    assert all((numbers == -1).all() for numbers in folds_of(alone, folds=2, seed=0))
    with pytest.raises(DataError, match="of one unit, so none can be held out"):
        number_of_parts(alone, folds=2)


def test_a_split_that_cuts_a_unit_is_refused(tmp_path: Path) -> None:
    table = visits()
    table.loc[0, "split"] = "test"
    message = r"unit of row \d+ \(client 0\) has train and test samples"
    with pytest.raises(DataError, match=message):
        fk.data.from_pandas(table, unit="patient", test="split", **OPTIONS)
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=message):
        fk.data.load(tmp_path / "t.csv", unit="patient", **OPTIONS)


def test_impossible_units_are_refused() -> None:
    table = visits().drop(columns="split")
    with pytest.raises(ConfigError, match="partition = 'iid' would divide them among clients"):
        fk.data.from_pandas(
            table.drop(columns="client"),
            unit="patient",
            label="y",
            task="regression",
            partition="iid",
            num_clients=3,
        )
    table["patient"] = table["patient"].astype(float)
    table.loc[5, "patient"] = np.nan
    with pytest.raises(DataError, match="unit is empty in row 5"):
        fk.data.from_pandas(table, unit="patient", **OPTIONS)
    series = pd.DataFrame({"client": "a", "t": np.arange(40), "y": np.arange(40.0), "patient": 1})
    with pytest.raises(ConfigError, match="unit does not apply to a forecast"):
        fk.data.from_pandas(
            series, label="y", client="client", task="forecast", time="t", unit="patient"
        )


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_files_have_units(tmp_path: Path, ending: str) -> None:
    table = visits().drop(columns="split")
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        table.to_csv(path, index=False)
    elif ending == "parquet":
        table.to_parquet(path)
    else:
        features = table.drop(columns=["y", "client", "patient"]).to_numpy()
        arrays: dict[str, Any] = {
            name: table[name].to_numpy() for name in ("y", "client", "patient")
        }
        np.savez(path, x=features, **arrays)
    data = fk.data.load(path, unit="patient", train_fraction=0.75, **OPTIONS)
    assert_whole(data, [30, 10])


def test_units_stay_with_their_samples(tmp_path: Path) -> None:
    """Through packing, a choice of clients, and copies of samples."""
    table = visits().drop(columns="split")
    data = fk.data.from_pandas(table, unit="patient", test=0.25, **OPTIONS)
    packed = fk.data.pack(data, tmp_path / "packed")
    assert packed.unit is not None and data.unit is not None
    assert packed.unit.tolist() == data.unit.tolist()
    assert_whole(packed.select(np.array([3, 1])), [30, 10])
    assert_whole(with_own_rows(data), [30, 10])
    image = np.zeros((6, 4, 4), np.float32)
    images = fk.data.from_arrays(
        image, np.array([0, 1] * 3), clients=[0] * 6, unit=[1, 1, 2, 2, 3, 3], test=0.34
    )
    more = fk.data.augmented(images, ["flip", "rotation"])
    assert more.unit is not None
    assert set(more.unit[more.train[0]].tolist()) == set(images.unit[images.train[0]].tolist())  # type: ignore[index]
    with pytest.raises(DataError, match="unit must have an integer for each of 6 samples"):
        images.with_rows(images.train, images.test, unit=np.zeros(5, np.int64))
