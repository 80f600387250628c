"""What adapters take in messages and in checkpoints, next to the whole network.

``python -m benchmarks.adapter_sizes --backbone FOLDER`` trains two rounds of IFCA with 4 clusters
on 16 clients, with adapters of the last layer and of all layers, and prints the numbers that are
trained, the bytes that a client sends in a round, and the size of the run's last checkpoint. The
results go into ``adapters_results/sizes.json``, which the page of ``benchmarks.adapters`` shows.
FOLDER is a local folder of MiniLM. All numbers are exact, on any machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path("benchmarks/adapters_results/sizes.json")
CLIENTS = 16
CLASSES = 8
CLUSTERS = 4
ROUNDS = 2


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", type=Path, required=True, help="a local folder of MiniLM")
    arguments = parser.parse_args()
    import fedkin as fk

    backbone = fk.models.from_transformers(arguments.backbone)
    last = len(backbone.encoder.layers) - 1
    rng = np.random.default_rng(0)
    data = fk.data.from_arrays(
        rng.integers(1000, 20_000, (CLIENTS * 16, 8)).astype(np.int32),
        rng.integers(0, CLASSES, CLIENTS * 16),
        clients=np.repeat(np.arange(CLIENTS), 16),
        integers=True,
    )
    adapted = {
        "last layer": fk.lora(data, backbone, layers=(last,)),
        "last layer, B only": fk.lora(data, backbone, layers=(last,), train="B"),
        "all layers": fk.lora(data, backbone),
    }
    found = {"network": backbone.parameters, "clusters": CLUSTERS, "rows": []}
    for name, model in adapted.items():
        found["rows"].append({"trained": name, **sizes(data, model)})
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(RESULTS.read_text())


def sizes(data: Any, model: Any) -> dict[str, int]:
    """The sizes of a run with a model.

    Args:
        data: the clients' data.
        model: the model.
    """
    import fedkin as fk

    with tempfile.TemporaryDirectory() as folder:
        run = fk.simulate(
            fk.IFCA(clusters=CLUSTERS),
            data,
            model,
            rounds=ROUNDS,
            cohort=CLIENTS,
            local=fk.LocalTraining(optimizer="adamw", lr=2e-3),
            out=Path(folder) / "run",
            callbacks=[fk.Progress(False)],
        )
        files = [path for path in (Path(folder) / "run" / "checkpoints").rglob("*")]
        checkpoint = max(path.stat().st_size for path in files if path.is_file())
    return {
        "parameters": model.spec.parameters,
        "sent": int(run.summary()["bytes_up"]) // (CLIENTS * ROUNDS),
        "checkpoint": checkpoint,
    }


if __name__ == "__main__":
    main()
