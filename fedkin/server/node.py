"""The clients' side: a node handles requests with a simulated world of its own clients.

So it computes what the simulator computes, with the simulator's own code, for one client or for a fleet. Every request
may meet a new process; what must last (label counts, models) is on the node's disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import StorageError
from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining, ModelSpec, World
from fedkin.server.handshake import Handshake, check
from fedkin.server.message import InvalidMessageError, RpcMessage

_log = logging.getLogger("fedkin")
CLUSTER, PERSONAL = "cluster", "personal"  # models on a client's own disk: its cluster's, and its own solution


@runtime_checkable
class Disk(Protocol):
    """A node's own storage, by run."""

    def load_memory(self, run: str) -> dict[str, np.ndarray]:
        """What ``save_memory`` stored; empty where nothing was."""
        ...

    def save_memory(self, run: str, memory: Mapping[str, np.ndarray]) -> None:
        """Store the memory of the node's world."""
        ...

    def save_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        """Store the newest of each of these models."""
        ...


@dataclass(frozen=True)
class Node:
    """A node and what it needs to handle requests."""

    name: str
    handshake: Callable[[ModelSpec], Handshake]  # its own, without ``start``
    start: Callable[[], str]  # digest of the initial model from fixed randomness
    samples: Int[np.ndarray, "c"]  # training samples of each client
    world: Callable[[Int[np.ndarray, "c"]], World]  # of the ids that its clients have at the server
    disk: Disk

    def handle(self, request: RpcMessage) -> RpcMessage:
        """The reply to a request. Raises InvalidMessageError for one that no server of this version sends."""
        operation = request.value("operation", str)
        if operation == "hello":
            return self._hello(request)
        if operation not in _OPERATIONS:
            raise InvalidMessageError(
                f"the operation {operation[:40]!r} is not known here; is this the server's version of fedkin?"
            )
        run, first, count = request.value("run", str), request.value("first", int), request.value("count", int)
        if count != len(self.samples):
            raise InvalidMessageError(
                f"{self.name} had {count} clients when it was accepted, and has {len(self.samples)} now"
            )
        world = self.world(first + np.arange(count))
        check(self.handshake(world.spec), Handshake.of(RpcMessage(request.value("handshake", dict))))
        memory = self.disk.load_memory(run)
        if memory:
            world.recall(memory)
        self._note(world, request, run)
        clients = request.integers("clients", np.size(request.array("clients")))
        if not (len(clients) and 0 <= clients.min() <= clients.max() < len(self.samples)):
            raise InvalidMessageError(f"a request about clients that {self.name} does not have")
        reply = _OPERATIONS[operation](world, request, clients)
        if len(self.samples) == 1:
            self._save_models(operation, request, reply, run)
        test = request.header.get("shift")
        return RpcMessage(reply.header, reply.arrays | {"shifted": world.shifted(clients, **test)}) if test else reply

    def _hello(self, request: RpcMessage) -> RpcMessage:
        try:
            own = self.handshake(self.world(np.arange(len(self.samples))).spec)
            check(own, Handshake.of(request))
        except InvalidMessageError as error:
            _log.error("%s cannot take part: %s", self.name, error)
            return RpcMessage({"refused": str(error), "name": self.name})
        return RpcMessage({**own.header(), "start": self.start(), "name": self.name}, {"samples": self.samples})

    def _note(self, world: World, request: RpcMessage, run: str) -> None:
        """Clients that were placed since the last request store their label counts."""
        placed = request.arrays.get("note")
        if placed is not None:
            world.note(placed)
            self.disk.save_memory(run, world.memory())

    def _save_models(self, operation: str, request: RpcMessage, reply: RpcMessage, run: str) -> None:
        """A single client stores the model of its cluster, and its own after local training."""
        models: dict[str, np.ndarray] = {}
        if operation == "evaluate" and request.array("model_index").ndim == 1:
            models = {CLUSTER: request.array("models")[request.array("model_index")[0]]}
        if operation == "train" and request.value("save", bool) and reply.arrays["arrived"].all():
            start = request.array("models")[
                reply.arrays["trained_models" if "trained_models" in reply.arrays else "model_index"][0]
            ]
            models = {CLUSTER: start, PERSONAL: start + reply.arrays["update"][0]}
        if not models:
            return
        try:
            self.disk.save_models(run, models)
        except StorageError as error:  # no method reads them: the reply is sent all the same
            _log.error("%s", error)


