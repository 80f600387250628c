"""docs/results.md, from what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from fedkin.experiment.reproduce import athena_page, fedgroup_page, fedsim_page, flexcfl_page, peers_page, planted_page
from fedkin.experiment.reproduce.tables import Measured

ABOUT = """\
Written by `make results` from the runs in `docs/results/*.jsonl`, one line a run. Unless a section says otherwise, each
cell shows **ours** (mean over
the seeds, lowest - highest) and the *paper's* number. A paper's score is the highest accuracy of any round, which
flatters a method that jumps about; ours is the same statistic, so that the two can be compared, and the accuracy of the
last round stands beside it."""

SECTIONS = {
    "fedgroup": fedgroup_page.section,
    "flexcfl": flexcfl_page.section,
    "fedsim": fedsim_page.section,
    "athena": athena_page.section,
    "planted": planted_page.section,
    "peers": peers_page.section,
}


def page(measured: Mapping[str, Measured], notes: Mapping[str, str]) -> str:
    """The whole page: for each paper the tables written from its measurements, and what a person has to say of them."""
    parts = ["# Results: the papers' tables, measured again", ABOUT]
    for paper, section in SECTIONS.items():
        parts += [section(measured.get(paper, [])), notes.get(paper, "").strip()]
    return "\n\n".join(part for part in parts if part) + "\n"
