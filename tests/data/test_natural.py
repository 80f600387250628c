"""Natural federations: their tables, and the split by a hash, by person, by day and by year."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.natural import HashedSplit
from fedkin.data.natural_sets import NATURAL
from fedkin.measures.moments import intraclass_correlation, moments
from fedkin.task_types.catalogue import TASK_TYPES

# Clients and rows, as the source of the tables counts them.
SIZES = {
    "azpro": (17, 3_589),
    "randhie": (6, 20_190),
    "randhie_plan": (70, 20_190),
    "hsb82": (160, 7_185),
    "exam": (65, 4_059),
    "chem97": (131, 31_022),
    "loans": (50, 10_000),
    "flights": (16, 55_823),
    "txhousing": (46, 8_602),
    "txhousing_lags": (46, 7_569),
    "employment": (125, 29_578),
    "insteval": (14, 73_421),
    "insteval_lecturer": (1_128, 73_421),
    "churn": (51, 5_000),
    "tv16": (51, 44_932),
    "dialysis": (67, 6_805),
    "leuksurv": (24, 1_043),
}


@pytest.fixture
def made_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small azpro.parquet in a folder of data."""
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    monkeypatch.setenv("FEDKIN_CACHE", str(tmp_path / "cache"))
    table = pd.DataFrame(
        {
            "client": ["b"] * 12 + ["a"] + ["c"] * 2,
            "los": range(15),
            "urgent": 0,
            "split": "train",
        }
    )
    path = tmp_path / "natural" / "azpro.parquet"
    path.parent.mkdir()
    table.to_parquet(path)
    return path


@pytest.mark.parametrize("name", SIZES)
def test_each_table(name: str, shared_data: Path) -> None:
    """Seed 0 is the split in the file, for the file's own clients."""
    found = fk.data.natural(name)
    about = NATURAL[name]
    assert (len(found.clients), len(found.table)) == SIZES[name]
    assert found.features
    assert set(found.features) <= set(found.table.columns)
    reserved = {about.label, about.client, about.event, about.exposure, "split", "client"}
    assert not reserved & set(found.features)
    assert about.task_type in TASK_TYPES
    if about.client == "client":
        file = shared_data / "natural" / f"{about.file or name}.parquet"
        assert found.table["split"].tolist() == pd.read_parquet(file)["split"].tolist()


def test_the_intraclass_correlation_of_labels(shared_data: Path) -> None:
    """Published to three decimals; the negative control has none."""
    expected = {"azpro": 0.050, "exam": 0.153, "hsb82": 0.174, "loans": 0.001, "churn": 0.010}
    for name, printed in expected.items():
        found = fk.data.natural(name)
        codes, clients = pd.factorize(found.table[found.client])
        parts = moments(found.table[found.label].to_numpy(np.float64), codes, len(clients))
        assert intraclass_correlation(parts) == pytest.approx(printed, abs=6e-4)


def test_another_seed_is_another_split_of_the_same_sizes(shared_data: Path) -> None:
    zero = fk.data.natural("exam").table
    one = fk.data.natural("exam", seed=1).table
    assert (zero["split"] != one["split"]).any()
    sizes = [table[table["split"] == "test"]["client"].value_counts() for table in (zero, one)]
    assert sizes[0].to_dict() == sizes[1].to_dict()
    assert one["split"].tolist() == fk.data.natural("exam", seed=1).table["split"].tolist()


@pytest.mark.parametrize(
    ("name", "unit"),
    [("randhie", "person"), ("flights", "day_of_year"), ("randhie_plan", "person")],
)
@pytest.mark.parametrize("seed", [0, 3])
def test_a_person_or_a_day_is_on_one_side(
    name: str, unit: str, seed: int, shared_data: Path
) -> None:
    found = fk.data.natural(name, seed=seed)
    sides = found.table.groupby([found.client, unit])["split"].nunique()
    assert (sides == 1).all()
    share = (found.table["split"] == "test").mean()
    assert share == pytest.approx(0.2, abs=0.01)


