"""Which eps makes which clusters: what DBSCAN would find at every eps, from one clustering round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedkin.clustering.dbscan_eps import EpsRange, eps_ranges, k_distances, knee, suggest
from fedkin.config.run import Config
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED, Method
from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining, World
from fedkin.data.federated import FederatedData
from fedkin.methods.last_layer import LastLayer
from fedkin.reporting.style import COLOURS, FADED, prepare, save_as
from fedkin.run.loop import check_kind
from fedkin.run.simulate import from_config
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel

_ROWS = 12  # of the table


@dataclass(frozen=True)
class EpsStudy:
    """The last layers of the clients that were clustered, and what every eps makes of them."""

    clients: Int[np.ndarray, "n"]
    layers: Float[np.ndarray, "n d"]
    min_samples: int
    ranges: list[EpsRange]
    curve: Float[np.ndarray, "n"]  # k-distances, ascending: the least eps at which each client is a core point

    @property
    def suggested(self) -> float:
        """The middle of the widest range that tells clients apart with least noise (see ``clustering.eps.suggest``)."""
        return suggest(self.ranges)

    @property
    def knee(self) -> float:
        """Where the k-distance curve bends."""
        return knee(self.curve)

    def widest(self) -> list[EpsRange]:
        """For every number of clusters the range in which eps can grow most, ascending by eps."""
        best: dict[tuple[int, bool], EpsRange] = {}
        for one in self.ranges:
            key = (one.clusters, one.noise == 0)
            if key not in best or _growth(one) > _growth(best[key]):
                best[key] = one
        return sorted(best.values(), key=lambda one: one.low)

    def table(self) -> pd.DataFrame:
        """One row per number of clusters, with and without noise; of many, those in which eps can grow most."""
        told = [one for one in self.ranges if one.low <= self.suggested < one.high]
        others = [one for one in self.widest() if one not in told]
        shown = sorted([*told, *sorted(others, key=_growth)[1 - _ROWS :]], key=lambda one: one.low)
        return pd.DataFrame(
            {
                "eps from": [f"{one.low:.4g}" for one in shown],
                "up to": [f"{one.high:.4g}" if math.isfinite(one.high) else "any" for one in shown],
                "clusters": [str(one.clusters) for one in shown],
                "noise": [str(one.noise) for one in shown],
                "silhouette": ["-" if one.silhouette is None else f"{one.silhouette:.2f}" for one in shown],
                "": ["suggested" if one.low <= self.suggested < one.high else "" for one in shown],
            }
        )

    def summary(self) -> dict[str, Any]:
        """All ranges, as JSON can hold them (``high`` of the last is None)."""
        ranges = [{**vars(one), "high": one.high if math.isfinite(one.high) else None} for one in self.ranges]
        return {"clients": len(self.clients), "min_samples": self.min_samples, "suggested": self.suggested,
                "knee": self.knee, "k_distances": self.curve.tolist(), "ranges": ranges}  # fmt: skip


def study_eps(
    method: Method, data: FederatedData, model: AnyModel, *, local: LocalTraining | None = None, seed: int = 0
) -> EpsStudy:
    """What every eps would make of the clients, from the clustering round that ``simulate`` with this seed begins with.

    Raises:
        ConfigError: a method that does not cluster last layers, or a model that it does not train.
        MethodError, ModelError: what does not fit together.
    """
    return of_world(method, SimulatedWorld(data, model, local), seed)


def of_config(config: Config) -> EpsStudy:
    """The same for a configuration."""
    experiment, methods = from_config(config, False, None)
    return of_world(methods[0][1], experiment.world(), experiment.plan.seed)


def of_world(method: Method, world: World, seed: int) -> EpsStudy:
    """The same, asked of the clients that a world has in round 0."""
    if not isinstance(method, LastLayer):
        raise ConfigError(
            f"eps is for the methods hierarchical and athena, got {type(method).__name__}; see method.name"
        )
    check_kind(method, world.spec)
    world.begin(Stream(seed, 0, "scenario"))
    state = method.clustered(world, Stream(seed, 0, "method/init"))
    clients = np.flatnonzero(state.assignment != UNASSIGNED)
    layers = state.layers[clients]
    curve = k_distances(layers, method.min_samples)
    return EpsStudy(clients, layers, method.min_samples, eps_ranges(layers, method.min_samples), curve)


def save(study: EpsStudy, path: Path) -> list[Path]:
    """The picture as png and svg, whatever the ending of ``path``.

    Raises StorageError where it cannot be written.
    """
    return save_as(lambda: draw(study), path)


def draw(study: EpsStudy) -> Figure:
    """How many clusters each eps makes; and the k-distance curve."""
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    _clusters(left, study)
    _k_distances(right, study)
    return figure


def _clusters(axes: Axes, study: EpsStudy) -> None:
    prepare(axes, "What DBSCAN finds", f"min_samples = {study.min_samples}; dashed: suggested, {study.suggested:.3g}")
    lows = np.array([one.low for one in study.ranges])
    known = lows[lows > 0]
    ends = (known.min() / 1.5, known.max() * 1.5) if len(known) else (study.suggested / 2, study.suggested * 2)
    edges = np.concatenate([[ends[0]], lows[lows > ends[0]], [ends[1]]])
    inside = [next(one for one in study.ranges if one.low <= edge < one.high) for edge in edges[:-1]]
    for what, colour in (("clusters", COLOURS[0]), ("noise", COLOURS[1])):
        axes.stairs([getattr(one, what) for one in inside], edges, color=colour, lw=2, baseline=None, label=what)
    axes.axvline(study.suggested, color=FADED, ls=(0, (4, 3)))
    axes.set_xscale("log")
    axes.set_ylim(bottom=-0.2)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("eps")
    axes.legend(frameon=False)


def _k_distances(axes: Axes, study: EpsStudy) -> None:
    prepare(axes, "k-distance curve", f"least eps at which each client is a core point; knee: {study.knee:.3g}")
    axes.plot(
        np.arange(1, len(study.curve) + 1), study.curve, color=COLOURS[0], marker="o", ms=3, lw=1.6, clip_on=False
    )
    axes.axhline(study.knee, color=FADED, ls=(0, (4, 3)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clients, by distance")


def _growth(one: EpsRange) -> float:
    return one.high / one.low if one.low > 0 else math.inf
