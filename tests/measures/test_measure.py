"""Measures: their words, how their values are written, and refused measures."""

from __future__ import annotations

import dataclasses
import re

import pytest

from fedkin.core.errors import ConfigError
from fedkin.measures.lookup import compared_by, measures_in
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import (
    byte_text,
    duration,
    megabytes,
    number_text,
    numeric_columns,
    percent,
)
from fedkin.measures.reserved_names import OTHER_ENTRIES
from fedkin.measures.table import COMPARED, EXTRA, MEASURES, PLACED


def test_a_measure_has_default_words() -> None:
    gap = Measure("client_gap", unit="share", direction="lower")
    assert (gap.title, gap.head, gap.narrow, gap.label, gap.by, gap.column) == (
        "client gap",
    ) * 4 + ("client_gap",) * 2
    assert (gap.head_with_unit, gap.sign, gap.better(0.1, 0.2)) == ("client gap (%)", -1, True)


def test_values_are_written_by_their_unit() -> None:
    texts = {
        unit: Measure("m", unit=unit).text_with_unit(1234.5678)
        for unit in ("index", "number", "count", "rounds")
    }
    assert texts == {
        "index": "1234.57",
        "number": "1,234.568",
        "count": "1,235",
        "rounds": "1234.6",
    }
    share = Measure("m", unit="share")
    assert (share.text_with_unit(0.8125), share.text(0.8125), share.text_with_unit(None)) == (
        "81.2%",
        "81.2",
        "-",
    )
    assert (
        share.mean_with_unit(0.5, 0.525) == "50.0 ± 2.5%"
        and share.text_with_half(0.5, None) == "50.0"
    )
    assert (share.gain_text(0.01), share.gain_text(-0.01), share.points) == (
        "+1.0",
        "-1.0",
        " points",
    )
    assert Measure("m", unit="bytes").text_with_unit(2_500_000) == "2.5 MB"
    assert number_text(1234.5, "bytes", grouped=True) == "0.0" and percent(0.25, digits=0) == "25%"
    assert (byte_text(310), duration(90.0), duration(7200)) == ("310 B", "90.0 s", "2.0 h")


def test_a_rounded_zero_has_no_minus() -> None:
    assert number_text(-0.004, "index") == "0.00" and number_text(-0.006, "index") == "-0.01"
    assert number_text(-0.0004, "share", signed=True) == "+0.0"
    assert number_text(-2, "count") == "-2"


def test_columns_of_numbers_and_of_words() -> None:
    rows = [
        ["IFCA", "+1.5 to +2.0", "-", "62.6 (all clients 57.2)", "0.19", "", "2 seeds"],
        ["FedAvg", "-0.3 to +0.1", "-", "-", "any", "winner", "none"],
    ]
    assert numeric_columns(rows) == [False, True, True, True, True, False, True]
    assert numeric_columns([]) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "My gap"}, "lower-case letters"),
        ({"name": "gap", "unit": "shares"}, "unknown unit 'shares'; did you mean 'share'"),
        ({"name": "gap", "direction": "up"}, "unknown direction 'up'"),
    ],
)
def test_invalid_measures_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as refused:
        Measure(**options)
    assert "\n" not in str(refused.value)


def test_every_name_is_there_once() -> None:
    names = [measure.name for measure in (*PLACED, *EXTRA)]
    assert len(set(names)) == len(names) and not set(names) & set(OTHER_ENTRIES)
    assert {measure.over_all for measure in PLACED} <= {"", *names}


def test_comparisons_name_four_measures_and_those_of_the_run() -> None:
    assert [compared_by(word).name for word in ("final", "best", "bottom", "validation")] == list(
        COMPARED
    )
    own = [Measure("gap", direction="lower"), Measure("age", direction="neither")]
    assert compared_by("gap", own) is own[0]
    with pytest.raises(ConfigError, match="unknown measure 'fianl'; did you mean 'final'"):
        compared_by("fianl", own)
    with pytest.raises(ConfigError, match="'age' does not define which direction is better"):
        compared_by("age", own)


def test_damaged_descriptions_are_left_out() -> None:
    entries = [
        {"name": "gap", "title": "a gap", "digits": 2},
        {"name": 3},
        {"title": "no name"},
        "text",
        {"name": "A"},
    ]
    (gap,) = measures_in({"run": {"measures": entries}})
    assert (gap.name, gap.title, gap.digits) == ("gap", "a gap", 2)
    assert (
        measures_in({}) == measures_in({"run": 3}) == measures_in({"run": {"measures": 3}}) == EXTRA
    )


def test_a_measure_is_a_value() -> None:
    assert Measure("gap") == Measure("gap") != Measure("gap", unit="share")
    assert dataclasses.replace(MEASURES["ari"]) == MEASURES["ari"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0.0"),
        (224, "0.00022"),
        (21_024, "0.021"),
        (99_999, "0.1"),
        (100_000, "0.1"),
        (1_540_000, "1.5"),
    ],
)
def test_little_traffic_is_not_zero(count: int | None, text: str) -> None:
    assert megabytes(count) == text
