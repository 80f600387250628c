"""A node's own disk: what its clients noted (``RUN.safetensors``), and models (``RUN-models.safetensors``)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from fedkin.core.storage import storing, write_atomic
from fedkin.server.message import InvalidMessageError

_log = logging.getLogger("fedkin")


class NodeDisk:
    """A folder of a node (``federation.node.Disk``). Raises StorageError where it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def memory(self, run: str) -> dict[str, np.ndarray]:
        return self._read(self._path(run))

    def remember(self, run: str, memory: Mapping[str, np.ndarray]) -> None:
        self._write(self._path(run), memory)

    def keep_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        path = self._path(run, "-models")
        self._write(path, {**self._read(path), **models})

    def _path(self, run: str, what: str = "") -> Path:
        if not re.fullmatch(r"[\w.-]{1,100}", run):
            raise InvalidMessageError(f"{run[:60]!r} cannot be the name of a run")
        return self.folder / f"{run}{what}.safetensors"

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        """A file that is damaged is as good as none, and says so: a client can always begin anew."""
        try:
            return dict(from_bytes(path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (SafetensorError, OSError, ValueError) as error:
            _log.warning("%s cannot be read (%s); its client begins anew", path, error)
            return {}

    def _write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, to_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
