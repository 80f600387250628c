"""Predictors: models with weights, which predict for a cluster or a client.

Shapes: B samples, C classes, P parameters, D detectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.model_spec import Samples
from fedkin.data.patient_columns import are_patient_rows
from fedkin.export.forecast_inputs import in_label_units, new_rows
from fedkin.export.input_samples import as_samples, exposures
from fedkin.export.routing import nearest_route
from fedkin.simulation.workers import AnyModel, ModelWithWorkers
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.task_type import TaskType


class Decisions(NamedTuple):
    """The predictions of a model for a batch of samples.

    Attributes:
        classes: the class with the highest score (the first of ties). Scores are compared, not
            probabilities, because the probabilities of several confident detectors may round to the
            same number.
        probability: the probability of each class.
    """

    classes: Int[np.ndarray, "B"]
    probability: Float[np.ndarray, "B C"]


class Classifier:
    """Base class of models that predict classes from scores; or numbers, if the labels are numbers
    (``task_type``).

    A subclass provides the attributes ``samples``, ``label_names`` and ``detects``, and the method
    ``_scores``.
    """

    name: str
    samples: Samples
    label_names: Sequence[Any] | None
    detects: bool

    @property
    def task_type(self) -> TaskType:
        """What the labels are."""
        return getattr(self.samples, "task_type", CLASSIFICATION)

    @property
    def predicts_numbers(self) -> bool:
        """Whether the model predicts numbers (regression, counts, quantiles), not classes."""
        return self.task_type.loss is not None

    def _scores(self, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        """The scores of samples that are already the input of the network."""
        raise NotImplementedError

    def input_of(self, x: Any) -> Shaped[np.ndarray, "B ..."]:
        """The input of the network for the user's samples."""
        return as_samples(x, self.samples)

    def __call__(self, x: Any) -> Float[np.ndarray, "B C"]:
        """Compute the scores of samples: logits (before the softmax), or for a mixture of models
        the log probabilities.

        Args:
            x: samples [B ...], in the format of the run's data. ``uint8`` values are divided by 255
                if the run's data were, and refused otherwise. Columns of a DataFrame are selected
                by name if the run's data have column names. If the run has scaled the columns of a
                table, x are raw values, which are scaled in the same way.

        Raises:
            DataError: the samples have another shape or type, contain NaN or infinity, or lack a
                column.
        """
        return self.scores_of(self.input_of(x))

    def scores_of(self, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        """The scores of any number of samples that are the input of the network."""
        return self._scores(x) if len(x) else np.zeros((0, int(self.samples.classes)), np.float32)

    def predict(self, x: Any, proba: bool = False, exposure: Any = None) -> np.ndarray:
        """Predict the classes [B] of samples: names if labels have names, otherwise numbers. For
        labels that are numbers, predict the labels [B] in their unit; for quantiles, a column for
        each level [B, Q]. For forecasts, x is a table of the past and of the rows to be forecast.
        For survival, x are rows of patients, and their risk scores [B] are predicted: of two
        patients, the one with the higher score is expected to have the event first.

        Args:
            x: samples, as for calling the model.
            proba: whether to return probabilities [B, C] instead. They are the softmax of the
                scores; for detectors, the sigmoid of each score, divided by the sum over classes.
            exposure: exposure of each sample [B], for counts; None for the column of exposures in a
                DataFrame, or 1.

        Raises:
            ConfigError: ``proba`` or ``exposure`` does not apply to the labels.
            DataError: as for calling the model, or an exposure is not above 0.
            ModelError: scores are NaN or infinite, or a mixture would predict risks.
        """
        if are_patient_rows(x, self.samples):
            if proba or exposure is not None:
                raise ConfigError(
                    f"{self.name} predicts a risk score of each patient; leave proba and exposure "
                    "out"
                )
            return self.risks(x)
        if self.predicts_numbers:
            if proba:
                raise ConfigError(
                    f"{self.name} predicts labels of {self.task_type.name}, which have no "
                    "probabilities; leave proba out"
                )
            if isinstance(self.task_type, Forecast):
                new = new_rows(x, self.samples)
                scores = self.finite_scores(new.table[new.complete])
                return in_label_units(new, self.task_type, scores)
            return self.task_type.predict(
                self.finite_scores(x), exposures(x, exposure, self.samples)
            )
        if exposure is not None:
            raise ConfigError("exposure applies to counts only, and the labels are classes")
        classes, probability = self.decide(x)
        if proba:
            return probability
        return classes if self.label_names is None else np.asarray(self.label_names)[classes]

    def risks(self, x: Any) -> Float[np.ndarray, "B"]:
        """The risk score of each patient, of a model of survival.

        Args:
            x: rows of patients, as for calling the model.

        Raises:
            DataError: as for calling the model.
            ModelError: scores are NaN or infinite, or the model is a mixture, whose risks are not
                comparable.
        """
        if getattr(self, "shares", None) is not None:
            raise ModelError(
                f"{self.name} is a mixture of Cox models, whose risk scores have no common scale; "
                "choose one of them: cluster = K, or --cluster K"
            )
        # A patient alone has the first place of a risk set.
        return self.finite_scores(x)[:, 0]

    def decide(self, x: Any, prepared: bool = False) -> Decisions:
        """Predict the classes and the probabilities of samples.

        Args:
            x: samples, as for calling the model.
            prepared: whether x are features of the run's data, which are scaled already.

        Raises:
            DataError: as for calling the model.
            ModelError: scores are NaN or infinite; the message names the model and a sample.
        """
        scores = self.finite_scores(x, prepared)
        return Decisions(scores.argmax(axis=1), probabilities(scores, self.detects))

    def finite_scores(self, x: Any, prepared: bool = False) -> Float[np.ndarray, "B C"]:
        """The scores of samples. Arguments and errors are those of ``decide``."""
        scores = self.scores_of(x) if prepared else self(x)
        # The score of a class without a detector is -inf; the highest score must be finite.
        highest = scores.max(axis=1, initial=-np.inf)
        nonfinite = np.flatnonzero(np.isnan(scores).any(axis=1) | ~np.isfinite(highest))
        if len(nonfinite):
            raise ModelError(
                f"{self.name}: the scores of {len(nonfinite)} of {len(scores)} samples are NaN or "
                f"infinite, such as sample {nonfinite[0]}; the training may have diverged "
                "(a lower learning rate may help)"
            )
        return scores


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Classifier):
    """A trained model that predicts classes.

    Attributes:
        name: ``cluster-2`` for the model of a cluster, ``client-7`` for the model of a client.
        model: the network, without weights.
        vectors: the weights: a vector for each detector or each component of a mixture; other
            models have one vector.
        samples: a sample, which defines the shape and type of all samples.
        label_names: name of each class, if labels have names.
        positive: the class of each detector; None for other models.
        cluster: number of the cluster; None if the model belongs to no cluster.
        shares: for a mixture, the weight of each component's probabilities; None for other models.
        routes: the centroid of each vector, if each sample is predicted with the vector whose
            centroid is nearest; None for other models.
    """

    name: str
    model: AnyModel
    vectors: Float[np.ndarray, "D P"]
    samples: Samples
    label_names: Sequence[Any] | None = None
    positive: Int[np.ndarray, "D"] | None = None
    cluster: int | None = field(default=None, kw_only=True)
    shares: Float[np.ndarray, "D"] | None = field(default=None, kw_only=True)
    routes: Float[np.ndarray, "D e"] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        number, parameters = self.vectors.shape
        text = f"{self.name}: {self.model.name}, {parameters:,} parameters"
        if self.detects:
            text += f", {number} detectors"
        elif self.has_components:
            text += f", {number} models"
        return f"Predictor({text})"

    @property
    def detects(self) -> bool:
        """Whether the model has a detector for each class."""
        return self.positive is not None

    @property
    def has_components(self) -> bool:
        """Whether the model has several components, which are mixed or chosen for each sample."""
        return self.shares is not None or self.routes is not None

    @property
    def vector(self) -> Float[np.ndarray, "P"]:
        """The weights as one vector.

        Raises:
            ModelError: the predictor has detectors or a mixture, so it has several vectors, which
                are in the attribute ``vectors``.
        """
        if self.routes is not None:
            raise ModelError(
                f"{self.name} has {len(self.vectors)} models, one of which is chosen for each "
                "sample; use its attributes vectors and routes (the centroid of each model)"
            )
        if self.shares is not None:
            raise ModelError(
                f"{self.name} is a mixture of {len(self.vectors)} models; use its attributes "
                "vectors and shares (the weight of each model)"
            )
        if self.detects:
            raise ModelError(
                f"{self.name} has {len(self.vectors)} detectors, not one model; use its attributes "
                "vectors and positive (the class of each detector)"
            )
        return self.vectors[0]

    @cached_property
    def layers(self) -> dict[str, np.ndarray]:
        """The weights by layer name, in the layers' shapes.

        For detectors, names begin with ``detectors.CLASS.``; for mixtures and for models that are
        chosen for each sample, with ``components.NUMBER.``.
        """
        parts = [layers_of(self.model, vector) for vector in self.vectors]
        if self.has_components:
            prefixes = [f"components.{k}." for k in range(len(parts))]
        elif self.positive is not None:
            prefixes = [f"detectors.{c}." for c in self.positive]
        else:
            return parts[0]
        layers = {}
        for prefix, part in zip(prefixes, parts, strict=True):
            for name, array in part.items():
                layers[f"{prefix}{name}"] = array
        return layers

    @property
    def module(self) -> Any:
        """The user's model with these weights.

        It is an ``nn.Module`` in evaluation mode, an Equinox module, or the parameters of an
        ``(init, apply)`` pair.

        Raises:
            ModelError: the predictor has detectors or a mixture, so it has several modules.
        """
        if isinstance(self.model, ModelWithWorkers):
            return self.model.network(self.vector).eval()  # type: ignore[attr-defined]
        import jax.numpy as jnp

        model: Any = self.model
        return model.whole(model.unflatten(jnp.asarray(self.vector)))

    def _scores(self, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        """Scores of one network; for a mixture, log probabilities; for detectors, a column of
        scores for each."""
        if self.shares is not None:
            return self._mixed_scores(self.shares, x)
        if self.routes is not None:
            return self._routed_scores(self.routes, x)
        if self.positive is None:
            return class_scores(self.model, self.vectors[0], x)
        # A class without a detector has no score, and must never be predicted.
        scores = np.full((len(x), int(self.samples.classes)), -np.inf, np.float32)
        for positive, vector in zip(self.positive, self.vectors, strict=True):
            scores[:, positive] = class_scores(self.model, vector, x)[:, 0]
        return scores

    def _routed_scores(
        self, routes: Float[np.ndarray, "D e"], x: Shaped[np.ndarray, "B ..."]
    ) -> Float[np.ndarray, "B C"]:
        """Scores of each sample by the vector with the nearest centroid."""
        index = nearest_route(self.model, routes, x)
        scores = np.zeros((len(x), int(self.samples.classes)), np.float32)
        for number in np.unique(index):
            own = index == number
            scores[own] = class_scores(self.model, self.vectors[number], x[own])
        return scores

    def _mixed_scores(
        self, shares: Float[np.ndarray, "D"], x: Shaped[np.ndarray, "B ..."]
    ) -> Float[np.ndarray, "B C"]:
        """Scores of a mixture: logarithms of the mean probabilities of classes; for numbers and
        counts, the scores whose predictions are the mean predictions."""
        of_models = [class_scores(self.model, vector, x) for vector in self.vectors]
        loss = self.task_type.loss
        if loss is not None:
            return loss.mixed(of_models, shares[:, None]).astype(np.float32)
        mixed: Any = sum(
            share * probabilities(scores) for share, scores in zip(shares, of_models, strict=True)
        )
        with np.errstate(divide="ignore"):
            return np.log(mixed).astype(np.float32)


def layers_of(model: AnyModel, vector: Float[np.ndarray, "P"]) -> dict[str, np.ndarray]:
    """The weights of a model as arrays by layer name. For a PyTorch module, this is its
    ``state_dict``, without a frozen network."""
    if isinstance(model, ModelWithWorkers):
        state = model.network(vector).state_dict()  # type: ignore[attr-defined]
        if model.spec.frozen:
            state = {name: state[name] for name in model.spec.slices}
        return {name: entry.numpy() for name, entry in state.items()}
    import jax

    leaves = jax.tree.leaves(model.unflatten(np.asarray(vector)))  # type: ignore[attr-defined]
    return {name: np.asarray(leaf) for name, leaf in zip(model.spec.slices, leaves, strict=True)}


def probabilities(
    scores: Float[np.ndarray, "B C"], detects: bool = False
) -> Float[np.ndarray, "B C"]:
    """Probabilities from scores: the softmax, or for detectors the sigmoids divided by their
    sum."""
    logits = scores.astype(np.float64)
    if detects:
        # The softmax of log sigmoids is each sigmoid divided by the sum of sigmoids.
        logits = -np.logaddexp(0, -logits)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


# Batch size. It is fixed because JAX compiles a program for each number of samples.
_WIDTH = 64


def class_scores(
    model: AnyModel, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> Float[np.ndarray, "B S"]:
    """Compute the scores of samples in inference mode.

    Args:
        model: the network.
        vector: the weights.
        x: one or more samples, of the data's type.
    """
    score = _torch_scores if isinstance(model, ModelWithWorkers) else _jax_scores
    return score(model, vector, x)


def _jax_scores(
    model: Any, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> np.ndarray:
    """Scores of a JAX model, in batches of one size, so that a single program is compiled."""
    score = _compiled(model)
    parts = []
    for start in range(0, len(x), _WIDTH):
        block = x[start : start + _WIDTH]
        # The last batch is filled up with zeros, whose scores are cut off.
        padding = [(0, _WIDTH - len(block))] + [(0, 0)] * (x.ndim - 1)
        parts.append(
            np.asarray(score(vector, np.pad(block, padding), model.frozen_arrays))[: len(block)]
        )
    return np.concatenate(parts)


@lru_cache(maxsize=16)
def _compiled(model: Any) -> Callable[..., Any]:
    """The compiled function from a JAX model's weights and samples to scores, cached for each
    model."""
    import jax

    return jax.jit(model.scores)


def _torch_scores(
    model: Any, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> np.ndarray:
    """Scores of a PyTorch model, batch by batch."""
    import torch

    from fedkin.simulation.torch.flat_module import to_tensor

    with model.torch_settings(), torch.inference_mode():
        network = model.network(vector).eval()
        return np.concatenate([network(part).numpy() for part in to_tensor(x).split(_WIDTH)])
