"""FedSim's idea: clusters of similar gradients have equal weight; and its index of clients that
differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator

import fedkin as fk
from fedkin.core.method import UNASSIGNED
from fedkin.measures.pca import principal_scores
from fedkin.reporting.style import COLOURS, new_figure, prepare
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.gradients import Gradients
from papers.ideas.rounds import states


class Index(NamedTuple):
    """The non-IID index of one federation."""

    name: str
    rmse: Float[np.ndarray, "N"]  # RMSE_i
    client: Float[np.ndarray, "N"]  # PNI_i
    pni: float


class Aggregation(NamedTuple):
    """One round of FedSim, and the index of two federations."""

    scores: Float[np.ndarray, "n q"]  # gradients of the cohort on principal components
    cluster: Int[np.ndarray, "n"]
    samples: Int[np.ndarray, "n"]
    indices: list[Index]


def measure(clients: int = 30, cohort: int = 20, rounds: int = 3, clusters: int = 5) -> Aggregation:
    """A round of FedSim on Synthetic(1, 1), and PNI of Synthetic(1, 0) and Synthetic(1, 1).

    Args:
        clients: number of clients.
        cohort: clients of a round.
        rounds: rounds until the one that is shown.
        clusters: clusters of a cohort.
    """
    data = fk.data.synthetic(alpha=1, beta=1, clients=clients, seed=0)
    model = fk.models.mclr(data)
    world = SimulatedWorld(data, model, fk.SGD(epochs=2, batch_size=10, lr=0.01))
    history = list(states(world, fk.FedSim(clusters=clusters), rounds, cohort))
    groups = history[-1].groups
    drawn = np.flatnonzero(groups != UNASSIGNED)
    task = Gradients(history[-2].models, np.zeros(len(drawn), np.int64))
    gradients = world.run(task, drawn).gradients
    return Aggregation(
        scores=principal_scores(gradients, 0.95),
        cluster=groups[drawn],
        samples=data.label_counts().sum(axis=1)[drawn],
        indices=[_index(beta, clients) for beta in (0, 1)],
    )


def _index(beta: int, clients: int) -> Index:
    data = fk.data.synthetic(alpha=1, beta=beta, clients=clients, seed=0)
    found = fk.non_iid_index(data, fk.models.mclr(data), models=1)
    return Index(
        name=f"Synthetic(1, {beta})",
        rmse=found.rmse[:, 0],
        client=found.clients,
        pni=found.pni,
    )


def draw(run: Aggregation) -> Figure:
    """Three panels: the clusters of gradients, the weights of clusters, and the plane of PNI."""
    figure = new_figure(11.0, 4.0)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 0.9, 1))
    _gradients(left, run)
    _weights(middle, run)
    _plane(right, run)
    return figure


def _gradients(axes: Axes, run: Aggregation) -> None:
    components = run.scores.shape[1]
    prepare(
        axes,
        "1  Gradients of one cohort",
        f"2 of {components} components; colour: cluster; area: samples",
    )
    axes.grid(False)
    axes.margins(0.15)
    axes.xaxis.set_major_locator(AutoLocator())
    second = run.scores[:, min(1, components - 1)]
    colours = [COLOURS[c % len(COLOURS)] for c in run.cluster]
    size = 15 + 300 * run.samples / run.samples.max()
    axes.scatter(run.scores[:, 0], second, s=size, c=colours, alpha=0.75, lw=0)
    axes.set_xlabel("first component")
    axes.set_ylabel("second component")


def _weights(axes: Axes, run: Aggregation) -> None:
    prepare(axes, "2  Weight of each cluster", "in brackets: clients of the cluster")
    clusters = int(run.cluster.max()) + 1
    share = np.bincount(run.cluster, run.samples) / run.samples.sum()
    colours = [COLOURS[c % len(COLOURS)] for c in range(clusters)]
    low = np.zeros(2)
    for cluster in range(clusters):
        height = np.array([share[cluster], 1 / clusters])
        axes.bar([0, 1], height, bottom=low, width=0.75, color=colours[cluster], alpha=0.75)
        members = (run.cluster == cluster).sum()
        for bar in (0, 1):
            if height[bar] > 0.04:
                middle = low[bar] + height[bar] / 2
                text = f"{height[bar]:.0%} ({members})"
                axes.text(bar, middle, text, ha="center", va="center", fontsize=9)
        low += height
    axes.grid(False)
    axes.set_xticks([0, 1], ["FedAvg", "FedSim"])
    axes.set_xlim(-0.5, 1.5)
    axes.set_ylim(0, 1)
    axes.set_ylabel("weight in the global model")


def _plane(axes: Axes, run: Aggregation) -> None:
    prepare(axes, "3  PNI: how clients differ", "a dot: a client; one random model")
    axes.margins(0.08)
    axes.xaxis.set_major_locator(AutoLocator())
    for number, index in enumerate(run.indices):
        label = f"{index.name}: PNI {index.pni:.1f}"
        axes.scatter(index.rmse, index.client, s=22, color=COLOURS[number], label=label)
    axes.set_xlabel("RMSE of the class numbers")
    axes.set_ylabel("PNI of the client")
    axes.set_ylim(top=1.15 * max(index.client.max() for index in run.indices))
    axes.legend(frameon=False, loc="upper center")
