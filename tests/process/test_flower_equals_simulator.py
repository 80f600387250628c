"""Simulated equals deployed, through Flower's processes: two nodes of two clients each equal the
simulator.

Every method is compared with its simulation in tests/server, without processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config import registry
from fedkin.run.folder import checkpoint
from tests.process import flower_project as project
from tests.process.flower_lab import Lab

ROUNDS = 2
TIMEOUT = 600.0
# With layers before the last, as FedPer needs them.
MODEL: dict[str, Any] = {
    "name": "mlp",
    "hidden": 16,
}
SHARED = {**project.SHARED, "model": MODEL}
pytestmark = pytest.mark.timeout(900)  # seconds; on a busy machine every message takes many
OPTIONS: dict[str, dict[str, Any]] = {  # methods whose tasks travel in several ways
    "fedavg": {},
    "fedgroup": {"clusters": 2},
    "fedper": {},  # heads stay on the nodes' disks
    "flexcfl": {
        "clusters": 2,
        "alpha": 2,
    },  # arrays to keep, a standing task, and one that travels with the next
}


def planted() -> fk.data.FederatedData:
    """Four clients of two clusters."""
    return fk.planted(
        **{key: value for key, value in project.DATA.items() if key != "name"}, clients=4
    )


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of all methods, one after the other on the same nodes."""
    folder = tmp_path_factory.mktemp("equal")
    data = planted()
    others = [{"name": name, **options} for name, options in OPTIONS.items() if name != "fedavg"]
    run = {"rounds": ROUNDS, "cohort": 4, "evaluate_every": 0, "against": others}
    sections = {
        "federation": {"capacity": 4, "wait_for": 4, "deadline": 300.0},
        "method": {"name": "fedavg"},
        "local": {"epochs": 2, "batch_size": 10, "lr": 0.1},
        "run": run,
    }
    with Lab(folder / "lab") as lab:
        lab.superlink()
        files = {f"site-{k}": project.own_file(folder, data, [2 * k, 2 * k + 1]) for k in range(2)}
        lab.nodes(
            {
                name: project.client(
                    folder=folder, name=name, clients=[0, 1], data=file, shared=SHARED
                )
                for name, file in files.items()
            }
        )
        started = lab.run(project.app(folder), {"config": project.server(folder, sections, SHARED)})
        status = lab.wait(started, TIMEOUT)
        assert status == "finished:completed", lab.output(started)
    return folder / "run"


@pytest.mark.parametrize("name", OPTIONS)
def test_real_nodes_equal_the_simulator(deployed: Path, name: str) -> None:
    data = planted()
    local = fk.SGD(epochs=2, batch_size=10, lr=0.1)
    method = registry.methods()[name](**OPTIONS[name])
    model = fk.models.mlp(data, hidden=MODEL["hidden"])
    simulated = fk.simulate(
        method,
        data,
        model,
        rounds=ROUNDS,
        cohort=4,
        local=local,
        scoring=fk.Scoring(evaluate_every=0),
    )
    folder = deployed if name == "fedavg" else deployed / "against" / name
    last, _ = checkpoint.newest(folder / "checkpoints")
    assert last.round == ROUNDS
    np.testing.assert_array_equal(last.state.assignment, simulated.assignment)
    np.testing.assert_allclose(last.state.models, simulated.models, rtol=1e-5, atol=1e-6)
    assert np.abs(simulated.models).max() > 0.01
    assert (last.down, last.up) == tuple(
        {
            operation: both[side]
            for operation, both in simulated.records[-1]["bytes_by_operation"].items()
        }
        for side in (0, 1)
    )
    assert last.measured_down["personal" if name == "fedper" else "train"] > 0
