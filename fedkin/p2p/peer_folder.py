"""A peer's folder: its model and state (``peer.safetensors``), and a line for each round
(``metrics.jsonl``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.config.peer_settings import PeerSettings
from fedkin.core import codec
from fedkin.core.errors import CheckpointError
from fedkin.core.storage import (
    append_line,
    complete_lines,
    force_to_disk,
    storage_errors,
    write_atomic,
)
from fedkin.core.strict_json import json_text
from fedkin.p2p.peer import PeerMemory

STATE = "peer.safetensors"
METRICS = "metrics.jsonl"
LAYOUT = "1"


class PeerFolder:
    """A peer's folder, which implements ``PeerStorage``. Raises StorageError if it cannot be
    created."""

    def __init__(self, path: Path, settings: PeerSettings) -> None:
        self.path = path
        self._identity = {
            "layout": LAYOUT,
            "federation": settings.federation,
            "name": settings.name,
            "seed": settings.seed,
        }
        with storage_errors(path):
            path.mkdir(parents=True, exist_ok=True)

    def save(self, memory: PeerMemory) -> None:
        header = {
            **self._identity,
            "age": memory.age,
            "trust": list(memory.trust),
            "votes": dict(memory.votes),
            "names": list(memory.names),
        }
        # The records must be on disk before the memory of their round, so that a power failure
        # between the two loses no record of a finished round.
        if (self.path / METRICS).exists():
            force_to_disk(self.path / METRICS)
        write_atomic(self.path / STATE, codec.encode(header, {"model": memory.model}))

    def append(self, record: dict[str, Any]) -> None:
        append_line(self.path / METRICS, json_text(record))

    def restore(self, parameters: int) -> PeerMemory | None:
        """The memory (model and state) that this peer saved last; None if it has saved none.

        Records of rounds after this memory are removed from ``metrics.jsonl``, since the peer does
        these rounds again.

        Raises:
            CheckpointError: the memory is damaged, or belongs to another peer.
            StorageError: a file cannot be written.
        """
        memory = self._read(parameters) if (self.path / STATE).exists() else None
        age = memory.age if memory else 0
        lines = complete_lines(self.path / METRICS)
        valid = [line for line in lines if _round(line) <= age]
        if (self.path / METRICS).exists():
            write_atomic(self.path / METRICS, "".join(f"{line}\n" for line in valid))
        return memory

    def _read(self, parameters: int) -> PeerMemory:
        """Read a peer's memory from its folder, and check it. Raises CheckpointError if it cannot
        be used."""
        path = self.path / STATE
        try:
            header, arrays = codec.decode(path.read_bytes())
            for key, value in self._identity.items():
                if header[key] != value:
                    raise CheckpointError(
                        f"{path} belongs to another peer: its {key} is {header[key]!r}, but this "
                        f"peer's is {value!r}; choose another peer.folder"
                    )
            votes = {str(name): int(count) for name, count in header["votes"].items()}
            model = arrays["model"]
            memory = PeerMemory(
                model=model,
                age=int(header["age"]),
                trust=tuple(header["trust"]),
                votes=votes,
                names=tuple(header["names"]),
            )
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"{path} cannot be read ({error}); remove it, and the peer starts from the "
                "beginning"
            ) from error
        if model.shape != (parameters,) or not np.isfinite(model).all():
            raise CheckpointError(
                f"{path}: expected a finite model of {parameters} parameters, got shape "
                f"{model.shape}; choose another peer.folder, or remove the file, and the peer "
                "starts from the beginning"
            )
        return memory


def _round(line: str) -> float | int:
    """The round that a line of ``metrics.jsonl`` records.

    The result is infinity for a line that is not a record. The line then counts as a later round,
    and ``restore`` removes it.
    """
    try:
        return int(json.loads(line)["round"])
    except (ValueError, KeyError, TypeError):
        return np.inf
