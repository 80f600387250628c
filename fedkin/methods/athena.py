"""ATHENA-FL: each cluster trains one detector for every class that it has; together they classify.

L. A. C. de Souza, G. F. Camilo, G. A. F. Rebello, M. Sammarco, M. E. M. Campista, L. H. M. K.
Costa: ATHENA-FL: Evitando a Heterogeneidade Estatistica atraves do Um-contra-Todos no Aprendizado
Federado. CoUrb 2023; and the thesis.

    f_d         detector d, a model with one score, trained by FedAvg in its cluster: its class
                against the cluster's other classes
    class of x  = argmax_c f_{d(c)}(x) over one detector d(c) of each class; in a tie, the first

Clusters come from the detectors' last layers, or are given: ``assignment`` has the cluster of every
client (-1: excluded), e.g. of a run of Hierarchical with another model (the paper: a MobileNet). If
several clusters have a class, a client uses its own cluster's detector, or otherwise the one of the
cluster where most clients have the class. For training, a client gets only its cluster's
detectors, and trains all of them on the same batches. Clients tell the server their classes. A
class that a later client brings gets no detector: its samples are negatives in its cluster.

A cluster with a single class has no negative samples, so its detector is not trained. It scores 0,
probability 1/2, and wins if all others are negative. A class that no cluster has is never chosen.
Detectors of different clusters were not trained on each other's classes, so their scores may not be
comparable. Every ``calibrate`` rounds (0, as in the paper: never), all clients return histograms of
all detectors' scores on their training samples. Platt's method then scales each detector's score.

Differs from the authors' code: clusters there are given; scores are compared before the sigmoid,
which keeps their order and has fewer ties; images are augmented after the split, not before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, AssignedModels
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_fraction, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.calibration import fold_scale, platt_scale
from fedkin.methods.about import About
from fedkin.methods.last_layer_clustering import MEANINGS, LastLayerClustering, LastLayerState
from fedkin.methods.last_layer_training import (
    NO_DETECTOR,
    check_cluster_numbers,
    count_classes,
    detector_table,
    sample_members,
)
from fedkin.tasks.detections import Detections
from fedkin.tasks.train import train


@dataclass(frozen=True)
class AthenaState(LastLayerState):
    """Arrays that Athena keeps from round to round."""

    positive: Int[np.ndarray, "D"]  # the class that each detector detects
    home: Int[np.ndarray, "D"]  # cluster of each detector
    trained: Bool[np.ndarray, "D"]  # False if its cluster has no other class
    table: Int[np.ndarray, "k C"]  # detector of each class, for the clients of a cluster
    scale: Float[np.ndarray, "D 2"]  # (a, b): the score is a f_d(x) + b
    head: Int[np.ndarray, "3"]  # start of the last layer, start of its bias, end of both

    @property
    def clusters(self) -> int:
        return len(self.table)

    def models_for(self, clients: Int[np.ndarray, "n"]) -> AssignedModels:
        first, bias, end = self.head.tolist()
        return AssignedModels(
            models=fold_scale(self.models, slice(first, end), slice(bias, end), self.scale),
            model_index=self.table[self.assignment[clients]],
            positive=self.positive,
            cluster=self.home,
        )

    def aggregated_into(
        self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        return trained


@plain_options
@dataclass(frozen=True)
class Athena(LastLayerClustering):
    """One detector for every class of a cluster; all detectors together classify.

    Examples:
        >>> import fedkin as fk
        >>> fk.Athena("kmeans", clusters=2).layer
        'bias'
    """

    about: ClassVar[About] = About(
        name="athena",
        paper="de Souza et al., CoUrb 2023",
        compares="last layers",
        when="once, after one training",
        membership="hard",
        decides="server",
        count="found",
        leaves="its last layer, once; its labels",
        meanings=MEANINGS,
    )

    assignment: tuple[int, ...] | None = None  # given clusters, one entry per client
    fraction: float = 1.0  # share of a cluster's members in the cohort that train
    calibrate: int = 0  # rounds from one calibration to the next; 0: never

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("fraction", self.fraction)
        if self.calibrate:
            check_positive_integer("calibrate", self.calibrate)
        if self.assignment is not None:
            check_cluster_numbers(self.assignment)
            if self.suspicious is not None or self.clusters is not None:
                raise MethodError(
                    "assignment gives the clusters: do not set the options suspicious and clusters"
                )
            object.__setattr__(self, "assignment", tuple(map(int, self.assignment)))

    def requirements(self) -> Requirements:
        needs = super().requirements()
        return replace(needs, model=replace(needs.model, detectors=True))

    def check_run(self, spec: ModelSpec, clients: int, work: LocalTraining) -> None:
        """Raise MethodError if ``assignment`` is not given for exactly the run's clients."""
        if self.assignment is not None and len(self.assignment) != clients:
            raise MethodError(
                f"assignment must have an entry for each of the {clients} clients, got "
                f"{len(self.assignment)}"
            )

    def init(self, world: World, stream: Stream) -> AthenaState:
        head = world.spec.head
        bias = world.spec.head_bias
        if not world.spec.detects or head is None or bias is None:
            raise MethodError(
                "Athena trains detectors: use a model whose last layer gives one score (weight of "
                "shape [1, inputs], bias of shape [1]), such as model.name=detector"
            )
        if self.assignment is None:
            clustering = self.cluster_clients(world, stream)
        else:
            clustering = self._given_clusters(world, stream)

        # A detector without negative samples gets a last layer of zeros, so that its score is 0.
        assigned = np.flatnonzero(clustering.assignment != UNASSIGNED)
        clients = np.intersect1d(world.clients(stream.round), assigned)
        counts = count_classes(world, clients, clustering.assignment[clients], clustering.clusters)
        home, positive = np.nonzero(counts)
        trained = np.count_nonzero(counts, axis=1)[home] > 1
        models = np.repeat(clustering.start[None], len(home), axis=0)
        models[~trained, head] = 0
        return AthenaState(
            models=models,
            assignment=clustering.assignment,
            start=clustering.start,
            layers=clustering.layers,
            suspects=clustering.suspects,
            positive=positive,
            home=home,
            trained=trained,
            table=detector_table(counts),
            scale=np.tile([1.0, 0.0], (len(home), 1)),
            head=np.array([head.start, bias.start, bias.stop]),
        )

    def round(
        self, world: World, state: AthenaState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> AthenaState:
        cohort = sample_members(cohort, state.assignment, self.fraction, stream)
        trains = (state.assignment[cohort][:, None] == state.home) & state.trained
        row, detector = np.nonzero(trains)
        if len(row):
            reply = train(
                world,
                state.models,
                cohort[row],
                detector,
                work=replace(world.work, positive=state.positive[detector]),
                reduce=True,
                stream=stream.child("train"),
            )
            state = replace(state, models=state.models + reply.update)
        if self.calibrate and stream.round % self.calibrate == 0:
            return self._calibrate(world, state, stream)
        return state

    def place(
        self, world: World, state: AthenaState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> AthenaState:
        """New clients join the cluster of the nearest client; given clusters have no new ones."""
        if self.assignment is not None and not state.suspects[newcomers].all():
            raise MethodError(
                "clusters are given, so a new client has none; name it with cluster=..."
            )
        return super().place(world, state, newcomers, stream)

    def remarks(self, state: Any) -> tuple[str, ...]:
        remarks = super().remarks(state) if self.assignment is None else ()
        missing = np.flatnonzero((state.table == NO_DETECTOR).all(axis=0))
        if len(missing):
            names = ", ".join(map(str, missing))
            remarks += (f"no client has class {names}: no detector finds it",)
        single = state.home[~state.trained]
        if len(single):
            names = ", ".join(map(str, single))
            remarks += (
                f"cluster {names} has a single class: its detector is not trained and scores 0",
            )
        return remarks

    def _given_clusters(self, world: World, stream: Stream) -> LastLayerState:
        """The clustering that ``assignment`` gives, as a state; no client trains to find it."""
        assignment = np.array(self.assignment, np.int64)
        clients = world.total_clients
        self.check_run(world.spec, clients, world.work)
        start = world.initial(stream.child("model"))
        return LastLayerState(
            models=np.repeat(start[None], assignment.max() + 1, axis=0),
            assignment=assignment,
            start=start,
            layers=np.zeros((clients, 0), np.float32),
            suspects=assignment == UNASSIGNED,
        )

    def _calibrate(self, world: World, state: AthenaState, stream: Stream) -> AthenaState:
        """The state with a new Platt scale (a, b) of each detector, from all clusters' samples."""
        reachable = world.clients(stream.round)
        clients = reachable[state.assignment[reachable] != UNASSIGNED]
        detectors = len(state.home)

        # Every client evaluates every detector; histograms are summed over clients.
        row, detector = np.divmod(np.arange(len(clients) * detectors), detectors)
        task = Detections(state.models, detector, state.positive[detector])
        counts = np.maximum(world.run(task, clients[row]).counts, 0)
        histograms = counts.reshape(len(clients), detectors, *counts.shape[1:]).sum(axis=0)

        # A scale needs positive and negative samples.
        scalable = state.trained & (histograms.sum(axis=2) > 0).all(axis=1)
        scale = np.where(scalable[:, None], platt_scale(histograms), state.scale)
        return replace(state, scale=scale)
