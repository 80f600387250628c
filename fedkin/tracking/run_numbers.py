"""The numbers of one run for Prometheus, from the records that the run writes anyway."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkin.core.records import Record
from fedkin.tracking import metric_table as table
from fedkin.tracking.metric_table import Metric, Sample

# The outcomes of replies that a record counts, by its entry: for the round alone.
_OF_ROUND = {"missing": "missing", "nonfinite": "nonfinite", "outliers": "outlier"}
# The same for entries that count from the start of the run.
_SINCE_START = ("late_used", "late_dropped")
# Metrics with a value for each cluster, and their entries of a record.
_BY_CLUSTER = {
    table.CLUSTER_ACCURACY: "accuracy_by_cluster",
    table.CLUSTER_EVIDENCE: "monitor_evidence_by_cluster",
}
_DIRECTIONS = ("down", "up")
_TRAINING = "train"  # the task of which records count replies
_BY_METHOD = "method"  # the reason of migrations, which records do not divide further


@dataclass
class Durations:
    """How many rounds took at most as long as each bound of ``BUCKETS``, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(table.BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float | int) -> None:
        """Count a round of this length."""
        self.counts[bisect_left(table.BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """The number of rounds up to each bound, as Prometheus wants them."""
        bounds = [*map(str, table.BUCKETS), "+Inf"]
        reached = 0
        rows = []
        for bound, count in zip(bounds, self.counts, strict=True):
            reached += count
            rows.append((bound, float(reached)))
        return rows


@dataclass
class RunNumbers:
    """The newest numbers of one run.

    Attributes:
        name: the run's name, the value of the label ``run``.
        method: the name of its method.
        private: whether the run has [privacy], so that only numbers without scores are shown.
        folder: the run's folder; None if it has none.
        record: the record of the last round.
        ended: when that round ended, in seconds since the epoch.
        durations: durations of the rounds that this process has run.
        sums: replies by outcome, and migrations, over all rounds.
        epsilon: epsilon of the finished run, if it has one.
    """

    name: str
    method: str
    private: bool
    folder: Path | None
    record: Record | None = None
    ended: float | None = None
    durations: Durations = field(default_factory=Durations)
    sums: dict[str, int] = field(default_factory=dict)
    epsilon: float | None = None

    def add(self, record: Record) -> None:
        """Take in the record of a round. Each round counts once."""
        if self.record is not None and record["round"] <= self.record["round"]:
            return
        for entry in (*_OF_ROUND, "migrations"):
            self.sums[entry] = self.sums.get(entry, 0) + int(record.get(entry) or 0)
        self.record = record

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Take in the summary of the finished run."""
        epsilon = summary.get("privacy", {}).get("epsilon")
        if epsilon is not None:
            self.epsilon = float("inf") if epsilon == "infinite" else float(epsilon)

    def samples(self) -> Iterator[Sample]:
        """The values of all metrics but the histogram. A private run shows only some of them."""
        allowed = table.OF_PRIVATE_RUNS if self.private else table.OF_RUNS
        yield from (sample for sample in self._all_samples() if sample.metric in allowed)

    def _all_samples(self) -> Iterator[Sample]:
        """The values of all metrics, also those that a private run does not show."""
        yield Sample(table.RUN, (self.name, self.method), 1.0)
        yield from self._single(table.EPSILON, self.epsilon)
        yield from self._single(table.CHECKPOINT, newest_checkpoint(self.folder))
        yield from self._single(table.LAST_ROUND, self.ended)
        record = self.record
        if record is None:
            return
        yield from self._single(table.ROUNDS, record["round"])
        yield from self._single(table.ACCURACY, record.get("accuracy"))
        yield from self._single(table.WORST, _worst(record))
        yield from self._single(table.LOSS, record.get("loss"))
        yield from self._clusters(record)
        yield from self._replies(record)
        yield Sample(table.MIGRATIONS, (self.name, _BY_METHOD), float(self.sums["migrations"]))
        yield from self._bytes(table.TRANSFER, record.get("bytes_by_operation"))
        yield from self._bytes(table.MESSAGES, record.get("messages_by_operation"))

    def _single(self, metric: Metric, value: float | int | None) -> Iterator[Sample]:
        """The value of a metric whose only label is the run; nothing if it is unknown."""
        if value is not None:
            yield Sample(metric, (self.name,), float(value))

    def _clusters(self, record: Record) -> Iterator[Sample]:
        """Size, accuracy and evidence of each cluster."""
        sizes = record.get("cluster_sizes")
        if sizes is not None:
            yield Sample(table.CLUSTERS, (self.name,), float(sum(size > 0 for size in sizes)))
        for cluster, size in enumerate(sizes or ()):
            yield Sample(table.CLUSTER_CLIENTS, (self.name, str(cluster)), float(size))
        for metric, entry in _BY_CLUSTER.items():
            for cluster, value in enumerate(record.get(entry) or ()):
                if value is not None:
                    yield Sample(metric, (self.name, str(cluster)), float(value))

    def _replies(self, record: Record) -> Iterator[Sample]:
        """Replies that were not used as they came, by outcome."""
        for entry, outcome in _OF_ROUND.items():
            yield Sample(
                table.REPLIES, (self.name, _TRAINING, outcome), float(self.sums.get(entry, 0))
            )
        for outcome in _SINCE_START:
            if record.get(outcome) is not None:
                yield Sample(table.REPLIES, (self.name, _TRAINING, outcome), float(record[outcome]))

    def _bytes(self, metric: Metric, by_task: Mapping[str, Any] | None) -> Iterator[Sample]:
        """Bytes of each task in both directions."""
        for task, counts in (by_task or {}).items():
            for direction, count in zip(_DIRECTIONS, counts, strict=True):
                yield Sample(metric, (self.name, task, direction), float(count))


def newest_checkpoint(folder: Path | None) -> float | None:
    """When the newest checkpoint of a run was written, in seconds since the epoch; None if there
    is none."""
    if folder is None:
        return None
    try:
        times = [file.stat().st_mtime for file in (folder / "checkpoints").glob("round-*")]
    except OSError:
        return None
    return max(times, default=None)


def _worst(record: Record) -> float | None:
    """The accuracy of the bottom 10% of clients; None for scores of other kinds."""
    return record.get("bottom_decile") if record.get("accuracy") is not None else None
