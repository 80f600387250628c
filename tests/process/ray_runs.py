"""Runs on two machines of Ray's, in a separate process: ``python -m tests.process.ray_runs``
prints the results, and how many seconds longer a run takes in which an actor, or a machine, is
killed.

The machines are Ray's own processes on this one, of one core each.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import fedkin as fk
from tests.option_lists import simulate_arguments

ROUNDS = 4


def main() -> None:
    """Compare runs of one process with those on the cluster, and break it."""
    data = fk.data.digits()
    model = fk.models.mlp(data)
    expected = {name: run(method, data, model) for name, method in METHODS.items()}
    packed = fk.data.pack(data, Path(tempfile.mkdtemp()) / "digits")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    engine = f"ray:{cluster.address}"
    equal = {
        name: same(run(method, data, model, engine), expected[name])
        for name, method in METHODS.items()
    }
    print(json.dumps({"equal": equal}), flush=True)
    print(
        json.dumps({"packed": same(run(METHODS["ifca"], packed, model, engine), expected["ifca"])}),
        flush=True,
    )
    print(
        json.dumps(
            {
                "summed": close(
                    run(METHODS["ifca"], data, model, engine, sums=True), expected["ifca"]
                )
            }
        ),
        flush=True,
    )
    of_torch = fk.torch_model(linear, data)
    alone, spread = (run(fk.FedAvg(), data, of_torch, where) for where in (None, engine))
    print(json.dumps({"torch": same(spread, alone)}), flush=True)
    network = eqx.nn.MLP(64, 10, width_size=8, depth=1, key=jax.random.key(0))
    adapters = fk.lora(data, network, rank=2, targets=["layers.0"])
    method = fk.FedRouter(clusters=2)
    alone, spread = (run(method, data, adapters, where) for where in (None, engine))
    print(json.dumps({"adapters": same(spread, alone)}), flush=True)
    start = time.perf_counter()
    run(METHODS["ifca"], data, model, engine)
    unharmed = time.perf_counter() - start
    for name, harm in (
        ("actor", kill_actor),
        ("machine", lambda: cluster.remove_node(second, allow_graceful=False)),
    ):
        start = time.perf_counter()
        broken = run(method=METHODS["ifca"], data=data, model=model, engine=engine, harm=harm)
        more = time.perf_counter() - start - unharmed
        print(json.dumps({name: same(broken, expected["ifca"]), "seconds": more}), flush=True)


METHODS: dict[str, Any] = {
    "ifca": fk.IFCA(clusters=2),
    "flexcfl": fk.FlexCFL(clusters=2),
    "fedem": fk.FedEM(clusters=2),
    "pacfl": fk.PACFL(),
}


def linear() -> Any:
    """PyTorch's module for digits."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def run(
    method: Any,
    data: Any,
    model: Any,
    engine: str | None = None,
    harm: Any = None,
    sums: bool = False,
) -> Any:
    """A short run, which suffers harm after its second round."""

    def on_round(record: dict[str, Any]) -> None:
        if harm is not None and record["round"] == 2:
            harm()

    options: dict[str, Any] = {"engine": engine, "sum_by_actor": sums, "on_round": on_round}
    return fk.simulate(method, data, model, rounds=ROUNDS, cohort=10, **simulate_arguments(options))


def same(one: Any, other: Any) -> bool:
    """Whether records and models of two runs are equal to the last bit."""
    return one.records == other.records and np.array_equal(one.state.models, other.state.models)


def close(one: Any, other: Any) -> bool:
    """Whether two runs count the same bytes, and their models are equal but for last bits."""
    counted = [[record["bytes_by_operation"] for record in run.records] for run in (one, other)]
    return counted[0] == counted[1] and np.allclose(
        one.state.models, other.state.models, rtol=0, atol=1e-6
    )


def kill_actor() -> None:
    """Kill the process of one actor."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::_Actor"):
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise RuntimeError("there is no actor")


if __name__ == "__main__":
    main()
