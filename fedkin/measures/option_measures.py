"""Measures that only runs with an option have, as entries of the list in ``table.py``."""

from __future__ import annotations

from fedkin.measures.measure import Measure

OF_OPTIONS = (
    Measure("late_used", title="late replies used so far", unit="count", direction="neither"),
    Measure("late_dropped", title="late replies dropped so far", unit="count", direction="lower"),
    Measure(
        "clusters_waiting",
        title="clusters that kept their model because too few replies came",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure(
        "simulated_seconds",
        title="seconds since the start by the clock of simulated replies",
        head="simulated seconds",
        direction="lower",
    ),
    Measure(
        "replies_used", title="replies in full buffers so far", unit="count", direction="neither"
    ),
    Measure(
        "replies_dropped", title="buffered replies dropped so far", unit="count", direction="lower"
    ),
    Measure(
        "replies_unused",
        title="replies that came after the round had ended",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure(
        "monitor_evidence",
        title="largest evidence that a client no longer fits (natural logarithm)",
        head="evidence",
        direction="lower",
        kept="round",
    ),
    Measure(
        "monitor_alarms",
        title="clients with an alarm of the monitor in force",
        head="alarms",
        unit="count",
        direction="lower",
        kept="round",
    ),
)
