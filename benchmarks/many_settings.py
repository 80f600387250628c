"""Many different settings in one process: its memory maps and resident memory, per hundred
settings.

    python -m benchmarks.many_settings [--settings 500] [--through WHAT]

WHAT can be simulate, compare, advise or reproduce.

Digits, with another number of clients, cohort and batch size in every setting, so that no two
settings share a compiled program. Ends with status 1 if the process had 10,000 maps, or if the
resident memory of the last hundred settings was more than 5% above the memory of the hundred
before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fedkin as fk
from fedkin.analysis.advise.pilot_runs import PilotPlan
from fedkin.config.run import from_dict
from fedkin.run.simulate import execute
from fedkin.simulation.jax.program_limit import memory_maps

MAPS = 10_000
GROWTH = 1.05
HUNDRED = 100
PAGE = 4096


class Setting(NamedTuple):
    """The settings that differ from run to run."""

    clients: int
    cohort: int
    batch: int

    @property
    def sections(self) -> dict[str, dict[str, object]]:
        """The sections of a configuration in which settings differ."""
        return {
            "data": {"name": "digits", "clients": self.clients},
            "local": {"epochs": 1, "batch_size": self.batch, "lr": 0.1},
            "run": {"rounds": 2, "cohort": self.cohort},
        }


def settings() -> Iterator[Setting]:
    """Different settings, as many as 60 clients allow."""
    for batch, clients, cohort in product(range(3, 40), range(8, 60, 4), (3, 5, 8)):
        yield Setting(clients, cohort, batch)


def by_simulate(setting: Setting) -> None:
    """``fk.simulate``, two methods side by side."""
    data = fk.data.digits(clients=setting.clients)
    local = fk.SGD(epochs=1, batch_size=setting.batch, lr=0.1)
    methods = fk.FlexCFL(clusters=2), [fk.IFCA(clusters=2)]
    fk.simulate(
        methods[0],
        data,
        fk.models.mlp(data, hidden=16),
        against=methods[1],
        local=local,
        rounds=2,
        cohort=setting.cohort,
        callbacks=fk.Progress(False),
    )


def by_advise(setting: Setting) -> None:
    """``fk.advise``, with pilot runs."""
    data = fk.data.digits(clients=setting.clients)
    local = fk.SGD(epochs=1, batch_size=setting.batch, lr=0.1)
    pilots = PilotPlan(rounds=1, cohort=setting.cohort, seeds=3)
    fk.advise(data, fk.models.mclr(data), local=local, pilots=pilots)


def by_reproduce(setting: Setting) -> None:
    """A configuration as ``fedkin reproduce`` runs its own."""
    execute(from_dict({"method": {"name": "flexcfl", "clusters": 2}, **setting.sections}), out=None)


def by_compare(setting: Setting, folder: Path) -> None:
    """``fk.compare``: a comparison of two methods."""
    options = [f"{s}.{k}={v}" for s, values in setting.sections.items() for k, v in values.items()]
    methods = ["fedavg", {"name": "ifca", "clusters": 2}]
    fk.compare(None, *options, methods=methods, seeds=1, out=folder / "-".join(map(str, setting)))


def resident() -> float:
    """Resident memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def measure(run: Callable[[Setting], None], count: int) -> list[tuple[int, float]]:
    """Most maps and mean resident memory of every hundred settings, printed meanwhile."""
    rows = []
    maps = []
    memory = []
    for number, setting in enumerate(islice(settings(), count), 1):
        run(setting)
        maps.append(memory_maps())
        memory.append(resident())
        if number % HUNDRED == 0 or number == count:
            rows.append((max(maps), float(np.mean(memory))))
            print(
                f"{number:5d} settings: {rows[-1][0]:6,d} maps at most, {rows[-1][1]:6.0f} MB",
                flush=True,
            )
            maps = []
            memory = []
        elif number % 10 == 0:
            print(
                f"{number:5d}: {maps[-1]:,d} maps, {memory[-1]:.0f} MB", file=sys.stderr, flush=True
            )
    return rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_settings", description=__doc__)
    parser.add_argument("--settings", type=int, default=500)
    parser.add_argument(
        "--through", choices=("simulate", "compare", "advise", "reproduce"), default="simulate"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[Setting], None]] = {
            "simulate": by_simulate,
            "compare": lambda setting: by_compare(setting, Path(folder)),
            "advise": by_advise,
            "reproduce": by_reproduce,
        }
        rows = measure(ways[options.through], options.settings)
    grown = len(rows) > 1 and rows[-1][1] > GROWTH * rows[-2][1]
    sys.exit(int(grown or max(maps for maps, _ in rows) >= MAPS))


if __name__ == "__main__":
    main()
