"""Starts, finds and ends a deployment's programs on this machine. They outlive the terminal.

Each program has a mark in its environment, which its child processes inherit. Linux's ``/proc``
shows the marks, so all processes can be found even if their parents have died. No list of processes
is stored, so none can be out of date.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError, StorageError

MARK = "FEDKIN_PART"
SUPERLINK = "superlink"
SITE = "site"
STARTER = "starter"
SERVERAPP = "flwr-serverapp"  # part of the command line of a run's process
SUPEREXEC = "flower-superexec"  # of the process of Flower that starts those of runs and messages
GRACE = {SERVERAPP: 5.0, SITE: 8.0, SUPERLINK: 8.0}  # seconds that a program has to exit
_PROC = Path("/proc")
_PAUSE = 0.1  # seconds between polls
_MOMENT = 0.001  # seconds between two looks at a process that has just been started
Started = subprocess.Popen[bytes]
_children: list[Started] = []  # child processes of this process, which it must wait for


@dataclass(frozen=True)
class Program:
    """A long-running program of a deployment, identified by its folder and its kind."""

    folder: Path
    kind: str

    @property
    def name(self) -> str:
        """The program's name in messages."""
        return self.folder.name if self.kind == SITE else self.kind

    @property
    def mark(self) -> str:
        """The value in the environment of the program's processes, by which ``find`` finds them."""
        return f"{self.folder.resolve()}:{self.kind}"

    @property
    def log(self) -> Path:
        """The file for the program's output."""
        return self.folder / f"{self.kind}.log"


@dataclass(frozen=True)
class Process:
    """A running process."""

    number: int
    parent: int
    command: str
    started: float  # seconds since the epoch


def require_proc() -> None:
    """Raise ConfigError on a system that does not show the environment of its processes."""
    if not (_PROC / "self" / "environ").exists():
        raise ConfigError(
            "fedkin deploy up finds its processes in Linux's /proc, which this system does not "
            "have; start the programs with the commands in COMMANDS.md"
        )


def find(parts: Collection[Program]) -> dict[Program, list[Process]]:
    """The processes of each part (program of a deployment), oldest first, including child
    processes."""
    marks = {f"{MARK}={part.mark}".encode(): part for part in parts}
    processes: dict[Program, list[Process]] = {part: [] for part in parts}
    for entry in _PROC.glob("[0-9]*"):
        # In a container, this process has the mark too.
        if int(entry.name) == os.getpid():
            continue
        # A process may belong to another user, or may have ended a moment ago.
        with suppress(OSError, ValueError):
            variables = set((entry / "environ").read_bytes().split(b"\0"))
            for mark in marks.keys() & variables:
                processes[marks[mark]].append(_process(entry))
    for of_part in processes.values():
        of_part.sort(key=lambda process: (process.started, process.number))
    return processes


def is_up(part: Program) -> bool:
    """Whether a program of a deployment itself runs, and not only child processes that outlived
    it."""
    return bool(leaders(find([part])[part]))


def leaders(processes: Sequence[Process]) -> list[Process]:
    """The processes of a program whose parent is not one of them: the program itself, and any
    process whose parent has ended.

    Helpers, such as a site's worker, are left out.

    Args:
        processes: all processes of one program, as ``find`` returns them.
    """
    numbers = {process.number for process in processes}
    return [
        process
        for process in processes
        if process.parent not in numbers and not _is_helper(process)
    ]


def start(
    part: Program, command: Sequence[str], variables: Mapping[str, str], piped: bool = False
) -> Started:
    """Start a program of a deployment in its folder, in a separate session.

    Args:
        part: the program's folder, kind and log.
        command: the program and its options.
        variables: variables that are added to this process's environment.
        piped: whether this process reads the program's output; otherwise the output goes to the
            log.

    Raises:
        StorageError: the log cannot be written.
        ConfigError: the program does not exist.
    """
    environment = {**os.environ, **variables, MARK: part.mark}
    try:
        log = open(os.devnull if piped else part.log, "ab")
    except OSError as error:
        raise StorageError(f"the log {part.log} cannot be written: {error.strerror}") from error
    with log:
        try:
            process = subprocess.Popen(
                command,
                cwd=part.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that the program outlives the terminal
            )
        except FileNotFoundError as error:
            raise ConfigError(f"{command[0]} was not found; add its folder to PATH") from error
    _children.append(process)
    _await_environment(process)
    return process


