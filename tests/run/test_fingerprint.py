"""Digests of models: the same in every process, and another for another model."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

from fedkin.config.description import Description
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import Model, as_model, cnn, mclr, mlp
from fedkin.run.folder import fingerprint
from fedkin.run.folder.fingerprint import environment, model_digest

ROOT = Path(__file__).resolve().parents[2]


class Net(eqx.Module):
    """Every kind of thing that a digest must see, or see through: constants, dropout, an activation
    with its own rule for derivatives."""

    layer: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    scale: float = eqx.field(static=True)

    def __init__(self, key: jax.Array, rate: float = 0.5, scale: float = 2.0) -> None:
        self.layer = eqx.nn.Linear(784, 3, key=key)
        self.dropout = eqx.nn.Dropout(rate)
        self.scale = scale

    def __call__(self, x: jax.Array, *, key: jax.Array | None = None) -> jax.Array:
        return self.scale * jax.nn.relu(self.layer(self.dropout(jax.nn.gelu(x.ravel()), key=key)))


def squares() -> FederatedData:
    """Two blank pictures."""
    owner = Ragged.of([np.arange(2)])
    return FederatedData(
        name="squares",
        x=np.zeros((2, 28, 28, 1), np.float32),
        y=np.arange(2),
        classes=3,
        train=owner,
        test=owner,
    )


def everything() -> list[Model]:
    data = squares()
    first, second = (Net(jax.random.key(i)) for i in range(2))
    ours = [mclr(data), mclr(data, l2=5.0), mclr(data, l2=5.5), mlp(data), cnn(data)]
    theirs = [
        as_model(first),
        as_model(second),
        as_model(Net),
        as_model(first, penalty=lambda tree: 0.0 * tree.layer.bias.sum()),
    ]
    others = [Net(jax.random.key(0), rate=0.4), Net(jax.random.key(0), scale=3.0)]
    return [*ours, *theirs, *map(as_model, others)]


def digests() -> list[str]:
    return [model_digest(model, squares()) for model in everything()]


def test_another_model_has_another_digest() -> None:
    found = digests()
    assert len(set(found)) == len(found)


def test_a_digest_is_the_same_every_time_and_in_every_process() -> None:
    code = "from tests.run.test_fingerprint import digests; print(*digests())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == digests() == digests()


def test_versions_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the files of packages took a quarter of a short run."""
    asked: list[str] = []
    version = importlib.metadata.version

    def counted(package: str) -> str:
        asked.append(package)
        return version(package)

    monkeypatch.setattr(importlib.metadata, "version", counted)
    fingerprint._version.cache_clear()
    first = environment(Description({}))
    assert environment(Description({})) == first
    assert first["versions"]["numpy"] == np.__version__
    assert len(asked) == len(set(asked)) > 5


def test_a_missing_package_has_no_version() -> None:
    assert fingerprint._version("no-such-package-of-anyone") is None


def test_runs_of_one_model_lower_its_program_once() -> None:
    """Also where the data are others, of the same shape."""
    data = squares()
    model = mclr(data)
    fingerprint._program_digest.cache_clear()
    assert model_digest(model, data) == model_digest(model, squares())
    assert fingerprint._program_digest.cache_info().misses == 1
    assert fingerprint._program_digest.cache_info().hits == 1
