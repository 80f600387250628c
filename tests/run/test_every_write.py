"""A disk that is full, a kill and a power failure at every operation on files of a run of three
rounds, one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from fedkin.config.description import Description
from fedkin.config.plan import Plan
from fedkin.config.schema import Values
from fedkin.core.method import Method
from fedkin.options.base import Option
from fedkin.run.experiment import Experiment
from fedkin.run.folder.run_folder import holds_run
from fedkin.run.loop import OnRound
from fedkin.run.run import Run
from fedkin.run.worlds import ClientFacts, Methods, OpenWorld
from fedkin.task_types.classification import CLASSIFICATION
from tests.every_write import FAULTS, after_each_fault, operations
from tests.run.toy_method import Toy, fake_world

# They hold seconds, or sums of such; so does summary.json.
SECONDS = {
    "timings.jsonl",
    "SHA256SUMS",
}


class ToyWorlds:
    """Worlds of quadratic clients: a run takes milliseconds."""

    clients = 8
    spec = fake_world().spec
    task_type = CLASSIFICATION

    def digests(self) -> tuple[str, ...]:
        return ("quadratic",)

    def check(self, methods: Methods, plan: Plan, options: Iterable[Option]) -> None:
        """Everything can run here."""

    def open(self, entry: Values, method: Method) -> OpenWorld:
        return OpenWorld(fake_world(), lambda: ClientFacts(np.full(8, 10)))


def go(out: Path, resume: bool = False, on_round: OnRound | None = None) -> Run:
    """Three rounds and three checkpoints."""
    plan = Plan(rounds=3, cohort=4, checkpoint_every=2)
    sections = {"data": {"name": "toy"}, "model": {"name": "toy"}, "run": {"rounds": 3, "seed": 0}}
    experiment = Experiment(
        worlds=ToyWorlds(),
        plan=plan,
        description=Description(sections),
        on_round=on_round,
        resume=resume,
    )
    return experiment.run([({"name": "tests.run.toy_method:Toy"}, Toy(warm=3))], out)


def content(folder: Path) -> dict[str, object]:
    """The content of a run's folder, without seconds."""
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
    """Resume the run in the folder, or start again where there is none; every file is then
    right."""
    models = go(out, resume=holds_run(out)).models.tobytes()
    Run.load(out)
    assert not list(out.rglob("*.part"))
    return {**content(out), "models": models}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_operation(fault: str, tmp_path: Path) -> None:
    last = operations(tmp_path / "whole", lambda folder: go(folder / "run"))
    assert last > 50
    whole = {
        "models": go(tmp_path / "undisturbed").models.tobytes(),
        **content(tmp_path / "undisturbed"),
    }
    for number, folder in after_each_fault(
        fault, tmp_path, last, lambda folder: go(folder / "run")
    ):
        assert finished(folder / "run") == whole, f"{fault} at operation {number}"
