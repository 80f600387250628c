"""Spectral clustering of long rows, such as clients' gradients (CFL-GP). Shapes: n rows of P
numbers, K directions.

Let G be the P x n matrix whose columns are the rows, and U_K its first K left singular vectors. The
projection of a row is its column of U_K^T G. No P x P matrix is formed: from the Gram matrix G^T G
= V S^2 V^T follows U_K^T G = S V^T, first K rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError

_NOISE = 1e-12  # relative to the first squared singular value: weaker directions are rounding
_LEAST = 3  # minimum dimensions in which the number of clusters is estimated


@dataclass(frozen=True)
class Spectrum:
    """Singular values, largest first, and all right singular vectors."""

    values: Float64[np.ndarray, "n"]
    vectors: Float64[np.ndarray, "n n"]

    def projected(self, directions: int) -> Float64[np.ndarray, "n K"]:
        """Projections of the rows on the first K directions, one column of U_K^T G per row."""
        return self.vectors[:, :directions] * self.values[:directions]

    def project(
        self, products: Float[np.ndarray, "m n"], directions: int
    ) -> Float64[np.ndarray, "m K"]:
        """Projections of other rows, from their inner products with the rows of this spectrum."""
        values = self.values[:directions]
        is_direction = values**2 > _NOISE * self.values[0] ** 2
        scale = np.divide(1, values, out=np.zeros_like(values), where=is_direction)
        return products @ (self.vectors[:, :directions] * scale)


def spectrum(inner: Float[np.ndarray, "n n"]) -> Spectrum:
    """The singular value decomposition of rows, from their Gram matrix."""
    values, vectors = np.linalg.eigh(inner.astype(np.float64))
    return Spectrum(np.sqrt(np.clip(values[::-1], 0, None)), vectors[:, ::-1])


def count_by_silhouette(decomposition: Spectrum, most: int, seed: int) -> int:
    """The number of clusters (at least 2) with the highest K-means silhouette, the smallest for
    ties.

    Rows are projected on the directions before the largest gap between singular values, at least 3.

    Args:
        decomposition: of the rows.
        most: maximum number of clusters; always at most one fewer than the rows.
        seed: of K-means.

    Raises:
        MethodError: fewer than three rows, or rows that are all equal.
    """
    from sklearn.metrics import silhouette_score

    clients = len(decomposition.values)
    if clients < 3:
        raise MethodError(
            f"{clients} rows are too few to look for clusters, it takes 3; give the number of "
            "clusters"
        )
    gaps = decomposition.values[:-1] - decomposition.values[1:]
    directions = max(_LEAST, int(np.argmax(gaps)) + 1)
    points = decomposition.projected(directions)
    most = min(most, clients - 1, len(np.unique(points, axis=0)))
    if most < 2:
        raise MethodError(f"all {clients} rows are the same: they have no clusters")
    scores = [
        silhouette_score(points, kmeans(points, k, seed, max_iter=300)) for k in range(2, most + 1)
    ]
    return int(np.argmax(scores)) + 2


def spectral_clusters(decomposition: Spectrum, clusters: int, seed: int) -> Int[np.ndarray, "n"]:
    """Labels of the rows by K-means in the space of the first K directions.

    Args:
        decomposition: of the rows.
        clusters: K.
        seed: of K-means.
    """
    return kmeans(decomposition.projected(clusters), clusters, seed, max_iter=300)
