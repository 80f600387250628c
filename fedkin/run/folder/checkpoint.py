"""Checkpoints of a run: the arrays of a method's state and a few numbers, without pickle.

A checkpoint is one file, encoded by ``core.codec``. Its header has the round, the ledger (bytes by
operation), a digest of all contents and the run's fingerprint (digest of settings, data and model).
The file is written atomically, so it is always complete.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedkin.core.codec import content_digest, decode, encode
from fedkin.core.errors import CheckpointError, MethodError
from fedkin.core.integer_compression import compact, expand
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.records import Record
from fedkin.core.shared_rows import SharedRows
from fedkin.core.storage import storage_errors, write_atomic

NEWEST = 2  # number of checkpoints that a run keeps, unless it keeps all
LAYOUT = "6"  # version of the header; files of other versions are refused
_BEST = "best/"  # prefix of the best round's arrays
_MEMORY = "memory/"  # prefix of arrays that are not part of the state
_OPTIONS = "options/"  # prefix of an option's section and array name
_log = logging.getLogger("fedkin")


@dataclass(frozen=True)
class BestRound:
    """The round with the best score on validation samples; the first of ties. Only complete
    rounds count, in which every reachable client was evaluated.

    Attributes:
        round: the round's number.
        score: score on validation samples.
        state: the method's state after that round.
        memory: arrays that clients keep (a personal part of their models); empty if they keep none.
    """

    round: int
    score: float
    state: State
    memory: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint, from which a run can resume.

    Attributes:
        round: the last completed round.
        state: the method's state.
        down, up: downloaded and uploaded bytes so far, by operation. They are computed from the
            sizes of the arrays that tasks declare.
        seconds: wall time so far.
        memory: arrays that simulated clients and the metrics of the clustering keep from round to
            round.
        measured_down, measured_up: bytes of real messages so far, by operation; empty in a
            simulation.
        best: the best round, if validation samples select one.
        stopped: round and reason of an early stop (``run.stopping``); None if there was none.
        records: digests of the record files up to this round, by name.
    """

    round: int
    state: State
    down: dict[str, int]
    up: dict[str, int]
    seconds: float
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    measured_down: dict[str, int] = field(default_factory=dict)
    measured_up: dict[str, int] = field(default_factory=dict)
    best: BestRound | None = None
    stopped: Record | None = None
    records: dict[str, str] = field(default_factory=dict)


def save(folder: Path, checkpoint: Checkpoint, run: str, keep: int | None = NEWEST) -> Path:
    """Write a checkpoint, and remove all but the newest ones.

    Args:
        folder: folder of the run's checkpoints; created if missing.
        checkpoint: the checkpoint.
        run: the run's fingerprint.
        keep: number of checkpoints to keep; None: all.

    Raises:
        StorageError: the disk is full or cannot be written.
        MethodError: the state does not consist of arrays.
    """
    arrays = _with_memory(checkpoint.state, checkpoint.memory)
    header: dict[str, Any] = {
        "layout": LAYOUT,
        "run": run,
        "state": _type_name(type(checkpoint.state)),
        "round": checkpoint.round,
        "down": checkpoint.down,
        "up": checkpoint.up,
        "seconds": checkpoint.seconds,
    }
    if checkpoint.measured_down or checkpoint.measured_up:
        header["measured"] = [checkpoint.measured_down, checkpoint.measured_up]
    if best := checkpoint.best:
        header["best"] = [best.round, best.score, _type_name(type(best.state))]
        arrays |= {
            _BEST + name: array for name, array in _with_memory(best.state, best.memory).items()
        }
    if checkpoint.stopped:
        header["stopped"] = checkpoint.stopped
    if checkpoint.records:
        header["records"] = checkpoint.records
    arrays, shapes = compact(arrays)
    if shapes:
        header["compact"] = shapes  # these arrays are compressed (``core.integer_compression``)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    header["digest"] = content_digest(header, arrays)
    path = folder / _file_name(checkpoint.round)
    write_atomic(path, encode(header, arrays))
    if keep is not None:
        with storage_errors(folder):
            for old in _newest_first(folder)[keep:]:
                old.unlink()
    return path


def load(folder: Path, run: str, clients: int, parameters: int) -> Checkpoint | None:
    """The newest intact checkpoint, to resume from; None if none was ever written.

    Args:
        folder: folder of the run's checkpoints.
        run: the run's fingerprint.
        clients: N, the number of clients.
        parameters: P, the number of parameters.

    Raises CheckpointError if the checkpoint belongs to another run, or if all are damaged.
    """
    if not any_in(folder):
        return None
    stored = _newest(folder)
    if stored.run != run:
        raise CheckpointError(
            f"{folder} belongs to another run: its configuration, data or model differ (a model "
            "compiled by another version of JAX, or initialised on another kind of device, "
            "counts as different); resume with the configuration, data and model of that run, or "
            "start again in another folder"
        )
    models = stored.checkpoint.state.models
    assignment = stored.checkpoint.state.assignment
    if models.shape[1:] != (parameters,) or assignment.shape != (clients,):
        raise CheckpointError(
            f"{folder}: expected models of {parameters} parameters and {clients} clients, got "
            f"models of shape {models.shape} and an assignment of clients of shape "
            f"{assignment.shape}; start again in another folder"
        )
    return stored.checkpoint


