"""The errors that fedkin raises on purpose.

FedkinError
├── ConfigError        a wrong key, value or combination in a configuration
├── DataError          missing, damaged or unexpected data
│   └── ChecksumError  a file whose checksum differs from the published one
├── ModelError         a model that does not fit its data or its description
├── MethodError        impossible settings (more clusters than clients, ...)
├── TaskError          an invalid declaration, reply or memory of a task
├── CheckpointError    a run folder that cannot be resumed
├── StorageError       a folder or a disk that cannot be written
└── MissingExtra       an optional dependency that is not installed

A message names the place, the expected and the received value, and how to fix it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Packages that a user's module may import, by the extra that installs them.
_EXTRAS = {"torch": "torch", "torchax": "torchax", "onnx": "onnx", "datasets": "hf"}


class FedkinError(Exception):
    """Root of all errors that fedkin raises on purpose."""


class ConfigError(FedkinError, ValueError):
    """A wrong key, value or combination in a configuration."""


class DataError(FedkinError, ValueError):
    """Missing, damaged or unexpected data."""


class ChecksumError(DataError):
    """A file whose checksum differs from the published one."""


class ModelError(FedkinError, ValueError):
    """A model that does not fit its data or its description."""


class MethodError(FedkinError, ValueError):
    """A method with impossible settings."""


class TaskError(FedkinError, ValueError):
    """An invalid declaration, reply or memory of a task, or a task that a world cannot run."""


class CheckpointError(FedkinError):
    """A run folder that cannot be resumed."""


class StorageError(FedkinError, OSError):
    """A folder or a disk that cannot be written."""


class WorkerError(FedkinError, RuntimeError):
    """Worker processes of a run have failed repeatedly."""


class MissingExtra(FedkinError, ImportError):
    """An optional dependency that is not installed."""


def missing_module(module: str, error: ModuleNotFoundError) -> str:
    """Error message for a user's module that cannot be imported: it, or a module that it imports,
    is missing.

    Args:
        module: the name of the user's module, such as ``nets``.
        error: the error of the import.
    """
    where = "in the folder where fedkin was started or on Python's path"
    missing = error.name or module
    if module == missing or module.startswith(f"{missing}."):
        return (
            f"there is no module {missing!r} {where}; start fedkin in the module's folder, or set "
            "PYTHONPATH"
        )
    extra = _EXTRAS.get(missing.partition(".")[0])
    cure = f"pip install 'fedkin[{extra}]'" if extra else "install it, or set PYTHONPATH"
    return f"the module {module!r} imports {missing!r}, which is not installed: {cure}"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Error message for an unknown name. It suggests the most similar known name, or lists all.

    Args:
        kind: the kind of thing, such as "method".
        name: the unknown name.
        known: all known names.
    """
    names = sorted(known)
    near = nearest(name, names)
    hint = f"known: {', '.join(names)}" if near is None else f"did you mean {near!r}?"
    return f"unknown {kind} {name!r}; {hint}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to ``name``; None if no known name is similar.

    Args:
        name: the unknown name. Names are compared as written first, and then without regard to case
            and surrounding blanks.
        known: all known names.
    """
    names = list(known)
    exact = difflib.get_close_matches(name, names, n=1)
    if exact:
        return exact[0]
    folded = {_folded(candidate): candidate for candidate in names}
    similar = difflib.get_close_matches(_folded(name), folded, n=1)
    if similar:
        return folded[similar[0]]
    # Two exchanged letters of a short name, such as ``rl``, are less similar than difflib asks for.
    exchanged = [near for near in folded if sorted(near) == sorted(_folded(name))]
    return folded[exchanged[0]] if exchanged else None


def _folded(name: str) -> str:
    """A name in lower case and without surrounding blanks, for comparison."""
    return name.strip().casefold()
