"""The experiments of a comparison's settings: what their methods refuse before the first run, and
the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.analysis.compare.comparison_folder import Cell
from fedkin.config.comparison_grid import Setting
from fedkin.config.registry import Entry
from fedkin.config.run import RunConfig
from fedkin.core.errors import CheckpointError, FedkinError, StorageError
from fedkin.core.records import Record
from fedkin.run.callbacks import OnRound
from fedkin.run.experiment import Experiment
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.folder.run_folder import holds_run
from fedkin.run.results import Run
from fedkin.run.simulate import from_config
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.run.worlds import Digests, Methods

SimulatedExperiment = Experiment[SimulatedWorlds]
Pair = tuple[str, str]  # labels of a setting and of a method


def reason_of(error: Exception) -> str:
    """Why there is no run; of an error that is not the library's, what it is as well."""
    return str(error) if isinstance(error, FedkinError) else f"{type(error).__name__}: {error}"


class Observer:
    """A function that is called with every record, and the error that it raised."""

    def __init__(self, on_round: OnRound) -> None:
        """Call a function with every record.

        Args:
            on_round: the function.
        """
        self.on_round = on_round
        self.error: Exception | None = None

    def __call__(self, record: Record) -> Any:
        """What the function returns."""
        try:
            return self.on_round(record)
        except Exception as error:
            self.error = error
            raise


class Experiments:
    """The experiments of settings. Settings with the same data share them; else one data set is in
    memory at a time."""

    def __init__(
        self, before: Mapping[tuple[str, str, int], Run], on_round: OnRound | None
    ) -> None:
        """Experiments that are made when they are needed.

        Args:
            before: runs that were finished before.
            on_round: called with the record of every round.
        """
        self._before = before
        self._on_round = on_round
        self._described: Entry | None = None  # the configuration of the data
        # Whose data the experiments that are kept share.
        self._worlds: SimulatedWorlds | None = None
        self._running: str | None = None  # label of the setting of the last run
        self._kept: dict[str, tuple[SimulatedExperiment, Digests]] = {}  # by label of the setting

    def refusals(self, cells: Sequence[Cell]) -> dict[Pair, str]:
        """Why methods cannot be run in their settings, found without training.

        Settings whose runs are all finished are not looked at.

        Args:
            cells: of the comparison.

        Raises CheckpointError, StorageError: of a setting's data, that have changed.
        """
        pairs = {cell.pair: cell for cell in cells if cell.key not in self._before}
        refused: dict[Pair, str] = {}
        # The experiment of the first setting is then there for the first run.
        for cell in reversed(pairs.values()):
            try:
                self._check(cell)
            except (CheckpointError, StorageError):
                raise
            # A method, model or task of the user's own may raise anything.
            except Exception as error:
                refused[cell.pair] = reason_of(error)
        return {pair: refused[pair] for pair in pairs if pair in refused}

    def run(self, cell: Cell) -> Run:
        """Run one cell, or resume it."""
        config = cell.setting.config(cell.method)
        methods = _methods(config)
        if self._running is not None and self._running != cell.setting.label:
            self._kept.pop(self._running, None)  # its compiled programs are not needed any more
        self._running = cell.setting.label
        experiment, digests = self._experiment(cell.setting, config)
        return experiment.with_seed(cell.seed).side_by_side(
            methods, digests, cell.path, holds_run(cell.path)
        )

    def _check(self, cell: Cell) -> None:
        """Refuse (FedkinError) a method that cannot be run in a setting."""
        config = cell.setting.config(cell.method)
        experiment, _ = self._experiment(cell.setting, config)
        experiment.with_seed(cell.seed).check(_methods(config))

    def _experiment(
        self, setting: Setting, config: RunConfig
    ) -> tuple[SimulatedExperiment, Digests]:
        """The experiment of a setting, and the digests of its data."""
        if setting.label in self._kept:
            return self._kept[setting.label]
        if self._described != config.data:  # else two data sets are in memory at once
            self._kept.clear()
            self._worlds = None
        data = None if self._worlds is None else self._worlds.data
        experiment, _ = from_config(config, False, self._on_round, data)
        digests = experiment.worlds.digests()
        self._refuse_other_data(setting, digests)
        self._described = config.data
        self._worlds = experiment.worlds
        self._kept[setting.label] = experiment, digests
        return self._kept[setting.label]

    def _refuse_other_data(self, setting: Setting, digests: Digests) -> None:
        """Refuse data that have changed since some runs of this setting were finished."""
        for (label, *_), run in self._before.items():
            if label == setting.label and fingerprint(run.config, *digests) != run.fingerprint:
                raise CheckpointError(
                    f"{run.folder} was run on other data, or with another model or version of JAX, "
                    "than the runs of this comparison that are missing would be now; start a new "
                    "comparison in another folder"
                )


def _methods(config: RunConfig) -> Methods:
    # A method of the user's own may keep something in itself, so each run gets a new one, as in a
    # process for each.
    return [(config.method.values, config.method.make())]
