"""Platt scaling: turns the scores of detectors into probabilities, from histograms instead of
samples.

A detector is a model that separates one class from all others.

ATHENA-FL trains the detector of each class separately, and then predicts the class whose detector
has the highest score, although their scores are not on one scale. Here clients send histograms of
scores s, never samples. The server sums the histograms and fits two numbers a and b for each
detector, so that sigmoid(a s + b) is a probability. This is not part of any ATHENA-FL paper.

Shapes: n samples, r groups of samples, D detectors, P parameters.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.core.errors import MethodError, ModelError

BINS = 64
EDGES = np.linspace(-16, 16, BINS + 1)  # edges for scores before the sigmoid; outer bins are open
CENTRES = (EDGES[:-1] + EDGES[1:]) / 2
# Rows of a histogram.
POSITIVE = 0
NEGATIVE = 1

_MAX_STEPS = 100  # Newton's method takes about ten
_MAX_HALVINGS = 30
_TOLERANCE = 1e-10  # relative to the number of samples; a smaller gradient counts as zero
_ROUNDING = 1e-12  # rounding error, relative to the cross entropy
_RIDGE = 1e-12  # relative to the samples; makes the fit possible if all scores are in one bin


def score_histogram(
    scores: Float[np.ndarray, "n"], positive: Bool[np.ndarray, "n"]
) -> Int[np.ndarray, "2 64"]:
    """Histograms of the scores of positive samples (row 0) and negative samples (row 1).

    A score is the detector's output before the sigmoid (a logit). Bin i is [EDGES[i], EDGES[i +
    1]); scores outside the edges count in the outer bins. The sum of clients' histograms is the
    histogram of all their samples.

    Raises:
        MethodError: a score is NaN.
    """
    return score_histograms(scores, positive, np.array([len(scores)]))[0]


def score_histograms(
    scores: Float[np.ndarray, "n"], positive: Bool[np.ndarray, "n"], sizes: Int[np.ndarray, "r"]
) -> Int[np.ndarray, "r 2 64"]:
    """``score_histogram`` of several groups of samples at once.

    Args:
        scores: scores of all samples, group by group.
        positive: whether each sample is positive.
        sizes: number of samples of each group.

    Raises:
        MethodError: a score is NaN.
    """
    if np.isnan(scores).any():
        nan = np.flatnonzero(np.isnan(scores))
        raise MethodError(
            f"scores must be numbers, but {len(nan)} are NaN, such as the score of sample {nan[0]}"
        )
    bins = np.clip(np.searchsorted(EDGES, scores, side="right") - 1, 0, BINS - 1)
    group = np.repeat(np.arange(len(sizes)), sizes)
    row = 2 * group + np.where(positive, POSITIVE, NEGATIVE)
    counts = np.bincount(row * BINS + bins, minlength=2 * BINS * len(sizes))
    return counts.reshape(len(sizes), 2, BINS)


def platt_scale(counts: Int[np.ndarray, "*D 2 64"]) -> Float64[np.ndarray, "*D 2"]:
    """Fit (a, b) of each detector: sigmoid(a s + b) is the probability that a sample with score s
    is positive.

    The fit is maximum likelihood at the bin centres, with Platt's targets (N+ + 1) / (N+ + 2) for
    the N+ positive samples and 1 / (N- + 2) for the N- negative ones, instead of 1 and 0. With
    these targets, ``a`` has a finite optimum even for a detector without errors (Platt 1999). The
    fit uses Newton's method with backtracking (Lin, Lin & Weng, Machine Learning 68, 2007). Because
    scores are replaced by bin centres, ``a`` is too small: by 1 % for widely spread scores, and by
    10 % if their standard deviation is 0.5, the width of a bin.

    ``a`` is negative if a detector is worse than chance; this reverses its scores. A detector
    without positive or without negative samples cannot be calibrated, and keeps its scores: (1, 0).
    If all scores are in one bin, many pairs (a, b) are equally good, and one of them is returned.

    Raises:
        MethodError: a count is below 0.
    """
    if counts.min(initial=0) < 0:
        raise MethodError(f"counts of samples must be at least 0, got {counts.min()}")
    histograms = counts.reshape(-1, 2, BINS).astype(np.float64)
    totals = histograms.sum(axis=2)
    positives = totals[:, POSITIVE]
    negatives = totals[:, NEGATIVE]
    targets = np.stack([(positives + 1) / (positives + 2), 1 / (negatives + 2)], axis=1)
    # Expected number of positive samples in each bin, with the targets in place of labels.
    hits = np.einsum("dk,dkb->db", targets, histograms)

    # A detector without positives or without negatives keeps (1, 0).
    scale = np.tile([1.0, 0.0], (len(histograms), 1))
    scalable = (totals > 0).all(axis=1)
    if scalable.any():
        # Platt's start: a = 0, and b from the share of positive samples.
        b = np.log((positives[scalable] + 1) / (negatives[scalable] + 1))
        start = np.stack([np.zeros_like(b), b], axis=1)
        scale[scalable] = _newton(histograms[scalable].sum(axis=1), hits[scalable], start)
    return scale.reshape(*counts.shape[:-2], 2)


def fold_scale(
    models: Float[np.ndarray, "D P"], head: slice, bias: slice, scale: Float[np.ndarray, "D 2"]
) -> Float[np.ndarray, "D P"]:
    """Build each scale into its detector: change the last layer so that the new score is a s + b.

    Args:
        models: the parameters of one detector per row.
        head: the slice of the last layer, weights and bias (``ModelSpec.head``). It is multiplied
            by a.
        bias: the slice of the last layer's bias (``ModelSpec.head_bias``), to which b is added.
        scale: (a, b) of each detector.

    Raises:
        ModelError: the bias is not part of the head, or the head is not part of the model.
    """
    if not 0 <= head.start <= bias.start < bias.stop <= head.stop <= models.shape[1]:
        raise ModelError(
            f"the bias {bias} must be a part of the head {head}, and the head a part of the "
            f"{models.shape[1]} parameters; take both from the model's spec"
        )
    models = models.copy()
    # The last layer is linear: a (w x + c) + b = (a w) x + (a c + b), where c is its bias.
    models[:, head] *= scale[:, :1]
    models[:, bias] += scale[:, 1:]
    return models


def _newton(
    samples: Float64[np.ndarray, "D 64"],
    hits: Float64[np.ndarray, "D 64"],
    scale: Float64[np.ndarray, "D 2"],
) -> Float64[np.ndarray, "D 2"]:
    """Minimise the convex cross entropy over (a, b) by Newton's method, from the start ``scale``.
    ``samples`` is the number of samples in each bin, ``hits`` the number of positive ones (weighted
    by Platt's targets)."""
    # Imported here, because it is slow to import and clients do not need it.
    from scipy.special import expit

    features = np.stack([CENTRES, np.ones(BINS)])
    total = samples.sum(axis=1)
    ridge = _RIDGE * total[:, None, None] * np.eye(2)
    for _ in range(_MAX_STEPS):
        probability = expit(scale @ features)
        gradient = (samples * probability - hits) @ features.T
        if np.all(np.abs(gradient) <= _TOLERANCE * total[:, None]):
            break
        variance = samples * probability * (1 - probability)
        # Second derivatives of the cross entropy by a and b, for each detector.
        curvature = np.einsum("ib,db,jb->dij", features, variance, features) + ridge
        step = -np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        length = _step_length(samples, hits, scale, step)
        scale = scale + length[:, None] * step
    return scale


def _step_length(
    samples: Float64[np.ndarray, "D 64"],
    hits: Float64[np.ndarray, "D 64"],
    scale: Float64[np.ndarray, "D 2"],
    step: Float64[np.ndarray, "D 2"],
) -> Float64[np.ndarray, "D"]:
    """Backtracking step length: 1, halved until the cross entropy does not increase; 0 if it always
    increases."""
    before = _cross_entropy(samples, hits, scale) * (1 + _ROUNDING)
    length = np.ones(len(scale))
    for _ in range(_MAX_HALVINGS):
        worse = ~(_cross_entropy(samples, hits, scale + length[:, None] * step) <= before)
        if not worse.any():
            return length
        length = np.where(worse, length / 2, length)
    return np.where(worse, 0, length)


def _cross_entropy(
    samples: Float64[np.ndarray, "D 64"],
    hits: Float64[np.ndarray, "D 64"],
    scale: Float64[np.ndarray, "D 2"],
) -> Float64[np.ndarray, "D"]:
    """Cross entropy of each detector at the bin centres."""
    scores = scale @ np.stack([CENTRES, np.ones(BINS)])
    return (samples * np.logaddexp(0, scores) - hits * scores).sum(axis=1)
