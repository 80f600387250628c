"""The command line in forks of one process, so that imports are paid once: ``python -m
tests.p2p.fork_server``.

A line of JSON in, a line of JSON out: [LOG, ARGUMENTS] starts ``fedkin peer ARGUMENTS`` with its
output in LOG, and returns its process id; a process id waits for that process, and returns its exit
code. At the end of input all processes that are left are killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from fedkin.cli import app
from fedkin.p2p import launch

# All that is heavy is imported before the forks; JAX and Zenoh start their threads after them.
assert launch


def start(log: str, arguments: list[str]) -> int:
    """A peer as a separate process."""
    child = os.fork()
    if child:
        return child
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    status = 1
    try:
        app(["peer", *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    children: set[int] = set()
    for line in sys.stdin:
        command = json.loads(line)
        if isinstance(command, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
            children.discard(command)
        else:
            answer = start(*command)
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
