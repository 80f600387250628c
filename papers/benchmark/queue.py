"""The runs of the benchmark, their order, and their store: one JSON object a line, a line a run.

Every cell (a method at a setting) has three trials before its runs, one for each candidate of the
grid. Trials have data of another seed and are scored on validation samples. The five runs of the
cell use the best candidate.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from papers.benchmark.contenders import CONTENDERS, STEPS, TRIALS, Candidate, Contender
from papers.benchmark.federations import SETTINGS, VALIDATION, Setting
from papers.benchmark.runs import BATCH, measure
from papers.result_store import Job, Line, keep, pending, prepare, read
from papers.setting_digest import digest

SEEDS = (0, 1, 2, 3, 4)
TRIAL_SEED = 1000
LEAST = 3  # seeds, below which a cell has no rank
STORE = Path("papers/benchmark/results.jsonl")
WITH_PART = ("FedGroup", "FlexCFL", "SattlerCFL", "FLHC", "PANM", "FedSim", "CFLGP")
# Options that are newer than the stored runs: method, option, and the value without an effect.
NEWER = (
    ("FlexCFL", "mu", 0.0),
    ("PACFL", "classwise", False),
    *((method, "part", "all") for method in WITH_PART),
)


@dataclass(frozen=True)
class Cell:
    """A method at a setting."""

    setting: Setting
    contender: Contender

    @property
    def place(self) -> tuple[str, str]:
        """Its row and column in tables."""
        return self.setting.name, self.contender.name

    def digest(self, trial: int | None) -> str:
        """The digest of all settings that determine a run.

        Args:
            trial: number of the candidate of a trial; None: a run, with all candidates.
        """
        s = self.setting
        grid = self.contender.grid(s)
        candidates = grid if trial is None else grid[trial : trial + 1]
        plain = {
            name: getattr(s, name)
            for name in ("name", "rounds", "clusters", "newcomers", "shift", "revision")
        }
        options = [
            {
                "rate": c.rate,
                "method": type(c.method).__name__,
                **_values(c.method),
                "more": _options(c),
            }
            for c in candidates
        ]
        model = {"model": s.model.func.__name__, "model options": s.model.keywords}
        fixed = {
            **model,
            "steps": STEPS // self.contender.passes(s),
            "batch": BATCH,
            "tuned": self.contender.tuned,
        }
        return digest({**plain, **fixed, "validation": VALIDATION, "candidates": options})


def _options(candidate: Candidate) -> dict[str, object]:
    """The options of a candidate, in the form by which stored runs are known."""
    return {"class": "MethodOptions", **{option.section: option for option in candidate.options}}


def _values(method: object) -> dict[str, object]:
    """All options of a method, so that a default that changes is another setting. Options that are
    newer than the stored runs are left out while they change nothing."""
    return {
        f"option {name}": value
        for name, value in vars(method).items()
        if (type(method).__name__, name, value) not in NEWER
    }


def cells() -> tuple[Cell, ...]:
    """All cells, in the order in which they are run."""
    return tuple(Cell(setting, contender) for setting in SETTINGS for contender in CONTENDERS)


def jobs(store: Path) -> list[Job]:
    """All runs as jobs: of each cell its trials, and then its seeds."""
    all_jobs: list[Job] = []
    for cell in cells():
        all_jobs += [_job(cell, trial, (TRIAL_SEED,), store) for trial in range(TRIALS)]
        all_jobs.append(_job(cell, None, SEEDS, store))
    return all_jobs


def _job(cell: Cell, trial: int | None, seeds: tuple[int, ...], store: Path) -> Job:
    row, column = cell.place
    key = {"row": row, "column": column, "trial": trial}
    of_setting = cell.digest(trial)
    how = partial(_trial, cell, trial) if trial is not None else partial(_run, cell, store)
    return Job(
        row=row,
        column=column,
        seeds=seeds,
        key=key,
        measure=lambda seed: {**key, "seed": seed, **how(seed)},
        seconds=1.0,
        setting=lambda seed: of_setting,
    )


def _trial(cell: Cell, trial: int, seed: int) -> Line:
    return measure(
        setting=cell.setting, contender=cell.contender, trial=trial, seed=seed, validated=True
    )


def _run(cell: Cell, store: Path, seed: int) -> Line:
    """A run of the candidate that did best in its trials."""
    lines = _trials(cell, store)
    trial = chosen(cell, store)
    if trial is None:
        return {"refused": lines[0]["refused"]}
    return {
        "chosen": trial,
        **measure(
            setting=cell.setting, contender=cell.contender, trial=trial, seed=seed, validated=False
        ),
    }


def chosen(cell: Cell, store: Path) -> int | None:
    """Number of the candidate that did best in its trials, the first of equals; None if the method
    refuses the setting."""
    scored = {
        line["trial"]: line["accuracy"] for line in _trials(cell, store) if "accuracy" in line
    }
    if not scored:
        return None
    return max(sorted(scored), key=lambda trial: scored[trial])


def _trials(cell: Cell, store: Path) -> list[Line]:
    """The stored trials of a cell."""
    digests = [cell.digest(trial) for trial in range(TRIALS)]
    return [line for line in read(store).runs if line["setting"] in digests]


def missing(store: Path) -> list[tuple[Job, int]]:
    """Runs that the store lacks, the most informative first. A cell counts from its third seed on,
    and a setting is most informative when it has all methods. So settings follow each other to
    three seeds, and the other seeds come after all of them."""
    every = jobs(store)
    left = pending([(job, job.seeds) for job in every], read(store, every).runs)
    place = {id(job): number for number, job in enumerate(every)}
    return sorted(left, key=lambda run: (LEAST <= run[1] < TRIAL_SEED, place[id(run[0])], run[1]))


def carry_out(runs: Sequence[tuple[Job, int]], store: Path, hours: float) -> Iterator[Line]:
    """Make runs one after another until the time is up. Each is stored as soon as it is done. A run
    that fails because of the code is named on standard error. A refusal of a method is a line of
    the store.

    Args:
        runs: in their order.
        store: the file.
        hours: no run begins after them.

    Raises:
        StorageError: the store cannot be written.
    """
    prepare(store)
    end = time.monotonic() + 3600 * hours
    for job, seed in runs:
        if time.monotonic() >= end:
            return
        try:
            line = job.run(seed)
        except Exception as error:  # a fault of one method; the others go on
            print(
                f"{job.name}, seed {seed}: not run: {type(error).__name__}: {error}",
                file=sys.stderr,
                flush=True,
            )
            continue
        keep(line, store)
        yield line
