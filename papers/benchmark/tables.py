"""Tables of the benchmark's pages, from a table of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedkin.analysis.ranks import Ranks
from fedkin.analysis.tables import rows_of
from fedkin.measures.worse_than_alone import loses
from papers.benchmark.contenders import CONTENDERS, TRIALS
from papers.benchmark.federations import REGIMES, SETTINGS, Setting
from papers.benchmark.queue import LEAST
from papers.tables_markdown import markdown

NAMES = [contender.name for contender in CONTENDERS]
ORDER = [setting.name for setting in SETTINGS]
MARGIN = 0.02  # of accuracy, below a baseline
ALONE = "Local"  # the method by which every client trains alone


def means(
    runs: pd.DataFrame,
    least: int = LEAST,
    figure: str = "accuracy",
    settings: Sequence[Setting] = SETTINGS,
) -> Any:
    """The mean of a figure over seeds, settings down, methods across; NaN for cells with too few
    seeds.

    Args:
        runs: one row each.
        least: seeds of a cell.
        figure: which column.
        settings: the settings to show.
    """
    grouped: Any = (
        runs.dropna(subset=[figure]).groupby(["row", "column"])[figure].agg(["mean", "size"])
    )
    kept = grouped["mean"].where(grouped["size"] >= least).unstack("column")
    names = [setting.name for setting in settings if setting.name in kept.index]
    return kept.reindex(index=names, columns=NAMES)


def worse_alone(runs: pd.DataFrame, settings: Sequence[Setting]) -> dict[str, float]:
    """For each method the share of clients that lose more than 2% against the model that they train
    alone, as a mean over draws (a setting from a seed). Draws without a counted client, as in
    data of small clients, are left out.

    Args:
        runs: one row each.
        settings: the settings whose draws count.
    """
    names = [setting.name for setting in settings]
    of_settings: Any = runs[runs["row"].isin(names)]
    scored = of_settings.dropna(subset=["client_losses"])
    shares: dict[str, list[float]] = {}
    for _, draw in scored.groupby(["row", "seed"]):
        losses = {
            row["column"]: np.array(row["client_losses"], np.float64) for row in rows_of(draw)
        }
        own = losses.get(ALONE)
        if own is None or np.isnan(own).all():
            continue
        for name, loss in losses.items():
            counts = ~np.isnan(own) & ~np.isnan(loss)
            if counts.any():
                share = float(loses(loss, own)[counts].mean())
                shares.setdefault(name, []).append(share)
    return {name: float(np.mean(values)) for name, values in shares.items()}


def per_draw(runs: pd.DataFrame, settings: Sequence[str]) -> pd.DataFrame:
    """Accuracy of each draw, a setting from a seed, of the cells with enough seeds; methods across,
    without those that refuse one of the settings.

    Args:
        runs: one row each.
        settings: their names.
    """
    everything: Any = runs[runs["row"].isin(settings)]
    refused = everything.dropna(subset=["refused"])["column"].unique()
    complete = everything.dropna(subset=["accuracy"])
    counts = complete.groupby(["row", "column"])["seed"].transform("size")
    table = complete[counts >= LEAST].pivot_table(
        index=["row", "seed"], columns="column", values="accuracy"
    )
    return table.reindex(columns=[name for name in NAMES if name not in refused])


def winners(runs: pd.DataFrame, rankings: Mapping[str, Ranks]) -> str:
    """For each kind the best methods by average rank, and the methods that Nemenyi's test does not
    distinguish from the best."""
    rows = []
    for regime, title in REGIMES.items():
        ranks = rankings[regime]
        if not len(ranks.scores):
            continue
        ordered = [
            (str(row["method"]), float(row["average_rank"])) for row in rows_of(ranks.table())
        ]
        shown = ", ".join(f"{name} ({rank:.1f})" for name, rank in ordered[:3])
        settings = ", ".join(dict.fromkeys(str(block[0]) for block in ranks.scores.index))
        rows.append([title, settings, shown, _not_told_apart(ranks, ordered)])
    kinds = markdown(
        [
            "kind",
            "settings that all methods can run",
            "best average ranks",
            "not significantly worse",
        ],
        rows,
    )
    return "\n\n".join([kinds, by_setting(runs)])


def _not_told_apart(ranks: Ranks, ordered: Sequence[tuple[str, float]]) -> str:
    """The methods that Nemenyi's test does not distinguish from the best, or why none is named.

    Args:
        ranks: of the methods, with the test.
        ordered: methods and their average ranks, the best first.
    """
    if not ranks.differ:
        return "no significant difference" if ranks.tested else "too few draws for a test"
    best = ordered[0][1]
    near = [name for name, rank in ordered[1:] if rank - best <= ranks.critical_difference]
    if not near:
        return "none"
    names = ", ".join(near[:4])
    return f"{names} and {len(near) - 4} more" if len(near) > 4 else names


def by_setting(runs: pd.DataFrame) -> str:
    """The best method of each family at each setting, and FedAvg."""
    mean = means(runs)
    families = list(dict.fromkeys(contender.family for contender in CONTENDERS))
    rows = []
    for setting in mean.index:
        accuracies: Any = mean.loc[setting].dropna()
        row = [str(setting), _percent(accuracies.get("FedAvg"))]
        for family in families:
            names = [
                c.name for c in CONTENDERS if c.family == family and c.name in accuracies.index
            ]
            top = accuracies[names].idxmax() if names else None
            row.append(f"{top} {_percent(accuracies[top])}" if top else "")
        rows.append(row)
    return markdown(["setting", "FedAvg", *(f"best: {family}" for family in families)], rows)


def newcomers(runs: pd.DataFrame) -> str:
    """Accuracy of newcomers, settings across."""
    mean = means(runs, LEAST, "newcomers")
    rows = [
        [name, *(_percent(mean.loc[row, name]) for row in mean.index)]
        for name in NAMES
        if mean[name].notna().any()
    ]
    return markdown(["newcomers, %", *map(str, mean.index)], rows)


def costs(runs: pd.DataFrame) -> str:
    """Bytes and seconds relative to FedAvg's, and stored arrays, in models."""
    sent = [_of_cells(runs, name) for name in SENT]
    model = _of_cells(runs, "model_bytes")
    kept = [_of_cells(runs, name) / model for name in KEPT]
    rows = []
    for name in NAMES:
        factors = [
            _median(table[name] / table["FedAvg"] if name in table else []) for table in sent
        ]
        rows.append(
            [name, *factors, *(_median(table[name] if name in table else []) for table in kept)]
        )
    return markdown(["method", *SENT.values(), *KEPT.values()], rows)


