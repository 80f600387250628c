"""The pictures of a report for a paper: one column wide (3.3 inches), 8 points, as PDF, SVG and PNG."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedkin.core.storage import write_atomic
from fedkin.reporting.html.charts import size
from fedkin.reporting.html.page import PALETTE
from fedkin.reporting.style import DASHES, FADED, FAINT, STYLE
from fedkin.run import run_folder as folders

Json = dict[str, Any]
WIDTH = 3.3  # inches
COLUMN: Any = {
    **STYLE,
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # letters, not shapes
}
_MARKERS = "osD^PXv*ph"
_GREY = "#9AA3AD"
_DATES: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": None}


def save(contents: Json, target: Path) -> list[Path]:
    """Write all pictures into a folder: ``accuracy`` (one per setting), and of the first run ``clusters``, ``alluvial``,
    ``bytes`` and, where there is a portrait, ``map``, ``similarity`` and ``labels``; the same run gives the same bytes.

    Raises StorageError where they cannot be written.
    """
    folders.make(target)
    paths = []
    with matplotlib.rc_context(COLUMN):
        for name, height, drawn in _pictures(contents):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            FigureCanvasAgg(figure)
            drawn(figure)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once, and not again for every kind of file
            for kind, metadata in _DATES.items():
                picture = io.BytesIO()
                figure.savefig(picture, format=kind, dpi=300, metadata=metadata)
                paths.append(target / f"{name}.{kind}")
                write_atomic(paths[-1], picture.getvalue())
    return paths


def _pictures(contents: Json) -> Iterator[tuple[str, float, Callable[[Figure], None]]]:
    """Name, height in inches, and who draws it."""
    views, cell = contents["views"], contents["cells"][0]
    for view in views:
        name = f"accuracy-{_file_name(view['setting'])}" if len(views) > 1 else "accuracy"
        yield name, 2.2, lambda figure, view=view: _accuracy(figure, view)
    if cell["clusters"]["lines"]:
        yield "clusters", 2.2, lambda figure: _clusters(figure, cell)
    if cell["ribbon"]:
        yield "ribbon", 2.2, lambda figure: _ribbon(figure, cell)
    if cell["bytes"]["rows"]:
        yield "bytes", 0.7 + 0.35 * len(cell["bytes"]["rows"]), lambda figure: _bytes(figure, cell)
    similarity_map = contents["portraits"].get(cell["portrait"])
    if similarity_map:
        yield "map", 2.8, lambda figure: _map(figure, cell, similarity_map)
        yield "similarity", 2.4, lambda figure: _similarity(figure, cell, similarity_map)
        yield "labels", 0.9 + 0.2 * len(cell["labels"]["names"]), lambda figure: _labels(figure, cell)


def _accuracy(figure: Figure, view: Json) -> None:
    axes = _over_rounds(figure, view["marks"], "test accuracy")
    for place, line in enumerate(view["lines"]):
        colour, dash, x = PALETTE[place % len(PALETTE)], DASHES[place % len(DASHES)], line["rounds"]
        for name, strength in (("accuracy", 0.2), ("worst", 0.1)):
            low, high = _numbers(line[f"{name}_low"]), _numbers(line[f"{name}_high"])
            if np.isfinite(low).any():
                axes.fill_between(x, low, high, color=colour, alpha=strength, lw=0)
        if "pale" in line:
            axes.plot(x, _numbers(line["pale"]), color=colour, alpha=0.35, lw=1.4)
        axes.plot(x, _numbers(line["accuracy"]), color=colour, ls=dash, lw=1.4, label=line["method"])
        axes.plot(x, _numbers(line["worst"]), color=colour, ls=dash, lw=0.6, alpha=0.8)
    _legend(figure, axes)


def _clusters(figure: Figure, cell: Json) -> None:
    axes = _over_rounds(figure, cell["marks"], "test accuracy")
    for line in cell["clusters"]["lines"]:
        place = _hue(cell, line["cluster"])
        style = {"color": PALETTE[place], "ls": DASHES[place % len(DASHES)]}
        axes.plot(cell["clusters"]["rounds"], _numbers(line["accuracy"]), lw=1.2, label=f"{line['cluster']}", **style)
    _legend(figure, axes, "cluster")


def _ribbon(figure: Figure, cell: Json) -> None:
    axes, drawn = figure.subplots(), cell["ribbon"]
    for place, band in enumerate(drawn["bands"]):
        colour = _colour(cell, band["cluster"])
        columns = zip(drawn["rounds"], drawn["ends"], drawn["base"], drawn["sizes"], strict=True)
        blocks = [_block(start, end, base[place], sizes[place]) for start, end, base, sizes in columns]
        flows = [(source == target, shape) for _, source, target, _, shape in drawn["flows"] if source == place]
        stay = [shape for stays, shape in flows if stays]
        axes.add_collection(PolyCollection([*blocks, *stay], facecolor=colour, edgecolor="none", alpha=0.85))
        axes.add_collection(PolyCollection([s for stays, s in flows if not stays], facecolor=colour, lw=0, alpha=0.5))
        axes.plot([], [], color=colour, lw=4, label=band["name"].removeprefix("cluster "))
    top = max(base[-1] + sizes[-1] for base, sizes in zip(drawn["base"], drawn["sizes"], strict=True))
    axes.set(xlim=(0, max(1, drawn["last"])), ylim=(0, top), yticks=[], ylabel="clients", xlabel="communication round")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _upright(axes, cell["marks"])
    _legend(figure, axes, "cluster")


def _bytes(figure: Figure, cell: Json) -> None:
    axes, rows = figure.subplots(), cell["bytes"]["rows"]
    at = np.arange(len(rows))
    for side, shift, place, hatch in (("down", -0.2, 0, ""), ("up", 0.2, 1, "////")):
        values = [row[side] for row in rows]
        axes.barh(at + shift, values, 0.38, color=PALETTE[place], hatch=hatch, edgecolor="white", lw=0, label=side)
        for y, value in zip(at + shift, values, strict=True):
            axes.annotate(size(value), (value, y), (2, 0), textcoords="offset points", va="center", fontsize=6)
    axes.set_yticks(at, [row["verb"] for row in rows])
    axes.set(xlabel="bytes", xlim=(0, 1.3 * max(1, *(row[side] for row in rows for side in ("down", "up")))))
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _: size(value))
    _legend(figure, axes)


def _map(figure: Figure, cell: Json, similarity_map: Json) -> None:
    axes, group = figure.subplots(), np.array(cell["group"])
    x, y = np.array(similarity_map["x"]), np.array(similarity_map["y"])
    for kind in np.unique(group).tolist():
        who, own = group == kind, kind in cell["shown"]
        marker = _MARKERS[_hue(cell, kind) % len(_MARKERS)] if own else "."
        name = f"cluster {kind}" if own else "no cluster" if kind < 0 else None
        axes.scatter(x[who], y[who], s=12, color=_colour(cell, kind), marker=marker, lw=0, alpha=0.85, label=name)
    first, second = similarity_map["explained"]
    axes.set(xlabel=f"first principal direction ({first:.0%})", ylabel=f"second ({second:.0%})", xticks=[], yticks=[])
    _legend(figure, axes)


def _similarity(figure: Figure, cell: Json, similarity_map: Json) -> None:
    beside, axes = figure.subplots(1, 2, width_ratios=(0.3, 1))
    tree, n = cell["tree"], len(similarity_map["ids"])
    low, high = similarity_map["range"]
    steps = np.frombuffer(base64.b64decode(similarity_map["similarity"]), np.uint8).reshape(n, n)
    matrix = (low + (high - low) * steps / 255)[np.ix_(tree["order"], tree["order"])]
    apart = matrix[~np.eye(n, dtype=bool)] if n > 1 else matrix.ravel()
    least, most = np.quantile(apart, [0.02, 0.98])
    image = axes.imshow(matrix, cmap="cividis", vmin=least, vmax=max(most, least + 1e-6), interpolation="nearest")
    figure.colorbar(image, ax=axes, label="cosine", shrink=0.8, aspect=25)
    kinds = np.array(cell["group"])[tree["order"]]
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), n]
    few = len(edges) <= 13
    for edge in edges[1:-1] if few else ():
        axes.axhline(edge - 0.5, color="white", lw=0.7)
        axes.axvline(edge - 0.5, color="white", lw=0.7)
    middles = [(a + b - 1) / 2 for a, b in pairwise(edges)] if few else []
    axes.set_xticks([])
    axes.set_yticks(middles, [str(kinds[a]) if kinds[a] >= 0 else "none" for a in edges[:-1]] if few else [])
    beside.add_collection(LineCollection([np.array(line) for line in tree["lines"]], colors="#222222", lw=0.5))
    heights = [h for line in tree["lines"] for h, _ in line] or [0, 1]
    ends = (0, max(heights) * 1.03) if tree["kind"] == "splits" else (max(heights) * 1.03 or 1, 0)
    beside.set(xlim=ends, ylim=(n - 0.5, -0.5), yticks=[])
    beside.set_xlabel("round" if tree["kind"] == "splits" else "dissimilarity")
    beside.xaxis.set_major_locator(MaxNLocator(3))
    beside.spines["left"].set_visible(False)


def _labels(figure: Figure, cell: Json) -> None:
    axes, told = figure.subplots(), cell["labels"]
    counts = np.array(told["counts"], np.float64)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    image = axes.imshow(shares, cmap="cividis", aspect="auto", vmin=0, interpolation="nearest")
    axes.set_yticks(np.arange(len(shares)), told["names"])
    every = max(1, -(-len(told["classes"]) // 12))
    axes.set_xticks(np.arange(0, len(told["classes"]), every), [str(c) for c in told["classes"][::every]])
    axes.set_xlabel("class")
    figure.colorbar(image, ax=axes, format=PercentFormatter(1, decimals=0), aspect=15)


def _over_rounds(figure: Figure, marks: Json, label: str) -> Axes:
    axes = figure.subplots()
    axes.grid(axis="y", color=FAINT, lw=0.5)
    axes.margins(x=0)
    axes.set(ylim=(0, 1.02), xlabel="communication round", ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    _upright(axes, marks)
    return axes


def _upright(axes: Axes, marks: Json) -> None:
    """Rounds in which data moved, and in which newcomers were placed."""
    for what, dash in (("shift", "-"), ("placed", ":")):
        for round in marks[what]:
            axes.axvline(round, color=FADED, ls=dash, lw=0.6, zorder=0.5)


def _legend(figure: Figure, axes: Axes, title: str | None = None) -> None:
    handles, names = axes.get_legend_handles_labels()
    columns = 3 if any(len(name) > 4 for name in names) else 6
    figure.legend(
        handles,
        names,
        title=title if names else None,
        loc="outside lower center",
        ncols=min(columns, max(1, len(names))),
    )


def _hue(cell: Json, cluster: int) -> int:
    """Which colour a cluster has: that of its number, or where numbers are many, that of its place among the shown."""
    shown = cell["shown"]
    return cluster if all(k < len(PALETTE) for k in shown) else shown.index(cluster) if cluster in shown else 0


def _colour(cell: Json, cluster: int) -> str:
    return PALETTE[_hue(cell, cluster)] if cluster in cell["shown"] else _GREY


def _block(start: float | int, end: float, low: float, height: float | int) -> list[tuple[float, float]]:
    left, high = float(start), float(low + height)
    return [(left, low), (end, low), (end, high), (left, high)]


def _numbers(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _file_name(setting: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", setting).strip("-").lower() or "setting"
