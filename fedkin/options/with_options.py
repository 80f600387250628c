"""A method together with the options of its run, which stand between the method and the clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, FedkinError
from fedkin.core.method import Method, Remarking, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.options import SECTIONS
from fedkin.options.base import ActiveOption, Call, Option, RunEnd, RunFacts

OTHERS = "*"  # place in ORDER of options that it does not name

# The order of options from the method to the clients. The method's requests pass through the first
# option first, and replies through the last one first. The first option is also the first to change
# the state that the method returns.
ORDER = (
    # Watches the state that the method and all other options have made.
    "monitor",
    # Clients train their personal parts before other options change the shared updates.
    "personal",
    # Takes each model's change in a round, after all averaging, as a gradient.
    "server_optimizer",
    # Drops the replies of clusters with too few of them, before any option averages the others.
    "quorum",
    # Answers the requests for means by the method and by the options above.
    "robust",
    # Adds late replies to a mean.
    "late",
    # Decides which replies count at all, before any option above reads them.
    "asynchronous",
    # Change only the data, before attackers poison them.
    "label_noise",
    "feature_noise",
    # Changes replies on arrival, before any option above reads them.
    "attack",
    # A user's options see the same replies as the method, but not what privacy or secret sums hide.
    OTHERS,
    # Releases only noisy sums.
    "privacy",
    # Releases only sums, which it computes by exchanges with the clients.
    "secret",
)


def by_section(options: Iterable[Any]) -> dict[str, Option]:
    """The options of a run by section, in ``ORDER``.

    Raises:
        ConfigError: a value is not an option or is a class, an option has no section, or two
            options share a section.
    """
    found: dict[str, Option] = {}
    for option in options:
        if isinstance(option, type) or not isinstance(option, Option):
            raise ConfigError(f"options: expected options such as fk.FedAdam(), got {option!r}")
        if not option.section:
            raise ConfigError(
                f"options: {type(option).__name__} has no section; set section = ... in its class"
            )
        if option.section in found:
            raise ConfigError(
                f"options: {option.section} is given twice; give at most one option per section"
            )
        found[option.section] = option
    return dict(sorted(found.items(), key=lambda entry: _place(entry[0])))


def _place(section: str) -> int:
    """The place of an option's section in ``ORDER``; a user's option has the place of
    ``OTHERS``."""
    return ORDER.index(section if section in ORDER else OTHERS)


def simulated(options: Mapping[str, Option], data: Any, shift: Any, seed: int) -> tuple[Any, Any]:
    """The data of a simulation and their shift over rounds, as all options change them.

    Args:
        options: the run's options.
        data: the user's data.
        shift: the user's shift of the data.
        seed: the run's seed, for options that it draws.
    """
    for option in options.values():
        data, shift = option.drawn(seed).simulated(data, shift)
    return data, shift


def refusal(run: RunFacts) -> tuple[str, str] | None:
    """Section and reason of the first option that cannot be used in a run; None if all can.

    The check begins with the options nearest to the clients (privacy, secret sums), which exclude
    some other options. So if two options exclude each other, the user learns that first, and not
    that one of them does not fit the model.
    """
    for section, option in reversed(list(run.options.items())):
        if why := option.refusal(run):
            return section, why
    return None


@dataclass(frozen=True)
class ActiveOptions:
    """The options of one run, from the method to the clients (``ORDER``)."""

    options: tuple[ActiveOption, ...] = ()

    @classmethod
    def of(cls, run: RunFacts) -> ActiveOptions:
        """Start all options of a run. Raises what ``Option.bind`` raises."""
        return cls(tuple(_bound(option, run) for option in run.options.values()))

    @property
    def hides_replies(self) -> bool:
        """Whether clients' replies must not decide when the run ends."""
        return any(option.hides_replies for option in self.options)

    def select_cohort(
        self, reachable: Int[np.ndarray, "c"], round: int
    ) -> Int[np.ndarray, "n"] | None:
        """The cohort of a round, from the option that draws it; None if no option does, so that the
        run's usual selection applies."""
        for option in self.options:
            cohort = option.select_cohort(reachable, round)
            if cohort is not None:
                return cohort
        return None

    def exhausted(self) -> str:
        """Why no further round is allowed; empty if another round is allowed."""
        reasons = (option.exhausted() for option in self.options)
        return next((reason for reason in reasons if reason), "")

    def record(self, state: State) -> Record:
        """The entries of all options in the record of a round."""
        entries: Record = {}
        for option in self.options:
            entries |= option.record(state)
        return entries

    def closing(self, end: RunEnd) -> Record:
        """The entries of all options in the run's summary."""
        entries: Record = {}
        for option in self.options:
            entries |= option.closing(end)
        return entries


