"""Small federations with a server, in memory: nodes of quadratic clients, and nodes of the simulator's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.core.world import LocalTraining, ModelSpec
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.models.model import Model
from fedkin.server.deploy.build_node import FIXED, shard
from fedkin.server.handshake import Handshake, digest_of, make_handshake
from fedkin.server.membership import Membership
from fedkin.server.node import Node
from fedkin.server.remote_world import RemoteWorld
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.server.memory_transport import MemoryPost, exchange

P, C = 4, 3
WORK = LocalTraining(epochs=2, batch_size=5, lr=0.1)
ABOUT = replace(make_handshake("trial", __version__, ModelSpec(P), (P,), C), start=digest_of(np.zeros(P, np.float32)))


@dataclass
class ResponseCache:
    """A disk (``federation.node.Disk``) that is a dictionary."""

    kept: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    models: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def memory(self, run: str) -> dict[str, np.ndarray]:
        return self.kept.get(run, {})

    def remember(self, run: str, memory: Mapping[str, np.ndarray]) -> None:
        self.kept[run] = dict(memory)

    def keep_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        self.models.setdefault(run, {}).update(models)


# --- quadratic clients


def fake_node(name: str, clients: Sequence[int] = (0,), about: Handshake = ABOUT, **options: Any) -> Node:
    """A node that plays these of some clients that want +3 (even numbers) or -3 (odd ones), each with a slant."""
    ids = np.array(clients)
    slant = 0.2 * np.random.default_rng(0).normal(size=(1000, P))[ids % 1000]
    target = (np.where(ids % 2 == 0, 3.0, -3.0)[:, None] + slant).astype(np.float32)
    counts = options.pop("counts", np.eye(C, dtype=np.int64)[ids % C] * 12)

    def world(own: np.ndarray) -> FakeWorld:
        return FakeWorld(target, 10 + ids, LocalTraining(lr=0.5), counts=counts, **options)

    return Node(name, lambda spec: about, lambda: about.start, 10 + ids, world, ResponseCache())


# --- clients of the simulator


@cache
def kinds(clients: int = 6, classes: int = 6, seed: int = 1) -> FederatedData:
    """Clients of 6 to 12 samples; a kind is a pair of the six classes."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(clients), rng.integers(8, 15, clients))
    y = 2 * (owner % 3) + rng.integers(0, 2, len(owner))
    x = (np.eye(classes)[y] + rng.normal(scale=0.3, size=(len(y), classes))).astype(np.float32)
    rows = Ragged.of([np.flatnonzero(owner == c) for c in range(clients)])
    train, test = (Ragged.of([rows[c][part] for c in range(clients)]) for part in (slice(2, None), slice(0, 2)))
    return FederatedData("kinds", x, y, classes, train, test)


@cache
def model_of(clients: int = 6) -> Model:
    return mclr(kinds(clients))


_made: dict[Any, tuple[SimulatedWorld, Any]] = {}


def simulated(data: FederatedData, model: Model, clients: Sequence[int], ids: np.ndarray | None = None) -> Any:
    """A world of some clients as it is when it is made: it knows what its disk tells it, and nothing else. Made once,
    because everything is compiled anew for each."""
    key = id(data), id(model), tuple(clients), None if ids is None else tuple(ids)
    if key not in _made:
        world = SimulatedWorld(shard(data, np.array(clients)), model, WORK, ids=ids)
        _made[key] = world, world.memory()
    world, blank = _made[key]
    world.recall(blank)
    return world


def node_of(name: str, clients: Sequence[int], data: FederatedData, model: Model) -> Node:
    """A node that plays some clients of a federated data set, on a disk in memory."""
    own = shard(data, np.array(clients))
    about = make_handshake("trial", __version__, model.spec, own.x.shape[1:], own.classes)
    world = partial(simulated, data, model, clients)
    return Node(
        name, lambda spec: about, lambda: digest_of(model.initial(FIXED)), own.train.sizes, world, ResponseCache()
    )


# --- the server's side


def hall_of(post: MemoryPost, about: Handshake = ABOUT, classes: int = C, **terms: Any) -> Membership:
    return Membership(exchange(post, **{"capacity": 100, "deadline": 90.0, **terms}), about, classes)


def fake_remote(
    post: MemoryPost, membership: Membership | None = None, run: str = "trial-run", **terms: Any
) -> RemoteWorld:
    """The world of whoever is behind the engine, when they want quadratic things."""
    spec = fake_node("x").world(np.arange(1)).spec
    membership = membership or hall_of(post, **terms)
    return RemoteWorld(membership, spec, lambda words: np.zeros(P, np.float32), LocalTraining(lr=0.5), run)


def remote(
    post: MemoryPost,
    data: FederatedData,
    model: Model,
    work: LocalTraining = WORK,
    run: str = "trial-run",
    **terms: Any,
) -> RemoteWorld:
    about = make_handshake("trial", __version__, model.spec, data.x.shape[1:], data.classes)
    about = replace(about, start=digest_of(model.initial(FIXED)))
    membership = hall_of(post, about, data.classes, **{"capacity": data.clients, "wait_for": data.clients, **terms})
    return RemoteWorld(membership, simulated(data, model, range(data.clients)).spec, model.initial, work, run)


def dealt(post: MemoryPost, groups: Sequence[Sequence[int]], data: FederatedData, model: Model) -> None:
    """A node for each group of clients; ids are the clients' own numbers where groups go on from each other."""
    for number, clients in enumerate(groups):
        post.join(100 - number, node_of(f"site-{number}", clients, data, model))