def newest(folder: Path) -> tuple[Checkpoint, str]:
    """The newest intact checkpoint in a folder, and the run's fingerprint.

    Raises CheckpointError if there is none.
    """
    stored = _newest(folder)
    return stored.checkpoint, stored.run


class _Stored(NamedTuple):
    """A checkpoint file's contents: the checkpoint and the run's fingerprint."""

    checkpoint: Checkpoint
    run: str  # fingerprint


def _newest(folder: Path) -> _Stored:
    """The newest intact checkpoint in a folder. Newer ones that are damaged are skipped with a
    warning."""
    damage: list[str] = []
    for path in _newest_first(folder):
        try:
            stored = _read(path)
        except _DamageError as error:
            damage.append(f"{path.name}: {error}")
            continue
        if damage:
            _log.warning(
                "%s: the newest checkpoint is damaged, so the older %s is used (%s)",
                folder,
                path.name,
                "; ".join(damage),
            )
        return stored
    why = "; ".join(damage) or "there is none"
    raise CheckpointError(f"no checkpoint in {folder} can be read ({why}); start the run again")


def any_in(folder: Path) -> bool:
    """Whether a folder has a completely written checkpoint."""
    return bool(_newest_first(folder))


def last_round(folder: Path) -> int | None:
    """The round of the newest checkpoint in a folder; None if there is none."""
    newest_first = _newest_first(folder)
    return _round_of(newest_first[0]) if newest_first else None


def stored_rounds(folder: Path) -> list[int]:
    """The rounds of all checkpoints in a folder, ascending. Damaged ones are among them."""
    return sorted(_round_of(path) for path in _newest_first(folder))


def of_round(folder: Path, round: int) -> Checkpoint:
    """The checkpoint of a round.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    path = folder / _file_name(round)
    try:
        return _read(path).checkpoint
    except _DamageError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def remove(folder: Path, round: int) -> None:
    """Delete the checkpoint of a round."""
    with storage_errors(folder):
        (folder / _file_name(round)).unlink(missing_ok=True)


def _file_name(round: int) -> str:
    """The file name of a round's checkpoint."""
    return f"round-{round:06d}.safetensors"


def _round_of(path: Path) -> int:
    """The round of a checkpoint file, by its name."""
    return int(path.stem.removeprefix("round-"))


def damaged(folder: Path) -> dict[str, str]:
    """The reason why a checkpoint is unreadable, by file name, for all unreadable checkpoints."""
    reasons: dict[str, str] = {}
    for path in _newest_first(folder):
        try:
            _read(path)
        except _DamageError as error:
            reasons[path.name] = str(error)
    return reasons


class _DamageError(Exception):
    """A checkpoint file is damaged or of another version."""


def _newest_first(folder: Path) -> list[Path]:
    """The checkpoint files in a folder, newest first. They are sorted by number, since the names of
    round 1,000,000 and later rounds are longer."""
    numbers = {
        path: re.fullmatch(r"round-(\d+)\.safetensors", path.name)
        for path in folder.glob("round-*.safetensors")
    }
    rounds = {path: int(match[1]) for path, match in numbers.items() if match}
    return sorted(rounds, key=lambda path: rounds[path], reverse=True)


def _read(path: Path) -> _Stored:
    """Read a checkpoint file. Raises _DamageError if its content differs from its digest."""
    try:
        header, arrays = decode(path.read_bytes())
        layout = header["layout"]
        if layout != LAYOUT:
            raise _DamageError(
                f"another version of fedkin wrote it (layout {layout}, expected {LAYOUT})"
            )
        whole = header.pop("digest") == content_digest(header, arrays)
        # Damaged arrays are not decompressed, since that may fail in any way.
        arrays = expand(arrays, header.get("compact", {})) if whole else arrays
    except (OSError, KeyError, ValueError) as error:
        raise _DamageError(" ".join(str(error).split()) or type(error).__name__) from error
    if not whole:
        raise _DamageError("its content differs from its digest")
    # Arrays with a prefix are taken out first, since all others must be fields of the state.
    best = _best(header.get("best"), _taken(arrays, _BEST))
    memory = _taken(arrays, _MEMORY)
    state = _state(header["state"], arrays)
    measured_down, measured_up = header.get("measured", ({}, {}))
    checkpoint = Checkpoint(
        round=header["round"],
        state=state,
        down=header["down"],
        up=header["up"],
        measured_down=measured_down,
        measured_up=measured_up,
        seconds=header["seconds"],
        memory=memory,
        best=best,
        stopped=header.get("stopped"),
        records=header.get("records", {}),
    )
    return _Stored(checkpoint, header["run"])


