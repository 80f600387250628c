"""The report's overview of the runs: data, clients, model, training, rounds, seeds, methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedkin.core.training import LocalTraining
from fedkin.measures.number_texts import duration
from fedkin.reporting.html.lenient_reader import is_finished
from fedkin.reporting.html.read_runs import ReportInput
from fedkin.reporting.option_notes import privacy_in_words, secret_in_words
from fedkin.run.metrics.partial_rounds import scored_text
from fedkin.run.run import Run

_SHOWN = 3  # largest number of different values in a line
_IN_WORDS = ("epochs", "steps", "batch_size", "optimizer", "lr")  # options with a phrase below
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(LocalTraining)}
_PLAIN = ("seed", "tested", "augment")  # options of data that are left out


def overview(report: ReportInput) -> list[tuple[str, str]]:
    """Pairs of a term (e.g. rounds) and its value in the runs. If runs differ, the value lists all
    of them."""
    runs = [reported.run for reported in report.runs]
    lines: list[tuple[str, Callable[[Run], str]]] = [
        ("Data", lambda run: _options(run.config.data, _PLAIN)),
        ("Clients", clients),
        ("Model", lambda run: _options(run.config.model)),
        ("Local training", _local),
        ("Server optimiser", lambda run: _options(run.config.section("server_optimizer"))),
        ("Personal part", lambda run: _options(run.config.section("personal"))),
        ("Privacy", _privacy),
        ("Secret sums", _secret_sums),
        ("Late replies", lambda run: _options(run.config.section("late"))),
        ("Waiting for replies", lambda run: _options(run.config.section("asynchronous"))),
        ("Robust rule", lambda run: _options(run.config.section("robust"))),
        ("Label noise", lambda run: _options(run.config.section("label_noise"))),
        ("Feature noise", lambda run: _options(run.config.section("feature_noise"))),
        ("Attack", lambda run: _options(run.config.section("attack"))),
        ("Scenario", _scenario),
        ("Data shift", lambda run: _options(run.config.shift)),
        ("Rounds", _rounds),
    ]
    rows = [(term, _joined(text(run) for run in runs)) for term, text in lines]
    seeds = sorted({reported.seed for reported in report.runs})
    rows.append(("Seeds", f"{len(seeds)} ({', '.join(map(str, seeds))})"))
    methods = [_method(reported.method, reported.run) for reported in report.runs]
    rows.append(("Methods", ", ".join(dict.fromkeys(methods))))
    rows.append(("Computing time", duration(sum(run.seconds for run in runs))))
    return [(term, text) for term, text in rows if text]


def clients(run: Run) -> str:
    """Text with the number of clients and the cohort size; for real sites, the number that took
    part."""
    cohort = run.config.cohort
    a_round = f"{cohort:,} selected a round" if isinstance(cohort, int) else ""
    if not is_deployed(run):
        return ", ".join(filter(None, [f"{len(run.assignment):,}", a_round]))
    took_part = f"{participants(run):,} of at most {len(run.assignment):,} took part"
    scored = scored_text(run.records[-1])
    last = f"{scored} in the last round" if scored else ""
    lost = sum(record.get("missing") or 0 for record in run.records)
    replies = "every reply arrived"
    if lost:
        replies = f"{lost:,} {'reply' if lost == 1 else 'replies'} did not arrive"
    return ", ".join(filter(None, [took_part, last, a_round, replies]))


def _privacy(run: Run) -> str:
    """Text about differential privacy; empty for a run without it."""
    return privacy_in_words(run.final["privacy"]) if "privacy" in run.final else ""


def _secret_sums(run: Run) -> str:
    """Text about secure aggregation; empty for a run without it."""
    return secret_in_words(run.final["secret"]) if "secret" in run.final else ""


def is_deployed(run: Run) -> bool:
    """Whether the clients were real sites."""
    return run.config.of_federation


def participants(run: Run) -> int:
    """Number of clients that were ever accepted. If it is not recorded, the largest number in one
    round.

    The clients in the run's assignment cannot be counted instead: with a single model, it also
    contains clients that never joined.
    """
    known = [record["members"] for record in run.records if record.get("members") is not None]
    reached = [sum(record.get("cluster_sizes") or []) for record in run.records]
    return max([*known, *reached], default=0)


def _local(run: Run) -> str:
    """The settings of local training as a line: common options as phrases, others by name if they
    differ from their defaults."""
    local = run.config.local
    parts = []
    if local.get("epochs"):
        parts.append(f"{local['epochs']} epoch{'s' if local['epochs'] != 1 else ''}")
    if local.get("steps"):
        parts.append(f"{local['steps']} steps")
    if local.get("batch_size"):
        parts.append(f"batches of {local['batch_size']}")
    optimizer = local.get("optimizer")
    if optimizer is not None:
        parts.append("SGD" if optimizer == "sgd" else str(optimizer))
    if local.get("lr"):
        parts.append(f"learning rate {local['lr']}")
    for name, value in local.items():
        if name not in _IN_WORDS and value != _DEFAULTS.get(name):
            parts.append(f"{name} {_value(value)}")
    return ", ".join(parts)


def _scenario(run: Run) -> str:
    """Text with the shares of clients that drop out or straggle, and the numbers of arrivals and
    departures."""
    shares = {name: value for name, value in run.config.scenario.items() if value}
    moves = {name: shares.pop(name) for name in ("arrivals", "departures") if name in shares}
    counts = (
        f"{name}: {n} in round {round}"
        for name, rounds in moves.items()
        for round, n in rounds.items()
    )
    return ", ".join([*(f"{name} {_value(value)}" for name, value in shares.items()), *counts])


def _value(value: Any) -> str:
    """The value of a configuration's option as text. A schedule (e.g. of learning rates) is shown
    by its own options."""
    if not isinstance(value, Mapping):
        return str(value)
    return "(" + ", ".join(f"{name} {option}" for name, option in value.items()) + ")"


def _rounds(run: Run) -> str:
    """The number of rounds, and the configured number if the run has not reached it."""
    done = run.records[-1]["round"]
    configured = run.config.rounds
    if configured in (None, done):
        return f"{done:,}"
    if is_finished(run):
        return f"stopped after {done:,} of {configured:,}"
    return f"{done:,} of {configured:,} so far"


def _method(label: str, run: Run) -> str:
    """The name of a run's method, with the number of clusters if it is configured."""
    clusters = run.config.clusters
    if clusters is None or "clusters" in label or "K = " in label:
        return label
    return f"{label} (K = {clusters})"


def _options(section: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """Text with the name of a configuration's section and the options that are set in it."""
    options = [
        f"{key} {value}"
        for key, value in section.items()
        if key != "name"
        and key not in without
        and value not in (None, [], "", 0.0)
        and not isinstance(value, dict)
    ]
    return ", ".join([str(section.get("name", "")), *options]).strip(", ")


def _joined(texts: Iterable[str]) -> str:
    """The values of all runs as one text: the distinct ones joined, at most ``_SHOWN`` of them."""
    different = list(dict.fromkeys(text for text in texts if text))
    text = "; ".join(different[:_SHOWN])
    if len(different) > _SHOWN:
        text += f"; {len(different) - _SHOWN} more"
    return text
