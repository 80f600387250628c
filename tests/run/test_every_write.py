"""A disk that is full, a kill and a power failure at every operation on files of a run of three rounds, one by one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.config.schema import Values
from fedkin.core import storage
from fedkin.core.errors import StorageError
from fedkin.core.method import Method
from fedkin.run.lifecycle import ClientFacts, Experiment, Methods, OpenWorld
from fedkin.run.loop import OnRound
from fedkin.run.results import Run
from fedkin.run.run_folder import holds_run
from tests.deterministic.fake_disk import FakeDisk, KilledError, Machine
from tests.run.toy_method import Toy, fake_world

SECONDS = {"timings.jsonl", "SHA256SUMS"}  # they hold seconds, or sums of such; so does summary.json


class CountingDisk(FakeDisk):
    """Counts operations; from one of them on, it is full."""

    operations, full_from = 0, 0

    def _step(self, path: Path) -> Machine:
        self.operations += 1
        machine = self._machine(path)
        machine.full = 0 < self.full_from <= self.operations
        return super()._step(path)


class ToyWorlds:
    """Worlds of quadratic clients: a run takes milliseconds."""

    clients = 8
    spec = fake_world().spec

    def digests(self) -> tuple[str, ...]:
        return ("quadratic",)

    def check(self, methods: Methods, plan: Plan) -> None:
        """Everything can run here."""

    def open(self, entry: Values, method: Method) -> OpenWorld:
        return OpenWorld(fake_world(), lambda: ClientFacts(np.full(8, 10)))


def go(out: Path, disk: FakeDisk | None = None, resume: bool = False, on_round: OnRound | None = None) -> Run:
    """Three rounds and three checkpoints, written to this disk."""
    plan = Plan(rounds=3, cohort=4, checkpoint_every=2)
    described = {"data": {"name": "toy"}, "model": {"name": "toy"}, "run": {"rounds": 3, "seed": 0}}
    experiment = Experiment(ToyWorlds(), plan, described, on_round, resume)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "file_system", disk or storage.FileSystem())
        return experiment.run([({"name": "tests.run.toy_method:Toy"}, Toy(warm=3))], out)


def disk_of(folder: Path, seed: int = 0) -> tuple[CountingDisk, Machine]:
    disk = CountingDisk(Random(seed))
    return disk, disk.add("here", folder)


def content(folder: Path) -> dict[str, object]:
    """What is in a run's folder, without seconds."""
    files: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.name == "summary.json":
            files[str(path.relative_to(folder))] = {
                name: v for name, v in json.loads(path.read_text()).items() if name != "seconds"
            }
        elif path.is_file() and path.name not in SECONDS and path.suffix != ".safetensors":
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def finished(out: Path) -> dict[str, object]:
    """Resume what is there, or start anew where nothing is; every file is then what it should be."""
    models = go(out, resume=holds_run(out)).models.tobytes()
    Run.load(out)
    assert not list(out.rglob("*.part"))
    return {**content(out), "models": models}


@pytest.mark.parametrize("fault", ["full", "kill", "power"])
def test_every_operation(fault: str, tmp_path: Path) -> None:
    disk, _ = disk_of(tmp_path / "count")
    whole = {"models": go(tmp_path / "count/run", disk).models.tobytes(), **content(tmp_path / "count/run")}
    assert disk.operations > 50
    for k in range(1, disk.operations + 1):
        folder = tmp_path / f"{fault}-{k}"
        faulty, machine = disk_of(folder, seed=k)
        faulty.full_from, machine.killed_at = (k, 0) if fault == "full" else (0, k)
        try:
            go(folder / "run", faulty)
        except KilledError:
            assert fault != "full"
        except StorageError as error:
            assert fault == "full" and "No space left on device" in str(error)
        if fault == "power":
            faulty.cut_power("here")
        assert finished(folder / "run") == whole, f"{fault} at operation {k}"
        shutil.rmtree(folder)
