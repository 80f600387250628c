"""Local training whose update leaves the client as masked integers, for a sum over a group of
clients.

Every training task that can be used with secret sums has its masked form here, a class of two
lines. Shapes: n rows of a task (clients with their models), r rows of a portion, G holders of a
client's shares, V numbers that a client sends, K models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Bool, UInt32

from fedkin.core.client import Client, ClientRows
from fedkin.core.client_memory import OwnMemory
from fedkin.core.errors import TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import Reply
from fedkin.core.schema import Array, Memory, Rows
from fedkin.core.task import Task, each, setting, stays
from fedkin.secret import client as protocol
from fedkin.secret.quantization import EXTRA, IntegerGrid, NoiseShare
from fedkin.tasks.apfl import TrainMixed
from fedkin.tasks.ditto import TrainBeside
from fedkin.tasks.pfedme import TrainEnvelope
from fedkin.tasks.secret_exchange import SESSION_MEMORY, Holders, kept_session
from fedkin.tasks.survival_counts import SurvivalCounts
from fedkin.tasks.train import Train


@dataclass(frozen=True, kw_only=True)
class _Masked(Holders):
    """Mix-in that turns a training task into its masked form. It must come first among a class's
    bases, since it calls the training's ``compute`` and masks the result.

    Attributes:
        partners: holders of its shares with whom each client masks its vector.
        members: largest number of clients n in a group.
        limit: largest absolute value of a number, as in ``IntegerGrid``.
        cap: largest number of samples that counts for a client, as in ``IntegerGrid``.
        hide_choice: whether a client sends a vector for every model. For models that it did not
            train, the vector is zero, or only noise.
        clip: clipping norm for the client's share of the noise, as in ``NoiseShare``; 0: no noise.
        deviation: standard deviation of the share, as in ``NoiseShare``.
        seeded: whether noise comes from a seed, as in ``NoiseShare``. It is never sent to real
            sites, whose noise comes from their systems.
    """

    partners: Bool[np.ndarray, "n G"] = each()
    members: int = setting()
    limit: float = setting()
    cap: int = setting()
    hide_choice: bool = setting()
    clip: float = setting(default=0.0)
    deviation: float = setting(default=0.0)
    seeded: bool = stays(default=False)

    charged = "not"
    up = Rows(masked=Array("V", np.uint32, missing=0))

    def compute(self, client: Client) -> dict[str, Any]:
        reply = cast(Any, super()).compute(client)
        return {"masked": self._masked(reply, client.id, client.memory, client.rng())}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for index, arrays in cast(Any, super()).compute_rows(rows):
            # The training may give its rows as a slice; masking needs their numbers.
            portion = np.arange(len(rows.clients))[index]
            masked = [
                self._masked_row(rows, int(row), arrays, at) for at, row in enumerate(portion)
            ]
            if masked:
                vectors = np.stack(masked)
            else:
                vectors = np.zeros((0, self.sizes()["V"]), np.uint32)
            yield portion, {"masked": vectors}

    def _masked_row(
        self, rows: ClientRows, row: int, arrays: dict[str, Any], at: int
    ) -> UInt32[np.ndarray, "V"]:
        """The masked vector that one simulated client sends.

        Args:
            rows: all clients of the task, one per row.
            row: the client's row.
            arrays: the training's reply for a portion of the rows.
            at: position of the client's row in the portion.
        """
        client = int(rows.clients[row])
        memory = OwnMemory(rows.memory, client, rows.task, rows.declared)
        number = int(rows.ids[client])
        reply = {name: arrays[name][at] for name in ("update", "examples", "model_index")}
        return self._masked(
            reply=reply,
            number=number,
            memory=memory,
            rng=rows.drawn().client(number),
            row=row,
        )

    def _masked(
        self,
        reply: dict[str, Any],
        number: int,
        memory: OwnMemory,
        rng: np.random.Generator,
        row: int = 0,
    ) -> UInt32[np.ndarray, "V"]:
        """The masked vector that a client sends instead of its update.

        Args:
            reply: the training's reply, which stays on the client.
            number: the client's number.
            memory: the client's memory.
            rng: the client's random generator.
            row: the client's row in the arrays of this task.
        """
        vectors = self._vectors(reply, rng.spawn(1)[0])
        group = self.group_of(number, row)
        # With noise (``clip``), a sum of fewer clients would have too little of it. The client can
        # check only the holders that the request names.
        if self.clip and group.present.sum() < self.least:
            raise protocol.MaskingError(
                f"this client's noise is enough only in a sum of at least {self.least} clients, "
                f"but the server's request names only {group.present.sum()}; the client refuses "
                "the request"
            )
        session = kept_session(memory)
        session, masked = protocol.mask(session, group, self.partners[row], vectors.ravel())
        memory["secret_session"] = session.array()
        return masked

    def _vectors(
        self, reply: dict[str, Any], rng: np.random.Generator
    ) -> UInt32[np.ndarray, "k v"]:
        """The integers that a client adds to the sums: one vector for its model or, if choices are
        hidden, one for every model."""
        grid = IntegerGrid(self.members, self.limit, self.cap)
        examples = int(reply["examples"])
        sizes = self.sizes()
        models = sizes["K"] if self.hide_choice else 1
        trained = int(reply["model_index"]) if self.hide_choice else 0
        vectors = np.zeros((models, sizes["p"] + EXTRA), np.uint32)
        if not self.clip:
            vectors[trained] = grid.quantized(reply["update"], examples, rng)
            return vectors
        # Every model gets noise, so that the server cannot tell which one was trained.
        share = NoiseShare(self.clip, self.deviation, self.seeded)
        for model in range(models):
            vectors[model] = grid.noisy(
                update=reply["update"] if model == trained else None,
                examples=examples,
                share=share,
                rng=rng,
                numbers=sizes["p"],
            )
        return vectors

    def sizes(self) -> dict[str, int]:
        sizes = cast(Any, super()).sizes()
        return sizes | {"V": (sizes["K"] if self.hide_choice else 1) * (sizes["p"] + EXTRA)}

    # The masked reply holds none of the training's arrays, so the training's versions of these
    # functions do not apply.
    def check_reply(self, arrays: Any) -> None: ...

    def check_sums(self, arrays: Any, counted: Any) -> None: ...

    def single(self) -> None: ...

    def training(self, reply: Reply) -> None: ...

    def for_messages(self, spec: ModelSpec) -> Any:
        return self

    def stored_models(self, reply: Reply) -> dict[str, np.ndarray]:
        """The models that a client may store: only its cluster's model, since its trained model
        cannot be read from the masked reply."""
        index = cast(Any, self).model_index
        if index is None or not reply.arrived.all():
            return {}
        return {"cluster": cast(Any, self).models[int(index[0])]}


@dataclass(frozen=True)
class SecretTrain(_Masked, Train):
    """``Train`` with masked updates, so that the server learns only sums."""

    memory = SESSION_MEMORY


@dataclass(frozen=True)
class SecretTrainBeside(_Masked, TrainBeside):
    """``TrainBeside`` with masked updates, so that the server learns only sums."""

    memory: ClassVar[Mapping[str, Memory]] = {**TrainBeside.memory, **SESSION_MEMORY}


@dataclass(frozen=True)
class SecretTrainEnvelope(_Masked, TrainEnvelope):
    """``TrainEnvelope`` with masked updates, so that the server learns only sums."""

    memory: ClassVar[Mapping[str, Memory]] = {**TrainEnvelope.memory, **SESSION_MEMORY}


@dataclass(frozen=True)
class SecretTrainMixed(_Masked, TrainMixed):
    """``TrainMixed`` with masked updates, so that the server learns only sums."""

    memory: ClassVar[Mapping[str, Memory]] = {**TrainMixed.memory, **SESSION_MEMORY}


@dataclass(frozen=True)
class SecretSurvivalCounts(_Masked, SurvivalCounts):
    """``SurvivalCounts`` with masked counts, so that the server learns only sums."""

    memory = SESSION_MEMORY


MASKED: dict[type[Task], Any] = {
    SurvivalCounts: SecretSurvivalCounts,
    Train: SecretTrain,
    TrainBeside: SecretTrainBeside,
    TrainEnvelope: SecretTrainEnvelope,
    TrainMixed: SecretTrainMixed,
}


def masked_form(task: Task, **fields: Any) -> Task:
    """The masked form of a training task: clients mask their updates before they send them. The
    task must request means of updates (``reduce=True``).

    Args:
        task: a task that has a masked form.
        fields: fields that the masked form adds.

    Raises:
        TaskError: the task has no masked form, or requests single updates.
    """
    single = task.single()
    kind = MASKED.get(type(task))
    if single is None or kind is None:
        names = ", ".join(training.name for training in MASKED)
        raise TaskError(
            f"the task {task.name} cannot be used with secret sums; tasks that can, with "
            f"reduce=True: {names}"
        )
    training_fields = {
        field.name: getattr(single, field.name) for field in dataclasses.fields(single)
    }
    return kind(**training_fields, **fields)
