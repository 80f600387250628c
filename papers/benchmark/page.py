"""docs/benchmark-field.md and its pictures: a function of the store."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import matplotlib
import pandas as pd

from fedkin.analysis.ranks import Ranks, rank
from fedkin.analysis.tables import rows_of
from fedkin.core.storage import write_atomic
from fedkin.reporting.ranks_figure import draw
from fedkin.reporting.style import STYLE
from fedkin.reporting.style import write as write_figure
from papers.benchmark.contenders import CONTENDERS, INNER, STEPS, TRIALS
from papers.benchmark.federations import REGIMES, SETTINGS
from papers.benchmark.queue import LEAST, SEEDS, cells, jobs
from papers.benchmark.tables import (
    breaks,
    choices,
    costs,
    means,
    newcomers,
    per_draw,
    refusals,
    shares,
    winners,
)
from papers.result_store import read
from papers.tables_markdown import markdown

NAMES = [contender.name for contender in CONTENDERS]


def write(store: Path, docs: Path) -> dict[str, Ranks]:
    """Write the page and its pictures; what the store holds of other settings is named on standard
    error.

    Args:
        store: of the runs.
        docs: the folder of the documentation.

    Returns:
        The ranks, of all settings and by kind.
    """
    stored = read(store, jobs(store))
    for words in stored.left_out():
        print(f"left out: {words}", file=sys.stderr)
    runs = frame(stored.runs)
    rankings = {"all": rank(means(runs)[NAMES])} if len(runs) else {}
    for regime in REGIMES if len(runs) else ():
        rankings[regime] = rank(per_draw(runs, [s.name for s in SETTINGS if s.regime == regime]))
    for name, ranks in rankings.items():
        if ranks.tested:
            with matplotlib.rc_context(STYLE):
                write_figure(
                    draw(ranks, "settings" if name == "all" else "draws"), picture(docs, name)
                )
    write_atomic(docs / "benchmark-field.md", page(runs, rankings))
    return rankings


def frame(lines: list[dict]) -> pd.DataFrame:
    """The runs, without the trials, as a table."""
    columns = ["row", "column", "seed", "chosen", "accuracy", "newcomers", "bottom_decile", "ari"]
    columns += [
        "bytes_down",
        "bytes_up",
        "seconds",
        "server_memory",
        "client_memory",
        "model_bytes",
        "own_share",
    ]
    columns += ["refused"]
    return pd.DataFrame([line for line in lines if line["trial"] is None], columns=columns)


def picture(docs: Path, name: str) -> Path:
    """The file of a picture of ranks."""
    return docs / "images" / f"benchmark-{name}.svg"


def page(runs: pd.DataFrame, rankings: dict[str, Ranks]) -> str:
    """The page as Markdown."""
    parts = [HEAD, status(runs)]
    if len(runs):
        parts += [
            "## Which method for which kind of heterogeneity",
            winners(runs, rankings),
            "## All settings",
            ranking("all", rankings["all"], "settings"),
            accuracies(runs),
        ]
        for regime, title in REGIMES.items():
            parts += [f"## {title}", ranking(regime, rankings[regime], "draws")]
        parts += [
            "## Newcomers",
            NEWCOMERS,
            newcomers(runs),
            "## What each costs",
            COSTS,
            costs(runs),
        ]
        parts += [
            "## Where each breaks",
            BREAKS,
            breaks(runs),
            refusals(runs),
            "## Grids",
            GRIDS,
            choices(runs),
        ]
        parts += [shares(runs)]
    parts += ["## Settings", SETTINGS_TABLE]
    return "\n\n".join(parts) + "\n"


def status(runs: pd.DataFrame) -> str:
    """How much of it was run."""
    counts = list(_sizes(runs).values())
    total = len(cells())
    whole, ranked = (sum(count >= least for count in counts) for least in (len(SEEDS), LEAST))
    return (
        f"**{ranked} of {total} cells have {LEAST} seeds or more, {whole} all {len(SEEDS)}.** A "
        f"cell below {LEAST} seeds has no rank, and shows how many it has; a setting that a method "
        "refuses counts as run."
    )


def _sizes(runs: pd.DataFrame) -> Counter[tuple[str, str]]:
    """How many runs each cell has."""
    return Counter(zip(runs["row"], runs["column"], strict=True))


def ranking(name: str, ranks: Ranks, blocks: str) -> str:
    """Average ranks: picture where there are enough, table, and how they were tested."""
    if not len(ranks.scores):
        return (
            f"No {'setting has' if blocks == 'settings' else 'draw of one has'} all its methods "
            "yet."
        )
    # Which the page does not show.
    notes = " ".join(note for note in ranks.notes() if "Wilcoxon" not in note)
    if blocks == "draws":
        notes = notes.replace(
            "settings, from the mean over the seeds", "draws (a setting from a seed)"
        )
    rows = [[str(row["method"]), f"{row['average_rank']:.2f}"] for row in rows_of(ranks.table())]
    if left := [name for name in NAMES if name not in ranks.average]:
        notes += f" Without {', '.join(left)}, which cannot be run at one of them."
    shown = [f"![average ranks: {name}](images/benchmark-{name}.svg)"] if ranks.tested else []
    return "\n\n".join([*shown, notes, markdown(["method", "average rank"], rows)])


def accuracies(runs: pd.DataFrame) -> str:
    """Mean accuracy of every cell; those with too few seeds say how many."""
    mean = means(runs, 1)
    counts = _sizes(runs.dropna(subset=["accuracy"]))
    refused = _sizes(runs.dropna(subset=["refused"]))

    def shown(row: str, column: str) -> str:
        if (row, column) in refused:
            return "refused"
        count = counts.get((row, column), 0)
        if not count:
            return ""
        value = mean.loc[row, column]
        best = mean.loc[row].max()
        text = f"**{100 * value:.1f}**" if value == best else f"{100 * value:.1f}"
        return text if count >= LEAST else f"{text} (n = {count})"

    settings = [s.name for s in SETTINGS if s.name in mean.index]
    rows = [[name, *(shown(row, name) for row in settings)] for name in NAMES]
    return markdown(["accuracy, %", *settings], rows)


HEAD = f"""# Which method wins where

