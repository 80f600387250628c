"""A round on real nodes: Flower's own FedAvg, ours, and IFCA with three clusters, on the same four
nodes.

    python -m benchmarks.federation [--rounds 6] [--passes 2] [--write docs/deploy-operations.md]

The model is 784-128-10 in PyTorch, a client has 60 samples and trains for one epoch. Flower's own
is its FedAvg strategy without evaluation (one exchange a round), with a client as in its tutorials.
Ours is evaluated in the last round only. All three take turns on the same SuperLink and the same
SuperNodes. The figure is the median over all rounds except the first of each run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tomli_w

from benchmarks.tables import put
from benchmarks.work import clients
from tests.process import flower_project as project
from tests.process.flower_lab import Lab

NODES = 4
PATIENCE = 900.0
SHARED = {"samples": {"shape": [784], "classes": 10}, "model": {"torch": "network:network"}}
METHODS = {"fedavg": {"name": "fedavg"}, "ifca": {"name": "ifca", "clusters": 3}}
NAMES = {
    "flower": "Flower's FedAvg, one exchange a round",
    "fedavg": "fedkin's FedAvg",
    "ifca": "fedkin's IFCA, three clusters",
}
NETWORK = """from torch import nn


def network():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
"""
BARE = """import json
import time

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from network import network

client = ClientApp()
server = ServerApp()


@client.train()
def train(message, context):
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    found = np.load(context.node_config["data"])
    x = torch.from_numpy(found["x"])
    y = torch.from_numpy(found["y"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    loss_of = torch.nn.CrossEntropyLoss()
    for rows in torch.randperm(len(y)).split(10):
        optimizer.zero_grad()
        loss_of(model(x[rows]), y[rows]).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y)})
    reply = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(reply, reply_to=message)


class Timed(FedAvg):
    times = []

    def aggregate_train(self, *arguments, **options):
        done = super().aggregate_train(*arguments, **options)
        self.times.append(time.perf_counter())
        return done


@server.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < 4:
        time.sleep(0.1)
    strategy = Timed(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=4,
        min_available_nodes=4,
    )
    rounds = int(context.run_config["rounds"])
    begun = time.perf_counter()
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=rounds)
    with open(context.run_config["config"], "w") as file:
        json.dump(np.diff([begun, *strategy.times]).tolist(), file)
"""


def apps(folder: Path) -> dict[str, Path]:
    """Flower's own app, and ours with the same network."""
    ours = project.app(folder / "ours")
    bare = project.app(folder / "bare")
    described = project.APP | {"project": {**project.APP["project"], "name": "bare-app"}}
    flower = described["tool"]["flwr"]["app"]
    own = {**flower, "components": {"serverapp": "bare:server", "clientapp": "bare:client"}}
    own["config"] = {"config": "", "rounds": 3}
    (bare / "pyproject.toml").write_text(
        tomli_w.dumps({**described, "tool": {"flwr": {"app": own}}})
    )
    (bare / "bare.py").write_text(BARE)
    for app in (ours, bare):
        (app / "network.py").write_text(NETWORK)
    return {"ours": ours, "bare": bare}


def nodes(folder: Path) -> dict[str, dict[str, str]]:
    """The configuration of each node, with the same file for both."""
    data = clients(NODES)
    configs = {}
    for k, (x, y) in enumerate(data[c] for c in range(NODES)):
        path = folder / f"data-{k}.npz"
        np.savez(
            path, x=x.astype(np.float32), y=y.astype(np.int64), client_id=np.zeros(len(y), np.int64)
        )
        data_section = {"name": "file", "path": str(path), "train_fraction": 0.99}
        configs[f"site-{k}"] = project.client(
            folder=folder, name=f"site-{k}", clients=[0], data=data_section, shared=SHARED
        ) | {"data": str(path)}
    return configs


def ours(lab: Lab, folder: Path, app: Path, method: str, rounds: int, turn: int) -> list[float]:
    """Seconds of each round of fedkin.

    Args:
        lab: the running SuperLink and nodes.
        folder: for the run's files.
        app: the folder of the app.
        method: a key of METHODS.
        rounds: how many.
        turn: which pass this is.
    """
    place = folder / f"{method}-{turn}"
    place.mkdir()
    federation = {"capacity": NODES, "wait_for": NODES, "deadline": 300.0}
    run = {"rounds": rounds, "cohort": NODES, "evaluate_every": 0, "checkpoint_every": rounds + 1}
    local = {"epochs": 1, "batch_size": 10, "lr": 0.03}
    sections = {"federation": federation, "method": METHODS[method], "local": local, "run": run}
    _wait(lab, lab.run(app, {"config": project.server(place, sections, SHARED)}))
    lines = (place / "run" / "timings.jsonl").read_text().splitlines()
    return [json.loads(line)["train"] for line in lines[1:]]


def bare(lab: Lab, folder: Path, app: Path, rounds: int, turn: int) -> list[float]:
    """Seconds of each round of Flower's own FedAvg.

    Args:
        lab: the running SuperLink and nodes.
        folder: for the run's files.
        app: the folder of the app.
        rounds: how many.
        turn: which pass this is.
    """
    path = folder / f"bare-{turn}.json"
    _wait(lab, lab.run(app, {"config": str(path), "rounds": rounds}))
    return json.loads(path.read_text())


def _wait(lab: Lab, run: int) -> None:
    status = lab.wait(run, PATIENCE)
    if status != "finished:completed":
        raise SystemExit(f"{status}:\n{lab.output(run)}")


def measure(rounds: int, passes: int) -> dict[str, float]:
    """Median seconds of a round of each."""
    folder = Path(tempfile.mkdtemp(prefix="fedkin-federation-"))
    seconds: dict[str, list[float]] = {"flower": [], "fedavg": [], "ifca": []}
    folders = apps(folder)
    with Lab(folder / "lab") as lab:
        lab.superlink()
        lab.nodes(nodes(folder))
        for turn in range(passes):
            seconds["flower"] += bare(
                lab=lab, folder=folder, app=folders["bare"], rounds=rounds, turn=turn
            )[1:]
            for method in METHODS:
                seconds[method] += ours(
                    lab=lab,
                    folder=folder,
                    app=folders["ours"],
                    method=method,
                    rounds=rounds,
                    turn=turn,
                )[1:]
    shutil.rmtree(folder)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--passes", type=int, default=2)
    arguments.add_argument("--write", type=Path, help="a page that holds the table")
    options = arguments.parse_args()
    seconds = measure(options.rounds, options.passes)
    rows = [
        [NAMES[name], f"{value:.1f}", f"{value / seconds['flower']:.2f}"]
        for name, value in seconds.items()
    ]
    for row in rows:
        print("{}: {} s a round, {} times Flower's own FedAvg".format(*row), flush=True)
    if options.write:
        put(
            options.write,
            "python -m benchmarks.federation",
            ["", "seconds a round", "compared with Flower's own"],
            rows,
        )


if __name__ == "__main__":
    main()
