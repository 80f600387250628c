"""Spectral clustering of long rows, such as clients' gradients (CFL-GP). Shapes: n rows of P
numbers, K directions.

With G the P x n matrix whose columns are the rows, and U_K its first left singular vectors, a row's
place is its column of U_K^T G. No P x P matrix is made: of the Gram matrix G^T G = V S^2 V^T, U_K^T
G = S V^T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError

_NOISE = 1e-12  # of the first squared singular value: weaker directions are rounding
_LEAST = 3  # dimensions in which a number of clusters is looked for


@dataclass(frozen=True)
class Spectrum:
    """Singular values, largest first, and all right singular vectors."""

    values: Float64[np.ndarray, "n"]
    vectors: Float64[np.ndarray, "n n"]

    def projected(self, directions: int) -> Float64[np.ndarray, "n K"]:
        """The places of the rows in the space of the first directions: a column of U_K^T G for each
        row."""
        return self.vectors[:, :directions] * self.values[:directions]

    def project(
        self, products: Float[np.ndarray, "m n"], directions: int
    ) -> Float64[np.ndarray, "m K"]:
        """The places of other rows, from their inner products with the rows of this spectrum."""
        values = self.values[:directions]
        is_direction = values**2 > _NOISE * self.values[0] ** 2
        scale = np.divide(1, values, out=np.zeros_like(values), where=is_direction)
        return products @ (self.vectors[:, :directions] * scale)


def spectrum(inner: Float[np.ndarray, "n n"]) -> Spectrum:
    """The spectrum of rows, from their Gram matrix."""
    values, vectors = np.linalg.eigh(inner.astype(np.float64))
    return Spectrum(np.sqrt(np.clip(values[::-1], 0, None)), vectors[:, ::-1])


def count_by_silhouette(decomposition: Spectrum, most: int, seed: int) -> int:
    """The number of clusters, from 2 up, by which K-means has the highest silhouette, the first of
    equals.

    Rows are seen in as many directions as stand before the largest gap between singular values, and
    in 3 at least.

    Args:
        decomposition: of the rows.
        most: clusters; one fewer than the rows in any case.
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
