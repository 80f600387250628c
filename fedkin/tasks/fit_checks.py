"""How well models fit a client: the bounded loss of its model, and the samples on which another
model is better. They are the observations of the monitor of clusters (``fedkin/options/monitor``).

Shapes: n rows (clients), K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import MethodError, TaskError
from fedkin.core.schema import Rows, floats, integers
from fedkin.core.task import Task, chosen, each
from fedkin.task_types.classification import task_type_of_samples
from fedkin.task_types.task_type import TaskType


@dataclass(frozen=True)
class BoundedLoss(Task):
    """The loss of each client's model on its samples, as a number from 0 to 1
    (``TaskType.bounded_losses``), and the number of these samples.

    Attributes:
        models: models of the clusters.
        model_index: the model of each row (a client).
        split: the samples: ``validation``, ``train`` or ``test``.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()
    split: str = "validation"

    # The loss of a client without samples is 0, and says nothing.
    up = Rows(loss=floats(low=0, high=1, missing=0.0), examples=integers())

    def compute(self, client: Client) -> dict[str, Any]:
        scores = client.score(self.models, np.asarray(self.model_index[0]), self.split)
        loss = client.task_type.bounded_losses(
            np.asarray(scores.sums)[None],
            np.asarray(scores.loss)[None],
            np.asarray(scores.examples)[None],
        )
        return {"loss": loss[0], "examples": scores.examples}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        index = np.asarray(self.model_index, np.int64)
        scores = rows.scorer.score(self.models, rows.clients, index, self.split)
        task_type = task_type_of_samples(rows.data)
        loss = task_type.bounded_losses(scores.sums, scores.loss, scores.examples)
        yield rows.every, {"loss": loss, "examples": scores.examples}

    def check_labels(self, task_type: TaskType) -> None:
        _refuse_survival(task_type)


@dataclass(frozen=True)
class CompareModels(Task):
    """The number of a client's samples on which another model is better than its present one, and
    the reverse. A model is better on a sample if it alone is right, or, for labels that are
    numbers, if its loss is lower.

    Attributes:
        models: models of the clusters.
        model_index: the present and the other model of each row (a client).
        split: the samples: ``validation``, ``train`` or ``test``.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n 2"] = each()
    split: str = "validation"

    # better, worse, and the number of samples, which is 0 if a client does not reply
    up = Rows(counts=integers("3"))

    def compute(self, client: Client) -> dict[str, Any]:
        labels = client.samples(self.split)[1]
        present, other = (
            client.task_type.sample_errors(client.scores(self.models[index], self.split), labels)
            for index in self.model_index[0]
        )
        better = np.sum(other < present)
        worse = np.sum(present < other)
        return {"counts": np.array([better, worse, len(labels)])}

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        better, worse, samples = np.moveaxis(arrays["counts"], -1, 0)
        if (better + worse > samples).any():
            raise TaskError(
                f"task {self.name}: counts has more samples on which two models differ than samples"
            )

    def check_labels(self, task_type: TaskType) -> None:
        _refuse_survival(task_type)


def _refuse_survival(task_type: TaskType) -> None:
    """Raise MethodError for survival data, whose losses are of risk sets and not of samples."""
    if task_type.name == "survival":
        raise MethodError(
            "monitor compares losses of single samples, but survival data have losses of risk "
            "sets; leave out the section monitor"
        )
