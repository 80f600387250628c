"""Secret sums through Flower's processes: four nodes. One of them is killed between two messages of
a sum."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest

import fedkin as fk
from fedkin.core.codec import decode
from fedkin.run.folder import checkpoint
from fedkin.secret.client import Session
from tests.free_ports import until
from tests.mappings import merged
from tests.process import flower_project as project
from tests.process.flower_lab import Lab

# seconds; the stage of a client that has sealed its shares.
TIMEOUT = 600.0
SHARED_KEYS = 2
pytestmark = pytest.mark.timeout(900)  # seconds; on a busy machine every message takes many


def stage(folder: Path) -> int:
    """What the only client of a site has answered of a sum, as its disk says; 0: nothing yet."""
    for path in folder.rglob("*.safetensors"):
        session = decode(path.read_bytes()).arrays.get("clients/secret_session")
        if session is not None:
            return Session.of(session[0]).stage
    return 0


def killed_after_its_shares(
    tmp_path: Path, data: fk.FederatedData, **sections: dict[str, Any]
) -> dict[str, Any]:
    """The summary of a round of four nodes. The last one is killed when it has sealed its
    shares."""
    sections = {
        "federation": {"capacity": 4, "wait_for": 4, "deadline": 240.0, "quorum": 0.75},
        "method": {"name": "fedavg"},
        "local": {"epochs": 2, "batch_size": 10, "lr": 0.1},
        "run": {"rounds": 1, "cohort": 4, "evaluate_every": 0},
        **sections,
    }
    with Lab(tmp_path / "lab") as lab:
        lab.superlink()
        files = {f"site-{k}": project.own_file(tmp_path, data, [k]) for k in range(4)}
        lab.nodes({name: project.client(tmp_path, name, [0], file) for name, file in files.items()})
        started = lab.run(project.app(tmp_path), {"config": project.server(tmp_path, sections)})
        killed = tmp_path / "sites" / "site-3"
        assert until(lambda: stage(killed) == SHARED_KEYS, TIMEOUT), lab.output(started)
        lab.kill("site-3")
        assert lab.wait(started, TIMEOUT) == "finished:completed", lab.output(started)
        # it has made its shares; whether they have come, or it is missed as the next message is
        # due, is a matter of ms
        assert re.search(r"no reply from site-3 \(secret_(shares|train)\)", lab.output(started))
    return json.loads((tmp_path / "run" / "summary.json").read_text())


def four_clients() -> fk.FederatedData:
    return fk.planted(
        **{key: value for key, value in project.DATA.items() if key != "name"}, clients=4
    )


def test_a_node_that_is_killed_after_its_shares_is_taken_out_of_the_sum(tmp_path: Path) -> None:
    data = four_clients()
    said = killed_after_its_shares(tmp_path, data, secret={"name": "sums", "examples_cap": 100})[
        "secret"
    ]
    assert said == {"sums": 1, "answered": 3, "clipped": 0, "unusable": 0, "lost": 0, "clear": []}
    local = fk.SGD(epochs=2, batch_size=10, lr=0.1)
    others = data.select(np.arange(3))
    expected = fk.simulate(
        fk.FedAvg(), others, fk.models.mclr(data), rounds=1, cohort=3, local=local
    )
    last, _ = checkpoint.newest(tmp_path / "run" / "checkpoints")
    np.testing.assert_allclose(last.state.models, expected.models, rtol=1e-4, atol=2e-6)
    assert np.abs(expected.models).max() > 0.01


def test_the_clients_left_have_noise_enough_for_the_charged_epsilon(tmp_path: Path) -> None:
    """z = 1, C = 0.3: three answers, each with a share for two of them, are 0.3 sqrt(3 / 2), and
    the mean is over 4."""
    privacy: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "clip": 0.3}
    data = four_clients()
    said = killed_after_its_shares(
        tmp_path, data, secret={"name": "sums"}, privacy={"name": "client_dp", **privacy}
    )
    assert said["secret"]["answered"] == 3 and said["privacy"]["rounds"] == {
        "released": 1,
        "planned": 1,
    }
    assert said["privacy"]["epsilon"] == pytest.approx(
        dp_accounting.get_epsilon_gaussian(1.0, 1e-3), rel=1e-3
    )
    last, _ = checkpoint.newest(tmp_path / "run" / "checkpoints")
    quiet = fk.ClientDP(**merged(privacy, {"noise_multiplier": 0.0}))
    local = fk.SGD(epochs=2, batch_size=10, lr=0.1)
    exact = fk.simulate(
        fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4, local=local, options=[quiet]
    )
    noise = last.state.models - exact.models
    # The killed one's update is a tenth of that.
    assert noise.std() == pytest.approx(0.3 * 1.5**0.5 / 4, rel=0.1)
