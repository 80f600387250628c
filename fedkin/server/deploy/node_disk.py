"""Storage of a node: its clients' arrays (``RUN.safetensors``) and models
(``RUN-models.safetensors``)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedkin.core.codec import decode, encode
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.server.message import InvalidMessageError

_log = logging.getLogger("fedkin")


class NodeDisk:
    """The folder in which a node stores arrays (``server.node_memory.Disk``).

    Its methods raise StorageError if the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load_memory(self, run: str) -> dict[str, np.ndarray]:
        return self._read(self._path(run))

    def save_memory(self, run: str, memory: Mapping[str, np.ndarray]) -> None:
        self._write(self._path(run), memory)

    def save_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        path = self._path(run, "-models")
        self._write(path, {**self._read(path), **models})

    def forget(self) -> list[Path]:
        """Delete the files of every run when the node leaves permanently, and return their
        paths."""
        files = [path for path in sorted(self.folder.glob("*.safetensors")) if _is_own(path)]
        with storage_errors(self.folder):
            for path in files:
                path.unlink()
        return files

    def _path(self, run: str, suffix: str = "") -> Path:
        """The file in which a node stores a run's arrays.

        Raises InvalidMessageError if the run's name is no plain file name.
        """
        # The name comes from the server, and must not lead out of the folder.
        if not re.fullmatch(r"[\w.-]{1,100}", run):
            raise InvalidMessageError(f"{run[:60]!r} cannot be the name of a run")
        return self.folder / f"{run}{suffix}.safetensors"

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        """The arrays of a file; an empty dict if the file does not exist or is damaged.

        A damaged file is only reported, since clients can start again without their arrays.
        """
        try:
            return decode(path.read_bytes()).arrays
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            _log.warning(
                "%s cannot be read (%s), so this site's clients start without the arrays in it",
                path,
                error,
            )
            return {}

    def _write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays to a file. Raises StorageError if that fails."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, encode({}, arrays))


def _is_own(path: Path) -> bool:
    """Whether fedkin wrote a file, i.e. whether its content can be decoded."""
    try:
        decode(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True
