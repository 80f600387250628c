"""Small federations with a server, in memory: nodes of quadratic clients, and nodes of the
simulator's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.core.ledger import Ledger
from fedkin.core.model_spec import ModelSpec
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.models.model import Model
from fedkin.server.deploy.build_node import HANDSHAKE_SEED
from fedkin.server.handshake import Handshake, make_handshake, model_digest
from fedkin.server.membership import Membership
from fedkin.server.node import Node
from fedkin.server.remote_world import RemoteWorld
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.simulation.workers import AnyModel
from tests.server.memory_transport import MemoryTransport, request_round

P = 4
C = 3
WORK = LocalTraining(epochs=2, batch_size=5, lr=0.1)
ABOUT = replace(
    make_handshake(
        federation="trial", version=__version__, spec=ModelSpec(P), shape=(P,), classes=C
    ),
    start=model_digest(np.zeros(P, np.float32)),
)


@dataclass
class ResponseCache:
    """A disk (``server.node_memory.Disk``) that is a dictionary."""

    kept: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    models: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def load_memory(self, run: str) -> dict[str, np.ndarray]:
        return self.kept.get(run, {})

    def save_memory(self, run: str, memory: Mapping[str, np.ndarray]) -> None:
        self.kept[run] = dict(memory)

    def save_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        self.models.setdefault(run, {}).update(models)


# --- quadratic clients


def fake_node(
    name: str, clients: Sequence[int] = (0,), about: Handshake = ABOUT, **options: Any
) -> Node:
    """A node that plays these of some clients that want +3 (even numbers) or -3 (odd ones), each
    with a slant."""
    ids = np.array(clients)
    slant = 0.2 * np.random.default_rng(0).normal(size=(1000, P))[ids % 1000]
    target = (np.where(ids % 2 == 0, 3.0, -3.0)[:, None] + slant).astype(np.float32)
    counts = options.pop("counts", np.eye(C, dtype=np.int64)[ids % C] * 12)
    facts = {"sector": tuple(f"sector {id % 2}" for id in ids.tolist())}

    def world(own: np.ndarray) -> FakeWorld:
        return FakeWorld(
            target,
            10 + ids,
            LocalTraining(lr=0.5),
            counts=counts,
            client_columns=facts,
            **options,
        )

    return Node(
        name=name,
        handshake=lambda spec: about,
        start=lambda: about.start,
        samples=10 + ids,
        world=world,
        disk=ResponseCache(),
    )


# --- clients of the simulator


@cache
def clustered_data(clients: int = 6, classes: int = 6, seed: int = 1) -> FederatedData:
    """Clients of 6 to 12 samples; a kind is a pair of the six classes."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(clients), rng.integers(8, 15, clients))
    y = 2 * (owner % 3) + rng.integers(0, 2, len(owner))
    x = (np.eye(classes)[y] + rng.normal(scale=0.3, size=(len(y), classes))).astype(np.float32)
    rows = Ragged.of([np.flatnonzero(owner == c) for c in range(clients)])
    train, test = (
        Ragged.of([rows[c][part] for c in range(clients)]) for part in (slice(2, None), slice(0, 2))
    )
    return FederatedData(name="clustered", x=x, y=y, classes=classes, train=train, test=test)


@cache
def model_of(clients: int = 6) -> Model:
    return mclr(clustered_data(clients))


_made: dict[Any, tuple[SimulatedWorld, Any]] = {}


def simulated(
    data: FederatedData, model: AnyModel, clients: Sequence[int], ids: np.ndarray | None = None
) -> Any:
    """A new world of some clients: it knows what its disk tells it, and
    nothing else. Made once, because each new world compiles everything again."""
    key = id(data), id(model), tuple(clients), None if ids is None else tuple(ids)
    if key not in _made:
        world = SimulatedWorld(data.select(np.array(clients)), model, WORK, ids=ids)
        _made[key] = world, world.memory()
    world, blank = _made[key]
    world.recall(blank)
    world.ledger = Ledger()
    return world


def node_of(name: str, clients: Sequence[int], data: FederatedData, model: AnyModel) -> Node:
    """A node that plays some clients of a federated data set, on a disk in memory."""
    own = data.select(np.array(clients))
    about = make_handshake(
        federation="trial",
        version=__version__,
        spec=model.spec,
        shape=own.x.shape[1:],
        classes=own.classes,
    )
    world = partial(simulated, data, model, clients)
    return Node(
        name=name,
        handshake=lambda spec: about,
        start=lambda: model_digest(model.initial(HANDSHAKE_SEED)),
        samples=own.train.sizes,
        world=world,
        disk=ResponseCache(),
    )


# --- the server's side


def membership_of(
    transport: MemoryTransport,
    about: Handshake = ABOUT,
    classes: int = C,
    signed: bool = False,
    capacity: int = 100,
    deadline: float = 90.0,
    **settings: Any,
) -> Membership:
    rounds = request_round(transport, capacity=capacity, deadline=deadline, **settings)
    return Membership(rounds, about, classes, signed=signed)


def fake_remote(
    transport: MemoryTransport,
    membership: Membership | None = None,
    run: str = "trial-run",
    detects: bool = False,
    initial: Callable[[np.ndarray], np.ndarray] = lambda words: np.zeros(P, np.float32),
    **settings: Any,
) -> RemoteWorld:
    """The world of whoever is behind the engine, when they want quadratic things."""
    spec = fake_node("x", detects=detects).world(np.arange(1)).spec
    membership = membership or membership_of(transport, **settings)
    return RemoteWorld(
        membership=membership,
        spec=spec,
        initial=initial,
        work=LocalTraining(lr=0.5),
        run=run,
    )


def remote(
    transport: MemoryTransport,
    data: FederatedData,
    model: AnyModel,
    work: LocalTraining = WORK,
    run: str = "trial-run",
    **settings: Any,
) -> RemoteWorld:
    about = make_handshake(
        federation="trial",
        version=__version__,
        spec=model.spec,
        shape=data.x.shape[1:],
        classes=data.classes,
    )
    about = replace(about, start=model_digest(model.initial(HANDSHAKE_SEED)))
    settings.setdefault("capacity", data.clients)
    settings.setdefault("wait_for", data.clients)
    membership = membership_of(transport, about, data.classes, **settings)
    return RemoteWorld(
        membership=membership,
        spec=simulated(data, model, range(data.clients)).spec,
        initial=model.initial,
        work=work,
        run=run,
    )


def join_nodes(
    transport: MemoryTransport,
    groups: Sequence[Sequence[int]],
    data: FederatedData,
    model: AnyModel,
) -> None:
    """A node for each group of clients; ids are the clients' own numbers where groups go on from
    each other."""
    for number, clients in enumerate(groups):
        transport.join(100 - number, node_of(f"site-{number}", clients, data, model))
