"""Local training: each client trains a model on its own samples and replies with the update.

Shapes: n rows of a task (clients with their models), K models, P parameters, p numbers of the part
that is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.engine_protocols import LocalUpdates, ScoreSums
from fedkin.core.errors import ModelError, TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schema import MAX_COUNT, Array, Rows, Schema, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, setting, stays
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.tasks.evaluate import Scores

MAX_LOSS = 1e30  # a larger loss cannot be true


@dataclass(frozen=True)
class Train(Task):
    """Local training of ``models[model_index]``.

    A client that trains several detectors has several rows, one per detector, which all see the
    same batches.

    Attributes:
        models: initial models.
        work: training settings.
        model_index: the model of each row; None: each client trains the model with its lowest
            training loss.
        reduce: whether the server needs only the mean update of each model.
        gradient: whether the same reply also holds the gradient of the full training loss at the
            start.
        part: slice of the update that is requested; None: all of it.
        test: whether clients evaluate the models on their test samples before training. The reply
            holds the sums of these scores over all clients.
        save: whether a real client stores its model, if it is the only client of its site.
        local: whether peers train models that they have already, so that no model is sent.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    work: LocalTraining = setting()
    model_index: Int[np.ndarray, "n"] | None = each(default=None)
    reduce: bool = False
    gradient: bool = False
    part: slice | None = None
    test: bool = False
    save: bool = False
    local: bool = stays(default=False)  # type: ignore[assignment]

    detectors = None
    charged = "sum"

    @property
    def up(self) -> Schema:
        """Schema of the reply: update (or its mean for each model), losses of the last and first
        local epoch, numbers of samples, and which model each row (a client) has trained."""
        return _schema(self.reduce, self.gradient, self.test)

    def compute(self, client: Client) -> dict[str, Any]:
        if self.model_index is None:
            index = np.argmin(_finite(client.losses(self.models)))
        else:
            index = self.model_index[0]
        local = client.train(self.models[index], self.work, self.gradient)
        arrays = self._arrays(local.as_rows())
        reply = {name: array[0] for name, array in arrays.items()}
        if self.test:
            reply["test_sums"] = _test_sums(client.score(self.models, np.asarray(index)))
        return reply | {"examples": len(client.samples()[1]), "model_index": index}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        chosen_models = self._chosen(rows)
        examples = rows.data.train.sizes[rows.clients].astype(np.int64)
        call = rows.train_call(self.models, chosen_models, self.work, gradient=self.gradient)
        for portion in rows.portions(self.models.shape[1]):
            local = rows.trainer.train(call.select(portion))
            arrays = self._arrays(local)
            arrays["examples"] = examples[portion]
            arrays["model_index"] = chosen_models[portion]
            if self.test:
                sums = rows.scorer.score(
                    self.models, rows.clients[portion], chosen_models[portion], "test"
                )
                arrays["test_sums"] = _test_sums(sums)
            yield portion, arrays

    def _chosen(self, rows: ClientRows) -> Int[np.ndarray, "n"]:
        """The model that the client of each row trains: the given one or, if clients choose, the
        one with the lowest loss on its data. A model whose loss is NaN is never chosen."""
        if self.model_index is not None:
            return np.asarray(self.model_index, np.int64)
        return np.argmin(_finite(rows.scorer.losses(self.models, rows.clients)), axis=1)

    def _arrays(self, local: LocalUpdates) -> dict[str, Any]:
        """The reply's losses, and the requested part of the update (and of the gradient, if
        requested).

        The server sees only that part. So if any other number of a client's update is not finite,
        the part becomes NaN, and the server excludes this update.
        """
        arrays = {
            "loss": np.asarray(local.loss, np.float64),
            "first_loss": np.asarray(local.first_loss, np.float64),
        }
        for name in ("update", "gradient"):
            whole = getattr(local, name)
            if whole is None:
                continue
            arrays[name] = whole[:, self.part or slice(None)]
            if self.part is not None and not np.isfinite(whole).all():
                finite = np.isfinite(whole).all(axis=1, keepdims=True)
                arrays[name] = np.where(finite, arrays[name], np.float32(np.nan))
        return arrays

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError if a detector has no class to detect, if a model that is not a detector
        has such a class, or if the task requests a detector's gradient or lets clients choose among
        detectors."""
        has_classes = self.work.positive is not None
        detects = spec.detects
        if detects != has_classes or (detects and (self.model_index is None or self.gradient)):
            reason = (
                "is a detector of a single class, which only the method athena trains; use athena "
                "or a model with a score for every class"
                if detects
                else "has a score for every class, but the method athena trains only detectors of "
                "single classes; use a detector, or another method"
            )
            raise ModelError(f"model {model!r} {reason}")

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        check_model_index(self, arrays["model_index"], len(self.models))

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        if "test_sums" not in arrays:
            return
        sums = arrays["test_sums"][..., :-2]
        samples = arrays["test_sums"][..., -2]
        possible = (sums >= 0).all(axis=-1) & (samples >= 0) & (samples <= MAX_COUNT)
        possible &= (sums[..., list(counted)] <= samples[..., None]).all(axis=-1)
        if not possible.all():
            raise TaskError(
                f"task {self.name}: test_sums has impossible numbers of samples, such as more "
                "correct samples than samples"
            )

    def sizes(self) -> dict[str, int]:
        sizes = super().sizes()
        part = self.part or slice(None)
        return sizes | {"p": len(range(*part.indices(sizes["P"])))}

    def single(self) -> Train | None:
        return replace(self, reduce=False) if self.reduce else None

    def for_messages(self, spec: ModelSpec) -> Train:
        """The form in which the task is sent to real clients: they also evaluate a whole model
        before they train it, and store their model, so that no other message is needed for that."""
        whole = self.part is None and self.work.steps is None and not spec.detects
        return replace(self, test=whole, save=whole)

    def norm_group(self) -> str:
        part = None if self.part is None else [self.part.start, self.part.stop]
        return f"{part} {self.work.steps} {np.max(self.work.epochs)}"

    def start_norms(self) -> Float[np.ndarray, "K"]:
        return np.linalg.norm(self.models[:, self.part or slice(None)], axis=1)

    def training(self, reply: Reply) -> TrainingReply | None:
        return training_reply(self, reply) if self.part is None else None

    def stored_models(self, reply: Reply) -> dict[str, np.ndarray]:
        if not self.save or not reply.arrived.all():
            return {}
        index = int(reply.model_index[0])
        return {
            "cluster": self.models[index],
            "personal": self.models[index] + reply.update[index if self.reduce else 0],
        }


@dataclass(frozen=True)
class TrainingReply:
    """The result of local training, by row of the task (a client with its model). Rows without a
    reply hold zeros.

    ``update`` is the local model minus the model it started from, for each row. With ``reduce``,
    ``update`` is the sample-weighted mean update of each model. If only a part of the vector was
    requested, ``update`` is that part.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> from fedkin.tasks.train import train
        >>> data = fk.data.digits(clients=6)
        >>> world = fk.SimulatedWorld(data, fk.models.mclr(data))
        >>> models = np.zeros((1, world.spec.parameters), np.float32)
        >>> reply = train(world, models, np.arange(6), stream=fk.Stream(seed=0, round=1))
        >>> reply.update.shape, reply.examples.shape
        ((6, 650), (6,))
    """

    update: Float[np.ndarray, "rows p"]
    model_index: Int[np.ndarray, "n"]  # model that each row trained
    examples: Int[np.ndarray, "n"]  # number of training samples of each row
    # Mean training loss in the last local epoch. With ``reduce``, each row holds the mean over all
    # rows of its model.
    loss: Float[np.ndarray, "n"]
    first_loss: Float[np.ndarray, "n"]  # the same during the first local epoch
    arrived: Bool[np.ndarray, "n"]  # whether a finite update arrived
    nonfinite: Bool[np.ndarray, "n"]  # whether an update arrived that is not finite; it is excluded
    # With ``reduce``: number of samples behind each mean; 0 if no row arrived.
    weight: Float[np.ndarray, "K"] | None = None
    # If requested: gradient of the full training loss at the start.
    gradient: Float[np.ndarray, "n P"] | None = None
    # Test results of the models before training, one row for all clients.
    before_training: Scores | None = None

    @classmethod
    def of_rows(cls, reply: Reply, model_index: Int[np.ndarray, "n"]) -> TrainingReply:
        """The result of a task whose reply has an update and losses for each row, such as
        ``Personal``.

        Args:
            reply: the reply.
            model_index: model that each row trained.
        """
        return cls(
            update=reply.update,
            model_index=np.asarray(model_index, np.int64),
            examples=reply.examples,
            loss=reply.loss,
            first_loss=reply.first_loss,
            arrived=reply.arrived,
            nonfinite=reply.nonfinite,
            weight=reply.weight,
        )

    @classmethod
    def of_means(cls, reply: Reply, model_index: Int[np.ndarray, "n"]) -> TrainingReply:
        """The result of a task that asks for means by model, such as ``TrainSpans``.

        Args:
            reply: the reply, whose ``loss`` and ``first_loss`` are means by model.
            model_index: model that each row trained.
        """
        index = np.asarray(model_index, np.int64)
        return cls(
            update=reply.update,
            model_index=index,
            examples=reply.examples,
            loss=np.where(reply.arrived, reply.arrays["loss"][index], 0.0),
            first_loss=np.where(reply.arrived, reply.arrays["first_loss"][index], 0.0),
            arrived=reply.arrived,
            nonfinite=reply.nonfinite,
            weight=reply.weight,
        )


def training_reply(task: Train, reply: Reply) -> TrainingReply:
    """Convert a reply to ``Train`` to a ``TrainingReply``. With ``reduce``, the reply has mean
    losses of each model; each row (a client with its model) then gets the losses of its model."""
    arrays = dict(reply.arrays)
    if task.model_index is not None:
        arrays["model_index"] = np.array(task.model_index, np.int64)
    if task.reduce:
        for name in ("loss", "first_loss"):
            arrays[name] = np.where(reply.arrived, arrays[name][arrays["model_index"]], 0.0)
    sums = arrays.pop("test_sums", None)
    before = None
    if sums is not None and sums[-2]:
        examples = np.array([round(sums[-2])], np.int64)
        before = Scores(sums[None, :-2], examples, sums[-1:] / examples)
    return TrainingReply(
        **arrays,
        arrived=reply.arrived,
        nonfinite=reply.nonfinite,
        weight=reply.weight,
        before_training=before,
    )


def train(
    world: World,
    models: Float[np.ndarray, "K P"],
    clients: Int[np.ndarray, "n"],
    model_index: Int[np.ndarray, "n"] | None = None,
    *,
    work: LocalTraining | None = None,
    stream: Stream,
    **options: Any,
) -> TrainingReply:
    """Train models on clients.

    Args:
        world: the clients.
        models: initial models.
        clients: one client for each row of the task.
        model_index: model that each row's client trains; None: all K models are sent, and each
            client trains the one with its lowest training loss.
        work: training settings; the run's by default.
        stream: the clients' random numbers.
        options: ``reduce``, ``gradient``, ``part``, ``local``, as in ``Train``.
    """
    task = Train(models, work or world.work, model_index, **options)
    return training_reply(task, world.run(task, clients, stream))


def check_model_index(task: Task, index: Int[np.ndarray, "..."], models: int) -> None:
    """Check that a reply names only models that were sent.

    Args:
        task: the task, for the error message.
        index: the model that the client says it has trained.
        models: number of models that were sent.

    Raises:
        TaskError: a number is too high.
    """
    if index.size and index.max() >= models:
        raise TaskError(f"task {task.name}: model_index is outside 0..{models - 1}: {index.max()}")


def and_padding(models: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "R P"]:
    """The models, followed by models of zeros up to a power of two. Programs are compiled for a
    fixed number of models, so this limits how many programs are needed."""
    padded = 1 << (len(models) - 1).bit_length()
    return np.pad(models, ((0, padded - len(models)), (0, 0)))


@cache
def _schema(reduce: bool, gradient: bool, test: bool) -> Schema:
    """The schema of a reply to ``Train``, made once for each combination of options and cached."""
    over = "model" if reduce else "row"
    loss = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, over=over, counted=False)
    arrays = {
        "update": floats("p", np.float32, missing=0.0, over=over, norm_checked=True),
        "loss": loss,
        "first_loss": replace(loss, finite=False),
        "examples": integers(over="row", counted=False, registered=True),
        "model_index": integers(over="row", counted=False),
    }
    if gradient:
        arrays["gradient"] = floats("p", np.float32, missing=0.0, over="row")
    if test:
        arrays["test_sums"] = floats(
            "test_sums", missing=0.0, finite=False, over="all", counted=False
        )
    kind = Sums if reduce else Rows
    return kind(**arrays)


def _finite(losses: Float[np.ndarray, "... K"]) -> Float[np.ndarray, "... K"]:
    """Losses with NaN replaced by infinity, so that the smallest loss is never NaN."""
    return np.where(np.isnan(losses), np.inf, losses)


def _test_sums(scores: ScoreSums) -> Float[np.ndarray, "... T"]:
    """The array ``test_sums`` of a reply: for each row (a client) the task type's sums, such as
    correct samples, then the number of samples, and the summed loss."""
    others = np.stack([np.asarray(scores.examples, np.float64), scores.loss], axis=-1)
    return np.concatenate([scores.sums, others], axis=-1)
