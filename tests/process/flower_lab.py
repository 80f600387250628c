"""Flower's own processes for tests, on the loopback and in a separate folder.

    with Lab(tmp_path) as lab:
        lab.superlink()
        lab.nodes({"a": {"k": 0}, "b": {"k": 1}})
        run = lab.run(tmp_path / "app", {"rounds": 2})
        assert lab.wait(run, 60) == "finished:completed"

Every process has its own FLWR_HOME, which its children inherit: so all of them can be found (in
Linux's /proc) and ended, although some of Flower's processes leave their group.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedkin.security.certificates import write_secret
from tests.free_ports import free_ports, until

SUPERLINK = "superlink"
CONNECTION = "lab"
CLI = "flwr"
TIMEOUT = 60.0  # seconds; on a quiet machine a process is ready in 3 to 6
READY = {  # the log line of a program that is ready, with its number
    "flower-superlink": r"Uvicorn running on \S+:(\d+)",
    "flower-supernode": r"SuperNode ID: (\d+)",
    "flwr": r"Successfully started run (\d+)",
}
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "PYTHONUNBUFFERED": "1"}
# The only interval that Flower has a setting for.
FAST = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5"}

# Variables that would change Flower's connections.
REMOVED = re.compile("^FLWR_|_proxy$", re.IGNORECASE)


class Ended(AssertionError):
    """A process that was not ready in time (its code is None) or ended before, with its log."""

    def __init__(self, name: str, code: int | None, log: str) -> None:
        super().__init__(f"{name} was not ready when it ended with {code}:\n{log}")
        self.code = code
        self.log = log


class Refused(AssertionError):
    """Flower's command line refused a command; the text is its message."""


