"""Checkpoints: a method's state is arrays, so a checkpoint is those arrays and a few numbers. No pickle.

One safetensors file holds it all: the arrays, and in its header the round, the ledger, a digest of everything and a
fingerprint of the run it belongs to. One file is put in place in one step, so there are no halves to mismatch.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from fedkin.core.errors import CheckpointError, MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.storage import storing, write_atomic

LAYOUT = "2"  # of the header; another layout is refused, not guessed at
_MEMORY = "memory/"  # in front of the names of arrays that are no part of the state
_log = logging.getLogger("fedkin")


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on: the state after a round, the ledger, the seconds spent so far, and what clients
    (where they are played) and measures of the clustering remember."""

    round: int
    state: State
    down: dict[str, int]
    up: dict[str, int]
    seconds: float
    memory: dict[str, np.ndarray] = field(default_factory=dict)


def save(folder: Path, checkpoint: Checkpoint, run: str, keep: int = 2) -> Path:
    """Write a checkpoint of the run with fingerprint ``run``, and keep the newest ``keep``.

    Raises StorageError where the disk does not take it, MethodError for a state that is not made of arrays.
    """
    memory = {_MEMORY + name: np.asarray(array, order="C") for name, array in checkpoint.memory.items()}
    arrays = _arrays(checkpoint.state) | memory
    header: dict[str, Any] = {
        "layout": LAYOUT,
        "run": run,
        "state": _type_name(type(checkpoint.state)),
        "round": checkpoint.round,
        "down": checkpoint.down,
        "up": checkpoint.up,
        "seconds": checkpoint.seconds,
    }
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    header["digest"] = _digest(header, arrays)
    path = folder / f"round-{checkpoint.round:06d}.safetensors"
    write_atomic(path, to_bytes(arrays, {"fedkin": json.dumps(header, sort_keys=True)}))
    with storing(folder):
        for old in _newest_first(folder)[keep:]:
            old.unlink()
    return path


def load(folder: Path, run: str, clients: int, parameters: int) -> Checkpoint | None:
    """The newest whole checkpoint of the run with fingerprint ``run``, or None where none was ever written.

    Raises CheckpointError if it belongs to another run, or if all are damaged.
    """
    if not any_in(folder):
        return None
    found, fingerprint = newest(folder)
    if fingerprint != run:
        raise CheckpointError(
            f"{folder} belongs to another run: configuration, data or model differ from those it was written with "
            "(a model that another version of JAX compiles, or another kind of device starts, counts as another); "
            "resume with the run's own, or start anew in another folder"
        )
    models, assignment = found.state.models, found.state.assignment
    if models.shape[1:] != (parameters,) or assignment.shape != (clients,):
        raise CheckpointError(
            f"{folder}: expected models of {parameters} parameters and {clients} clients, "
            f"got shapes {models.shape} and {assignment.shape}"
        )
    return found


def newest(folder: Path) -> tuple[Checkpoint, str]:
    """The newest checkpoint that is whole, and the fingerprint of its run.

    Raises CheckpointError where there is none.
    """
    damage: list[str] = []
    for path in _newest_first(folder):
        try:
            found = _read(path)
        except _DamageError as error:
            damage.append(f"{path.name}: {error}")
            continue
        if damage:
            _log.warning("%s: taking an older checkpoint, %s (%s)", folder, path.name, "; ".join(damage))
        return found
    why = "; ".join(damage) or "there is none"
    raise CheckpointError(f"no checkpoint in {folder} can be read ({why}); start the run anew")


def any_in(folder: Path) -> bool:
    """Whether a checkpoint was ever finished here."""
    return bool(_newest_first(folder))


class _DamageError(Exception):
    """One file cannot be used."""


def _newest_first(folder: Path) -> list[Path]:
    """By number: the millionth round has a digit more than others."""
    numbers = {
        path: re.fullmatch(r"round-(\d+)\.safetensors", path.name) for path in folder.glob("round-*.safetensors")
    }
    rounds = {path: int(match[1]) for path, match in numbers.items() if match}
    return sorted(rounds, key=lambda path: rounds[path], reverse=True)


def _read(path: Path) -> tuple[Checkpoint, str]:
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["fedkin"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        if header["layout"] != LAYOUT:
            raise _DamageError(f"another version of fedkin wrote it (layout {header['layout']}, here {LAYOUT})")
        whole = header.pop("digest") == _digest(header, arrays)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _DamageError(" ".join(str(error).split()) or type(error).__name__) from error
    if not whole:
        raise _DamageError("its content is not what was written")
    memory = {name.removeprefix(_MEMORY): arrays.pop(name) for name in list(arrays) if name.startswith(_MEMORY)}
    state = _checked(header["state"], arrays)
    found = Checkpoint(header["round"], state, header["down"], header["up"], header["seconds"], memory)
    return found, header["run"]


def _checked(kind_name: str, arrays: dict[str, np.ndarray]) -> State:
    kind = _state_types().get(kind_name)
    if kind is None or {f.name for f in fields(kind)} != set(arrays):
        raise _DamageError(f"it holds a state of unknown kind {kind_name!r}; import its method first")
    state = kind(**arrays)
    if not np.isfinite(state.models).all():
        raise _DamageError("its models are not finite")
    if len(state.assignment) and not UNASSIGNED <= state.assignment.min() <= state.assignment.max() < len(state.models):
        raise _DamageError(f"its assignment names clusters outside 0..{len(state.models) - 1}")
    return state


def _arrays(state: State) -> dict[str, np.ndarray]:
    arrays = {f.name: getattr(state, f.name) for f in fields(state)}
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray):
            raise MethodError(
                f"{type(state).__name__}.{name} must be a NumPy array to be kept in a checkpoint, "
                f"got {type(value).__name__}"
            )
    return {name: np.asarray(value, order="C") for name, value in arrays.items()}


def _digest(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape};".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _type_name(kind: type[State]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _state_types() -> dict[str, type[State]]:
    """Every kind of state that has been defined: a name in a file never imports anything."""

    def descend(kind: type[State]) -> Iterator[type[State]]:
        yield kind
        for child in kind.__subclasses__():
            yield from descend(child)

    return {_type_name(kind): kind for kind in descend(State)}
