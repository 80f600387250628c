"""FedEM's and FedRC's client work: each client trains all components of a mixture on its samples,
weighted by the posterior probability of each component.

The posterior needs log likelihoods. The cross entropy is one; a loss of numbers or counts becomes
one after a division by the dispersion (the variance of the residuals, for squares), which the
server estimates from sums over clients.

Shapes: n rows (clients), r rows of a portion, c components, P parameters, m = c P numbers of all
components, C classes, t samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from fedkin.core.client import Client, ClientRows
from fedkin.core.client_engine import sums_by_row
from fedkin.core.engine_protocols import ScoreSums
from fedkin.core.errors import TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import Reply
from fedkin.core.schema import MAX_COUNT, Array, Rows, Schema, Sums, floats, integers
from fedkin.core.task import Task, each, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.measures.mixture import log_softmax, responsibilities
from fedkin.task_types.loss import Loss, relative_weights, targets_of
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.evaluate import Evaluate, refuse_counts, score_reply, score_reply_of_samples
from fedkin.tasks.train import MAX_LOSS, TrainingReply

_LOSS = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, over="model", counted=False)
_MEMBERSHIP = floats("c", low=0, high=1 + 1e-6, over="row", counted=False)


@dataclass(frozen=True)
class TrainMixture(Task):
    """One E-step, and local training of every component on the weighted samples.

    The E-step computes how well each component explains each sample (its weight). The weighted loss
    of a batch is divided by its number of samples, not by the sum of weights. The updates of all
    components form one vector, and the server receives only its mean over clients. The new
    ``membership`` in the reply is the mean weight of each component over the client's samples. A
    sample with a weight in the data counts by it in this mean, in the sums of ``deviations`` and in
    the training, but the E-step of a sample does not depend on it.

    Attributes:
        models: the components, concatenated to one vector (the array has one row).
        work: training settings.
        membership: weights of the components for each client, before the E-step.
        dispersion: number by which losses are divided in the E-step; 1 for classes.
        by_label: whether to reply with the sums of sample weights for each label too
            (``label_masses``, which FedRC needs).
        shares: share of each label among the samples of each component, by which sample weights are
            divided (FedRC); None: no division.
    """

    models: Float[np.ndarray, "K m"] = shared("K m")
    work: LocalTraining = setting()
    membership: Float[np.ndarray, "n c"] = each()
    by_label: bool = False
    shares: Float[np.ndarray, "c C"] | None = shared("c C", default=None)
    dispersion: float = 1.0

    @property
    def up(self) -> Schema:
        """Mean update of all components, losses, numbers of samples, ``membership``, the sums of
        ``deviations`` from which the dispersion follows, and ``label_masses`` if requested."""
        return _schema(self.by_label)

    def compute(self, client: Client) -> dict[str, Any]:
        components = self._components
        labels = client.samples()[1]
        fit = _fit_of(client, components)
        weights = sample_weights(
            fit.losses / self.dispersion, self.membership.T, self.shares, labels
        )
        counted = _counted(weights, labels, np.array([len(labels)]))
        trained = [
            client.train(model, self.work, weights=[of_samples])
            for model, of_samples in zip(components, weights, strict=True)
        ]
        reply = {
            "update": np.concatenate([local.update for local in trained]),
            "loss": np.float64(sum(local.loss for local in trained)),
            "first_loss": np.float64(sum(local.first_loss for local in trained)),
            "examples": len(labels),
            "model_index": 0,
            "membership": counted.mean(axis=1),
            "deviations": (counted * fit.deviations).sum(axis=1),
        }
        if self.by_label:
            sizes = np.array([len(labels)])
            reply["label_masses"] = label_masses(weights, labels, sizes, client.classes)[0]
        return reply

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        components = self._components
        data = rows.data
        owned = rows.data.part("train")
        count = len(components)
        for portion in rows.portions(self.models.size):
            clients = rows.clients[portion]
            sizes = owned.sizes[clients].astype(np.int64)
            labels = data.y[owned.select(clients).rows]
            prior = np.repeat(self.membership[portion], sizes, axis=0).T
            fit = _fit_of_rows(rows, components, clients, labels)
            weights = sample_weights(fit.losses / self.dispersion, prior, self.shares, labels)
            by_client = np.split(weights, np.cumsum(sizes)[:-1], axis=1)

            # Each client has a row for each component.
            pairs = np.repeat(portion, count)
            call = rows.select(pairs).train_call(
                components,
                np.tile(np.arange(count), len(portion)),
                self.work.select(pairs),
                weights=[of_samples for of_client in by_client for of_samples in of_client],
            )
            local = rows.trainer.train(call)

            loss = np.asarray(local.loss, np.float64)
            first_loss = np.asarray(local.first_loss, np.float64)
            counted = _counted(weights, labels, sizes)
            membership = [sums_by_row(of_samples, sizes) / sizes for of_samples in counted]
            deviations = [sums_by_row(column, sizes) for column in counted * fit.deviations]
            arrays = {
                "loss": loss.reshape(len(portion), count).sum(axis=1),
                "first_loss": first_loss.reshape(len(portion), count).sum(axis=1),
                "update": np.asarray(local.update).reshape(len(portion), -1),
                "membership": np.stack(membership, axis=1),
                "deviations": np.stack(deviations, axis=1),
                "examples": data.train.sizes[clients].astype(np.int64),
                "model_index": np.zeros(len(portion), np.int64),
            }
            if self.by_label:
                arrays["label_masses"] = label_masses(weights, labels, sizes, data.classes)
            yield portion, arrays

    @property
    def _components(self) -> Float[np.ndarray, "c P"]:
        """The components of the mixture, one row each (the field ``models`` holds all in one
        row)."""
        return self.models.reshape(self.membership.shape[1], -1)

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError for detectors, and TaskError unless the components are whole models."""
        super().check(model, spec, classes)
        expected = (1, self.membership.shape[1] * spec.parameters)
        if self.models.shape != expected:
            raise TaskError(
                f"task {self.name}: expected all components in one row of the field models, shape "
                f"{expected}, got {self.models.shape}"
            )

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"c": self.membership.shape[1]}

    def training(self, reply: Reply) -> TrainingReply:
        # All components are one row of the field models, so there is one mean.
        return TrainingReply.of_means(reply, np.zeros(len(reply.arrived), np.int64))

    def check_reply(self, arrays: Any) -> None:
        if np.any(arrays["model_index"] != 0):
            raise TaskError(
                f"task {self.name}: model_index must be 0, since only one mixture was sent"
            )

    def norm_group(self) -> str:
        return f"{self.name} {self.work.steps} {np.max(self.work.epochs)}"


