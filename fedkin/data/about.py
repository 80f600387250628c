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
    """A form in which the files of a data set may exist.

    Attributes:
        name: name of the form.
        find: returns the folder with the files, or None.
    """

    name: str
    find: Callable[[], Path | None]


@dataclass(frozen=True)
class AboutData:
    """The description of a named data set.

    Attributes:
        clients: default number of clients.
        samples: number of samples, as text.
        content: a few words that describe a sample.
        source: where the files come from; None if the set needs no files.
        forms: the forms in which the files may exist; the first one found is listed. Empty if
            ``source`` is the only form.
        without_files: where the samples of a set without files come from.
        overlapping: whether a client's samples overlap, so that some of them cannot validate the
            rest.
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
