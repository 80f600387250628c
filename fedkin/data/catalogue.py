"""The catalogue of named data sets, and where the files of each set were found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fedkin.data.about import AboutData, Form
from fedkin.data.download import locate
from fedkin.data.named_sets import DATASETS

if TYPE_CHECKING:
    import pandas as pd


class FoundEntry(NamedTuple):
    """A named data set, and where its files were found."""

    name: str
    where: str
    clients: int  # default number of clients
    samples: str
    about: str


def found_entries() -> list[FoundEntry]:
    """The named data sets, and where their files were found. Nothing is downloaded."""
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
    """A table with a row for each named data set. Nothing is downloaded.

    Returns:
        A table with the columns name, where, clients (by default), samples and about.
    """
    import pandas as pd

    return pd.DataFrame(found_entries(), columns=list(FoundEntry._fields))


def _location(about: AboutData) -> str:
    """Where the files of a data set were found, as text; if they were not found, how to get
    them."""
    if about.source is None:
        return about.without_files
    forms = about.forms or (Form("", partial(locate, about.source)),)
    for form in forms:
        if folder := form.find():
            return f"{folder} ({form.name})" if form.name else str(folder)
    return f"download, {about.source.size}" if about.source.url else "not found; set FEDKIN_DATA"
