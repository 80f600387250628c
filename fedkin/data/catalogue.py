"""The catalogue of named data sets, and where each is found. What a set is, it says itself
(``AboutData``)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fedkin.data.about import AboutData, Form
from fedkin.data.download import locate
from fedkin.data.named_sets import DATASETS

if TYPE_CHECKING:
    import pandas as pd


class FoundEntry(NamedTuple):
    """A named data set and where it is found."""

    name: str
    where: str
    clients: int  # by default
    samples: str
    about: str


def found_entries() -> list[FoundEntry]:
    """The named sets and where they are found. Downloads nothing."""
    entries = []
    for name, make in DATASETS.items():
        about: AboutData = make.about  # type: ignore[attr-defined]
        entries.append(
            FoundEntry(
                name=name,
                where=_location(about),
                clients=about.clients,
                samples=about.samples,
                about=about.content,
            )
        )
    return entries


def available() -> pd.DataFrame:
    """The named sets, one row each: name, where, clients (by default), samples, about. Downloads
    nothing."""
    import pandas as pd

    return pd.DataFrame(found_entries(), columns=list(FoundEntry._fields))


def _location(about: AboutData) -> str:
    if about.source is None:
        return about.without_files
    for form in about.forms or (Form("", partial(locate, about.source)),):
        if folder := form.find():
            return f"{folder} ({form.name})" if form.name else str(folder)
    return f"download, {about.source.size}" if about.source.url else "not found; set FEDKIN_DATA"
