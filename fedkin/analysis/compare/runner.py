"""Running a grid: one cell after another in one process, each run in a folder of its own, none of them twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedkin.analysis.compare.comparison import Comparison, Key
from fedkin.analysis.compare.comparison_folder import Cell, abandon, cells_of, create, finished, same
from fedkin.config import registry
from fedkin.config.comparison import load
from fedkin.config.comparison_grid import Grid, Setting
from fedkin.config.run import Config
from fedkin.core.errors import CheckpointError, ConfigError, FedkinError, StorageError
from fedkin.run.fingerprint import fingerprint
from fedkin.run.lifecycle import Digests, Experiment, Methods
from fedkin.run.loop import OnRound
from fedkin.run.results import Run
from fedkin.run.run_folder import holds_run
from fedkin.run.simulate import from_config

_log = logging.getLogger("fedkin")
OnCell = Callable[[Cell, bool], Any]  # a cell is next; whether it is finished already


def compare(
    study: str | Path | None = None,
    *overrides: str,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    by: str = "final",
    out: str | Path,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Comparison:
    """Compare methods on the same data, scenarios and seeds, as ``fedkin compare`` does.

    Args:
        study: a TOML file as for ``fedkin run``, with a section [compare] if you like (``compare/grid.py`` says what
            it takes); the demonstration where nothing is said. ``overrides`` are ``section.key=value``.
        methods, seeds: in place of the file's; three seeds where nothing is said.
        grid: ``{"local.lr": [0.01, 0.03]}``: each with each.
        by: what methods are told apart by: ``final``, ``best`` or ``worst``.
        out: the folder that keeps it; with ``resume``, one that holds the same comparison already.

    Raises:
        ConfigError: what cannot be, and a grid without a cell.
        StorageError, CheckpointError: about the folder.
    """
    wanted = replace(load(Path(study) if study else None, overrides, methods, seeds, axes=grid), by=by)
    folder = Path(out)
    made = same(folder, wanted) if resume else create(folder, wanted)
    compared = run(wanted, folder, on_round=on_round, made=made)
    compared.write(folder)
    return compared


def run(
    grid: Grid,
    out: Path,
    on_cell: OnCell | None = None,
    on_round: OnRound | None = None,
    made: Sequence[Path] | None = None,
) -> Comparison:
    """Run what is not finished; a cell that cannot be run is told, and the others go on.

    ``made`` are the folders that were made for a new comparison; they are taken back where no cell can be run.

    Data and compiled programs are made once for all methods and seeds of a setting, and kept for the next setting
    where its data are the same.

    Raises:
        ConfigError: no cell could be run.
        CheckpointError, StorageError: a cell's folder holds another run or is damaged; the disk is full.
    """
    cells = list(cells_of(grid, out))
    before = {cell.key: run for cell in cells if (run := finished(cell)) is not None}
    found: dict[Key, Run] = {}
    failed: dict[Key, str] = {}
    untold: list[str] = []
    held = _Held(before)
    for cell in cells:
        if on_cell:
            on_cell(cell, cell.key in before)
        try:
            found[cell.key] = before.get(cell.key) or held.run(cell, on_round)
        except (CheckpointError, StorageError):
            raise
        except FedkinError as error:
            failed[cell.key] = str(error)
            untold.append(f"{', '.join(str(part) for part in cell.key if part != '')}: {error}")
        while found and untold:  # where nothing can be run, the error at the end says it once
            _log.warning("%s", untold.pop(0))
    if not found:
        if made is not None:
            abandon(out, made)
        raise ConfigError(f"no cell of the comparison could be run; the first says: {next(iter(failed.values()))}")
    return Comparison(grid, found, failed, out)


@dataclass
class _Held:
    """The experiment of the last setting, and its data for the next."""

    before: Mapping[Key, Run]  # what was finished in another process
    setting: Setting | None = None
    experiment: Experiment | None = None
    digests: Digests = ("", "")

    def run(self, cell: Cell, on_round: OnRound | None) -> Run:
        """One cell, begun or gone on with."""
        config = cell.setting.config(cell.method)
        named: Methods = [(config.method, registry.make(registry.methods(), config.method))]
        experiment = self._experiment(cell.setting, config, on_round).of_seed(cell.seed)
        experiment.refuse(named)
        return experiment.side_by_side(named, self.digests, cell.path, holds_run(cell.path))

    def _experiment(self, setting: Setting, config: Config, on_round: OnRound | None) -> Experiment:
        if self.experiment is None or self.setting is not setting:
            before, self.experiment = self.experiment, None
            same = before is not None and before.description["data"] == config.data
            data = before.data if before is not None and same else None
            del before  # else two data sets are in memory at once
            self.experiment, _ = from_config(config, False, on_round, data)
            self.setting, self.digests = setting, self.experiment.digests()
            self._refuse_other_data(setting)
        return self.experiment

    def _refuse_other_data(self, setting: Setting) -> None:
        """Runs of one setting saw the same data; a file may have changed since some of them were finished."""
        for (label, *_), run in self.before.items():
            if label == setting.label and fingerprint(run.config, *self.digests) != run.fingerprint:
                raise CheckpointError(
                    f"{run.folder} was run on other data, or with another model or version of JAX, than its "
                    "neighbours would be now; start the comparison anew in another folder"
                )
