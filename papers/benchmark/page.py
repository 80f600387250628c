"""docs/benchmark-field.md with its pictures, and docs/benchmark-field-tables.md, written from the
store."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import matplotlib
import pandas as pd

from fedkin.analysis.ranks import Ranks, rank
from fedkin.analysis.tables import rows_of
from fedkin.core.storage import write_atomic
from fedkin.measures.worse_than_alone import LEAST_SAMPLES, MARGIN
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
    harmed,
    means,
    newcomers,
    per_draw,
    percent_or_dash,
    refusals,
    shares,
    winners,
    worse_than_alone,
)
from papers.result_store import read
from papers.tables_markdown import markdown

NAMES = [contender.name for contender in CONTENDERS]


def write(store: Path, docs: Path) -> dict[str, Ranks]:
    """Write both pages and the pictures. Stored runs of other settings are named on standard error.

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
    write_atomic(docs / "benchmark-field-tables.md", tables_page(runs))
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
    columns += ["losses", "test_samples", "refused"]
    return pd.DataFrame([line for line in lines if line["trial"] is None], columns=columns)


def picture(docs: Path, name: str) -> Path:
    """The file of a picture of ranks."""
    return docs / "images" / f"benchmark-{name}.svg"


def page(runs: pd.DataFrame, rankings: dict[str, Ranks]) -> str:
    """The page of winners and ranks as Markdown."""
    parts = [HEAD, status(runs)]
    if len(runs):
        harm = harmed(runs)
        parts += [
            "## Which method for which kind of heterogeneity",
            winners(runs, rankings),
            "## All settings",
            ranking("all", rankings["all"], "settings", harm),
            accuracies(runs),
            refusals(runs),
        ]
        for regime, title in REGIMES.items():
            parts += [f"## {title}", ranking(regime, rankings[regime], "draws", harm)]
    parts.append(NEXT)
    return "\n\n".join(parts) + "\n"


def tables_page(runs: pd.DataFrame) -> str:
    """The page of newcomers, costs, failures, grids and settings as Markdown."""
    parts = [TABLES_HEAD]
    if len(runs):
        parts += [
            "## Worse than alone",
            WORSE,
            worse_than_alone(runs),
            "## Newcomers",
            NEWCOMERS,
            newcomers(runs),
            "## What each costs",
            COSTS,
            costs(runs),
            "## Where each breaks",
            BREAKS,
            breaks(runs),
            "## Grids",
            GRIDS,
            choices(runs),
            shares(runs),
        ]
    parts += ["## Settings", SETTINGS_TABLE, TABLES_NEXT]
    return "\n\n".join(parts) + "\n"


def status(runs: pd.DataFrame) -> str:
    """A sentence: the number of cells with enough seeds."""
    counts = list(_sizes(runs).values())
    total = len(cells())
    whole, ranked = (sum(count >= least for count in counts) for least in (len(SEEDS), LEAST))
    return (
        f"**{ranked} of {total} cells have {LEAST} seeds or more, {whole} all {len(SEEDS)}.** A "
        f"cell below {LEAST} seeds has no rank, and shows how many seeds it has. A setting that a "
        "method refuses counts as run."
    )


def _sizes(runs: pd.DataFrame) -> Counter[tuple[str, str]]:
    """Number of runs of each cell."""
    return Counter(zip(runs["row"], runs["column"], strict=True))


def ranking(name: str, ranks: Ranks, blocks: str, harm: pd.DataFrame) -> str:
    """Average ranks: the picture if they were tested, how they were tested, and the table, which
    also has the share of clients that are worse off than alone.

    Args:
        name: of the picture.
        ranks: of the methods.
        blocks: what methods are ranked over: ``settings`` or ``draws``.
        harm: share of harmed clients, settings down, methods across.
    """
    if not len(ranks.scores):
        return (
            f"No {'setting' if blocks == 'settings' else 'draw of a setting'} has runs of all "
            "methods yet."
        )
    # The page does not show pairwise tests.
    notes = " ".join(note for note in ranks.notes() if "Wilcoxon" not in note)
    if blocks == "draws":
        notes = notes.replace(
            "settings, from the mean over the seeds", "draws (a setting from a seed)"
        )
    settings = list(dict.fromkeys(ranks.scores.index.get_level_values(0)))
    share = harm.reindex(index=settings).mean()
    rows = [
        [str(row["method"]), f"{row['average_rank']:.2f}", percent_or_dash(share[row["method"]])]
        for row in rows_of(ranks.table())
    ]
    if left := [name for name in NAMES if name not in ranks.average]:
        notes += f" Left out, because they cannot run at one of the settings: {', '.join(left)}."
    shown = [f"![average ranks: {name}](images/benchmark-{name}.svg)"] if ranks.tested else []
    table = markdown(["method", "average rank", "worse than alone, %"], rows)
    return "\n\n".join([*shown, notes, table])


def accuracies(runs: pd.DataFrame) -> str:
    """Mean accuracy of every cell; a cell with too few seeds says how many it has."""
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

This benchmark runs {len(CONTENDERS)} methods at {len(SETTINGS)} settings, with {len(SEEDS)} seeds \
each. The settings are small federations on a CPU. Each
has one kind of heterogeneity, so the differences between kinds are visible. \
They do not show the state of the art on large data.
[More tables](benchmark-field-tables.md) have newcomers, costs, failures, grids and settings.

