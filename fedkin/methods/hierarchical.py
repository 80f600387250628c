"""Hierarchical client clustering: clusters come from one short training; then each is a separate
federation.

L. A. C. de Souza et al.: Aprendizado Federado com Agrupamento Hierarquico de Clientes para Aumento
da Acuracia. SBRC 2022. ``last_layer_clustering`` describes how clients are clustered, and how
newcomers and suspicious clients are treated.

After the clustering round every cluster restarts from w_0, since only last layers have been sent.
It runs FedAvg among its members, or among a random ``fraction`` of them if the cohort is all
clients (the authors train half of a cluster). A cluster may have special hyper-parameters, by its
number: ``own={1: {"lr": 0.01, "epochs": 2}}``; clusters are numbered by their lowest client.
``narrow`` restricts the last layer of a cluster to the classes that its members report: the bias of
every other class is set so low that its probability is exactly zero, and so are its gradients. A
class that a member brings later (a new client, or one whose data shifted) is added before it
trains. (The paper narrows heads; the authors' published scripts do not. A narrowed model keeps all
its parameters, and all of them are sent and counted as traffic.)

No client is clustered again, and clusters share nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ModelChanges, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choice, check_fraction
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.methods.fedavg import train_and_average
from fedkin.methods.last_layer_clustering import MEANINGS, LastLayerClustering, LastLayerState
from fedkin.methods.last_layer_training import count_classes, sample_members

OWN_SETTINGS = {"epochs", "batch_size", "lr", "optimizer", "momentum", "mu", "steps"}
EXCLUDED_BIAS = -1e4  # in float32 the class then has probability zero and a zero gradient


@plain_options
@dataclass(frozen=True)
class Hierarchical(LastLayerClustering):
    """Clusters by the last layer after one short training, then FedAvg in each.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.Hierarchical("kmeans", clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="hierarchical",
        paper="de Souza et al., SBRC 2022",
        compares="last layers",
        when="once, after one training",
        membership="hard",
        decides="server",
        count="found",
        leaves="its last layer, once",
        meanings=MEANINGS,
    )

    fraction: float = 1.0  # share of a cluster's members in the cohort that train
    narrow: bool = False  # restricts heads to the classes of their cluster
    # hyper-parameters of local training that differ from the run's, by cluster
    own: Mapping[int, Mapping[str, float | int | str]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("fraction", self.fraction)
        check_choice("narrow", self.narrow, (True, False))
        if not isinstance(self.own, Mapping):
            raise MethodError(
                "own must map the number of a cluster to settings of its local training, such as "
                f"{{1: {{'lr': 0.01}}}}, got {self.own!r}"
            )
        for cluster in self.own:
            self._work(LocalTraining(), cluster)

    def requirements(self) -> Requirements:
        narrow = "narrow" if self.narrow else ""
        return replace(super().requirements(), changes=ModelChanges(by_option=narrow))

    def check_run(self, spec: ModelSpec, clients: int, work: LocalTraining) -> None:
        """Raise MethodError if a cluster's local training contradicts the run's."""
        for cluster in self.own:
            self._work(work, cluster)

    def init(self, world: World, stream: Stream) -> LastLayerState:
        if world.spec.detects:
            raise MethodError(
                "Hierarchical trains models with a score for every class, not detectors; use "
                "athena for detectors"
            )
        self.check_run(world.spec, world.total_clients, world.work)
        state = self.cluster_clients(world, stream)
        if self.narrow:
            state = replace(state, models=_narrow_heads(world, state))
        return state

    def round(
        self, world: World, state: LastLayerState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> LastLayerState:
        cohort = sample_members(cohort, state.assignment, self.fraction, stream)
        if self.narrow:
            state = replace(state, models=_widen_heads(world, state, cohort))
        # Clusters with special settings are trained one by one, all others in one call.
        special = np.isin(state.assignment[cohort], list(self.own))
        models = train_and_average(world, state, cohort[~special], work=world.work, stream=stream)
        for cluster in np.unique(state.assignment[cohort[special]]):
            members = cohort[state.assignment[cohort] == cluster]
            work = self._work(world.work, int(cluster))
            trained = train_and_average(world, state, members, work=work, stream=stream)
            # ``trained`` holds the models of all clusters, but only this one has trained.
            models[cluster] = trained[cluster]
        return replace(state, models=models)

    def remarks(self, state: LastLayerState) -> tuple[str, ...]:
        remarks = super().remarks(state)
        missing = sorted(k for k in self.own if k >= state.clusters)
        if missing:
            names = ", ".join(map(str, missing))
            remarks += (f"own: there is no cluster {names} among {state.clusters}",)
        return remarks

    def _work(self, common: LocalTraining, cluster: int) -> LocalTraining:
        """The settings of local training in a cluster for which ``own`` has special values.

        Args:
            common: the run's settings.
            cluster: number of the cluster.
        """
        changes = self.own[cluster]
        is_number = isinstance(cluster, (int, np.integer)) and cluster >= 0
        is_valid = isinstance(changes, Mapping) and changes.keys() <= OWN_SETTINGS
        is_valid = is_valid and not {"epochs", "steps"} <= changes.keys()
        if not (is_number and is_valid):
            raise MethodError(
                "own: expected the number of a cluster, from 0, and any of the settings "
                f"{', '.join(sorted(OWN_SETTINGS))} (but not both epochs and steps); got "
                f"{cluster!r}: {changes!r}"
            )
        # The run may count steps, and epochs replace them.
        if "epochs" in changes:
            changes = {"steps": None, **changes}
        try:
            return replace(common, **changes)  # type: ignore[arg-type]
        except ConfigError as error:
            raise MethodError(f"own, cluster {cluster}: {error}") from None


def _narrow_heads(world: World, state: LastLayerState) -> Float[np.ndarray, "K P"]:
    """The clusters' models, with EXCLUDED_BIAS for each class that no member of a cluster has."""
    bias = world.spec.head_bias
    members = np.flatnonzero(state.assignment != UNASSIGNED)
    classes = count_classes(world, members, state.assignment[members], state.clusters)
    if bias is None or bias.stop - bias.start != classes.shape[1]:
        raise MethodError(
            "narrow: this model does not end in a layer with a bias for every class; use another "
            "model, such as model.name=mlp, or set narrow=False"
        )
    models = state.models.copy()
    models[:, bias] = np.where(classes, models[:, bias], EXCLUDED_BIAS)
    return models


def _widen_heads(
    world: World, state: LastLayerState, cohort: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "K P"]:
    """The clusters' models, without exclusions that no longer hold: if a client of the cohort has a
    class that its cluster's head excludes, the bias of this class is set to its value in w_0, so
    that the class is learned from now on."""
    bias = world.spec.head_bias
    assert bias is not None
    counts = count_classes(world, cohort, state.assignment[cohort], state.clusters)
    missing = counts * (state.models[:, bias] <= EXCLUDED_BIAS / 2) > 0
    models = state.models.copy()
    models[:, bias] = np.where(missing, state.start[bias], models[:, bias])
    return models
