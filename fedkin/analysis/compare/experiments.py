"""Makes the experiment (data, model, training) of each setting of a comparison, checks whether all
methods can run in it, and runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.analysis.compare.comparison_folder import Cell
from fedkin.config.registry import Entry
from fedkin.config.run import RunConfig
from fedkin.config.schema import error_context
from fedkin.core.errors import CheckpointError, FedkinError, StorageError
from fedkin.core.records import Record
from fedkin.data.federated import FederatedData
from fedkin.measures.run_scores import RunScores, scores_of
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
# Label of a setting, and the seed that has drawn its data; None if all seeds share the data.
DrawnData = tuple[str, int | None]


def reason_of(error: Exception) -> str:
    """Why a run failed, as text. Errors that do not come from fedkin begin with their type."""
    return str(error) if isinstance(error, FedkinError) else f"{type(error).__name__}: {error}"


def drawn_data(setting: str, config: RunConfig, seed: int) -> DrawnData:
    """Which data a run of a setting has. Runs share their data if these values are equal.

    Args:
        setting: label of the setting.
        config: the configuration of a method in this setting.
        seed: the run's seed.
    """
    return setting, seed if config.draws_data else None


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
    With ``data.seed = "run"``, each seed of a setting has separate data.
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
        # The configuration of the data, and the seed that has drawn them.
        self._described: tuple[Entry, int | None] | None = None
        # The data that the stored experiments share, before options such as attacks change them.
        self._data: FederatedData | None = None
        self._running: DrawnData | None = None  # setting and data of the last run
        self._kept: dict[DrawnData, tuple[SimulatedExperiment, Digests]] = {}
        # The measures of the data made so far, each with the first setting that has it.
        self.scores: dict[RunScores, str] = {}

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
        data = drawn_data(cell.setting.label, config, cell.seed)
        if self._running is not None and self._running != data:
            self._kept.pop(self._running, None)  # its compiled programs are no longer needed
        self._running = data
        experiment, digests = self._experiment(cell, config)
        return experiment.with_seed(cell.seed).side_by_side(
            methods, digests, cell.path, holds_run(cell.path)
        )

    def _check(self, cell: Cell) -> None:
        """Raise FedkinError if the method of a cell (one method, setting and seed) cannot run in
        the cell's setting."""
        config = cell.setting.config(cell.method)
        experiment, _ = self._experiment(cell, config)
        experiment.with_seed(cell.seed).check(_methods(config))

    def _experiment(self, cell: Cell, config: RunConfig) -> tuple[SimulatedExperiment, Digests]:
        """The experiment of a cell's setting (data, model and training), and the digests of its
        data."""
        key = drawn_data(cell.setting.label, config, cell.seed)
        if key in self._kept:
            return self._kept[key]
        data = self._data_of(cell, config)
        experiment, _ = from_config(config, on_round=self._on_round, data=data, seed=cell.seed)
        digests = experiment.worlds.digests()
        self._refuse_other_data(key, config, digests)
        self._kept[key] = experiment, digests
        return self._kept[key]

    def _data_of(self, cell: Cell, config: RunConfig) -> FederatedData:
        """The data of a cell, before options such as attacks change them."""
        described = config.data, cell.seed if config.data.drawn_by_run else None
        if self._data is None or self._described != described:
            # Free the old data first, to keep only one data set in memory.
            self._kept.clear()
            self._data = None
            with error_context("data"):
                self._data = config.make_data(cell.seed)
            scores = scores_of(self._data.task_type.measures)
            self.scores.setdefault(scores, cell.setting.label)
            self._described = described
        return self._data

    def _refuse_other_data(self, key: DrawnData, config: RunConfig, digests: Digests) -> None:
        """Raise CheckpointError if the data have changed since earlier runs on them."""
        for (label, _, seed), run in self._before.items():
            same = drawn_data(label, config, seed) == key
            if same and fingerprint(run.config, *digests) != run.fingerprint:
                raise CheckpointError(
                    f"{run.folder} was run on other data, or with another model or version of JAX, "
                    "than the missing runs of this comparison would use; start a new "
                    "comparison in another folder"
                )


def _methods(config: RunConfig) -> Methods:
    """The method of a cell's configuration with its options, as a list with this one entry."""
    # A user's method object may keep state, so each run gets a new one, as with separate processes.
    return [(config.method.values, config.method.make())]
