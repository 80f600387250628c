"""One draw of the question "clusters or levels?": the test losses of a shared model, of the same
with own intercepts, of personal and local models, and of clusters.

Shared models are trained by FedAvg, clusters by IFCA with several starts, both by the simulator.
Half of the starts are random; the others are the means of K-means clusters of the clients' local
models, because from random models IFCA often finds fewer clusters than there are.
The number of clusters is chosen on validation samples, 1 among the candidates; then all models are
trained on training and validation samples together. Own intercepts, personal models (pulled to the
shared one) and local models (pulled to the best constant) are exact fits, whose strength is chosen
on the validation samples of all clients, too (``fedkin.tasks.pulled_fit``).

Shapes: N clients, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.analysis.level_plan import LevelPlan
from fedkin.clustering.kmeans import kmeans
from fedkin.config.plan import Scoring
from fedkin.core.client_memory import ClientMemory
from fedkin.core.errors import ConfigError, DataError, ModelError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.progress import Progress
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures.moments import intraclass_correlation, moments
from fedkin.methods import IFCA, FedAvg
from fedkin.methods.given import Given
from fedkin.run.simulate import simulate
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.evaluate import Evaluate, Scores
from fedkin.tasks.own_model import OWN
from fedkin.tasks.pulled_fit import (
    INTERCEPT,
    MODEL,
    STRENGTHS,
    ChooseStrength,
    EvaluatePulled,
)

SHARED = "shared"
INTERCEPTS = "shared + own intercept"
PERSONAL = "personal"
LOCAL = "local"
CLUSTERS = "clusters"
CLUSTERS_AND_INTERCEPTS = "clusters + own intercept"
GIVEN = "given groups"
RANDOM = "random groups"


class ModelLosses(NamedTuple):
    """Test losses of one kind of model.

    Attributes:
        total: summed loss of each client's test samples.
        samples: number of each client's test samples.
    """

    total: Float64[np.ndarray, "N"]
    samples: Int[np.ndarray, "N"]

    @property
    def mean(self) -> float:
        """Mean loss of a test sample."""
        return float(self.total.sum() / self.samples.sum())


class Draw(NamedTuple):
    """The results of one draw.

    Attributes:
        losses: test losses by the kind of model.
        constant: mean test loss of the best constant of all training samples.
        clusters: the number of clusters that validation samples choose.
        clusters_beyond: the number that they choose where clients have own intercepts.
        assignment: the cluster of each client, for ``clusters``.
        test_ratio: test samples for each training sample.
        icc: intraclass correlation of the shared model's residuals: about the share of its loss
            that own intercepts can save.
    """

    losses: Mapping[str, ModelLosses]
    constant: float
    clusters: int
    clusters_beyond: int
    assignment: Int[np.ndarray, "N"]
    test_ratio: float
    icc: float


class Trained(NamedTuple):
    """Models and the one of each client."""

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]


class LevelCandidate(NamedTuple):
    """A method that was trained without validation samples.

    Attributes:
        clusters: its number of clusters.
        start: number of its start.
        loss: its mean validation loss.
        beyond: its mean validation loss with own intercepts.
        strength: the pull of these intercepts that validation samples choose.
    """

    clusters: int
    start: int
    loss: float
    beyond: float
    strength: float


class Chosen(NamedTuple):
    """The choices that validation samples have made.

    Attributes:
        rate: the learning rate.
        candidates: each number of clusters with each start; the first one is the shared model.
        personal: the pull of personal models.
        local: the pull of local models.
    """

    rate: float
    candidates: list[LevelCandidate]
    personal: float
    local: float


def fit_draw(
    data: FederatedData,
    model: AnyModel,
    plan: LevelPlan,
    *,
    seed: int = 0,
    groups: Sequence[str] | None = None,
) -> Draw:
    """Train and test all kinds of models on one division of the data.

    Args:
        data: the data, with training, validation and test samples.
        model: a linear model of the data.
        plan: how models are trained.
        seed: seed of initial models.
        groups: a known group of each client, to compare with; None for none.

    Raises:
        DataError: the data have no test or validation samples, or are survival times.
        ModelError: the model is not linear.
    """
    check_comparable(data, model)
    chosen = _Fits(data, model, plan, seed).chosen()
    everything = replace(data, train=merged(data), validation=None)
    final = _Fits(everything, model, plan, seed)
    shared = final.trained(FedAvg(), chosen.rate, 0)
    one = chosen.candidates[0]
    losses = {
        SHARED: final.plain(shared, "test"),
        INTERCEPTS: final.pulled(shared, INTERCEPT, "test", one.strength),
        PERSONAL: final.pulled(shared, MODEL, "test", chosen.personal),
        LOCAL: final.pulled(final.constant, MODEL, "test", chosen.local),
    }
    best = min(chosen.candidates, key=lambda each: each.loss)
    clustered = final.of_candidate(best, chosen, shared)
    losses[CLUSTERS] = final.plain(clustered, "test")
    beyond = min(chosen.candidates, key=lambda each: each.beyond)
    of_beyond = clustered if beyond == best else final.of_candidate(beyond, chosen, shared)
    losses[CLUSTERS_AND_INTERCEPTS] = final.pulled(of_beyond, INTERCEPT, "test", beyond.strength)
    if groups is not None:
        losses |= final.of_groups(groups, chosen.rate)
    return Draw(
        losses=losses,
        constant=final.plain(final.constant, "test").mean,
        clusters=best.clusters,
        clusters_beyond=beyond.clusters,
        assignment=clustered.assignment,
        test_ratio=float(len(data.test.rows) / len(everything.train.rows)),
        icc=final.residual_icc(shared),
    )


class _Fits:
    """Trains and scores models on one division of the data.

    Args:
        data: the data.
        model: the model.
        plan: how models are trained.
        seed: seed of initial models and folds.
    """

    def __init__(self, data: FederatedData, model: AnyModel, plan: LevelPlan, seed: int) -> None:
        self._data = data
        self._model = model
        self._plan = plan
        self._seed = seed
        self._world = SimulatedWorld(data, model)
        self._clients = np.arange(data.clients)

    def chosen(self) -> Chosen:
        """The choices by validation samples."""
        shared = {rate: self.trained(FedAvg(), rate, 0) for rate in self._plan.rates}
        scores = {rate: self.plain(each, "validation").mean for rate, each in shared.items()}
        finite = {rate: score for rate, score in scores.items() if np.isfinite(score)}
        if not finite:
            raise ConfigError(
                f"{self._data.name}: FedAvg diverges with every learning rate of "
                f"{self._plan.rates}; add a smaller one, such as {min(self._plan.rates) / 10:g}"
            )
        rate = min(finite, key=lambda each: finite[each])
        local = self.strength(self.constant, MODEL)
        candidates = [self._candidate(shared[rate], 1, 0)]
        for clusters in self._plan.clusters:
            if not 1 < clusters <= self._data.clients:
                continue
            for start in range(self._plan.starts):
                trained = self.clustered(clusters, rate, start, local)
                candidate = self._candidate(trained, clusters, start)
                if np.isfinite(candidate.loss):
                    candidates.append(candidate)
        return Chosen(
            rate=rate,
            candidates=candidates,
            personal=self.strength(shared[rate], MODEL),
            local=local,
        )

    def _candidate(self, trained: Trained, clusters: int, start: int) -> LevelCandidate:
        """Trained clusters with their validation losses."""
        loss = self.plain(trained, "validation").mean
        if not np.isfinite(loss):
            return LevelCandidate(clusters, start, loss, beyond=loss, strength=np.inf)
        strength = self.strength(trained, INTERCEPT)
        beyond = self.pulled(trained, INTERCEPT, "validation", strength).mean
        return LevelCandidate(clusters, start, loss, beyond=beyond, strength=strength)

    def of_candidate(self, candidate: LevelCandidate, chosen: Chosen, shared: Trained) -> Trained:
        """The models of a candidate, trained on these data."""
        if candidate.clusters == 1:
            return shared
        return self.clustered(candidate.clusters, chosen.rate, candidate.start, chosen.local)

    def clustered(self, clusters: int, rate: float, start: int, local: float) -> Trained:
        """Train clusters by IFCA.

        Args:
            clusters: number of clusters.
            rate: learning rate.
            start: number of the start: K-means of local models if it is even, otherwise random.
            local: the pull of local models.
        """
        if start % 2:
            return self.trained(IFCA(clusters=clusters, migration="none"), rate, start)
        own = self._own_models(local).astype(np.float64)
        if len(np.unique(own, axis=0)) < clusters:
            return self.trained(IFCA(clusters=clusters, migration="none"), rate, start)
        labels = kmeans(own, clusters, seed=self._seed + start, restarts=1)
        first = np.stack([own[labels == cluster].mean(axis=0) for cluster in range(clusters)])
        return self.trained(_ifca_from(first.astype(np.float32)), rate, start)

    def _own_models(self, local: float) -> Float[np.ndarray, "N P"]:
        """The local model of each client, with this pull to the best constant."""
        self.pulled(self.constant, MODEL, "train", local)
        memory = ClientMemory(len(self._clients))
        memory.restore(self._world.memory())
        return memory.read(OWN, self._clients, self.constant.models[self.constant.assignment])

    def of_groups(self, groups: Sequence[str], rate: float) -> dict[str, ModelLosses]:
        """Test losses of clusters by known groups, and by random groups of the same sizes."""
        names = self._data.client_names or list(map(str, self._clients))
        drawn = Stream(self._seed, 0, "random groups").rng().permutation(np.array(groups, object))
        losses = {}
        for kind, values in ((GIVEN, groups), (RANDOM, drawn)):
            method = Given(groups=dict(zip(names, map(str, values), strict=True)))
            losses[kind] = self.plain(self.trained(method, rate, 0), "test")
        return losses

    def trained(self, method: Method, rate: float, start: int) -> Trained:
        """Train a method with all clients in every round."""
        run = simulate(
            method,
            self._data,
            self._model,
            rounds=self._plan.rounds,
            cohort=self._data.clients,
            local=self._plan.local(rate),
            seed=self._seed + start,
            scoring=Scoring(evaluate_every=0, checkpoint_every=self._plan.rounds),
            callbacks=Progress(False),
        )
        assignment = np.where(run.state.assignment == UNASSIGNED, 0, run.state.assignment)
        return Trained(run.state.models, assignment)

    def plain(self, trained: Trained, split: str) -> ModelLosses:
        """Losses of each client's model."""
        task = Evaluate(trained.models, trained.assignment, split=split)
        return self._losses(self._world.run(task, self._clients))

    def strength(self, trained: Trained, fits: str) -> float:
        """The pull of the clients' own fits to their models with the lowest validation loss."""
        choice = ChooseStrength(
            models=trained.models,
            strengths=np.array(STRENGTHS),
            model_index=trained.assignment,
            fits=fits,
        )
        stream = Stream(self._seed, 0, f"own fits/{fits}")
        held_out = self._world.run(choice, self._clients, stream).arrays["loss"]
        return STRENGTHS[int(np.nanargmin(held_out))]

    def pulled(self, trained: Trained, fits: str, split: str, strength: float) -> ModelLosses:
        """Losses of each client's own fit, pulled to its model."""
        task = EvaluatePulled(
            models=trained.models,
            model_index=trained.assignment,
            split=split,
            strength=strength,
            fits=fits,
        )
        return self._losses(self._world.run(task, self._clients))

    def _losses(self, reply: Any) -> ModelLosses:
        """The losses by which models are compared, from the reply of an evaluation."""
        scores = Scores.of(reply)
        total = self._data.task_type.score_loss_sums(scores.sums, scores.loss, scores.examples)
        return ModelLosses(total, scores.examples)

    def residual_icc(self, shared: Trained) -> float:
        """Intraclass correlation of the residuals of training samples: label minus predicted mean,
        for classes of the last class's probability."""
        task_type = self._data.task_type
        rows = self._data.train.rows
        features = self._data.x[rows].reshape(len(rows), -1).astype(np.float64)
        model = shared.models[0].astype(np.float64)
        outputs = self._data.classes
        scores = features @ model[:-outputs].reshape(outputs, -1).T + model[-outputs:]
        y = self._data.y[rows]
        if task_type.loss is None:
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            residuals = (y == self._data.classes - 1) - odds[:, -1] / odds.sum(axis=1)
        else:
            residuals = task_type.residuals(scores, y)
        owners = self._data.train.owners()
        return intraclass_correlation(moments(residuals, owners, self._data.clients))

    @cached_property
    def constant(self) -> Trained:
        """The model whose scores are the best constant of the training samples."""
        model = np.zeros(self._model.spec.parameters, np.float32)
        if self._data.task_type.loss is None:
            counts = self._data.label_counts().sum(axis=0)
            # Half a sample more for each class, so that no share is 0.
            scores = np.log((counts + 0.5) / (counts + 0.5).sum())
        else:
            scores = np.array(self._data.task_type.constant)
        model[-len(scores) :] = scores
        return Trained(model[None], np.zeros_like(self._clients))


