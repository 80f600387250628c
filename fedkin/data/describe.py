"""Tables and a figure of data sets: which are available, and the samples of each client."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from fedkin.core.errors import StorageError
from fedkin.data.download import Source, locate
from fedkin.data.federated import FederatedData
from fedkin.data.femnist import LETTERS
from fedkin.data.goodreads import COUNTS, TEXT
from fedkin.data.images import CIFAR10, FASHION_MNIST, MNIST
from fedkin.data.leaf import find_leaf_folder
from fedkin.data.mex import PUBLISHED, TEST_PART
from fedkin.data.sent140 import SENT140
from fedkin.data.shakespeare import ROLES


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
    ("mex", PUBLISHED, 30, "1,184", "exercises on a pressure mat, 5 frames 16x16; the test part alone has 250 samples"),
    ("goodreads", COUNTS, 100, "485", "sentences of book reviews, spoilers or not; word counts, or text"),
    ("sent140", SENT140, 772, "40,783", "tweets, positive or negative, by user; LEAF's draw, others differ a little"),
    ("shakespeare", ROLES, 809, "808,705", "the next character, by speaking role; windows of 80, every fifth"),
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
}


def available() -> pd.DataFrame:
    """The named sets, one row each: name, where, clients (by default), samples, about. Downloads nothing."""
    rows = [(s.name, _location(s.name, s.source), s.clients, s.samples, s.about) for s in CATALOGUE]
    return pd.DataFrame(rows, columns=["name", "where", "clients", "samples", "about"])


def _location(name: str, source: Source | None) -> str:
    if source is None:
        return "embedded" if name == "digits" else "generated"
    for form, find in FILE_FORMS.get(name, (("", partial(locate, source)),)):
        if folder := find():
            return f"{folder} ({form})" if form else str(folder)
    return f"download, {source.size}" if source.url else "not found; set FEDKIN_DATA"


def table(data: FederatedData) -> pd.DataFrame:
    """Statistics of a federation: one row per quantity (its index), columns train and test."""
    columns = {split: _statistics(data, split) for split in ("train", "test")}
    return pd.DataFrame(columns).rename_axis(data.name)


def _statistics(data: FederatedData, split: str) -> dict[str, str]:
    sizes = data.part(split).sizes
    counts = data.label_counts(split)
    by_class = counts.sum(axis=0)
    statistics = {
        "clients": f"{data.clients:,}",
        "clients without samples": f"{int((sizes == 0).sum()):,}",
        "samples": f"{int(sizes.sum()):,}",
        "samples owned more than once": f"{int(sizes.sum()) - len(np.unique(data.part(split).rows)):,}",
        "samples per client, min / median / mean / max": _spread(sizes, mean=True),
        "classes": f"{int((by_class > 0).sum())} of {data.classes}",
        "classes per client, min / median / max": _spread((counts > 0).sum(axis=1)),
        "samples per class, min / median / max": _spread(by_class),
        **(_text_statistics(data, data.vocabulary, split) if data.vocabulary else _features(data)),
    }
    if data.true_clusters is not None:
        statistics["clients per true cluster"] = ", ".join(map(str, np.bincount(data.true_clusters)))
    return statistics


def _features(data: FederatedData) -> dict[str, str]:
    return {"features": " x ".join(map(str, data.x.shape[1:]))}


def _text_statistics(data: FederatedData, vocabulary: tuple[str, ...], split: str) -> dict[str, str]:
    """Statistics of text."""
    unit = "words" if max(map(len, vocabulary), default=0) > 1 else "characters"
    statistics = {f"length of a sample, in {unit}": f"{data.x.shape[1]:,}"}
    if vocabulary[0] == "":  # padding, and words that are not in the vocabulary
        known = np.count_nonzero(data.x[np.unique(data.part(split).rows)], axis=1)
        statistics["known words of a sample, min / median / mean / max"] = _spread(known, mean=True)
    statistics[f"{unit} in the vocabulary"] = f"{len(vocabulary) - (vocabulary[0] == ''):,}"
    statistics["word vectors"] = "none" if data.vectors is None else f"{data.vectors.shape[1]:,} numbers each"
    return statistics


def _spread(values: Int[np.ndarray, "_"], mean: bool = False) -> str:
    numbers = [values.min(), np.median(values), *([values.mean()] if mean else []), values.max()]
    return " / ".join(f"{number:,.1f}".removesuffix(".0") for number in numbers)


def picture(data: FederatedData, path: str | Path, *, split: str = "train") -> list[Path]:
    """Draw the samples of each client as PNG and SVG: a column per client, grouped by majority class; above its
    number of samples, below its samples of each class.

    Args:
        data: the federation.
        path: of either file, with or without its ending.
        split: ``train`` or ``test``.

    Returns:
        The two paths.

    Raises:
        StorageError: the folder cannot be written.
    """
    figure = _draw(data, split)
    base = Path(path)
    base = base.with_suffix("") if base.suffix in (".png", ".svg") else base
    return [_save(figure, base.with_name(base.name + ending)) for ending in (".png", ".svg")]


def _save(figure: Figure, path: Path) -> Path:
    """Save a figure through memory and a temporary file, so that a partial file is never seen."""
    image = io.BytesIO()
    figure.savefig(image, format=path.suffix[1:], dpi=150)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(image.getvalue())
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise StorageError(f"{path}: the figure cannot be written ({error.strerror or error})") from error
    return path


def _draw(data: FederatedData, split: str) -> Figure:
    counts = data.label_counts(split)
    order = _grouped(data, counts)
    figure = Figure(figsize=(10, 3 + min(5, 0.25 * data.classes)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.5])
    _sizes(above, counts[order].sum(axis=1), data, split)
    _matrix(below, counts[order], figure)
    below.set_xlabel(
        f"client, grouped by {'true cluster and ' if data.true_clusters is not None else ''}its majority class"
    )
    if data.true_clusters is not None:
        for edge in np.flatnonzero(np.diff(data.true_clusters[order])):
            below.axvline(edge + 0.5, color="tab:red", lw=1)
    return figure


def _grouped(data: FederatedData, counts: Int[np.ndarray, "N C"]) -> Int[np.ndarray, "N"]:
    """Clients by true cluster where it is known, then by majority class, then by size."""
    true_clusters = np.zeros(data.clients, np.int64) if data.true_clusters is None else data.true_clusters
    return np.lexsort((-counts.sum(axis=1), counts.argmax(axis=1), true_clusters))


def _sizes(axes: Axes, sizes: Int[np.ndarray, "N"], data: FederatedData, split: str) -> None:
    axes.bar(np.arange(len(sizes)), sizes, width=1.0, color="tab:blue", lw=0)
    uneven = sizes.max() > 10 * max(1, sizes.min())
    axes.set(yscale="log" if uneven else "linear", ylabel="samples", ylim=(0.7 if uneven else 0, None))
    title = f"{data.name}, {split}: {data.clients:,} clients, {sizes.sum():,} samples"
    axes.set_title(title, loc="left", parse_math=False)  # a file's name may have $ in it
    axes.spines[["top", "right"]].set_visible(False)


def _matrix(axes: Axes, counts: Int[np.ndarray, "N C"], figure: Figure) -> None:
    norm = LogNorm(vmin=1, vmax=max(2, int(counts.max())))
    shown = np.ma.masked_equal(counts.T, 0)
    image = axes.imshow(shown, aspect="auto", norm=norm, cmap="viridis_r", interpolation="nearest", origin="lower")
    bar = figure.colorbar(image, ax=axes, label="samples of a class", pad=0.01)
    bar.formatter = bar.minorformatter = LogFormatter()  # 1, 2, 10: counts, not powers
    axes.set(ylabel="class", facecolor="0.96")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