class Lab:
    """One SuperLink and its SuperNodes, below ``folder``; with ``tls``, certificates and keys of
    nodes too.

    Each process has a name, and a log file and a home of that name. A method that starts one
    returns when it is ready, and raises ``Ended`` where it ends before or is not ready within a
    minute.
    """

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self.folder = folder.resolve()
        self.port = free_ports(1)[0]
        self.keys = Keys(self.folder / "keys") if tls else None
        self._commands: dict[str, list[str]] = {}
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._runs: dict[int, str] = {}
        secure = f'root-certificates = "{self.keys.authority}"' if self.keys else "insecure = true"
        connection = f'[superlink.{CONNECTION}]\naddress = "127.0.0.1:{self.port}"\n{secure}\n'
        (self.folder / CLI).mkdir(parents=True)
        (self.folder / CLI / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n{connection}'
        )

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def superlink(self) -> None:
        """Start the SuperLink, whose state is ``state.db``."""
        secure = self.keys.server() if self.keys else ["--insecure"]
        where = [
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--database",
            str(self.folder / "state.db"),
        ]
        how = ["--isolation", "subprocess", "--disable-runtime-dependency-installation"]
        self._commands[SUPERLINK] = ["flower-superlink", *secure, *where, *how]
        self.restart(SUPERLINK)

    def node(
        self, name: str, node_config: Mapping[str, Any], secure: Sequence[str] | None = None
    ) -> int:
        """Start a SuperNode; its node id. ``secure``: options other than its own keys."""
        self._describe(name, node_config, secure)
        return self.restart(name)

    def nodes(self, configs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Start SuperNodes at the same time; their node ids."""
        for name in configs:
            self._describe(name, configs[name])
        offsets = {name: self._start(name) for name in configs}
        return {name: self._ready(name, offsets[name]) for name in configs}

    def register(self, name: str) -> int:
        """Make the key of a SuperNode known to the SuperLink; the node id that it will have. Raises
        Refused."""
        assert self.keys, "a node's key is registered in a lab with tls=True"
        answer = self.flwr(
            "supernode", "register", f"{self.keys.node(name)}.pub", CONNECTION, "--name", name
        )
        return int(answer["node-id"])

    def run(self, app: Path, run_config: Mapping[str, Any] | None = None) -> int:
        """Start a run of the app in a folder; its run id."""
        name = f"run-{len(self._runs)}"
        self._commands[name] = [
            "flwr",
            "run",
            str(app),
            CONNECTION,
            "--stream",
            *_options("--run-config", run_config),
        ]
        run = self.restart(name)
        self._runs[run] = name
        return run

    def wait(self, run: int, timeout: float) -> str:
        """The status of a run that has finished. Raises AssertionError if it does not within so
        many seconds."""
        streams = self._started[self._runs[run]]
        end = time.monotonic() + timeout
        # A status takes a process, this does not.
        until(lambda: streams.poll() is not None, timeout)
        while not (status := self.status(run)).startswith("finished"):
            assert time.monotonic() < end, (
                f"run {run} is {status} after {timeout} s:\n{self.output(run)}"
            )
        return status

    def status(self, run: int) -> str:
        """Such as ``running`` or ``finished:completed``. Raises Refused where the SuperLink does
        not answer."""
        return self.flwr("list", CONNECTION, "--run-id", str(run))["runs"][0]["status"]

    def output(self, run: int) -> str:
        """The log of a run's ServerApp, as ``flwr run --stream`` shows it."""
        return self.log(self._runs[run])

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """The output of one of Flower's commands. Raises Refused."""
        command = ["flwr", *arguments, "--format", "json"]
        done = subprocess.run(
            command, env=self._environment(CLI), cwd=self.folder, text=True, capture_output=True
        )
        try:
            answer = json.loads(done.stdout)
        except ValueError as error:
            raise Refused(
                f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            ) from error
        if not answer["success"]:
            raise Refused(answer["error-message"].strip())
        return answer

    def kill(self, name: str, only: str = "") -> None:
        """SIGKILL for a process and all that it started, or for those with ``only`` in their
        command line."""
        self._signal_all(name, only)

    def stop(self, name: str) -> int:
        """SIGTERM for a process; its exit code. Its children end by themselves."""
        self._started[name].send_signal(signal.SIGTERM)
        return self._started[name].wait(2 * TIMEOUT)  # a SuperLink waits for readers of a run's log

    def restart(self, name: str) -> int:
        """Start a process by its command, again or for the first time;
        the node id of a SuperNode."""
        return self._ready(name, self._start(name))

    def log(self, name: str) -> str:
        """The output of a process and its children, over all its starts."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def processes(self, name: str = "", only: str = "") -> dict[int, str]:
        """Process ids and command lines of a process and its children; without a name, of all of
        the lab."""
        mark = f"FLWR_HOME={self.folder}/{name}\0" if name else f"FLWR_HOME={self.folder}/"
        return {process: line for process, line in _processes_with(mark).items() if only in line}

    def close(self) -> None:
        """End all processes of the lab."""
        self._signal_all("", "")
        for process in self._started.values():
            process.wait()

    def _describe(
        self, name: str, node_config: Mapping[str, Any], secure: Sequence[str] | None = None
    ) -> None:
        if secure is None:
            secure = self.keys.client(name) if self.keys else ["--insecure"]
        where = [
            "--superlink",
            f"127.0.0.1:{self.port}",
            "--host",
            "127.0.0.1",
            "--port",
            str(free_ports(1)[0]),
        ]
        self._commands[name] = [
            "flower-supernode",
            *secure,
            *where,
            *_options("--node-config", node_config),
        ]

    def _start(self, name: str) -> int:
        """Start a process; the length of its log before."""
        before = self._started.get(name)
        assert before is None or before.poll() is not None, f"{name} runs: stop or kill it first"
        home = CLI if self._commands[name][0] == CLI else name
        with (self.folder / f"{name}.log").open("ab") as log:
            offset = log.tell()
            self._started[name] = subprocess.Popen(
                self._commands[name],
                env=self._environment(home),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            return offset

    def _ready(self, name: str, offset: int) -> int:
        """Wait for its line in the log after ``offset`` bytes; the number in that line."""
        pattern = re.compile(READY[self._commands[name][0]])
        path = self.folder / f"{name}.log"
        process = self._started[name]

        def output() -> str:
            return path.read_bytes()[offset:].decode(errors="replace")

        until(lambda: bool(pattern.search(output())) or process.poll() is not None, TIMEOUT)
        if match := pattern.search(output()):
            return int(match[1])
        raise Ended(name, process.poll(), output())

    def _environment(self, home: str) -> dict[str, str]:
        """The environment of a process: this one's, without variables that would change Flower's
        connections."""
        inherited = {key: value for key, value in os.environ.items() if not REMOVED.search(key)}
        # For Flower's programs.
        path = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
        return {**inherited, **QUIET, **FAST, "PATH": path, "FLWR_HOME": f"{self.folder}/{home}"}

    def _signal_all(self, name: str, only: str) -> None:
        """SIGKILL until none is left: one may just be starting another."""

        def gone() -> bool:
            alive = self.processes(name, only)
            for process in alive:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(process, signal.SIGKILL)
            for killed in self._started.values():
                if killed.pid in alive:
                    killed.wait()  # until then its id exists, and its children take it for alive
            return not alive

        assert until(gone, TIMEOUT), f"still running: {self.processes(name, only)}"


class Keys:
    """An authority, the SuperLink's certificate, and a key for each node, below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.crt"
        folder.mkdir(parents=True)
        self._key = ec.generate_private_key(ec.SECP384R1())
        write_secret(
            self.authority,
            self._certificate("authority", self._key, 1, x509.BasicConstraints(True, None)),
        )

    def server(self, days: int = 1) -> list[str]:
        """A new certificate for the SuperLink, valid for so many days (or expired, if below 0), as
        its options."""
        key = ec.generate_private_key(ec.SECP384R1())
        at = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = self._certificate("localhost", key, days, x509.SubjectAlternativeName(at))
        write_secret(self.folder / "server.pem", certificate)
        write_secret(self.folder / "server.key", _private(key, serialization.PrivateFormat.PKCS8))
        server = [
            "--ssl-certfile",
            f"{self.folder}/server.pem",
            "--ssl-keyfile",
            f"{self.folder}/server.key",
        ]
        return ["--ssl-ca-certfile", str(self.authority), *server, "--enable-supernode-auth"]

    def node(self, name: str) -> Path:
        """The private key of a node, made on first use; the public one is in the same folder,
        as ``.pub``."""
        path = self.folder / name
        if not path.exists():
            key = ec.generate_private_key(ec.SECP384R1())
            public = key.public_key().public_bytes(
                serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
            )
            write_secret(path, _private(key, serialization.PrivateFormat.OpenSSH))
            write_secret(path.with_name(f"{name}.pub"), public)
        return path

    def client(self, name: str) -> list[str]:
        """The options of a registered node."""
        return [
            "--root-certificates",
            str(self.authority),
            "--auth-supernode-private-key",
            str(self.node(name)),
        ]

    def _certificate(
        self, name: str, key: ec.EllipticCurvePrivateKey, days: int, extra: x509.ExtensionType
    ) -> bytes:
        """One that the authority has signed, in PEM."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder().subject_name(_name(name)).issuer_name(_name("authority"))
        )
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=2))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days))
        certificate = builder.add_extension(extra, critical=False).sign(self._key, hashes.SHA384())
        return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)])


def _options(option: str, values: Mapping[str, Any] | None) -> list[str]:
    """Values as an option of Flower's command line: TOML, in one word."""
    return (
        [option, " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())]
        if values
        else []
    )


def _processes_with(mark: str) -> dict[int, str]:
    """Ids and command lines of the processes whose environment has the mark."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                processes[int(folder.name)] = (
                    (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
                )
        except OSError:  # another user's, or it has just ended
            pass
    return processes
