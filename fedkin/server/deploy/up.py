"""``fedkin deploy up`` and ``down``: start or end all parts of a deployment (SuperLink, sites, run)
on this machine."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fedkin.config.server import load_client
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.place import refuse_copy, settle
from fedkin.server.deploy.processes import (
    GRACE,
    SERVERAPP,
    SITE,
    STARTER,
    SUPERLINK,
    Process,
    Program,
    find,
    leaders,
    require_proc,
    stop,
)
from fedkin.server.deploy.selection import Selection, select
from fedkin.server.deploy.site_node import needs_supernode
from fedkin.server.deploy.start_parts import Missing, Say, parts_of, start_parts
from fedkin.server.deploy.verdicts import former_state, say_who_takes_part


def up(folder: Path, *, server: bool = False, site: str | None = None, say: Say = print) -> bool:
    """Start the parts of a deployment that do not run yet: the SuperLink, the sites, and the run.

    If a part cannot be started, all parts that this call has started are ended.

    Args:
        folder: folder of the deployment, or of one site.
        server: whether to start only the server and the run.
        site: name of the only site; None for all.
        say: called with a line about each step.

    Returns:
        True on success; False if the server refuses a site, or has ended with an error.

    Raises:
        ConfigError: all parts run already, a port is in use, ``fedkin deploy check`` fails, the
            folder is a copy, or a program exited right after its start.
        StorageError: a log cannot be written.
    """
    # The import takes long, and `down` does without it.
    from fedkin.server.deploy.check_start import refuse_failed_checks

    require_proc()
    selection = select(folder, server=server, site=site)
    refuse_copy(folder)
    with one_at_a_time(folder):
        missing = _missing(selection, find(parts_of(selection)))
        if not (missing.superlink or missing.sites or missing.run):
            raise ConfigError(
                f"{folder} is up already, so nothing was started; see fedkin deploy status {folder}"
            )
        _refuse_ports(selection, missing)
        refuse_failed_checks(selection, missing)
        moved = settle(folder) if selection.holds_server else None
        if moved is not None:
            say(f"moved: {folder} was {moved}; its files now have the new path")
        # Read before any part starts, because later states are compared with it.
        former = former_state(selection, missing)
        with _all_or_none(missing, selection):
            start_parts(selection, missing, say)
    return say_who_takes_part(selection, missing, former, say)


def down(folder: Path, *, server: bool = False, site: str | None = None) -> list[Program]:
    """End the parts of a deployment (SuperLink, sites, run) and all their child processes.

    Args:
        folder: folder of the deployment, or of one site.
        server: whether to end only the server.
        site: name of the only site; None for all.

    Returns:
        The programs (SuperLink, sites) that were running.

    Raises:
        ConfigError: the folder holds no deployment.
    """
    require_proc()
    selection = select(folder, server=server, site=site)
    with one_at_a_time(folder):
        parts = parts_of(selection)
        # The run ends first, then the sites, then the SuperLink that connects them.
        starters = [Program(part.folder, STARTER) for part in parts if part.kind == SUPERLINK]
        processes = find(parts)
        stop(starters, 0.0)
        stop([part for part in parts if part.kind == SUPERLINK], GRACE[SERVERAPP], SERVERAPP)
        stop([part for part in parts if part.kind == SITE], GRACE[SITE])
        stop([part for part in parts if part.kind == SUPERLINK], GRACE[SUPERLINK])
        return [part for part in parts if processes[part]]


def restart(
    folder: Path, *, server: bool = False, site: str | None = None, say: Say = print
) -> bool:
    """Stop the parts of a deployment and start them again. The run resumes from its last
    checkpoint.

    Args:
        folder: folder of the deployment, or of one site.
        server: whether to restart only the server and the run.
        site: name of the only site; None for all.
        say: called with a line about each step.

    Returns:
        True on success; False if the server refuses a site, or has ended with an error.

    Raises:
        ConfigError, StorageError: as in ``up`` and ``down``.
    """
    ended = down(folder, server=server, site=site)
    say(f"ended: {', '.join(part.name for part in ended)}" if ended else "no part was running")
    return up(folder, server=server, site=site, say=say)


def _missing(selection: Selection, processes: Mapping[Program, Sequence[Process]]) -> Missing:
    """The selected parts of a deployment that do not run. A run with all its results is not
    missing."""
    # The import takes long, and `down` does without it.
    from fedkin.server.deploy.status import is_finished

    gone = [part for part, of_part in processes.items() if not leaders(of_part)]
    everything = [process for of_part in processes.values() for process in of_part]
    runs = any(SERVERAPP in process.command for process in everything)
    return Missing(
        superlink=any(part.kind == SUPERLINK for part in gone),
        sites=[part for part in gone if part.kind == SITE],
        run=selection.server and not runs and not is_finished(selection.folder),
    )


def _refuse_ports(selection: Selection, missing: Missing) -> None:
    """Raise ConfigError for ports in use by other programs.

    ``fedkin deploy check`` accepts a port on which a SuperLink of this federation listens. Here
    that is an error, because the SuperLink is to be started.
    """
    for part in missing.sites:
        try:
            config = load_client(part.folder / files.CLIENT)
        except ConfigError:
            # This error is a failed check, which is reported with all others.
            continue
        if needs_supernode(config):
            variables = files.read_environment(part.folder)
            port = int(variables.get("SUPERNODE_PORT", files.FIRST_PORT))
            refuse_port("127.0.0.1", port, part.name)
    if missing.superlink:
        address = files.read_address(selection.folder / files.FLOWER)
        refuse_port(address.bind_host, address.port, "the SuperLink")


def refuse_port(host: str, port: int, name: str) -> None:
    """Raise ConfigError if a port on this machine is in use.

    Args:
        host: the host that the program binds.
        port: the port.
        name: name of the program, for the message.
    """
    with socket.socket() as attempt:
        # A port that was released a moment ago counts as free.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} of {name} cannot be used: {error.strerror}; nothing was started. End "
                "the program that uses it, or choose another port"
            ) from error


@contextmanager
def _all_or_none(missing: Missing, selection: Selection) -> Iterator[None]:
    """End all parts of a deployment that ``up`` has started, if a later start fails or is
    interrupted."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, _interrupt) for number in numbers]
    try:
        yield
    except (FedkinError, OSError, KeyboardInterrupt):
        # A second signal must not leave some of the parts running.
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        folder = selection.folder.resolve()
        parts = [Program(folder, STARTER)]
        if missing.superlink:
            parts.append(Program(folder, SUPERLINK))
        stop([*parts, *missing.sites], 1.0)
        raise
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    """Signal handler that raises the error of Ctrl-C."""
    raise KeyboardInterrupt


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a deployment's lock. Raises ConfigError if another command (e.g. ``up``) has it."""
    lock = FileLock(folder / ".deploy.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ConfigError(
            f"another fedkin deploy command is running in {folder}; try again when it has ended"
        ) from None
    try:
        yield
    finally:
        lock.release()
