"""The contents of a report (texts, tables and the data of charts) as plain JSON, from which the
page and the paper figures are drawn."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

import numpy as np
import tomli_w
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED
from fedkin.data.federated import FederatedData
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import scores_in
from fedkin.reporting.html import comparison_section, similarity_charts
from fedkin.reporting.html.accuracy_chart import accuracy_by_cluster, accuracy_over_rounds, events
from fedkin.reporting.html.alluvial import BANDS, alluvial, migration_table
from fedkin.reporting.html.client_similarity import ClientSimilarity, similarity_keys
from fedkin.reporting.html.clustering_table import clustering_table
from fedkin.reporting.html.headline import verdict
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.members_table import members_table
from fedkin.reporting.html.methods_table import methods_table, report_scores, scores
from fedkin.reporting.html.migrants_table import migrants_table
from fedkin.reporting.html.monitor_table import monitor_table
from fedkin.reporting.html.overview import is_deployed, overview
from fedkin.reporting.html.read_runs import ReportedRun, ReportInput, assignments
from fedkin.reporting.html.run_charts import (
    client_accuracy,
    communication,
    communication_ticks,
    membership_chart,
)
from fedkin.reporting.html.served_table import served_table
from fedkin.reporting.html.suspects_table import suspects_table
from fedkin.reporting.method_styles import method_styles
from fedkin.run.folder.environment_file import read_environment
from fedkin.run.run import Run
from fedkin.simulation.workers import AnyModel

# Limit in characters for the large charts of single runs, so that a comparison's page stays below 4
# MB.
ROOM = 1_600_000


def contents(
    report: ReportInput,
    data: FederatedData | None = None,
    model: AnyModel | None = None,
    similarity: bool = False,
) -> Json:
    """Compute the contents of a report.

    Args:
        report: the runs and their kind.
        data: data of runs that were started from Python, for their similarity.
        model: model of runs that were started from Python, for their similarity.
        similarity: whether to train clients for similarities that are not stored.

    Returns:
        Contents by key: title, subtitle, verdict (headline sentences and a note), overview (facts
        about the runs), notes (missing parts), hint (how to add client similarity), table,
        styles (colours and dashes by method), accuracy
        (a chart for each setting), score (its words and number format), similarities (by key),
        runs, opening (index of the run that is shown first), and tables and findings of a
        comparison.
    """
    runs = report.runs
    keys = similarity_keys([reported.run for reported in runs], data, model)
    if similarity:
        similarities = similarity_charts.compute_similarities(runs, keys, data, model)
    else:
        similarities = similarity_charts.stored_similarities(runs, keys)
    damage_notes = [
        f"{reported.label}: the migrations are damaged or belong to another run, and are not shown."
        for reported in runs
        if reported.run.migrations and not assignments(reported.run)
    ]
    notes = [*report.notes, *damage_notes, *similarities.notes]
    comparison = comparison_section.comparison_section(report.comparison)
    opening = _opening(runs)
    charts = [
        _run(reported, key, similarities.by_key.get(key))
        for reported, key in zip(runs, keys, strict=True)
    ]
    # A table without rows is not shown, so what its note says is said with the other notes.
    notes += [chart["served"]["note"] for chart in charts if not chart["served"]["rows"]]
    _leave_out(charts, [opening, *_firsts(runs), *range(len(runs))])
    needs_no_hint = similarity or similarities.by_key or _only_real(report)
    return {
        "title": _title(report),
        "subtitle": _subtitle(report),
        "verdict": verdict(report).to_json(),
        "overview": overview(report),
        "notes": list(dict.fromkeys(_with_one_stop(note) for note in notes if note)),
        "hint": "" if needs_no_hint else similarity_charts.hint(report.folder),
        "table": methods_table(report),
        "clustering": clustering_table(report),
        "score": _score_words(report),
        "measures": [_measure_chart(measure) for measure in report.measures],
        "styles": {name: style._asdict() for name, style in method_styles(report.methods).items()},
        "accuracy": [_accuracy(report, setting) for setting in report.settings],
        "similarities": {
            key: similarity_charts.similarity_json(of_key)
            for key, of_key in similarities.by_key.items()
        },
        "runs": charts,
        "opening": opening,
        "comparison": comparison.tables,
        "findings": comparison.findings,
    }


def _with_one_stop(note: str) -> str:
    """A note that ends with one full stop. Messages of errors may end with one already."""
    return re.sub(r"\.\.$", ".", note)


def _title(report: ReportInput) -> str:
    """The title of the page: the methods (or their number) and the data sets."""
    names = report.methods
    shown = " / ".join(names) if len(names) <= 4 else f"{len(names)} methods"
    sets = list(dict.fromkeys(str(one.run.config.data_title) for one in report.runs))
    return f"{shown} on {' / '.join(sets[:3])}"


def _subtitle(report: ReportInput) -> str:
    """The subtitle of the page: a line with the numbers of clients and rounds, the model and the
    seeds."""
    run = next((one.run for one in report.runs if one.complete), report.runs[0].run)
    seeds = sorted({one.seed for one in report.runs})
    clients = sorted({len(one.run.assignment) for one in report.runs})
    cohorts = sorted({c for one in report.runs if isinstance(c := one.run.config.cohort, int)})
    parts = [f"{_alternatives(clients)} clients"]
    if cohorts:
        parts.append(f"{_alternatives(cohorts)} a round")
    rounds = max(one.run.records[-1]["round"] for one in report.runs)
    parts.append(f"{rounds:,} round{'' if rounds == 1 else 's'}")
    parts.append(f"model {run.config.model_name}")
    parts.append(
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    )
    return ", ".join(parts)


def _alternatives(numbers: Sequence[int]) -> str:
    """Ascending numbers as text: ``30``, ``30 or 60``, ``30 to 120``."""
    if len(numbers) == 2:
        return f"{numbers[0]:,} or {numbers[1]:,}"
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _firsts(runs: Sequence[ReportedRun]) -> list[int]:
    """Indices of the first run of each method in each setting."""
    first = {(one.setting, one.method): i for i, one in reversed(list(enumerate(runs)))}
    return sorted(first.values())


def _leave_out(charts: list[Json], order: Sequence[int]) -> None:
    """Keep the large charts of runs, in the order of ``order``, as long as they fit on the page.
    Runs whose charts are dropped get the entry ``left_out``."""
    room = ROOM
    # The first charts in the order get the room; a run may occur in the order twice.
    for i in dict.fromkeys(order):
        size = len(
            json.dumps(
                [
                    charts[i][name]
                    for name in ("alluvial", "cluster_accuracy", "members", "migrants")
                ],
                separators=(",", ":"),
            )
        )
        charts[i]["left_out"] = size > room
        if size > room:
            charts[i] |= {
                "alluvial": None,
                "cluster_accuracy": {"rounds": [], "lines": [], "omitted": 0},
            }
            charts[i]["members"] = {**charts[i]["members"], "rows": []}
            charts[i]["migrants"] = {**charts[i]["migrants"], "rows": []}
        else:
            room -= size


def _only_real(report: ReportInput) -> bool:
    """Whether all runs of a report were deployments, with real sites as clients. Sites have private
    data, so they cannot be trained again for the report."""
    return all(is_deployed(one.run) for one in report.runs)


def _opening(runs: Sequence[ReportedRun]) -> int:
    """Index of the run that is shown first: the best clustered method in the first setting, or the
    first run if there is none."""
    clustered = [
        (i, final)
        for i, one in enumerate(runs)
        if one.setting == runs[0].setting
        and one.run.state.clusters > 1
        and (final := scores(one.run)["final"]) is not None
    ]
    sign = scores_in(runs[0].run.records[-1]).final.sign
    means = {
        runs[i].method: np.mean(
            [value for j, value in clustered if runs[j].method == runs[i].method]
        )
        for i, _ in clustered
    }
    # Means over the seeds of each clustered method; without any, the first run is shown.
    best = max(means, key=lambda name: sign * means[name], default=None)
    return next((i for i, _ in clustered if runs[i].method == best), 0)


def _accuracy(report: ReportInput, setting: str) -> Json:
    """The chart of the score (such as the accuracy) over the rounds of all methods in one
    setting."""
    runs = {name: runs for name in report.methods if (runs := report.runs_of(setting, name))}
    lines = [
        {"method": name, **accuracy_over_rounds(several), "clients": client_accuracy(several)}
        for name, several in runs.items()
    ]
    longest = max(
        (run for several in runs.values() for run in several), key=lambda run: len(run.records)
    )
    marked = events(longest, assignments(longest))
    return {"setting": setting, "split": longest.scored_split, "lines": lines, "events": marked}


def _score_words(report: ReportInput) -> Json:
    """The words and the number format of the score, for the page's charts."""
    roles = report_scores(report)
    score = roles.of_round
    return {
        "head": score.head,
        "heading": score.heading,
        "unit": score.unit,
        "digits": score.digits,
        "bounded": math.isfinite(score.highest),
        "direction": score.direction,
        "worst": roles.worst_words,
        "worst_word": score.worst_word,
    }


