"""Sums of sites' tables: joined, they give the transform of the tables in one place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.fit_encoding import EncodingRules
from fedkin.data.table_options import FOR_SUMS
from fedkin.data.table_sums import NumberSums, TableSums, joined, table_sums
from fedkin.data.table_transform import TableTransform

SITES = ("north", "east", "west")


def tables() -> dict[str, pd.DataFrame]:
    """Tables of three sites: the first knows a job that no other has, the last has no dose."""
    rng = np.random.default_rng(0)
    found = {}
    for number, site in enumerate(SITES):
        rows = 60 + 20 * number
        table = pd.DataFrame(
            {
                "age": 1e6 + rng.normal(60 + 5 * number, 12, rows),
                "dose": rng.gamma(2, 3, rows),
                "job": rng.choice(["nurse", "farmer", "clerk"], rows),
                "smokes": rng.random(rows) < 0.3,
                "outcome": rng.choice(["ill", "well"], rows),
                "split": np.where(np.arange(rows) % 5, "train", "test"),
                "site": site,
            }
        )
        table.loc[rng.random(rows) < 0.1, "dose"] = np.nan
        table.loc[rng.random(rows) < 0.1, "job"] = None
        found[site] = table
    found["north"].loc[:15, "job"] = "pilot"
    found["west"]["dose"] = np.nan
    return found


def read(table: pd.DataFrame, **options: object) -> fk.data.FederatedData:
    return fk.data.from_pandas(table, label="outcome", client="site", test="split", **options)  # type: ignore


def sums_of(site: str, table: pd.DataFrame | None = None) -> TableSums:
    return table_sums(read(tables()[site] if table is None else table, scale_from=FOR_SUMS))


def close(one: TableTransform, other: TableTransform) -> None:
    assert one.columns == other.columns
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.scale, other.scale, rtol=1e-9)
    assert one.encoding is not None
    assert other.encoding is not None
    assert one.encoding.vocabularies == other.encoding.vocabularies
    assert one.encoding.imputation.indicated == other.encoding.imputation.indicated


def test_joined_sums_give_the_transform_of_all_tables_in_one_place(tmp_path: Path) -> None:
    pooled = read(pd.concat(tables().values(), ignore_index=True)).transform
    assert pooled is not None
    sums = []
    for site in SITES:
        path = tmp_path / f"{site}.json"
        sums_of(site).save(path)
        sums.append(TableSums.load(path))
    found = joined(sums)
    # The pilots are all at one site, so they are infrequent.
    assert "job_pilot" not in found.columns and "job_infrequent" in found.columns
    assert {"job_missing", "dose_missing"} < set(found.columns)
    close(found, pooled)


def test_the_features_of_a_site_are_those_of_the_tables_in_one_place() -> None:
    together = read(pd.concat(tables().values(), ignore_index=True))
    transform = joined([sums_of(site) for site in SITES])
    for number, site in enumerate(SITES):
        alone = read(tables()[site], scale_from=json.loads(json.dumps(transform.values())))
        place = list(together.client_names or ()).index(site)
        np.testing.assert_allclose(
            alone.x[alone.train[0]], together.x[together.train[place]], atol=2e-6, err_msg=site
        )
        assert number or alone.feature_names == together.feature_names


def test_sums_by_hand() -> None:
    table = pd.DataFrame(
        {
            "dose": [1.0, np.nan, 5.0, 100.0],
            "job": ["nurse", "nurse", None, "clerk"],
            "outcome": ["ill", "well", "ill", "well"],
            "split": ["train", "train", "train", "test"],
            "site": "a",
        }
    )
    (client,) = sums_of("a", table).clients
    # The test row does not count.
    assert (client.samples, client.numbers["dose"].present) == (3, 2)
    assert (client.numbers["dose"].mean, client.numbers["dose"].squares) == (3.0, 8.0)
    assert client.categories == {"job": {"nurse": 2}}
    assert client.counts("job") == {"nurse": 2, None: 1}


def test_a_column_without_missing_values_needs_no_encoding() -> None:
    table: Any = tables()["north"][["age", "smokes", "outcome", "split", "site"]]
    pooled = read(table).transform
    found = joined([sums_of("north", table)])
    assert pooled is not None and pooled.encoding is None
    np.testing.assert_allclose(found.mean, pooled.mean, rtol=1e-12)
    np.testing.assert_allclose(found.scale, pooled.scale, rtol=1e-9)


def test_a_site_may_keep_the_names_of_rare_categories() -> None:
    table = tables()["north"]
    table.loc[21, "job"] = "Mayor of Springfield"
    full = sums_of("north", table)
    kept = full.without_rare_names(5)
    assert "Mayor of Springfield" in full.clients[0].categories["job"]
    assert "Mayor" not in repr(kept)
    assert kept.clients[0].unnamed == {"job": 1}
    assert kept.clients[0].counts("job")[None] == full.clients[0].counts("job")[None]
    rules = EncodingRules(min_frequency=1, min_clients=1)
    names = joined([kept], rules).columns
    # The rare category still has a feature, with the others that have no name.
    assert "job_infrequent" in names and "job_pilot" in names
    assert "without a name (1)" in str(kept.facts())
    with pytest.raises(DataError, match=r"'job' has 47 training .* no site has named .*--least"):
        joined([full.without_rare_names(1000)])


def test_a_least_number_below_1_is_refused() -> None:
    with pytest.raises(ConfigError, match="least must be at least 1, got 0"):
        sums_of("north").without_rare_names(0)


def test_columns_that_do_not_agree_are_refused() -> None:
    north, east = sums_of("north"), tables()["east"]
    with pytest.raises(ConfigError, match=r"site 1 and site 2 have different columns: .*dose"):
        joined([north, sums_of("east", east.drop(columns="dose"))])
    with pytest.raises(ConfigError, match="'job' has text at one site and numbers at another"):
        joined([north, sums_of("east", east.assign(job=np.arange(80.0) % 3))])
    empty = [sums_of(site, tables()[site].assign(dose=np.nan)) for site in SITES]
    with pytest.raises(DataError, match=r"column 'dose' has no value .* drop = \['dose'\]"):
        joined(empty)
    with pytest.raises(ConfigError, match="at least one site"):
        joined([])


def test_the_printed_facts_are_those_of_the_file() -> None:
    jobs = [f"job-{number % 7}" for number in range(60)]
    table = tables()["north"].assign(age=3.0, dose=[np.nan, 1.0, 3.0, *[np.nan] * 57], job=jobs)
    age, dose, job, _ = sums_of("north", table).facts()
    assert age.content == "mean 3, standard deviation 0"
    assert (dose.missing, dose.content) == (46, "mean 2, standard deviation 1")
    assert all(f"job-{number} (" in job.content for number in range(7))


def test_a_site_may_have_many_rare_categories() -> None:
    """60 jobs, of which 10 have a feature with all sites together."""
    jobs = [f"job-{number if number < 50 else 50 + number % 10}" for number in range(200)]
    rows: dict[str, Any] = {"outcome": ["ill", "well"] * 100, "split": "train"}
    sites = [pd.DataFrame({"job": jobs, "site": site, **rows}) for site in SITES]
    pooled = read(pd.concat(sites, ignore_index=True)).transform
    assert pooled is not None
    found = joined([sums_of(site, table) for site, table in zip(SITES, sites, strict=True)])
    assert len(found.columns) == 11
    close(found, pooled)


def test_a_single_sample_may_miss_a_value() -> None:
    table = tables()["north"].iloc[16:21].assign(split=["train", *["test"] * 4], dose=np.nan)
    (client,) = sums_of("north", table).clients
    assert (client.samples, client.numbers["dose"].present) == (1, 0)


def test_validation_samples_do_not_count_and_a_column_may_be_empty() -> None:
    data = read(tables()["west"], scale_from=FOR_SUMS)
    (client,) = table_sums(data.with_validation(0.25)).clients
    assert client.samples < data.train.sizes[0]
    assert client.numbers["dose"].present == 0
    assert client.numbers["age"].mean == pytest.approx(1e6 + 70, abs=5)


def test_clients_without_samples_do_not_count_as_clients() -> None:
    """With one client, no category can be in two."""
    alone = sums_of("north")
    (client,) = alone.clients
    empty = replace(
        client,
        samples=0,
        numbers=dict.fromkeys(client.numbers, NumberSums(0, 0.0, 0.0)),
        categories={"job": {}},
    )
    assert joined([replace(alone, clients=(client, empty))]) == joined([alone])
    assert "job_pilot" in joined([alone]).columns


def test_features_of_two_sites_with_one_name_are_refused() -> None:
    rows: dict[str, Any] = {"outcome": ["ill", "well"] * 20, "split": "train", "site": "a"}
    first = pd.DataFrame({"a": ["b_c", "z"] * 20, "a_b": ["q", "r"] * 20, **rows})
    other = pd.DataFrame({"a": ["x", "z"] * 20, "a_b": ["c", "r"] * 20, **rows})
    sums = [sums_of("a", first), sums_of("a", other)]
    with pytest.raises(DataError, match="'a' and 'a_b' would both have a feature named 'a_b_c'"):
        joined(sums, EncodingRules(min_clients=1))


def test_each_site_may_rename_its_own_columns() -> None:
    first = tables()["north"].rename(columns={"age": "years"})
    other = tables()["east"].rename(columns={"age": "Alter"})
    sums = [
        table_sums(read(first, scale_from=FOR_SUMS, rename={"years": "age"})),
        table_sums(read(other, scale_from=FOR_SUMS, rename={"Alter": "age"})),
    ]
    assert joined(sums).renamed == {"years": "age", "Alter": "age"}


def test_features_of_an_encoding_have_one_order() -> None:
    transform = joined([sums_of("north")])
    names = transform.columns
    assert transform.of_columns(names, "here") is transform
    for other in (names[::-1], names[:2]):
        with pytest.raises(DataError, match="here: the encoding makes the features age, dose"):
            transform.of_columns(other, "here")


def test_small_clients_are_counted() -> None:
    sums = sums_of("north")
    (client,) = sums.clients
    sizes = (0, 1, 5, 6)
    clients = tuple(replace(client, samples=samples) for samples in sizes)
    assert (sums.small_clients, replace(sums, clients=clients).small_clients) == (0, 2)


def test_images_have_no_columns() -> None:
    data = fk.data.from_arrays(np.zeros((8, 2, 2)), [0, 1] * 4, clients=[0] * 4 + [1] * 4)
    with pytest.raises(DataError, match="sums of columns need a table"):
        table_sums(data)


DAMAGES = {
    "no JSON": lambda text: text[:-20],
    "another file": lambda text: '{"kind": "standard"}',
    "a later version": lambda text: text.replace('"table_sums": 1', '"table_sums": 9'),
    "more values than samples": lambda text: text.replace('"present": ', '"present": 9'),
    "negative squares": lambda text: text.replace('"squares": ', '"squares": -'),
    "more categories than samples": lambda text: text.replace('"nurse": ', '"nurse": 9'),
    "a client without a column": lambda text: text.replace('"age": {', '"height": {'),
    "no number": lambda text: text.replace('"mean": ', '"mean": "x", "old": '),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "sums.json"
    sums_of("north").save(path)
    path.write_text(DAMAGES[damage](path.read_text()))
    with pytest.raises(ConfigError, match=r"expected the sums of a table .*fedkin data sums"):
        TableSums.load(path)
