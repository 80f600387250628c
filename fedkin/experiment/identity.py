"""What a run is, as far as its numbers go: the part of its description that decides them, and digests of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from typing import Any

import numpy as np

from fedkin.data.federated import FederatedData

_PACKAGES = ("numpy", "scipy", "scikit-learn", "jax", "jaxlib", "equinox", "optax", "pandas", "safetensors")
# How long, how often kept, beside what and on how many devices a run is done changes none of its numbers.
_OUTSIDE = {"rounds", "against", "checkpoint_every", "target", "devices"}


def essence(description: dict[str, Any]) -> dict[str, Any]:
    """The part of a description that decides what numbers come out."""
    run = {key: value for key, value in description.get("run", {}).items() if key not in _OUTSIDE}
    return {**description, "run": run}


def fingerprint(description: dict[str, Any], data: str) -> str:
    """SHA-256 of the canonical JSON of a run's essence and its data's digest."""
    canonical = json.dumps([essence(description), data], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()


def data_digest(data: FederatedData) -> str:
    """A short digest of federated data: who has what in full, and of large features an evenly spaced sample."""
    digest = hashlib.sha256(repr((data.name, data.x.shape, data.x.dtype.str, data.classes)).encode())
    step = max(1, len(data.x) // 4096)
    parts = [data.y, data.train.rows, data.train.offsets, data.test.rows, data.test.offsets, data.x[::step]]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def difference(stored: dict[str, Any], asked: dict[str, Any]) -> str:
    """The first entry in which the essence of two descriptions differs, in words."""
    flat = [_flat(essence(config)) for config in (stored, asked)]
    names = [key for key in sorted(flat[0] | flat[1]) if flat[0].get(key) != flat[1].get(key)]
    key = names[0]
    return f"{key} is {flat[0].get(key)!r} there and {flat[1].get(key)!r} here"


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    sections = {key: value if isinstance(value, dict) else {"": value} for key, value in config.items()}
    return {f"{section}.{key}": value for section, entries in sections.items() for key, value in entries.items()}


def environment() -> dict[str, Any]:
    """Versions, platform and devices; nothing that names the machine or its user."""
    from fedkin import __version__

    versions = {"fedkin": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    devices = [str(device.device_kind) for device in sys.modules["jax"].devices()] if "jax" in sys.modules else []
    return {
        "versions": versions,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": devices,
    }
