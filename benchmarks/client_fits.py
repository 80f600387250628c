"""Penalised linear, Poisson and logistic models of clients, clusters and all clients, by Newton's
method. They are the exact fits with which figures of natural federations are measured.

Shapes: N clients, n rows of each client, d columns (the first is 1 everywhere), G groups of
clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy.special import expit

from fedkin.clustering.kmeans import kmeans

SQUARES, COUNTS, CLASSES = "squared_error", "poisson", "log_loss"
STEPS = 30
LARGEST_STEP = 3.0  # of one score, in a step of Newton's method
HIGHEST_SCORE = 20.0
LONGEST_SEARCH = 50  # assignments of clients to clusters


@dataclass(frozen=True)
class Rows:
    """Rows of clients, the same number of each.

    Attributes:
        loss: ``squared_error``, ``poisson`` or ``log_loss``.
        x: features.
        y: labels.
        offset: part of the score that no model changes: the link of the pooled mean, and the
            logarithm of the exposure.
    """

    loss: str
    x: Float64[np.ndarray, "N n d"]
    y: Float64[np.ndarray, "N n"]
    offset: Float64[np.ndarray, "N n"]

    def at(self, rows: Bool[np.ndarray, "n"]) -> Rows:
        """Some rows of each client, at the same positions."""
        return replace(self, x=self.x[:, rows], y=self.y[:, rows], offset=self.offset[:, rows])

    def part(self, start: int, end: int) -> Rows:
        """The rows from ``start`` to before ``end`` of each client."""
        some = slice(start, end)
        return replace(self, x=self.x[:, some], y=self.y[:, some], offset=self.offset[:, some])

    def reshaped(self, clients: int, samples: int) -> Rows:
        """The first rows of the only client, as equal numbers of rows of several clients.

        Args:
            clients: number of clients.
            samples: number of rows of each.
        """
        first = self.part(0, clients * samples)
        shape = (clients, samples)
        return replace(
            first,
            x=first.x.reshape(*shape, -1),
            y=first.y.reshape(shape),
            offset=first.offset.reshape(shape),
        )

    def predict(self, weights: Float64[np.ndarray, "N d"]) -> Float64[np.ndarray, "N n"]:
        """The predicted means."""
        return _means(self.loss, self.scores(weights))

    def scores(self, weights: Float64[np.ndarray, "N d"]) -> Float64[np.ndarray, "N n"]:
        """The scores, whose links are the means."""
        return np.einsum("crd,cd->cr", self.x, weights) + self.offset

    def losses(self, mean: Float64[np.ndarray, "N n"]) -> Float64[np.ndarray, "N n"]:
        """The loss of each row: squared error, Poisson deviance or log loss."""
        if self.loss == SQUARES:
            return (self.y - mean) ** 2
        if self.loss == COUNTS:
            ratio = np.where(self.y > 0, self.y / mean, 1.0)
            return 2 * (self.y * np.log(ratio) - self.y + mean)
        least = np.finfo(np.float64).tiny
        return -np.log(np.maximum(np.where(self.y > 0, mean, 1 - mean), least))


def fit(
    rows: Rows,
    group: Int[np.ndarray, "N"],
    groups: int,
    strength: float,
    center: Float64[np.ndarray, "G d"] | None = None,
) -> Float64[np.ndarray, "G d"]:
    """The model of each group of clients: the sum of losses plus strength / 2 x squared distance to
    ``center``.

    Args:
        rows: training rows.
        group: group of each client.
        groups: number of groups.
        strength: of the penalty, on all columns.
        center: weights to which each model is pulled; None for 0.
    """
    width = rows.x.shape[2]
    pulled_to = np.zeros((groups, width)) if center is None else center
    weights = pulled_to.copy()
    for _ in range(STEPS):
        scores = rows.scores(weights[group])
        mean = _means(rows.loss, scores)
        curvature = _curvature(rows.loss, mean)
        gradient = np.einsum("cr,crd->cd", rows.y - mean, rows.x)
        weighted = rows.x * curvature[:, :, None]
        hessian = np.matmul(weighted.transpose(0, 2, 1), rows.x)

        of_groups = np.zeros((groups, width))
        np.add.at(of_groups, group, gradient)
        of_groups -= strength * (weights - pulled_to)
        matrices = np.tile(strength * np.eye(width), (groups, 1, 1))
        np.add.at(matrices, group, hessian)
        step = np.linalg.solve(matrices, of_groups[:, :, None])[:, :, 0]

        # A long step of a model with a curved link is shortened.
        if rows.loss != SQUARES:
            change = np.abs(np.einsum("crd,cd->cr", rows.x, step[group])).max(axis=1)
            largest = np.zeros(groups)
            np.maximum.at(largest, group, change)
            step *= np.minimum(1, LARGEST_STEP / np.maximum(largest, 1e-12))[:, None]
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def fit_clusters(
    rows: Rows,
    local: Float64[np.ndarray, "N d"],
    clusters: int,
    strength: float,
    seed: int,
    starts: int = 4,
) -> tuple[Float64[np.ndarray, "K d"], Int[np.ndarray, "N"]]:
    """Models of clusters, and the cluster of each client: fits and assignments by training loss, in
    turns until no client moves, from the best of several K-means of the clients' models.

    Args:
        rows: training rows.
        local: models of single clients, pulled to one another; the first clusters are theirs.
        clusters: number of clusters.
        strength: of the penalty.
        seed: of K-means.
        starts: number of K-means.
    """
    lowest = np.inf
    best_models = np.zeros((clusters, rows.x.shape[2]))
    best_group = np.zeros(len(rows.x), np.int64)
    for start in range(starts):
        group = kmeans(local.astype(np.float32), clusters, seed * starts + start)
        models = fit(rows, group, clusters, strength)
        losses = losses_under(rows, models)
        for _ in range(LONGEST_SEARCH):
            nearest = losses.argmin(axis=0)
            if (nearest == group).all():
                break
            group = nearest
            models = fit(rows, group, clusters, strength)
            losses = losses_under(rows, models)
        total = losses.min(axis=0).sum()
        if total < lowest:
            lowest = total
            best_models = models
            best_group = losses.argmin(axis=0)
    return best_models, best_group


def losses_under(rows: Rows, models: Float64[np.ndarray, "K d"]) -> Float64[np.ndarray, "K N"]:
    """The mean loss of each client under each model."""
    clients = len(rows.x)
    return np.stack(
        [rows.losses(rows.predict(np.tile(model, (clients, 1)))).mean(axis=1) for model in models]
    )


def _means(loss: str, scores: Float64[np.ndarray, "N n"]) -> Float64[np.ndarray, "N n"]:
    if loss == SQUARES:
        return scores
    if loss == COUNTS:
        return np.exp(np.minimum(scores, HIGHEST_SCORE))
    return expit(scores)


def _curvature(loss: str, mean: Float64[np.ndarray, "N n"]) -> Float64[np.ndarray, "N n"]:
    if loss == SQUARES:
        return np.ones_like(mean)
    if loss == COUNTS:
        return mean
    return mean * (1 - mean)
