"""The colour and dashes of each method's line. A method has the same colour in every picture."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from fedkin.config.registry import method_title, methods
from fedkin.reporting.style import DASHES

# Colours on a light and on a dark background: pairs of similar hues. On either background, all
# kinds of colour vision can distinguish them, and each has a contrast of at least 3 to 1.
_COLOURS = (
    ("#222222", "#E9EDF2"),
    ("#0A8CE6", "#9DC9FC"),
    ("#D6601A", "#F06A2A"),
    ("#157957", "#38D3A2"),
    ("#C22FAE", "#C86AA0"),
    ("#5A4402", "#FBD91E"),
    ("#033A61", "#3989DF"),
    ("#5F11BC", "#9440FA"),
    ("#4C0D00", "#D99D62"),
    ("#BF7CA9", "#D90048"),
    ("#909963", "#B9FF73"),
    ("#9F40FF", "#974BA6"),
    ("#5E7334", "#58734B"),
    ("#330066", "#C085CC"),
)
# The methods that are compared most often have different colours.
_FREQUENT = (
    *("fedavg", "fedgroup", "ifca", "flexcfl", "fedprox", "panm", "fedsim", "fesem"),
    *("local", "sattler", "ditto", "fedper", "fedrep", "fedgrouprox"),
)
# The next ones have these colours again, so that methods of one paper's comparison differ.
_NEXT = ("private_clusters", "pfedme", "scaffold", "apfl", "flhc")
_CLUSTERS = re.compile(r" \(K = \d+\)$")  # what figures add to a method's name


class MethodStyle(NamedTuple):
    """How a method's line looks.

    Attributes:
        light: colour on a light background.
        dark: colour on a dark background.
        dash: index of the dashes in ``style.DASHES``.
    """

    light: str
    dark: str
    dash: int

    @property
    def line(self) -> tuple[str, Any]:
        """Colour and dashes for matplotlib, on a light background."""
        return self.light, DASHES[self.dash]


def method_style(name: str) -> MethodStyle:
    """The style of a method, from its name alone.

    Methods of the library are numbered, and the first 98 all look different. Another name, such as
    the label of a variant, is numbered by its characters, so that names that end with consecutive
    numbers have different colours.

    Args:
        name: the name of a method in configurations or in tables, or any label. A number of
            clusters at its end, such as " (K = 3)", is ignored, and so are spaces and signs, so
            that "FL+HC" and "FLHC" are one method.
    """
    label = _CLUSTERS.sub("", name).lower()
    number = _numbers().get(_letters(label))
    return _style(sum(map(ord, label)) if number is None else number)


def method_styles(names: Iterable[str]) -> dict[str, MethodStyle]:
    """The style of each method in a picture. If two methods would look the same, the later one gets
    the next free dashes; its colour is kept.

    Args:
        names: names of the methods, as for ``method_style``.
    """
    styles: dict[str, MethodStyle] = {}
    for name in names:
        first = method_style(name)
        same_colour = {style.dash for style in styles.values() if style.light == first.light}
        dashes = [(first.dash + step) % len(DASHES) for step in range(len(DASHES))]
        free = [dash for dash in dashes if dash not in same_colour]
        styles[name] = first._replace(dash=(free or dashes)[0])
    return styles


def _style(number: int) -> MethodStyle:
    """The style of method ``number``. Neighbours differ in colour and in dashes."""
    light, dark = _COLOURS[number % len(_COLOURS)]
    return MethodStyle(light, dark, (number + number // len(_COLOURS)) % len(DASHES))


@cache
def _numbers() -> dict[str, int]:
    """The number of each method of the library, by the letters of its name and of its title."""
    ordered = list(dict.fromkeys([*_FREQUENT, *_NEXT, *methods()]))
    titles = {_letters(method_title(name)): number for number, name in enumerate(ordered)}
    return {**titles, **{_letters(name): number for number, name in enumerate(ordered)}}


def _letters(name: str) -> str:
    """The letters and digits of a name in lower case."""
    return re.sub("[^a-z0-9]", "", name.lower())
