"""The report's table of methods: a row for each setting and method, with means over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.analysis.tables import clusters_and_configured, clusters_text, mean_and_interval
from fedkin.measures.lookup import measures_of
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import NO_NUMBER, byte_text, seconds_text
from fedkin.measures.run_scores import RunScores, scores_in
from fedkin.measures.table import MEASURES
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.lenient_reader import has_summary
from fedkin.reporting.html.read_runs import ReportInput
from fedkin.run.number_notes import coverage_text, number_notes
from fedkin.run.run import Run


def methods_table(report: ReportInput) -> Json:
    """The table of methods: headings and rows as text. From 3 seeds on, means are followed by half
    of their 95% interval.

    Scores of unfinished runs that come from validation samples are marked. Of numbers, there are
    columns of the further measures, and notes on them.
    """
    several = len(report.settings) > 1
    roles = report_scores(report)
    best = roles.best
    final = roles.final
    further = _further(report)
    attacked = any("attackers" in one.run.final for one in report.runs)
    heads = [*(["setting"] if several else []), "method", "seeds", MEASURES["rounds"].head]
    heads += [f"{best.head} (test)", f"{final.head} (test)", roles.worst.head]
    heads += [measure.head for measure in further]
    heads += [
        measure.head for measure in measures_of(("clusters", "bytes_down", "bytes_up", "seconds"))
    ]
    heads += [measure.head for measure in (*(roles.honest if attacked else ()), *report.measures)]
    rows = []
    for setting in report.settings:
        for method in report.methods:
            if runs := report.runs_of(setting, method):
                first = [*([setting] if several else []), method, str(len(runs))]
                honest = _honest(runs) if attacked else []
                own = _of_measures(runs, report.measures)
                rows.append([*first, *_row(runs, further), *honest, *own])
    return {"heads": heads, "rows": rows, "notes": _notes(report)}


def report_scores(report: ReportInput) -> RunScores:
    """The measures of the score of a report's runs."""
    return scores_in(report.runs[0].run.records[-1])


def _further(report: ReportInput) -> tuple[Measure, ...]:
    """The columns of the further measures of numbers. Runs that have not finished have none."""
    if not all(has_summary(one.run) for one in report.runs):
        return ()
    return report_scores(report).further


def _notes(report: ReportInput) -> list[str]:
    """The notes below the table: the score per sample and per client, and the coverage of
    quantiles of each method; empty for accuracies."""
    runs = [one for one in report.runs if has_summary(one.run)]
    summaries = [one.run.summary() for one in runs]
    notes = number_notes(summaries)
    if any("final_coverage_gap" in summary for summary in summaries):
        for one, summary in zip(runs, summaries, strict=True):
            notes.append(f"{one.label}: {coverage_text(summary)}.")
    return notes


def scores(run: Run, finished: bool = True) -> Json:
    """The scores of one run, from the summary, or from the records if there is none.

    Args:
        run: the run, finished or not.
        finished: whether a summary may be used. If False, the records are used.
    """
    last = run.records[-1]
    return {
        **(_of_summary(run) if finished and has_summary(run) else _of_records(run)),
        "clusters": run.state.clusters,
        "configured_clusters": run.config.clusters,
        "cluster_sizes": last.get("cluster_sizes"),
        "rounds": last["round"],
        "download": last.get("bytes_down"),
        "upload": last.get("bytes_up"),
        "seconds": run.seconds,
    }


def _of_summary(run: Run) -> Json:
    """The scores of a finished run, by measure, from its summary."""
    summary = run.summary()
    names = scores_in(summary).names
    return {
        "best": summary[names.best],
        "final": summary[names.final],
        "bottom": summary[names.worst],
    }


def _of_records(run: Run) -> Json:
    """The scores of an unfinished run, by measure, from its records."""
    scores = scores_in(run.records[-1])
    name = scores.names.score
    complete = [
        record[name]
        for record in run.records
        if record.get(name) is not None and not record.get("partial")
    ]
    best = max(complete, key=lambda value: scores.of_round.sign * value, default=None)
    last = last_scored(run)
    return {"best": best, "final": last.get(name), "bottom": last.get(scores.names.worst)}


def last_scored(run: Run) -> Json:
    """A run's last record that has a score; an empty record if none has one."""
    name = scores_in(run.records[-1]).names.score
    return next((record for record in reversed(run.records) if record.get(name) is not None), {})


def _of_measures(runs: Sequence[Run], measures: Sequence[Measure]) -> list[str]:
    """The table cells of the user's measures. For unfinished runs the values are from the last
    evaluated round."""
    finished = all(map(has_summary, runs))
    rows = [run.summary() if finished else last_scored(run) for run in runs]
    return [
        mean_with_unit(measure, [row.get(measure.name) for row in rows]) for measure in measures
    ]


def _row(runs: Sequence[Run], further: Sequence[Measure]) -> list[str]:
    """The table cells of a method in one setting, from its runs with all seeds."""
    roles = scores_in(runs[0].records[-1])
    finished = all(map(has_summary, runs))
    numbers = [scores(run, finished) for run in runs]
    columns = {name: [row[name] for row in numbers] for name in numbers[0]}
    of_role = {"best": roles.best, "final": roles.final, "bottom": roles.worst}
    shares = [mean_with_unit(measure, columns[key]) for key, measure in of_role.items()]
    # The headings say test, but unfinished runs may only have scores on validation samples.
    if not finished and runs[0].scored_split == "validation":
        shares = [share if share == NO_NUMBER else f"{share} (validation)" for share in shares]
    shares += _of_measures(runs, further)
    rounds = _range(columns["rounds"])
    clusters = clusters_text(clusters_and_configured(numbers))
    traffic = [columns[name] for name in ("download", "upload")]
    sizes = [
        NO_NUMBER if None in values else byte_text(float(np.mean(values))) for values in traffic
    ]
    return [rounds, *shares, clusters, *sizes, seconds_text(float(np.mean(columns["seconds"])))]


def _honest(runs: Sequence[Run]) -> list[str]:
    """The table cells about attacks: results of the honest clients (those that do not attack), and
    the share of attackers in clusters without honest clients. The cells of runs without attacks are
    dashes."""
    texts = []
    for measure in scores_in(runs[0].records[-1]).honest:
        values = [run.final.get(measure.name) for run in runs]
        # The agreement is shown without an interval.
        mean = mean_and_interval(measure.name, values)[measure.name]
        texts.append(
            mean_with_unit(measure, values) if measure.unit == "share" else measure.text(mean)
        )
    return texts


def mean_with_unit(measure: Measure, values: Sequence[float | int | None]) -> str:
    """The mean as text: ``81.2%``, or ``81.2 ± 0.6%`` with half of the interval; ``-`` if a seed
    has no value."""
    name = measure.name
    row = mean_and_interval(name, [None if value is None else float(value) for value in values])
    return measure.mean_with_unit(row[name], row[f"{name}_high"])


def _range(values: Sequence[int]) -> str:
    """A range of numbers as text: the smallest and the largest, or one number if they are equal."""
    low = min(values)
    high = max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
