"""The client's own linear model, pulled to its cluster's model: the choice of the pull's strength,
and the evaluation.

A client fits its own model from the model of its cluster, to the minimum
(``fedkin.measures.pulled_fit``). The fit depends on the shared model and the client's samples
alone, so a client makes it when it is evaluated. Nothing of it leaves the client but the losses
from which the strength is chosen.

Shapes: n rows (clients with their models), or samples of a client; K models, P parameters, s
strengths, C outputs, d features, q features that are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.columns import units_of_split
from fedkin.core.errors import ModelError
from fedkin.core.schema import Memory, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, shared
from fedkin.measures.pulled_fit import STRENGTHS as STRENGTHS
from fedkin.measures.pulled_fit import SampleLoss, held_out_losses, pulled_fits
from fedkin.task_types.loss import relative_weights
from fedkin.tasks.evaluate import score_reply
from fedkin.tasks.own_model import OWN, EvaluateOwn
from fedkin.tasks.train import and_padding

_MEMORY = {OWN: Memory("P", np.float32)}
FOLDS = 5
MODEL = "model"
INTERCEPT = "intercept"
_DIFFERENCE = 1e-3  # largest difference of the scores of a linear model, from float32


@dataclass(frozen=True)
class ChooseStrength(Task):
    """The summed loss of each client's held-out samples, for each strength of the pull.

    Validation samples are held out if the data have them. Otherwise it is cross-validation over
    ``FOLDS`` random parts of the training samples. With units, such as patients with several
    visits, all samples of a unit are in one part, and a client with one unit holds none out.

    Attributes:
        models: models of the clusters.
        strengths: pulls that are compared, in samples.
        model_index: the model of each row (a client).
        fits: ``model`` or ``intercept``.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    strengths: Float64[np.ndarray, "s"] = shared("s")
    model_index: Int[np.ndarray, "n"] = each()
    fits: str = MODEL

    up = Sums(loss=floats("s", missing=0.0), examples=integers())

    def compute(self, client: Client) -> dict[str, Any]:
        model = self.models[self.model_index[0]]
        train = _OwnData.of_client(client, model, fits=self.fits, split="train")
        held = None
        if client.has_validation:
            held = _OwnData.of_client(client, model, fits=self.fits, split="validation")
        return self._held_out(train, held, client.units(), client.rng())

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        train = _by_row(rows, self.models, self.model_index, fits=self.fits, split="train")
        held: dict[int, _OwnData] = {}
        if rows.data.validation is not None:
            held = _by_row(rows, self.models, self.model_index, fits=self.fits, split="validation")
        for row, data in train.items():
            client = int(rows.clients[row])
            rng = rows.drawn().client(int(rows.ids[client]))
            unit = units_of_split(rows.data, client, "train")
            reply = self._held_out(data, held.get(row), unit, rng)
            yield np.array([row]), {name: np.asarray(value)[None] for name, value in reply.items()}

    def _held_out(
        self,
        train: _OwnData,
        held: _OwnData | None,
        unit: Int[np.ndarray, "n"] | None,
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        """The reply of one client.

        Args:
            train: its training samples.
            held: its validation samples; None for cross-validation.
            unit: the unit of each training sample; None if each sample is a unit.
            rng: draws the folds.
        """
        strengths = self.strengths.tolist()
        if held is not None:
            fits = pulled_fits(train.design, train.base, train.loss(), strengths)
            loss = held.loss()
            losses = [loss(held.base + held.design @ fit).sum() for fit in fits]
            return {"loss": np.array(losses), "examples": len(held.design)}
        fold = _folds(len(train.design), unit, rng)
        if unit is not None and not fold.any():
            # Nothing is left for the fit of a client with one unit.
            return {"loss": np.zeros(len(strengths)), "examples": 0}
        losses = held_out_losses(
            train.design, train.base, train.loss, strengths=strengths, fold=fold
        )
        return {"loss": losses, "examples": len(train.design)}


def _folds(
    samples: int, unit: Int[np.ndarray, "n"] | None, rng: np.random.Generator
) -> Int[np.ndarray, "n"]:
    """The fold of each sample of a client. Every fold has as many units as the others, or one more.

    Args:
        samples: number of samples n.
        unit: the unit of each sample; None if each sample is a unit.
        rng: draws the folds.
    """
    if unit is None:
        return rng.permutation(samples) % FOLDS
    units, unit_of_sample = np.unique(unit, return_inverse=True)
    return (rng.permutation(len(units)) % FOLDS)[unit_of_sample.reshape(-1)]


@dataclass(frozen=True)
class EvaluatePulled(EvaluateOwn):
    """Evaluation of each client's own model, which it fits now and stores.

    A client fits again at each evaluation, because the shared model has changed since the last one,
    and a shift may have changed its samples. Nothing is kept for the next fit. Each of Newton's
    steps costs about n q^2 operations for q fitted numbers, and squared error needs one step: 0.1
    to 0.2 ms on one core for 60 to 300 samples and 10 to 30 features, 2 ms for 200 features. Kept
    sums of products [q q] would save at most that, and need more memory than the samples of most
    clients.

    Attributes:
        models: models of the clusters.
        model_index: for each row (a client), the model of its cluster.
        split: ``test``, ``train``, or ``validation`` if the data have one.
        strength: the pull, in samples.
        fits: ``model`` for all parameters, ``intercept`` for the bias alone.
    """

    strength: float = 1.0
    fits: str = MODEL

    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        model = self.models[self.model_index[0]]
        own_model = self._fit(_OwnData.of_client(client, model, fits=self.fits, split="train"))
        client.memory[OWN] = own_model
        return score_reply(client.score(own_model[None], np.asarray(0), self.split))

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for portion in rows.portions(self.models.shape[1]):
            part = rows.select(portion)
            data = _by_row(
                part, self.models, self.model_index[portion], fits=self.fits, split="train"
            )
            own_models = np.stack([self._fit(data[row]) for row in range(len(portion))])
            rows.store(OWN, portion, own_models)
            sums = rows.scorer.score(
                and_padding(own_models), rows.clients[portion], np.arange(len(portion)), self.split
            )
            yield portion, score_reply(sums)

    def _fit(self, data: _OwnData) -> Float[np.ndarray, "P"]:
        """A client's own model, from its training samples."""
        fit = pulled_fits(data.design, data.base, data.loss(), [self.strength])[0]
        return data.moved(fit)


def _by_row(
    rows: ClientRows,
    models: Float[np.ndarray, "K P"],
    model_index: Int[np.ndarray, "n"],
    fits: str,
    split: str,
) -> dict[int, _OwnData]:
    """The data of each active row, by its number. All clients of a model are scored at once."""
    owned = rows.data.part(split)
    found = {}
    for index, members in rows.by_model(model_index):
        clients = rows.clients[members]
        scores = rows.scorer.scores(models[index], clients, split)
        bounds = np.cumsum(owned.sizes[clients])[:-1]
        for row, base in zip(members.tolist(), np.split(scores, bounds), strict=True):
            samples = owned[int(rows.clients[row])]
            found[row] = _OwnData(
                x=rows.data.x[samples],
                y=rows.data.y[samples],
                base=base,
                model=models[index],
                fits=fits,
                task_type=rows.data.task_type,
            )
    return dict(sorted(found.items()))


class _OwnData:
    """A client's samples, the scores of its cluster's model, and the features that the client fits.

    Args:
        x: features of the samples.
        y: their labels.
        base: their scores by the cluster's model.
        model: parameters of this model. To fit all of them, they are weights [C d], then biases
            [C].
        fits: what the client fits itself: ``model`` or ``intercept``.
        task_type: what the labels are.

    Raises:
        ModelError: all parameters are to be fitted, and the model is not linear in the features.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        base: Float[np.ndarray, "n C"],
        model: Float[np.ndarray, "P"],
        fits: str,
        task_type: Any,
    ) -> None:
        self._y = y
        if (relative := relative_weights(y, np.array([len(y)]))) is not None:
            # The pull is in samples, so the mean weight of the client's samples is 1.
            self._y = y.copy()
            self._y[:, 2] = relative
        self._model = model
        self._fits = fits
        self._task_type = task_type
        self.base = base.astype(np.float64)
        self.design = np.ones((len(x), 1))
        if fits == MODEL:
            # A client may have no sample in this part.
            features = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float64)
            self._check_linear(features)
            self.design = np.concatenate([features, self.design], axis=1)

    @classmethod
    def of_client(
        cls, client: Client, model: Float[np.ndarray, "P"], fits: str, split: str
    ) -> _OwnData:
        """The data of a client in a part of its samples."""
        x, y = client.samples(split)
        return cls(x, y, client.scores(model, split), model, fits, client.task_type)

    def _check_linear(self, features: Float64[np.ndarray, "n d"]) -> None:
        """Compare the engine's scores with those of a linear model with these parameters."""
        outputs = self.base.shape[1]
        linear = len(self._model) == (features.shape[1] + 1) * outputs
        if linear:
            weights = self._model[:-outputs].reshape(outputs, -1).astype(np.float64)
            scores = features @ weights.T + self._model[-outputs:]
            linear = bool(np.allclose(scores, self.base, rtol=_DIFFERENCE, atol=_DIFFERENCE))
        if not linear:
            raise ModelError(
                "an own fit of the whole model needs a model that is linear in its features, such "
                "as model.name=mclr; set personal.fits=intercept, or personal.name=ditto, which "
                "trains models of any kind"
            )

    def loss(self, rows: Int[np.ndarray, "_"] | None = None) -> SampleLoss:
        """The loss of samples as a function of their scores.

        Args:
            rows: the samples; None for all.
        """
        y = self._y if rows is None else self._y[rows]
        y = y.astype(np.float64) if y.dtype.kind == "f" else y

        def losses(scores: np.ndarray) -> np.ndarray:
            return self._task_type.sample_losses(scores, y)

        return losses

    def moved(self, fit: Float64[np.ndarray, "q C"]) -> Float[np.ndarray, "P"]:
        """The model after a move of its fitted parameters, which are its last ones."""
        # Weights are stored output by output, then the biases.
        move = np.concatenate([fit[:-1].T.ravel(), fit[-1]])
        model = self._model.copy()
        model[len(model) - len(move) :] += move.astype(np.float32)
        return model
