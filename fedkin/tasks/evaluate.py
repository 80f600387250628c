"""Evaluation of models on clients' samples. Shapes: n rows (clients with their models), K models, P
parameters, C classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.client_engine import sums_by_row
from fedkin.core.engine_protocols import ScoreSums
from fedkin.core.errors import ModelError, TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import Reply
from fedkin.core.schema import Rows, floats, integers
from fedkin.core.task import Task, chosen, each, stays
from fedkin.core.world import World


@dataclass(frozen=True)
class Evaluate(Task):
    """Evaluation of each client's model on its own data.

    If models are detectors, ``model_index`` [n C] has a detector for each class (-1: none). The
    predicted class is the class whose detector has the highest score; in a tie, the first one.

    Attributes:
        models: models to evaluate.
        model_index: model of each row (a client).
        split: ``test``, ``train``, or ``validation`` if the data have one.
        local: whether peers evaluate models that they have already, so that no model is sent.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n ..."] = each()
    split: str = "test"
    local: bool = stays(default=False)  # type: ignore[assignment]

    up = Rows(
        # Sums over the samples, as the data's task type names them, such as correct predictions.
        sums=floats("sums", low=0, missing=0.0, finite=False, counted=False),
        examples=integers(counted=False),
        # A model that has diverged may have an infinite loss.
        loss=floats(missing=0.0, finite=False, counted=False),
    )
    detectors = None
    can_be_lost = False  # an evaluation covers every client

    def compute(self, client: Client) -> dict[str, Any]:
        return score_reply(client.score(self.models, np.asarray(self.model_index[0]), self.split))

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        sums = rows.scorer.score(
            self.models, rows.clients, np.asarray(self.model_index, np.int64), self.split
        )
        yield rows.every, score_reply(sums)

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError unless each row (a client) has one detector per class or, if models are
        not detectors, one model."""
        expected = (classes,) if spec.detects else ()
        if self.model_index.shape[1:] != expected:
            needed = (
                f"a detector, so each row of model_index needs {classes} detectors, one per class"
                if spec.detects
                else "not a detector, so each row of model_index needs one model"
            )
            raise ModelError(f"model {model!r} is {needed}; got shape {self.model_index.shape}")

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        refuse_counts(self, arrays, counted)

    def stored_models(self, reply: Reply) -> dict[str, np.ndarray]:
        return {"cluster": self.models[self.model_index[0]]} if self.model_index.ndim == 1 else {}


def refuse_counts(task: Task, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
    """Raise TaskError for sums in the reply of an evaluation that count more samples than there
    are, such as correct predictions.

    Args:
        task: the evaluation.
        arrays: its reply.
        counted: positions of the sums that count samples.
    """
    counts = arrays["sums"][..., list(counted)]
    # A number that is NaN is refused, too.
    if not (counts <= arrays["examples"][..., None]).all():
        raise TaskError(f"task {task.name}: sums has more correct samples than samples, or NaN")


def score_reply(scores: ScoreSums) -> dict[str, Any]:
    """The reply of an evaluation, from the sums over a client's samples or over those of all
    rows."""
    loss = scores.loss / np.maximum(scores.examples, 1)
    return {"sums": scores.sums, "examples": scores.examples, "loss": loss}


def score_reply_of_samples(
    by_sample: Sequence[np.ndarray],
    losses: Float[np.ndarray, "t"],
    sizes: Int[np.ndarray, "r"],
) -> dict[str, Any]:
    """The reply of an evaluation of several rows, from the scores of each sample.

    Args:
        by_sample: [t] each, what the task type sums (``TaskType.sums``).
        losses: loss of each sample.
        sizes: number of samples of each row; the samples of a row follow each other.
    """
    sums = np.stack([sums_by_row(column, sizes) for column in by_sample], axis=1)
    return score_reply(ScoreSums(sums, sums_by_row(losses, sizes), sizes))


@dataclass(frozen=True)
class Scores:
    """Evaluation results, with one entry per row (a client with its model). They are sums over
    samples and not means, so that they can be added over any set of clients.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> hits = np.array([[8.0], [3.0]])
        >>> scores = fk.Scores(hits, np.array([10, 4]), loss=np.array([0.5, 0.9]))
        >>> round(float(scores.correct.sum() / scores.examples.sum()), 2)
        0.79
    """

    # What the data's task type sums (``TaskType.sums``), such as the correct predictions.
    sums: Float[np.ndarray, "n S"]
    examples: Int[np.ndarray, "n"]
    loss: Float[np.ndarray, "n"]  # mean loss over the row's samples; 0 without samples

    @property
    def correct(self) -> Int[np.ndarray, "n"]:
        """The number of correct predictions, for classes."""
        return np.rint(self.sums[:, 0]).astype(np.int64)

    @classmethod
    def of(cls, reply: Reply) -> Scores:
        """The results in the reply of an evaluation. A user's task may reply with the number of
        ``correct`` predictions in place of ``sums``."""
        sums = reply.arrays.get("sums")
        if sums is None:
            sums = reply.arrays["correct"][:, None].astype(np.float64)
        return cls(sums, reply.examples, reply.loss)


def evaluate(
    world: World,
    models: Float[np.ndarray, "K P"],
    clients: Int[np.ndarray, "n"],
    model_index: Int[np.ndarray, "n ..."],
    **options: Any,
) -> Scores:
    """Evaluate models on clients.

    Args:
        world: the clients.
        models: models to evaluate.
        clients: one client for each row of the task.
        model_index: model that each row's client evaluates; for detectors, one for each class.
        options: ``split`` and ``local``, as in ``Evaluate``.
    """
    reply = world.run(Evaluate(models, np.asarray(model_index, np.int64), **options), clients)
    return Scores.of(reply)
