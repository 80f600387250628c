"""The idea of hierarchical clustering and ATHENA-FL: clusters from last layers, then one detector
for each class."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram, linkage

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.reporting.style import COLOURS, INK, new_figure, prepare
from fedkin.simulation.engine import SimulatedWorld
from papers.ideas.rounds import START, image_panel, states

EPS = 0.2  # of DBSCAN: any value between the two scales of the distances


class Detector(eqx.Module):
    """A network with one score."""

    body: eqx.nn.MLP
    head: eqx.nn.Linear  # the last layer comes last

    def __init__(self, key: Any) -> None:
        self.body = eqx.nn.MLP(64, 16, 32, 1, final_activation=jax.nn.relu, key=key)
        self.head = eqx.nn.Linear(16, 1, key=key)

    def __call__(self, x: Any) -> Any:
        return self.head(self.body(x))


class Detection(NamedTuple):
    """Clusters of clients, and what their detectors say of images of each class."""

    layers: Float[np.ndarray, "N d"]  # v_i, the biases of the last layer
    cluster: Int[np.ndarray, "N"]
    classes: list[str]  # of each client
    home: Int[np.ndarray, "C"]  # cluster of the detector of each class
    score: Float[np.ndarray, "C C"]  # mean probability: detector of a class, images of a class
    accuracy: float  # of the highest score


def measure(pretraining: int = 10, rounds: int = 5) -> Detection:
    """Ten clients, five pairs of two digits each.

    Args:
        pretraining: local epochs of the clustering round.
        rounds: rounds of the detectors.
    """
    data = fk.data.digits(clients=10, partition="blocks", classes_per_client=2, tested="iid")
    work = fk.Adam(epochs=1, batch_size=10)
    method = fk.Hierarchical(eps=EPS, pretraining=pretraining)
    clustering = method.init(SimulatedWorld(data, fk.models.mclr(data), work), START)

    model = fk.as_model(Detector, detects=True)
    world = SimulatedWorld(data, model, fk.Adam(epochs=2, batch_size=10, lr=0.005))
    athena = fk.Athena(assignment=tuple(clustering.assignment.tolist()))
    state = list(states(world, athena, rounds, data.clients))[-1]
    images, labels = _test_images(data)
    scores = np.stack([_scores(model, vector, images) for vector in state.models])
    detector = state.table.max(axis=0)
    scores = scores[detector]
    probability = 1 / (1 + np.exp(-scores))
    by_class = [probability[:, labels == c].mean(axis=1) for c in range(data.classes)]
    counts = data.label_counts()
    return Detection(
        layers=clustering.layers,
        cluster=clustering.assignment,
        classes=[" ".join(map(str, np.flatnonzero(row))) for row in counts],
        home=state.home[detector],
        score=np.stack(by_class, axis=1),
        accuracy=float((scores.argmax(axis=0) == labels).mean()),
    )


def _test_images(data: FederatedData) -> tuple[Float[np.ndarray, "M d"], Int[np.ndarray, "M"]]:
    rows = np.unique(data.test.rows)
    return data.x[rows], data.y[rows]


def _scores(
    model: Any, vector: Float[np.ndarray, "P"], images: Float[np.ndarray, "M d"]
) -> Float[np.ndarray, "M"]:
    """The scores of one detector, before the sigmoid."""
    tree = model.unflatten(jnp.asarray(vector))
    return np.asarray(model.apply(tree, jnp.asarray(images), None))[:, 0]


def draw(found: Detection) -> Figure:
    """Two panels: the dendrogram with the cut at eps, and the detectors' mean scores."""
    figure = new_figure(11.0, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    _dendrogram(left, found)
    _detectors(right, found)
    return figure


def _dendrogram(axes: Axes, found: Detection) -> None:
    clusters = int(found.cluster.max()) + 1
    prepare(
        axes,
        "1  Clusters from one short training",
        f"biases of the last layer, single linkage; the cut at eps leaves {clusters} clusters",
    )
    tree = linkage(found.layers, "single")
    count = len(found.layers)
    labels = [f"{client}: {found.classes[client]}" for client in range(count)]
    members = _members(tree, count)

    def colour(node: int) -> str:
        inside = np.unique(found.cluster[members[node]])
        return COLOURS[inside[0]] if len(inside) == 1 else INK

    dendrogram(tree, ax=axes, labels=labels, link_color_func=colour, leaf_rotation=0)
    axes.axhline(EPS, color=INK, lw=1, ls="--")
    axes.annotate(
        f"eps = {EPS}",
        (0.01, EPS),
        (0, 4),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"},
    )
    axes.tick_params(axis="x", labelsize=8.5, length=0)
    axes.set_xlabel("client: its digits")
    axes.set_ylabel("distance")


def _members(tree: Float[np.ndarray, "m 4"], count: int) -> list[list[int]]:
    """The clients below each node of a merge tree."""
    members = [[client] for client in range(count)]
    for merge in tree:
        members.append(members[int(merge[0])] + members[int(merge[1])])
    return members


def _detectors(axes: Axes, found: Detection) -> None:
    image_panel(
        axes,
        "2  One detector for each class",
        f"mean probability; frames: clusters; highest score right: {found.accuracy:.0%}",
    )
    shown = axes.imshow(found.score, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.figure.colorbar(shown, ax=axes, shrink=0.7, pad=0.02)
    classes = len(found.home)
    for cluster in np.unique(found.home):
        inside = np.flatnonzero(found.home == cluster)
        low = inside.min() - 0.5
        axes.add_patch(_frame(low, len(inside), COLOURS[cluster % len(COLOURS)]))
    axes.set_xticks(range(classes))
    axes.set_yticks(range(classes))
    axes.set_xlabel("class of the image")
    axes.set_ylabel("detector")


def _frame(low: float, size: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((low, low), size, size, fill=False, ec=colour, lw=2)
