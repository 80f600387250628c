"""What a named data set says of itself, for ``fedkin data list`` and the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from fedkin.data.download import Source

P = ParamSpec("P")
R = TypeVar("R")


class Form(NamedTuple):
    """A form in which the files of a set may be there: its name, and the function that finds their
    folder."""

    name: str
    find: Callable[[], Path | None]


@dataclass(frozen=True)
class AboutData:
    """What a named data set says of itself.

    Attributes:
        clients: how many it has by default.
        samples: how many it has, as text.
        content: what a sample is, in a few words.
        source: its files; None where it needs none.
        forms: the forms in which its files may be there, of which the first that is found is
            listed; empty where there is one form, that of ``source``.
        without_files: where the samples of a set without files come from.
        overlapping: samples of a client overlap, so that some of them drawn at random cannot
            validate the others.
    """

    clients: int
    samples: str
    content: str
    source: Source | None = None
    forms: tuple[Form, ...] = ()
    without_files: str = "generated"
    overlapping: bool = False


def named(about: AboutData) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of a function that makes a data set: its name is the set's name in
    configurations."""

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        make.about = about  # type: ignore[attr-defined]
        return make

    return decorate