def _measure_chart(measure: Measure) -> Json:
    """The description of a user's measure for the page, which draws a separate chart of it."""
    better = "" if measure.direction == "neither" else f" Better is {measure.direction}."
    return {
        "name": measure.name,
        "head": measure.head,
        "heading": measure.heading,
        "title": f"{measure.title[:1].upper()}{measure.title[1:]}.{better}",
        "unit": measure.unit,
        "digits": measure.digits,
        "bounded": math.isfinite(measure.highest),
    }


def _run(one: ReportedRun, key: str, similarity: ClientSimilarity | None) -> Json:
    """The charts and tables of one run, as plain JSON."""
    run = one.run
    rows = assignments(run)
    largest = _largest_clusters(run, rows)
    return {
        "label": one.label,
        "setting": one.setting,
        "method": one.method,
        "seed": one.seed,
        "split": run.scored_split,
        "cluster_accuracy": accuracy_by_cluster(run, largest),
        "largest_clusters": largest,
        "events": events(run, rows),
        "alluvial": alluvial(rows, largest).to_json() if rows and len(rows[0]) else None,
        "migrations": migration_table(rows),
        "membership": membership_chart(run),
        "members": members_table(run),
        "migrants": migrants_table(run, rows),
        "suspects": suspects_table(run),
        "monitor": monitor_table(run),
        "served": served_table(run),
        "similarity": key if similarity is not None else None,
        "peers": "neighbours" in run.records[-1],
        "communication": communication(run),
        "communication_ticks": communication_ticks(communication(run)),
        "config": tomli_w.dumps(run.config.sections),
        "versions": _versions(run),
        **({} if similarity is None else similarity_charts.run_charts(run, similarity, rows)),
    }


def _largest_clusters(run: Run, rows: Sequence[Int[np.ndarray, "N"]]) -> list[int]:
    """The clusters with a separate colour: the largest clusters, counted over all rounds."""
    every = np.concatenate(rows) if rows else run.assignment
    clusters, clients = np.unique(every[every != UNASSIGNED], return_counts=True)
    return sorted(clusters[np.argsort(-clients, kind="stable")[:BANDS]].tolist())


def _versions(run: Run) -> dict[str, str]:
    """The contents of a run's environment.json (versions of libraries, and the machine) as one flat
    dictionary; empty if there is no such file."""
    environment = read_environment(run.folder)
    versions = environment.pop("versions", {})
    if not isinstance(versions, dict):
        return {}
    flat = {**versions, **environment}
    return {
        str(k): ", ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in flat.items()
    }
