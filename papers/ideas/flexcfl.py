"""FlexCFL's idea: groups from first updates, newcomers at any time, migration after a shift."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator

import fedkin as fk
from fedkin.core.method import UNASSIGNED
from fedkin.measures.cosine import cosine
from fedkin.measures.ternary import base_directions
from fedkin.measures.wasserstein import label_aware, label_blind, shift_threshold
from fedkin.reporting.style import COLOURS, FADED, INK, new_figure, prepare
from fedkin.simulation.engine import SimulatedWorld
from papers.ideas.rounds import by_cluster, first_updates, image_panel, states

CLUSTERS = 3


class Migration(NamedTuple):
    """A FlexCFL run on clients that swap their data."""

    embedding: Float[np.ndarray, "N m"]  # cosines with the m directions, K(dW, V^T)
    cold: Bool[np.ndarray, "N"]  # took part in the group cold start
    first_cluster: Int[np.ndarray, "N"]  # true cluster at the start
    clusters: Int[np.ndarray, "T+1 N"]  # of each client, by round
    shifted: Bool[np.ndarray, "T+1 N"]  # whether the client's data were swapped in the round
    blind: Float[np.ndarray, "s"]  # W_i / tau_i of swapped data, counts sorted
    aware: Float[np.ndarray, "s"]  # the same, class by class


def measure(clients: int = 24, rounds: int = 14, samples: int = 40) -> Migration:
    """Three clusters of rotated digits; pairs of clients swap their data.

    Args:
        clients: number of clients, a third of them in each round.
        rounds: number of rounds.
        samples: training images of a client.
    """
    data = fk.planted(
        "digits",
        "rotation",
        clusters=CLUSTERS,
        clients=clients,
        samples=samples,
        test_samples=10,
    )
    work = fk.SGD(epochs=2, batch_size=10, lr=0.05)
    shift = fk.SwapAll(probability=0.08)
    world = SimulatedWorld(data, fk.models.mclr(data), work, shift=shift)
    method = fk.FlexCFL(clusters=CLUSTERS, alpha=clients // 6, migration="label_aware")

    assignments = []
    swaps = []
    for state in states(world, method, rounds, clients // 3):
        assignments.append(state.assignment)
        swapped = world.shifted_clients
        swaps.append(np.zeros(clients, bool) if swapped is None else swapped)

    fresh = SimulatedWorld(data, world.model, work)
    updates = first_updates(fresh, state.start, replace(work, steps=method.steps))
    cold = assignments[0] != UNASSIGNED
    directions = base_directions(updates[cold], CLUSTERS)
    blind, aware = swap_distances()
    return Migration(
        embedding=cosine(updates, directions),
        cold=cold,
        first_cluster=np.asarray(data.true_clusters),
        clusters=np.stack(assignments),
        shifted=np.stack(swaps),
        blind=blind,
        aware=aware,
    )


def swap_distances(clients: int = 60) -> tuple[Float[np.ndarray, "s"], Float[np.ndarray, "s"]]:
    """The two distances, as multiples of the threshold, for all swaps of two clients with other
    digits.

    Args:
        clients: number of clients with two digits each, of unequal sizes.
    """
    data = fk.data.digits(clients=clients, classes_per_client=2, seed=0)
    counts = data.label_counts()
    old, new = np.nonzero(((counts[:, None] > 0) != (counts > 0)).any(axis=2))
    threshold = shift_threshold(counts[old].sum(axis=1), data.classes)
    blind = label_blind(counts[new], counts[old]) / threshold
    aware = label_aware(counts[new], counts[old]) / threshold
    return blind, aware


def draw(run: Migration) -> Figure:
    """Three panels: group assignment, the shift test, and the clusters of all clients by round."""
    figure = new_figure(11.0, 4.0)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.35))
    _plane(left, run)
    _test(middle, run)
    _timeline(right, run)
    return figure


def _plane(axes: Axes, run: Migration) -> None:
    prepare(
        axes,
        "1  Pre-training and groups",
        "colour: group; shape: rotation; hollow: new",
    )
    axes.grid(False)
    axes.margins(0.12)
    axes.xaxis.set_major_locator(AutoLocator())
    placed = first_placements(run.clusters)
    for cluster in range(CLUSTERS):
        for true in range(CLUSTERS):
            for cold in (True, False):
                rows = (placed == cluster) & (run.first_cluster == true) & (run.cold == cold)
                colour = COLOURS[cluster]
                axes.scatter(
                    run.embedding[rows, 1],
                    run.embedding[rows, 2],
                    marker="os^"[true],
                    s=40,
                    edgecolor=colour,
                    facecolor=colour if cold else "white",
                )
    axes.set_xlabel("cosine with v2")
    axes.set_ylabel("cosine with v3")


def first_placements(clusters: Int[np.ndarray, "T+1 N"]) -> Int[np.ndarray, "N"]:
    """The first cluster of each client; UNASSIGNED for a client that was never placed."""
    first = np.argmax(clusters != UNASSIGNED, axis=0)
    return clusters[first, np.arange(clusters.shape[1])]


def _test(axes: Axes, run: Migration) -> None:
    missed = (run.blind <= 1) & (run.aware > 1)
    prepare(
        axes,
        "2  Is it a shift?",
        f"two digits a client; missed: {missed.mean():.0%} of swaps",
    )
    axes.grid(False)
    axes.margins(0.08)
    axes.xaxis.set_major_locator(AutoLocator())
    axes.scatter(
        run.blind[missed], run.aware[missed], s=5, color=COLOURS[1], label="missed", rasterized=True
    )
    axes.scatter(
        run.blind[~missed],
        run.aware[~missed],
        s=5,
        color=COLOURS[2],
        label="detected",
        rasterized=True,
    )
    axes.axvline(1, color=INK, lw=1, ls="--")
    axes.axhline(1, color=FADED, lw=1, ls=":")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xticks([0, 1, 10], ["0", "1", "10"])
    axes.set_yticks([0, 1, 10], ["0", "1", "10"])
    axes.minorticks_off()
    axes.set_xlim(-0.05, 70)
    axes.set_ylim(-0.05, 70)
    axes.set_xlabel("label-blind distance / threshold (as coded)")
    axes.set_ylabel("label-aware distance / threshold")
    axes.legend(frameon=False, loc="lower right", markerscale=2)


def _timeline(axes: Axes, run: Migration) -> None:
    image_panel(
        axes,
        "3  Migration",
        "colour: group; white: not yet drawn; dot: data swapped",
    )
    order = by_cluster(run.first_cluster)
    colours = ListedColormap(["white", *COLOURS[:CLUSTERS]])
    shown = run.clusters.T[order] + 1
    axes.imshow(shown, cmap=colours, vmin=0, vmax=CLUSTERS, aspect="auto", alpha=0.55)
    client, round = np.nonzero(run.shifted.T[order])
    axes.scatter(round, client, s=11, color=INK)
    for border in np.flatnonzero(np.diff(run.first_cluster[order])) + 0.5:
        axes.axhline(border, color=INK, lw=0.8)
    axes.set_xlabel("round")
    axes.set_ylabel("client, by rotation at the start")
    axes.set_yticks([])
