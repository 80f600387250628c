"""Options of [method] that the other methods of a run take over, because they mean the same there.

A comparison of methods with five clusters is one in which all have five. An option is shared where
it says something of the problem, or of a step that two methods have in common, by the same name. A
method says what its options mean (``About.meanings``), and two methods share those to which both
give one meaning. Not shared, though the names agree:

* ``clusters`` of FedSim: parts of a cohort, whose models are averaged into one. Those of
  Hierarchical and ATHENA-FL are for ``algorithm = "kmeans"`` only, and FL+HC takes them or a
  distance: an option that does not fit the method's other options is left out.
* ``alpha`` of PANM, the weight of one similarity, is not that of FedGroup and FlexCFL, clients per
  cluster.
* ``migration``, ``newcomers``, ``weighting``, ``centers``, ``normalize``, ``averaging``: they make
  another method of it (IFCA with migration is IFCA-MIG). So do ``mu`` in FedGroup, and ``eta_g``
  where the paper has no such step.
* ``stage_one`` of PENS counts the rounds of another search than PANM's.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from fedkin.config import registry, user_methods
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError, FedkinError

_log = logging.getLogger("fedkin")


def meanings(method: str) -> Mapping[str, str]:
    """What the options of a method mean, by option; a user's own method means by ``clusters`` what
    the library does."""
    from fedkin.methods import METHODS
    from fedkin.methods.about import NUMBER_OF_MODELS

    if user_methods.is_own(method):
        return {"clusters": NUMBER_OF_MODELS}
    return METHODS[method].about.meanings if method in METHODS else {}


def unlike_others(method: str, option: str) -> bool:
    """Whether a method means by an option something else than the other methods that have one by
    this name."""
    from fedkin.methods.about import UNLIKE_OTHERS

    return meanings(method).get(option) == UNLIKE_OTHERS


def shared_options(ours: str, theirs: str) -> set[str]:
    """The options that have one meaning in two methods."""
    our_meanings = meanings(ours)
    their_meanings = meanings(theirs)
    return {
        option
        for option, meaning in our_meanings.items()
        if their_meanings.get(option) == meaning and not unlike_others(ours, option)
    }


def configured_clusters(entry: Values) -> int | None:
    """K as it was configured; None of a method that has no such option, or means another thing by
    it."""
    return None if unlike_others(entry["name"], "clusters") else entry.get("clusters")


def carry_over(
    main: Values, entries: Sequence[Values], skip: Iterable[str] = (), main_runs: bool = True
) -> list[Values]:
    """Entries of methods with the options of the main method that they share and do not give
    themselves.

    What is taken over is logged in a line, once in a process; and, where the main method does not
    run, what is not.

    Args:
        main: [method] as it was written: its name, and the options that are given there.
        entries: the other methods, as they were written.
        skip: options that are decided elsewhere.
        main_runs: whether the main method is one of those that run, with all its options.
    """
    carried = [_shared_values(main, entry, frozenset(skip)) for entry in entries]
    takers: dict[str, list[str]] = {}
    for entry, values in zip(entries, carried, strict=True):
        for option, value in values.items():
            takers.setdefault(f"{option} = {value!r}", []).append(str(entry["name"]))
    taken = "; ".join(f"{', '.join(names)}: {given}" for given, names in takers.items())
    decided = {"name", "label", *skip}.union(*carried)
    dropped = (
        []
        if main_runs
        else [f"{key} = {value!r}" for key, value in main.items() if key not in decided]
    )
    if dropped:
        _say_dropped(str(main["name"]), taken or "nothing", ", ".join(dropped))
    elif taken:
        _say(taken)
    return [{**entry, **values} for entry, values in zip(entries, carried, strict=True)]


def _shared_values(main: Values, entry: Values, skip: frozenset[str]) -> Values:
    """The options that an entry takes over: all together, else the most with which it can be made.
    What is left out is logged, with the reason."""
    names = main["name"], entry["name"]
    known = registry.methods()
    if not all(isinstance(name, str) and name in known for name in names):
        return {}  # refused elsewhere, with its place
    try:
        shared = shared_options(*names) & registry.options(known[names[1]])
    except ConfigError:  # a user's own that cannot be imported: refused elsewhere, too
        return {}
    _tell_other_meanings(main, entry, skip)
    values = {
        key: main[key] for key in main if key in shared and key not in entry and key not in skip
    }
    if not values:
        return {}
    own = {key: value for key, value in entry.items() if key != "label"}
    reason = why_impossible({**own, **values})
    if not reason:
        return values
    subsets = (
        keys
        for size in range(len(values) - 1, -1, -1)
        for keys in itertools.combinations(values, size)
    )
    kept = next(
        (
            keys
            for keys in subsets
            if not why_impossible({**own, **{key: main[key] for key in keys}})
        ),
        (),
    )
    left = [f"{key} = {main[key]!r}" for key in values if key not in kept]
    if left:
        _say_left_out(f"{names[1]}: {', '.join(left)} ({reason})")
    return {key: main[key] for key in kept}


def _tell_other_meanings(main: Values, entry: Values, skip: frozenset[str]) -> None:
    """Log options of the main method by whose name the other means another thing, and which it
    therefore keeps."""
    names = {main["name"], entry["name"]}
    if len(names) < 2:
        return
    for option in main:
        if (
            option in entry
            or option in skip
            or not any(unlike_others(name, option) for name in names)
        ):
            continue
        if option in registry.options(registry.methods()[entry["name"]]):
            _say_kept(f"{entry['name']}: {option} = {main[option]!r}")


def why_impossible(entry: Values) -> str:
    """Why a method cannot be made with these options; empty where it can."""
    try:
        registry.make(registry.methods(), entry)
    except FedkinError as error:
        return str(error)
    return ""


@cache
def _say_left_out(text: str) -> None:
    """Once in a process."""
    _log.warning("from [method], left out where it cannot be: %s", text)


@cache
def _say_kept(text: str) -> None:
    """Once in a process."""
    _log.warning("from [method], not taken over by what means another thing by that name: %s", text)


@cache
def _say(text: str) -> None:
    """Once in a process."""
    _log.warning("inherited from [method]: %s (a method's own options take precedence)", text)


@cache
def _say_dropped(main: str, taken: str, dropped: str) -> None:
    """Once in a process."""
    _log.warning(
        "from [method], which is of %s and does not run: taken over: %s; dropped, as no method "
        "that runs shares it: %s",
        main,
        taken,
        dropped,
    )
