"""Options: settings that can be added to any method, and their effect in a run.

    Option          the settings, as given by the user: ``fk.FedAdam(lr=0.1)``
    ActiveOption    the same option in one run, with what it needs there (e.g. its open journal)
    Around          the option's effect on one call of the method: the world (the access to
                    clients) that the method sees, and the change of the state that the method
                    returns

A user's option is a frozen dataclass that derives from ``Option``. Pass it to
``simulate(options=[...])``, or name it in ``fedkin/options/__init__.py`` to give it a section in a
configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import Method, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import RUN_SEED, Stream
from fedkin.core.records import Record
from fedkin.core.requirements import Requirements
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run that an option knows before the run begins.

    Attributes:
        method: the method, without options.
        plan: number of rounds, cohort size, seed and other settings of the run
            (``config.plan.Plan``).
        spec: the model's size and layers.
        task_type: what the labels are: classes, numbers, counts, ...
        clients: number of clients N.
        options: all options of the run, by section.
        trackers: where the run sends its metrics (e.g. TensorBoard).
        measures: additional metrics that the user has defined.
        folder: the run's folder; None if it has none.
        true_clusters: true clusters of the clients, if known.
    """

    method: Method
    plan: Any
    spec: ModelSpec
    clients: int
    options: Mapping[str, Option] = field(default_factory=dict)
    trackers: Sequence[Any] = ()
    measures: Sequence[Any] = ()
    folder: Path | None = None
    true_clusters: Int[np.ndarray, "N"] | None = None
    task_type: TaskType = CLASSIFICATION

    @property
    def shares_part(self) -> bool:
        """Whether clients share only a part of their models."""
        return any(option.shares_part for option in self.options.values())


@dataclass(frozen=True)
class RunEnd:
    """Facts about a run that an option knows at its end.

    Attributes:
        round: the last round.
        state: the state after the last round.
        client_scores: accuracy (or other score of the task type) of each evaluated client, in the
            order of ``clients``.
        clients: columns with an entry for each evaluated client: cluster, samples and scores.
        true_clusters: true clusters of all clients, if known.
        task_type: what the labels are: classes, numbers, counts, ...
    """

    round: int
    state: State
    client_scores: Float[np.ndarray, "n"]
    clients: Mapping[str, np.ndarray]
    true_clusters: Int[np.ndarray, "N"] | None = None
    task_type: TaskType = CLASSIFICATION


class Call(NamedTuple):
    """One call of a method: its initial step, a round, or the assignment of new clients to
    clusters ("place")."""

    step: Literal["init", "round", "place"]
    stream: Stream
    clients: Int[np.ndarray, "n"] | None = None  # the cohort, or the newcomers; None for "init"

    @property
    def round(self) -> int:
        """The communication round; 0 before the first."""
        return self.stream.round


def unchanged(state: State) -> State:
    """Return the state as it is. Options that do not change states have this function as
    ``Around.finish``."""
    return state


class Around(NamedTuple):
    """An option's effect on one call of the method: the ``world`` (access to clients) that the
    method sees, and the function ``finish``, which changes the state that the method returns.

    ``finish`` may read records that ``world`` makes during the call, such as the weights of
    replies.
    """

    # The world that the method sees in this call.
    world: World
    # Maps the state that the method returns to the resulting state.
    finish: Callable[[State], State] = unchanged


class Option:
    """Base class of options: settings for any method.

    The fields of a subclass are its settings; the subclass is then a frozen dataclass. A field
    without a default is required in a configuration. Refuse invalid values in ``__post_init__``.

    Attributes:
        section: the option's section in a configuration. A run has at most one option per section.
        shares_part: whether clients share only a part of their models.

    Examples:
        >>> import fedkin as fk
        >>> class MyOption(fk.Option):
        ...     section = "my_option"
        >>> MyOption().requirements(fk.Requirements()) == fk.Requirements()
        True
    """

    section: ClassVar[str] = ""
    shares_part: ClassVar[bool] = False

    def refusal(self, run: RunFacts) -> str:
        """Why the option cannot be used with the method, the model or another option; empty if it
        can be used."""
        return ""

    def check(self, runs: Sequence[RunFacts]) -> None:
        """Raise ConfigError if the option's settings do not fit the runs. The check runs before any
        file is written.

        Args:
            runs: facts about the run of each compared method, the main method first.
        """

    def requirements(self, needs: Requirements) -> Requirements:
        """Requirements of the method together with this option.

        Args:
            needs: requirements of the method without the option.
        """
        return needs

    @property
    def drawn_by_run(self) -> bool:
        """Whether the run's seed draws what the option does to the data (``seed = "run"``)."""
        return getattr(self, "seed", None) == RUN_SEED

    def drawn(self, seed: int) -> Option:
        """The option with the run's seed in place of ``seed = "run"``. An option with a fixed seed,
        or without one, is returned unchanged."""
        if not self.drawn_by_run:
            return self
        return replace(cast(Any, self), seed=seed)

    def simulated(self, data: Any, shift: Any) -> tuple[Any, Any]:
        """The data of a simulation and their shift over rounds, as this option changes them (e.g.
        an attack poisons samples).

        Args:
            data: the user's data.
            shift: the user's shift of the data.

        Raises:
            ConfigError: simulated clients cannot follow these settings.
        """
        return data, shift

    def bind(self, run: RunFacts) -> ActiveOption:
        """Return the option as it acts in one run. An option that keeps a journal opens the
        journal's file here."""
        return ActiveOption(self.section)

    @classmethod
    def evaluation(
        cls, state: State, spec: ModelSpec, clients: Int[np.ndarray, "n"]
    ) -> Task | None:
        """The task that evaluates clients if a part of their models stays on them.

        None means that the method's usual evaluation applies.

        Args:
            state: a state with the option's arrays in its ``extras``.
            spec: the model's spec.
            clients: clients to evaluate.
        """
        return None


class ActiveOption:
    """An option in one run. The base class does nothing; a subclass overrides the functions for
    what its option changes.

    Args:
        section: the option's section.
    """

    # Whether the run's end must not depend on clients' replies, since the last round would reveal
    # something about them (privacy).
    hides_replies = False

    def __init__(self, section: str) -> None:
        self.section = section

    def around(self, world: World, before: State | None, call: Call) -> Around:
        """The option's effect on a call of the method.

        Args:
            world: the clients, as the options between this option and the clients show them.
            before: the state before the call; None for "init".
            call: the method's step (init, round or place), and the clients in it.
        """
        return Around(world)

    def select_cohort(
        self, reachable: Int[np.ndarray, "c"], round: int
    ) -> Int[np.ndarray, "n"] | None:
        """The cohort of a round, in ascending order, if this option draws it; None if the run's
        usual selection does.

        Args:
            reachable: clients that can take part.
            round: the round.
        """
        return None

    def exhausted(self) -> str:
        """Why no further round is allowed; empty if another round is allowed."""
        return ""

    def record(self, state: State) -> Record:
        """The option's entries in the record of a round."""
        return {}

    def closing(self, end: RunEnd) -> Record:
        """The option's entries in the summary of a run. The option also writes its files here."""
        return {}

    def arrays(self, state: State | None) -> Mapping[str, np.ndarray]:
        """The option's arrays in a state; empty if the state has none of them yet."""
        return {} if state is None else state.extras.get(self.section, {})

    def with_arrays(self, state: State, arrays: Mapping[str, np.ndarray]) -> State:
        """The state with these arrays in place of the option's earlier arrays."""
        return replace(state, extras={**state.extras, self.section: dict(arrays)})
