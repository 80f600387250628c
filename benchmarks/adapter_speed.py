"""Time of a training step of low-rank adapters, next to PyTorch with peft in the same run.

``python -m benchmarks.adapter_speed --backbone FOLDER`` prints the milliseconds of one core for a
step of 32 texts of 16 tokens: the last layer with features kept, the last layer of whole texts, and
all six layers, compiled and in PyTorch with peft. It also prints the memory of 16 clients that
share the backbone. FOLDER is a local folder of MiniLM. It needs transformers and peft.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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
    arguments = parser.parse_args()
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
    for name, seconds in least.items():
        print(f"{name}: {1000 * seconds:.0f} ms a step")
    ratio = least["all layers"] / least["all layers, PyTorch with peft"]
    print(f"all layers, compiled to PyTorch with peft: {ratio:.2f}")


def memory(folder: Path) -> None:
    """Print the resident set after a round of 16 clients, over the size of the backbone."""
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
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    size = backbone.parameters * 4 / 1e6
    print(f"16 clients: {resident:.0f} MB at most, backbone {size:.0f} MB")


if __name__ == "__main__":
    if os.environ.get("FEDKIN_MEMORY_OF"):
        memory(Path(os.environ["FEDKIN_MEMORY_OF"]))
    else:
        main()
