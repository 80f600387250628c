"""SHA-256 of the results of a training call, as JSON; run by itself with several host devices, and
imported with one."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import fields

import equinox as eqx
import jax
import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import as_model
from fedkin.models.layers import Dense, dropout
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import TrainingReply, train
from tests.simulation.small_federation import EVERYONE, federation, models

DATA = federation()
STREAM = Stream(5, 1, "run").child("train")
WHICH = np.array([1, 0, 0, 1, 0, 1, 0])
WORK = LocalTraining(epochs=2, batch_size=10, lr=0.1, momentum=0.5, mu=0.1)


class Network(eqx.Module):
    """Everything that could go wrong in one: a layer wide enough for the written-out gradient, and
    random numbers."""

    first: Dense
    second: Dense

    def __init__(self, key: jax.Array) -> None:
        one, two = jax.random.split(key)
        self.first = Dense(6, 64, one)
        self.second = Dense(64, 3, two)

    def __call__(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.second(dropout(jax.nn.relu(self.first(x)), 0.5, key))


MODEL = as_model(Network, name="network", batched=True)


def trained(world: SimulatedWorld, reduce: bool = False) -> TrainingReply:
    return train(world, models(world.model), EVERYONE, WHICH, reduce=reduce, stream=STREAM)


def digest(reply: TrainingReply) -> str:
    found = hashlib.sha256()
    for field in fields(reply):
        value = getattr(reply, field.name)
        found.update(b"none" if value is None else np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def digests(devices: int) -> list[str]:
    """Of the plain reply and of the reduced one, trained on this many devices."""
    world = SimulatedWorld(DATA, MODEL, WORK, devices=devices)
    return [digest(trained(world, reduce)) for reduce in (False, True)]


if __name__ == "__main__":
    json.dump([digests(devices) for devices in range(1, len(jax.devices()) + 1)], sys.stdout)
