"""A round on an accelerator by the number of clients per batch, compared with the same machine's
CPU and with a PyTorch loop on the accelerator.

    python -m benchmarks.gpu [--turns 5] [--out docs/gpu.md]

The cohort is 100 of 1,000 MNIST-shaped clients. Every engine does the same local steps on the same
samples, and all take turns. After that, rounds of larger networks with the settings of FLUTE's
table (benchmarks/flute.py). Without an accelerator the program ends without a measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import torch

from benchmarks import flute, torch_loop
from benchmarks.measure import EPOCHS, MODEL, Times, federated, take_turns
from benchmarks.work import BATCH, LR, Clients, clients
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import MODELS
from fedkin.models.model import prepare_jax
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train

COHORT = 100
CLIENTS = 1000
LANES = (1, 8, 25, 50, 100)
# Times as fast as the PyTorch loop.
MLP = "784-128-10"
AIM = 20
LOW = f"{COHORT} at once in bfloat16"
OF_LOOP = 10  # clients that the PyTorch loop trains; a whole cohort takes minutes
SECTION = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", re.DOTALL)


def main() -> None:
    """Measure, print the section, and write it into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/gpu.md"))
    parser.add_argument("--on-cpu", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    prepare_jax()
    if options.on_cpu:
        print(json.dumps({name: statistics(on_cpu(name, options.turns)) for name in EPOCHS}))
        return
    if jax.default_backend() == "cpu":
        raise SystemExit("JAX sees no accelerator: nothing was measured")
    seconds = {name: measured(name, options.turns) for name in EPOCHS}
    of_flute = {name: flute.round_seconds(setting) for name, setting in flute.SETTINGS.items()}
    section = "\n".join(
        [table(seconds, of_cpu(options.turns)), speed_up(seconds), flute.table(of_flute)]
    )
    print(section)
    page, count = SECTION.subn(
        lambda match: f"{match[1]}{section}{match[2]}", options.out.read_text()
    )
    if count != 1:
        raise SystemExit(
            f"{options.out} has no section between <!-- measured --> and <!-- /measured -->"
        )
    options.out.write_text(page)


def measured(name: str, turns: int) -> dict[str, float]:
    """Median seconds of a round, by engine.

    Args:
        name: of the model.
        turns: that count.
    """
    data = clients(CLIENTS)
    engines = {str(lanes): fedkin_round(data, name, lanes) for lanes in LANES}
    engines |= {
        LOW: fedkin_round(data, name, COHORT, "bfloat16"),
        "PyTorch loop": torch_round(data, name),
    }
    seconds = statistics(take_turns(engines, turns))
    return {**seconds, "PyTorch loop": seconds["PyTorch loop"] * COHORT / OF_LOOP}


def on_cpu(name: str, turns: int) -> Times:
    """The same round on the CPU alone, one client after another.

    Args:
        name: of the model.
        turns: that count.
    """
    return take_turns({"CPU": fedkin_round(clients(CLIENTS), name, 1)}, turns)


def of_cpu(turns: int) -> dict[str, dict[str, float]]:
    """The result of ``on_cpu`` in a process that sees no accelerator.

    Args:
        turns: number of measured turns.
    """
    command = [sys.executable, "-m", "benchmarks.gpu", "--on-cpu", "--turns", str(turns)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def statistics(times: Times) -> dict[str, float]:
    """Medians."""
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def fedkin_round(
    data: Clients, name: str, lanes: int, precision: str | None = None
) -> Callable[[int], object]:
    """A round in fedkin's simulator: another cohort in each turn.

    Args:
        data: of all clients.
        name: of the model.
        lanes: clients per batch.
        precision: of the network's arithmetic; None for float32.
    """
    federation = federated(data)
    local = LocalTraining(epochs=EPOCHS[name], batch_size=BATCH, lr=LR, precision=precision)
    world = SimulatedWorld(
        federation, MODELS[MODEL[name]](federation), local, clients_per_batch=lanes
    )
    start = world.initial(Stream(0))[None]
    zeros = np.zeros(COHORT, np.int64)
    return lambda turn: train(
        world, start, cohort(turn), zeros, reduce=True, stream=Stream(0, turn)
    )


def cohort(turn: int) -> np.ndarray:
    """Clients of a turn, the same for every engine.

    Args:
        turn: its number.
    """
    return np.sort(np.random.default_rng(turn).choice(CLIENTS, COHORT, replace=False))


def torch_round(data: Clients, name: str) -> Callable[[int], object]:
    """A round of the plain PyTorch loop on the accelerator, of a tenth of the cohort.

    Args:
        data: of all clients.
        name: of the model.
    """
    torch.manual_seed(0)
    network = torch_loop.network(name).to("cuda")
    tensors = [(x.to("cuda"), y.to("cuda")) for x, y in torch_loop.tensors(data)]

    def turn(number: int) -> None:
        members = np.random.default_rng(number).permutation(cohort(number))[:OF_LOOP]
        torch_loop.round_of(network, [tensors[client] for client in members], EPOCHS[name])
        torch.cuda.synchronize()

    return turn


def table(seconds: dict[str, dict[str, float]], cpu: dict[str, dict[str, float]]) -> str:
    """The section of the page.

    Args:
        seconds: of a round on the accelerator, by model and engine.
        cpu: of a round on the CPU, by model.
    """
    device = jax.devices()[0].device_kind
    heads = [
        "model",
        "epochs",
        *(f"{lanes} at once" for lanes in LANES),
        LOW,
        f"CPU, {os.cpu_count()} cores",
        "PyTorch loop",
    ]
    rows = [
        [
            name,
            str(EPOCHS[name]),
            *(f"{s[str(lanes)]:.3f}" for lanes in LANES),
            f"{s[LOW]:.3f}",
            f"{cpu[name]['CPU']:.3f}",
            f"{s['PyTorch loop']:.2f}",
        ]
        for name, s in seconds.items()
    ]
    lines = [f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows]]
    words = (
        f"Seconds of a round of {COHORT} out of {CLIENTS} MNIST-shaped clients (60 samples each in "
        f"the mean, batches of {BATCH}) on one {device} with JAX {jax.__version__}, by the number "
        "of clients per batch; medians. The other columns are fedkin on the same machine's CPU, "
        f"and a plain PyTorch {torch.__version__.split('+')[0]} loop over clients on the same "
        f"{device} (measured on {OF_LOOP} clients, times {COHORT // OF_LOOP}). Written by `python "
        "-m benchmarks.gpu`."
    )
    return "\n".join([words, "", *lines, ""])


def speed_up(seconds: dict[str, dict[str, float]]) -> str:
    """A line: how many times as fast as the PyTorch loop on the accelerator the MLP is.

    Args:
        seconds: of a round on the accelerator, by model and engine.
    """
    ours = seconds[MLP]
    lanes = min(LANES, key=lambda lanes: ours[str(lanes)])
    factor = ours["PyTorch loop"] / ours[str(lanes)]
    return (
        f"{MLP}, {lanes} at once: {factor:.1f} times as fast as the PyTorch loop (aim: "
        f"at least {AIM}).\n"
    )


if __name__ == "__main__":
    main()
