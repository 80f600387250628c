"""Random search in a comparison: options are drawn from distributions, with the same number of
trials for each method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedkin.config.comparison_axes import Axis
from fedkin.config.comparison_grid import Variant
from fedkin.config.distributions import Integers, Log, Uniform, draws
from fedkin.config.run import from_dict
from fedkin.config.schema import Place, Values, check_integer
from fedkin.core.errors import ConfigError


class SearchAxes(NamedTuple):
    """The axes (options with several values) of a comparison, divided by how they are tried.

    Attributes:
        crossed: axes of which each value is tried with each.
        drawn: axes of a random search; value t of each is of trial t. Empty without one.
    """

    crossed: list[Axis]
    drawn: list[Axis]


def search(axes: Sequence[Axis], trials: int | None, seed: int) -> SearchAxes:
    """Divide the axes of a comparison, and draw the values of a random search.

    With a number of trials, options that can be tuned are drawn: from their distribution, or from
    their list with equal probabilities. Lists of options that describe the problem are crossed with
    the trials, so every problem has the same trials.

    Args:
        axes: options with lists of values or with distributions.
        trials: number of trials; None: no random search.
        seed: seed of the draws.

    Raises:
        ConfigError: a distribution has no number of trials or describes the problem, or there is
            nothing to draw.
    """
    if trials is None:
        for one in axes:
            if one.distribution is not None:
                raise ConfigError(
                    f"{one.key}: a distribution needs a number of trials; add --trials 20, or "
                    f"write a list, as in --grid {one.key}=A,B"
                )
        return SearchAxes(list(axes), [])
    check_integer("trials", trials, 1)
    for one in axes:
        if one.distribution is not None and not one.tuned:
            raise ConfigError(
                f"{one.key}: trials on different problems have no common winner; write a list, as "
                f"in --grid {one.key}=A,B, and every problem gets the same trials"
            )
    drawn = [
        Axis(one.key, draws(one.drawn_from(), one.key, trials, seed)) for one in axes if one.tuned
    ]
    if not drawn:
        raise ConfigError(
            f"trials: {trials} trials need an option to draw; give one a distribution, as in "
            "--grid 'local.lr=log(0.01, 0.3)'"
        )
    return SearchAxes([one for one in axes if not one.tuned], drawn)


def check_bounds(raw: Mapping[str, Values], axes: Sequence[Axis], place: Place) -> None:
    """Check both bounds of options that are drawn as integers, so that no later trial is refused.

    The bounds of other distributions are almost never drawn. Options of methods are checked with
    each method.

    Args:
        raw: the sections of a setting, with a method.
        axes: options with lists of values or with distributions.
        place: as for ``run.from_dict``.

    Raises:
        ConfigError: a bound is no valid value of its option; the message has the distribution.
    """
    for one in axes:
        bounds = one.distribution
        if not isinstance(bounds, Integers) or one.section == "method":
            continue
        drawn_as = f" (a bound of {bounds.text})"
        for bound in (bounds.low, bounds.high):
            section = {**raw.get(one.section, {}), one.option: bound}
            from_dict({**raw, one.section: section}, lambda key, end=drawn_as: f"{place(key)}{end}")


def check_integers(
    raw: Mapping[str, Values], axes: Sequence[Axis], methods: Sequence[Variant]
) -> None:
    """Refuse distributions of real numbers for options that take integers only.

    Args:
        raw: the sections of the configuration.
        axes: options with lists of values or with distributions.
        methods: the methods, each with the options that it takes from a trial.

    Raises:
        ConfigError: such a distribution; the message ends with a right one.
    """
    for one in axes:
        bounds = one.distribution
        if not isinstance(bounds, (Log, Uniform)):
            continue
        of_method = one.section == "method"
        takers = [method for method in methods if not of_method or one.option in method.takes]
        # Options of other sections mean the same for all methods.
        for method in takers if of_method else takers[:1]:
            right = _right_integers({**raw, "method": method.entry}, one, bounds)
            if right is not None:
                raise ConfigError(
                    f"{one.key}: {bounds.text} draws numbers with a fraction, and this option "
                    f"takes integers; for example {one.key}={right.text}"
                )


def _right_integers(raw: Mapping[str, Values], one: Axis, bounds: Log | Uniform) -> Integers | None:
    """The distribution of integers to write instead, if an option takes integers only; None if it
    takes other numbers, or is refused for another reason."""

    def is_valid(value: float | int) -> bool:
        """Whether the option can have this value."""
        try:
            from_dict({**raw, one.section: {**raw.get(one.section, {}), one.option: value}})
        except ConfigError:
            return False
        return True

    # A number between the bounds that is no integer, whatever the bounds are.
    if is_valid(bounds.low + (bounds.high - bounds.low) / math.pi):
        return None
    highest = math.floor(bounds.high)
    lowest = next((v for v in (math.ceil(bounds.low), 1, highest) if is_valid(v)), None)
    return None if lowest is None else Integers(lowest, max(highest, lowest + 1))
