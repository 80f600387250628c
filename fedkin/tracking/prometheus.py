"""Metrics for Prometheus, as a text file or as a registry for a page.

The library prometheus-client is imported when metrics are asked for. Every value is computed from
what a run has recorded, when it is read. So there are no ``_created`` series, and the library's
global registry stays as it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from fedkin import __version__
from fedkin.core.records import Record
from fedkin.core.storage import complete_lines, storage_errors
from fedkin.tracking import metric_table as table
from fedkin.tracking.metric_table import Sample
from fedkin.tracking.optional_import import import_library
from fedkin.tracking.run_numbers import RunNumbers

_RECORDS = "metrics.jsonl"  # the records of a run, in its folder
FILE = "metrics.prom"  # name of the text file in a folder of a run or a site
Samples = Callable[[], Iterable[Sample]]


class Collector:
    """All metrics of this process, for a registry of prometheus-client.

    Args:
        sources: functions that return values when the metrics are read.
    """

    def __init__(self, sources: Iterable[Samples] = ()) -> None:
        self.sources: list[Samples] = [build_samples, *sources]
        self.runs: dict[str, RunNumbers] = {}

    def collect(self) -> Iterator[Any]:
        """The families of metrics, as prometheus-client wants them."""
        core = import_library("prometheus_client.core", "metrics")
        samples: dict[str, list[Sample]] = {}
        for sample in self._samples():
            samples.setdefault(sample.metric.name, []).append(sample)
        for of_metric in samples.values():
            yield _family(core, of_metric)
        if self.runs:
            yield self._histogram(core)

    def _samples(self) -> Iterator[Sample]:
        """The values of all metrics but the histogram."""
        for source in self.sources:
            yield from source()
        for run in list(self.runs.values()):
            yield from run.samples()

    def _histogram(self, core: Any) -> Any:
        """The histogram of round durations."""
        metric = table.DURATION
        family = core.HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for run in list(self.runs.values()):
            family.add_metric([run.name], run.durations.cumulative(), run.durations.total)
        return family


def _family(core: Any, samples: list[Sample]) -> Any:
    """The values of one metric as a family of prometheus-client."""
    metric = samples[0].metric
    if metric.kind == "info":
        # An info is a gauge with the value 1, and its facts are labels.
        family = core.GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    elif metric.kind == "counter":
        family = core.CounterMetricFamily(
            metric.name.removesuffix("_total"), metric.meaning, labels=metric.labels
        )
    else:
        family = core.GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family


def build_samples() -> Iterator[Sample]:
    """The versions of fedkin and of Flower."""
    try:
        flower = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        flower = ""
    yield Sample(table.BUILD, (__version__, flower), 1.0)


def registry_of(collector: Collector) -> Any:
    """A registry with the metrics of a collector only. Raises MissingExtra without
    prometheus-client."""
    library = import_library("prometheus_client", "metrics")
    registry = library.CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry


def write_metrics(registry: Any, path: Path) -> None:
    """Write all metrics of a registry into a text file, which is replaced in one step. Raises
    StorageError."""
    library = import_library("prometheus_client", "metrics")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        library.write_to_textfile(str(path), registry)


class Prometheus:
    """Tracker that keeps the newest numbers of each run for Prometheus.

    Args:
        file: text file that is written after every round; None: ``metrics.prom`` in the run's
            folder, and of several methods or seeds in the folder of the first.
        writes: whether to write a text file at all.
        sources: further functions that return values, such as the states of sites.
        clock: returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        writes: bool = True,
        sources: Iterable[Samples] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = file
        self.needs_folder = writes and file is None
        self.collector = Collector(sources)
        self.registry = registry_of(self.collector)
        self._writes = writes
        self._clock = clock
        self._numbers: RunNumbers | None = None
        self._last: float | None = None  # when this process saw the last round of the run

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """Begin or go on with the numbers of a run. The rounds in its folder are counted."""
        numbers = RunNumbers(
            name=name,
            method=str(description["method"]["name"]),
            private="privacy" in description,
            folder=folder,
        )
        for record in _stored_records(folder):
            numbers.add(record)
        if self._writes and self.file is None and folder is not None:
            self.file = folder / FILE
        self.collector.runs[name] = numbers
        self._numbers = numbers
        self._last = None

    def __call__(self, record: Record) -> None:
        """Take in the record of a round, and write the text file."""
        numbers = self._numbers
        assert numbers is not None
        if numbers.record is not None and record["round"] < numbers.record["round"]:
            return  # a stored round, which is counted already
        now = self._clock()
        if self._last is not None:
            numbers.durations.add(max(now - self._last, 0.0))
        self._last = now
        numbers.ended = now
        numbers.add(record)
        self.write()

    def end(self, summary: dict[str, Any] | None) -> None:
        """Take in the summary, and write the text file a last time."""
        assert self._numbers is not None
        if summary is not None:
            self._numbers.finish(summary)
        self.write()

    @property
    def last_round(self) -> float | None:
        """When the last round ended, in seconds since the epoch; None before the first."""
        return None if self._numbers is None else self._numbers.ended

    def write(self) -> None:
        """Write the text file, if this tracker has one."""
        if self._writes and self.file is not None:
            write_metrics(self.registry, self.file)


def _stored_records(folder: Path | None) -> list[Record]:
    """The records that a run has in its folder; empty if it has no folder, or none yet."""
    if folder is None or not (folder / _RECORDS).exists():
        return []
    return [json.loads(line) for line in complete_lines(folder / _RECORDS)]
