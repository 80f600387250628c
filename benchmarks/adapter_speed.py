"""Time of a training step of low-rank adapters, next to PyTorch with peft in the same run.

``python -m benchmarks.adapter_speed --backbone FOLDER`` measures the milliseconds of one core for a
step of 32 texts of 16 tokens: the last layer with features kept, the last layer of whole texts, and
all six layers, compiled and in PyTorch with peft. It also measures the memory of 16 clients that
share the backbone, in another process. The results go into ``adapters_results/speed.json``, which
the page of ``benchmarks.adapters`` shows. FOLDER is a local folder of MiniLM. It needs transformers
and peft.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path("benchmarks/adapters_results/speed.json")
BATCH = 32
LENGTH = 16
CLASSES = 8
STEPS = 20
TURNS = 3


def compiled_step(backbone: Any, data: Any, layers: tuple[int, ...] | None) -> Callable[[], float]:
    """A function that measures the seconds of a compiled training step."""
    import fedkin as fk
    from fedkin.core.randomness import Stream
    from fedkin.tasks.train import train

    model = fk.lora(data, backbone, layers=layers)
    worlds = {}
    for steps in (1, 1 + STEPS):
        work = fk.LocalTraining(optimizer="adamw", lr=2e-3, batch_size=BATCH, steps=steps)
        worlds[steps] = fk.SimulatedWorld(data, model, work, devices=1)
    start = model.initial(np.array([1, 2], np.uint32))[None]

    def took(steps: int) -> float:
        world = worlds[steps]
        began = time.process_time()
        first = np.zeros(1, np.int64)
        train(world, start, first, first, work=world.work, stream=Stream(0, 1, "train"))
        return time.process_time() - began

    for steps in worlds:
        took(steps)  # compiles
    return lambda: (took(1 + STEPS) - took(1)) / STEPS


def peft_step(folder: Path, tokens: np.ndarray, labels: np.ndarray) -> Callable[[], float]:
    """A function that measures the seconds of a training step of PyTorch with peft."""
    import peft
    import torch
    import transformers

    torch.set_num_threads(1)
    base = transformers.AutoModel.from_pretrained(
        folder, local_files_only=True, add_pooling_layer=False
    )
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"])
    network = peft.get_peft_model(base, config)
    head = torch.nn.Linear(base.config.hidden_size, CLASSES)
    trained = [entry for entry in network.parameters() if entry.requires_grad]
    optimizer = torch.optim.AdamW([*trained, *head.parameters()], lr=2e-3)
    ids = torch.from_numpy(tokens[:BATCH].astype(np.int64))
    mask = ids != 0
    targets = torch.from_numpy(labels[:BATCH].astype(np.int64))

    def step() -> None:
        hidden = network(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        loss = torch.nn.functional.cross_entropy(head(pooled), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def took() -> float:
        began = time.process_time()
        for _ in range(STEPS):
            step()
        return (time.process_time() - began) / STEPS

    step()
    return took


def main() -> None:
    """Measure in turns, and print the smallest time of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", type=Path, required=True, help="a local folder of MiniLM")
    parser.add_argument("--memory", action="store_true", help="measure the memory only")
    arguments = parser.parse_args()
    if arguments.memory:
        train_a_round(arguments.backbone)
        return
    import fedkin as fk

    backbone = fk.models.from_transformers(arguments.backbone)
    rng = np.random.default_rng(0)
    tokens = rng.integers(1000, 20_000, (16 * 64, LENGTH)).astype(np.int32)
    labels = rng.integers(0, CLASSES, len(tokens))
    clients = np.repeat(np.arange(16), 64)
    data = fk.data.from_arrays(tokens, labels, clients=clients, test=0, integers=True)
    last = len(backbone.encoder.layers) - 1
    kept = fk.models.features(data, backbone, layer=last)
    measured = {
        "last layer, features kept": compiled_step(backbone, kept, (last,)),
        "last layer": compiled_step(backbone, data, (last,)),
        "all layers": compiled_step(backbone, data, None),
        "all layers, PyTorch with peft": peft_step(arguments.backbone, tokens, labels),
    }
    least = dict.fromkeys(measured, np.inf)
    for _ in range(TURNS):
        for name, step in measured.items():
            least[name] = min(least[name], step())
    found = {
        "milliseconds": {name: round(1000 * seconds, 1) for name, seconds in least.items()},
        "megabytes": memory_of_a_process(arguments.backbone),
        "backbone_megabytes": round(backbone.parameters * 4 / 1e6, 1),
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(RESULTS.read_text())


def memory_of_a_process(folder: Path) -> float:
    """The largest resident set in megabytes of a process that trains a round of 16 clients."""
    program = [sys.executable, "-m", "benchmarks.adapter_speed", "--backbone", str(folder)]
    done = subprocess.run([*program, "--memory"], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def train_a_round(folder: Path) -> None:
    """Train a round of 16 clients, and print the largest resident set in megabytes."""
    import fedkin as fk

    backbone = fk.models.from_transformers(folder)
    rng = np.random.default_rng(0)
    tokens = rng.integers(1000, 20_000, (16 * 64, LENGTH)).astype(np.int32)
    labels = rng.integers(0, CLASSES, len(tokens))
    data = fk.data.from_arrays(
        tokens, labels, clients=np.repeat(np.arange(16), 64), test=0, integers=True
    )
    model = fk.lora(data, backbone, layers=(5,))
    fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=16)
    # Unlike getrusage, it does not count the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1e3)


if __name__ == "__main__":
    main()