def _ifca_from(first: Float[np.ndarray, "K P"]) -> IFCA:
    """IFCA whose first models are given."""

    class IFCAFromModels(IFCA):
        def init(self, world: World, stream: Stream) -> State:
            return replace(super().init(world, stream), models=first)

    return IFCAFromModels(clusters=len(first), migration="none")


def check_comparable(data: FederatedData, model: AnyModel) -> None:
    """Raise DataError or ModelError for data or models whose levels cannot be compared."""
    if data.task_type.name == "survival":
        raise DataError(
            f"{data.name}: an intercept cancels out of Cox's loss, so levels and clusters cannot "
            "be compared; the baseline hazard of each client takes the intercept's place"
        )
    spec = model.spec
    if spec.head_bias is None or spec.head != slice(0, spec.parameters) or spec.detects:
        raise ModelError(
            "clusters or levels: own models are exact fits, which need a linear model, such as "
            "fk.models.mclr(data)"
        )
    for split in ("test", "validation"):
        if split not in data.splits or not len(data.part(split).rows):
            raise DataError(
                f"{data.name} has no {split} samples, which choose or score models; give data "
                "without a split, so that each draw divides them"
            )


def merged(data: FederatedData) -> Ragged:
    """The training and validation samples of each client."""
    assert data.validation is not None
    pairs = [
        np.concatenate([data.train[client], data.validation[client]])
        for client in range(data.clients)
    ]
    return Ragged.of(pairs)
