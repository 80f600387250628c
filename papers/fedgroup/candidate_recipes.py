"""FedGroup's FEMNIST-MCLR row on candidates for the authors' file, with the row's published
numbers: with which sharing of images do all six cells fit?"""

from __future__ import annotations

from dataclasses import replace

from papers.fedgroup.recipes import FEMNIST_FIVE, METHODS, PUBLISHED
from papers.recipe import Cell, Options, Setting

TABLE = "FEMNIST candidates"
POOLS = (300, 600, 1000, 2000)  # images a class

OPTIONS: dict[str, Options] = {
    "training writers, images shared": (("training_writers", True),),
    **{
        f"{images} images a class, wrapping": (("cursor", "wraps"), ("images", images))
        for images in POOLS
    },
    "classes u, u - 1, .., images shared": (("step", -1),),
}


def _row(row: str, options: Options) -> Setting:
    """Each seed with its own shuffle and sizes, of the draws that have the file's size."""
    return replace(
        FEMNIST_FIVE,
        row=row,
        data="femnist candidate",
        data_options=(("classes", 26), *options),
        deviation="a candidate for the authors' file",
    )


CANDIDATES = [_row(row, options) for row, options in OPTIONS.items()]
CELLS = [
    Cell(table=TABLE, setting=setting, column=column, method=method, published=value)
    for setting in CANDIDATES
    for (column, method), value in zip(METHODS.items(), PUBLISHED[FEMNIST_FIVE], strict=True)
]