{len(CONTENDERS)} methods at {len(SETTINGS)} settings, from {len(SEEDS)} seeds: \
small federations on a CPU, each of one
kind of heterogeneity, so that differences between kinds show, not a state of the art on large data.
`python -m papers.benchmark --hours 1` runs what is missing, the most informative runs first, \
and writes this page.

* **Equal budget of local steps**: in each round a client takes {STEPS} gradient steps of batches \
of 10, of all models
  that it trains together (a mixture of K components: {STEPS} / K each; Ditto, APFL and FedRep: \
half for each part;
  pFedMe: {INNER} of them to a step). Beyond it are what clients compute to find clusters or \
weights, and one gradient
  a round over all samples of a client by which APFL learns its share: \
at 48 samples as much as five more batches; and
  the {STEPS} steps more, once, of fine-tuned FedAvg. Bytes
  are not equal; they are [reported](#what-each-costs). All clients take part in every round.
* **Hyper-parameters** are chosen on validation samples (a quarter of the training samples; \
of a stream, its next step)
  of a draw of another seed, from {TRIALS} candidates for [each method](#grids): \
the same number of trials for each.
* **Newcomers**: the last clients take no part in training. \
After it each is placed by the method's own rule.
* **Ranks** are of mean accuracies over seeds, with Friedman's test and Nemenyi's critical \
difference (Demsar 2006).
  Within a kind the blocks are draws, a setting from a seed: \
they say what holds for these settings, not beyond them.
  Draws of natural federations share their patients and writers.
* Clustered methods are told the number of clusters that the setting has, where they do not find it.
* Of TCGA-BRCA validation samples are other draws of the same deaths, \
so that its trials say little, and the newcomer
  has three pairs to be tested on.
* An equal budget is hard on mixtures: with K components they take a K-th of the steps with each; \
and on pFedMe, whose
  lambda is 1.5 divided by the highest rate (the product must be below 2; \
the authors have 15 and 0.005), and the rate
  of the inner steps the middle one.
* APFL learns its shares at a rate of 0.001: at the run's rates they end at 1, \
which is local training. Where they
  [end](#grids) is below.
* FEROMA's mean travels twice in a round until the mixing begins, \
for the accuracy that decides it."""
NEWCOMERS = (
    "Accuracy on the test samples of clients that took no part, percent, placed after the last "
    "round by the method's rule; where it has none, on the model of lowest loss. A newcomer of a "
    "personalised method has what a client has that never trained: the shared model, and of "
    "methods with heads of their own a head that is as good as random; of FEROMA it has the model "
    "of the client with the nearest profile. Nothing is trained or tuned for a newcomer here, "
    "though `run.fine_tune(cluster=..., x=..., y=...)` does it: fine-tuned FedAvg has plain "
    "FedAvg's model, and FedPer's and FedRep's heads are not trained on its labels."
)
COSTS = (
    "Bytes of all clients over a whole run, and seconds of a run, each as a factor of FedAvg's at "
    "the same setting: the median over the settings. Seconds are with compilation where a program "
    "was new, and so a rough guide. What is kept from round to round is counted after the last "
    "round, in models of the setting: the arrays of the method's state on the server, and what "
    "the client that keeps most has stored. The samples of earlier steps, which clients of a "
    "stream keep for every method, are not counted."
)
BREAKS = (
    "Settings at which the mean over seeds is more than two points below FedAvg's, which does not "
    "cluster, or below Local's, which does not federate."
)
GRIDS = (
    f"The {TRIALS} candidates of each method, and how often each was chosen over the settings, in "
    "their order."
)
SETTINGS_TABLE = markdown(
    ["setting", "what it is", "rounds", "K", "newcomers", "rates"],
    [
        [
            s.name,
            s.about,
            str(s.rounds),
            str(s.clusters),
            str(s.newcomers),
            ", ".join(f"{r:g}" for r in s.rates),
        ]
        for s in SETTINGS
    ],
)
