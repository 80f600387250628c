"""The values behind a claim: one a draw of the data, or one a seed, and their 95% interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np

from fedkin.analysis.statistics import LEAST_SEEDS, interval
from papers.recipe import Setting
from papers.reproduction_marks import Results, figures_by_seed

PERCENT = 100
BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Sample:
    """Values of one measurement.

    Attributes:
        values: one a draw of the data, the mean over its seeds; where all seeds share one draw, one
            a seed. Seeds of one draw are no independent samples of the data.
        seeds: number of seeds behind the values.
        draws: number of draws of the data behind the values.
        independent: False where the values share more than the data: then their mean has no
            interval.
    """

    values: tuple[float, ...] = ()
    seeds: int = 0
    draws: int = 0
    independent: bool = True

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return mean(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the values; None for a single value."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def has_interval(self) -> bool:
        """Whether there are enough independent values for an interval of the mean."""
        return self.independent and len(self.values) >= LEAST_SEEDS

    @property
    def bounds(self) -> tuple[float, float]:
        """The 95% interval of the mean (Student's t); the mean twice where it has none."""
        if not self.has_interval:
            return self.mean, self.mean
        band = interval(np.array(self.values)[:, None])
        return float(band.low[0]), float(band.high[0])


def difference(ours: BySeed, theirs: BySeed, factor: float = 1.0) -> BySeed:
    """Ours minus theirs, of the seeds that both have, times a factor."""
    shared = sorted(ours.keys() & theirs.keys())
    return {seed: factor * (ours[seed] - theirs[seed]) for seed in shared}


def sample_of(by_seed: BySeed, setting: Setting) -> Sample:
    """The values of a row of a table: by draw, or by seed where its recipe has a single draw."""
    by_draw: dict[int, list[float]] = {}
    for seed in sorted(by_seed):
        by_draw.setdefault(setting.draw(seed), []).append(by_seed[seed])
    if len(setting.draws) == 1:
        values = [value for of_draw in by_draw.values() for value in of_draw]
    else:
        values = [mean(of_draw) for of_draw in by_draw.values()]
    return Sample(tuple(values), seeds=len(by_seed), draws=len(by_draw))


def sample_of_seeds(by_seed: BySeed) -> Sample:
    """The values where each seed has its own draw of the data."""
    values = tuple(by_seed[seed] for seed in sorted(by_seed))
    return Sample(values, seeds=len(values), draws=len(values))


def lowest(gaps: Sequence[BySeed], setting: Setting) -> Sample:
    """The difference to the best of other methods: the one with the lowest mean, as in a table.

    Args:
        gaps: the difference to each other method; only seeds that all of them have count.
        setting: of the row.
    """
    shared = set.intersection(*(set(gap) for gap in gaps))
    samples = [sample_of({seed: gap[seed] for seed in shared}, setting) for gap in gaps]
    return min(samples, key=lambda sample: sample.mean if sample.values else 0.0)


def best_gap(
    results: Results, table: str, setting: Setting, column: str, others: Sequence[str]
) -> Sample:
    """Points by which a method's best accuracy is ahead of the best of others, in pairs of seeds.

    Args:
        results: stored runs.
        table: of the cells, as runs name it: III or IV.
        setting: of the row.
        column: the method.
        others: the methods that it is compared with.
    """
    ours, *theirs = (
        figures_by_seed(results, table, setting.row, name, "best") for name in (column, *others)
    )
    return lowest([difference(ours, other, PERCENT) for other in theirs], setting)
