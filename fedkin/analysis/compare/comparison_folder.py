"""The folder of a comparison. It has these files and folders:

* ``comparison.toml``: the grid of settings, methods and seeds;
* ``cells/SETTING/METHOD/SEED/``: the folder of a run, as ``fedkin run`` writes it;
* ``comparison.csv``, ``.md``, ``.tex``: the table of results;
* ``runs.csv``: the measures of each run;
* ``sweep.tex``, ``means.tex``, ``importance.csv``, ``.tex``: the candidates of a sweep, methods x
  settings, and how much each option mattered;
* ``differences.csv``: the significance tests between methods;
* ``ranks.csv``, ``.tex``, ``.png``, ``.svg``, ``rank_tests.csv``: ranks of the methods over the
  settings, and their tests, from three methods and five settings on;
* ``curves.csv``: the accuracy of all runs in every round;
* ``summary.json``: the table and the tests as JSON;
* ``failed.json``: the reasons of failed runs, if there are any;
* ``figure.png``, ``.svg``: a figure of accuracy over the rounds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedkin.config.comparison_grid import ComparisonGrid, Setting, Variant, from_description, slug
from fedkin.config.loader import read_toml
from fedkin.core.errors import CheckpointError, StorageError
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.run.folder import run_folder
from fedkin.run.folder.fingerprint import determining_part
from fedkin.run.folder.run_folder import holds_run
from fedkin.run.run import Run
from fedkin.run.stopping import stop_of_resumed

COMPARISON = "comparison.toml"
CELLS = "cells"
FAILED = "failed.json"
_WRITTEN = (
    "comparison.csv",
    "comparison.md",
    "comparison.tex",
    "runs.csv",
    "sweep.tex",
    "means.tex",
    "importance.csv",
    "importance.tex",
    "differences.csv",
    "ranks.csv",
    "rank_tests.csv",
    "ranks.tex",
    "ranks.png",
    "ranks.svg",
    "curves.csv",
    "figure.png",
    "figure.svg",
    run_folder.SUMMARY,
    FAILED,
    CELLS,
)


@dataclass(frozen=True)
class Cell:
    """A cell of a comparison's grid: one method in one setting with one seed, and so one run.

    Attributes:
        setting, method, seed: the place in the grid.
        path: the run's folder.
    """

    setting: Setting
    method: Variant
    seed: int
    path: Path

    @property
    def key(self) -> tuple[str, str, int]:
        """The cell's key in dictionaries of runs: labels of setting and method, and the seed."""
        return self.setting.label, self.method.label, self.seed

    @property
    def pair(self) -> tuple[str, str]:
        """The labels of the cell's setting and method, which all seeds share."""
        return self.setting.label, self.method.label


def create(path: Path, grid: ComparisonGrid) -> list[Path]:
    """Create a comparison's folder. Returns the newly created folders, innermost first.

    Raises StorageError if the folder already holds a comparison or a run.
    """
    if (path / COMPARISON).exists():
        other = _other_part(_read(path), grid)
        if other:
            raise StorageError(
                f"{path} already holds a comparison with other {other}; choose another folder"
            )
        raise StorageError(
            f"{path} already holds this comparison; resume it: --resume {path} --seeds "
            f"{len(grid.seeds)} (in Python resume=True)"
        )
    if holds_run(path):
        raise StorageError(f"{path} already holds a run; choose another folder")
    run_folder.refuse_others(path, _WRITTEN)
    created = run_folder.make_folder(path)
    _write(path, grid)
    return created


def abandon(path: Path, created: Sequence[Path]) -> None:
    """Remove a comparison's folder if it holds no run.

    ``created`` is the list of folders that ``create`` returned.
    """
    if not (path / CELLS).exists():
        (path / COMPARISON).unlink(missing_ok=True)
        for folder in created:
            if not any(folder.iterdir()):
                folder.rmdir()


def reopen_same(path: Path, grid: ComparisonGrid) -> None:
    """Resume a comparison with a grid that may differ only in the number of seeds.

    Raises CheckpointError if the folder holds another comparison.
    """
    other = _other_part(reopen(path).description(), grid)
    if other:
        raise CheckpointError(
            f"{path} holds a comparison with other {other}; choose another folder"
        )
    _write(path, grid)


def _other_part(stored: dict[str, Any], grid: ComparisonGrid) -> str:
    """Which part of a stored comparison differs from a grid: ``methods`` or ``settings``. The text
    is empty if at most the seeds differ."""
    described = _plain(grid.description())
    plain_stored = _plain(stored)
    for part in ("methods", "settings"):
        if plain_stored.get(part) != described[part]:
            return part
    return ""


