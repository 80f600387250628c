"""State of a run's folder: the run's progress, and damage to its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fedkin.config import registry
from fedkin.core.errors import CheckpointError, FedkinError
from fedkin.run.folder import checkpoint, integrity, run_folder


@dataclass
class FolderState:
    """The state of the folder of one run.

    Attributes:
        path: the folder.
        method: the method's name; empty if unknown.
        recorded: the last round with a record; None if there is none.
        kept: round of the newest checkpoint, from which the run resumes; None without a checkpoint.
        rounds: configured number of rounds; None if unknown.
        finished: whether the folder has final results.
        problems: descriptions of damage; empty if there is none.
    """

    path: Path
    method: str = ""
    recorded: int | None = None
    kept: int | None = None
    rounds: int | None = None
    finished: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The run's progress as one line of text. Problems of its files are left out."""
        of = f" of {self.rounds}" if self.rounds is not None else ""
        at = f"round {self.recorded}{of}" if self.recorded is not None else f"no round{of} recorded"
        if self.finished:
            return f"finished, {at}"
        if self.kept is None:
            return (
                f"not finished, {at}, no checkpoint" if self.recorded is not None else "not started"
            )
        return f"not finished, {at}, resumes after round {self.kept}"


def states_of(path: Path) -> list[FolderState]:
    """The states of a run's folder and of the folders of the compared methods inside it.

    Args:
        path: the run's folder.
    """
    inner = [
        folder
        for folder in sorted((path / run_folder.AGAINST).glob("*"))
        if run_folder.holds_run(folder)
    ]
    return [state_of(folder) for folder in (path, *inner)]


def state_of(path: Path) -> FolderState:
    """The state of one run's folder. All damage is listed in ``problems``.

    Args:
        path: the run's folder.
    """
    state = FolderState(path, finished=(path / run_folder.SUMMARY).exists())
    try:
        config = run_folder.read_config(path)
        state.method = config.method_with_options
        state.rounds = config.rounds
        registry.define_states(config.method_name)
    except (FedkinError, KeyError, TypeError, AttributeError) as error:
        state.problems.append(_words(error, run_folder.CONFIG))
    try:
        records = run_folder.read_records(path)
        state.recorded = records[-1]["round"] if records else None
    except (FedkinError, KeyError, TypeError) as error:
        state.problems.append(_words(error, run_folder.METRICS))
    _check_checkpoints(path, state)
    return state


def _check_checkpoints(path: Path, state: FolderState) -> None:
    """Check all checkpoints of a run, and compare the record files with the newest intact
    checkpoint. Problems are added to ``state``."""
    folder = path / run_folder.CHECKPOINTS
    state.problems += [
        f"{folder / name}: {reason}" for name, reason in checkpoint.damaged(folder).items()
    ]
    if not checkpoint.any_in(folder):
        # Round 0 is recorded before the first checkpoint is written, so its record alone is no
        # sign of a loss.
        if state.finished or (state.recorded or 0) > 0:
            state.problems.append(f"{folder} has no checkpoint")
        return
    try:
        newest, _ = checkpoint.newest(folder)
        state.kept = newest.round
        # Only the models of a finished run must be from its last round; an unfinished run resumes
        # from an earlier one. ``missing_end`` reads only the round of the last record, so a record
        # with just this entry is enough.
        if state.finished and state.recorded is not None:
            state.problems += filter(
                None, [integrity.missing_end(path, [{"round": state.recorded}], newest)]
            )
        changed = integrity.changed_files(path, newest)
        state.problems += [f"{path / name} has changed since the run wrote it" for name in changed]
    except CheckpointError as error:
        state.problems.append(str(error))


def _words(error: Exception, name: str) -> str:
    """The text of an error from reading a file of the run folder. Only errors of fedkin name the
    file themselves, so the file's ``name`` is added to other errors."""
    return (
        str(error)
        if isinstance(error, FedkinError)
        else f"{name} is damaged ({type(error).__name__}: {error})"
    )
