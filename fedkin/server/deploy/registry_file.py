"""The registry of nodes beside the run: newer than any checkpoint, because ids must not be given twice."""

from __future__ import annotations

from pathlib import Path

from fedkin.core.codec import decode, encode
from fedkin.core.errors import CheckpointError
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.server.node_registry import Memory


class RegistryFile:
    """``.NAME.registry`` beside the run folder NAME; it is not read where there is no run yet."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.path = folder, folder.with_name(f".{folder.name}.registry")

    def save(self, memory: Memory) -> None:
        """Write the whole registry. Raises StorageError."""
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, encode({}, memory))

    def load(self) -> Memory | None:
        """What was saved, if a run goes on. Raises CheckpointError where it cannot be read."""
        if not (self._folder / "checkpoints").exists():
            return None
        try:
            return decode(self.path.read_bytes()).arrays
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} cannot be read ({error}); without it, clients that came after the last checkpoint get "
                "other ids: remove it to go on so"
            ) from error