def reopen(path: Path, seeds: int | None = None, by: str | None = None) -> ComparisonGrid:
    """Read the grid of a comparison that is to be resumed.

    Args:
        path: the comparison's folder.
        seeds: new number of seeds; None: unchanged.
        by: new measure by which methods are compared; None: unchanged.

    Raises CheckpointError if the folder holds no comparison.
    """
    if not (path / COMPARISON).exists():
        raise CheckpointError(f"{path} holds no comparison: there is no {COMPARISON} in it")
    grid = from_description(_read(path), path / COMPARISON)
    changed: dict[str, Any] = {} if by is None else {"by": by}
    if seeds is not None:
        changed["seeds"] = tuple(range(grid.seeds[0], grid.seeds[0] + seeds))
    if changed:
        grid = dataclasses.replace(grid, **changed)
        _write(path, grid)
    return grid


def cells_of(grid: ComparisonGrid, out: Path) -> Iterator[Cell]:
    """Yield all cells (a cell: one method, setting and seed), by setting and then by seed, so that
    an interrupted comparison has complete seeds."""
    for setting in grid.settings:
        for seed in grid.seeds:
            for method in grid.methods:
                yield Cell(
                    setting,
                    method,
                    seed,
                    out / CELLS / slug(setting.label) / slug(method.label) / str(seed),
                )


def finished_run(cell: Cell) -> Run | None:
    """Load the run of a cell (one method, setting and seed) if the run is finished; otherwise None.

    Raises CheckpointError if the folder holds another run, or a damaged one.
    """
    # The summary is written when a run ends, so a run without one is unfinished.
    if not (cell.path / run_folder.SUMMARY).exists():
        return None
    try:
        run = Run.load(cell.path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; move {cell.path} away to run it again") from error
    config = cell.setting.config(cell.method)
    description = config.description().with_run(seed=cell.seed)
    if _plain(determining_part(description)) != determining_part(run.config):
        raise CheckpointError(
            f"{cell.path} holds a run that does not belong to this comparison; move it away"
        )
    stopped = run.records and stop_of_resumed(config.run, run.records, run.final.get("stopped"))
    if not run.records:
        return None
    return run if stopped or run.records[-1]["round"] == config.run.rounds else None


def missing_line(setting: str, method: str, reason: str, seeds: Sequence[int] = ()) -> str:
    """A line of text about missing runs and the reason.

    Args:
        setting: label of the setting; empty if there is only one.
        method: label of the method.
        reason: the reason.
        seeds: seeds of the missing runs; empty: all seeds.
    """
    numbers = ", ".join(map(str, seeds))
    from_seeds = f"seed{'s' * (len(seeds) > 1)} {numbers}" if seeds else ""
    return f"{', '.join(part for part in (setting, method, from_seeds) if part)}: {reason}"


def keep_failed(path: Path, failed: Mapping[tuple[str, str, int], str]) -> None:
    """Store the reasons of failed runs in the folder. Without failed runs, the file ``failed.json``
    is removed.

    Args:
        path: the comparison's folder.
        failed: reasons by setting, method and seed.
    """
    if failed:
        cells = [{"cell": list(key), "reason": reason} for key, reason in failed.items()]
        write_atomic(path / FAILED, json.dumps(cells, indent=2) + "\n")
        return
    with storage_errors(path):
        (path / FAILED).unlink(missing_ok=True)


def read_failed(path: Path) -> dict[tuple[str, str, int], str]:
    """Reasons of failed runs by setting, method and seed; empty if the file ``failed.json`` is
    missing or damaged.

    Args:
        path: the comparison's folder.
    """
    try:
        cells = json.loads((path / FAILED).read_text())
        return {
            (str(s), str(m), int(i)): str(cell["reason"])
            for cell in cells
            for s, m, i in [cell["cell"]]
        }
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _read(path: Path) -> dict[str, Any]:
    """The stored grid of a comparison, as a dictionary."""
    return read_toml(path / COMPARISON)


def _write(path: Path, grid: ComparisonGrid) -> None:
    """Store the grid of a comparison in its folder."""
    write_atomic(path / COMPARISON, tomli_w.dumps(grid.description()))


def _plain(described: dict[str, Any]) -> dict[str, Any]:
    """A grid's description as plain values, as they would be after reading it from a file, so that
    it can be compared with a stored description."""
    return json.loads(json.dumps(described))
