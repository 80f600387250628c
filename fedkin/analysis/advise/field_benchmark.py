"""Findings of the field's benchmark for a kind of heterogeneity: a prior for the methods to try,
before any pilot."""

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
    """The average ranks of methods where clients differ in one way.

    Attributes:
        kind: ``labels`` or ``concepts``.
        ranks: by the method's name in configurations, the best first; 1 is best.
        settings: the benchmark's settings of this kind.
        clustered: those of the methods that take a number of clusters.
    """

    kind: str
    ranks: dict[str, float]
    settings: tuple[str, ...]
    clustered: tuple[str, ...]

    @property
    def best_clustered(self) -> str:
        """The best method that takes a number of clusters."""
        return next(name for name in self.ranks if name in self.clustered)

    def __str__(self) -> str:
        best = ", ".join(f"{name} {rank:.1f}" for name, rank in list(self.ranks.items())[:SHOWN])
        return (
            f"prior, from other data: where {WORDS[self.kind]}, the best average ranks of "
            f"{len(self.ranks)} methods were {best} (docs/benchmark-field.md: "
            f"{', '.join(self.settings)}); pilots on your data decide, not these"
        )


def field_prior(heterogeneity: pd.DataFrame, clusters: int) -> FieldPrior | None:
    """The benchmark's findings for clients like these: labels differ where their divergence is
    above that of every IID split; else, with several clusters, something else differs by cluster.

    Args:
        heterogeneity: measures of it, compared with IID splits.
        clusters: how many were found.

    Returns:
        None where label divergence was not measured, and where neither is so.
    """
    if "label divergence" not in heterogeneity.index:
        return None
    measured = heterogeneity.loc["label divergence"]
    if measured["value"] > measured["high"]:
        return _findings().get(LABELS)
    return _findings().get(CONCEPTS) if clusters > 1 else None


@cache
def _findings() -> dict[str, FieldPrior]:
    """By kind of heterogeneity."""
    return {
        kind: FieldPrior(kind, entry["ranks"], tuple(entry["settings"]), tuple(entry["clustered"]))
        for kind, entry in json.loads(FINDINGS.read_text()).items()
    }
