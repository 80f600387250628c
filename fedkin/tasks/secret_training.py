"""Local training whose update leaves the client as integers behind masks, for a sum over a group of
clients.

Every kind of training that secret sums may ask for has its masked form here: two lines. Shapes: n
rows of a call, r of a portion, G holders of a client's shares, V numbers that a client sends, K
models.
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
from fedkin.core.layout import ModelSpec
from fedkin.core.replies import Reply
from fedkin.core.schema import Array, Memory, Rows
from fedkin.core.task import Task, each, setting, stays
from fedkin.secret import client as protocol
from fedkin.secret.quantization import EXTRA, Grid, NoiseShare
from fedkin.tasks.apfl import TrainMixed
from fedkin.tasks.ditto import TrainBeside
from fedkin.tasks.pfedme import TrainEnvelope
from fedkin.tasks.secret_exchange import SESSION_MEMORY, Holders, kept_session
from fedkin.tasks.train import Train


@dataclass(frozen=True, kw_only=True)
class _Masked(Holders):
    """The masked form of a training, in front of it among the bases of a class.

    Attributes:
        partners: holders with whom each client masks.
        members: n, most clients of a group; with ``limit`` and ``cap`` as ``Grid`` has it.
        hide_choice: whether a client's vector stands among zeros for all other models; or among
            noise.
        clip, deviation, seeded: of its share of the noise, as ``NoiseShare`` has it; no noise where
            the clip is 0. Real sites are never told ``seeded``: their noise is the system's,
            whatever a server says.
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
        own = cast(Any, super()).compute(client)
        return {"masked": self._masked(own, client.id, client.memory, client.rng())}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for index, arrays in cast(Any, super()).compute_rows(rows):
            some = np.arange(len(rows.clients))[index]
            masked = [self._masked_row(rows, int(row), arrays, at) for at, row in enumerate(some)]
            yield (
                some,
                {
                    "masked": np.stack(masked)
                    if masked
                    else np.zeros((0, self.sizes()["V"]), np.uint32)
                },
            )

    def _masked_row(
        self, rows: ClientRows, row: int, arrays: dict[str, Any], at: int
    ) -> UInt32[np.ndarray, "V"]:
        client = int(rows.clients[row])
        memory = OwnMemory(rows.memory, client, rows.task, rows.declared)
        number = int(rows.ids[client])
        own = {name: arrays[name][at] for name in ("update", "examples", "model_index")}
        return self._masked(own, number, memory, rows.drawn().client(number), row)

    def _masked(
        self,
        own: dict[str, Any],
        number: int,
        memory: OwnMemory,
        rng: np.random.Generator,
        row: int = 0,
    ) -> UInt32[np.ndarray, "V"]:
        """What a client sends in place of its update."""
        vectors = self._vectors(own, rng.spawn(1)[0])
        group = self.group_of(number, row)
        if self.clip and group.present.sum() < self.least:
            raise protocol.RefusedError(
                f"noise for a sum of {self.least} clients, of whom {group.present.sum()} are shown"
            )
        session, masked = protocol.mask(
            kept_session(memory), group, self.partners[row], vectors.ravel()
        )
        memory["secret_session"] = session.array()
        return masked

    def _vectors(self, own: dict[str, Any], rng: np.random.Generator) -> UInt32[np.ndarray, "k v"]:
        """What a client adds to the sum of its model, or to those of all."""
        grid = Grid(self.members, self.limit, self.cap)
        examples = int(own["examples"])
        sizes = self.sizes()
        models, mine = (sizes["K"], int(own["model_index"])) if self.hide_choice else (1, 0)
        vectors = np.zeros((models, sizes["p"] + EXTRA), np.uint32)
        if not self.clip:
            vectors[mine] = grid.quantized(own["update"], examples, rng)
            return vectors
        share = NoiseShare(self.clip, self.deviation, self.seeded)
        for model in range(models):
            update = own["update"] if model == mine else None
            vectors[model] = grid.noisy(update, examples, share, rng, sizes["p"])
        return vectors

    def sizes(self) -> dict[str, int]:
        sizes = cast(Any, super()).sizes()
        return sizes | {"V": (sizes["K"] if self.hide_choice else 1) * (sizes["p"] + EXTRA)}

    def check_reply(self, arrays: Any) -> None: ...

    def single(self) -> None: ...

    def training(self, reply: Reply) -> None: ...

    def for_messages(self, spec: ModelSpec) -> Any:
        return self

    def stored_models(self, reply: Reply) -> dict[str, np.ndarray]:
        """The cluster's model only: its own is not in the reply."""
        index = cast(Any, self).model_index
        return (
            {}
            if index is None or not reply.arrived.all()
            else {"cluster": cast(Any, self).models[int(index[0])]}
        )


@dataclass(frozen=True)
class SecretTrain(_Masked, Train):
    """``Train``, of which sums only are known."""

    memory = SESSION_MEMORY


@dataclass(frozen=True)
class SecretTrainBeside(_Masked, TrainBeside):
    """``TrainBeside``, of which sums only are known."""

    memory: ClassVar[Mapping[str, Memory]] = {**TrainBeside.memory, **SESSION_MEMORY}


@dataclass(frozen=True)
class SecretTrainEnvelope(_Masked, TrainEnvelope):
    """``TrainEnvelope``, of which sums only are known."""

    memory: ClassVar[Mapping[str, Memory]] = {**TrainEnvelope.memory, **SESSION_MEMORY}


@dataclass(frozen=True)
class SecretTrainMixed(_Masked, TrainMixed):
    """``TrainMixed``, of which sums only are known."""

    memory: ClassVar[Mapping[str, Memory]] = {**TrainMixed.memory, **SESSION_MEMORY}


MASKED: dict[type[Task], Any] = {
    Train: SecretTrain,
    TrainBeside: SecretTrainBeside,
    TrainEnvelope: SecretTrainEnvelope,
    TrainMixed: SecretTrainMixed,
}


def masked_form(task: Task, **fields: Any) -> Task:
    """The masked form of a task that wants means.

    Args:
        task: of any kind that has one.
        fields: those of the masked form.

    Raises:
        TaskError: it has none.
    """
    single = task.single()
    kind = MASKED.get(type(task))
    if single is None or kind is None:
        known = ", ".join(one.name for one in MASKED)
        raise TaskError(
            f"secret sums have no masked form of the task {task.name}; there are those of {known}"
        )
    own = {field.name: getattr(single, field.name) for field in dataclasses.fields(single)}
    return kind(**own, **fields)
