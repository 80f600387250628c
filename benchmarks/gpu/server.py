"""(c) Scoring, the cold starts of FedGroup and FlexCFL at a million parameters, and the server's
maths in NumPy and on the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedkin as fk
from benchmarks.gpu.rounds import world_of
from benchmarks.gpu.size import Size
from benchmarks.turns import federated
from benchmarks.work import BATCH, LR, clients
from fedkin.clustering.kmeans import kmeans
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.measures.cosine import cosine
from fedkin.measures.gram import gram
from fedkin.measures.ternary import base_directions
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate

CLUSTERS = 5
METHODS = {"FedGroup": fk.FedGroup, "FlexCFL": fk.FlexCFL}
_STEPS = 20  # of K-means


def scoring(name: str, size: Size) -> dict[str, Any]:
    """Seconds of scoring all clients, in the turns after the first.

    Args:
        name: of the network.
        size: of the measurement.
    """
    world = world_of(name, size, lanes=size.lanes[-1])
    start = world.initial(Stream(0))[None]
    everyone = np.arange(size.clients)
    zeros = np.zeros(size.clients, np.int64)
    return {"seconds": _timed(lambda: evaluate(world, start, everyone, zeros), size.turns)}


def cold_start(name: str, size: Size) -> dict[str, Any]:
    """Seconds of a method's cold start, and of the server's part in it.

    Args:
        name: of the method.
        size: of the measurement.
    """
    data = federated(clients(CLUSTERS * size.alpha))
    model = fk.models.mlp(data, hidden=size.hidden)
    work = LocalTraining(epochs=1, batch_size=BATCH, lr=LR)
    world = SimulatedWorld(data, model, work)
    method = METHODS[name](clusters=CLUSTERS, alpha=size.alpha)
    updates = method.cold_start(world, Stream(0)).updates
    whole = _timed(lambda: method.cold_start(world, Stream(0)), size.turns)
    server = _timed(lambda: kmeans(method.embedding(updates), CLUSTERS, seed=0), size.turns)
    return {"parameters": model.spec.parameters, "seconds": whole, "server": server}


def maths(name: str, size: Size) -> dict[str, Any]:
    """Seconds of a computation on updates [n P]: in NumPy, on the device with the copy of the
    updates, and on the device without it.

    Args:
        name: in ``MATHS``.
        size: of the measurement.
    """
    updates = clustered_updates(CLUSTERS * size.alpha, 795 * size.hidden + 10)
    ours, of_device = MATHS[name]
    compiled = jax.jit(of_device)
    there = jax.device_put(updates)
    expected = np.asarray(ours(updates))
    apart = np.max(np.abs(np.asarray(compiled(there)) - expected)) / np.max(np.abs(expected))
    return {
        "n": len(updates),
        "P": updates.shape[1],
        "NumPy": _timed(lambda: ours(updates), min(size.turns, 3)),
        "device": _timed(lambda: np.asarray(compiled(jax.device_put(updates))), size.turns),
        "device, without the copy": _timed(lambda: np.asarray(compiled(there)), size.turns),
        "difference": float(apart),
    }


def clustered_updates(count: int, parameters: int) -> np.ndarray:
    """Updates [n P] of clients in clusters, in turn: a centre and noise."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLUSTERS, parameters), np.float32)
    updates = rng.standard_normal((count, parameters), np.float32)
    updates += centres[np.arange(count) % CLUSTERS]
    return updates


def _timed(call: Callable[[], object], turns: int) -> list[float]:
    """Seconds of each call."""
    seconds = []
    for _ in range(turns):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return seconds


def _product(a: Any, b: Any) -> Any:
    """A matrix product without rounding to TF32."""
    return jnp.matmul(a, b, precision="highest")


def _device_cosine(updates: Any) -> Any:
    rows = updates / jnp.linalg.norm(updates, axis=1, keepdims=True)
    return jnp.clip(_product(rows, rows.T), -1, 1)


def _device_directions(updates: Any) -> Any:
    """The lengths of the three first principal directions; their signs are arbitrary."""
    _, vectors = jnp.linalg.eigh(_product(updates, updates.T))
    return jnp.linalg.norm(_product(vectors[:, ::-1][:, :3].T, updates), axis=1)


def _device_kmeans(updates: Any) -> Any:
    """The sums of squares of the centres after some steps, from the first rows."""

    def step(_: Any, centres: Any) -> Any:
        squares = jnp.sum(centres**2, axis=1)
        nearest = jnp.argmin(squares - 2 * _product(updates, centres.T), axis=1)
        members = jax.nn.one_hot(nearest, CLUSTERS, dtype=updates.dtype)
        sizes = jnp.maximum(members.sum(axis=0), 1)[:, None]
        return _product(members.T, updates) / sizes

    centres = jax.lax.fori_loop(0, _STEPS, step, updates[:CLUSTERS])
    return jnp.sum(centres**2, axis=1)


def _plain_kmeans(updates: np.ndarray) -> np.ndarray:
    """The same steps in NumPy."""
    centres = updates[:CLUSTERS]
    for _ in range(_STEPS):
        nearest = np.argmin(np.sum(centres**2, axis=1) - 2 * updates @ centres.T, axis=1)
        members = np.eye(CLUSTERS, dtype=updates.dtype)[nearest]
        centres = members.T @ updates / np.maximum(members.sum(axis=0), 1)[:, None]
    return np.sum(centres**2, axis=1)


# The server's way and the device's, by name.
MATHS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[Any], Any]]] = {
    "inner products": (gram, lambda updates: _product(updates, updates.T)),
    "cosines": (lambda updates: cosine(updates, updates), _device_cosine),
    "three principal directions": (
        lambda updates: np.linalg.norm(base_directions(updates, 3), axis=1),
        _device_directions,
    ),
    f"{_STEPS} steps of K-means": (_plain_kmeans, _device_kmeans),
    "coordinate medians": (
        lambda updates: np.median(updates, axis=0),
        lambda updates: jnp.median(updates, axis=0),
    ),
}
