"""Starts the parts of a deployment (SuperLink, run, sites) in the order in which they need each
other."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy import flower_commands, plain_superlink
from fedkin.server.deploy.log_files import rotate_output
from fedkin.server.deploy.processes import SITE, STARTER, SUPERLINK, Program, Started, start
from fedkin.server.deploy.selection import Selection

_TIMEOUT = 120.0  # seconds that a step may take
_PAUSE = 0.1  # seconds between polls
_READY = re.compile(r"is connected to|SuperNode ID|refused; trying again")  # in a site's log
_WAITS = (
    "waits: the server does not know its key (flwr supernode register at the server), or it was "
    "killed within the last minute"
)
_ERROR = "error: "  # prefix of an error of Flower's commands
_TAIL = 12  # number of log lines shown in an error
Say = Callable[[str], None]


@dataclass(frozen=True)
class Missing:
    """The parts of a deployment (SuperLink, sites, run) that ``fedkin deploy up`` has to start."""

    superlink: bool
    sites: list[Program]
    run: bool


def parts_of(selection: Selection) -> list[Program]:
    """The long-running programs (SuperLink, sites) of the selected parts of a deployment."""
    server = [Program(selection.folder.resolve(), SUPERLINK)] if selection.server else []
    return [*server, *(Program(path.resolve(), SITE) for path in selection.sites.values())]


def start_parts(selection: Selection, missing: Missing, say: Say) -> None:
    """Start the missing parts of a deployment (SuperLink, sites, run), and wait until each of them
    runs.

    The sites start as soon as their keys are registered, while the run is still being started.

    Args:
        selection: the selected parts.
        missing: the parts to start.
        say: called with a line about each step.

    Raises:
        ConfigError: a program exited right after its start, or Flower refused a key or the run.
        StorageError: a log cannot be written.
    """
    register: list[str] = []
    if selection.server and _is_secure(selection):
        register = [part.name for part in missing.sites]
    for part in missing.sites:
        rotate_output(part.log)
    # Programs append to their logs, so only what follows the present end is of this start.
    offsets = {part: _size(part.log) for part in missing.sites}
    starter = None
    superlink = None
    if missing.superlink:
        superlink = start_superlink(selection.folder.resolve())
        say(f"the SuperLink, at {files.read_address(selection.folder / files.FLOWER)}")
    if selection.server and (register or missing.run):
        steps = [*(["--run"] if missing.run else []), "--register", *register]
        starter = Starter(selection.folder.resolve(), steps, superlink)
        starter.wait_for(flower_commands.REGISTERED)
        if register:
            say(f"registered: {', '.join(register)}")
    started = {
        part: start(part, _site_command(part), _variables(part.folder)) for part in missing.sites
    }
    if starter is not None and missing.run:
        say(f"the run {starter.wait_for(flower_commands.RUN)}")
    for part, process in started.items():
        say(f"{part.name}: {_wait_for_site(part, process, offsets[part])}")


def _size(log: Path) -> int:
    """Size of a log in bytes; 0 if it does not exist."""
    return log.stat().st_size if log.exists() else 0


def _is_secure(selection: Selection) -> bool:
    """Whether the deployment uses keys and certificates."""
    return files.read_address(selection.folder / files.FLOWER).secure


def start_superlink(folder: Path) -> Started:
    """Start the SuperLink of a deployment. Raises ConfigError if it exits at once."""
    address = files.read_address(folder / files.FLOWER)
    options = [word for line in files.superlink_options(address) for word in line]
    command = [sys.executable, "-m", plain_superlink.__name__, *options]
    program = Program(folder, SUPERLINK)
    rotate_output(program.log)
    process = start(program, command, _variables(folder))
    time.sleep(_PAUSE)
    _refuse_ended(process, folder)
    return process


def _refuse_ended(superlink: Started | None, folder: Path) -> None:
    """Raise ConfigError with the last lines of its log if the SuperLink has ended; None if this
    command has not started it."""
    if superlink is not None and superlink.poll() is not None:
        raise ConfigError(
            f"the SuperLink ended right after its start:\n{_tail(folder / 'superlink.log')}"
        )


def _site_command(part: Program) -> list[str]:
    """The command that runs a site."""
    return [sys.executable, "-m", "fedkin.cli", "deploy", "node", str(part.folder)]


def _variables(folder: Path) -> dict[str, str]:
    """The environment variables of programs that start in the server's or a site's folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**files.read_environment(folder), "FLWR_HOME": str(folder / "flwr"), "PATH": path}


class Starter:
    """The process that registers the sites' keys and starts the run, and its output so far."""

    def __init__(
        self, folder: Path, steps: Sequence[str], superlink: Started | None = None
    ) -> None:
        """Start the process. One process does all steps, so that Flower is imported only once.

        Args:
            folder: folder of the deployment.
            steps: options of ``flower_commands``, such as ``--register site-0``.
            superlink: the SuperLink's process if this command has started it.
        """
        command = [sys.executable, "-m", flower_commands.__name__, *steps]
        self._folder = folder
        self._superlink = superlink
        self.lines: list[str] = []
        self._process = start(Program(folder, STARTER), command, _variables(folder), piped=True)
        # Read in the background, so that ``wait_for`` sees the sites registered before the run has
        # started.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, word: str) -> str:
        """The rest of the first output line that begins with a word.

        Raises ConfigError if the process or the SuperLink ends, or a time limit passes, without
        such a line.
        """
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end:
            # Asked before the lines are read, so that the last lines are not missed.
            ended = self._process.poll() is not None and not self._reader.is_alive()
            for line in self.lines:
                if line.split(" ")[0] == word:
                    return line.removeprefix(word).strip()
            if ended:
                break
            _refuse_ended(self._superlink, self._folder)
            time.sleep(_PAUSE)
        errors = [line.removeprefix(_ERROR) for line in self.lines if line.startswith(_ERROR)]
        said = "\n".join(errors or self.lines[-_TAIL:])
        raise ConfigError(
            f"{said or 'the commands that register sites and start the run gave no output'} "
            f"(see {self._folder / 'superlink.log'})"
        )

    def _read(self) -> None:
        """Collect the output of Flower's commands, line by line, until their process ends."""
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))


def _wait_for_site(part: Program, process: Started, offset: int) -> str:
    """Wait until a site is connected or refused, and say which. Raises ConfigError if it exits.

    Args:
        part: the site.
        process: the site's process.
        offset: size of the site's log before its start, in bytes.
    """
    end = time.monotonic() + _TIMEOUT
    while time.monotonic() < end:
        text = part.log.read_bytes()[offset:].decode(errors="replace")
        if match := _READY.search(text):
            waits = match[0].startswith("refused")
            return _WAITS if waits else "is connected"
        if process.poll() is not None:
            raise ConfigError(f"{part.name} ended right after its start:\n{_tail(part.log)}")
        time.sleep(_PAUSE)
    return f"has not reached the server yet; see {part.log}"


def _tail(log: Path) -> str:
    """The last lines of a log, to be shown in an error."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])