def _bound(option: Option, run: RunFacts) -> ActiveOption:
    """Start an option in a run. Raises ConfigError if the code of a user's own option fails."""
    try:
        return option.bind(run)
    except FedkinError:
        raise
    except Exception as error:  # a user's option may raise anything
        words = " ".join(str(error).split())
        raise ConfigError(f"{option.section}: bind: {type(error).__name__}: {words}") from error


NO_OPTIONS = ActiveOptions()


@dataclass(frozen=True)
class WithOptions:
    """A method in a run with options.

    Attributes:
        method: the method.
        options: the run's options.
    """

    method: Method
    options: ActiveOptions = NO_OPTIONS

    def init(self, world: World, stream: Stream) -> State:
        """The method's initial state, after the options' changes."""
        return self._called(world, None, Call("init", stream))

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        """The state after a round of the method with its options."""
        return self._called(world, state, Call("round", stream, cohort))

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        """The state after the method has assigned clusters to new clients."""
        return self._called(world, state, Call("place", stream, newcomers))

    def remarks(self, state: State) -> tuple[str, ...]:
        """The method's warnings about its initial state."""
        return self.method.remarks(state) if isinstance(self.method, Remarking) else ()

    def _called(self, world: World, before: State | None, call: Call) -> State:
        """Call a function of the method (``init``, ``round`` or ``place``) through its options, and
        return the state after the options' changes."""
        # From the clients to the method, each option wraps the world that the next one sees.
        finishes = []
        for option in reversed(self.options.options):
            around = option.around(world, before, call)
            world = around.world
            finishes.append(around.finish)
        state = self._step(world, before, call)
        # ``extras`` holds the options' arrays. They are taken from the earlier state, since a
        # method may make its new state from scratch.
        state = replace(state, extras={} if before is None else before.extras)
        # From the method to the clients, in the opposite order of the loop above.
        for finish in reversed(finishes):
            state = finish(state)
        return state

    def _step(self, world: World, before: State | None, call: Call) -> State:
        """Call the method's function for this step (``init``, ``round`` or ``place``), and return
        the state that the method makes."""
        if before is None or call.clients is None:
            return self.method.init(world, call.stream)
        step = self.method.round if call.step == "round" else self.method.place
        return step(world, before, call.clients, call.stream)


def requirements_with(method: Method, options: Iterable[Option]) -> Requirements:
    """Requirements of a method together with options."""
    needs = requirements_of(method)
    for option in options:
        needs = option.requirements(needs)
    return needs


def evaluation_task(state: State, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task | None:
    """The task that evaluates clients if a part of their models stays on them.

    None means that the usual evaluation applies. An option whose arrays are in the state has
    priority over the method.

    Args:
        state: the run's state.
        spec: the model's spec.
        clients: clients to evaluate, which all have a cluster.
    """
    for section in state.extras:
        for kind in _kinds_of(section):
            task = kind.evaluation(state, spec, clients)
            if task is not None:
                return task
    return state.evaluation(spec, clients)


def _kinds_of(section: str) -> list[type[Option]]:
    """The option classes of a section of the configuration, the latest defined first."""
    if section in SECTIONS:
        # A process that only reads a finished run may not have imported the classes yet.
        SECTIONS[section].classes()
    return [kind for kind in reversed(list(_defined(Option))) if kind.section == section]


def _defined(base: type[Option]) -> Iterator[type[Option]]:
    """All option classes that are defined in this process."""
    for kind in base.__subclasses__():
        yield kind
        yield from _defined(kind)


def check_options(runs: Sequence[RunFacts], places: Sequence[str]) -> None:
    """Raise ConfigError for options that cannot be used with a method, a model or each other.

    Args:
        runs: facts about the run of each compared method, the main method first.
        places: where each method stands in the configuration, for messages.
    """
    for run, place in zip(runs, places, strict=True):
        if refused := refusal(run):
            section, why = refused
            raise ConfigError(f"{section}: {place}: {why}")
    for option in runs[0].options.values():
        option.check(runs)
