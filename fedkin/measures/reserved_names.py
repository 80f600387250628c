"""Names that records, summaries and tables already use, so that a user's measure cannot have
them."""

from __future__ import annotations

# Entries of records and summaries that are not measures: names, lists, statements, settings.
OTHER_ENTRIES = (
    "round",
    "method",
    "split",
    "partial",
    "seed",
    "data",
    "model",
    "target",
    "stopped",
    "failed",
    "accuracy_by_cluster",
    "accuracy_by_detector",
    "accuracy_interval",
    "final_interval",
    "final_partial",
    "cluster_sizes",
    "monitor_evidence_by_cluster",
    "monitor_acts",
    "discrepancy_to_global",
    "bytes_by_operation",
    "messages_by_operation",
    "trust",
    "attackers",
    "rule_weights",
    "privacy",
    "secret",
)

# Columns of tables over seeds and settings that are not measures.
TABLE_ENTRIES = (
    "setting",
    "seeds",
    "reached",
    "reason",
    "against",
    "difference",
    "low",
    "high",
    "p",
    "verdict",
    "why",
)