`python -m papers.benchmark --hours 1` runs missing cells, the most informative ones first, \
and writes both pages.

**Budget.** In each round a client takes {STEPS} gradient steps with batches of 10, \
in total over all models that it trains:

| method | steps |
|---|---|
| a mixture of K components | {STEPS} / K for each |
| Ditto, APFL, FedRep | half for each part |
| pFedMe | {STEPS // INNER} steps of {INNER} gradient steps each |

Some work is not in the budget. Clients also compute values that find clusters or weights. \
APFL learns its share from one
gradient a round over all samples of a client: at 48 samples, as much work as five more batches. \
Fine-tuned FedAvg takes
{STEPS} more steps, once. Bytes are not equal: [they are reported]\
(benchmark-field-tables.md#what-each-costs). All clients take part in
every round.

**Hyper-parameters.** Each method has {TRIALS} candidates \
([the grids](benchmark-field-tables.md#grids)), so all have the same number of
trials. The choice uses validation samples of a draw with another seed: \
a quarter of the training samples, or the next
step of a stream.

**Newcomers.** The last clients take no part in training. \
After training, each is placed by the method's own rule.

**Ranks.** Ranks are computed from mean accuracies over seeds, with Friedman's test and Nemenyi's \
critical difference
(Demsar 2006). Within a kind the blocks are draws: a setting with a seed. \
Such ranks apply to these settings, not beyond
them. Draws of natural federations share their patients and writers.

**Worse than alone.** This is the share of clients whose test loss is more than {MARGIN:.0%} \
higher than with their own model (Local),
mean over the settings of a table. \
[Another table](benchmark-field-tables.md#worse-than-alone) has it by setting.

Some choices favour or limit a method:

* Clustered methods get the number of clusters of the setting, unless they find it themselves.
* In TCGA-BRCA, validation samples are other draws of the same deaths. \
So its trials say little. The newcomer has three
  pairs to be tested on.
* An equal budget is hard on mixtures, which take a K-th of the steps with each of K components.
* It is also hard on pFedMe. Its lambda is 1.5 divided by the highest rate, \
because the product must be below 2; the
  authors use 15 and 0.005. The rate of its inner steps is the middle rate.
* APFL learns its shares at a rate of 0.001. \
At the run's rates they end at 1, which is local training. The tables say
  [where they end](benchmark-field-tables.md#grids).
* FEROMA sends its mean twice in a round until the mixing begins: \
the accuracy of the mean decides when it begins."""
NEXT = """## Next

* [More tables of this benchmark](benchmark-field-tables.md): newcomers, costs, failures, settings.
* [Choose a method](choose-a-method.md) for your data.
* [Compare methods](compare.md) on your data."""
TABLES_HEAD = """# Which method wins where: more tables

These tables belong to [the benchmark of the field](benchmark-field.md), \
which describes the budget and the choice of
hyper-parameters. `python -m papers.benchmark` writes both pages."""
WORSE = (
    "The table has the share of clients, in percent, whose mean test loss after the last round is "
    f"more than {MARGIN:.0%} higher than with their own model, which is Local's in the same draw. "
    "It is the mean over the seeds. The loss is the cross entropy, at TCGA-BRCA Cox's loss. "
    f"Clients with fewer than {LEAST_SAMPLES} test samples do not count. A setting without other "
    "clients has a dash.\n\n"
    "Two equally good models differ by chance, so a few percent are no proof of harm. In a stream, "
    "losses are of the last step, while accuracies are means over the steps."
)
TABLES_NEXT = """## Next

* [The winners and the ranks](benchmark-field.md) of this benchmark.
* [What each method costs](benchmarks-methods.md): seconds a round."""
NEWCOMERS = (
    "The table has the accuracy, in percent, on the test samples of clients that took no part in "
    "training. After the last round each is placed by the method's rule. Without a rule it gets "
    "the model of lowest loss.\n\n"
    "A newcomer of a personalised method has the same model as a client that never trained: the "
    "shared model. With FedPer, FedRep and FL+HC with FedRep's heads, its head is as good as "
    "random, because the heads are not trained on its labels. With FEROMA it has the model of the "
    "client with the nearest profile. Nothing is trained or tuned for a newcomer here, so "
    "fine-tuned FedAvg has plain FedAvg's model. `run.fine_tune(cluster=..., x=..., y=...)` would "
    "train it."
)
COSTS = (
    "Bytes of all clients over a whole run and seconds of a run are factors: a value of 2 means "
    "twice FedAvg's at the same setting. The table has the median over the settings. Seconds "
    "include the compilation of new programs, so they are a rough guide.\n\n"
    "Memory is counted after the last round, in models of the setting. It is the arrays of the "
    "method's state on the server, and the arrays of the client that stores most. The samples of "
    "earlier steps, which clients of a stream keep for every method, are not counted."
)
BREAKS = (
    "Settings at which the mean over seeds is more than two points below FedAvg, which does not "
    "cluster, or below Local, which does not federate."
)
GRIDS = (
    f"The {TRIALS} candidates of each method, and how often each was chosen over the settings, in "
    "the order of the candidates."
)
SETTINGS_TABLE = markdown(
    ["setting", "data", "rounds", "K", "newcomers", "rates"],
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
