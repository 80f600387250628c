"""Which methods ranked best in our benchmark, for each kind of heterogeneity.

The advice uses these ranks where pilot runs give no result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

LABELS = "labels"
CONCEPTS = "concepts"
WORDS = {LABELS: "labels differ", CONCEPTS: "clients differ by cluster, and labels do not"}
FINDINGS = Path(__file__).with_name("field_benchmark.json")  # written by python -m papers.benchmark
SHOWN = 3


@dataclass(frozen=True)
class FieldPrior:
    """The average ranks of methods for one kind of heterogeneity.

    Attributes:
        kind: ``labels`` or ``concepts``.
        ranks: average rank of each method, by name in configurations, best first; 1 is the best
            rank.
        settings: names of the benchmark's settings (data sets and partitions) with this kind of
            heterogeneity.
        clustered: names of the methods with an option for the number of clusters.
    """

    kind: str
    ranks: dict[str, float]
    settings: tuple[str, ...]
    clustered: tuple[str, ...]

    @property
    def best_clustered(self) -> str:
        """The name of the best method that has an option for the number of clusters."""
        return next(name for name in self.ranks if name in self.clustered)

    def __str__(self) -> str:
        best = ", ".join(f"{name} {rank:.1f}" for name, rank in list(self.ranks.items())[:SHOWN])
        return (
            f"prior from benchmark data: where {WORDS[self.kind]}, the best average ranks of "
            f"{len(self.ranks)} methods were {best} (docs/benchmark-field.md: "
            f"{', '.join(self.settings)}); pilots on your data take precedence"
        )


def field_prior(heterogeneity: pd.DataFrame, clusters: int) -> FieldPrior | None:
    """The benchmark's findings for clients with this heterogeneity.

    The kind is ``labels`` if the clients' label distributions differ more than in every IID split.
    Otherwise, if there are several clusters, it is ``concepts``: clusters differ in how labels
    depend on features.

    Args:
        heterogeneity: measures of heterogeneity, compared with IID splits.
        clusters: the estimated number of clusters.

    Returns:
        The findings; None if label divergence was not measured or neither case applies.
    """
    if "label divergence" not in heterogeneity.index:
        return None
    measured = heterogeneity.loc["label divergence"]
    if measured["value"] > measured["high"]:
        return _findings().get(LABELS)
    return _findings().get(CONCEPTS) if clusters > 1 else None


@cache
def _findings() -> dict[str, FieldPrior]:
    """The findings of fedkin's benchmark of methods, read from a JSON file, by kind of
    heterogeneity."""
    return {
        kind: FieldPrior(kind, entry["ranks"], tuple(entry["settings"]), tuple(entry["clustered"]))
        for kind, entry in json.loads(FINDINGS.read_text()).items()
    }
