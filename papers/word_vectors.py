"""Recipes on text with GloVe's vectors (Pennington, Socher, Manning 2014), a file that only its
authors distribute. A setting does not contain the path of the file, so a setting means the same on
every machine."""

from __future__ import annotations

from dataclasses import replace

from fedkin.data.download import Source, fetch
from papers.recipe import Cell

FILE = "glove.6B.300d.txt"
WIDTH = 300
GLOVE = Source(
    "GloVe",
    {FILE: None},
    folders=("GloVe", "glove"),
    help=f"Unpack {FILE} of glove.6B.zip (nlp.stanford.edu/projects/glove) there",
)


def with_glove(cell: Cell) -> Cell:
    """A cell with data that are read with the word vectors of GloVe 6B, 300 numbers a word.

    Args:
        cell: on ``sent140``, or on ``goodreads`` as text.

    Raises:
        DataError: the file is missing.
    """
    path = fetch(GLOVE) / FILE
    setting = cell.setting
    return replace(
        cell, setting=replace(setting, data_options=(*setting.data_options, ("glove", str(path))))
    )
