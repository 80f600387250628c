"""Five hospitals on one machine, each a process of its own, with certificates and registered keys.

    pip install 'fedkin[flower,torch]'
    python examples/hospital/run.py [FOLDER]

Four of them start; the fifth joins after two rounds. FlexCFL is run, then FedAvg, in some ten minutes. All files are in
FOLDER (hospital-run), and all processes are stopped at the end. The same command resumes a stopped run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import findings

HERE, PROGRAMS = Path(__file__).resolve().parent, Path(sys.executable).parent
HOSPITALS, LATE, PORT = 5, "site-4", 8085
SETTINGS = (
    *("federation.name=hospitals", "federation.wait_for=4", "federation.capacity=8"),
    *("samples.shape=[64]", "samples.classes=10", "model.torch=hospital:network"),
    *("data.name=file", "data.path=findings.csv", "data.train_fraction=0.5"),
    *("method.name=flexcfl", "method.clusters=2", 'run.against=["fedavg"]'),
    *("run.rounds=6", "run.cohort=5", "local.epochs=5", "local.batch_size=10", "local.lr=0.1"),
)


def prepare(folder: Path) -> None:
    """Write files, keys and certificates with `fedkin deploy init`, the network and each hospital's data."""
    init = [PROGRAMS / "fedkin", "deploy", "init", folder, "--clients", str(HOSPITALS), "--port", str(PORT)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    subprocess.run([*init, *SETTINGS], check=True, env=environment, stdout=subprocess.DEVNULL)
    shutil.copy(HERE / "hospital.py", folder / "app")  # is sent to the hospitals with the app
    for k in range(HOSPITALS):
        findings.write(folder / f"site-{k}", k)


class Federation:
    """The processes of a prepared folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, []

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait()

    def environment(self, home: str) -> dict[str, str]:
        lines = (self.folder / "flower.env").read_text().splitlines()
        variables = dict(line.split("=", 1) for line in lines if "=" in line)
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **variables, "PATH": path, "FLWR_HOME": str(self.folder / home)}

    def start(self, where: str, *command: str) -> None:
        """Start a program in the background, in a folder, with a log there."""
        log = (self.folder / where / f"{command[0]}.log").open("ab")
        options = {"cwd": self.folder / where, "env": self.environment(f"{where}/flwr"), "stdout": log, "stderr": log}
        self.started.append(subprocess.Popen(command, **options))

    def flwr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """One of Flower's own commands."""
        return subprocess.run(
            ["flwr", *arguments],
            cwd=self.folder,
            env=self.environment("flwr"),
            check=check,
            capture_output=True,
            text=True,
        )

    def superlink(self) -> None:
        keys = "--ssl-ca-certfile keys/ca.pem --ssl-certfile keys/server.pem --ssl-keyfile keys/server-key.pem"
        how = "--database state.db --isolation subprocess --disable-runtime-dependency-installation"
        where = f"--host 127.0.0.1 --port {PORT} --enable-supernode-auth"
        self.start(".", "flower-superlink", *f"{where} {keys} {how}".split())
        while self.flwr("list", "fedkin", check=False).returncode:
            time.sleep(0.5)

    def hospital(self, site: str) -> None:
        """Register a hospital's public key, and start its node."""
        self.flwr("supernode", "register", f"{site}/key.pub", "fedkin", "--name", site, check=False)  # fails if known
        port = 9094 + int(site.removeprefix("site-"))
        how = f"--superlink 127.0.0.1:{PORT} --port {port} --root-certificates ca.pem --auth-supernode-private-key key"
        self.start(site, "flower-supernode", *how.split(), "--node-config", 'config="client.toml"')


def rounds_done(folder: Path) -> int:
    """Rounds of FlexCFL that are complete."""
    metrics = folder / "run" / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) - 1 if metrics.exists() else -1


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "hospital-run").resolve()
    if not (folder / "server.toml").exists():
        prepare(folder)
    with Federation(folder) as federation:
        federation.superlink()
        for k in range(HOSPITALS - 1):
            federation.hospital(f"site-{k}")
        federation.start(".", "flwr", "run", "app", "fedkin", "--stream")
        run = federation.started[-1]
        while rounds_done(folder) < 2 and run.poll() is None:
            time.sleep(0.5)
        print(f"two rounds are complete; {LATE} joins", flush=True)
        federation.hospital(LATE)
        run.wait()
    if not (folder / "run" / "summary.json").exists():
        sys.exit(f"the run has failed: see {folder}/flwr.log and {folder}/flower-superlink.log")
    for name in (".", "against/fedavg"):
        summary = json.loads((folder / "run" / name / "summary.json").read_text())
        print(f"{summary['method']}: accuracy {summary['final_accuracy']:.3f}, ", end="")
        print(f"worst hospital {summary['bottom_decile']:.3f}, clusters of {summary['cluster_sizes']}")


if __name__ == "__main__":
    main()
