"""The description of a named data set, for ``fedkin data list`` and the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from fedkin.data.download import Source

P = ParamSpec("P")
R = TypeVar("R")


class Form(NamedTuple):
    """A form in which the files of a set may exist.

    Attributes:
        name: of the form.
        find: returns the folder of the files, or None.
    """

    name: str
    find: Callable[[], Path | None]


@dataclass(frozen=True)
class AboutData:
    """The description of a named data set.

    Attributes:
        clients: number of clients by default.
        samples: number of samples, as text.
        content: a few words about a sample.
        source: its files; None if it needs none.
        forms: the forms in which its files may exist. The first one found is listed. Empty if
            ``source`` is the only form.
        without_files: origin of the samples of a set without files.
        overlapping: samples of a client overlap, so a random part of them cannot validate the rest.
    """

    clients: int
    samples: str
    content: str
    source: Source | None = None
    forms: tuple[Form, ...] = ()
    without_files: str = "generated"
    overlapping: bool = False


def named(about: AboutData) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that describes a function as a named data set; the function's name is the set's
    name."""

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        make.about = about  # type: ignore[attr-defined]
        return make

    return decorate
