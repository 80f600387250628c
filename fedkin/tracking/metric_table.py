"""The metrics for Prometheus: names, types, labels and meanings, each declared once.

The page ``docs/operate.md`` has the same table, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram", "info"]

# Upper bounds of the histogram of round durations, in seconds.
BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)


class Metric(NamedTuple):
    """The declaration of one metric.

    Attributes:
        name: its name as Prometheus shows it, so that counters end in ``_total``.
        kind: its type.
        labels: names of its labels.
        meaning: one sentence about it.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


class Sample(NamedTuple):
    """One value of a metric, with the values of its labels in the order of their names."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


BUILD = Metric("fedkin_build_info", "info", ("version", "flwr_version"), "Versions of the program.")
RUN = Metric("fedkin_run_info", "info", ("run", "method"), "The run and its method.")
ROUNDS = Metric("fedkin_rounds_total", "counter", ("run",), "Finished rounds.")
LAST_ROUND = Metric(
    "fedkin_last_round_timestamp_seconds", "gauge", ("run",), "When the last round ended."
)
DURATION = Metric(
    "fedkin_round_duration_seconds",
    "histogram",
    ("run",),
    "Duration of the rounds that this process has run.",
)
NODES = Metric("fedkin_nodes", "gauge", ("state",), "Sites by state: online, absent or refused.")
SITE_ONLINE = Metric(
    "fedkin_site_online",
    "gauge",
    ("site",),
    "1 for a site that is online, 0 for one that is absent or refused; only with `sites = true`.",
)
REPLIES = Metric(
    "fedkin_replies_total",
    "counter",
    ("run", "task", "outcome"),
    "Replies that were not used as they came: missing, nonfinite, outlier, late_used, "
    "late_dropped.",
)
TRANSFER = Metric(
    "fedkin_transfer_bytes_total",
    "counter",
    ("run", "task", "direction"),
    "Bytes of the arrays that tasks declare; direction is down or up.",
)
MESSAGES = Metric(
    "fedkin_message_bytes_total",
    "counter",
    ("run", "task", "direction"),
    "Bytes of real messages, with headers and handshakes.",
)
CLUSTERS = Metric("fedkin_clusters", "gauge", ("run",), "Clusters with at least one client.")
CLUSTER_CLIENTS = Metric(
    "fedkin_cluster_clients", "gauge", ("run", "cluster"), "Clients of a cluster."
)
CLUSTER_ACCURACY = Metric(
    "fedkin_cluster_accuracy_ratio",
    "gauge",
    ("run", "cluster"),
    "Accuracy of a cluster's model on its clients, from 0 to 1.",
)
CLUSTER_EVIDENCE = Metric(
    "fedkin_cluster_evidence_log",
    "gauge",
    ("run", "cluster"),
    "Largest log e-value of a cluster's clients that they no longer fit; only with [monitor].",
)
LOSS = Metric("fedkin_loss", "gauge", ("run",), "Mean loss over the evaluated clients.")
ACCURACY = Metric(
    "fedkin_accuracy_ratio", "gauge", ("run",), "Accuracy over all evaluated samples, from 0 to 1."
)
WORST = Metric(
    "fedkin_bottom_decile_accuracy_ratio",
    "gauge",
    ("run",),
    "Mean accuracy of the bottom 10% of clients.",
)
MIGRATIONS = Metric(
    "fedkin_migrations_total",
    "counter",
    ("run", "reason"),
    "Clients that went to another cluster; the reason is method, as the method moved them.",
)
EPSILON = Metric(
    "fedkin_privacy_epsilon", "gauge", ("run",), "Epsilon of a finished run with [privacy]."
)
CHECKPOINT = Metric(
    "fedkin_checkpoint_timestamp_seconds",
    "gauge",
    ("run",),
    "When the newest checkpoint was written.",
)
EGRESS = Metric(
    "fedkin_site_egress_bytes_total",
    "counter",
    ("task",),
    "Bytes of the replies that this site has sent.",
)
CONTACT = Metric(
    "fedkin_site_last_contact_timestamp_seconds",
    "gauge",
    (),
    "When this site last answered a request of the server.",
)

OF_RUNS = (
    BUILD,
    RUN,
    ROUNDS,
    LAST_ROUND,
    DURATION,
    REPLIES,
    TRANSFER,
    MESSAGES,
    CLUSTERS,
    CLUSTER_CLIENTS,
    CLUSTER_ACCURACY,
    CLUSTER_EVIDENCE,
    ACCURACY,
    WORST,
    LOSS,
    MIGRATIONS,
    EPSILON,
    CHECKPOINT,
)
# What a run with [privacy] shows: the others would tell scores or sizes without noise.
OF_PRIVATE_RUNS = (BUILD, RUN, ROUNDS, LAST_ROUND, DURATION, EPSILON, CHECKPOINT)
OF_SERVERS = (NODES, SITE_ONLINE)
OF_SITES = (EGRESS, CONTACT)
# Where each metric is found: in any run, only at a server, only at a site.
PLACES: Mapping[str, tuple[Metric, ...]] = {
    "run": OF_RUNS,
    "server": OF_SERVERS,
    "site": OF_SITES,
}


def table() -> str:
    """The metrics as a table of Markdown."""
    lines = ["| metric | type | labels | meaning | where |", "|---|---|---|---|---|"]
    for place, metrics in PLACES.items():
        for metric in metrics:
            labels = ", ".join(metric.labels) or "-"
            row = (f"`{metric.name}`", metric.kind, labels, metric.meaning, place)
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)
