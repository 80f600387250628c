"""Fingerprints of runs: digests of everything that determines their numbers (a part of the
description, the data, the model)."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedkin.config.description import Description
from fedkin.data.digest import add_array
from fedkin.data.federated import FederatedData
from fedkin.models import Model
from fedkin.simulation.workers import AnyModel, ModelWithWorkers

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "pandas",
    "safetensors",
)
_MACHINE = ("platform", "machine")
# Settings that change no number of any round. (The set of evaluated rounds may change: the last one
# is always evaluated. An extended run has also evaluated its former last round, which a run with
# evaluate_every above 1 may skip.) An option that is off changes nothing either, so runs from
# before it existed can be resumed.
_WITHOUT_EFFECT = {
    "rounds",
    "seeds",
    "against",
    "checkpoint_every",
    "target",
    "devices",
    "patience",
    "until",
    "engine",
    "actors",
}


def determining_part(description: Description) -> dict[str, Any]:
    """The part of a description that determines the run's numbers."""
    options = {key: value for key, value in description.run.items() if value is not False}
    run = {key: value for key, value in options.items() if key not in _WITHOUT_EFFECT}
    # the numbering of labels is in the digest of the data; label names were added later
    data = {key: value for key, value in description.data.items() if key != "label_names"}
    return description.sections | ({"data": data} if description.data else {}) | {"run": run}


def fingerprint(description: Description, *digests: str) -> str:
    """SHA-256 of a description's determining part, and of digests of data and model."""
    canonical = json.dumps(
        [determining_part(description), *digests],
        sort_keys=True,
        separators=(",", ":"),
        default=str,
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def model_digest(model: AnyModel, data: FederatedData) -> str:
    """A digest of a model's computation and its initial weights."""
    if isinstance(model, ModelWithWorkers):
        return model.digest(data)
    return _jax_digest(model, data)  # type: ignore[arg-type]


def _jax_digest(model: Model, data: FederatedData) -> str:
    """The text of the programs that JAX lowers its inference, training and regularisation to, with
    all constants spelled out (the text of a jaxpr may name functions by their address); and its
    weights from fixed randomness."""

    def program(flat: jax.Array, x: jax.Array, key: jax.Array) -> tuple:
        tree = model.unflatten(flat)
        trained = model.apply(tree, x, key) if model.random else None
        return model.apply(tree, x, None), trained, model.penalty(tree) if model.penalty else None

    flat = jax.ShapeDtypeStruct((model.spec.parameters,), jnp.float32)
    lowered = jax.jit(program).lower(flat, jnp.asarray(data.x[:1]), jax.random.key(0))
    digest = hashlib.sha256(lowered.as_text().encode())
    add_array(digest, model.initial(np.array([1, 2], np.uint32)))
    return digest.hexdigest()


def first_difference(stored: Description, requested: Description) -> str:
    """The first entry in which the determining parts of two descriptions differ, in words."""
    flat = [_flat(determining_part(config)) for config in (stored, requested)]
    names = [key for key in sorted(flat[0] | flat[1]) if flat[0].get(key) != flat[1].get(key)]
    key = names[0]
    return f"{key} is {flat[0].get(key)!r} there and {flat[1].get(key)!r} here"


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    sections = {
        key: value if isinstance(value, dict) else {"": value} for key, value in config.items()
    }
    return {
        f"{section}.{key}": value
        for section, entries in sections.items()
        for key, value in entries.items()
    }


def environment_changes(stored: dict[str, Any], now: dict[str, Any]) -> str:
    """Changes of the environment that may affect the last bits of numbers, in words; empty if there
    are none."""
    flat = [
        {**_flat({"": env.get("versions", {})}), **{k: env.get(k) for k in _MACHINE}}
        for env in (stored, now)
    ]
    names = [key for key in sorted(flat[0] | flat[1]) if flat[0].get(key) != flat[1].get(key)]
    return ", ".join(
        f"{key.removeprefix('.')} {flat[0].get(key)} -> {flat[1].get(key)}" for key in names
    )


def environment(description: Description) -> dict[str, Any]:
    """Versions used by a run of this description, platform and devices. It does not identify the
    machine or its user."""
    from fedkin import __version__

    versions = {"fedkin": __version__, "python": platform.python_version()}
    torch = ("torch", "torchax") if "torch" in description.model else ()
    for package in (*_PACKAGES, *torch):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": [str(device.device_kind) for device in jax.devices()],
    }
