"""What a configuration names is validated and made one time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedkin.config import registry
from fedkin.config.run import load
from fedkin.run.simulate import execute

RUN = [
    "data.clients=6",
    "run.rounds=1",
    "run.cohort=3",
    "run.against=fedavg,fedprox",
    "shift.name=swap_all",
]


def test_a_run_makes_each_entry_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[str] = Counter()
    validated: Counter[str] = Counter()
    make = registry.Entry.make
    resolve = registry.validate

    def noted(entry: registry.Entry, *first: Any) -> Any:
        made[entry.name] += 1
        return make(entry, *first)

    def seen(kind: type, *arguments: Any) -> Any:
        validated[kind.__name__] += 1
        return resolve(kind, *arguments)

    monkeypatch.setattr(registry.Entry, "make", noted)
    monkeypatch.setattr(registry, "validate", seen)
    execute(load(None, [*RUN, "server_optimizer.name=fedadam"]), out=tmp_path / "run")
    assert made == {
        name: 1
        for name in ("digits", "mclr", "fedgroup", "fedavg", "fedprox", "fedadam", "swap_all")
    }
    assert validated["FedGroup"] == 1 and validated["FedAdam"] == 1 and validated["digits"] == 1
