"""Claims of the papers: their quotes, the rules of the verdicts, and the table."""

from __future__ import annotations

import csv
import io
import re
import shlex
from dataclasses import replace
from math import sqrt
from statistics import mean

import pytest

from fedkin.core.errors import ConfigError
from papers import claims, claims_csv
from papers.athena.numbers import finds_true_clusters
from papers.catalogue import tables
from papers.claims import CLAIMS, counts, counts_in_words, keys, markdown_tables
from papers.claims.claim import SKIPPED, Claim, judge
from papers.claims.fedgroup import PRINTED, ROWS
from papers.claims.fedsim import gain_by_seed, steps_by_seed
from papers.claims.rules import (
    ABOVE,
    BELOW,
    EVERY,
    MOST,
    NOT_BEHIND,
    Rule,
    Verdict,
    at_least,
    between,
    gain,
    ratio,
    similar,
)
from papers.claims.samples import Sample, lowest, sample_of
from papers.claims.table import value
from papers.fedgroup.recipes import MNIST
from papers.fedgroup.sent140_recipes import TWEETS
from papers.fedsim.recipes import GOODREADS
from papers.table_request import request_table
from tests.conftest import SHARED
from tests.papers.claim_runs import bad_values, cell_line, every_run, good_values, made_up

REPRODUCED, PARTLY, UNDECIDED, NOT, NOT_ATTEMPTED = Verdict
TEXTS = {
    "FedGroup": "fedgroup.txt",
    "FlexCFL": "flexcfl.txt",
    "FedSim": "fedsim.txt",
    "ATHENA-FL": "athena.txt",
    "PANM": "panm.txt",
}
of_each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.quote[:40])


# --- the claims


@of_each_claim
def test_the_quote_is_in_the_paper(claim: Claim) -> None:
    path = SHARED / "papers" / TEXTS[claim.paper]
    if not path.exists():
        pytest.skip("the texts of the papers are not here")
    text = re.sub(r"\s+", " ", path.read_text().replace("*", ""))
    assert [piece for piece in claim.quote.split(SKIPPED) if piece not in text] == []


@of_each_claim
def test_its_runs_are_in_the_catalogue(claim: Claim) -> None:
    cells = {(job.row, job.column) for job in tables()[claim.table][1].jobs}
    for part in claim.parts:
        assert {(row, column) for row in part.rows for column in part.columns} <= cells


@of_each_claim
def test_without_runs_it_is_not_attempted(claim: Claim) -> None:
    judgement = judge(claim, {})
    assert judgement.verdict == NOT_ATTEMPTED
    assert judgement.cost.estimated
    assert judgement.cost.minutes > 0


@of_each_claim
@pytest.mark.parametrize("attempted", [False, True])
def test_the_command_selects_the_runs_behind_the_evidence(claim: Claim, attempted: bool) -> None:
    lines = made_up(claim, good_values(claim)) if attempted else []
    judgement = judge(claim, {claim.store: lines})
    words = shlex.split(judgement.command)
    options = dict(zip(words[3::2], words[4::2], strict=True))
    request = request_table(
        words[2],
        rows=[options["--rows"]] if "--rows" in options else (),
        columns=[options["--columns"]] if "--columns" in options else (),
    )
    open_parts = [part for part in claim.parts if not part.barred] if attempted else []
    parts = open_parts or claim.parts
    assert {job.row for job in request.jobs} == {row for part in parts for row in part.rows}
    columns = {column for part in parts for column in part.columns}
    assert {job.column for job in request.jobs} == columns