def test_sets_with_a_time_are_divided_at_one_date(shared_data: Path) -> None:
    for name, train_until, last in (("employment", 2016, 2019), ("txhousing_lags", 2012, 2015)):
        for seed in (0, 2):
            table = fk.data.natural(name, seed=seed).table
            years = table.groupby("split")["year"]
            assert years.max()["train"] == train_until - seed
            assert set(table[table["split"] == "validation"]["year"]) == {train_until + 1 - seed}
            assert years.min()["test"] == train_until + 2 - seed
            assert years.max()["test"] == last - seed


def test_a_window_of_36_months(shared_data: Path) -> None:
    """Of 2014 to 2016, with the same test period as the whole history."""
    found = fk.data.natural("employment_w36")
    train = found.rows("train")
    assert train.groupby("client").size().max() == 36
    assert (train["year"].min(), train["year"].max()) == (2014, 2016)
    whole = fk.data.natural("employment")
    assert len(found.rows("test")) == len(whole.rows("test"))
    assert "growth_lag12" not in whole.features
    assert "growth_lag12" in fk.data.natural("employment_lag12").features


def test_the_hash_by_hand() -> None:
    """Of ten units, the two with the smallest hashes."""
    hashes = {
        unit: hashlib.sha256(f"7|azpro|h3.6|{unit}".encode()).hexdigest() for unit in range(10)
    }
    smallest = sorted(hashes, key=lambda unit: hashes[unit])[:2]
    found = HashedSplit(seed=7, name="azpro").tested("h3.6", [*range(10), *range(10)])
    assert found == set(smallest)


def test_small_clients(made_table: Path) -> None:
    """A fifth of 12 is 2, of two rows one is for testing, of one row none is."""
    found = fk.data.natural("azpro")
    tests = found.rows("test").groupby("client").size()
    assert tests.to_dict() == {"b": 2, "c": 1}
    assert found.clients == ("b", "a", "c")
    assert found.features == ("urgent",)


def test_it_says_where_the_table_comes_from(shared_data: Path) -> None:
    text = repr(fk.data.natural("azpro"))
    for words in ("3,589 rows", "17 clients", "label los", "count", "COUNT (GPL-2)", "licence"):
        assert words in text


def test_the_options_of_a_reader(shared_data: Path) -> None:
    options = fk.data.natural("randhie_plan").reader_options()
    assert options["label"] == "visits"
    assert options["client"] == "site_plan"
    assert options["test"] == "split"
    assert (options["task"], options["loss"]) == ("count", "poisson")
    assert options["exposure"] == "years_eligible"
    assert "exposure" not in fk.data.natural("exam").reader_options()

    # A table of numbers without missing values is a federation at once.
    churn = fk.data.natural("churn")
    numbers = [name for name in churn.features if name != "area_code"]
    data = fk.data.from_pandas(
        churn.table, label=churn.label, client=churn.client, features=numbers, test="split"
    )
    assert data.clients == 51
    assert data.test.sizes.sum() == len(churn.rows("test"))


def test_wrong_names_seeds_and_files_are_refused(made_table: Path) -> None:
    with pytest.raises(ConfigError, match=r"'azpr'; did you mean 'azpro'"):
        fk.data.natural("azpr")
    with pytest.raises(ConfigError, match=r"seed .* got -1"):
        fk.data.natural("azpro", seed=-1)
    with pytest.raises(DataError, match=r"exam\.parquet not found.*FEDKIN_DATA"):
        fk.data.natural("exam")
    pd.read_parquet(made_table).drop(columns="los").to_parquet(made_table)
    with pytest.raises(DataError, match="there is no 'los' among client, urgent, split"):
        fk.data.natural("azpro")
    made_table.write_bytes(b"no table")
    with pytest.raises(DataError, match=r"azpro\.parquet.*Parquet"):
        fk.data.natural("azpro")


def test_a_seed_that_leaves_no_year_of_training_is_refused(shared_data: Path) -> None:
    with pytest.raises(ConfigError, match="begins in 2000; use a seed up to 16"):
        fk.data.natural("employment", seed=17)
