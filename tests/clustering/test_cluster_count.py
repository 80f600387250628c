"""How many clusters: each way of asking against a slow computation or a case that can be worked out
by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.linalg import eigvalsh
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from fedkin.clustering.cluster_count import (
    Gap,
    gap_statistic,
    laplacian_spectrum,
    largest_eigengap,
    largest_jump,
    merge_heights,
    principal_projections,
    silhouettes,
    split_half_stability,
)
from fedkin.core.errors import MethodError

RNG = np.random.default_rng
PAIRS = np.array([[0.0], [1.0], [10.0], [12.0]])


def blobs(clusters: int, each: int = 12, seed: int = 0, spread: float = 0.3) -> np.ndarray:
    """Clusters on the corners of a simplex: all as far from each other, five times their spread or
    more."""
    corners = 5 * np.eye(max(clusters, 4))[:clusters]
    return np.repeat(corners, each, axis=0) + RNG(seed).normal(
        scale=spread, size=(clusters * each, corners.shape[1])
    )


# --- gap statistic


@pytest.mark.parametrize(
    ("gap", "error", "clusters"),
    [
        (
            [0.1, 0.5, 0.9, 0.95],
            [0.1, 0.1, 0.1, 0.1],
            3,
        ),  # 0.9 >= 0.95 - 0.1, and not 0.5 >= 0.9 - 0.1
        ([0.5, 0.4, 0.9], [0.0, 0.0, 0.0], 1),  # the first, though a later one is larger
        ([0.1, 0.2, 0.3], [0.0, 0.05, 0.05], 3),  # none: the largest asked for
    ],
)
def test_the_rule_of_the_gap(gap: list[float], error: list[float], clusters: int) -> None:
    assert Gap(np.array(gap), np.array(error)).clusters == clusters


def test_the_gap_of_points_on_a_line_by_hand() -> None:
    """log W of {0, 1, 10, 12}: around 5.75, then around 0.5 and 11, then 0.5, 10 and 12. References
    repeat for a seed where K is 1, since K-means has nothing to draw there."""
    result = gap_statistic(PAIRS, 3, RNG(0), references=60)
    spreads = [np.sum((PAIRS - 5.75) ** 2), 0.5 + 2.0, 0.5]
    centred = PAIRS - PAIRS.mean()
    noise = RNG(1).uniform(centred.min(), centred.max(), (20000, 4))
    one = np.log(noise.var(axis=1) * 4)
    assert result.gap[0] == pytest.approx(
        one.mean() - np.log(spreads[0]), abs=4 * one.std() / 60**0.5
    )
    assert result.error[0] == pytest.approx(one.std() * (1 + 1 / 60) ** 0.5, rel=0.4)
    steps = result.gap[1:] - result.gap[0]
    best = [_least(np.sort(row), k) for k in (2, 3) for row in noise[:400]]
    expected = np.log(np.array(best).reshape(2, -1)).mean(axis=1) - np.log(spreads[1:])
    np.testing.assert_allclose(steps, expected - (one.mean() - np.log(spreads[0])), atol=0.35)


def _least(line: np.ndarray, clusters: int) -> float:
    """The least W_K of four numbers on a line, over all ways to cut it."""
    cuts = [[1], [2], [3]] if clusters == 2 else [[1, 2], [1, 3], [2, 3]]
    return min(sum(part.var() * len(part) for part in np.split(line, cut)) for cut in cuts)


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_the_gap_counts_blobs(clusters: int) -> None:
    points = blobs(clusters) if clusters > 1 else RNG(3).uniform(size=(48, 4))
    assert gap_statistic(points, 6, RNG(0)).clusters == clusters


# --- silhouette


def test_silhouettes_are_those_of_scikit_learn() -> None:
    points = blobs(3)
    result = silhouettes(points, 4, RNG(0))
    fits = [
        KMeans(k, n_init=20, random_state=0)  # pyright: ignore[reportArgumentType]
        for k in (2, 3)
    ]
    labels = [fit.fit_predict(points) for fit in fits]
    assert np.isnan(result[0]) and int(np.nanargmax(result)) + 1 == 3
    np.testing.assert_allclose(
        result[1:3], [silhouette_score(points, one) for one in labels], rtol=1e-6
    )


def test_a_silhouette_by_hand() -> None:
    """{0, 1 | 10, 12}: a = 1, 1, 2, 2; b = 11, 10, 9.5, 11.5."""
    expected = np.mean([1 - 1 / 11, 1 - 1 / 10, 1 - 2 / 9.5, 1 - 2 / 11.5])
    assert silhouettes(PAIRS, 2, RNG(0))[1] == pytest.approx(expected)


# --- eigengap


def test_the_spectrum_of_parts_that_nothing_connects() -> None:
    """Complete graphs of 3 and 2 (with loops) and a point alone: 0, 0, 0, then 1s (the normalised
    affinity of a complete graph with loops has rank 1)."""
    affinity = np.zeros((6, 6))
    affinity[:3, :3] = affinity[3:5, 3:5] = 1
    result = laplacian_spectrum(affinity, 6)
    np.testing.assert_allclose(result, [0, 0, 0, 1, 1, 1], atol=1e-9)
    assert largest_eigengap(result) == 3


def test_the_spectrum_as_a_generalised_problem() -> None:
    """The same eigenvalues as those of (D - A) v = lambda D v (von Luxburg 2007, proposition 3)."""
    affinity = RNG(0).uniform(0.1, 1, (7, 7))
    affinity = affinity + affinity.T
    degrees = np.diag(affinity.sum(axis=1))
    np.testing.assert_allclose(
        laplacian_spectrum(affinity, 5),
        eigvalsh(degrees - affinity, degrees)[:5].clip(0),
        atol=1e-9,
    )


def test_alike_points_are_one_cluster() -> None:
    assert largest_eigengap(laplacian_spectrum(np.ones((8, 8)), 5)) == 1


@pytest.mark.parametrize("affinity", [-np.ones((3, 3)), np.triu(np.ones((3, 3)))])
def test_no_affinity(affinity: np.ndarray) -> None:
    with pytest.raises(MethodError, match="symmetric and none negative"):
        laplacian_spectrum(affinity, 2)


# --- dendrogram


def test_heights_by_hand() -> None:
    """Ward on {0, 1, 10, 12}: merges at 1, at 2,
    and the pairs at sqrt(2 * 2 * 2 / 4) times 10.5."""
    heights = merge_heights(PAIRS, 4)
    np.testing.assert_allclose(heights, [10.5 * 2**0.5, 2, 1, 0])
    assert largest_jump(heights) == 2


@pytest.mark.parametrize("clusters", [2, 3, 5])
def test_the_jump_is_where_a_dendrogram_can_be_cut(clusters: int) -> None:
    points = blobs(clusters)
    heights = merge_heights(points, 8)
    assert largest_jump(heights) == clusters
    between = heights[clusters - 2 : clusters].mean()
    assert len(np.unique(fcluster(linkage(points, "ward"), between, "distance"))) == clusters


# --- clients that return


@pytest.mark.parametrize("clusters", [2, 4, 8])
def test_all_return_to_planted_clusters_and_few_to_a_split_of_noise(clusters: int) -> None:
    first, second = (blobs(clusters, seed=seed) for seed in (1, 2))
    shares = split_half_stability(first, second, clusters + 2, RNG(0)).mean(axis=0)
    assert shares[0] == 1 and shares[clusters - 1] == 1
    assert (shares[clusters:] < 0.7).all()


def test_of_noise_no_more_than_half_returns_on_average() -> None:
    pairs = [RNG(seed).normal(size=(2, 40, 20)) for seed in range(8)]
    shares = np.mean([split_half_stability(a, b, 3, RNG(0)).mean(axis=0) for a, b in pairs], axis=0)
    assert shares[1] < 0.55 and shares[2] < 0.45


def test_shares_by_hand() -> None:
    """{0, 1 | 10, 12} have their centres 5.25 below and above their mean. Seen again as 0, 20, 9,
    13, that is -10.5, 9.5, -1.5 and 2.5 from theirs, one of each pair comes back. Clustered by the
    second look it is {0 | 9, 13, 20} (62 is less than 65 of {0, 9 | 13, 20}) with centres at -10.5
    and 3.5, and the first look, -5.75, -4.75, 4.25 and 6.25, brings back the one, and two of three.
    """
    again = np.array([[0.0], [20.0], [9.0], [13.0]])
    np.testing.assert_allclose(
        split_half_stability(PAIRS, again, 2, RNG(0)), [[1, 1 / 2], [1, 2 / 3]]
    )


def test_fewer_distinct_points_than_clusters_return_none() -> None:
    points = np.repeat([[0.0, 1.0], [1.0, 0.0]], 4, axis=0)
    np.testing.assert_array_equal(
        split_half_stability(points, points, 3, RNG(0)), [[1, 1, 0], [1, 1, 0]]
    )


def test_principal_directions_are_those_of_the_svd() -> None:
    seen = RNG(0).normal(size=(9, 40))
    again = RNG(1).normal(size=(5, 40))
    here, there = principal_projections(seen, again, 3)
    centre = seen - seen.mean(axis=0)
    axes = np.linalg.svd(centre)[2][:3]
    np.testing.assert_allclose(np.abs(here), np.abs(centre @ axes.T), atol=1e-9)
    np.testing.assert_allclose(
        np.abs(there), np.abs((again - again.mean(axis=0)) @ axes.T), atol=1e-9
    )


# --- bad input


@pytest.mark.parametrize("most", [0, 5])
def test_no_number_of_clusters(most: int) -> None:
    for ask in (
        lambda: gap_statistic(PAIRS, most, RNG(0)),
        lambda: silhouettes(PAIRS, most, RNG(0)),
        lambda: merge_heights(PAIRS, most),
        lambda: split_half_stability(PAIRS, PAIRS, most, RNG(0)),
        lambda: laplacian_spectrum(np.ones((4, 4)), most),
    ):
        with pytest.raises(MethodError, match=r"the number of points, 4"):
            ask()


def test_nonfinite_points() -> None:
    with pytest.raises(MethodError, match="finite"):
        gap_statistic(np.array([[0.0], [np.nan]]), 1, RNG(0))
    with pytest.raises(MethodError, match="more points than clusters"):
        silhouettes(PAIRS, 4, RNG(0))
    with pytest.raises(MethodError, match="to the same clients"):
        split_half_stability(PAIRS, PAIRS[:3], 2, RNG(0))
