"""The catalogue of named data sets: what each is, and where it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedkin.data.download import Source, locate
from fedkin.data.femnist import LETTERS
from fedkin.data.goodreads import COUNTS, TEXT
from fedkin.data.heart_disease import HEART, JOINED
from fedkin.data.images import CIFAR10, FASHION_MNIST, MNIST
from fedkin.data.leaf import find_leaf_folder
from fedkin.data.mex import PUBLISHED, TEST_PART
from fedkin.data.sent140 import SENT140
from fedkin.data.shakespeare import ROLES
from fedkin.data.tcga_brca import JOINED as TCGA_JOINED
from fedkin.data.tcga_brca import TCGA

if TYPE_CHECKING:
    import pandas as pd


class CatalogueEntry(NamedTuple):
    """A named data set."""

    name: str
    source: Source | None  # None: needs no files
    clients: int  # by default
    samples: str
    about: str


_CATALOGUE: tuple[tuple[str, Source | None, int, str, str], ...] = (
    ("digits", None, 60, "1,797", "handwritten digits 8x8, comes with scikit-learn"),
    ("mnist", MNIST, 1000, "70,000", "handwritten digits 28x28"),
    ("fashion_mnist", FASHION_MNIST, 500, "70,000", "clothing 28x28, Ditto's federation"),
    ("cifar10", CIFAR10, 100, "60,000", "colour photographs 32x32"),
    ("femnist", LETTERS, 200, "35,792", "handwritten letters a-j 28x28, also 62 classes by writer"),
    ("synthetic", None, 30, "any", "logistic models that differ by client, Synthetic(alpha, beta)"),
    ("synthetic_mixture", None, 300, "any", "each client has samples of several logistic models, FedEM's federation"),
    ("mex", PUBLISHED, 30, "1,184", "exercises on a pressure mat, 5 frames 16x16; the test part alone has 250 samples"),
    ("goodreads", COUNTS, 100, "485", "sentences of book reviews, spoilers or not; word counts, or text"),
    ("sent140", SENT140, 772, "40,783", "tweets, positive or negative, by user; LEAF's draw, others differ a little"),
    ("shakespeare", ROLES, 809, "808,705", "the next character, by speaking role; windows of 80, every fifth"),
    ("heart_disease", HEART, 4, "740", "patients of four hospitals, ill or not, in FLamby's split"),
    ("tcga_brca", TCGA, 6, "1,544", "survival of breast cancer patients of six regions, in FLamby's split"),
    ("sine", None, 10, "11,000", "a stream in 11 steps: below a sine or not, or inverted"),
    ("circle", None, 10, "11,000", "a stream in 11 steps: outside one of two circles"),
    ("sea", None, 10, "11,000", "a stream in 11 steps: two of three numbers above a threshold, with noise"),
)

CATALOGUE = tuple(CatalogueEntry(*row) for row in _CATALOGUE)

# Sets that exist in several forms; the first that is found is listed
FILE_FORMS: dict[str, tuple[tuple[str, Callable[[], Path | None]], ...]] = {
    "mex": (
        ("published files", partial(locate, PUBLISHED)),
        ("LEAF's layout", partial(find_leaf_folder, PUBLISHED)),
        ("test part only", partial(locate, TEST_PART)),
    ),
    "goodreads": (
        ("word counts, text", partial(locate, replace(COUNTS, files={**COUNTS.files, **TEXT.files}))),
        ("word counts", partial(locate, COUNTS)),
        ("text", partial(locate, TEXT)),
        ("LEAF's layout", partial(find_leaf_folder, COUNTS)),
    ),
    "heart_disease": (("UCI's files", partial(locate, HEART)), ("one table", partial(locate, JOINED))),
    "tcga_brca": (("FLamby's files", partial(locate, TCGA)), ("one table", partial(locate, TCGA_JOINED))),
}


class FoundEntry(NamedTuple):
    """A named data set and where it is found."""

    name: str
    where: str
    clients: int  # by default
    samples: str
    about: str


def found_entries() -> list[FoundEntry]:
    """The named sets and where they are found. Downloads nothing."""
    return [FoundEntry(s.name, _location(s.name, s.source), s.clients, s.samples, s.about) for s in CATALOGUE]


def available() -> pd.DataFrame:
    """The named sets, one row each: name, where, clients (by default), samples, about. Downloads nothing."""
    import pandas as pd

    return pd.DataFrame(found_entries(), columns=list(FoundEntry._fields))


def _location(name: str, source: Source | None) -> str:
    if source is None:
        return "embedded" if name == "digits" else "generated"
    for form, find in FILE_FORMS.get(name, (("", partial(locate, source)),)):
        if folder := find():
            return f"{folder} ({form})" if form else str(folder)
    return f"download, {source.size}" if source.url else "not found; set FEDKIN_DATA"
