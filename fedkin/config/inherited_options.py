"""Inheritance of options. [method] describes the main method of a run, and the methods that are
compared with it inherit those of its options that mean the same for them.

For example, if [method] has five clusters, the compared methods have five too. Each method declares
the meaning of its options (``About.meanings``). Two methods share an option if both give it the
same meaning. Some options have the same name and are not shared:

* ``clusters`` of FedSim are groups of a cohort, which are averaged into one model. Hierarchical and
  ATHENA-FL use ``clusters`` only with ``algorithm = "kmeans"``, and FL+HC takes either ``clusters``
  or a distance. An option that conflicts with the method's other options is not inherited.
* ``alpha`` is the weight of a similarity in PANM, but the number of clients per cluster in FedGroup
  and FlexCFL.
* ``migration``, ``newcomers``, ``weighting``, ``centers``, ``normalize``, ``start`` and
  ``averaging`` would turn a method into another one (IFCA with migration is IFCA-MIG). The same
  holds for ``mu`` in FedGroup and FlexCFL, and for ``eta_g`` in methods that do not aggregate
  between clusters in their papers.
* ``stage_one`` is a number of rounds in PENS and in PANM, but in these rounds the two methods
  search for similar peers in different ways.
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
    """The meaning of each option of a method, by option. Of a user's method only ``clusters`` has a
    known meaning: the number of models, as in the library's methods."""
    from fedkin.methods import METHODS
    from fedkin.methods.about import NUMBER_OF_MODELS

    if user_methods.is_own(method):
        return {"clusters": NUMBER_OF_MODELS}
    return METHODS[method].about.meanings if method in METHODS else {}


def unlike_others(method: str, option: str) -> bool:
    """Whether a method's option means something else than the option of the same name in other
    methods."""
    from fedkin.methods.about import UNLIKE_OTHERS

    return meanings(method).get(option) == UNLIKE_OTHERS


def shared_options(ours: str, theirs: str) -> set[str]:
    """The options that have the same meaning in two methods."""
    our_meanings = meanings(ours)
    their_meanings = meanings(theirs)
    return {
        option
        for option, meaning in our_meanings.items()
        if their_meanings.get(option) == meaning and not unlike_others(ours, option)
    }


def configured_clusters(entry: Values) -> int | None:
    """K, the configured number of clusters. None if the method has no option ``clusters``, or gives
    it another meaning."""
    return None if unlike_others(entry["name"], "clusters") else entry.get("clusters")


def carry_over(
    main: Values, entries: Sequence[Values], skip: Iterable[str] = (), main_runs: bool = True
) -> list[Values]:
    """The compared methods with the options that they inherit from the main method. A method
    inherits an option that it shares with the main method and does not set itself.

    Inherited options are logged once per process. A comparison may leave out the main method. The
    log then also lists the main method's options that no other method inherits.

    Args:
        main: the main method as configured in [method]: its name, and the options that are set.
        entries: the compared methods as configured.
        skip: options that are not inherited, such as the axes of a grid.
        main_runs: whether the main method itself is run, with all its options.
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
    if dropped and all(_is_known(entry["name"]) for entry in entries):
        _say_dropped(str(main["name"]), taken or "nothing", ", ".join(dropped))
    elif taken and not dropped:
        _say(taken)
    return [{**entry, **values} for entry, values in zip(entries, carried, strict=True)]


def _is_known(name: object) -> bool:
    """Whether a method exists. If not, an error with its place follows, and other messages would
    hide it."""
    known = registry.methods()
    if not isinstance(name, str) or name not in known:
        return False
    try:
        registry.options(known[name])
    except ConfigError:
        return False
    return True


def _shared_values(main: Values, entry: Values, skip: frozenset[str]) -> Values:
    """The options that a method inherits: all that it shares with the main method, or the largest
    subset with which the method can be made. The log lists the other shared options, and the error
    that they would cause."""
    names = main["name"], entry["name"]
    known = registry.methods()
    if not all(_is_known(name) for name in names):
        return {}  # other code raises the error, with the place
    shared = shared_options(*names) & registry.options(known[names[1]])
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
    """Log which options of the main method a compared method has too, but does not inherit because
    they have another meaning in one of the two methods."""
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
    """The error that occurs if a method is made with these options; empty if there is none."""
    try:
        registry.make(registry.methods(), entry)
    except FedkinError as error:
        return str(error)
    return ""


@cache
def _say_left_out(text: str) -> None:
    """Log once per process that options of [method] are not inherited because they conflict with a
    method's own options."""
    _log.warning(
        "options of [method] not inherited because they conflict with a method's own options: %s",
        text,
    )


@cache
def _say_kept(text: str) -> None:
    """Log once per process that options of [method] are not inherited because they have another
    meaning in a method."""
    _log.warning("options of [method] not inherited because they have another meaning: %s", text)


@cache
def _say(text: str) -> None:
    """Log once per process which options the compared methods inherit from [method]."""
    _log.warning("inherited from [method]: %s (a method's own options take precedence)", text)


@cache
def _say_dropped(main: str, taken: str, dropped: str) -> None:
    """Log once per process which options of a main method that does not run are inherited, and
    which are dropped."""
    _log.warning(
        "[method] names %s, which does not run; inherited options: %s; options dropped because no "
        "method shares them: %s",
        main,
        taken,
        dropped,
    )
