"""The figure of a federation: the samples of each client and each class, or the quantiles of labels
that are numbers, or of the times of patients."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float64, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from fedkin.core.errors import DataError
from fedkin.core.storage import WRITTEN_BY, check_output, user_path, write_atomic
from fedkin.data.describe import number_labels
from fedkin.data.federated import FederatedData, Ragged
from fedkin.task_types.survival import Survival

# Colours and style as in ``reporting/style.py``, which the package of data does not import.
BLUE = "#0072B2"
ORANGE = "#D55E00"
FAINT = "#D9D9D9"
STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#222222",
    "text.color": "#222222",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedkin",
}
_LONGEST = 20  # characters of a name
_CLASSES = 24  # largest number of named classes
_TURNED = 60  # largest number of turned names below the clients
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_ROOM = 110  # characters of all names that stand next to each other


def picture(data: FederatedData, path: str | Path, *, split: str = "train") -> list[Path]:
    """Draw the samples of each client, as PNG and SVG.

    Each client is a column. The upper plot shows its number of samples, the lower plot its samples
    of each class. Clients are grouped by majority class. For labels that are numbers, the lower
    plot shows their median and quantiles, and clients are ordered by their medians. For survival
    data, it shows those of the patients' times, and the upper plot numbers of patients.

    Args:
        data: the federation.
        path: path of either file, with or without extension.
        split: ``train``, ``test``, or ``validation`` if there is one.

    Returns:
        The two paths.

    Raises:
        DataError: these are survival data, and it is not known whose times the split has.
        StorageError: the folder cannot be written.
    """
    base = user_path(path)
    base = base.with_suffix("") if base.suffix in (".png", ".svg") else base
    targets = [base.with_name(base.name + ending) for ending in (".png", ".svg")]
    for target in targets:
        check_output(target)
    with matplotlib.rc_context(STYLE):
        figure = _draw(data, split)
        return [_save(figure, target) for target in targets]


def _save(figure: Figure, path: Path) -> Path:
    """Save a figure atomically, so that a partial file is never visible."""
    image = io.BytesIO()
    metadata: dict[str, Any] = {"Software": WRITTEN_BY}
    if path.suffix == ".svg":
        # Without a date, equal data give equal files.
        metadata = {"Creator": WRITTEN_BY, "Date": None}
    figure.savefig(image, format=path.suffix[1:], dpi=160, metadata=metadata)
    write_atomic(path, image.getvalue())
    return path


def _draw(data: FederatedData, split: str) -> Figure:
    """Draw the sizes of the clients (unless all are equal) above their labels."""
    labels: ClassCounts | NumberQuantiles
    if isinstance(data.task_type, Survival):
        labels = PatientTimes(data, split)
    elif data.task_type.loss is None:
        labels = ClassCounts(data, split)
    else:
        labels = NumberQuantiles(data, split)
    figure = Figure(figsize=(10, labels.height), layout="constrained")
    FigureCanvasAgg(figure)
    sizes = labels.sizes[labels.order]
    if np.ptp(sizes) > 0:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.5])
        _sizes(above, sizes, labels.counted)
    else:
        # If all clients have equally many samples, bars of their sizes would show nothing.
        above = below = figure.subplots()
    clients = f"{data.clients:,} clients, {sizes.sum():,} {labels.counted}"
    each = f" ({sizes[0]:,} each)" if np.ptp(sizes) == 0 else ""
    _title(above, f"{data.name}, {split}: {clients}{each}")
    labels.draw(below)
    _name_clients(below, data, labels.order)
    if data.true_clusters is None:
        below.set_xlabel(f"{_kind(data)} of the clients, {labels.grouping}")
        return figure
    below.set_xlabel(
        f"{_kind(data)} of the clients, grouped by true cluster (between the orange lines) and "
        f"{labels.grouped_within}"
    )
    for edge in np.flatnonzero(np.diff(data.true_clusters[labels.order])):
        below.axvline(edge + 0.5, color=ORANGE, lw=1)
    return figure


class ClassCounts:
    """The samples of each client and each class, as shades.

    Attributes:
        order: the clients in the order of the figure.
        sizes: number of samples of each client, in the order of their ids.
        counted: word for what the sizes count.
        height: height of the figure in inches.
        grouping, grouped_within: words for the order, for the text below the clients.
    """

    grouping = "grouped by majority class"
    grouped_within = "majority class"
    counted = "samples"

    def __init__(self, data: FederatedData, split: str) -> None:
        self._data = data
        self.sizes = data.part(split).sizes
        self._counts = data.label_counts(split)
        self.order = _grouped(data, self._counts)
        self.height = 3 + min(5, 0.25 * data.classes)

    def draw(self, axes: Axes) -> None:
        """Draw the counts and the names of the classes."""
        _matrix(axes, self._counts[self.order])
        _name_classes(axes, self._data)


class NumberQuantiles:
    """Median and quantiles of each client's labels, which are numbers, as lines.

    The attributes are those of ``ClassCounts``.
    """

    grouping = "by the median of their labels"
    grouped_within = "median label"
    counted = "samples"
    height = 5.0
    axis = "label"

    def __init__(self, data: FederatedData, split: str) -> None:
        part, values = self._values(data, split)
        self.sizes = part.sizes
        # A column for each client: quantiles 0.1, 0.25, 0.5, 0.75 and 0.9; NaN without samples.
        self._quantiles = np.full((len(_QUANTILES), data.clients), np.nan)
        for client in np.flatnonzero(part.sizes).tolist():
            self._quantiles[:, client] = np.quantile(values[part[client]], _QUANTILES)
        true_clusters = data.true_clusters
        if true_clusters is None:
            true_clusters = np.zeros(data.clients, np.int64)
        self.order = np.lexsort((self._quantiles[2], true_clusters))

    def _values(self, data: FederatedData, split: str) -> tuple[Ragged, Float64[np.ndarray, "_"]]:
        """The numbers of a split whose quantiles are drawn, and which of them each client has."""
        return data.part(split), number_labels(data)

    def draw(self, axes: Axes) -> None:
        """Draw a thin line of 80% of a client's samples, a thick line of 50%, and the median."""
        low, lower, median, upper, high = self._quantiles[:, self.order]
        places = np.arange(len(self.order))
        width = max(1.0, min(6.0, 250 / len(self.order)))
        axes.grid(axis="y", color=FAINT, lw=0.7)
        axes.vlines(places, low, high, color=BLUE, lw=width / 4, label=f"80% of the {self.counted}")
        axes.vlines(places, lower, upper, color=BLUE, lw=width, label=f"50% of the {self.counted}")
        axes.plot(places, median, "o", color=ORANGE, ms=max(2.0, width * 0.7), label="median")
        axes.set_xlim(-0.7, len(places) - 0.3)
        axes.set_ylabel(self.axis)
        axes.legend(loc="upper left", frameon=False, fontsize=8, ncols=3)


