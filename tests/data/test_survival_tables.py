"""Survival data from tables and arrays: the federation equals ``from_patients``, to the bit, with
the random streams of tables."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.config import registry
from fedkin.core.errors import ConfigError, DataError, FedkinError, ModelError
from fedkin.data import describe, risk_set_federation
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.data.natural_federation import natural_federation

ROLES: dict[str, Any] = {"label": "months", "event": "died", "client": "clinic"}


def table(rows: int = 120) -> pd.DataFrame:
    """Patients of four clinics, with times in months, of which many are equal."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2)).round(3)
    months = np.ceil(12 * rng.exponential(np.exp(-x[:, 0])))
    return pd.DataFrame(
        {
            "age": 60 + 10 * x[:, 0],
            "dose": x[:, 1],
            "months": np.minimum(months, 40),
            "died": (months <= 40).astype(int),
            "clinic": np.array(["east", "north", "south", "west"])[np.arange(rows) % 4],
        }
    )


def patients(frame: pd.DataFrame, x: Any, **options: Any) -> FederatedData:
    """The federation of ``from_patients``, with the random streams of tables."""
    made = risk_set_federation.risk_set_federation

    def by_name(*args: Any, **named: Any) -> FederatedData:
        return made(*args, **{**named, "purpose": None})

    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules["fedkin.data.from_patients"]
        patch.setattr(module, "risk_set_federation", by_name)
        return fk.data.from_patients(x, frame.months, frame.died, clients=frame.clinic, **options)


def assert_equal(found: FederatedData, expected: FederatedData) -> None:
    """All arrays have the same bits."""
    for name in ("x", "y"):
        mine, other = getattr(found, name), getattr(expected, name)
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    assert found.patients is not None and expected.patients is not None
    for split in ("train", "test"):
        np.testing.assert_array_equal(found.part(split).rows, expected.part(split).rows)
        np.testing.assert_array_equal(found.part(split).offsets, expected.part(split).offsets)
    for name, array in expected.patients.arrays().items():
        np.testing.assert_array_equal(found.patients.arrays()[name], array)
    assert found.classes == expected.classes and found.task_type == expected.task_type
    assert list(found.client_names or ()) == list(expected.client_names or ())


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_a_frame_is_the_federation_of_from_patients(ties: str) -> None:
    frame = table()
    options = {"ties": ties, "at_risk": 5, "draws": 3}
    found = fk.data.from_pandas(
        frame, **ROLES, loss_options=options, scale="none", test=0.3, seed=4, name="p"
    )
    x = frame[["age", "dose"]].to_numpy()
    assert_equal(found, patients(frame, x, test=0.3, seed=4, name="p", **options))
    assert found.feature_names == ("age", "dose")
    assert found.columns == {"label": "months", "event": "died", "client": "clinic"}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_the_federation_of_from_patients_with_scaled_columns(
    tmp_path: Path, ending: str
) -> None:
    frame = table()
    path = tmp_path / f"p.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    found = fk.data.load(path, **ROLES)
    assert found.transform is not None
    scaled = found.transform.apply(frame[["age", "dose"]].to_numpy())
    expected = patients(frame, scaled, test=0.1, name="p")
    assert_equal(found, expected)
    # The columns are scaled by training patients, of whom each counts once.
    assert expected.patients is not None
    first = expected.patients.samples[0]
    trained = frame.iloc[expected.patients.samples[expected.patients.train.rows] - first]
    np.testing.assert_allclose(found.transform.mean, trained[["age", "dose"]].mean())
    np.testing.assert_allclose(found.transform.scale, trained[["age", "dose"]].std(ddof=0))


def test_arrays_in_a_file(tmp_path: Path) -> None:
    frame = table()
    x = frame[["age", "dose"]].to_numpy()
    path = tmp_path / "p.npz"
    arrays = {
        "months": frame.months.to_numpy(),
        "died": frame.died.to_numpy(),
        "clinic": frame.clinic.to_numpy(str),
    }
    np.savez(path, x=x, **arrays)
    assert_equal(fk.data.load(path, **ROLES), patients(frame, x, test=0.1, name="p"))
    np.savez(path, x=x[:, :, None], **arrays)
    with pytest.raises(DataError, match=r"a row of numbers for each patient, \[n, d\]"):
        fk.data.load(path, **ROLES)


