"""What ``fedkin deploy up`` refuses, and that nothing is half started; Flower's programs are in
tests/process."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from fedkin.core.errors import ConfigError
from fedkin.run.folder.run_folder import against_folder
from fedkin.server.deploy import check
from fedkin.server.deploy import start_parts as starting
from fedkin.server.deploy import up as up_module
from fedkin.server.deploy.check_keys import check_server_keys, check_site_keys
from fedkin.server.deploy.init import init
from fedkin.server.deploy.processes import (
    SITE,
    STARTER,
    SUPERLINK,
    Program,
    find,
    is_up,
    start,
    stop,
)
from fedkin.server.deploy.status import DOWN, FINISHED, UP, log_lines, status
from fedkin.server.deploy.up import down, up
from tests.free_ports import free_ports, until

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )

DUMMY = [sys.executable, "-c", "import time; time.sleep(600)"]
LATER = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=10_000)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A deployment of two sites, without keys."""
    own = tmp_path / "fed"
    init(own, 2, port=free_ports(1)[0], secure=False)
    yield own
    stop(all_parts(own), 0.0)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Path]:
    own = tmp_path / "secure"
    init(own, 1, port=free_ports(1)[0])
    yield own
    stop(all_parts(own), 0.0)


def all_parts(folder: Path) -> list[Program]:
    sites = [Program(path.parent, SITE) for path in folder.glob("*/client.toml")]
    return [Program(folder, SUPERLINK), Program(folder, STARTER), *sites]


def refused(folder: Path, words: str, **options: object) -> None:
    """``up`` is refused in these words, and starts nothing."""
    before = find(all_parts(folder))
    with pytest.raises(ConfigError, match=words):
        up(folder, **options)  # type: ignore[arg-type]
    assert find(all_parts(folder)) == before


def dummy(part: Program) -> subprocess.Popen[bytes]:
    process = start(part, DUMMY, {})
    assert until(lambda: is_up(part))
    return process


def test_a_running_part_is_not_started_again(folder: Path) -> None:
    dummy(Program(folder / "site-0", SITE))
    refused(folder, "is up already", site="site-0")
    refused(folder / "site-0", "is up already")


def test_a_port_in_use_is_refused(folder: Path) -> None:
    port = int((folder / "site-0/flower.env").read_text().splitlines()[0].rpartition(":")[2])
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        refused(folder, f"port {port} of the SuperLink cannot be used")
        refused(folder, f"port {port} of the SuperLink cannot be used", server=True)


def test_the_port_of_flowers_own_supernode_is_refused_too(folder: Path) -> None:
    site = folder / "site-0"
    port = free_ports(1)[0]
    config = site / "client.toml"
    variables = site / "flower.env"
    config.write_text(config.read_text().replace("[client]", '[client]\nworker = "none"'))
    variables.write_text(
        variables.read_text().replace("SUPERNODE_PORT=9094", f"SUPERNODE_PORT={port}")
    )
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        refused(folder, f"port {port} of site-0 cannot be used", site="site-0")


def test_certificates_that_have_expired_are_refused(
    secure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        check, "check_server_keys", lambda folder, host: check_server_keys(folder, host, LATER)
    )
    refused(secure, "has expired on", server=True)
    monkeypatch.setattr(check, "check_site_keys", lambda folder: check_site_keys(folder, LATER))
    refused(secure, "has expired on", site="site-0")


def test_a_key_that_others_can_read_is_refused(secure: Path) -> None:
    (secure / "site-0/key").chmod(0o644)
    refused(secure, "others can read", site="site-0")


def test_where_a_step_fails_nothing_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[Program] = []

    def start_superlink(own: Path) -> None:
        parts.append(Program(own, SUPERLINK))
        dummy(parts[0])

    class Starter:
        def __init__(self, *_: object, **__: object) -> None:
            assert is_up(parts[0])

        def wait_for(self, word: str) -> str:
            raise ConfigError("Flower has refused a key")

    monkeypatch.setattr(starting, "start_superlink", start_superlink)
    monkeypatch.setattr(starting, "Starter", Starter)
    refused(folder, "Flower has refused a key")
    assert parts


