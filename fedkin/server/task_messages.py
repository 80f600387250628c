"""Encodes tasks and replies as messages.

One encoding serves all tasks: a task declares for each field how it is sent, and for each array of
the reply what it holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import FedkinError, TaskError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schema import INDEX
from fedkin.core.task import Down, Task, fields_down
from fedkin.core.training import LocalTraining
from fedkin.server.handshake import model_digest
from fedkin.server.message import InvalidMessageError, RpcMessage

_SLICE = "slice"  # key under which a header has a slice
_SLICES = "slices"  # key under which a header has several slices
_PLAIN = (bool, int, float, str)  # types of settings
MODELS = "trained_models"  # in a message with means: the index of each mean's model


@dataclass(frozen=True)
class Known:
    """Arrays that a node has already, so that they need not be sent.

    Attributes:
        kept: digests of the arrays that the node keeps, by the task's field.
        start: the seed from which the node can make the run's initial model; None if it cannot.
        start_digest: digest of that initial model.
    """

    kept: Mapping[str, str] = field(default_factory=dict)
    start: Stream | None = None
    start_digest: str = ""


def used_models(task: Task, rows: Int[np.ndarray, "r"]) -> dict[str, Int[np.ndarray, "k"]]:
    """The ascending indices of the models that some clients of a task use.

    A task may have several fields that assign models to clients. The result has the indices for
    each of these fields, by the field's name. A field with the value None is left out, because its
    clients get all models.

    Args:
        task: the task.
        rows: positions of the clients among all clients of the task.
    """
    used = {}
    for _, down in fields_down(task):
        if down.kind != "chosen":
            continue
        index = getattr(task, down.by)
        if index is not None:
            models = np.asarray(index)[rows]
            used[down.by] = np.unique(models[models >= 0])
    return used


def used_in_reply(task: Task, rows: Int[np.ndarray, "r"]) -> Int[np.ndarray, "k"] | None:
    """Indices of the models that are sent to some clients of a task; None if all models are sent.

    A reply refers to a model by its position among the models that were sent.
    """
    used = used_models(task, rows)
    for _, down in fields_down(task):
        is_of_models = down.kind == "chosen" and down.axes.split()[0] == "K"
        if is_of_models and down.by in used:
            return used[down.by]
    return None


def encode_task(task: Task, rows: Int[np.ndarray, "r"], known: Known) -> RpcMessage:
    """The request to one node, with the part of a task for the node's clients.

    Args:
        task: the task for all clients.
        rows: positions of the node's clients among all clients of the task.
        known: arrays that the node has already.

    Raises:
        TaskError: a setting cannot be sent.
    """
    header: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    of_node = task.select(rows)
    used = used_models(task, rows)
    for name, down in fields_down(of_node):
        value = getattr(of_node, name)
        if down.kind == "setting":
            _encode_setting(task=of_node, name=name, value=value, header=header, arrays=arrays)
        elif down.kind == "initial":
            if known.start is not None and known.start_digest == model_digest(value):
                header[name] = plain_stream(known.start)
            else:
                header[name] = None
                arrays[name] = value
        elif value is None:
            continue
        elif down.kind == "kept":
            digest = array_digest(value)
            if known.kept.get(name) == digest:
                header[name] = digest
            else:
                arrays[name] = value
        elif down.kind == "chosen" and down.by in used:
            index = np.asarray(getattr(of_node, down.by))
            arrays[name] = value[used[down.by]]
            arrays[down.by] = np.where(index >= 0, np.searchsorted(used[down.by], index), -1)
        # A field that assigns models may be there already, renumbered for the models that are sent.
        elif down.kind != "stays" and name not in arrays:
            arrays[name] = value
    return RpcMessage(header, arrays)


def decode_task(
    kind: type[Task],
    message: RpcMessage,
    initial: Callable[[Stream], Float[np.ndarray, "P"]],
    kept: Mapping[str, np.ndarray],
) -> Task:
    """The task of a request that ``encode_task`` made.

    Args:
        kind: class of the task.
        message: the request.
        initial: makes an initial model from a stream.
        kept: arrays that this node keeps, by field name.

    Raises:
        InvalidMessageError: an entry is missing or has another type.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, down in fields_down(kind):
        if down.kind == "stays":
            continue
        if down.kind == "setting":
            values[name] = _decode_setting(message, name, fields[name].default)
        elif down.kind == "initial" and message.header.get(name) is not None:
            values[name] = initial(read_stream(message.header[name]))
        elif down.kind == "kept" and name not in message.arrays:
            if name not in message.header and fields[name].default is None:
                continue
            if name not in kept or message.value(name, str) != array_digest(kept[name]):
                raise InvalidMessageError(
                    f"the request lacks the array {name}, and this node has not stored it, or "
                    "has stored other numbers; the server must send it again"
                )
            values[name] = kept[name]
        # A field that may be None is left out of the message if it is None.
        elif fields[name].default is None:
            values[name] = message.arrays.get(name)
        else:
            values[name] = message.array(name)
    return make_task(kind, values)


