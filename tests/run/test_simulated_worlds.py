"""What a run will allocate is estimated from its method's declarations, and those hold for every
method."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.core.requirements import (
    AtLeast,
    ClientReads,
    MemoryNeeds,
    Requirements,
    requirements_of,
)
from fedkin.data import machine_memory
from fedkin.run.simulated_worlds import memory_parts
from tests.methods.test_conformance import CASES, arrays, fake, make, run
from tests.option_lists import simulate_arguments


def test_by_hand() -> None:
    plan = Plan(rounds=5, cohort=8)
    three = Requirements(clients=AtLeast(3))
    assert memory_parts(three, plan, 100, 50) == {"models": 1200, "local training": 800}
    reads_single = replace(three, reads=ClientReads(updates="single"))
    keeps_two = replace(reads_single, memory=MemoryNeeds(kept_models=2))
    single = memory_parts(needs=keeps_two, plan=plan, clients=100, parameters=50, together=4)
    assert single["local training"] == 3200 and single["updates of a cohort"] == 1600
    assert single["vectors kept for each client"] == 40_000
    compares_all = replace(reads_single, memory=MemoryNeeds(compares_all=True))
    compared = memory_parts(compares_all, plan, 100, 50)
    assert (compared["updates of all clients"], compared["all pairs of clients"]) == (
        20_000,
        160_000,
    )
    assert memory_parts(Requirements(peers=True), plan, 100, 50)["models"] == 40_000


@pytest.mark.parametrize("name", CASES)
def test_a_methods_memory_of_clients_is_declared(name: str) -> None:
    """In its state and in clients' memory: rows of a model's size, and matrices over pairs of
    clients."""
    world = fake(name)
    method = make(name)
    state = run(method, world, rounds=3)
    N = world.total_clients
    P = world.spec.parameters
    kept = [*arrays(state).items(), *world.memory().items()]
    # Layers: the bias of the last one, which is all of this tiny model.
    elsewhere = (
        "models",
        "layers",
    )
    rows = sum(
        array.nbytes for label, array in kept if array.shape == (N, P) and label not in elsewhere
    )
    pairs = sum(array.nbytes for _, array in kept if array.shape == (N, N))
    parts = memory_parts(requirements_of(method), Plan(rounds=3, cohort=8), N, P)
    assert rows <= parts.get("vectors kept for each client", 0)
    assert pairs <= parts.get("all pairs of clients", 0)


def data_of(clients: int) -> fk.FederatedData:
    """Two samples of 30 features a client."""
    x = np.tile(
        np.random.default_rng(0).normal(size=(10, 30)).astype(np.float32), (clients // 5, 1)
    )
    return fk.data.from_arrays(x, np.arange(2 * clients) % 2, clients=np.arange(2 * clients) // 2)


@pytest.mark.parametrize(
    ("method", "options", "part"),
    [
        (fk.SCAFFOLD(), {}, "vectors kept for each client"),
        (fk.FedAvg(), {"options": [fk.PersonalModel()]}, "vectors kept for each client"),
        (fk.FLHC(clusters=2), {}, "updates of all clients"),
        (fk.PACFL(), {}, "all pairs of clients"),
    ],
)
def test_a_run_that_cannot_fit_is_not_begun(
    method: fk.Method, options: dict, part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = data_of(1000)
    model = fk.models.mclr(data)
    monkeypatch.setattr(machine_memory, "available_memory", lambda: 150_000)
    fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=2)
    with pytest.raises(fk.ConfigError, match=f"not enough memory: .* for {part}.*fewer clients"):
        fk.simulate(
            method,
            data,
            model,
            rounds=1,
            cohort=2,
            out=tmp_path / "run",
            **simulate_arguments(options),
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_file_that_cannot_fit_is_not_read(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / f"samples.{kind}"
    if kind == "csv":
        lines = itertools.chain(["client,label,a"], (f"{n % 9},{n % 2},1.5" for n in range(500)))
        path.write_text("\n".join(lines))
    else:
        count = np.arange(500)
        np.savez_compressed(
            path, x=np.zeros((500, 30), np.float32), label=count % 2, client=count % 9
        )
    monkeypatch.setattr(
        machine_memory, "available_memory", lambda: 2 * 10**3 if kind == "csv" else 3 * 10**4
    )
    with pytest.raises(fk.ConfigError, match=rf"not enough memory: .*samples\.{kind}"):
        fk.data.load(path)
