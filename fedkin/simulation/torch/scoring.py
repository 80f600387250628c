"""Scoring by PyTorch in inference mode, one client at a time, so that a score does not depend on
the other clients."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Real
from torch.nn.functional import cross_entropy

from fedkin.core.engine_protocols import ScoreSums
from fedkin.core.errors import ModelError
from fedkin.data.federated import FederatedData
from fedkin.simulation.constant_scores import ConstantScores
from fedkin.simulation.torch.flat_module import FlatModule, to_tensor
from fedkin.simulation.weighted_losses import weighted_losses
from fedkin.task_types.loss import targets_of

_WIDTH = 256  # samples at a time
_NONE = np.zeros(0)


class TorchScorer:
    """Scores models on the clients of one data set."""

    def __init__(self, data: FederatedData, model: FlatModule) -> None:
        self._data = data
        self._model = model
        self._constants = ConstantScores(data)

    def losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n K"]:
        """Mean training loss of every model on every client."""
        weighted = weighted_losses(self, self._data, models, clients)
        if weighted is not None:
            return weighted
        out = np.zeros((len(clients), len(models)))
        for k in range(len(models)):
            sums = self.score(models, clients, np.full(len(clients), k), "train")
            out[:, k] = sums.loss / np.maximum(sums.examples, 1)
        return out

    def predict(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], split: str
    ) -> list[Int[np.ndarray, "t"]]:
        """For each model, the classes that it predicts for the samples of all clients,
        concatenated."""
        classes = []
        for k in range(len(models)):
            scored = self._scores(models, clients, np.full(len(clients), k), split)
            rows = [scores.argmax(axis=1) for scores in scored]
            classes.append(np.concatenate(rows or [np.zeros(0, np.int64)]))
        return classes

    def raw_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> Float[np.ndarray, "t"]:
        """The scores that each row's detector gives to the samples of the row's client,
        concatenated over rows; NaN becomes -inf."""
        rows = [scores[:, 0] for scores in self._scores(models, clients, model_index, split)]
        scores = np.concatenate(rows or [_NONE])
        return np.where(np.isnan(scores), -np.inf, scores)

    def sample_losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "K t"]:
        """The loss of each model on each training sample of all clients (concatenated)."""
        y = to_tensor(np.concatenate(self._labels(clients, "train")))
        scores = [torch.from_numpy(self.scores(model, clients, "train")) for model in models]
        return np.stack([self._losses(of_model, y).numpy() for of_model in scores])

    def _losses(self, scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss of each sample."""
        loss = self._data.task_type.loss
        if loss is None:
            return cross_entropy(scores, y, reduction="none")
        return loss.of(torch, scores, targets_of(y))

    def scores(
        self, model: Float[np.ndarray, "P"], clients: Int[np.ndarray, "n"], split: str
    ) -> Float[np.ndarray, "t C"]:
        """All outputs of one model on the samples of all clients (concatenated)."""
        rows = self._scores(model[None], clients, np.zeros(len(clients), np.int64), split)
        return np.concatenate(rows or [np.zeros((0, self._data.classes), np.float32)])

    def embeddings(self, clients: Int[np.ndarray, "n"], split: str) -> Float[np.ndarray, "t e"]:
        """The embeddings of all samples of all clients by the model's frozen network: the inputs of
        its last layer. Raises ModelError for a model without a frozen network."""
        if not self._model.spec.embedding:
            raise ModelError(
                f"the network {self._model.name!r} has no frozen part that embeds samples; make "
                "the model with fk.lora"
            )
        rows = self._data.part(split).select(clients).rows
        x = to_tensor(self._data.x[rows])
        with self._model.torch_settings(), torch.inference_mode():
            found = [part.numpy() for part in self._model.embedded(x.split(_WIDTH))]
        return np.concatenate(found)

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """The task type's sums, summed loss and number of samples of each row (a client with a
        model, or with one detector per class)."""
        score = self._detector_scores if self._model.spec.detects else self._scores
        task_type = self._data.task_type
        constants = self._constants.sums(clients, split)
        sums = np.zeros((len(clients), len(task_type.sums)))
        loss = np.zeros(len(clients))
        scored = score(models, clients, model_index, split)
        labels = self._labels(clients, split)
        for row, (scores, y) in enumerate(zip(scored, labels, strict=True)):
            summed = [part.sum() for part in task_type.sample_scores(np, scores, y)]
            sums[row] = [*summed, *constants[row]]
            losses = self._losses(torch.from_numpy(scores), to_tensor(y))
            loss[row] = losses.double().sum().item()
        return ScoreSums(sums, loss, self._data.part(split).sizes[clients].astype(np.int64))

    def _scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> list[Float32[np.ndarray, "s _"]]:
        """The scores that each row's model gives to the samples of the row's client; -inf for a row
        without a model (index -1)."""
        owned = self._data.part(split)
        width = 1 if self._model.spec.detects else self._data.classes
        out = [np.full((len(owned[int(c)]), width), -np.inf, np.float32) for c in clients]
        with self._model.torch_settings(), torch.inference_mode():
            for k in np.unique(model_index[model_index >= 0]):
                network = self._model.network(models[k]).eval()
                for row in np.flatnonzero(model_index == k):
                    x = to_tensor(self._data.x[owned[int(clients[row])]])
                    for number, batch in enumerate(x.split(_WIDTH) if len(x) else ()):
                        out[row][number * _WIDTH :][: len(batch)] = network(batch).numpy()
        return out

    def _detector_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n C"],
        split: str,
    ) -> list[Float32[np.ndarray, "s C"]]:
        """Scores of each client's samples by the detectors of all classes; -inf for a class without
        a detector (index -1)."""
        columns = [self._scores(models, clients, column, split) for column in model_index.T]
        return [np.concatenate(row, axis=1) for row in zip(*columns, strict=True)]

    def _labels(self, clients: Int[np.ndarray, "n"], split: str) -> list[Real[np.ndarray, "s ..."]]:
        """The labels of each client's samples in a split."""
        owned = self._data.part(split)
        return [self._data.y[owned[int(c)]] for c in clients]
