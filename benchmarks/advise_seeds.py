"""How often ``fedkin advise`` says the same from different seeds, on natural federations whose
answer is known.

    python -m benchmarks.advise_seeds --set churn loans
    python -m benchmarks.advise_seeds --page docs/measured-levels.md

The first writes ``benchmarks/advise_results/SET.json``; the second writes the counts into the page.
The states of ``churn`` and ``loans`` do not matter, ``employment`` has clusters, and the schools
and authorities of ``exam`` and ``chem97`` differ by levels.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import fedkin as fk
from benchmarks.tables import put_between
from fedkin.analysis.advise.pilot_runs import PilotPlan
from fedkin.analysis.clusters_or_levels import ALIKE, HELP, LEVELS
from fedkin.data.natural_federation import natural_federation

RESULTS = Path(__file__).with_name("advise_results")
EXPECTED = {
    "churn": ALIKE,
    "loans": ALIKE,
    "employment": HELP,
    "exam": LEVELS,
    "chem97": LEVELS,
}
# Pilots do not decide for linear models, so they are short.
PILOTS = PilotPlan(rounds=1, cohort=8, seeds=3)
BEGIN = "<!-- advise -->\n"
END = "<!-- end of advise -->\n"


def verdict(name: str, seed: int) -> str:
    """The verdict on clusters and levels that decides the advice from a seed."""
    data = natural_federation(set=name)
    advice = fk.advise(data, fk.models.mclr(data), seed=seed, pilots=PILOTS)
    assert advice.levels is not None
    return advice.levels.verdict


def section(folder: Path) -> str:
    """The counts as a section of a page; empty without results."""
    if not any((folder / f"{name}.json").exists() for name in EXPECTED):
        return ""
    lines = [
        "## Other seeds",
        "",
        "`fedkin advise` asks the same question, of one division into training and test samples.",
        "These are its answers from several seeds, by `python -m benchmarks.advise_seeds`:",
        "",
        "| set | the answer of the table above | `fedkin advise` says so | otherwise |",
        "|---|---|---|---|",
    ]
    for name, expected in EXPECTED.items():
        file = folder / f"{name}.json"
        if not file.exists():
            continue
        found = Counter(json.loads(file.read_text()).values())
        agreed = found.pop(expected, 0)
        others = ", ".join(f"{count} x {words}" for words, count in found.items()) or "-"
        lines.append(
            f"| {name} | {expected} | {agreed} of {agreed + found.total()} seeds | {others} |"
        )
    return "\n" + "\n".join(lines) + "\n\n"


def write_section(page: Path, folder: Path) -> None:
    """Write the section between the marks of a page."""
    put_between(page, BEGIN, END, section(folder))


def main() -> None:
    """Measure the sets of the command line, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", nargs="+", default=list(EXPECTED), help="sets; default: all")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds; default 10")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--page", type=Path, help="write the counts into this page")
    chosen = parser.parse_args()
    if chosen.page:
        write_section(chosen.page, chosen.out)
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.set:
        file = chosen.out / f"{name}.json"
        found = json.loads(file.read_text()) if file.exists() else {}
        for seed in range(chosen.seeds):
            if str(seed) not in found:
                found[str(seed)] = verdict(name, seed)
                file.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name}, seed {seed}: {found[str(seed)]}", flush=True)


if __name__ == "__main__":
    main()
