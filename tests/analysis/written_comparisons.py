"""Comparisons whose accuracies are written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedkin.analysis.compare.comparison import Comparison, Key
from fedkin.config.comparison_grid import ComparisonGrid, Setting, Variant
from fedkin.run.run import Run
from tests.analysis.written_seeds import by_hand

# By method: rounds 0 to T from each seed, None if not finished.
Curves = Mapping[str, Sequence[Sequence[float] | None]]
METHODS = ("fedavg", "fedprox", "ifca", "local", "fedgroup", "flexcfl", "fesem", "sattler", "flhc")
# The bottom 10% of clients scores so much less, where methods have no written number.
LOWER = 0.125


def comparison(
    settings: Mapping[str, Curves], partial: Sequence[int] = (), **run: Any
) -> Comparison:
    """The comparison of those curves; ``run`` goes into the section [run] of its configurations."""
    curves = next(iter(settings.values()))
    seeds = max(len(rows) for rows in curves.values())
    variants = tuple(
        Variant(label, {"name": name}) for label, name in zip(curves, METHODS, strict=False)
    )
    sections = {"data": {"name": "digits", "clients": 10}, "run": {"rounds": 2, "cohort": 3, **run}}
    grid = ComparisonGrid(
        tuple(Setting(label, sections) for label in settings), variants, tuple(range(seeds))
    )
    found: dict[Key, Run] = {}
    for setting, methods in settings.items():
        for method, rows in methods.items():
            for seed, row in enumerate(rows):
                if row is not None:
                    found[setting, method, seed] = finished(row, seed, partial, run)
    return Comparison(grid, found)


def finished(
    curve: Sequence[float], seed: int, partial: Sequence[int], settings: dict[str, Any]
) -> Run:
    """One run; the bottom 10% of clients is always LOWER by as much, and seed s has sent s + 1
    million bytes down."""
    run = by_hand({"fedavg": [curve]}, partial, seed).runs[0]
    sent = {"bytes_down": 1_000_000 * (seed + 1), "bytes_up": 2_000_000 * (seed + 1)}
    bottom = [None if np.isnan(accuracy) else accuracy - LOWER for accuracy in curve]
    records = [{**r, **sent, "bottom_decile": w} for r, w in zip(run.records, bottom, strict=True)]
    return dataclasses.replace(run, records=records, config=run.config.with_run(**settings))


def at_the_end(**finals: Sequence[float | None]) -> dict[str, list[list[float] | None]]:
    """Curves of two rounds by method, from each seed's last value."""
    return {
        name: [None if v is None else [0.1, 0.2, v] for v in values]
        for name, values in finals.items()
    }
