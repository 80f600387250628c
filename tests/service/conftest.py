"""One small run, and its exports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk


@pytest.fixture(scope="session")
def small_run() -> fk.Run:
    """A run of two clusters whose labels are opposite."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 3)).astype(np.float32)
    clients = np.repeat([f"site-{k}" for k in range(6)], 40)
    odd = np.repeat(np.arange(6) % 2, 40)
    labels = np.where((x[:, 0] > 0) ^ (odd == 1), "yes", "no")
    data = fk.data.from_arrays(x, labels, clients=clients)
    return fk.simulate(
        fk.IFCA(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=10,
        cohort=6,
        seed=1,
        local=fk.LocalTraining(lr=0.3),
    )


@pytest.fixture(scope="session")
def exported(small_run: fk.Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an export in a format, made once."""
    folders: dict[str, Path] = {}

    def make(format: str) -> Path:
        if format not in folders:
            folder = tmp_path_factory.mktemp("exports") / format
            folders[format] = small_run.export(folder, format).parent
        return folders[format]

    return make


@pytest.fixture
def changed_card(exported: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy of an export whose card has other entries."""

    def make(**entries: object) -> Path:
        source = exported("safetensors")
        folder = shutil.copytree(source, tmp_path / "changed")
        card = json.loads((folder / "card.json").read_text())
        (folder / "card.json").write_text(json.dumps(card | entries))
        return folder

    return make
