"""The folder of a peer: its model and what it knows (``peer.safetensors``), a line per round (``metrics.jsonl``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from fedkin.config.peer_settings import PeerSettings
from fedkin.core.errors import CheckpointError
from fedkin.core.storage import append_line, storing, whole_lines, write_atomic
from fedkin.p2p.peer import Memory

STATE, METRICS = "peer.safetensors", "metrics.jsonl"
LAYOUT = "1"


class PeerFolder:
    """A peer's own disk (``federation.peer.Disk``). Raises StorageError where the folder cannot be made."""

    def __init__(self, path: Path, about: PeerSettings) -> None:
        self.path = path
        self._who = {"layout": LAYOUT, "federation": about.federation, "name": about.name, "seed": about.seed}
        with storing(path):
            path.mkdir(parents=True, exist_ok=True)

    def save(self, memory: Memory) -> None:
        header = {
            **self._who,
            "age": memory.age,
            "trust": list(memory.trust),
            "votes": dict(memory.votes),
            "names": list(memory.names),
        }
        arrays = {"model": np.asarray(memory.model, order="C")}
        write_atomic(self.path / STATE, to_bytes(arrays, {"fedkin": json.dumps(header, sort_keys=True)}))

    def append(self, record: dict[str, Any]) -> None:
        append_line(self.path / METRICS, json.dumps(record))

    def restore(self, parameters: int) -> Memory | None:
        """What was kept, or None where nothing was; records of rounds after it are taken back.

        Raises CheckpointError where it is damaged or another peer's, StorageError as writing does.
        """
        found = self._read(parameters) if (self.path / STATE).exists() else None
        lines = whole_lines(self.path / METRICS)
        done = [line for line in lines if _round(line) <= (found.age if found else 0)]
        if (self.path / METRICS).exists():
            write_atomic(self.path / METRICS, "".join(f"{line}\n" for line in done))
        return found

    def _read(self, parameters: int) -> Memory:
        path = self.path / STATE
        try:
            with safe_open(path, framework="numpy") as file:
                header, model = json.loads((file.metadata() or {})["fedkin"]), file.get_tensor("model")
            for key, value in self._who.items():
                if header[key] != value:
                    raise CheckpointError(
                        f"{path} is another peer's: its {key} is {header[key]!r}, and here it is {value!r}; choose "
                        "another peer.folder"
                    )
            votes = {str(name): int(count) for name, count in header["votes"].items()}
            memory = Memory(model, int(header["age"]), tuple(header["trust"]), votes, tuple(header["names"]))
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"{path} cannot be read ({error}); remove it, and the peer begins anew") from error
        if model.shape != (parameters,) or not np.isfinite(model).all():
            raise CheckpointError(
                f"{path}: expected a finite model of {parameters} parameters, got shape {model.shape}; choose another "
                "peer.folder, or remove it, and the peer begins anew"
            )
        return memory


def _round(line: str) -> float | int:
    """The round of a record; a line that is none is of no round."""
    try:
        return int(json.loads(line)["round"])
    except (ValueError, KeyError, TypeError):
        return np.inf