@dataclass(frozen=True)
class MixtureWeights(Task):
    """Only an E-step: component weights of clients that do not train, such as new clients.

    Attributes:
        models: the components.
        membership: weights of the components for each client, before the E-step.
        shares, dispersion: as in ``TrainMixture``.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")
    membership: Float[np.ndarray, "n K"] = each()
    shares: Float[np.ndarray, "K C"] | None = shared("K C", default=None)
    dispersion: float = 1.0

    up = Rows(membership=replace(_MEMBERSHIP, axes="K"))

    def compute(self, client: Client) -> dict[str, Any]:
        labels = client.samples()[1]
        losses = _fit_of(client, self.models).losses / self.dispersion
        weights = sample_weights(losses, self.membership.T, self.shares, labels)
        return {"membership": _counted(weights, labels, np.array([len(labels)])).mean(axis=1)}


@dataclass(frozen=True)
class EvaluateMixture(Task):
    """Evaluation of each client's mixture on its data.

    The components' probabilities of classes are mixed, not their logits, and their means of
    numbers and counts, not their scores.

    Attributes:
        models: the components.
        membership: weights of the components for each client.
        split: ``test``, ``train``, or ``validation`` if the data have one.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")
    membership: Float[np.ndarray, "n K"] = each()
    split: str = "test"

    up = Evaluate.up
    can_be_lost = False  # an evaluation covers every client

    def compute(self, client: Client) -> dict[str, Any]:
        labels = client.samples(self.split)[1]
        prior = np.repeat(self.membership, len(labels), axis=0)
        # A generator, so that only one model's scores are in memory at a time.
        scores = (client.scores(model, self.split) for model in self.models)
        by_sample, losses = _mixed(client.task_type, scores, prior, labels)
        sums = np.array([column.sum() for column in by_sample], np.float64)
        return score_reply(ScoreSums(sums, losses.sum(), np.asarray(len(labels))))

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        owned = rows.data.part(self.split)
        for portion in rows.portions(self.models.size):
            clients = rows.clients[portion]
            sizes = owned.sizes[clients].astype(np.int64)
            labels = rows.data.y[owned.select(clients).rows]
            scores = (rows.scorer.scores(model, clients, self.split) for model in self.models)
            prior = np.repeat(self.membership[portion], sizes, axis=0)
            by_sample, losses = _mixed(rows.data.task_type, scores, prior, labels)
            yield portion, score_reply_of_samples(by_sample, losses, sizes)

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        refuse_counts(self, arrays, counted)


class _Fit(NamedTuple):
    """How well components explain samples.

    Attributes:
        losses: loss of each component on each sample.
        deviations: what each sample adds to the dispersion (``Loss.deviations``); zeros for
            classes, which have none.
    """

    losses: Float[np.ndarray, "c t"]
    deviations: Float[np.ndarray, "c t"]


def _fit_of(client: Client, components: Float[np.ndarray, "c P"]) -> _Fit:
    """How well components explain a client's training samples."""
    loss = client.task_type.loss
    if loss is None:
        losses = client.sample_losses(components)
        return _Fit(losses, np.zeros(losses.shape))
    scores = [client.scores(component) for component in components]
    return _fit(loss, scores, client.samples()[1])