SENT = {"bytes_down": "download", "bytes_up": "upload", "seconds": "seconds"}
KEPT = {
    "server_memory": "server memory (models)",
    "client_memory": "client memory (models)",
}


def _of_cells(runs: pd.DataFrame, figure: str) -> Any:
    """The median over seeds, settings down, methods across."""
    return (
        runs.dropna(subset=[figure]).groupby(["row", "column"])[figure].median().unstack("column")
    )


def _median(of_settings: Any) -> str:
    values = np.asarray(of_settings, float)
    finite = values[np.isfinite(values)]
    return f"{np.median(finite):.2f}" if len(finite) else ""


def breaks(runs: pd.DataFrame) -> str:
    """Settings at which a method is worse than FedAvg, or worse than Local."""
    mean = means(runs)
    rows = []
    for name in NAMES:
        cells = [name]
        for baseline in ("FedAvg", "Local"):
            gap = (mean[name] - mean[baseline]).dropna()
            worse = gap[gap < -MARGIN].sort_values()
            cells.append(
                ", ".join(f"{setting} ({100 * value:.0f})" for setting, value in worse.items())
            )
        rows.append(cells)
    return markdown(["method", "points below FedAvg", "points below Local"], rows)


def refusals(runs: pd.DataFrame) -> str:
    """The settings that a method refuses, and why."""
    refused: Any = runs.dropna(subset=["refused"]).drop_duplicates(["row", "column"])
    if not len(refused):
        return "No method refuses a setting."
    settings: dict[tuple[str, str], list[str]] = {}
    for row in rows_of(refused):
        settings.setdefault((str(row["column"]), str(row["refused"])), []).append(str(row["row"]))
    lines = [
        f"* {method} at {', '.join(names)}: `{message}`"
        for (method, message), names in settings.items()
    ]
    return "\n".join(["Refused runs, with the method's message:", "", *lines])


def choices(runs: pd.DataFrame) -> str:
    """The grid of each method, and how often each candidate was chosen."""
    chosen: Any = runs.dropna(subset=["chosen"]).drop_duplicates(["row", "column"])
    rows = []
    at_the_end = []
    for contender in CONTENDERS:
        candidates = chosen[chosen["column"] == contender.name]["chosen"].to_numpy(np.int64)
        counts = np.bincount(candidates, minlength=TRIALS)
        rows.append([contender.name, contender.words(), " / ".join(map(str, counts))])
        if contender.other is None and 2 * counts[-1] > counts.sum():
            at_the_end.append(contender.name)
    table = markdown(["method", "candidates", "chosen"], rows)
    if not at_the_end:
        return table
    return (
        f"{table}\n\nThe grid ends too early for {', '.join(at_the_end)}: "
        f"most settings chose the highest rate."
    )


def shares(runs: pd.DataFrame) -> str:
    """A table of APFL's shares at the end."""
    apfl_runs: Any = runs.dropna(subset=["own_share"])
    if not len(apfl_runs):
        return "There are no runs of APFL yet."
    mean = apfl_runs.groupby("row")["own_share"].mean()
    rows = [[name, f"{mean[name]:.2f}"] for name in ORDER if name in mean.index]
    return (
        "APFL begins with a share of 1/2 of each client's own model. The table has the mean over "
        "clients and seeds after the last round, for the chosen candidate. It is 1/2 if that "
        f"candidate does not learn the share.\n\n{markdown(['setting', 'share'], rows)}"
    )


def _percent(value: Any) -> str:
    return "" if value is None or np.isnan(value) else f"{100 * value:.1f}"