def test_printed_numbers_are_those_that_the_text_names() -> None:
    """FedGroup: -11.06 on average by RAC. FlexCFL: +40.9 over FeSEM, +10.5 with eta_g."""
    printed = [setting.row for setting in ROWS if (setting.row, "RAC") in PRINTED]
    random = [PRINTED[row, "RAC"] - PRINTED[row, "FedGroup"] for row in printed]
    assert mean(random) == pytest.approx(-11.06)
    gains = [part.printed for part in with_quote("+5.2% on MNIST").parts]
    assert gains == pytest.approx([5.2, 14.7])
    assert [part.printed for part in with_quote("Sentiment140").parts] == pytest.approx([5.4])
    fesem, eta = (
        mean(part.printed or 0 for part in with_quote(words).parts)
        for words in ("compared to FedSEM", "swap part setting")
    )
    assert fesem == pytest.approx(40.93, abs=0.01)
    assert eta == pytest.approx(10.57, abs=0.01)


def test_printed_counts_are_those_of_the_tables() -> None:
    """FedGroup is ahead of FedGrouProx in all rows of Table III but MNIST-MCLR. SBRC: DBSCAN finds
    1, 5 and 2 clusters, and OPTICS 5, 5 and 2."""
    proximal = with_quote("higher than FedGrouProx")
    assert [part.label for part in proximal.parts if (part.printed or 0) < 0] == ["MNIST-MCLR"]
    assert len(proximal.parts) == 6
    assert [part.printed for part in with_quote("DBSCAN").parts] == [3.0, 2.0]


def with_quote(words: str) -> Claim:
    return next(claim for claim in CLAIMS if words in claim.quote)


# --- rules


def around(center: float, spread: float = 0.0) -> Sample:
    """Five values; their 95% interval is ``center`` +- 1.242 ``spread``."""
    steps = [-sqrt(2), 0.0, 0.0, 0.0, sqrt(2)]
    return Sample(tuple(center + spread * step for step in steps), seeds=5, draws=5)


