"""Fingerprints of runs: digests of the settings, data and model that determine a run's results."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedkin.config.description import Description
from fedkin.core.errors import CheckpointError
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
# Settings of [run] that do not change the results of any round. (They may change which rounds are
# evaluated. For example, a run that was resumed with more rounds has evaluated its former last
# round, which a longer run with evaluate_every above 1 may skip.) Options that are False are also
# left out, so that runs from before an option existed can be resumed.
_WITHOUT_EFFECT = {
    "rounds",
    "seeds",
    "against",
    "checkpoint_every",
    "keep_checkpoints",
    "target",
    "devices",
    "patience",
    "until",
    "engine",
    "actors",
}
# Settings of [model] about the backbone of adapters.
_BACKBONE = ("backbone", "backbone_name", "backbone_digest", "backbone_bytes")


def determining_part(description: Description) -> dict[str, Any]:
    """The settings of a description that determine the run's results.

    Where a backbone is has no effect, and the digest of the model covers its weights.
    """
    options = {key: value for key, value in description.run.items() if value is not False}
    run = {key: value for key, value in options.items() if key not in _WITHOUT_EFFECT}
    # Label names were added in a later version; the digest of the data covers the labels' numbers.
    data = {key: value for key, value in description.data.items() if key != "label_names"}
    model = {key: value for key, value in description.model.items() if key not in _BACKBONE}
    return (
        description.sections
        | ({"data": data} if description.data else {})
        | ({"model": model} if description.model else {})
        | {"run": run}
    )


def fingerprint(description: Description, *digests: str) -> str:
    """SHA-256 of the determining settings of a description, and of the digests of data and
    model."""
    canonical = json.dumps(
        [determining_part(description), *digests],
        sort_keys=True,
        separators=(",", ":"),
        default=str,
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def model_digest(model: AnyModel, data: FederatedData) -> str:
    """Digest of a model's computation and of its initial weights."""
    if isinstance(model, ModelWithWorkers):
        return model.digest(data)
    return _jax_digest(model, data)  # type: ignore[arg-type]


def _jax_digest(model: Model, data: FederatedData) -> str:
    """Digest of a JAX model: of the text of its compiled program (inference, training and
    regularisation), and of its weights from a fixed seed.

    It is computed once for each model and shape of a sample: runs of a comparison share both.
    """
    sample = jnp.asarray(data.x[:1])
    return _program_digest(model, sample.shape, sample.dtype)


@lru_cache(maxsize=16)
def _program_digest(model: Model, shape: tuple[int, ...], dtype: np.dtype) -> str:
    """The digest of a JAX model, for one sample of a shape and type of numbers.

    The text is taken from the lowered program. A jaxpr cannot be used, since its text may contain
    memory addresses.
    """

    def program(flat: jax.Array, x: jax.Array, key: jax.Array, frozen: Any) -> tuple:
        tree = model.unflatten(flat)
        apply = model.bound(frozen).apply
        trained = apply(tree, x, key) if model.random else None
        return apply(tree, x, None), trained, model.penalty(tree) if model.penalty else None

    flat = jax.ShapeDtypeStruct((model.spec.parameters,), jnp.float32)
    sample = jnp.zeros(shape, dtype)
    lowered = jax.jit(program).lower(flat, sample, jax.random.key(0), model.frozen_arrays)
    digest = hashlib.sha256(lowered.as_text().encode())
    add_array(digest, model.initial(np.array([1, 2], np.uint32)))
    # The frozen arrays are an argument of the program, so its text does not have them.
    if model.frozen is not None:
        digest.update(model.frozen.digest.encode())
    return digest.hexdigest()


def first_difference(stored: Description, requested: Description) -> str:
    """Text that names the first setting, among those that determine results, in which two runs
    differ (at least one must differ)."""
    flat = [_flat(determining_part(config)) for config in (stored, requested)]
    names = [key for key in sorted(flat[0] | flat[1]) if flat[0].get(key) != flat[1].get(key)]
    key = names[0]
    return f"{key} is {flat[0].get(key)!r} there and {flat[1].get(key)!r} here"


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of all sections in one dictionary, by ``section.key``."""
    sections = {
        key: value if isinstance(value, dict) else {"": value} for key, value in config.items()
    }
    return {
        f"{section}.{key}": value
        for section, entries in sections.items()
        for key, value in entries.items()
    }


def refuse_other_backbone(path: Path, stored: Description, requested: Description) -> None:
    """Check that a run which is to be resumed has the backbone of the stored run. A description
    without the digest is not compared, since the fingerprint covers the weights.

    Args:
        path: the run's folder, for the message.
        stored: the description in the folder.
        requested: the description of the run that is to be resumed.

    Raises:
        CheckpointError: the backbones have different weights.
    """
    there, here = (config.model.get("backbone_digest") for config in (stored, requested))
    if there and here and there != here:
        raise CheckpointError(
            f"{path} holds a run of another backbone: model.backbone_digest is {there[:12]!r} "
            f"there and {here[:12]!r} here; resume it with its own backbone, or start again in "
            "another folder"
        )


def environment_changes(stored: dict[str, Any], now: dict[str, Any]) -> str:
    """Text about differences between two environments that may change the last bits of results;
    empty if there are none."""
    # Versions have no section, so their keys begin with a dot (".numpy"), which is removed below.
    flat = [
        {**_flat({"": env.get("versions", {})}), **{k: env.get(k) for k in _MACHINE}}
        for env in (stored, now)
    ]
    names = [key for key in sorted(flat[0] | flat[1]) if flat[0].get(key) != flat[1].get(key)]
    return ", ".join(
        f"{key.removeprefix('.')} {flat[0].get(key)} -> {flat[1].get(key)}" for key in names
    )


def environment(description: Description) -> dict[str, Any]:
    """The environment of a run: versions of the libraries that its description needs, platform and
    devices. It does not identify the machine or its user."""
    from fedkin import __version__

    versions = {"fedkin": __version__, "python": platform.python_version()}
    torch = ("torch", "torchax") if "torch" in description.model else ()
    for package in (*_PACKAGES, *torch):
        version = _version(package)
        if version is not None:
            versions[package] = version
    return {
        "versions": versions,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": [str(device.device_kind) for device in jax.devices()],
    }


@lru_cache(maxsize=32)
def _version(package: str) -> str | None:
    """The version of a package that is installed, else None. It is read once in a process: reading
    the files of all packages takes longer than a short run."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
