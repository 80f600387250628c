"""What the page opens with, and the notes on it: sentences whose numbers are those of runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fedkin.core.errors import ConfigError
from papers import findings
from papers.catalogue import PAPERS, tables
from papers.fedgroup.recipes import FEMNIST, FEMNIST_FIVE, METHODS, PUBLISHED
from papers.fedsim.recipes import SYNTHETIC, UNMATCHED
from papers.flexcfl.recipes import MNIST
from papers.notes import PLACE, fill
from papers.recipe import Setting
from papers.results_page import page

Lines = list[dict[str, Any]]
SWAPPED = f"{MNIST.row}: swap all"


def line(column: str, table: str = "III", row: str = MNIST.row, seed: int = 0, **figures: Any) -> dict[str, Any]:
    return {"table": table, "row": row, "column": column, "seed": seed, **figures}


def leading(ifca: float = 0.96, slip: float = 0.85) -> Lines:
    best = {"IFCA": ifca, "FlexCFL": 0.95, "IFCA, by samples": 0.957, "IFCA, first client": slip, "FedAvg": 0.9}
    down = {"IFCA": 300, "FlexCFL": 126, "FedAvg": 100}
    return [line(c, best=b, bytes_down=down.get(c, 1), bytes_up=100) for c, b in best.items()]


def detecting(blind: float = 0.8) -> Lines:
    seen = {"FlexCFL": (blind, 0.92), "FlexCFL, label-aware": (0.98, 0.93)}
    return [line(c, "IV", SWAPPED, moves_noticed=s, best=b) for c, (s, b) in seen.items()]


def indices(*, of_alpha_1: float = 2.0) -> Lines:
    """The index is 1, 1.5 and 2 by beta, whatever alpha is."""
    rows = [(a, b, 1.0 + float(b)) for a in ("0", "0.5", "1") for b in ("0", "0.5", "1")]
    return [line(a, "Fig. 10", f"beta {b}", pni=of_alpha_1 if (a, b) == ("1", "1") else pni) for a, b, pni in rows]


def gaining(setting: Setting, table: str, gain: int) -> Lines:
    """Points that FedSim gains over FedAvg in both rounds, in round 0 none; on each draw."""
    return [
        line(c, table, setting.row, seed, right=[10, 50 + points, 50 + points], tested=100)
        for c, points in {"FedAvg": 0, "FedSim": gain}.items()
        for seed in range(len(setting.draws))
    ]


def drawn(matched: int, others: int) -> Lines:
    one = gaining(SYNTHETIC["(1, 1)"], "7", matched)
    return [*one, *gaining(UNMATCHED["(1, 1)"], "7", others)]


def flattering(final_of_fedavg: float = 0.80) -> Lines:
    scores = {"FedAvg": (0.9, final_of_fedavg), "FedProx": (0.9, 0.88), "FlexCFL": (0.96, 0.95)}
    return [line(c, best=best, final=final) for c, (best, final) in scores.items()]


def of_labels(three: float = 0.5, five: float = 6.0) -> Lines:
    """FedGroup's six methods, so many points above what the paper prints."""
    return [
        line(column, row=setting.row, best=((printed or 0) + points) / 100)
        for setting, points in ((FEMNIST, three), (FEMNIST_FIVE, five))
        for column, printed in zip(METHODS, PUBLISHED[setting], strict=True)
    ]


def slipping(slip: float = 0.5) -> Lines:
    """IFCA and FeSEM on MNIST, so many points above 94.2 and 84.6."""
    above = {"": 2.0, ", first client": slip, ", by samples": 1.0}
    return [
        line(f"{method}{how}", best=(printed + points) / 100)
        for method, printed in (("IFCA", 94.2), ("FeSEM", 84.6))
        for how, points in above.items()
    ]


BORNE_OUT = {
    "the slip": (
        "flexcfl",
        slipping(),
        "FeSEM is 0.5 points from the paper in the mean of 1 numbers with it, 2.0 where all clients count alike, 1.0",
    ),
    "IFCA ahead": ("flexcfl", leading(), "(96.0 and 95.0%; by numbers of samples 95.7), at 2.00 times FedAvg's bytes"),
    "and FlexCFL's bytes": ("flexcfl", leading(), "FlexCFL takes 1.13. With the slip"),
    "a fifth": ("flexcfl", detecting(), "it detects 80% on MNIST-MCLR, a test that compares labels class by class 98%"),
    "three labels": ("fedgroup", of_labels(), "six methods are 0.5 points from the paper in the mean, with five 6.0"),
    "alpha": ("fedsim", indices(), "equal in all 1 draws, and grows with beta from 1.00 to 2.00"),
    "the draw": (
        "fedsim",
        drawn(-5, 3),
        "it gains -5.0 points (-5.0 to -5.0) over FedAvg, on 5 others +3.0 points (+3.0 to +3.0)",
    ),
    "best rounds": ("flexcfl", flattering(), "10.0 points (FedAvg), 2.0 points (FedProx), 1.0 points (FlexCFL)"),
}