def encode_work(work: LocalTraining) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The settings of local training as an entry of a header and arrays."""
    values = {name: getattr(work, name) for name in work.__dataclass_fields__}
    arrays = {f"work.{name}": value for name, value in values.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in values.items() if f"work.{name}" not in arrays}, arrays


def decode_work(request: RpcMessage) -> LocalTraining:
    """The settings of a request. Raises ConfigError for impossible ones, InvalidMessageError where there are none."""
    arrays = {name[5:]: array for name, array in request.arrays.items() if name.startswith("work.")}
    return LocalTraining(**{**request.value("work", dict), **arrays})


def _stream(request: RpcMessage) -> Stream:
    seed, round, purpose = request.value("stream", list)
    return Stream(seed, round, purpose)


def _train(world: World, request: RpcMessage, clients: Int[np.ndarray, "r"]) -> RpcMessage:
    models, model_index = request.array("models"), request.arrays.get("model_index")
    reduce, gradient = request.value("reduce", bool), request.value("gradient", bool)
    part = request.header.get("part")
    options = {"work": decode_work(request), "gradient": gradient, "part": None if part is None else slice(*part)}
    result = world.train(models, clients, model_index, reduce=reduce, stream=_stream(request), **options)
    arrays = {"arrived": result.arrived, "nonfinite": result.nonfinite}
    arrays |= {} if result.gradient is None else {"gradient": result.gradient}
    if model_index is None or result.weight is None:
        arrays["model_index"] = result.model_index
    if request.value("test", bool):
        arrays["test_sums"] = _test_sums(world, models, clients, result.model_index)
    if result.weight is None:
        names = ("update", "examples", "loss", "first_loss")
        return RpcMessage({}, arrays | {name: getattr(result, name) for name in names})
    trained = np.flatnonzero(result.weight)
    examples = np.where(result.arrived, result.examples, 0)
    loss, first = (_means(values, examples, result.model_index, trained) for values in (result.loss, result.first_loss))
    means = {"update": result.update[trained], "weight": result.weight[trained], "trained_models": trained}
    return RpcMessage({}, arrays | means | {"loss": loss, "first_loss": first})


def _means(
    values: Float[np.ndarray, "r"],
    weights: Int[np.ndarray, "r"],
    model_index: Int[np.ndarray, "r"],
    models: Int[np.ndarray, "k"],
) -> Float[np.ndarray, "k"]:
    """The weighted mean over the rows of each model."""
    size = models.max(initial=0) + 1
    total, mass = (np.bincount(model_index, each, size) for each in (values * weights, weights.astype(float)))
    return total[models] / mass[models]


def _test_sums(
    world: World, models: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
) -> Float[np.ndarray, "3"]:
    """Test results before local training: correct, examples and summed loss of all rows."""
    scores = world.evaluate(models, clients, model_index)
    return np.array([scores.correct.sum(), scores.examples.sum(), (scores.loss * scores.examples).sum()], float)


def _evaluate(world: World, request: RpcMessage, clients: Int[np.ndarray, "r"]) -> RpcMessage:
    split = request.value("split", str)
    scores = world.evaluate(request.array("models"), clients, request.array("model_index"), split=split)
    return RpcMessage({}, {"correct": scores.correct, "examples": scores.examples, "loss": scores.loss})


def _similarities(world: World, request: RpcMessage, clients: Int[np.ndarray, "r"]) -> RpcMessage:
    start = request.arrays.get("start")
    if start is None:  # the run's initial model, which the node makes from the seed
        start = world.initial(Stream(*request.value("start", list)))
    directions, options = request.array("directions"), {"work": decode_work(request), "stream": _stream(request)}
    return _result(world.similarities(start, directions, clients, **options))


def _result(array: np.ndarray) -> RpcMessage:
    return RpcMessage({}, {"result": array})


_OPERATIONS: dict[str, Callable[[World, RpcMessage, np.ndarray], RpcMessage]] = {
    "train": _train,
    "evaluate": _evaluate,
    "similarities": _similarities,
    "shifted": lambda world, request, clients: RpcMessage(),  # every reply reports it
    "losses": lambda world, request, clients: _result(world.losses(request.array("models"), clients)),
    "label_errors": lambda world, request, clients: _result(world.label_errors(request.array("models"), clients)),
    "gradients": lambda world, request, clients: _result(
        world.gradients(request.array("models"), clients, request.array("model_index"))
    ),
    "classes": lambda world, request, clients: _result(world.classes(clients)),
    "detections": lambda world, request, clients: _result(
        world.detections(
            *(request.array("models"), clients, request.array("model_index"), request.array("positive")),
            split=request.value("split", str),
        )
    ),
}
