"""The clients' side: a node answers letters with a world of its own, over the clients that it plays.

So a node computes what the simulator computes, with the simulator's own code or PyTorch, for one client or for a fleet.
Every letter may meet a new process; what must last (the labels noted, models) is on the node's disk.
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
    """Where a node keeps what is its own, by run."""

    def memory(self, run: str) -> dict[str, np.ndarray]:
        """What was kept; nothing where nothing was."""
        ...

    def remember(self, run: str, memory: Mapping[str, np.ndarray]) -> None: ...

    def keep_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        """Keep the newest of each of these models."""
        ...


@dataclass(frozen=True)
class Node:
    """A node and all that it answers with.

    ``world`` makes its world for the ids that its clients have with the server; ``introduction`` is what it says of
    itself, given what it knows of its model, and ``start`` a digest of the initial model from fixed randomness;
    ``samples`` are the training samples of each client.
    """

    name: str
    introduction: Callable[[ModelSpec], Handshake]
    start: Callable[[], str]
    samples: Int[np.ndarray, "c"]
    world: Callable[[Int[np.ndarray, "c"]], World]
    disk: Disk

    def answer(self, letter: RpcMessage) -> RpcMessage:
        """The answer to a letter. Raises Unfit for one that is none of ours."""
        verb = letter.value("verb", str)
        if verb == "hello":
            return self._hello(letter)
        if verb not in _VERBS:
            raise InvalidMessageError(
                f"the verb {verb[:40]!r} is not known here; is this the server's version of fedkin?"
            )
        run, first, count = letter.value("run", str), letter.value("first", int), letter.value("count", int)
        if count != len(self.samples):
            raise InvalidMessageError(
                f"{self.name} had {count} clients when it was met, and has {len(self.samples)} now"
            )
        world = self.world(first + np.arange(count))
        check(self.introduction(world.spec), Handshake.of(RpcMessage(letter.value("about", dict))))
        memory = self.disk.memory(run)
        if memory:
            world.recall(memory)
        self._note(world, letter, run)
        clients = letter.integers("clients", np.size(letter.array("clients")))
        if not (len(clients) and 0 <= clients.min() <= clients.max() < len(self.samples)):
            raise InvalidMessageError(f"a letter about clients that {self.name} does not have")
        reply = _VERBS[verb](world, letter, clients)
        if len(self.samples) == 1:
            self._keep(verb, letter, reply, run)
        test = letter.header.get("shift")
        return RpcMessage(reply.header, reply.arrays | {"shifted": world.shifted(clients, **test)}) if test else reply

    def _hello(self, letter: RpcMessage) -> RpcMessage:
        try:
            own = self.introduction(self.world(np.arange(len(self.samples))).spec)
            check(own, Handshake.of(letter))
        except InvalidMessageError as error:
            _log.error("%s cannot take part: %s", self.name, error)
            return RpcMessage({"refused": str(error), "name": self.name})
        return RpcMessage({**own.header(), "start": self.start(), "name": self.name}, {"samples": self.samples})

    def _note(self, world: World, letter: RpcMessage, run: str) -> None:
        """Clients that were placed since the last letter note what their data are."""
        noted = letter.arrays.get("noted")
        if noted is not None:
            world.note(noted)
            self.disk.remember(run, world.memory())

    def _keep(self, verb: str, letter: RpcMessage, reply: RpcMessage, run: str) -> None:
        """A lone client keeps the model of its cluster, and what it made of it."""
        kept: dict[str, np.ndarray] = {}
        if verb == "evaluate" and letter.array("model_index").ndim == 1:
            kept = {CLUSTER: letter.array("models")[letter.array("model_index")[0]]}
        if verb == "train" and letter.value("keep", bool) and reply.arrays["arrived"].all():
            start = letter.array("models")[reply.arrays["kinds" if "kinds" in reply.arrays else "model_index"][0]]
            kept = {CLUSTER: start, PERSONAL: start + reply.arrays["update"][0]}
        if not kept:
            return
        try:
            self.disk.keep_models(run, kept)
        except StorageError as error:  # a keepsake: what was computed is sent all the same
            _log.error("%s", error)


def work_to(work: LocalTraining) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Local work as a header and arrays."""
    values = {name: getattr(work, name) for name in work.__dataclass_fields__}
    arrays = {f"work.{name}": value for name, value in values.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in values.items() if f"work.{name}" not in arrays}, arrays


