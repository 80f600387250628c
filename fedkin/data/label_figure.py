"""The figure of a federation: the samples of each client and each class."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from fedkin.core.errors import StorageError
from fedkin.data.federated import FederatedData


def picture(data: FederatedData, path: str | Path, *, split: str = "train") -> list[Path]:
    """Draw the samples of each client as PNG and SVG: a column per client, grouped by majority class; above its
    number of samples, below its samples of each class.

    Args:
        data: the federation.
        path: of either file, with or without its ending.
        split: ``train``, ``test``, or ``validation`` where there is one.

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
