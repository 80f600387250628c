"""The log of the SuperLink has no colour codes, whichever process writes it."""

from __future__ import annotations

import io
import subprocess
import sys

from fedkin.server.deploy.plain_superlink import without_colours

# A program that writes as Flower does, and starts another that writes after it.
PROGRAM = """
import subprocess, sys
from fedkin.server.deploy.plain_superlink import plain_output
plain_output()
print("\\x1b[92mINFO \\x1b[0m: one", flush=True)
print("\\x1b[93mWARNING \\x1b[0m: two", file=sys.stderr, flush=True)
subprocess.run([sys.executable, "-c", "print('\\x1b[91mERROR \\x1b[0m: three')"])
print("the last line", end="", flush=True)
"""


def test_colour_codes_are_left_out_and_all_else_stays() -> None:
    target = io.BytesIO()
    without_colours(io.BytesIO("\x1b[1;92mINFO\x1b[0m: [92m é\n".encode() + b"\xff\n"), target)
    assert target.getvalue() == "INFO: [92m é\n".encode() + b"\xff\n"


def test_processes_that_it_starts_write_no_colour_codes() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert lines == [
        "INFO : one",
        "WARNING : two",
        "ERROR : three",
        "the last line",
    ]
    assert not done.stderr
