"""Eps study: the clusters that DBSCAN finds for every value of its parameter eps, computed from a
single clustering round."""

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

_ROWS = 12  # largest number of rows in the table


@dataclass(frozen=True)
class EpsStudy:
    """Results of an eps study: the clients' last layers, and the clusters that DBSCAN finds in
    them.

    Attributes:
        clients: ids of the n clustered clients.
        layers: last layer of each client, as a vector of d parameters.
        min_samples: DBSCAN's min_samples.
        ranges: ranges of eps with the same clusters, ascending.
        curve: k-distances in ascending order. A client's k-distance is the smallest eps at which it
            is a core point.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.Hierarchical(pretraining=1)
        >>> study = fk.study_eps(method, data, fk.models.mclr(data))
        >>> study.layers.shape, study.min_samples
        ((6, 10), 2)
    """

    clients: Int[np.ndarray, "n"]
    layers: Float[np.ndarray, "n d"]
    min_samples: int
    ranges: list[EpsRange]
    curve: Float[np.ndarray, "n"]

    @property
    def suggested(self) -> float:
        """The suggested eps: the middle of the widest range with several clusters and the least
        noise (see ``suggest_eps``)."""
        return suggest_eps(self.ranges)

    @property
    def knee(self) -> float:
        """The knee of the k-distance curve."""
        return knee(self.curve)

    def widest(self) -> list[EpsRange]:
        """For each number of clusters, with and without noise, the range with the largest ratio of
        high to low eps. Ascending by eps."""
        best: dict[tuple[int, bool], EpsRange] = {}
        for eps_range in self.ranges:
            key = (eps_range.clusters, eps_range.noise == 0)
            if key not in best or _growth(eps_range) > _growth(best[key]):
                best[key] = eps_range
        return sorted(best.values(), key=lambda eps_range: eps_range.low)

    def table(self) -> pd.DataFrame:
        """A table with a row for each number of clusters, with and without noise. A row is a range
        of eps. If there are more than 12 rows, only the suggested range and the ranges with the
        largest ratio of high to low eps are shown."""
        suggested = [eps_range for eps_range in self.ranges if self._is_suggested(eps_range)]
        not_suggested = [eps_range for eps_range in self.widest() if eps_range not in suggested]
        widest = sorted(not_suggested, key=_growth)[1 - _ROWS :]
        shown = sorted([*suggested, *widest], key=lambda eps_range: eps_range.low)
        return pd.DataFrame(
            [self._row(eps_range) for eps_range in shown],
            columns=["eps from", "up to", "clusters", "noise", "silhouette", ""],
        )

    def _is_suggested(self, eps_range: EpsRange) -> bool:
        """Whether a range contains the suggested eps."""
        return eps_range.low <= self.suggested < eps_range.high

    def _row(self, eps_range: EpsRange) -> list[str]:
        """The table row of a range of eps, as text."""
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
    """Find the clusters of DBSCAN at every eps, in the first clustering round of ``simulate`` with
    this seed.

    Args:
        method: ``Hierarchical`` or ``Athena``; its ``eps`` is ignored.
        data: the clients' data.
        model: the model to train.
        local: local training; default: as in ``simulate``.
        seed: the seed of the run.

    Raises:
        ConfigError: the method does not cluster last layers by DBSCAN, or does not support the
            model.
        MethodError, ModelError: method, model and data do not fit together.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.Hierarchical(pretraining=1)
        >>> study = fk.study_eps(method, data, fk.models.mclr(data))
        >>> study.clients.tolist()
        [0, 1, 2, 3, 4, 5]
    """
    return of_world(method, SimulatedWorld(data, model, local), seed)


def of_config(config: RunConfig) -> EpsStudy:
    """Run the eps study of a configuration's method, data and model."""
    experiment, methods = from_config(config)
    return of_world(methods[0][1], experiment.worlds.make(), experiment.plan.seed)


def of_world(method: Method, world: World, seed: int) -> EpsStudy:
    """Run the eps study on the clients that a world (the simulated clients with their data) has in
    round 0.

    Args:
        method: ``Hierarchical`` or ``Athena``.
        world: the simulated clients, such as ``fk.SimulatedWorld(data, model)``.
        seed: the seed of the run.

    Raises ConfigError for another method, or for a model that the method does not support.
    """
    if not isinstance(method, LastLayerClustering):
        raise ConfigError(
            "an eps study needs the method hierarchical or athena, got the class "
            f"{type(method).__name__}; change method.name"
        )
    check_model(method, world.spec)
    world.begin(Stream(seed, 0, "scenario"))
    # The same stream as in ``simulate``, so that the clients train as in a run with this seed.
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
    """The ratio of high to low eps of a range, by which ranges are compared; infinite if the range
    begins at 0."""
    return eps_range.high / eps_range.low if eps_range.low > 0 else math.inf
