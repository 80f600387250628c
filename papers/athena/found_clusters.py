"""ATHENA-FL's clusters, found before its detectors train, as the paper describes it: DBSCAN
compares the last layers of another model (MobileNetV2) after one short training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedkin.analysis.eps_study import study_eps
from fedkin.clustering.density import assign_noise, by_first_appearance, dbscan
from fedkin.methods import Athena, Hierarchical
from fedkin.models import MODELS
from papers.recipe import Cell, load


@dataclass(frozen=True, kw_only=True)
class FoundClusters(Cell):
    """A cell of ATHENA-FL's, and the clustering round that finds its clusters."""

    found_by: Cell

    def description(self, seed: int) -> dict[str, Any]:
        """The settings that determine a run from a seed, with those of the clustering round."""
        return {**super().description(seed), "clusters_found_by": self.found_by.description(seed)}


def with_clusters(cell: FoundClusters, seed: int) -> tuple[Cell, list[int]]:
    """A cell with the clusters that its clustering round finds, and the cluster of each client.
    A run that is continued repeats the round, which gives the same clusters.

    Args:
        cell: of the method Athena.
        seed: of the run.
    """
    assignment = find_clusters(cell.found_by, seed)
    method = cell.method(cell.setting.clusters)
    assert isinstance(method, Athena)
    given = replace(method, assignment=assignment)
    return replace(cell, method=lambda m: given), list(assignment)


def find_clusters(cell: Cell, seed: int) -> tuple[int, ...]:
    """The cluster of each client that DBSCAN finds in one clustering round; a client that is noise
    is a cluster of one.

    Args:
        cell: of the method Hierarchical; its eps is used.
        seed: of the run.
    """
    s = cell.setting
    method = cell.method(s.clusters)
    assert isinstance(method, Hierarchical)
    data = load(s.data, s.data_options, s.draw(seed))
    model = MODELS[s.model](data, **dict(s.model_options))
    study = study_eps(method, data, model, local=s.training, seed=seed)
    labels = dbscan(study.layers, method.eps, method.min_samples)
    labels = assign_noise(study.layers, labels, method.noise)
    return tuple(by_first_appearance(labels).tolist())
