"""The command line in processes that kill themselves: ``python -m tests.process.killed_commands <
jobs.json``.

A job is [HOW, N, ARGUMENTS]: at the N-th time it comes to HOW, the process sends itself SIGKILL;
nothing is caught, flushed or cleaned up. Jobs are done one after another, each in a separate
fork, so that imports are paid once; the answer is a list of their exit codes, as
``os.waitstatus_to_exitcode`` gives them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedkin import cli
from fedkin.run import simulate
from fedkin.run.folder import checkpoint, run_folder

assert simulate  # all that is heavy is imported before the forks; JAX starts its threads after them


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at(number: int, call: Callable[..., Any], last_act: Callable[..., Any]) -> Callable[..., Any]:
    """The call, but ``last_act`` and death in its N-th place."""
    calls = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            last_act(*arguments)
            die()
        return call(*arguments, **options)

    return counted


def half_a_line(path: Path, line: str) -> None:
    """Write the first half of a line and no end of it."""
    with path.open("ab") as file:
        file.write(line[: len(line) // 2].encode())


def half_a_file(path: Path, content: bytes) -> None:
    """Write the first half of the hidden neighbour that should become the file."""
    path.with_name(f".{path.name}.part").write_bytes(content[: len(content) // 2])


def nothing(*_: Any, **__: Any) -> None:
    """Die just before."""


def install_trap(how: str, number: int) -> None:
    """Replace the function in whose N-th call the process dies."""
    if how == "before a rename":
        os.replace = at(number, os.replace, nothing)
    elif how == "before a sync":
        os.fsync = at(number, os.fsync, nothing)
    elif how == "in a line":
        run_folder.append_line = at(number, run_folder.append_line, half_a_line)
    elif how == "in a checkpoint":
        checkpoint.write_atomic = at(number, checkpoint.write_atomic, half_a_file)
    else:
        assert how == "never"


def do(how: str, number: int, arguments: list[str]) -> int:
    """Do one job; its exit code."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        install_trap(how, number)
        sys.argv = ["fedkin", *arguments]
        try:
            cli.main()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    """Do all jobs."""
    print(json.dumps([do(*job) for job in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
