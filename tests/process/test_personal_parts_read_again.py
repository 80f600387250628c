"""A run with a personal part, read by a process that has not made it: its clients keep their own
models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fedkin as fk
from fedkin.options.base import Option

READ = """
import sys
import fedkin as fk
data = fk.data.digits(clients=4)
run = fk.Run.load(sys.argv[1], model=fk.models.mlp(data, hidden=4), data=data)
print(run.trained.personal, run.predict(data.x[:5], client=0).tolist())
"""


@pytest.mark.parametrize(
    "part", [fk.PersonalHead(head_epochs=1), fk.PersonalModel()], ids=["head", "model"]
)
def test_another_process_predicts_by_the_clients_own_models(part: Option, tmp_path: Path) -> None:
    data = fk.data.digits(clients=4)
    model = fk.models.mlp(data, hidden=4)
    run = fk.simulate(
        fk.FedAvg(), data, model, rounds=2, cohort=4, options=[part], out=tmp_path / "run"
    )
    read = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout.strip() == f"True {run.predict(data.x[:5], client=0).tolist()}"