def _taken(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Remove from ``arrays`` those whose names begin with ``prefix``, and return the removed arrays
    by name without the prefix."""
    return {
        name.removeprefix(prefix): arrays.pop(name)
        for name in list(arrays)
        if name.startswith(prefix)
    }


def _best(described: list[Any] | None, arrays: dict[str, np.ndarray]) -> BestRound | None:
    """The best round of a checkpoint; None if the run has no validation samples to select one.

    Args:
        described: the entry about the best round in the checkpoint's header: round, score and
            class of the state.
        arrays: the arrays of the best round, by name, without the prefix that marks them in the
            file.
    """
    if described is None:
        return None
    round, score, type_name = described
    memory = _taken(arrays, _MEMORY)
    return BestRound(round, score, _state(type_name, arrays), memory)


def _state(type_name: str, arrays: dict[str, np.ndarray]) -> State:
    """The state of a method from the arrays of a checkpoint. Raises _DamageError if the class of
    the state is unknown, or if the arrays are invalid."""
    extras = _extras(arrays)
    state_type = _state_type(type_name, set(arrays))
    if state_type is None:
        raise _DamageError(
            f"it holds a state of the unknown type {type_name!r}; import its method first"
        )
    state = state_type(**arrays, extras=extras)
    if not np.isfinite(state.models).all():
        raise _DamageError("its models are not finite")
    assignment = state.assignment
    clusters = len(state.models)
    if len(assignment) and not UNASSIGNED <= assignment.min() <= assignment.max() < clusters:
        raise _DamageError(f"its assignment names clusters outside 0..{clusters - 1}")
    return state


def _extras(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Remove from ``arrays`` those that options store, and return them as a nested dictionary. Its
    keys are the section of the option in the configuration, and then the name of the array."""
    extras: dict[str, dict[str, np.ndarray]] = {}
    for name, array in _taken(arrays, _OPTIONS).items():
        section, _, own_name = name.partition("/")
        extras.setdefault(section, {})[own_name] = array
    return extras


def _with_memory(state: State, memory: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a state and of the clients' memory, by their names in a checkpoint file."""
    return _arrays(state) | {
        _MEMORY + name: np.asarray(array, order="C") for name, array in memory.items()
    }


def _arrays(state: State) -> dict[str, np.ndarray]:
    """The arrays of a state, and those that options store in it, by their names in a checkpoint
    file. Raises MethodError for a field that is not an array."""
    arrays = {name: getattr(state, name) for name in _array_names(type(state))}
    for section, of_option in state.extras.items():
        arrays |= {f"{_OPTIONS}{section}/{name}": array for name, array in of_option.items()}
    for name, value in arrays.items():
        if not isinstance(value, (np.ndarray, SharedRows)):
            raise MethodError(
                f"{type(state).__name__}.{name} must be a NumPy array or SharedRows to be stored "
                f"in a checkpoint, got {type(value).__name__}"
            )
    return {name: np.asarray(value, order="C") for name, value in arrays.items()}


def _array_names(kind: type[State]) -> set[str]:
    """Names of the fields of a state class that are arrays. The field ``extras`` is left out: it
    is a dictionary of options' arrays, each of which is stored under a separate name."""
    return {f.name for f in fields(kind)} - {"extras"}


def _needed_names(kind: type[State]) -> set[str]:
    """Names of the fields of a state class that are arrays and have no default."""
    own = [f for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return {f.name for f in own}


def _type_name(state_type: type[State]) -> str:
    """The name of a state class in a checkpoint: its module and qualified name."""
    return f"{state_type.__module__}.{state_type.__qualname__}"


def _state_type(name: str, arrays: set[str]) -> type[State] | None:
    """The state class with the name that a checkpoint stores. None if there is no such class.

    Only imported state classes are searched, and only those whose arrays have exactly the names
    ``arrays``. Arrays with a default may be missing, since an older version did not store them. A
    class that has moved to another module is found by its class name.
    """
    types = [
        kind for kind in _state_types(State) if _needed_names(kind) <= arrays <= _array_names(kind)
    ]
    # A class that was defined twice (e.g. in a notebook) has two entries; the last one is newer.
    exact = [kind for kind in types if _type_name(kind) == name]
    same_name = [kind for kind in types if kind.__name__ == name.rpartition(".")[2]]
    return exact[-1] if exact else same_name[0] if len(same_name) == 1 else None


def _state_types(base: type[State]) -> Iterator[type[State]]:
    """A state class and all its imported subclasses."""
    yield base
    for child in base.__subclasses__():
        yield from _state_types(child)
