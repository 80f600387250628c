"""Notes below the final table about the options of a run: privacy, secret sums, the monitor of
clusters and late replies."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fedkin.config.registry import method_title
from fedkin.core.object_repr import count
from fedkin.options.monitor.proposals import KINDS


def privacy_in_words(statement: dict[str, Any]) -> str:
    """Text about differential privacy: epsilon and delta, the unit that they protect (e.g. a
    client), and the released rounds and scores."""
    epsilon = statement["epsilon"]
    shown = epsilon if isinstance(epsilon, str) else f"{epsilon:.3g}"
    warning = f"; {statement['warning']}" if "warning" in statement else ""
    rounds = statement["rounds"]["released"]
    scores = ""
    if "scores" in statement:
        mean = statement["scores"]["mean_accuracy"]
        noise = statement["scores"]["standard_deviation_of_noise"]
        scores = f"; released mean accuracy of clients {mean:.3f} (noise {noise:.2g})"
    price = f"epsilon {shown} at delta {statement['delta']:g}, of {statement['unit']}"
    return f"{price} ({rounds:,} released){scores}{warning}"


def secret_in_words(statement: dict[str, Any]) -> str:
    """Text about secure aggregation: the number of secret sums (sums of updates that the server
    cannot see one by one), and of lost and clipped updates."""
    counts = {"lost": statement["lost"], "with clipped numbers": statement["clipped"]}
    words = [f"{statement['sums']:,} sums of {statement['answered']:,} updates"]
    words += [f"{number:,} {name}" for name, number in counts.items() if number]
    clear = f"; in the clear: {', '.join(statement['clear'])}" if statement["clear"] else ""
    return f"secret: {', '.join(words)}{clear}"


def monitor_in_words(summary: dict[str, Any]) -> str:
    """How many alarms and proposals the monitor has made; empty without the monitor."""
    if "monitor" not in summary:
        return ""
    counts = Counter(act["kind"] for act in summary["monitor"])
    if not counts:
        return "monitor: no alarm"
    found = [
        count(counts[kind], words.one, words.several)
        for kind, words in KINDS.items()
        if counts[kind]
    ]
    # A client may have moved more than once.
    moved = {act["client"] for act in summary["monitor"] if act["done"]}
    if moved:
        found.append(f"{count(len(moved), 'client')} moved")
    return f"monitor: {', '.join(found)}; `fedkin advise RUN` says more"


def late_in_words(summary: dict[str, Any]) -> str:
    """Note with the number of clients' replies that came too late."""
    used = summary["late_used"]
    dropped = summary["late_dropped"]
    title = method_title(summary["method"])
    return f"{title}: late replies: {used:,} used in a later round, {dropped:,} dropped"


def buffers_in_words(summary: dict[str, Any]) -> str:
    """Note with the number of replies in full buffers, for asynchronous clusters."""
    used = summary["replies_used"]
    dropped = summary["replies_dropped"]
    title = method_title(summary["method"])
    return f"{title}: buffered clusters: {used:,} replies used, {dropped:,} dropped"