RULES: dict[str, tuple[Rule, Sample, Verdict]] = {
    "gain": (gain(5.2), around(5.0, 1.0), REPRODUCED),
    "gain, at the margin": (gain(5.2), around(3.7, 1.0), REPRODUCED),
    "gain, too small": (gain(5.2), around(3.6, 1.0), PARTLY),
    "gain, too large": (gain(5.2), around(6.8, 1.0), PARTLY),
    "gain, within a quarter": (gain(14.7), around(11.1, 1.0), REPRODUCED),
    "gain, beyond a quarter": (gain(14.7), around(10.9, 1.0), PARTLY),
    "gain, 0 just outside the interval": (gain(5.2), around(5.0, 4.0), REPRODUCED),
    "gain, 0 just inside the interval": (gain(5.2), around(5.0, 4.1), UNDECIDED),
    "gain, 0 inside and printed just inside": (gain(5.2), around(2.0, 2.6), UNDECIDED),
    "gain, 0 inside and printed just outside": (gain(5.2), around(2.0, 2.5), NOT),
    "loss": (gain(-7.6), around(-6.4, 1.0), REPRODUCED),
    "loss that is a gain": (gain(-7.6), around(6.4, 1.0), NOT),
    "small gain that is 0": (gain(0.5), around(0.0, 0.1), NOT),
    "small gain that may be 0": (gain(0.5), around(0.0, 0.5), UNDECIDED),
    "similar": (similar(4.3), around(5.8), REPRODUCED),
    "more similar than printed": (similar(4.3), around(0.1), REPRODUCED),
    "similar, on the other side": (similar(4.3), around(-5.8), REPRODUCED),
    "not similar": (similar(4.3), around(5.9), NOT),
    "not similar, on the other side": (similar(-4.3), around(5.9), NOT),
    "ratio": (ratio(5.48), around(5.38), REPRODUCED),
    "another ratio": (ratio(5.48), around(5.36), NOT),
    "between": (between(4, 15), around(15.0), REPRODUCED),
    "not between": (between(4, 15), around(15.1), NOT),
    "at least": (at_least(0.9), around(0.9), REPRODUCED),
    "less": (at_least(0.9), around(0.89), NOT),
    "above": (ABOVE, around(1.25, 1.0), REPRODUCED),
    "perhaps above": (ABOVE, around(1.23, 1.0), UNDECIDED),
    "perhaps above, the mean below": (ABOVE, around(-1.23, 1.0), UNDECIDED),
    "not above": (ABOVE, around(-1.25, 1.0), NOT),
    "always 0": (ABOVE, around(0.0), NOT),
    "below": (BELOW, around(-1.25, 1.0), REPRODUCED),
    "not below": (BELOW, around(1.25, 1.0), NOT),
    "not behind": (NOT_BEHIND, around(-0.2, 1.0), REPRODUCED),
    "perhaps behind": (NOT_BEHIND, around(-0.3, 1.0), UNDECIDED),
    "behind": (NOT_BEHIND, around(-2.8, 1.0), NOT),
    "no values": (ABOVE, Sample(), NOT_ATTEMPTED),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_flips_at_its_bound(name: str) -> None:
    rule, sample, verdict = RULES[name]
    assert rule.verdict(sample) == verdict


def test_two_values_are_at_most_partly() -> None:
    two, three = (Sample((1.0,) * number) for number in (2, 3))
    assert ABOVE.verdict(two) == PARTLY
    assert ABOVE.verdict(three) == REPRODUCED
    assert BELOW.verdict(two) == NOT


def test_seeds_that_share_cohorts_have_no_interval_and_are_at_most_partly() -> None:
    """As on FedSim's own data: neighbouring seeds share all but one cohort."""
    values = (1.0, 1.1, 1.2, 1.3, 1.4)
    sample = Sample(values, seeds=5, draws=1, independent=False)
    assert value(sample, "+.1f") == "+1.2"
    assert ABOVE.verdict(sample) == PARTLY and BELOW.verdict(sample) == NOT
    claim = with_quote("moderate non-IID settings")
    judgement = judge(claim, {claim.store: made_up(claim, good_values(claim))})
    assert [sample.independent for sample in judgement.samples] == [False, False, True]
    assert judgement.verdicts == (PARTLY, PARTLY, REPRODUCED)


def test_the_parts_give_the_verdict() -> None:
    assert EVERY.verdict([REPRODUCED, REPRODUCED]) == REPRODUCED
    assert EVERY.verdict([REPRODUCED, NOT]) == PARTLY
    assert EVERY.verdict([REPRODUCED, NOT, NOT]) == NOT
    assert EVERY.verdict([PARTLY, NOT]) == PARTLY
    assert EVERY.verdict([REPRODUCED, NOT_ATTEMPTED]) == PARTLY
    assert EVERY.verdict([NOT, NOT_ATTEMPTED]) == NOT
    assert EVERY.verdict([NOT_ATTEMPTED]) == NOT_ATTEMPTED
    assert EVERY.verdict([REPRODUCED, UNDECIDED]) == PARTLY
    assert EVERY.verdict([NOT, UNDECIDED]) == UNDECIDED
    assert EVERY.verdict([NOT, NOT, UNDECIDED]) == NOT
    assert EVERY.verdict([REPRODUCED, NOT, NOT, UNDECIDED]) == UNDECIDED
    assert EVERY.verdict([REPRODUCED, NOT, UNDECIDED, UNDECIDED]) == PARTLY
    assert EVERY.verdict([NOT, UNDECIDED, UNDECIDED]) == UNDECIDED
    assert MOST.verdict([REPRODUCED, UNDECIDED, UNDECIDED, UNDECIDED]) == UNDECIDED
    assert MOST.verdict([REPRODUCED, REPRODUCED, NOT]) == REPRODUCED
    assert MOST.verdict([REPRODUCED, NOT]) == PARTLY
    assert MOST.verdict([REPRODUCED, REPRODUCED, NOT_ATTEMPTED, NOT]) == PARTLY


# --- samples


def test_seeds_of_a_draw_are_one_value() -> None:
    """Ten seeds on five draws: seeds s and s + 5 share a draw."""
    by_seed = {seed: float(seed) for seed in range(10)}
    sample = sample_of(by_seed, MNIST)
    assert sample.values == (2.5, 3.5, 4.5, 5.5, 6.5)
    assert (sample.seeds, sample.draws) == (10, 5)


def test_seeds_of_the_only_draw_are_values() -> None:
    sample = sample_of({0: 1.0, 1: 2.0, 2: 3.0}, GOODREADS)
    assert sample.values == (1.0, 2.0, 3.0)
    assert (sample.seeds, sample.draws) == (3, 1)
    # Student's t with two degrees of freedom: 4.3027 / sqrt(3).
    assert sample.bounds == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert sample.deviation == 1.0


def test_a_gain_over_both_is_over_the_better_one() -> None:
    """Better by its mean, as in a printed table: the gain is no mean of the lower ones of each
    seed, 1 and 2. Seed 2 lacks a baseline."""
    gaps = [{0: 1.0, 1: 5.0, 2: 9.0}, {0: 3.0, 1: 2.0}]
    assert lowest(gaps, GOODREADS) == Sample((3.0, 2.0), seeds=2, draws=1)


def test_fedsims_gain_is_divided_by_the_rounds_without_the_first() -> None:
    """Gaps of 0, 1 and 2 points: 3 / 2, and not their mean."""
    lines = [
        cell_line("4", GOODREADS.row, "FedSim", 0, right=[50, 61, 72], tested=100),
        cell_line("4", GOODREADS.row, "FedAvg", 0, right=[50, 60, 70], tested=100),
    ]
    assert gain_by_seed(lines, GOODREADS, "FedSim", "FedAvg") == {0: pytest.approx(1.5)}


def test_clusters_are_found_whatever_their_labels() -> None:
    assert finds_true_clusters([1] * 5 + [0] * 5, 2)
    assert finds_true_clusters([3] * 10, 1)
    assert not finds_true_clusters([1] * 4 + [0] * 6, 2)
    assert not finds_true_clusters([0] * 5 + [1] * 4 + [-1], 2)
    assert not finds_true_clusters([0] * 10, 2)
    assert not finds_true_clusters([0, 0, 1, 1, 1, 2, 2, 2, 2, 2], 2)


# --- verdicts from runs that are made up


def open_to_runs(claim: Claim) -> Claim:
    """The claim as if the recipes had the paper's size."""
    return replace(claim, parts=tuple(replace(part, barred="") for part in claim.parts))


@of_each_claim
def test_the_verdict_follows_the_runs(claim: Claim) -> None:
    claim = open_to_runs(claim)
    good = made_up(claim, good_values(claim))
    bad = made_up(claim, bad_values(claim))
    judgement = judge(claim, {claim.store: good})
    independent = all(sample.independent for sample in judgement.samples)
    assert judgement.verdict == (REPRODUCED if independent else PARTLY)
    assert judge(claim, {claim.store: bad}).verdict == NOT


@of_each_claim
def test_three_values_are_needed(claim: Claim) -> None:
    claim = open_to_runs(claim)
    first = [line for line in made_up(claim, good_values(claim)) if line["seed"] == 0]
    assert judge(claim, {claim.store: first}).verdict == PARTLY


@pytest.mark.parametrize(
    "words", ["Sentiment140", "first cluster", "best accuracy results", "transmitted bytes"]
)
def test_runs_of_other_size_or_data_are_no_evidence(words: str) -> None:
    claim = with_quote(words)
    runs = {claim.store: made_up(claim, good_values(claim))}
    assert judge(claim, runs).verdict == NOT_ATTEMPTED
    assert judge(claim, runs).samples == (Sample(),) * len(claim.parts)


def test_a_part_that_cannot_be_run_keeps_a_claim_from_reproduced() -> None:
    """Fed-MEx has only its test part."""
    claim = with_quote("on all four datasets")
    assert judge(claim, {claim.store: made_up(claim, good_values(claim))}).verdict == PARTLY


def test_the_size_of_a_gain_counts() -> None:
    claim = with_quote("compared to FedSEM")
    runs = made_up(claim, [12.8, 12.4, 12.0])
    assert judge(claim, {claim.store: runs}).verdict == PARTLY


def test_less_than_half_of_the_parts_is_not() -> None:
    """PANM on four of ten federations, and on five."""
    claim = with_quote("few neighbors")
    assert judge(claim, {"peers": made_up(claim, [100.0] * 4 + [50.0] * 6)}).verdict == NOT
    assert judge(claim, {"peers": made_up(claim, [100.0] * 5 + [50.0] * 5)}).verdict == PARTLY


# --- cost and table


def test_cost_is_the_stored_time_of_the_runs_behind_the_evidence() -> None:
    claim = with_quote("+5.2% on MNIST")
    lines = made_up(claim, good_values(claim))
    timed = [{**line, "seconds": 30.0} for line in lines]
    other = cell_line("III", MNIST.row, "RAC", 0, best=0.5, seconds=1e6)
    cost = judge(claim, {"fedgroup": [*timed, other]}).cost
    assert cost.minutes == pytest.approx(len(lines) / 2)
    assert not cost.estimated


def test_cost_without_stored_time_is_an_estimate() -> None:
    claim = with_quote("Sentiment140")
    cost = judge(claim, {}).cost
    assert cost.minutes == pytest.approx(3 * TWEETS.seconds / 60)  # FedGroup and two baselines
    assert cost.estimated
    assert "(estimate)" in markdown_tables({})


def test_the_tables_have_a_row_for_each_claim() -> None:
    for results in ({}, every_run()):
        lines = markdown_tables(results).splitlines()
        tables_ = [line for line in lines if line.startswith("|")]
        assert {line.count("|") for line in tables_} == {7}
        rows = [line for line in tables_ if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == list(keys())


def test_a_row_shows_each_part_with_its_interval_printed_number_and_verdict() -> None:
    claim = with_quote("+5.2% on MNIST")
    lines = made_up(claim, [4.0, 8.0])
    row = next(r for r in markdown_tables({"fedgroup": lines}).splitlines() if claim.quote in r)
    # Five draws with a deviation of 0.2: 2.7764 * 0.2 / sqrt(5).
    assert "<br>MNIST-MCLR +4.0 [+3.8, +4.2] (+5.2) ✓<br>" in row
    assert "<br>FEMNIST†-MLP +8.0 [+7.8, +8.2] (+14.7) ~<br>" in row
    assert "<br>(5–10 seeds, 5 draws) | size | **partly**: 1 ✓, 1 ~ |" in row


def test_untested_parts_are_named_and_shortened_runs_are_shown() -> None:
    claim = with_quote("RAC strategy leads to a significant decrease in accuracy")
    runs = made_up(claim, good_values(claim))
    rows = markdown_tables({"fedgroup": [r for r in runs if "Sent140" not in r["row"]]})
    row = next(r for r in rows.splitlines() if claim.quote in r)
    assert "untested: Sent140-LSTM (needs Sentiment140, GloVe)" in row
    assert "4 ✓, 1 untested" in row
    claim = with_quote("approximately 16%")
    rows = markdown_tables({"athena": made_up(claim, [50.0])})
    row = next(r for r in rows.splitlines() if claim.quote in r)
    assert "not judged (only 40 rounds, 500 images a client): 2 classes, CIFAR-10 +50.0" in row
    assert "**not attempted**" in row


def test_changes_from_round_to_round_are_of_the_second_half() -> None:
    """Changes of 1 and 3 points after the middle, against none; 50 points before do not count."""
    lines = [
        cell_line("4", GOODREADS.row, "FedSim", 0, right=[0, 50, 50, 51, 48], tested=100),
        cell_line("4", GOODREADS.row, "FedAvg", 0, right=[0, 0, 50, 50, 50], tested=100),
    ]
    assert steps_by_seed(lines, GOODREADS, "FedSim", "FedAvg") == {0: pytest.approx(2.0)}


@of_each_claim
def test_a_key_selects_the_runs_behind_the_evidence(claim: Claim) -> None:
    """By the stored runs of the checkout, as the command in papers/claims.csv."""
    key = next(name for name, each in keys().items() if each is claim)
    stored = claims.request(key).stored().runs
    words = shlex.split(judge(claim, {claim.store: stored}).command)
    options = dict(zip(words[3::2], words[4::2], strict=True))
    of_command = request_table(
        words[2],
        rows=[options["--rows"]] if "--rows" in options else (),
        columns=[options["--columns"]] if "--columns" in options else (),
    )
    assert claims.request(key).jobs == of_command.jobs
    assert claims.request(key).claim == key


def test_a_key_takes_no_rows_and_a_table_is_no_claim() -> None:
    with pytest.raises(ConfigError, match="fedgroup-1 is a claim, which has its rows"):
        claims.request("fedgroup-1", rows=["mnist"])
    assert claims.request("fedgroup-table3", rows=["mnist-mclr"]).claim == ""
    with pytest.raises(ConfigError, match="unknown table"):
        claims.request("fedgroup-99")


def test_the_file_of_claims_has_a_row_a_part() -> None:
    results = every_run()
    lines = list(csv.DictReader(io.StringIO(claims_csv.text(results))))
    assert tuple(lines[0]) == claims_csv.COLUMNS
    assert list(dict.fromkeys(line["key"] for line in lines)) == list(keys())
    for key, judgement in claims.judgements(results).items():
        rows = [line for line in lines if line["key"] == key]
        of_parts = [row for row in rows if row["part_verdict"] != claims_csv.SHOWN]
        assert [row["part_verdict"] for row in of_parts] == list(map(str, judgement.verdicts))
        pairs = zip(judgement.samples, judgement.uncounted, strict=True)
        seeds = [sample.seeds or barred.seeds for sample, barred in pairs]
        assert [int(row["seeds"]) for row in of_parts] == seeds
        assert {row["command"] for row in rows} == {judgement.command}


def test_verdicts_are_counted() -> None:
    claim = with_quote("+5.2% on MNIST")
    none = dict.fromkeys(Verdict, 0)
    assert counts({}) == none | {NOT_ATTEMPTED: len(CLAIMS)}
    assert counts_in_words({}) == (
        f"0 reproduced, 0 partly, 0 undecided, 0 not, {len(CLAIMS)} not attempted"
    )
    runs = {"fedgroup": made_up(claim, good_values(claim))}
    assert counts(runs) == none | {REPRODUCED: 1, NOT_ATTEMPTED: len(CLAIMS) - 1}
    # Sent140, and ATHENA-FL's four shortened recipes.
    assert counts(every_run())[NOT_ATTEMPTED] == 5


def test_what_judges_nothing_is_shown_and_changes_no_verdict() -> None:
    """FlexCFL over FeSEM as the published code runs it: 40 points, where the text gives 12."""
    claim = with_quote("compared to FedSEM")
    runs = made_up(claim, [12.8, 12.4, 12.0])
    coded = [
        cell_line("III", part.rows[0], part.columns[1], seed, best=0.1)
        for part in claim.shown
        for seed in range(5)
    ]
    judgement = judge(claim, {"flexcfl": [*runs, *coded]})
    assert judgement.verdict == PARTLY
    text = markdown_tables({"flexcfl": [*runs, *coded]})
    row = next(row for row in text.splitlines() if claim.quote in row)
    assert "<br>*over FeSEM as FlexCFL's code has it*<br>FEMNIST†-MCLR +" in row
