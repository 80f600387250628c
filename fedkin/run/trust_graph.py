"""Who trusts whom, where clients are peers: what is measured of it, what is kept of it, and its picture."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from fedkin.core.method import State
from fedkin.core.records import Record
from fedkin.core.world import BYTES_PER_NUMBER
from fedkin.methods.decentralized import PeerState
from fedkin.run.metrics import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedkin.run.results import Run

_PANELS = 4


def peers_record(
    state: State, reachable: Int[np.ndarray, "c"], true_clusters: Int[np.ndarray, "N"] | None, keeping: bool
) -> Record:
    """What a round's record says of peers; nothing of other methods.

    neighbours: mean number of peers that a peer trusts. neighbour_precision: the share of these that are of its true
    cluster, mean over the peers that trust somebody; neighbour_recall: the share of its true cluster that it trusts,
    mean over the peers that have kin (both None where there is no truth, or nobody trusts anybody). messages: answers
    that peers gave each other so far. trust: ``packed``, where a round is ``keeping``. Only reachable peers count.
    """
    if not isinstance(state, PeerState):
        return {}
    trust = state.trust[np.ix_(reachable, reachable)]
    precision, recall = agreement(trust, None if true_clusters is None else true_clusters[reachable])
    return {
        "neighbours": float(trust.sum(axis=1).mean()),
        "neighbour_precision": _mean(precision),
        "neighbour_recall": _mean(recall) if trust.any() else None,
        "messages": int(state.messages[:, 0].sum()),
        **({"trust": packed(state.trust)} if keeping else {}),
    }


def agreement(
    trust: Bool[np.ndarray, "c c"], true_clusters: Int[np.ndarray, "c"] | None
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c"]]:
    """Precision and recall of every peer's neighbours; NaN where there is nothing to divide by."""
    nothing = np.full(len(trust), np.nan)
    if true_clusters is None:
        return nothing, nothing
    kin = (true_clusters[:, None] == true_clusters) & ~np.eye(len(true_clusters), dtype=bool)
    right = (trust & kin).sum(axis=1)
    trusted, family = trust.sum(axis=1), kin.sum(axis=1)
    return tuple(np.divide(right, whole, out=nothing.copy(), where=whole > 0) for whole in (trusted, family))  # type: ignore[return-value]


def peer_columns(
    state: State, clients: Int[np.ndarray, "c"], true_clusters: Int[np.ndarray, "N"] | None, parameters: int
) -> Mapping[str, np.ndarray]:
    """What the table of clients says of peers: their neighbours, and what each got from others and gave them."""
    if not isinstance(state, PeerState):
        return {}
    trust = state.trust[np.ix_(clients, clients)]
    precision, recall = agreement(trust, None if true_clusters is None else true_clusters[clients])
    columns: dict[str, Any] = {"neighbours": trust.sum(axis=1), "neighbour_precision": precision}
    columns["neighbour_recall"] = recall if trust.any() else np.full(len(recall), np.nan)
    for side, name in enumerate(("got", "given")):
        columns[f"messages_{name}"] = state.messages[clients, side]
        columns[f"bytes_{name}"] = state.vectors[clients, side] * parameters * BYTES_PER_NUMBER
    return columns


def packed(trust: Bool[np.ndarray, "N N"]) -> str:
    """A square of yes and no as a short text: bits, compressed, in base 64."""
    return base64.b64encode(zlib.compress(np.packbits(trust).tobytes(), 9)).decode()


def unpacked(text: str, peers: int) -> Bool[np.ndarray, "N N"]:
    """What ``packed`` packed."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.unpackbits(bits, count=peers * peers).astype(bool).reshape(peers, peers)


def trust_over_time(run: Run) -> dict[int, Bool[np.ndarray, "N N"]]:
    """Who trusts whom (row i: whom peer i does) after the rounds in which it was kept; empty without peers."""
    return {
        r["round"]: unpacked(r["trust"], len(run.assignment)) for r in run.records if isinstance(r.get("trust"), str)
    }


def save(run: Run, folder: Path) -> None:
    """Write ``topology.png`` and ``topology.svg`` where clients are peers; else nothing."""
    from fedkin.reporting.run_figure import save_as

    if trust_over_time(run):
        save_as(lambda: draw(run), folder / "topology")


def draw(run: Run) -> Figure:
    """Peers in a circle, kin beside kin (as they are at the end), after some of the rounds; below, how right their
    neighbours are. Without a truth kin are those that trust each other, and nobody is right or wrong."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from fedkin.reporting.run_figure import title

    known = "true_cluster" in run.clients
    figure = Figure(figsize=(10.5, 5.6 if known else 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1 + known, _PANELS, height_ratios=(1.5, 1)[: 1 + known])
    kept = trust_over_time(run)
    rounds = [r for r in kept if kept[r].any()] or list(kept)
    rounds = sorted({rounds[i] for i in np.linspace(0, len(rounds) - 1, _PANELS).round().astype(int)})
    kind = run.assignment.copy()
    if known:
        kind[run.clients["client"]] = run.clients["true_cluster"]
    for place, round in enumerate(rounds):
        axes = figure.add_subplot(grid[0, place])
        circle(axes, kept[round], kind, known)
        axes.set_title(f"after round {round}", fontsize=10)
    if known:
        _rightness(figure.add_subplot(grid[1, :]), run.history)
    name, data = title(run.config["method"]["name"]), run.config["data"]["name"]
    figure.suptitle(f"{name} on {data}: who trusts whom", x=0.008, ha="left", fontsize=13, fontweight="bold")
    return figure


def _rightness(below: Axes, history: pd.DataFrame) -> None:
    """Precision and recall of neighbours over the rounds."""
    from fedkin.reporting.run_figure import COLOURS, DASHES, prepare

    prepare(below, "Neighbours", "share of a peer's neighbours that are of its kind, and of its kind that it has found")
    for name, colour, dash in zip(("precision", "recall"), COLOURS, DASHES, strict=False):
        known = history[f"neighbour_{name}"].dropna().astype(float)
        below.plot(known.index, known, color=colour, ls=dash, lw=1.8, label=name)
    below.set_ylim(0, 1.04)
    below.set_xlabel("communication round")
    below.legend(frameon=False, loc="lower right")


def circle(axes: Axes, trust: Bool[np.ndarray, "N N"], kind: Int[np.ndarray, "N"], known: bool = True) -> None:
    """Peers in a circle by kind; a line from each to those it trusts, orange where these are of another kind, if the
    kinds are ``known`` and no guess."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    place = np.empty(len(kind), np.int64)
    place[np.argsort(kind, kind="stable")] = np.arange(len(kind))
    angle = 2 * np.pi * place / len(kind)
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    who, whom = np.nonzero(trust)
    wrong = (kind[who] != kind[whom]) & known
    for part, colour in ((~wrong, "#0072B2"), (wrong, "#D55E00")):
        faint = min(0.7, 12 / max(1, np.sqrt(part.sum())) / 2)
        lines = np.stack([at[who[part]], at[whom[part]]], axis=1)
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=0.5, alpha=faint))
    _, colour = np.unique(kind, return_inverse=True)
    axes.scatter(*at.T, s=14, c=colormaps["tab10"](colour % 10), zorder=3)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _mean(values: Float[np.ndarray, "c"]) -> float | None:
    known = values[np.isfinite(values)]
    return number(float(known.mean())) if len(known) else None
