"""The report's table of methods: one row per setting and method, means over its seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.analysis.tables import clusters_and_configured, clusters_text, mean_and_interval
from fedkin.config.shared_options import configured_clusters
from fedkin.reporting.html.communication_chart import format_bytes
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.read_runs import ReportInput
from fedkin.reporting.html.recovery import has_summary
from fedkin.run.metrics.final import HONEST
from fedkin.run.results import Run


def methods_table(report: ReportInput) -> Json:
    """Heads and rows, as texts; means have half their 95% interval from 3 seeds on. Accuracies of unfinished runs that
    have none on test samples yet say so."""
    several = len(report.settings) > 1
    heads = [*(["setting"] if several else []), "method", "seeds", "rounds", "best (test)"]
    heads += ["final (test)", "bottom 10% of clients", "clusters", "download", "upload", "seconds"]
    attacked = any("attackers" in one.run.final for one in report.runs)
    heads += ["honest clients", "honest bottom 10%", "honest ARI", "attackers alone"] if attacked else []
    rows = []
    for setting in report.settings:
        for method in report.methods:
            runs = report.runs_of(setting, method)
            if runs:
                honest = _honest(runs) if attacked else []
                rows.append([*([setting] if several else []), method, str(len(runs)), *_row(runs), *honest])
    return {"heads": heads, "rows": rows}


def scores(run: Run, finished: bool = True) -> Json:
    """The numbers of one run: accuracies of its summary, or where it has none, of its records.

    Args:
        run: finished or not.
        finished: False: its records', although it may have a summary.
    """
    last = run.records[-1]
    return {
        **(_of_summary(run) if finished and has_summary(run) else _of_records(run)),
        "clusters": run.state.clusters,
        "configured_clusters": configured_clusters(run.config["method"]),
        "cluster_sizes": last.get("cluster_sizes"),
        "rounds": last["round"],
        "download": last.get("bytes_down"),
        "upload": last.get("bytes_up"),
        "seconds": run.seconds,
    }


def _of_summary(run: Run) -> Json:
    summary = run.summary()
    return {"best": summary["best_accuracy"], "final": summary["final_accuracy"], "bottom": summary["bottom_decile"]}


def _of_records(run: Run) -> Json:
    scored = [r for r in run.records if r.get("accuracy") is not None]
    best = max((r["accuracy"] for r in scored if not r.get("partial")), default=None)
    last = scored[-1] if scored else {}
    return {"best": best, "final": last.get("accuracy"), "bottom": last.get("bottom_decile")}


def _row(runs: Sequence[Run]) -> list[str]:
    finished = all(map(has_summary, runs))
    numbers = [scores(run, finished) for run in runs]
    columns = {name: [row[name] for row in numbers] for name in numbers[0]}
    shares = [percent_and_interval(columns[name]) for name in ("best", "final", "bottom")]
    if not finished and runs[0].scored_split == "validation":
        shares = [share if share == "-" else f"{share} (validation)" for share in shares]
    rounds, clusters = _range(columns["rounds"]), clusters_text(clusters_and_configured(numbers))
    traffic = [columns[name] for name in ("download", "upload")]
    sizes = ["-" if None in values else format_bytes(float(np.mean(values))) for values in traffic]
    return [rounds, *shares, clusters, *sizes, f"{np.mean(columns['seconds']):,.1f}"]


def _honest(runs: Sequence[Run]) -> list[str]:
    """What honest clients of runs under attack reach, and the share of attackers alone; dashes of other runs."""
    accuracy, bottom, ari, alone = ([run.final.get(name) for run in runs] for name in HONEST)
    agreement = mean_and_interval("ari", ari)["ari"]
    shown = "-" if agreement is None else f"{agreement:.2f}"
    return [percent_and_interval(accuracy), percent_and_interval(bottom), shown, percent_and_interval(alone)]


def percent_and_interval(values: Sequence[float | int | None]) -> str:
    """``81.2%``, or with an interval ``81.2 ± 0.6%``; ``-`` where a seed has no number."""
    row = mean_and_interval("share", [None if value is None else float(value) for value in values])
    mean, high = row["share"], row["share_high"]
    if mean is None:
        return "-"
    return f"{100 * mean:.1f}%" if high is None else f"{100 * mean:.1f} ± {100 * (high - mean):.1f}%"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
