"""The programs of a deployment: marked, found, and ended with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkin.core.errors import ConfigError, StorageError
from fedkin.server.deploy.processes import (
    SITE,
    SUPERLINK,
    Program,
    find,
    is_up,
    leaders,
    start,
    stop,
)
from tests.free_ports import until

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )

PROGRAM = """
import subprocess, sys, time
command = [sys.executable, "-c", "import time; time.sleep(600)", "child"]
child = subprocess.Popen(command, start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
# Its helper notices no end of the program by itself.
WITH_HELPER = """
import subprocess, sys, time
helper = "import signal, sys, time\\n"
helper += "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('asked', flush=True)))\\n"
helper += "print('ready', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", helper, "flower-superexec"])
time.sleep(600)
"""


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Program]:
    own = Program(tmp_path / "site-0", SITE)
    own.folder.mkdir()
    yield own
    stop([own], 0.0)


def started(part: Program, program: str) -> subprocess.Popen[bytes]:
    process = start(part, [sys.executable, "-c", program], {})
    assert until(lambda: "ready\n" in part.log.read_text())
    return process


def test_a_part_is_found_with_all_that_it_has_started_and_ended(part: Program) -> None:
    process = started(part, PROGRAM)
    own = find([part])[part]
    assert len(own) == 2 and process.pid in {one.number for one in own}
    assert [one.number for one in leaders(own)] == [process.pid] and is_up(part)
    assert os.getsid(process.pid) == process.pid  # a terminal that is closed does not reach it
    stop([part], 0.2)
    assert not find([part])[part]
    process.wait()


def test_processes_left_by_a_dead_program_are_ended(part: Program) -> None:
    process = started(part, PROGRAM)
    process.kill()
    process.wait()
    (orphan,) = find([part])[part]
    assert orphan.command.endswith("child")
    stop([part], 0.2)
    assert not find([part])[part]


def test_a_program_that_does_not_want_to_end_is_killed(part: Program) -> None:
    process = started(part, STUBBORN)
    stop([part], 0.1)
    assert process.wait() == -signal.SIGKILL


def test_a_helper_of_flower_is_asked_to_end_after_its_program(part: Program) -> None:
    """Flower's own helper sleeps for many seconds between two looks at its program."""
    process = started(part, WITH_HELPER)
    stop([part], 300.0)
    assert process.wait() == -signal.SIGTERM
    assert part.log.read_text().split() == ["ready", "asked"]


def test_only_the_named_part_is_ended(part: Program) -> None:
    process = started(part, PROGRAM)
    stop([part], 0.2, "sleep(600) child")
    assert [one.number for one in find([part])[part]] == [process.pid]


def test_other_parts_are_left_alone(part: Program) -> None:
    started(part, PROGRAM)
    others = [Program(part.folder, SUPERLINK), Program(part.folder.parent, SITE)]
    assert not any(find(others).values())
    stop(others, 0.0)
    assert is_up(part)


def test_a_program_can_be_found_as_soon_as_it_is_started(
    part: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes
    early = [True, True, True]

    def later(path: Path) -> bytes:
        """The file's bytes, but at first none: so Linux shows a program that has just begun."""
        return b"" if path.name == "environ" and early and early.pop() else read(path)

    monkeypatch.setattr(Path, "read_bytes", later)
    process = start(part, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    assert not early
    assert [one.number for one in find([part])[part]] == [process.pid]


def test_a_missing_program_and_a_missing_folder_are_named(part: Program, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-program was not found"):
        start(part, ["no-such-program"], {})
    with pytest.raises(StorageError, match=r"elsewhere/site\.log"):
        start(Program(tmp_path / "elsewhere", SITE), [sys.executable], {})
