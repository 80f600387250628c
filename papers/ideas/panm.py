"""PANM's idea: peers find the peers of their cluster, first the most similar ones, then all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fedkin as fk
from fedkin.methods.decentralized import Neighbourhood
from fedkin.methods.panm import PANM
from fedkin.reporting.style import COLOURS, FADED, INK, new_figure, prepare
from fedkin.simulation.engine import SimulatedWorld
from papers.ideas.rounds import by_cluster, image_panel, states

CLUSTERS = 3


class Similarities(NamedTuple):
    """What one peer sees when it matches its bag."""

    value: Float[np.ndarray, "m"]  # s_ij of the peers that it asked
    sampled: Bool[np.ndarray, "m"]  # in S_i, from the bag; all others are in C_i
    chosen: Bool[np.ndarray, "m"]  # in H_i
    same: Bool[np.ndarray, "m"]  # whether the peer is of the same cluster


class Neighbours(NamedTuple):
    """Who trusts whom, round by round."""

    true: Int[np.ndarray, "N"]  # cluster of each peer
    trust: Bool[np.ndarray, "T+1 N N"]
    stage_one: int  # T1
    first: Similarities  # of one peer, in the first round of stage two that matches


def measure(peers: int = 30, stage_one: int = 6, rounds: int = 24) -> Neighbours:
    """Three clusters of rotated digits.

    Args:
        peers: number of peers.
        stage_one: T1.
        rounds: of both stages.
    """
    data = fk.planted(
        "digits", "rotation", clusters=CLUSTERS, clients=peers, samples=40, test_samples=10
    )
    seen: list[tuple[Any, ...]] = []

    class Watched(PANM):
        """PANM that also writes down each matching."""

        def match_neighbours(
            self,
            neighbourhood: Neighbourhood,
            replied: Bool[np.ndarray, "n N"],
            similarity: Float[np.ndarray, "n N"],
        ) -> Neighbourhood:
            after = super().match_neighbours(neighbourhood, replied, similarity)
            seen.append((neighbourhood.trust, replied, similarity, after.trust))
            return after

    method = Watched(neighbours=3, candidates=6, stage_one=stage_one, period=2, alpha=0.25)
    world = SimulatedWorld(data, fk.models.mclr(data), fk.SGD(epochs=1, batch_size=10, lr=0.05))
    trust = np.stack([state.trust for state in states(world, method, rounds, peers)])
    matching = stage_one + 2 - stage_one % 2
    true = np.asarray(data.true_clusters)
    before, replied, similarity, after = seen[matching - 1]
    asked = np.flatnonzero(replied[0])
    first = Similarities(
        value=similarity[0, asked],
        sampled=before[0, asked],
        chosen=after[0, asked],
        same=true[asked] == true[0],
    )
    return Neighbours(true=true, trust=trust, stage_one=stage_one, first=first)


def draw(run: Neighbours) -> Figure:
    """Three matrices of trust, the precision and recall of all rounds, and one peer's mixture."""
    figure = new_figure(11.0, 7.0)
    grid = figure.add_gridspec(2, 6, height_ratios=(1, 0.85))
    last = len(run.trust) - 1
    moments = {
        1: "After round 1",
        run.stage_one: f"End of CNI, round {run.stage_one}",
        last: f"HNM, round {last}",
    }
    for column, (round, heading) in enumerate(moments.items()):
        axes = figure.add_subplot(grid[0, 2 * column : 2 * column + 2])
        _matrix(axes, run, round, heading)
    _curves(figure.add_subplot(grid[1, :3]), run)
    _mixture(figure.add_subplot(grid[1, 3:]), run.first)
    return figure


def precision_and_recall(
    trust: Bool[np.ndarray, "N N"], true: Int[np.ndarray, "N"]
) -> tuple[float, float]:
    """Share of neighbours that are of the same cluster, and share of the cluster among them.

    Args:
        trust: row i has the neighbours of peer i.
        true: cluster of each peer.
    """
    same = true[:, None] == true
    np.fill_diagonal(same, False)
    right = (trust & same).sum()
    return right / max(trust.sum(), 1), right / same.sum()


def _matrix(axes: Axes, run: Neighbours, round: int, heading: str) -> None:
    precision, recall = precision_and_recall(run.trust[round], run.true)
    image_panel(axes, heading, f"precision {precision:.0%}, recall {recall:.0%}")
    order = by_cluster(run.true)
    axes.imshow(run.trust[round][np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1.4)
    for border in np.flatnonzero(np.diff(run.true[order])) + 0.5:
        axes.axhline(border, color=FADED, lw=0.8)
        axes.axvline(border, color=FADED, lw=0.8)
    axes.set_xlabel("neighbour")
    axes.set_ylabel("peer, by cluster")


def _curves(axes: Axes, run: Neighbours) -> None:
    prepare(axes, "Neighbours over the rounds", "of all peers; grey: confident initialisation")
    scores = np.array([precision_and_recall(trust, run.true) for trust in run.trust[1:]])
    rounds = np.arange(1, len(run.trust))
    axes.axvspan(1, run.stage_one, color="#EFEFEF", lw=0)
    for column, name in enumerate(("precision", "recall")):
        axes.plot(rounds, scores[:, column], color=COLOURS[column], lw=2, label=name)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("round")
    axes.set_ylabel("share")
    axes.legend(frameon=False, loc="lower right")


def _mixture(axes: Axes, seen: Similarities) -> None:
    prepare(
        axes,
        "One peer matches its bag",
        "green: same cluster; orange: another; filled: chosen by the mixture (H)",
    )
    axes.grid(False)
    axes.margins(0.08)
    for sampled, height in ((True, 1.0), (False, 0.0)):
        for same in (True, False):
            colour = COLOURS[2] if same else COLOURS[1]
            for chosen in (True, False):
                rows = (seen.sampled == sampled) & (seen.same == same) & (seen.chosen == chosen)
                axes.scatter(
                    seen.value[rows],
                    np.full(rows.sum(), height),
                    s=60,
                    edgecolor=colour,
                    facecolor=colour if chosen else "white",
                )
    _density(axes, seen)
    axes.set_yticks([0, 1], ["C: candidates", "S: of the bag"])
    axes.set_ylim(-0.4, 2.4)
    axes.set_xlabel("similarity s")


def _density(axes: Axes, seen: Similarities) -> None:
    """The two Gaussians that the split ends with."""
    low = seen.value.min()
    high = seen.value.max()
    x = np.linspace(low, high, 200)
    for part in (seen.chosen, ~seen.chosen):
        if part.any():
            deviation = max(seen.value[part].std(), 0.02 * (high - low), 1e-9)
            bell = np.exp(-((x - seen.value[part].mean()) ** 2) / (2 * deviation**2))
            axes.plot(x, 1.3 + 0.9 * bell, color=INK, lw=1)