def _fit_of_rows(
    rows: ClientRows,
    components: Float[np.ndarray, "c P"],
    clients: Int[np.ndarray, "r"],
    y: np.ndarray,
) -> _Fit:
    """How well components explain the training samples of some clients, concatenated."""
    loss = rows.data.task_type.loss
    if loss is None:
        losses = rows.scorer.sample_losses(components, clients)
        return _Fit(losses, np.zeros(losses.shape))
    scores = [rows.scorer.scores(component, clients, "train") for component in components]
    return _fit(loss, scores, y)


def _counted(
    weights: Float[np.ndarray, "c t"], y: np.ndarray, sizes: Int[np.ndarray, "r"]
) -> Float[np.ndarray, "c t"]:
    """The weight of each component for each sample, times the sample's weight in the data.

    Args:
        weights: weight of each component for the samples of all clients, concatenated.
        y: rows of ``FederatedData.y``.
        sizes: number of samples of each client.
    """
    relative = relative_weights(y, sizes)
    return weights if relative is None else weights * relative


def _fit(loss: Loss, scores: list[np.ndarray], y: np.ndarray) -> _Fit:
    """Losses and deviations from the scores of each component, and rows of ``FederatedData.y``."""
    targets = targets_of(y.astype(np.float64))
    precise = [of_component.astype(np.float64) for of_component in scores]
    return _Fit(
        losses=np.stack([loss.of(np, of_component, targets) for of_component in precise]),
        deviations=np.stack([loss.deviations(of_component, targets) for of_component in precise]),
    )


def _mixed(
    task_type: TaskType,
    scores: Iterator[np.ndarray],
    prior: Float[np.ndarray, "t K"],
    y: np.ndarray,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The scores of each sample for a mixture of models (``TaskType.sums``), and its loss on each
    sample.

    Args:
        task_type: what the labels are.
        scores: outputs of each component on all samples.
        prior: weight of each component for each sample.
        y: rows of ``FederatedData.y``.
    """
    if task_type.loss is not None:
        rows = y.astype(np.float64)
        of_mixture = task_type.loss.mixed(list(scores), prior.T)
        by_sample = task_type.sample_scores(np, of_mixture, rows)
        losses = task_type.loss.of(np, of_mixture, targets_of(rows))
        return (*by_sample, *task_type.constant_scores(y)), losses
    mixed: Any = sum(
        np.exp(log_softmax(of_component)) * prior[:, k, None]
        for k, of_component in enumerate(scores)
    )
    correct = mixed.argmax(axis=-1) == y
    with np.errstate(divide="ignore"):
        losses = -np.log(mixed[np.arange(len(y)), y])
    return (correct,), losses


def label_masses(
    weights: Float[np.ndarray, "c t"],
    labels: Int[np.ndarray, "t"],
    sizes: Int[np.ndarray, "r"],
    classes: int,
) -> Float[np.ndarray, "r c C"]:
    """Sums of the sample weights for each label, by client and component.

    Args:
        weights: component weights of the samples of all clients, concatenated.
        labels: labels of the samples.
        sizes: number of samples of each client.
        classes: number of classes C.
    """
    # One bin for each (client, label), in a flat array.
    place = np.repeat(np.arange(len(sizes)), sizes) * classes + labels
    room = len(sizes) * classes
    sums = [
        np.bincount(place, of_samples, room).reshape(len(sizes), classes) for of_samples in weights
    ]
    return np.stack(sums, axis=1)


def sample_weights(
    losses: Float[np.ndarray, "c t"],
    prior: Float[np.ndarray, "c #t"],
    shares: Float[np.ndarray, "c C"] | None,
    labels: Real[np.ndarray, "t ..."],
) -> Float[np.ndarray, "c t"]:
    """The weight of each component for each sample: its posterior probability.

    If label shares are given, probabilities are divided by them before they are normalised.

    Args:
        losses: loss of every component on every sample.
        prior: weight of each component, for each sample or for all.
        shares: share of each label among the samples of each component; None: no division.
        labels: labels of the samples, which are read only with label shares.
    """
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior) + np.zeros(losses.shape)
    if shares is not None:
        log_prior = log_prior - np.log(shares)[:, labels]
    return responsibilities(losses, log_prior)


@cache
def _schema(by_label: bool) -> Schema:
    """The schema of a reply to ``TrainMixture``, made once for each value of ``by_label`` and
    cached."""
    arrays = {
        "update": floats("m", np.float32, missing=0.0, over="model", norm_checked=True),
        "loss": _LOSS,
        "first_loss": replace(_LOSS, finite=False),
        "examples": integers(over="row", counted=False, registered=True),
        "model_index": integers(over="row", counted=False),
        "membership": _MEMBERSHIP,
        "deviations": floats("c", low=0, high=MAX_LOSS, over="all", counted=False),
    }
    if by_label:
        arrays["label_masses"] = floats("c C", low=0, high=MAX_COUNT, over="all")
    return Sums(**arrays)
