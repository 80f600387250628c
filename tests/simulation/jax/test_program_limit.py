"""Compiled programs are released where a process has many memory maps, and no number changes."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedkin as fk
from fedkin.run.run import Run
from fedkin.simulation.jax import program_limit
from fedkin.simulation.jax.local_training import train
from fedkin.simulation.jax.program_limit import MAPS, ProgramLimit, memory_maps
from fedkin.simulation.jax.score_programs import score


@pytest.fixture(scope="module")
def run() -> Callable[[int], Run]:
    jax.clear_caches()  # the runs below are far from the limit of memory maps
    data = fk.data.digits(clients=6)

    def simulate(batch: int) -> Run:
        local = fk.SGD(epochs=1, batch_size=batch, lr=0.1)
        return fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=3,
            cohort=3,
            local=local,
            callbacks=fk.Progress(False),
        )

    return simulate


def counted(monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    """The numbers of maps that are counted, in turn."""
    left = list(counts)
    monkeypatch.setattr(program_limit, "memory_maps", lambda: left.pop(0))


def compile_another(size: int) -> None:
    jax.jit(lambda x: x + size)(jnp.zeros(size))


def test_programs_are_released_above_the_limit(
    run: Callable[[int], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = ProgramLimit(100)
    run(7)
    assert train._cache_size() and score._cache_size()  # type: ignore[attr-defined]
    counted(monkeypatch, 100)
    assert not limit.keep() and train._cache_size()  # type: ignore[attr-defined]
    compile_another(3)
    counted(monkeypatch, 101, 50, 50)
    assert limit.keep()
    assert not train._cache_size() and not score._cache_size()  # type: ignore[attr-defined]


def test_maps_are_counted_only_after_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = ProgramLimit(100)
    counted(monkeypatch)  # counting would fail
    assert not limit.keep()
    compile_another(4)
    with pytest.raises(IndexError):
        limit.keep()
    assert not limit.keep()


def test_all_programs_go_where_those_of_clients_are_not_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleared: list[bool] = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    for left, number in ((50, 0), (51, 1)):
        limit = ProgramLimit(100)
        compile_another(5 + left)
        counted(monkeypatch, 101, left, left)
        assert limit.keep() and len(cleared) == number


def test_the_limit_rises_where_others_hold_the_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    limit = ProgramLimit(100)
    compile_another(6)
    counted(monkeypatch, 400, 300, 300)
    assert limit.keep() and limit.most == 600


def test_a_run_releases_between_rounds_and_keeps_its_bits(
    run: Callable[[int], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = run(5)
    released = []
    before = ProgramLimit.keep

    def keep(limit: ProgramLimit) -> bool:
        limit.most = 1
        released.append(before(limit))
        return released[-1]

    monkeypatch.setattr(ProgramLimit, "keep", keep)
    monkeypatch.setattr(program_limit, "LIMIT", ProgramLimit())
    train.clear_cache()  # type: ignore[attr-defined]
    again = run(5)
    assert released.count(True) > 1 or not memory_maps()
    assert np.array_equal(again.state.models, kept.state.models) and again.records == kept.records


def test_settings_in_one_process_stay_below_the_limit(
    run: Callable[[int], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run with other shapes brings comes on top of the limit, and no more than once."""
    start = memory_maps()
    limit = ProgramLimit(start + 300)
    monkeypatch.setattr(program_limit, "LIMIT", limit)
    counts = []
    for batch in range(3, 11):
        run(batch)
        counts.append(memory_maps())
    assert max(counts) <= limit.most + 300 < MAPS or not start
