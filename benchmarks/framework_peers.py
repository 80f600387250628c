"""FedAvg's rounds in other frameworks, each in an environment with the framework; prints seconds
per round as JSON.

    python -m benchmarks.framework_peers PEER NETWORK CLOCK CLIENTS COHORT ROUNDS THREADS

The same clients, network, batches and one local epoch for all, without evaluation. The last line
also has the framework's version.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.torch_loop import network, round_of, tensors
from benchmarks.work import BATCH, CLASSES, LR, clients

Samples = list[tuple[torch.Tensor, torch.Tensor]]


class Work(NamedTuple):
    """What a framework is given."""

    data: Samples
    network: str
    rounds: int
    cohort: int
    clock: Callable[[], float]


def pytorch(work: Work) -> list[float]:
    """A plain loop over the clients of the cohort."""
    return loop(work, network(work.network))


def compiled(work: Work) -> list[float]:
    """The same loop with a network that ``torch.compile`` has compiled."""
    return loop(work, torch.compile(network(work.network)))


def loop(work: Work, model: Any) -> list[float]:
    """Seconds of the rounds of a loop over the clients of the cohort."""
    seconds = []
    for r in range(work.rounds):
        start = work.clock()
        drawn = np.random.default_rng(r).choice(len(work.data), work.cohort, replace=False)
        round_of(model, [work.data[c] for c in drawn], epochs=1)
        seconds.append(work.clock() - start)
    return seconds


def flower(work: Work) -> list[float]:
    """Flower's simulation: its FedAvg strategy with clients in processes of Ray."""
    data = work.data
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
        model = network(work.network)
        model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        round_of(model, [client_data], epochs=1)
        metrics = MetricRecord({"num-examples": len(client_data[1])})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, *args: Any) -> Any:
            seconds.append(work.clock())
            return super().configure_train(*args)

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        while len(list(grid.get_node_ids())) < len(data):
            time.sleep(0.1)
        strategy = Timed(
            fraction_train=work.cohort / len(data),
            fraction_evaluate=0.0,
            min_available_nodes=len(data),
        )
        strategy.start(
            grid, ArrayRecord(network(work.network).state_dict()), num_rounds=work.rounds
        )
        seconds.append(work.clock())

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=len(data), backend_config=resources)
    return np.diff(seconds).tolist()


def fluke(work: Work) -> list[float]:
    """fluke's FedAvg on the clients of this benchmark."""
    data = work.data
    parts = ("datasets", "datasets.utils", "models", "transforms")
    stand_in("torchvision", *(f"torchvision.{part}" for part in parts))
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
    server = Server(model=network(work.network), test_set=None, clients=ours, weighted=True)
    federation = FedAVG(len(ours), None, {}, clients=ours, server=server)
    stamps: list[float] = []

    class Clock(ServerObserver):
        def start_round(self, round: int, global_model: Any) -> None:
            stamps.append(work.clock())

        def end_round(self, round: int) -> None:
            stamps.append(work.clock())

    federation.attach(Clock()) if hasattr(federation, "attach") else server.attach(Clock())
    federation.run(work.rounds, work.cohort / len(data), finalize=False)
    return [end - begin for begin, end in zip(stamps[::2], stamps[1::2], strict=True)]


class StandIn(ModuleType):
    """A module that is imported and not used: each of its names is an empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def stand_in(*modules: str) -> None:
    """Replace modules that are not used. torchvision's binary does not load with PyTorch for the
    CPU."""
    for name in modules:
        module = StandIn(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__path__ = []
        sys.modules[name] = module


def pfl(work: Work) -> list[float]:
    """pfl-research's simulation: federated averaging of a PyTorch model."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = network(work.network)

        def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.layers(x), y)

        def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
            return {}

    stamps = [work.clock()]

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
            stamps.append(work.clock())
            return False, Metrics()

    users = list(range(len(work.data)))
    training = FederatedDataset(
        lambda user: PyTorchTensorDataset(work.data[user], user_id=str(user)),
        get_user_sampler("random", users),
    )
    layers = Network()
    model = PyTorchModel(layers, torch.optim.SGD, torch.optim.SGD(layers.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=work.rounds,
            evaluation_frequency=work.rounds + 1,
            train_cohort_size=work.cohort,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=training, val_data=training),
        model,
        NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=LR),
        callbacks=[Clock()],
    )
    return np.diff(stamps).tolist()


def fedjax(work: Work) -> list[float]:
    """FedJAX's federated averaging, on the networks written for Haiku."""
    import fedjax as fj
    import haiku as hk
    import jax

    from benchmarks.haiku_networks import forward_pass

    data = {
        str(i).encode(): {"x": x.numpy(), "y": y.numpy().astype(np.int32)}
        for i, (x, y) in enumerate(work.data)
    }
    federation = fj.InMemoryFederatedData(data)
    model = fj.create_model_from_haiku(
        hk.transform(forward_pass(work.network)),
        {"x": np.zeros((1, 784), np.float32), "y": np.zeros(1, np.int32)},
        lambda batch, scores: fj.metrics.unreduced_cross_entropy_loss(batch["y"], scores),
        train_kwargs={"train": True},
        eval_kwargs={"train": False},
    )
    algorithm = fj.algorithms.fed_avg.federated_averaging(
        fj.model_grad(model),
        fj.optimizers.sgd(LR),
        fj.optimizers.sgd(1.0),
        fj.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=1),
    )
    state = algorithm.init(model.init(jax.random.key(0)))
    sampler = fj.client_samplers.UniformGetClientSampler(federation, work.cohort, seed=0)
    seconds = []
    for _ in range(work.rounds):
        start = work.clock()
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)
        seconds.append(work.clock() - start)
    return seconds


CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "core": time.process_time,  # of all threads of this process together
}
# By the name in the command: the package whose version is printed, and the rounds.
PEERS: dict[str, tuple[str, Callable[[Work], list[float]]]] = {
    "pytorch": ("torch", pytorch),
    "compiled": ("torch", compiled),
    "flower": ("flwr", flower),
    "fluke": ("fluke-fl", fluke),
    "pfl": ("pfl", pfl),
    "fedjax": ("fedjax", fedjax),
}


def main() -> None:
    """Measure a framework, and print seconds and version as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.framework_peers")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("network")
    parser.add_argument("clock", choices=CLOCKS)
    for number in ("clients", "cohort", "rounds", "threads"):
        parser.add_argument(number, type=int)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    package, rounds = PEERS[options.peer]
    data = tensors(clients(options.clients))
    work = Work(
        data=data,
        network=options.network,
        rounds=options.rounds,
        cohort=options.cohort,
        clock=CLOCKS[options.clock],
    )
    seconds = rounds(work)
    print(json.dumps({"seconds": seconds, "version": version(package)}), flush=True)


if __name__ == "__main__":
    main()
