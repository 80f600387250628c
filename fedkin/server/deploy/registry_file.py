"""Who is who, beside the run: newer than any checkpoint, because ids must not be given twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from fedkin.core.errors import CheckpointError
from fedkin.core.storage import storing, write_atomic
from fedkin.server.node_registry import Memory


class RegistryFile:
    """``.NAME.roster`` beside the run folder NAME; it is not read where there is no run yet."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.path = folder, folder.with_name(f".{folder.name}.roster")

    def keep(self, memory: Memory) -> None:
        """Write it anew. Raises StorageError."""
        with storing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, to_bytes({name: np.ascontiguousarray(array) for name, array in memory.items()}))

    def read(self) -> Memory | None:
        """What was kept, if a run goes on. Raises CheckpointError where it cannot be read."""
        if not (self._folder / "checkpoints").exists():
            return None
        try:
            return dict(from_bytes(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} cannot be read ({error}); without it, clients that came after the last checkpoint get "
                "other ids: remove it to go on so"
            ) from error
