"""FedAvg's rounds in other frameworks, each in an environment with the framework; prints seconds
per round as JSON.

    python -m benchmarks.framework_peers pytorch|flower|fluke CLIENTS COHORT ROUNDS THREADS

The same clients, network, batches and one local epoch for all, without evaluation.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.torch_loop import network, round_of, tensors
from benchmarks.work import BATCH, CLASSES, LR, clients

Samples = list[tuple[torch.Tensor, torch.Tensor]]


def pytorch(data: Samples, rounds: int, cohort: int) -> list[float]:
    """A plain loop over the clients of the cohort."""
    model = network("784-128-10")
    seconds = []
    for r in range(rounds):
        start = time.perf_counter()
        drawn = np.random.default_rng(r).choice(len(data), cohort, replace=False)
        round_of(model, [data[c] for c in drawn], epochs=1)
        seconds.append(time.perf_counter() - start)
    return seconds


def flower(data: Samples, rounds: int, cohort: int) -> list[float]:
    """Flower's simulation: its FedAvg strategy with clients in processes of Ray."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client_app = ClientApp()
    server_app = ServerApp()
    seconds = []

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)  # in each of Ray's processes
        client_data = data[int(context.node_config["partition-id"])]
        model = network("784-128-10")
        model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        round_of(model, [client_data], epochs=1)
        metrics = MetricRecord({"num-examples": len(client_data[1])})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, *args: Any) -> Any:
            seconds.append(time.perf_counter())
            return super().configure_train(*args)

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        while len(list(grid.get_node_ids())) < len(data):
            time.sleep(0.1)
        strategy = Timed(
            fraction_train=cohort / len(data), fraction_evaluate=0.0, min_available_nodes=len(data)
        )
        strategy.start(grid, ArrayRecord(network("784-128-10").state_dict()), num_rounds=rounds)
        seconds.append(time.perf_counter())

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=len(data), backend_config=resources)
    return np.diff(seconds).tolist()


def fluke(data: Samples, rounds: int, cohort: int) -> list[float]:
    """fluke's FedAvg on the clients of this benchmark."""
    from fluke import FlukeENV
    from fluke.algorithms.fedavg import FedAVG
    from fluke.client import Client
    from fluke.config import OptimizerConfigurator
    from fluke.data import FastDataLoader
    from fluke.server import Server
    from fluke.utils import ServerObserver

    FlukeENV().set_seed(0)
    optimizer = OptimizerConfigurator(
        {"name": "SGD", "lr": LR}, {"name": "StepLR", "step_size": 1, "gamma": 1.0}
    )
    ours = [
        Client(
            index=i,
            train_set=FastDataLoader(
                x, y, num_labels=CLASSES, batch_size=BATCH, shuffle=True, skip_singleton=False
            ),
            test_set=None,
            optimizer_cfg=optimizer,
            loss_fn=nn.CrossEntropyLoss(),
            local_epochs=1,
        )
        for i, (x, y) in enumerate(data)
    ]
    server = Server(model=network("784-128-10"), test_set=None, clients=ours, weighted=True)
    federation = FedAVG(len(ours), None, {}, clients=ours, server=server)
    stamps: list[float] = []

    class Clock(ServerObserver):
        def start_round(self, round: int, global_model: Any) -> None:
            stamps.append(time.perf_counter())

        def end_round(self, round: int) -> None:
            stamps.append(time.perf_counter())

    federation.attach(Clock()) if hasattr(federation, "attach") else server.attach(Clock())
    federation.run(rounds, cohort / len(data), finalize=False)
    return [end - begin for begin, end in zip(stamps[::2], stamps[1::2], strict=True)]


if __name__ == "__main__":
    peers = {"pytorch": pytorch, "flower": flower, "fluke": fluke}
    count, cohort, rounds, threads = map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    print(
        json.dumps({"seconds": peers[sys.argv[1]](tensors(clients(count)), rounds, cohort)}),
        flush=True,
    )
