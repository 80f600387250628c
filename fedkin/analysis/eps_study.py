"""Eps study: the clusters that DBSCAN finds at every eps, from one clustering round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from fedkin.clustering.dbscan_eps import EpsRange, eps_ranges, k_distances, knee, suggest_eps
from fedkin.config.run import RunConfig
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED, Method
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.data.federated import FederatedData
from fedkin.methods.last_layer_clustering import LastLayerClustering
from fedkin.run.method_checks import check_model
from fedkin.run.simulate import from_config
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel

_ROWS = 12  # of the table


@dataclass(frozen=True)
class EpsStudy:
    """The last layers of the clients, and the clusters that DBSCAN finds in them at every eps.

    Attributes:
        clients: ids of the n clustered clients.
        layers: their last layers, d parameters each.
        min_samples: of DBSCAN.
        ranges: ranges of eps that give the same clusters, ascending.
        curve: k-distances, ascending: the smallest eps at which each client is a core point.
    """

    clients: Int[np.ndarray, "n"]
    layers: Float[np.ndarray, "n d"]
    min_samples: int
    ranges: list[EpsRange]
    curve: Float[np.ndarray, "n"]

    @property
    def suggested(self) -> float:
        """The middle of the widest range with the least noise and several clusters (see
        ``suggest_eps``)."""
        return suggest_eps(self.ranges)

    @property
    def knee(self) -> float:
        """The knee of the k-distance curve."""
        return knee(self.curve)

    def widest(self) -> list[EpsRange]:
        """The relatively widest eps range for each number of clusters, ascending by eps."""
        best: dict[tuple[int, bool], EpsRange] = {}
        for eps_range in self.ranges:
            key = (eps_range.clusters, eps_range.noise == 0)
            if key not in best or _growth(eps_range) > _growth(best[key]):
                best[key] = eps_range
        return sorted(best.values(), key=lambda eps_range: eps_range.low)

    def table(self) -> pd.DataFrame:
        """One row per number of clusters, with and without noise; only the relatively widest ranges
        if there are many."""
        suggested = [eps_range for eps_range in self.ranges if self._is_suggested(eps_range)]
        not_suggested = [eps_range for eps_range in self.widest() if eps_range not in suggested]
        widest = sorted(not_suggested, key=_growth)[1 - _ROWS :]
        shown = sorted([*suggested, *widest], key=lambda eps_range: eps_range.low)
        return pd.DataFrame(
            [self._row(eps_range) for eps_range in shown],
            columns=["eps from", "up to", "clusters", "noise", "silhouette", ""],
        )

    def _is_suggested(self, eps_range: EpsRange) -> bool:
        return eps_range.low <= self.suggested < eps_range.high

    def _row(self, eps_range: EpsRange) -> list[str]:
        """The cells of a range in the table."""
        high = f"{eps_range.high:.4g}" if math.isfinite(eps_range.high) else "any"
        silhouette = "-" if eps_range.silhouette is None else f"{eps_range.silhouette:.2f}"
        return [
            f"{eps_range.low:.4g}",
            high,
            str(eps_range.clusters),
            str(eps_range.noise),
            silhouette,
            "suggested" if self._is_suggested(eps_range) else "",
        ]

    def summary(self) -> dict[str, Any]:
        """The study as plain JSON values; ``high`` of the last range is None."""
        ranges = []
        for eps_range in self.ranges:
            high = eps_range.high if math.isfinite(eps_range.high) else None
            ranges.append({**vars(eps_range), "high": high})
        return {
            "clients": len(self.clients),
            "min_samples": self.min_samples,
            "suggested": self.suggested,
            "knee": self.knee,
            "k_distances": self.curve.tolist(),
            "ranges": ranges,
        }


def study_eps(
    method: Method,
    data: FederatedData,
    model: AnyModel,
    *,
    local: LocalTraining | None = None,
    seed: int = 0,
) -> EpsStudy:
    """The clusters at every eps, from the first clustering round of ``simulate`` with this seed.

    Args:
        method: ``Hierarchical`` or ``Athena``; its ``eps`` is ignored.
        data: the clients' data.
        model: the model to train.
        local: local training; default: as in ``simulate``.
        seed: the seed of the run.

    Raises:
        ConfigError: a method that does not cluster last layers, or a model that it does not train.
        MethodError, ModelError: method, model and data do not fit together.
    """
    return of_world(method, SimulatedWorld(data, model, local), seed)


def of_config(config: RunConfig) -> EpsStudy:
    """The eps study of a configuration."""
    experiment, methods = from_config(config)
    return of_world(methods[0][1], experiment.worlds.make(), experiment.plan.seed)


def of_world(method: Method, world: World, seed: int) -> EpsStudy:
    """The eps study of the clients that a world has in round 0.

    Args:
        method: ``Hierarchical`` or ``Athena``.
        world: the world of the clients.
        seed: the seed of the run.

    Raises ConfigError for another method, or a model that it does not train.
    """
    if not isinstance(method, LastLayerClustering):
        raise ConfigError(
            f"eps is for the methods hierarchical and athena, got {type(method).__name__}; see "
            "method.name"
        )
    check_model(method, world.spec)
    world.begin(Stream(seed, 0, "scenario"))
    state = method.cluster_clients(world, Stream(seed, 0, "method/init"))
    clients = np.flatnonzero(state.assignment != UNASSIGNED)
    layers = state.layers[clients]
    curve = k_distances(layers, method.min_samples)
    return EpsStudy(
        clients=clients,
        layers=layers,
        min_samples=method.min_samples,
        ranges=eps_ranges(layers, method.min_samples),
        curve=curve,
    )


def _growth(eps_range: EpsRange) -> float:
    return eps_range.high / eps_range.low if eps_range.low > 0 else math.inf
