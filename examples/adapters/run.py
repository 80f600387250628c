"""The support desks in one command: makes the table and the encoder where they are not there yet,
trains, and says which desks share an adapter.

    python examples/adapters/run.py runs/desks
    python examples/adapters/run.py runs/desks --backbone models/all-MiniLM-L6-v2
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import fedkin as fk

HERE = Path(__file__).parent
# The paths of adapters.toml.
TABLE = Path("runs/remarks.csv")
TOY_BACKBONE = Path("runs/toy-backbone")


def main(folder: Path, backbone: Path | None) -> None:
    """Make the files that are missing, and run."""
    if not TABLE.exists():
        python("remarks.py", TABLE)
    if backbone is None and not (TOY_BACKBONE / "model.safetensors").exists():
        python("toy_backbone.py", TOY_BACKBONE)
    encoder = backbone or TOY_BACKBONE
    command = ["run", HERE / "adapters.toml", "--out", folder]
    settings = [f"data.tokenizer={encoder}", f"model.backbone={encoder}"]
    start("-m", "fedkin", *command, *settings)
    clients = fk.Run.load(folder).clients
    for cluster, desks in clients.groupby("cluster"):
        print(f"adapter {cluster}: {', '.join(desks['name'])}")


def python(program: str, target: Path) -> None:
    """Run a program of this folder."""
    start(HERE / program, target)


def start(*words: str | Path) -> None:
    """Run Python with some arguments; ends this program if it fails."""
    done = subprocess.run([sys.executable, *words], check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the run")
    parser.add_argument("--backbone", type=Path, help="a folder of a pretrained BERT model")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.backbone)
