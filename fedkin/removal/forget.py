"""``fk.forget``: removes clients from a finished run by training the affected models again without
them."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.object_repr import shell_command
from fedkin.core.storage import storage_errors, user_path, write_atomic
from fedkin.removal.experiment import Recorded
from fedkin.removal.forgotten import Forgotten, record_of
from fedkin.removal.plan import ReplayPlan, takes_part
from fedkin.removal.refusals import check_clients, check_run, took_no_part
from fedkin.removal.replay import PartitionChangedError, ReplayedMethod
from fedkin.run.callbacks import OnRound
from fedkin.run.folder import checkpoint, integrity
from fedkin.run.folder.fingerprint import environment, environment_changes
from fedkin.run.folder.lock import folder_lock
from fedkin.run.folder.run_folder import (
    CHECKPOINTS,
    ENVIRONMENT,
    FORGOTTEN,
    SUMMED,
    refuse_others,
)
from fedkin.run.interruption import interruptible
from fedkin.run.run import Run

_log = logging.getLogger("fedkin")


def forget(
    run: Run | str | Path,
    clients: Sequence[int | str],
    out: str | Path | None = None,
    *,
    replace: bool = False,
    every_cluster: bool = False,
    on_plan: Callable[[ReplayPlan], object] | None = None,
    on_round: OnRound | None = None,
) -> Forgotten:
    """Remove clients from a finished simulated run, by training the affected models again without
    them.

    The new run has the bits of a run with the same seed and the same cohorts in which these clients
    never replied (``Population(silent=...)``), on the same machine and with the same versions.
    Models that these clients never touched are taken from the recorded run.

    Args:
        run: the run, or its folder. The more checkpoints it has kept
            (``Scoring(keep_checkpoints=True)``), the less is trained again.
        clients: names or positions of the clients.
        out: a new folder for the run without the clients. None: it is not saved.
        replace: whether the new run takes the place of the recorded one, which is deleted.
        every_cluster: whether all clusters and rounds are trained again.
        on_plan: called with the plan before anything is trained, and again if the replay finds that
            all must be trained.
        on_round: called with the record of every round.

    Returns:
        The new run, and the record of the replay.

    Raises:
        ConfigError: a client is unknown or took no part; the run has real sites, or options that
            cannot be repeated; or its objects cannot be rebuilt.
        CheckpointError: the data or the model are not those of the run.
        StorageError: the folder cannot be written, or holds a run; or a process was killed while it
            replaced the recorded run, which is still next to its folder.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> done = fk.forget(run, clients=[3])
        >>> len(done.record["clients_with_another_model"])
        5
    """
    loaded = run if isinstance(run, Run) else recorded_run(run)
    target = _target(loaded, out, replace)
    recorded, plan = prepare(loaded, clients, every_cluster)
    with folder_lock(target), interruptible(), _work_folder(target) as work:
        plan, after, method = _replayed(
            recorded, plan, work=work, on_plan=on_plan, on_round=on_round
        )
        record = record_of(
            loaded,
            after,
            plan=plan,
            method=method,
            names=client_names(loaded, plan),
            environment=_environment_changes(loaded),
        )
        _finish(work, plan, method=method, kept=recorded.history.kept, record=record)
        parts = dataclasses.replace(recorded.parts)
        if target is None:
            return Forgotten(dataclasses.replace(after, folder=None, made_of=parts), record)
        _move(work, target, replace)
        return Forgotten(dataclasses.replace(after, folder=target, made_of=parts), record)


def recorded_run(folder: str | Path) -> Run:
    """The run in a folder.

    Raises StorageError if a process was killed while it replaced this run, so that the run is still
    next to its folder; the other errors are those of ``Run.load``.
    """
    path = user_path(folder)
    before = _place_before(path)
    if not path.exists() and before.exists():
        raise StorageError(
            f"{path} is missing: a process was killed while it replaced this run, which is now in "
            f"{before}; move it back: {shell_command('mv', before, path)}"
        )
    return Run.load(path)


def prepare(
    run: Run, clients: Sequence[int | str], every_cluster: bool = False
) -> tuple[Recorded, ReplayPlan]:
    """Rebuild a run, and plan its replay without some clients. Nothing is trained.

    Args:
        run: the run.
        clients: names or positions of the clients.
        every_cluster: whether all clusters and rounds are trained again.

    Raises:
        ConfigError, CheckpointError: as ``forget``.
    """
    check_run(run)
    if isinstance(clients, (str, int)):
        raise ConfigError(f"clients must be a list, such as clients=[{clients!r}]")
    recorded = Recorded.of(run)
    numbers = sorted({run.trained.client_number(client) for client in clients})
    check_clients(numbers, run)
    asked_for = "all clusters and rounds were asked for" if every_cluster else ""
    plan = recorded.plan(numbers, asked_for)
    one_model = recorded.separation.models == "one"
    for number in numbers:
        if not takes_part(number, recorded.history, one_model):
            raise took_no_part(_name(run, number))
    return recorded, plan


def client_names(run: Run, plan: ReplayPlan) -> list[str]:
    """The names of a plan's clients; their numbers if they have no names."""
    return [_name(run, client) for client in plan.clients]


