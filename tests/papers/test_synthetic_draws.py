"""Draws of Synthetic(alpha, beta) that resemble the papers' own: the rule, and the seeds that are
stored."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from fedkin.data.partition_options import legacy_random
from fedkin.data.synthetic import generate, synthetic
from papers import synthetic_draws as draws
from papers.synthetic_draws import (
    PRINTED,
    ROWS,
    Row,
    fits,
    label_measures,
    matched,
    search,
    size_measures,
    unmatched,
)
from tests.conftest import ROOT

FEDGROUP = ROWS[0]
FEDSIM = ROWS[1:]
IDS = [f"{row.papers[0]} {row.name}" for row in ROWS]
STORED = json.loads(draws.STORE.read_text(encoding="utf-8"))
STORED_ROWS = [
    pytest.param(row, entry, id=name) for row, entry, name in zip(ROWS, STORED, IDS, strict=True)
]
# 6 + 3 + 1 of 15 samples have their client's most frequent label.
THREE_CLIENTS = np.array([[6, 4], [1, 3], [0, 1]])


def test_a_draw_is_measured_as_by_hand() -> None:
    assert size_measures(np.array([3, 40, 7, 10])) == {
        "test samples": 60,
        "largest client": 40,
        "three largest clients": 57,
    }
    # Not the mean of the clients' shares (0.78), nor the share of the most frequent label of all
    # (0.53).
    assert label_measures(THREE_CLIENTS) == {"purity": 0.6667, "purity of the largest client": 0.6}


@pytest.mark.parametrize(
    ("name", "target", "inside", "outside"),
    [
        ("samples", PRINTED, 75_725, 75_726),  # 0.5% of 75,349 are 376.7
        ("samples", PRINTED, 74_973, 74_972),
        ("test samples", 1084, 1138, 1139),
        ("largest client", 662, 596, 595),
        ("three largest clients", 757, 832, 833),
        ("purity", 0.5904, 0.6203, 0.6205),
        ("purity of the largest client", 0.5, 0.4001, 0.3999),
    ],
)
def test_a_draw_just_outside_a_margin_is_refused(
    name: str, target: float, inside: float, outside: float
) -> None:
    assert fits({name: inside}, {name: target})
    assert not fits({name: outside}, {name: target})


def test_the_printed_size_fits_two_known_draws_and_not_the_first() -> None:
    sizes = {seed: draws.measures_of_sizes(FEDGROUP, seed)["samples"] for seed in (0, 130, 670)}
    assert sizes == {0: 41_159, 130: 75_203, 670: 75_468}
    assert {130, 670} <= set(matched("fedgroup", "(1, 1)"))
    assert matched("flexcfl", "(1, 1)") == matched("fedgroup", "(1, 1)")


@pytest.mark.parametrize("row", [FEDGROUP, FEDSIM[-1]], ids=lambda row: row.papers[0])
def test_sizes_are_those_of_the_federation(row: Row) -> None:
    data = synthetic(clients=row.clients, seed=3, **row.options)
    drawn = generate(1.0, 1.0, row.clients, legacy_random(3)).sizes
    assert (
        draws.client_sizes(3, row.clients).tolist()
        == drawn.tolist()
        == (data.train.sizes + data.test.sizes).tolist()
    )
    expected = size_measures(data.test.sizes) if row.file else {"samples": len(data.y)}
    assert draws.measures_of_sizes(row, 3) == expected


@pytest.mark.parametrize(("row", "entry"), STORED_ROWS)
def test_the_chosen_draws_match(row: Row, entry: dict) -> None:
    assert (len(entry["matched"]), len(entry["unmatched"])) == (row.matched, 5)
    for draw in entry["matched"][:1] + entry["matched"][-1:]:
        found = draws.measures_of_sizes(row, draw["seed"]) | draws.measures_of_labels(
            row, draw["seed"]
        )
        assert draw == {"seed": draw["seed"], **found}
    for draw in entry["matched"]:
        assert fits({name: draw[name] for name in entry["target"]}, entry["target"])
    for draw in entry["unmatched"]:
        assert not fits({name: draw[name] for name in entry["target"]}, entry["target"])


@pytest.mark.parametrize(("row", "entry"), STORED_ROWS)
def test_no_lower_seed_was_passed_over(row: Row, entry: dict) -> None:
    chosen = [draw["seed"] for draw in entry["matched"]]
    assert set(chosen) <= set(entry["sizes_fit"])
    assert entry["tried"] == chosen[-1] + 1 == entry["sizes_fit"][-1] + 1
    for seed in np.linspace(0, chosen[-1], 200, dtype=int).tolist():
        assert fits(draws.measures_of_sizes(row, seed), entry["target"]) == (
            seed in entry["sizes_fit"]
        )
    refused = [seed for seed in entry["sizes_fit"] if seed not in chosen]
    for seed in refused[:: max(1, len(refused) // 3)]:
        assert not fits(draws.measures_of_labels(row, seed), entry["target"])


def test_no_draw_belongs_to_two_rows() -> None:
    seeds = [set(matched(row.papers[0], row.name)) for row in FEDSIM]
    assert all(not a & b for a, b in itertools.combinations(seeds, 2))
    # Thirteen draws of (0.75, 0.75) and of (1, 1), five of each of the other four.
    assert len(set().union(*seeds)) == 2 * 13 + 4 * 5


def test_matched_and_unmatched_draws_are_named_by_paper_and_row() -> None:
    for row in ROWS:
        seeds = matched(row.papers[0], row.name) + unmatched(row.papers[0], row.name)
        assert len(set(seeds)) == row.matched + 5
    assert matched("fedsim", "(1, 1)") != matched("fedgroup", "(1, 1)")
    with pytest.raises(
        KeyError, match=r"no draws for fedsim \(2, 2\); there are: fedgroup \(1, 1\), flexcfl"
    ):
        matched("fedsim", "(2, 2)")


def test_the_search_gives_the_stored_draws() -> None:
    assert json.loads(json.dumps(search(FEDGROUP))) == STORED[0]


@pytest.mark.parametrize(("row", "entry"), STORED_ROWS)
def test_the_margins_stored_are_those_of_the_code(row: Row, entry: dict) -> None:
    assert entry["margins"] == {
        name: (draws.RELATIVE | draws.ABSOLUTE)[name] for name in entry["target"]
    }
    assert (entry["papers"], entry["row"]) == (list(row.papers), row.name)


def test_targets_are_those_of_the_published_files(shared_data: Path) -> None:
    totals = {row.name: draws.published(row)["test samples"] for row in FEDSIM}
    assert totals == {  # FACTS 3.3
        "IID": 805,
        "(0, 0)": 516,
        "(0.25, 0.25)": 792,
        "(0.5, 0.5)": 912,
        "(0.75, 0.75)": 1088,
        "(1, 1)": 1084,
    }
    assert [draws.published(row) for row in ROWS] == [entry["target"] for entry in STORED]
    one = draws.published(FEDSIM[-1])
    assert (one["largest client"], round(one["purity"], 2)) == (662, 0.59)


def test_the_table_names_every_row_its_target_and_its_seeds() -> None:
    text = draws.markdown_table()
    for row in ROWS:
        assert f"**{', '.join(row.papers)}: {row.name}**" in text
        assert "; ".join(map(str, matched(row.papers[0], row.name))) in text
    assert "| samples | 75,349 | ± 0.5% |" in text
    assert "| purity | 0.59 | ± 0.03 |" in text


def test_the_page_says_how_near_the_draws_are_to_the_printed_size() -> None:
    """No draw has exactly the printed samples of FedGroup."""
    (entry,) = (entry for entry in STORED if "fedgroup" in entry["papers"])
    gaps = [abs(draw["samples"] / PRINTED - 1) for draw in entry["matched"]]
    assert 0 < min(gaps) and max(gaps) <= 0.005
    page = (ROOT / "docs/results-fedgroup.md").read_text()
    assert f"five draws within 0.5% of the printed {PRINTED:,} samples" in page


def test_two_rows_have_eight_more_draws_and_the_page_says_so() -> None:
    matched = {row.name: row.matched for row in ROWS if "fedsim" in row.papers}
    more = [name for name, number in matched.items() if number > draws.DRAWS]
    assert more == ["(0.75, 0.75)", "(1, 1)"] and draws.MORE - draws.DRAWS == 8
    page = (ROOT / "docs/results-fedsim.md").read_text()
    assert f"Eight more of {' and '.join(more)} were added after training" in page