def test_hugging_face() -> None:
    hf = pytest.importorskip("datasets", reason="pip install 'fedkin[hf]'")
    frame = table()
    found = fk.data.from_hf(
        hf.Dataset.from_pandas(frame), by="clinic", label="months", event="died", scale="none"
    )
    assert_equal(found, patients(frame, frame[["age", "dose"]].to_numpy(), name="hf"))


@pytest.mark.parametrize("how", [{}, {"task": "survival"}, {"loss": "cox"}])
def test_an_event_says_the_task(how: dict[str, Any]) -> None:
    assert fk.data.from_pandas(table(), **ROLES, **how).task_type.name == "survival"


def test_a_split_of_the_table_and_clients_without_events(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = table().assign(split=np.where(np.arange(120) % 8 < 4, "train", "test"), kind="small")
    frame.loc[frame.clinic == "north", "died"] = 0
    frame.loc[frame.clinic == "west", "kind"] = "large"
    with caplog.at_level(logging.WARNING, "fedkin"):
        data = fk.data.from_pandas(frame, **ROLES, test="split", client_columns="kind")
    assert "frame: left out north, where no event was observed while another" in caplog.text
    assert list(data.client_names or ()) == ["east", "south", "west"]
    assert data.client_columns == {"kind": ("small", "small", "large")}
    assert data.patients is not None and data.patients.train.sizes.tolist() == [15] * 3
    # The patients of a clinic that is left out do not scale the columns.
    assert data.transform is not None
    used = frame[(frame.clinic != "north") & (frame.split == "train")]
    np.testing.assert_allclose(data.transform.mean, used[["age", "dose"]].mean())


def test_a_partition_divides_patients_by_their_times() -> None:
    frame = table().drop(columns="clinic")
    data = fk.data.from_pandas(
        frame, label="months", event="died", partition="iid", num_clients=3, scale="none"
    )
    assert data.clients == 3 and data.patients is not None
    assert data.patients.train.sizes.sum() + data.patients.test.sizes.sum() == 120


def test_rows_without_a_time_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    frame = table()
    blank = frame.copy()
    blank.loc[[3, 50], "months"] = np.nan
    blank["died"] = blank.died.astype("Int64")
    blank.loc[3, "died"] = pd.NA
    with caplog.at_level(logging.WARNING, "fedkin"):
        found = fk.data.from_pandas(blank, **ROLES, scale="none", name="p")
    assert "left out 2 of 120 rows, whose time is missing" in caplog.text
    rest = frame.drop(index=[3, 50])
    assert_equal(found, patients(rest, rest[["age", "dose"]].to_numpy(), name="p"))


def test_text_missing_values_and_other_options_of_tables() -> None:
    frame = table().assign(ward=np.array(["er", "icu", "surgery"])[np.arange(120) % 3], row_id="r")
    frame.loc[::6, "dose"] = np.nan
    frame = frame.rename(columns={"months": "zeit"})
    data = fk.data.from_pandas(frame, **ROLES, rename={"zeit": "months"}, drop=["row_id"])
    names = ("age", "dose", "ward_er", "ward_icu", "ward_surgery")
    assert data.feature_names is not None and set(names) < set(data.feature_names)
    assert data.x.shape[1:] == (8, len(data.feature_names) + 1)
    some = fk.data.from_pandas(
        frame.rename(columns={"zeit": "months"}), **ROLES, features=["age", "ward"]
    )
    assert some.feature_names == ("age", "ward_er", "ward_icu", "ward_surgery")
    described = describe.column_table(some)
    assert described is not None and 50 < described.loc["age", "mean"] < 70


def test_draws_depend_neither_on_the_file_nor_on_other_clients(tmp_path: Path) -> None:
    frame = table().assign(split=np.where(np.arange(120) % 8 < 4, "train", "test"))
    pooled = fk.data.from_pandas(frame, **ROLES, test="split", scale="none")
    own = frame[frame.clinic == "south"].drop(columns="clinic").assign(client="south")
    own.to_csv(tmp_path / "other name.csv", index=False)
    site = fk.data.load(
        tmp_path / "other name.csv", label="months", event="died", client="client", scale="none"
    )
    for split in ("train", "test"):
        mine = site.part(split)[0]
        there = pooled.part(split)[2]
        np.testing.assert_array_equal(site.x[mine], pooled.x[there])
        np.testing.assert_array_equal(site.y[mine], pooled.y[there])


def test_draws_of_from_patients_keep_their_bits() -> None:
    """Computed before tables had other streams."""
    frame = table()
    data = fk.data.from_patients(
        frame[["age", "dose"]].to_numpy(), frame.months, frame.died, clients=frame.clinic, name="p"
    )
    assert data_digest(data)[:16] == "432986f195391134"


def test_packed_patients_stay_patients(tmp_path: Path) -> None:
    data = fk.data.from_pandas(table(), **ROLES)
    found = fk.data.pack(data, tmp_path / "packed")
    assert_equal(found, data)
    assert found.transform == data.transform and found.feature_names == data.feature_names


def test_validation_samples_are_refused(tmp_path: Path) -> None:
    """Each event has several risk sets, so a random part of them would have training events."""
    data = fk.data.from_pandas(table(), **ROLES)
    message = "would be risk sets of training events; leave out data.validation"
    with pytest.raises(ConfigError, match=message):
        data.with_validation(0.2)
    table().to_csv(tmp_path / "t.csv", index=False)
    make = registry.datasets()["file"]
    with pytest.raises(ConfigError, match=message):
        make(path=str(tmp_path / "t.csv"), validation=0.2, **ROLES)


def test_a_natural_set_of_survival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    frame = table().rename(columns={"months": "time", "died": "event", "clinic": "client"})
    frame = frame.assign(begin=1, split=np.where(np.arange(120) % 8 < 4, "train", "test"))
    (tmp_path / "natural").mkdir()
    frame.to_parquet(tmp_path / "natural" / "dialysis.parquet")
    data = natural_federation(set="dialysis", features=["age"])
    assert data.task_type.name == "survival" and data.x.shape[1:] == (8, 2)
    other = natural_federation(set="dialysis", features=["age"], task="regression")
    assert other.task_type.name == "regression"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing column": ({"event": "dead"}, "unknown column 'dead'.*did you mean 'died'"),
    "text": (
        {"died": np.array(["dead", "alive"])[np.arange(120) % 2]},
        r"frame: column 'died': the event in row 0 \(client east\) is 'dead', and the values here "
        r"are 'alive', 'dead'; the event must be 1 .* or 0 .*== 'dead'\)\.astype\(int\)",
    ),
    "codes": (
        {"died": 1 + np.arange(120) % 2},
        r"the event in row 1 \(client north\) is 2, and the values here are 1, 2;",
    ),
    "empty event": (
        {"died": np.where(np.arange(120) == 6, np.nan, 1)},
        r"column 'died': the event in row 6 \(client south\) is missing \(1 such rows\); write 0",
    ),
    "negative": (
        {"months": np.where(np.arange(120) == 5, -3, 7.0)},
        r"column 'months': the time in row 5 \(client north\) is -3 .* of at least 0",
    ),
    "infinite": (
        {"months": np.where(np.arange(120) == 5, np.inf, 7.0)},
        r"column 'months': the time in row 5 \(client north\) is inf .*leave out these rows",
    ),
    "text time": ({"months": "long"}, "column 'months': the time in row 0 .* is 'long'"),
    "no events": ({"died": 0}, "frame: no client has an event while another patient was at risk"),
    "regression": (
        {"task": "regression"},
        "event applies to task = 'survival' only, got task = 're",
    ),
    "huber": (
        {"loss": "huber"},
        "event applies to task = 'survival' only, got task = 'regression'",
    ),
    "no event": (
        {"task": "survival", "event": None},
        "task = 'survival' needs the time and the event.*label = 'time', event = 'status'",
    ),
    "no event, by loss": ({"loss": "cox", "event": None}, "needs the time and the event"),
    "other loss": ({"task": "survival", "loss": "huber"}, "unknown loss of survival 'huber'"),
    "option": ({"loss_options": {"delta": 1.0}}, "delta does not apply to loss = 'cox'; it has at"),
    "at_risk": ({"loss_options": {"at_risk": 2.5}}, "at_risk must be an integer of at least 2"),
    "ties": ({"loss_options": {"ties": "exact"}}, "unknown ties 'exact'"),
    "quantiles": (
        {"task": "survival", "quantiles": [0.5]},
        "quantiles applies to task = 'quantile'",
    ),
    "scale of labels": (
        {"label_scale_from": {"mean": 1}},
        "label_scale_from does not apply to task",
    ),
    "weight": ({"weight": "dose"}, "frame: weight does not apply to task = 'survival'"),
    "exposure": ({"exposure": "dose"}, "frame: exposure does not apply to task = 'survival'"),
    "unit": (
        {"unit": "dose"},
        "frame: unit does not apply to task = 'survival', .*mark all rows of a unit as train, or",
    ),
    "two roles": ({"event": "months"}, "weight, event and unit must be different columns"),
    "feature": ({"features": ["age", "died"]}, "'died' cannot be a feature and also"),
    "validation": (
        {"split": np.where(np.arange(120) == 7, "validation", "train"), "test": "split"},
        "row 7 is for validation .*mark these rows as train or test",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_with_the_cure(case: str) -> None:
    change, message = WRONG[case]
    names = ("died", "months", "split")
    frame = table().assign(**{name: v for name, v in change.items() if name in names})
    options = ROLES | {name: v for name, v in change.items() if name not in names}
    with pytest.raises(FedkinError, match=message) as caught:
        fk.data.from_pandas(frame, **options)
    assert "\n" not in str(caught.value)


def test_messages_about_a_file_name_it(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    table().assign(died="dead").to_csv(path, index=False)
    with pytest.raises(DataError, match=r"p\.csv: column 'died': the event in row 0 \(client east"):
        fk.data.load(path, **ROLES)
    with pytest.raises(DataError, match=r"p\.csv: .*column 'status'"):
        fk.data.load(path, **{**ROLES, "event": "status"})


def test_from_patients_refuses_negative_times_and_text() -> None:
    frame = table()
    with pytest.raises(DataError, match=r"patients: the time in row 0 \(client east\) is -1"):
        patients(frame.assign(months=-1.0), frame[["age"]])
    with pytest.raises(DataError, match=r"patients: the event in row 0 .*'alive', 'dead'"):
        died = np.array(["dead", "alive"])[np.arange(120) % 2]
        patients(frame.assign(died=died), frame[["age"]])


def test_from_patients_reads_clients_and_features_as_other_readers_do() -> None:
    frame = table()
    x = frame[["age", "dose"]].to_numpy()
    read = partial(fk.data.from_patients, times=frame.months, died=frame.died)
    whole = np.arange(len(x)) % 3
    expected = read(x, clients=whole)
    # A column that once had a missing entry holds floats.
    assert_equal(read(x.tolist(), clients=whole.astype(float)), expected)
    assert list(expected.client_names or ()) == ["0", "1", "2"]
    assert read(x, clients=whole.astype(float)).client_names == expected.client_names
    missing = np.where(whole == 2, np.nan, whole)
    with pytest.raises(DataError, match="patients: clients is empty in row 2"):
        read(x, clients=missing)
    with pytest.raises(DataError, match="clients must be of one type"):
        read(x, clients=["1", *whole[1:].tolist()])
    with pytest.raises(DataError, match="patients: x must be numbers"):
        read(x.astype(str), clients=whole)
    with pytest.raises(DataError, match="patients: x is masked in row 0"):
        read(np.ma.masked_less(x, x.max()), clients=whole)


def test_arrays_and_folders_name_the_right_form(tmp_path: Path) -> None:
    frame = table()
    with pytest.raises(ConfigError, match=r"for arrays use fk\.data\.from_patients"):
        fk.data.from_arrays(frame[["age"]], frame.months, clients=frame.clinic, task="survival")
    fk.data.pack(fk.data.digits(clients=2), tmp_path / "packed")
    for role in ("event", "unit", "exposure", "weight"):
        given: dict[str, Any] = {role: "died"}
        with pytest.raises(ConfigError, match=f"{role} = died does not apply"):
            fk.data.load(tmp_path / "packed", **given)


def test_models_of_classes_are_refused() -> None:
    data = fk.data.from_pandas(table(), **ROLES)
    for make in (fk.models.mclr, fk.models.mlp):
        with pytest.raises(
            ModelError, match=r"frame: m\w+ has a weight for each place.*models.cox"
        ):
            make(data)
