"""Sites that train adapters on texts: a deployed run equals the simulated one, and sends neither
texts nor the backbone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import pandas as pd

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.run.loop import RunState, run
from fedkin.server.message import encode
from tests.models.tiny_bert import write_bert
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import join_nodes, remote, simulated

CLIENTS = 6
TEXTS = ("the red cat sat", "the cat sat", "blue dog e f", "a dog e f")
METHODS: dict[str, Any] = {
    "fedavg": fk.FedAvg(),
    "fedlease": fk.FedLEASE(warm_up=1, most=2, floor=0.0),
    "fedrouter": fk.FedRouter(clusters=2),
    "fedrouter, kinds": fk.FedRouter(clusters=2, kinds=2),
    "flexcfl": fk.FlexCFL(clusters=2, alpha=2, part="B"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[fk.FederatedData, Any]:
    """A federation of texts, in which every other client writes about cats, and the backbone."""
    backbone = fk.models.from_transformers(write_bert(tmp_path_factory.mktemp("tiny")))
    rows = [
        (TEXTS[2 * (client % 2) + row % 2], f"answer {row % 2}", f"site-{client}")
        for client in range(CLIENTS)
        for row in range(8)
    ]
    table = pd.DataFrame(rows, columns=["remark", "answer", "desk"])
    federation = fk.data.texts(
        table, text="remark", label="answer", client="desk", tokenizer=backbone
    )
    return federation, backbone


def plan() -> Plan:
    return Plan(2, CLIENTS, seed=2)


def both(data: Any, model: Any, method: Any) -> tuple[MemoryTransport, RunState, RunState]:
    """A deployed run, with its engine, and the simulated run."""
    transport = MemoryTransport()
    join_nodes(transport, [[client] for client in range(CLIENTS)], data, model)
    far = run(remote(transport, data, model), method, plan())
    return transport, far, run(simulated(data, model, range(CLIENTS)), method, plan())


@pytest.mark.parametrize("train", ["AB", "B"])
@pytest.mark.parametrize("name", METHODS)
def test_a_deployed_run_is_the_simulated_one(
    name: str, train: str, data: tuple[fk.FederatedData, Any]
) -> None:
    federation, backbone = data
    model = fk.lora(federation, backbone, rank=2, train=train)
    transport, far, near = both(federation, model, METHODS[name])
    np.testing.assert_array_equal(far.state.assignment, near.state.assignment)
    np.testing.assert_allclose(far.state.models, near.state.models, rtol=1e-4, atol=1e-6)
    for mine, other in zip(far.records, near.records, strict=True):
        assert mine["accuracy"] == other["accuracy"]
        assert mine["bytes_by_operation"] == other["bytes_by_operation"]
    if name != "fedavg":
        assert len(far.state.models) == 2
    # No message has the size of the backbone, and each array has the size of a model or less.
    largest = max(
        len(encode(request))
        for station in transport.stations.values()
        for request in station.requests
    )
    models = len(far.state.models) * 4 * model.spec.parameters
    assert largest < models + 2000 < backbone.parameters * 4


def test_sites_with_kept_features(data: tuple[fk.FederatedData, Any]) -> None:
    """Sites that compute the inputs of a layer once train as in the simulator."""
    tokens, backbone = data
    federation = fk.models.features(tokens, backbone, layer=1)
    model = fk.lora(federation, backbone, rank=2, layers=(1,))
    _, far, near = both(federation, model, METHODS["flexcfl"])
    np.testing.assert_array_equal(far.state.assignment, near.state.assignment)
    np.testing.assert_allclose(far.state.models, near.state.models, rtol=1e-4, atol=1e-6)
