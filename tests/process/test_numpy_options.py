"""NumPy's numbers in every argument of a run: the same bits, fingerprint and stored configuration
as Python's.

In a process without the checks of types that tests have, as users' processes are.
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import fedkin as fk

x = np.random.default_rng(0).normal(size=(120, 3))
y = np.arange(120) % 2


def run(place, integer, number, switch, text):
    data = fk.data.from_arrays(
        x,
        y,
        partition=text("dirichlet"),
        num_clients=integer(6),
        alpha=number(0.5),
        min_samples=integer(5),
        test=number(0.25),
        seed=integer(0),
        classes=integer(2),
        integers=switch(False),
    ).with_validation(number(0.25), integer(1))
    local = fk.SGD(
        epochs=integer(1),
        batch_size=integer(5),
        lr=number(0.125),
        momentum=number(0.5),
        nesterov=switch(True),
        clip_norm=number(1),
        label_smoothing=number(0.125),
    )
    return fk.simulate(
        fk.FlexCFL(clusters=integer(2), alpha=integer(2), steps=integer(5), eta_g=number(0.125)),
        data,
        fk.models.mlp(data, hidden=integer(4)),
        local=local,
        rounds=integer(2),
        cohort=fk.Cohort(integer(4), selection=text("uniform")),
        seed=integer(3),
        scoring=fk.Scoring(
            target=number(0.5),
            until=number(1),
            patience=integer(2),
            evaluate_every=integer(1),
            checkpoint_every=integer(1),
            evaluate_clients=integer(4),
            global_model=switch(True),
        ),
        compute=fk.Compute(clients_per_batch=integer(1), devices=integer(1)),
        options=[fk.FedAdam(lr=number(0.125))],
        scenario=fk.Population(dropout=number(0.25)),
        callbacks=fk.Progress(False),
        out=place,
    )


folder = Path(sys.argv[1])
kinds = {
    "python": (int, float, bool, str),
    "numpy": (np.int64, np.float32, np.bool_, np.str_),
    "arrays": (np.array, lambda value: np.array(value, np.float32), np.array, np.array),
}
runs = {name: run(folder / name, *types) for name, types in kinds.items()}
expected = runs["python"]
for name, made in runs.items():
    assert made.fingerprint == expected.fingerprint, name
    assert np.array_equal(made.state.models, expected.state.models), name
    assert (folder / name / "config.toml").read_text() == (
        folder / "python" / "config.toml"
    ).read_text(), name

options = {
    "privacy": fk.ClientDP(
        noise_multiplier=np.float64(1), delta=np.float64(1e-3), scores=np.int64(10)
    ),
    "attack": fk.Byzantine(clients=np.arange(2)),
}
data = fk.data.from_arrays(x, y, clients=np.arange(120) % 6)
for name, option in options.items():
    place = folder / name
    fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=1,
        cohort=fk.Cohort(3, selection="poisson"),
        callbacks=fk.Progress(False),
        out=place,
        options=[option],
    )
    stored = (place / "config.toml").read_text()
    assert "np." not in stored and "array(" not in stored, stored

axes = {"local.lr": np.logspace(-2, -1, 2), "run.cohort": np.arange(4, 6)}
comparison = fk.compare(
    None,
    "data.name=digits",
    "data.clients=8",
    "run.rounds=1",
    methods=["fedavg"],
    seeds=np.int64(1),
    grid=axes,
    out=folder / "comparison",
)
assert len(comparison.settings) == 4, comparison
print("all alike")
"""


def test_runs_of_numpys_numbers_are_those_of_pythons(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all alike\n")
