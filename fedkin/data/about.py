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
    """A form (e.g. a file format) in which the files of a data set may exist.

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
        forms: the forms in which the files may exist. ``fedkin data list`` shows the first one that
            is found. Empty if ``source`` describes the only form.
        without_files: where the samples of a set without files come from.
        overlapping: whether the samples of a client overlap (e.g. windows of one text). Then the
            option ``validation`` is refused, because the same text would be in training and
            validation samples.
    """

    clients: int
    samples: str
    content: str
    source: Source | None = None
    forms: tuple[Form, ...] = ()
    without_files: str = "generated"
    overlapping: bool = False


def named(about: AboutData) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that makes a function a named data set with this description. The function's name
    is the set's name."""

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        """Attach the description to the function of a named data set."""
        make.about = about  # type: ignore[attr-defined]
        return make

    return decorate