def _name(run: Run, client: int) -> str:
    """The name of a client; its number if it has no name."""
    names = run.trained.parts.data.client_names
    return str(client) if names is None else str(names[client])


def _replayed(
    recorded: Recorded,
    plan: ReplayPlan,
    work: Path,
    on_plan: Callable[[ReplayPlan], object] | None,
    on_round: OnRound | None,
) -> tuple[ReplayPlan, Run, ReplayedMethod]:
    """Replay a run by its plan; if other clients train other clusters than in the recorded run, by
    the plan that repeats everything. Returns the plan that was carried out, the run and the
    method."""
    if on_plan:
        on_plan(plan)
    try:
        return plan, *recorded.replay(plan, work / "run", on_round)
    except PartitionChangedError as error:
        why = str(error)
    _log.warning("%s, so every round of every cluster is trained again", why)
    shutil.rmtree(work / "run", ignore_errors=True)
    whole = recorded.plan(list(plan.clients), why)
    if on_plan:
        on_plan(whole)
    return whole, *recorded.replay(whole, work / "run", on_round)


def _target(run: Run, out: str | Path | None, replace: bool) -> Path | None:
    """The folder of the new run. Raises ConfigError or StorageError for an invalid choice."""
    if not replace:
        target = user_path(out) if out is not None else None
        if target is not None:
            refuse_others(target, SUMMED)
            if target.exists() and any(target.iterdir()):
                raise StorageError(f"{target} is not empty; choose another folder")
        return target
    if out is not None:
        raise ConfigError("out and replace exclude each other: give a folder, or replace the run")
    if run.folder is None:
        raise ConfigError("replace needs a run with a folder; this run was not saved")
    before = _place_before(run.folder)
    if before.exists():
        raise StorageError(
            f"{before} is left from a process that was killed while it replaced {run.folder}; it "
            "holds the earlier run: move or delete it"
        )
    return run.folder


@contextmanager
def _work_folder(target: Path | None) -> Iterator[Path]:
    """A folder next to the target in which the replay is written. It is removed at the end, so that
    an interrupted replay leaves nothing behind."""
    parent = Path(tempfile.gettempdir()) if target is None else target.absolute().parent
    with storage_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        work = tempfile.TemporaryDirectory(prefix=".forget-", dir=parent)
    with work as name:
        yield Path(name)


def _finish(
    work: Path, plan: ReplayPlan, method: ReplayedMethod, kept: list[int], record: dict
) -> None:
    """Write the record of a removal, and delete checkpoints whose models are not all known.

    Args:
        work: the folder that holds the new run.
        plan: the plan that was carried out.
        method: the method as it was replayed.
        kept: rounds with a checkpoint in the recorded run.
        record: the content of the record.
    """
    folder = work / "run"
    partial = not plan.why_all and (method.starts > plan.start).any()
    for round in checkpoint.stored_rounds(folder / CHECKPOINTS):
        if partial and round not in (*kept, 0, plan.rounds):
            checkpoint.remove(folder / CHECKPOINTS, round)
    write_atomic(folder / FORGOTTEN, json.dumps(record, indent=1) + "\n")
    integrity.write_sums(folder, SUMMED)


def _move(work: Path, target: Path, replace: bool) -> None:
    """Move the finished run to its place; with ``replace``, delete the recorded run."""
    with storage_errors(target):
        if replace:
            _swap(work, target)
            return
        if target.exists():
            target.rmdir()  # it is empty
        shutil.move(work / "run", target)


def _swap(work: Path, target: Path) -> None:
    """Put the finished run in the place of the recorded one. If this fails or is interrupted, the
    recorded run is in its place again."""
    before = _place_before(target)
    try:
        # The recorded run stays outside ``work``, which is deleted at the end, until the new run
        # is in its place.
        target.rename(before)
        (work / "run").rename(target)
        before.rename(work / "before")
    except BaseException:
        if before.exists():
            if target.exists():
                target.rename(work / "run")
            before.rename(target)
        raise


def _place_before(target: Path) -> Path:
    """The folder next to a run that holds the run while another one takes its place."""
    folder = target.absolute()
    return folder.with_name(f".{folder.name}.before")


def _environment_changes(run: Run) -> str:
    """Differences between the environment of a stored run and this one; empty if there are none or
    the run was never stored."""
    if run.folder is None:
        return ""
    try:
        stored = json.loads((run.folder / ENVIRONMENT).read_text())
    except (OSError, ValueError):
        return "the environment of the recorded run is unknown"
    return environment_changes(stored, environment(run.config))
