"""Spectral clustering of long rows, such as clients' gradients (CFL-GP). Shapes: n rows of P
numbers, K directions.

Let G be the P x n matrix with the given rows as columns, and U_K its first K left singular vectors.
The projection of a row is its column in U_K^T G. No P x P matrix is formed: with the Gram matrix
G^T G = V S^2 V^T, the projections U_K^T G are the first K rows of S V^T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError

_NOISE = 1e-12  # directions below this share of the first squared singular value are rounding noise
_LEAST = 3  # minimum number of dimensions for the estimate of the number of clusters


@dataclass(frozen=True)
class Spectrum:
    """A singular value decomposition of rows (such as clients' gradients): the singular values,
    largest first, and all right singular vectors."""

    values: Float64[np.ndarray, "n"]
    vectors: Float64[np.ndarray, "n n"]

    def projected(self, directions: int) -> Float64[np.ndarray, "n K"]:
        """Projections of the decomposed rows (such as clients' gradients) on the first K singular
        directions."""
        return self.vectors[:, :directions] * self.values[:directions]

    def project(
        self, products: Float[np.ndarray, "m n"], directions: int
    ) -> Float64[np.ndarray, "m K"]:
        """Projections of m other rows (such as gradients of new clients) on the first K directions.
        ``products`` are the inner products of these rows with the rows that were decomposed."""
        values = self.values[:directions]
        # Dividing by a singular value that is only rounding noise would amplify the noise.
        is_direction = values**2 > _NOISE * self.values[0] ** 2
        scale = np.divide(1, values, out=np.zeros_like(values), where=is_direction)
        return products @ (self.vectors[:, :directions] * scale)


def spectrum(inner: Float[np.ndarray, "n n"]) -> Spectrum:
    """The singular value decomposition of rows (such as clients' gradients), from their Gram matrix
    (inner products of all pairs)."""
    values, vectors = np.linalg.eigh(inner.astype(np.float64))
    return Spectrum(np.sqrt(np.clip(values[::-1], 0, None)), vectors[:, ::-1])


def count_by_silhouette(decomposition: Spectrum, most: int, seed: int) -> int:
    """The number of clusters (at least 2) with the highest silhouette of K-means, the smallest of
    ties.

    Rows (such as clients' gradients) are projected on the singular directions before the largest
    gap between singular values, but on at least 3 directions.

    Args:
        decomposition: decomposition of the rows.
        most: maximum number of clusters. It is limited to the number of rows minus one.
        seed: seed of K-means.

    Raises:
        MethodError: there are fewer than three rows, or all rows are equal.
    """
    from sklearn.metrics import silhouette_score

    clients = len(decomposition.values)
    if clients < 3:
        raise MethodError(
            "at least 3 rows (such as clients' gradients) are needed to estimate the number of "
            f"clusters, got {clients}; set the number of clusters"
        )
    # Directions after the largest gap between singular values count as noise.
    gaps = decomposition.values[:-1] - decomposition.values[1:]
    directions = max(_LEAST, int(np.argmax(gaps)) + 1)
    points = decomposition.projected(directions)
    most = min(most, clients - 1, len(np.unique(points, axis=0)))
    if most < 2:
        raise MethodError(
            f"all {clients} rows (such as clients' gradients) are equal, so the number of clusters "
            "cannot be estimated; set it to 1"
        )
    scores = [
        silhouette_score(points, kmeans(points, k, seed, max_iter=300)) for k in range(2, most + 1)
    ]
    return int(np.argmax(scores)) + 2


def spectral_clusters(decomposition: Spectrum, clusters: int, seed: int) -> Int[np.ndarray, "n"]:
    """Cluster labels of the decomposed rows (such as clients' gradients), by K-means on their
    projections on the first K singular directions.

    Args:
        decomposition: decomposition of the rows.
        clusters: K, the number of clusters.
        seed: seed of K-means.
    """
    return kmeans(decomposition.projected(clusters), clusters, seed, max_iter=300)