@pytest.mark.parametrize(("paper", "runs", "words"), BORNE_OUT.values(), ids=BORNE_OUT)
def test_a_finding_has_the_numbers_of_its_runs_and_a_command(paper: str, runs: Lines, words: str) -> None:
    title, where, found = findings.section({paper: runs}).split("\n\n")
    assert title == "## What was learned" and where == findings.WHERE and found.startswith("1. **")
    assert words in found, found
    (command,) = re.findall(r"`fedkin reproduce (\S+)[^`]*`", found)
    assert command in tables()


REFUTED = {
    "weights by samples fit better": ("flexcfl", slipping(slip=1.1)),
    "FeSEM was not run": ("flexcfl", slipping()[:3]),
    "IFCA behind": ("flexcfl", leading(ifca=0.94)),
    "the slip does no harm": ("flexcfl", leading(slip=0.955)),
    "one column is not run": ("flexcfl", leading()[:-2]),
    "the test sees half": ("flexcfl", detecting(0.5)),
    "the test sees all": ("flexcfl", detecting(0.97)),
    "five labels are as near": ("fedgroup", of_labels(2.0, 2.0)),
    "five labels are not run": ("fedgroup", of_labels()[:6]),
    "alpha does something": ("fedsim", indices(of_alpha_1=2.01)),
    "one index is not run": ("fedsim", indices()[:-1]),
    "both draws gain": ("fedsim", drawn(2, 3)),
    "both draws lose": ("fedsim", drawn(-5, -3)),
    "best rounds are like the last": ("flexcfl", flattering(0.885)),
    "nothing is run": ("flexcfl", []),
}


@pytest.mark.parametrize(("paper", "runs"), REFUTED.values(), ids=REFUTED)
def test_a_finding_that_the_runs_do_not_bear_out_does_not_stand(paper: str, runs: Lines) -> None:
    assert findings.section({paper: runs}) == ""


def test_the_page_opens_with_the_findings_and_then_the_share() -> None:
    text = page({"flexcfl": [*leading(), *detecting()]}, {})
    places = [text.index(part) for part in ("## What was learned", "1. **", "2. **", "## How much was reproduced")]
    assert places == sorted(places) and "3. **" not in text[: places[-1]]


# --- notes


def runs_of(column: str, *best: float) -> Lines:
    """Runs of FlexCFL's Table III on MNIST-MCLR, as stored."""
    job = next(j for j in PAPERS["flexcfl"].jobs() if (j.key["table"], j.row, j.column) == ("III", MNIST.row, column))
    of_each = enumerate(best)
    return [
        line(column, seed=s, best=b, final=b - 0.1, bytes_up=2000) | {"setting": job.setting(s)} for s, b in of_each
    ]


PLACES = {
    "{flexcfl-table3; MNIST-MCLR; FedAvg}": "90.0",
    "{ flexcfl-table3 ;MNIST-MCLR;FedAvg }": "90.0",
    "{flexcfl-table3; MNIST-MCLR; FedAvg; final}": "80.0",
    "{flexcfl-table3; MNIST-MCLR; FedAvg; final range}": "79.0 to 81.0",
    "{flexcfl-table3; MNIST-MCLR; FedAvg; bytes_up}": "2,000",
    "{flexcfl-table3; MNIST-MCLR; FedProx}": "(not run)",
    "{flexcfl-table3; MNIST-MCLR; FedProx; final}": "(not run)",
    "{flexcfl-table3; MNIST-MCLR; FedAvg; rounds_to_85}": "(not run)",
}


@pytest.mark.parametrize(("place", "shown"), PLACES.items())
def test_a_place_in_a_note_is_filled_from_the_runs(place: str, shown: str) -> None:
    assert fill(f"It has {place}%.", PAPERS["flexcfl"], runs_of("FedAvg", 0.89, 0.91)) == f"It has {shown}%."


def test_a_run_of_another_setting_fills_no_place() -> None:
    (old,) = runs_of("FedAvg", 0.5)
    note = "{flexcfl-table3; MNIST-MCLR; FedAvg; final}"
    assert fill(note, PAPERS["flexcfl"], [old | {"setting": "0123456789ab"}]) == "(not run)"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("{flexcfl-tabel3; MNIST-MCLR; FedAvg}", "unknown table 'flexcfl-tabel3'; did you mean 'flexcfl-table3'"),
        ("{fedgroup-table3; MNIST-MCLR; FedAvg}", "unknown table 'fedgroup-table3'"),  # of another paper
        ("{flexcfl-table3; MNIST-MCRL; FedAvg}", "unknown cell 'MNIST-MCRL; FedAvg'"),
        ("{flexcfl-table3; MNIST-MCLR; FedSGD; final}", "unknown cell 'MNIST-MCLR; FedSGD'"),
    ],
)
def test_a_place_that_is_not_there_is_refused(place: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        fill(place, PAPERS["flexcfl"], [])


def test_a_note_without_places_stays_as_it_is() -> None:
    assert fill("Plain *words*; no {}.", PAPERS["flexcfl"], []) == "Plain *words*; no {}."
    assert not PLACE.search("{}")
