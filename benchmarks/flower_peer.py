"""The 784-10 work on Flower's simulation, run in a separate environment; prints seconds per
round as JSON.

The leanest form Flower allows: NumPy clients, no evaluation, one exchange a round, an own loop on
the grid. Usage: python -m benchmarks.flower_peer ROUNDS EPOCHS
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from benchmarks.numpy_loop import train_client
from benchmarks.work import CLASSES, FEATURES, clients

CLIENTS = 100
COHORT = 20
client_app = ClientApp()
server_app = ServerApp()
data = clients(CLIENTS)  # every worker process makes the same, once


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """A client's local training."""
    w, b = message.content.array_records["model"].to_numpy_ndarrays()
    settings = message.content.config_records["settings"]
    x, y = data[int(context.node_config["partition-id"])]
    new = train_client(
        w=w,
        b=b,
        x=x,
        y=y,
        epochs=int(settings["epochs"]),
        rng=np.random.default_rng(int(settings["round"])),
    )
    model = ArrayRecord({name: Array(a) for name, a in zip(("w", "b"), new, strict=True)})
    reply = RecordDict({"model": model, "size": MetricRecord({"examples": len(y)})})
    return Message(reply, reply_to=message)


def average(replies: list[Message]) -> list[np.ndarray]:
    """The mean of the models, weighted by examples."""
    sizes = np.array([r.content.metric_records["size"]["examples"] for r in replies], float)
    models = [r.content.array_records["model"].to_numpy_ndarrays() for r in replies]
    return [
        np.tensordot(sizes / sizes.sum(), np.stack([m[i] for m in models]), 1).astype(np.float32)
        for i in range(2)
    ]


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """FedAvg over cohorts; prints the seconds of each round."""
    rounds = int(sys.argv[1])
    epochs = int(sys.argv[2])
    model = [np.zeros((FEATURES, CLASSES), np.float32), np.zeros(CLASSES, np.float32)]
    seconds = []
    while len(grid.get_node_ids()) < CLIENTS:
        time.sleep(0.1)
    nodes = sorted(grid.get_node_ids())
    for r in range(rounds):
        start = time.perf_counter()
        cohort = np.random.default_rng(r).choice(CLIENTS, COHORT, replace=False)
        record = ArrayRecord({name: Array(a) for name, a in zip(("w", "b"), model, strict=True)})
        content = RecordDict(
            {"model": record, "settings": ConfigRecord({"epochs": epochs, "round": r})}
        )
        messages = [Message(content, nodes[c], "train", group_id=str(r)) for c in cohort]
        replies = [m for m in grid.send_and_receive(messages) if m.has_content()]
        if len(replies) != COHORT:
            raise RuntimeError(f"round {r}: {COHORT} clients were asked, {len(replies)} replied")
        model = average(replies)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=CLIENTS, backend_config=resources)