def work_from(letter: RpcMessage) -> LocalTraining:
    """Local work out of a letter. Raises ConfigError for what cannot be, Unfit where there is none."""
    arrays = {name[5:]: array for name, array in letter.arrays.items() if name.startswith("work.")}
    return LocalTraining(**{**letter.value("work", dict), **arrays})


def _stream(letter: RpcMessage) -> Stream:
    seed, round, purpose = letter.value("stream", list)
    return Stream(seed, round, purpose)


def _train(world: World, letter: RpcMessage, clients: Int[np.ndarray, "r"]) -> RpcMessage:
    models, model_index = letter.array("models"), letter.arrays.get("model_index")
    reduce, gradient = letter.value("reduce", bool), letter.value("gradient", bool)
    part = letter.header.get("part")
    options = {"work": work_from(letter), "gradient": gradient, "part": None if part is None else slice(*part)}
    got = world.train(models, clients, model_index, reduce=reduce, stream=_stream(letter), **options)
    arrays = {"arrived": got.arrived, "nonfinite": got.nonfinite}
    if model_index is None:
        arrays["model_index"] = got.model_index
    if letter.value("test", bool):
        arrays["tested"] = _tested(world, models, clients, got.model_index)
    if got.weight is None:
        arrays |= {"update": got.update, "examples": got.examples, "loss": got.loss, "first_loss": got.first_loss}
        arrays |= {"model_index": got.model_index} | ({} if got.gradient is None else {"gradient": got.gradient})
        return RpcMessage({}, arrays)
    kinds = np.flatnonzero(got.weight)
    mass = np.where(got.arrived, got.examples, 0)
    loss, first = (_means(values, mass, got.model_index, kinds) for values in (got.loss, got.first_loss))
    reduced = {"update": got.update[kinds], "weight": got.weight[kinds], "kinds": kinds}
    reduced |= {} if got.gradient is None else {"gradient": got.gradient}
    return RpcMessage({}, arrays | reduced | {"loss": loss, "first_loss": first})


def _means(
    values: Float[np.ndarray, "r"],
    mass: Int[np.ndarray, "r"],
    model_index: Int[np.ndarray, "r"],
    kinds: Int[np.ndarray, "k"],
) -> Float[np.ndarray, "k"]:
    """The weighted mean over the rows of each model."""
    sums = [
        np.bincount(model_index, weights, kinds.max(initial=0) + 1) for weights in (values * mass, mass.astype(float))
    ]
    return sums[0][kinds] / sums[1][kinds]


def _tested(
    world: World, models: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
) -> Float[np.ndarray, "3"]:
    """How the models do as they were sent, before any training: correct, samples and summed loss of all rows."""
    scores = world.evaluate(models, clients, model_index)
    return np.array([scores.correct.sum(), scores.examples.sum(), (scores.loss * scores.examples).sum()], float)


def _evaluate(world: World, letter: RpcMessage, clients: Int[np.ndarray, "r"]) -> RpcMessage:
    split = letter.value("split", str)
    scores = world.evaluate(letter.array("models"), clients, letter.array("model_index"), split=split)
    return RpcMessage({}, {"correct": scores.correct, "examples": scores.examples, "loss": scores.loss})


def _similarities(world: World, letter: RpcMessage, clients: Int[np.ndarray, "r"]) -> RpcMessage:
    start = letter.arrays.get("start")
    if start is None:  # the run's initial model, which a client makes from the seed
        start = world.initial(Stream(*letter.value("start", list)))
    directions, options = letter.array("directions"), {"work": work_from(letter), "stream": _stream(letter)}
    return _found(world.similarities(start, directions, clients, **options))


def _found(array: np.ndarray) -> RpcMessage:
    return RpcMessage({}, {"found": array})


_VERBS: dict[str, Callable[[World, RpcMessage, np.ndarray], RpcMessage]] = {
    "train": _train,
    "evaluate": _evaluate,
    "similarities": _similarities,
    "shifted": lambda world, a, clients: RpcMessage(),  # every answer says it
    "losses": lambda world, a, clients: _found(world.losses(a.array("models"), clients)),
    "label_errors": lambda world, a, clients: _found(world.label_errors(a.array("models"), clients)),
    "gradients": lambda world, a, clients: _found(world.gradients(a.array("models"), clients, a.array("model_index"))),
    "classes": lambda world, a, clients: _found(world.classes(clients)),
    "detections": lambda world, a, clients: _found(
        world.detections(
            *(a.array("models"), clients, a.array("model_index"), a.array("positive")), split=a.value("split", str)
        )
    ),
}
