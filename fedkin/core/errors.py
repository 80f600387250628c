"""Every error fedkin raises on purpose.

FedkinError
├── ConfigError        a key, a value or a combination in a configuration that cannot be
├── DataError          data that are missing, damaged, or not what was promised
│   └── ChecksumError  a file whose bytes are not the published ones
├── ModelError         a model that does not fit its data or its description
├── MethodError        impossible settings (more clusters than clients, ...)
├── TaskError          a task whose declaration, reply or memory cannot be
├── CheckpointError    a run folder that cannot be resumed
├── StorageError       a folder or a disk that cannot be written
└── MissingExtra       an optional dependency that is not installed

A message has what was expected, what was received, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedkinError(Exception):
    """Root of all errors that fedkin raises on purpose."""


class ConfigError(FedkinError, ValueError):
    """A key, a value or a combination in a configuration that cannot be."""


class DataError(FedkinError, ValueError):
    """Data that are missing, damaged, or not what was promised."""


class ChecksumError(DataError):
    """A file whose bytes are not the published ones."""


class ModelError(FedkinError, ValueError):
    """A model that does not fit its data or its description."""


class MethodError(FedkinError, ValueError):
    """A method with impossible settings."""


class TaskError(FedkinError, ValueError):
    """A task whose declaration, reply or memory cannot be, or that a world cannot run."""


class CheckpointError(FedkinError):
    """A run folder that cannot be resumed."""


class StorageError(FedkinError, OSError):
    """A folder or a disk that cannot be written."""


class WorkerError(FedkinError, RuntimeError):
    """Processes that compute for a run have failed, again and again."""


class MissingExtra(FedkinError, ImportError):
    """An optional dependency that is not installed."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Message about an unknown name, with the nearest known one, or all of them.

    Args:
        kind: what is named, such as "method".
        name: the unknown one.
        known: all that there are.
    """
    names = sorted(known)
    near = nearest(name, names)
    hint = f"known: {', '.join(names)}" if near is None else f"did you mean {near!r}?"
    return f"unknown {kind} {name!r}; {hint}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that an unknown one probably means; None where none is similar.

    Args:
        name: the unknown one. Capitals and blanks at its ends count only where a name with the same
            ones is similar.
        known: all that there are.
    """
    names = list(known)
    exact = difflib.get_close_matches(name, names, n=1)
    if exact:
        return exact[0]
    folded = {_folded(candidate): candidate for candidate in names}
    similar = difflib.get_close_matches(_folded(name), folded, n=1)
    return folded[similar[0]] if similar else None


def _folded(name: str) -> str:
    return name.strip().casefold()