def _await_environment(process: Started) -> None:
    """Wait until ``find`` can see a new process, or until it has ended.

    Linux lets the parent go on a moment before ``/proc`` shows the environment of the new program.
    """
    variables = _PROC / str(process.pid) / "environ"
    with suppress(OSError):
        while process.poll() is None and not variables.read_bytes():
            time.sleep(_MOMENT)


def stop(parts: Collection[Program], grace: float, only: str = "") -> None:
    """Terminate programs of a deployment. Processes that still run after ``grace`` seconds are
    killed.

    Args:
        parts: the programs, which are terminated at the same time.
        grace: seconds that a program has to exit.
        only: end only processes with this text in their command line; empty for all.
    """
    # A program ends its own helpers. With `only`, helpers themselves are to end, and `leaders`
    # would leave them out.
    for processes in _matching(parts, only).values():
        for process in processes if only else leaders(processes):
            _signal(process, signal.SIGTERM)
    end = time.monotonic() + grace
    asked: set[int] = set()
    while any((running := _matching(parts, only)).values()):
        late = time.monotonic() > end
        for processes in running.values():
            if late:
                for process in processes:
                    _signal(process, signal.SIGKILL)
            else:
                _end_pollers(processes, asked)
        time.sleep(_PAUSE)
    # `poll` collects children that have ended, or they would remain as zombie processes.
    _children[:] = [child for child in _children if child.poll() is None]


def _end_pollers(processes: Sequence[Process], asked: set[int]) -> None:
    """Terminate the helpers of an ended program that start its processes.

    Flower's helper ends with its program. But it notices the end only between two attempts to
    reach its program, and the pauses between these grow to many seconds.

    Args:
        processes: the processes of one program.
        asked: ids of the helpers that were asked before; changed in place.
    """
    if leaders(processes):
        return
    for process in processes:
        if SUPEREXEC in process.command and process.number not in asked:
            asked.add(process.number)
            _signal(process, signal.SIGTERM)


def _matching(parts: Collection[Program], only: str) -> dict[Program, list[Process]]:
    """The processes of each program whose command line contains ``only``; all if ``only`` is empty.

    For example, ``SERVERAPP`` selects the run's process among those of the SuperLink.
    """
    return {
        part: [process for process in processes if only in process.command]
        for part, processes in find(parts).items()
    }


def _signal(process: Process, number: int) -> None:
    """Send a signal to a process, which may have ended a moment ago."""
    with suppress(ProcessLookupError):
        os.kill(process.number, number)


def _is_helper(process: Process) -> bool:
    """Whether a process is a helper of a program (e.g. a site's worker), which ends with it."""
    return any(
        name in process.command
        for name in (SUPEREXEC, SERVERAPP, "flwr-clientapp", "deploy.worker")
    )


def _process(entry: Path) -> Process:
    """A process, from its folder in ``/proc``. Raises OSError if it has ended."""
    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    # The command's name may contain spaces and brackets, so fields count from its last bracket on:
    # field 1 is the parent, field 19 the start in clock ticks after the machine's start.
    fields = (entry / "stat").read_text().rpartition(")")[2].split()
    started = _boot_time() + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return Process(int(entry.name), int(fields[1]), command, started)


def _boot_time() -> float:
    """When this machine started, in seconds since the epoch."""
    lines = (_PROC / "stat").read_text().splitlines()
    line = next(line for line in lines if line.startswith("btime"))
    return float(line.split()[1])