def call_digest(kind: type[Task], message: RpcMessage) -> str:
    """A short digest of the work that a numbered request asks for.

    A request has a number if its work must not be done twice. If the request is sent again because
    its reply was lost, the digest is the same.
    """
    of_work = {"call", "clients", "stream", *(field.name for field in dataclasses.fields(kind))}
    entries = {name: value for name, value in message.header.items() if name in of_work}
    for name, array in message.arrays.items():
        if name.split(".")[0] in of_work:
            entries[name] = array_digest(array)
    text = json.dumps(entries, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_task(kind: type[Task], values: Any) -> Task:
    """Make a task from its fields. Raises InvalidMessageError for invalid values."""
    try:
        return kind(**values)
    except FedkinError as error:
        raise InvalidMessageError(str(error)) from error
    except (TypeError, ValueError) as error:
        raise InvalidMessageError(
            f"the task {kind.name} does not accept these settings: {error}"
        ) from error


def array_digest(array: np.ndarray) -> str:
    """A short digest of any array: its type, shape and numbers."""
    head = f"{array.dtype.str} {array.shape};".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def kept_fields(task: Task | type[Task]) -> list[str]:
    """Names of the fields whose arrays a node keeps.

    For a task instance, fields that are None are left out.
    """
    names = [name for name, down in fields_down(task) if down.kind == "kept"]
    if isinstance(task, type):
        return names
    return [name for name in names if getattr(task, name) is not None]


def known_rows(task: Task) -> set[str]:
    """Names of reply arrays (one row per client) that a node need not send.

    If the reply to a task has means over clients, the server also needs each client's number of
    samples and model. The server knows the numbers of samples since the nodes were accepted, and
    the models if it assigned them. For other tasks the set is empty.
    """
    if not task.up.of("model"):
        return set()
    names = {name for name, array in task.up.of("row").items() if array.registered}
    if getattr(task, INDEX, None) is not None:
        names.add(INDEX)
    return names


def encode_reply(task: Task, reply: Reply) -> dict[str, np.ndarray]:
    """The arrays of a node's reply.

    One of the arrays is a mask of the clients with numbers in the reply. The mask may be left out
    if all clients have numbers. Means are included only for models that the node's clients trained.
    """
    schema = task.up
    known = known_rows(task)
    names = [*schema.of("row"), *schema.of("all")]
    arrays = {name: reply.arrays[name] for name in names if name not in known}
    if schema.flags_rows or not reply.arrived.all():
        arrays |= {"arrived": reply.arrived, "nonfinite": reply.nonfinite}
    if reply.weight is not None:
        models = np.flatnonzero(reply.weight)
        arrays |= {name: reply.arrays[name][models] for name in schema.of("model")}
        arrays |= {"weight": reply.weight[models], MODELS: models}
    return arrays


def plain_settings(task: Task) -> dict[str, Any]:
    """The settings of a task, to be an entry of a header."""
    return {name: getattr(task, name) for name, down in fields_down(task) if down == Down()}


def plain_stream(stream: Stream | None) -> list[Any] | None:
    """A random stream as a list, to be an entry of a header."""
    return None if stream is None else [stream.seed, stream.round, stream.purpose]


def read_stream(value: Any) -> Stream:
    """The stream in a header entry that ``plain_stream`` made.

    Raises InvalidMessageError for any other entry.
    """
    if not isinstance(value, list) or [type(part) for part in value] != [int, int, str]:
        raise InvalidMessageError(
            f"expected a stream [seed, round, purpose], got {str(value)[:60]!r}"
        )
    return Stream(*value)


def _encode_setting(
    task: Task, name: str, value: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Add a task's setting to a message. Arrays of a ``LocalTraining`` are added to the message's
    arrays, everything else to its header.

    Raises TaskError for a value that cannot be sent.
    """
    if isinstance(value, LocalTraining):
        plain_entries = {}
        for key, entry in value.settings().items():
            if isinstance(entry, np.ndarray):
                arrays[f"{name}.{key}"] = entry
            else:
                plain_entries[key] = entry
        header[name] = plain_entries
        return
    if isinstance(value, slice):
        header[name] = {_SLICE: _bounds(value)}
        return
    if isinstance(value, tuple) and value and all(isinstance(part, slice) for part in value):
        header[name] = {_SLICES: [_bounds(part) for part in value]}
        return
    entries = value if isinstance(value, tuple) else (value,)
    plain = [entry.item() if isinstance(entry, np.generic) else entry for entry in entries]
    # A NaN is not equal to itself. JSON cannot hold it, so it is refused.
    if not all(entry is None or (isinstance(entry, _PLAIN) and entry == entry) for entry in plain):
        how = "use a plain value"
        if isinstance(value, np.ndarray):
            how = "declare how it travels, such as shared('K P')"
        raise TaskError(f"task {task.name}: {name} = {value!r} cannot be sent as a setting; {how}")
    header[name] = plain if isinstance(value, tuple) else plain[0]


def _bounds(part: slice) -> list[int | None]:
    """A slice as a list of plain values."""
    return [part.start, part.stop, part.step]


def _decode_setting(message: RpcMessage, name: str, default: Any) -> Any:
    """Read a setting that ``_encode_setting`` added.

    Raises InvalidMessageError if the setting is missing, or if its type differs from the default's.
    """
    if name not in message.header:
        raise InvalidMessageError(f"expected the task's setting {name}, got none")
    value = message.header[name]
    if isinstance(value, dict) and value.keys() == {_SLICE}:
        return slice(*value[_SLICE])
    if isinstance(value, dict) and value.keys() == {_SLICES}:
        return tuple(slice(*part) for part in value[_SLICES])
    if isinstance(value, dict):
        prefix = f"{name}."
        arrays = {
            key.removeprefix(prefix): array
            for key, array in message.arrays.items()
            if key.startswith(prefix)
        }
        return LocalTraining.from_settings({**value, **arrays})
    if isinstance(default, (bool, str)):
        return message.value(name, type(default))
    return tuple(value) if isinstance(value, list) else value
