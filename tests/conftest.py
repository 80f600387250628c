"""What every test may lean on: oracle vectors, real data, and settings that make runs repeatable.

Nothing of fedkin is imported at the top: pytest reads this file before jaxtyping has put its checks in place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData
    from fedkin.simulation.engine import SimulatedWorld

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

# Compiled programs are kept between test runs, beside pytest's own cache. Set before anything imports jax.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("MPLBACKEND", "agg")

# No deadline: tests never time anything. Derandomised: the same commit gives the same verdict.
settings.register_profile("fedkin", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fedkin")


def pytest_sessionstart() -> None:
    """Before a module of tests computes anything: once it has, the number of JAX's devices is fixed."""
    from fedkin.models.model import prepare_jax

    prepare_jax()


@cache
def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def oracle() -> Callable[[str], dict[str, Any]]:
    """``oracle("fedgroup_v1")`` is one file of test vectors, from $FEDKIN_ORACLES or beside the checkout."""
    folder = Path(os.environ.get("FEDKIN_ORACLES", SHARED / "oracles"))

    def read(name: str) -> dict[str, Any]:
        path = folder / f"{name}.json"
        if not path.is_file():
            pytest.skip(f"oracle vectors {path.name} are not in {folder}; set FEDKIN_ORACLES to their folder")
        return _read_json(path)

    return read


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, $FEDKIN_DATA."""
    folder = os.environ.get("FEDKIN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data are not here; set FEDKIN_DATA to the folder that holds them")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny() -> FederatedData:
    """Twelve clients with two features: six of them have the labels the other way round. One has no test sample."""
    from fedkin.data.federated import FederatedData, Ragged

    rng = np.random.default_rng(0)
    x = rng.normal(size=(12 * 20, 2)).astype(np.float32)
    true_clusters = np.arange(12) % 2
    y = (x[:, 0] > 0).astype(np.int64) ^ np.repeat(true_clusters, 20)
    rows = np.arange(len(x)).reshape(12, 20)
    test = [row[15:] for row in rows[:-1]] + [rows[-1][:0]]
    return FederatedData("tiny", x, y, 2, Ragged.of([row[:15] for row in rows]), Ragged.of(test), true_clusters)


@pytest.fixture
def tiny_world(tiny: FederatedData) -> SimulatedWorld:
    """The tiny federation in the simulator."""
    from fedkin.core.world import LocalTraining
    from fedkin.models import mclr
    from fedkin.simulation.engine import SimulatedWorld

    return SimulatedWorld(tiny, mclr(tiny), LocalTraining(epochs=2, batch_size=5, lr=0.5))