class PatientTimes(NumberQuantiles):
    """Median and quantiles of the times of each client's patients.

    The samples of survival data are risk sets, whose labels are places of patients in them.
    """

    grouping = "by the median time of their patients"
    grouped_within = "median time"
    counted = "patients"
    axis = "time of the event, or until which a patient was seen"

    def _values(self, data: FederatedData, split: str) -> tuple[Ragged, Float64[np.ndarray, "_"]]:
        if data.patients is None or split == "validation":
            raise DataError(
                f"{data.name}: the patients of the {split} samples are not known, so there are no "
                "times to draw"
            )
        return data.patients.part(split), data.patients.times


def _grouped(data: FederatedData, counts: Int[np.ndarray, "N C"]) -> Int[np.ndarray, "N"]:
    """The order of the clients (columns) in the figure: by true cluster (if known), majority class
    and size."""
    true_clusters = data.true_clusters
    if true_clusters is None:
        true_clusters = np.zeros(data.clients, np.int64)
    majority_class = counts.argmax(axis=1)
    size = counts.sum(axis=1)
    return np.lexsort((-size, majority_class, true_clusters))


def _title(axes: Axes, title: str) -> None:
    """Write the title above the figure."""
    lines = "\n".join(textwrap.wrap(title, 85))
    # A $ in a name would start a formula.
    axes.set_title(lines, loc="left", fontsize=13, fontweight="bold", parse_math=False)


def _sizes(axes: Axes, sizes: Int[np.ndarray, "N"], counted: str) -> None:
    """Draw the number of samples or patients (``counted``) of each client, on a logarithmic axis if
    sizes differ much."""
    axes.bar(np.arange(len(sizes)), sizes, width=1.0, color=BLUE, lw=0)
    axes.grid(axis="y", color=FAINT, lw=0.7)
    uneven = sizes.max() > 10 * max(1, sizes.min())
    label = f"{counted}\nof a client"
    if uneven:
        axes.set(yscale="log", ylabel=label, ylim=(0.7, None))
        # Tick labels are counts such as 1, 10 and 100, not powers of ten.
        axes.yaxis.set_major_formatter(LogFormatter())
    else:
        axes.set(yscale="linear", ylabel=label, ylim=(0, None))


def _matrix(axes: Axes, counts: Int[np.ndarray, "N C"]) -> None:
    """Draw the number of samples of each client and class as shades, on a logarithmic scale."""
    norm = LogNorm(vmin=1, vmax=max(2, int(counts.max())))
    shown = np.ma.masked_equal(counts.T, 0)
    # The colours start at 0.2, so that a single sample is not white.
    shades = ListedColormap(matplotlib.colormaps["Blues"](np.linspace(0.2, 1, 256)))
    image = axes.imshow(
        shown, aspect="auto", norm=norm, cmap=shades, interpolation="nearest", origin="lower"
    )
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(image, ax=axes, label="samples of a class", pad=0.01)
    # Tick labels are counts such as 1, 2 and 10, not powers of ten.
    bar.formatter = bar.minorformatter = LogFormatter()


def _name_clients(axes: Axes, data: FederatedData, order: Int[np.ndarray, "N"]) -> None:
    """Write the id of each client below its column, or its name if it has one. With many clients,
    only some of them are named, evenly spread."""

    def name(client: int) -> str:
        return str(client) if data.client_names is None else _shortened(data.client_names[client])

    # Short names stand next to each other; many or long ones are turned.
    longest = 1
    if len(order) <= _ROOM:
        longest = max(len(name(client)) for client in order.tolist())
    turned = len(order) * (longest + 1) > _ROOM
    step = -(-len(order) // _TURNED) if turned else 1
    axes.set_xticks(
        np.arange(0, len(order), step),
        [name(client) for client in order[::step].tolist()],
        rotation=90 if turned else 0,
        fontsize=8,
        parse_math=False,
    )


def _name_classes(axes: Axes, data: FederatedData) -> None:
    """Write the name of each class next to its row, or its number if it has none. With many
    classes, only some of them are named, evenly spread."""
    names = [str(number) for number in range(data.classes)]
    if data.label_names is not None:
        names = [_shortened(name) for name in data.label_names]
    shown = np.arange(0, data.classes, -(-data.classes // _CLASSES))
    axes.set_yticks(shown, [names[place] for place in shown], fontsize=8, parse_math=False)
    axes.set_ylabel("class")


def _kind(data: FederatedData) -> str:
    """The word for the texts below the clients: names or ids."""
    return "ids" if data.client_names is None else "names"


def _shortened(name: object) -> str:
    """A name with at most ``_LONGEST`` characters."""
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
