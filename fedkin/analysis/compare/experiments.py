"""Makes the experiment (data, model, training) of each setting of a comparison, checks whether all
methods can run in it, and runs them."""

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
from fedkin.run.run import Run
from fedkin.run.simulate import from_config
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.run.worlds import Digests, Methods

SimulatedExperiment = Experiment[SimulatedWorlds]
Pair = tuple[str, str]  # labels of a setting and of a method


def reason_of(error: Exception) -> str:
    """Why a run failed, as text. Errors that do not come from fedkin begin with their type."""
    return str(error) if isinstance(error, FedkinError) else f"{type(error).__name__}: {error}"


class Observer:
    """Wraps the caller's function ``on_round`` (the listener) and remembers the error that it
    raises, which must end the comparison and not count as the failure of a run."""

    def __init__(self, on_round: OnRound) -> None:
        """Wrap a listener.

        Args:
            on_round: the listener.
        """
        self.on_round = on_round
        self.error: Exception | None = None

    def __call__(self, record: Record) -> Any:
        """Call the listener with a record, and return its result."""
        try:
            return self.on_round(record)
        except Exception as error:
            self.error = error
            raise


class Experiments:
    """Makes and runs the experiments of all settings (data sets and configurations).

    Settings with the same data use one copy of the data. Only one data set is in memory at a time.
    """

    def __init__(
        self, before: Mapping[tuple[str, str, int], Run], on_round: OnRound | None
    ) -> None:
        """Set up without making any experiment; each is made when it is first needed.

        Args:
            before: runs that finished earlier, by setting, method and seed.
            on_round: called with the record of every round.
        """
        self._before = before
        self._on_round = on_round
        self._described: Entry | None = None  # the configuration of the data
        # The worlds hold the data that the stored experiments share.
        self._worlds: SimulatedWorlds | None = None
        self._running: str | None = None  # label of the setting of the last run
        self._kept: dict[str, tuple[SimulatedExperiment, Digests]] = {}  # by label of the setting

    def refusals(self, cells: Sequence[Cell]) -> dict[Pair, str]:
        """Reasons why methods cannot run in their settings, checked without training.

        Settings in which all runs are finished are skipped.

        Args:
            cells: the cells of the comparison, each a method in a setting with a seed.

        Raises CheckpointError or StorageError if a setting's data have changed.
        """
        pairs = {cell.pair: cell for cell in cells if cell.key not in self._before}
        refused: dict[Pair, str] = {}
        # The first setting is checked last, so that its experiment is ready for the first run.
        for cell in reversed(pairs.values()):
            try:
                self._check(cell)
            except (CheckpointError, StorageError):
                raise
            # A user's method, model or task may raise any exception.
            except Exception as error:
                refused[cell.pair] = reason_of(error)
        return {pair: refused[pair] for pair in pairs if pair in refused}

    def run(self, cell: Cell) -> Run:
        """Run one cell of the comparison (a method in a setting with a seed), or resume its run."""
        config = cell.setting.config(cell.method)
        methods = _methods(config)
        if self._running is not None and self._running != cell.setting.label:
            self._kept.pop(self._running, None)  # its compiled programs are no longer needed
        self._running = cell.setting.label
        experiment, digests = self._experiment(cell.setting, config)
        return experiment.with_seed(cell.seed).side_by_side(
            methods, digests, cell.path, holds_run(cell.path)
        )

    def _check(self, cell: Cell) -> None:
        """Raise FedkinError if the method of a cell (one method, setting and seed) cannot run in
        the cell's setting."""
        config = cell.setting.config(cell.method)
        experiment, _ = self._experiment(cell.setting, config)
        experiment.with_seed(cell.seed).check(_methods(config))

    def _experiment(
        self, setting: Setting, config: RunConfig
    ) -> tuple[SimulatedExperiment, Digests]:
        """The experiment of a setting (data, model and training), and the digests of its data."""
        if setting.label in self._kept:
            return self._kept[setting.label]
        if (
            self._described != config.data
        ):  # free the old data first, to keep only one data set in memory
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
        """Raise CheckpointError if the data have changed since earlier runs of this setting."""
        for (label, *_), run in self._before.items():
            if label == setting.label and fingerprint(run.config, *digests) != run.fingerprint:
                raise CheckpointError(
                    f"{run.folder} was run on other data, or with another model or version of JAX, "
                    "than the missing runs of this comparison would use; start a new "
                    "comparison in another folder"
                )


def _methods(config: RunConfig) -> Methods:
    """The method of a cell's configuration with its options, as a list with this one entry."""
    # A user's method object may keep state, so each run gets a new one, as with separate processes.
    return [(config.method.values, config.method.make())]