def test_a_superlink_that_ends_is_noticed_at_once(folder: Path) -> None:
    """The commands that register the sites would wait for it two minutes."""
    (folder / "superlink.log").write_text("no such program")
    ended = start(Program(folder, SUPERLINK), [sys.executable, "-c", "pass"], {})
    ended.wait()
    starter = starting.Starter(folder, ["--register"], ended)
    with pytest.raises(ConfigError, match="the SuperLink ended right after its start:\nno such"):
        starter.wait_for("registered")
    stop([Program(folder, STARTER)], 0.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_leaves_nothing_even_where_it_is_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    def start_parts(*_: object, **__: object) -> None:
        dummy(Program(folder, SUPERLINK))
        os.kill(os.getpid(), number)

    def stop_and_interrupt(parts: list[Program], grace: float) -> None:
        os.kill(os.getpid(), number)
        stop(parts, grace)

    monkeypatch.setattr(up_module, "start_parts", start_parts)
    monkeypatch.setattr(up_module, "stop", stop_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        up(folder)
    assert not any(find(all_parts(folder)).values())
    assert handlers == [
        signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ]


def test_a_site_that_ends_at_once_takes_the_others_along(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(part: Program) -> list[str]:
        program = (
            "raise SystemExit('no data')"
            if part.name == "site-1"
            else "import time; time.sleep(600)"
        )
        return [
            sys.executable,
            "-c",
            f"print('is connected to') if {part.name == 'site-0'} else 0\n{program}",
        ]

    monkeypatch.setattr(starting, "_site_command", command)
    monkeypatch.setattr(
        up_module,
        "_missing",
        lambda *_, **__: starting.Missing(False, all_parts(folder)[2:], False),
    )
    refused(folder, "site-1 ended right after its start:\nno data", site=None)


def test_down_imports_no_jax(folder: Path) -> None:
    """The import would take longer than all that ``down`` does."""
    program = (
        "import sys; from pathlib import Path; from fedkin.server.deploy.up import down\n"
        "assert down(Path(sys.argv[1])) == []; print('jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_one_up_at_a_time(folder: Path) -> None:
    with FileLock(folder / ".deploy.lock"):
        refused(folder, "another fedkin deploy command is running")


def test_a_folder_without_a_deployment_is_refused(tmp_path: Path) -> None:
    for command in (up, down, status):
        with pytest.raises(ConfigError, match="neither server"):
            command(tmp_path)


def test_down_ends_the_started_parts_and_names_them(folder: Path) -> None:
    assert down(folder) == []
    processes = [dummy(Program(folder, SUPERLINK)), dummy(Program(folder / "site-1", SITE))]
    assert [part.name for part in down(folder)] == ["superlink", "site-1"]
    assert not any(find(all_parts(folder)).values())
    for process in processes:
        process.wait()


def test_the_status_names_every_part_and_how_far_the_run_is(folder: Path) -> None:
    dummy(Program(folder / "site-1", SITE))
    lines = {line.name: line for line in status(folder)}
    assert {name: line.state for name, line in lines.items()} == {
        **dict.fromkeys(("superlink", "site-0", "run"), DOWN),
        "site-1": UP,
    }
    assert "flexcfl not begun, fedavg not begun" in lines["run"].detail
    (folder / "run").mkdir()
    (folder / "run/metrics.jsonl").write_text("{}\n{}\n{}\n")
    assert "flexcfl round 2 of 5" in {line.name: line for line in status(folder)}["run"].detail


def test_a_run_with_all_its_rounds_is_finished_and_not_down(folder: Path) -> None:
    runs = {"flexcfl": folder / "run", "fedavg": against_folder(folder / "run", "fedavg")}

    def state_of_run() -> str:
        return {line.name: line.state for line in status(folder)}["run"]

    for name, run in runs.items():
        assert state_of_run() == DOWN
        run.mkdir(parents=True)
        (run / "config.toml").write_text(f'[method]\nname = "{name}"\n[run]\nrounds = 5\n')
        (run / "summary.json").write_text("{}")
    assert state_of_run() == FINISHED
    # More rounds are configured than the results have.
    server = folder / "server.toml"
    server.write_text(server.read_text().replace("rounds = 5", "rounds = 6"))
    assert state_of_run() == DOWN


def test_logs_are_shown_with_the_name_of_the_part(folder: Path) -> None:
    (folder / "superlink.log").write_text("one\ntwo\nthree\n")
    (folder / "site-1/site.log").write_text("four\n")
    assert [*log_lines(folder, [], 2, False)] == [
        "superlink | two",
        "superlink | three",
        "site-1    | four",
    ]
    assert [*log_lines(folder, ["site-1"], 9, False)] == ["site-1 | four"]
    with pytest.raises(
        ConfigError, match="there is no part site-9; the parts are: superlink, run, site-0, site-1"
    ):
        next(log_lines(folder, ["site-9"], 1, False))

    def write(seconds: float) -> None:
        with (folder / "site-1/site.log").open("a") as log:
            log.write("five\nsi")

    following = log_lines(folder=folder, names=["site-1"], lines=0, follow=True, sleep=write)
    assert next(following) == "site-1 | five"
