"""What there is, and who has what: tables and a picture."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedkin.data.download import Source, where
from fedkin.data.federated import FederatedData
from fedkin.data.femnist import LETTERS
from fedkin.data.images import CIFAR10, FASHION_MNIST, MNIST
from fedkin.errors import StorageError

# name, source (None: needs no files), clients by default, samples, what it is
SHELF: tuple[tuple[str, Source | None, int, str, str], ...] = (
    ("digits", None, 60, "1,797", "handwritten digits 8x8, comes with scikit-learn"),
    ("mnist", MNIST, 1000, "70,000", "handwritten digits 28x28"),
    ("fashion_mnist", FASHION_MNIST, 500, "70,000", "clothing 28x28, Ditto's federation"),
    ("cifar10", CIFAR10, 100, "60,000", "colour photographs 32x32"),
    ("femnist", LETTERS, 200, "35,792", "handwritten letters a-j 28x28, also 62 classes by writer"),
    ("synthetic", None, 30, "any", "logistic models that differ by client, Synthetic(alpha, beta)"),
)


def available() -> pd.DataFrame:
    """The named sets, one row each: name, where, clients (by default), samples, about. Downloads nothing."""
    rows = [(name, _place(name, source), clients, samples, about) for name, source, clients, samples, about in SHELF]
    return pd.DataFrame(rows, columns=["name", "where", "clients", "samples", "about"])


def _place(name: str, source: Source | None) -> str:
    if source is None:
        return "embedded" if name == "digits" else "generated"
    folder = where(source)
    if folder:
        return str(folder)
    return f"download, {source.size}" if source.url else "not found; set FEDKIN_DATA"


def table(data: FederatedData) -> pd.DataFrame:
    """A federation in figures: one row per quantity (its index), columns train and test."""
    columns = {split: _figures(data, split) for split in ("train", "test")}
    return pd.DataFrame(columns).rename_axis(data.name)


def _figures(data: FederatedData, split: str) -> dict[str, str]:
    sizes = data.part(split).sizes
    counts = data.label_counts(split)
    by_class = counts.sum(axis=0)
    figures = {
        "clients": f"{data.clients:,}",
        "clients without samples": f"{int((sizes == 0).sum()):,}",
        "samples": f"{int(sizes.sum()):,}",
        "samples owned more than once": f"{int(sizes.sum()) - len(np.unique(data.part(split).rows)):,}",
        "samples per client, min / median / mean / max": _spread(sizes, mean=True),
        "classes": f"{int((by_class > 0).sum())} of {data.classes}",
        "classes per client, min / median / max": _spread((counts > 0).sum(axis=1)),
        "samples per class, min / median / max": _spread(by_class),
        "features": " x ".join(map(str, data.x.shape[1:])),
    }
    if data.truth is not None:
        figures["clients per true cluster"] = ", ".join(map(str, np.bincount(data.truth)))
    return figures


def _spread(values: Int[np.ndarray, "_"], mean: bool = False) -> str:
    numbers = [values.min(), np.median(values), *([values.mean()] if mean else []), values.max()]
    return " / ".join(f"{number:,.1f}".removesuffix(".0") for number in numbers)


def picture(data: FederatedData, path: str | Path, *, split: str = "train") -> list[Path]:
    """Who has what, as PNG and SVG beside each other: a column per client, grouped by what they have most of; above,
    each client's samples, below, how many of each class. Returns the two paths.

    Raises StorageError where the folder cannot be written.
    """
    figure = _draw(data, split)
    base = Path(path)
    base = base.with_suffix("") if base.suffix in (".png", ".svg") else base
    return [_save(figure, base.with_name(base.name + ending)) for ending in (".png", ".svg")]


def _save(figure: Figure, path: Path) -> Path:
    """Drawn in memory and moved into place, so that no half picture is ever there."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=150)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(drawn.getvalue())
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise StorageError(f"{path}: the picture cannot be written ({error.strerror or error})") from error
    return path


def _draw(data: FederatedData, split: str) -> Figure:
    counts = data.label_counts(split)
    order = _grouped(data, counts)
    figure = Figure(figsize=(10, 3 + min(5, 0.25 * data.classes)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.5])
    _sizes(above, counts[order].sum(axis=1), data, split)
    _matrix(below, counts[order], figure)
    below.set_xlabel(
        f"client, grouped by {'true cluster and ' if data.truth is not None else ''}the class it has most of"
    )
    if data.truth is not None:
        for edge in np.flatnonzero(np.diff(data.truth[order])):
            below.axvline(edge + 0.5, color="tab:red", lw=1)
    return figure


def _grouped(data: FederatedData, counts: Int[np.ndarray, "N C"]) -> Int[np.ndarray, "N"]:
    """Clients by true cluster where it is known, then by the class they have most of, then by size."""
    truth = np.zeros(data.clients, np.int64) if data.truth is None else data.truth
    return np.lexsort((-counts.sum(axis=1), counts.argmax(axis=1), truth))


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
    figure.colorbar(image, ax=axes, label="samples of a class", pad=0.01)
    axes.set(ylabel="class", facecolor="0.96")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
