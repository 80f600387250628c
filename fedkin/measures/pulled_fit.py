"""The fit of a linear model to the samples of one client, pulled to a shared model.

    minimise over D   sum_i loss_i(base_i + z_i D) + strength / 2 |D|^2

``base`` are the scores of the shared model, ``z`` are the features that the client fits itself, and
D is the client's difference from the shared model. With ``z`` = 1 it is the client's intercept:
for squared error, D is then n / (n + strength) times the mean residual, which is the shrunk mean of
a random intercept with strength = variance within clients / variance between them.

With few outputs the minimum is found by Newton's method, with more by L-BFGS. Derivatives by scores
are differences of the loss in float64, so all losses share one solver.

Shapes: n samples, q features that are fitted, C outputs, S strengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from fedkin.core.one_thread import one_thread
from fedkin.core.validation import check_not_negative

# Loss [n] of samples, from scores [n C]. The weights of samples are applied.
SampleLoss = Callable[[np.ndarray], np.ndarray]

# The pulls that are tried, in samples: a client with this many samples goes half of the way from
# the shared model to its own fit (for squared error and features of variance 1).
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
# With more outputs, or more fitted numbers, second derivatives cost more than they save.
_FEW_OUTPUTS = 3
_FEW_NUMBERS = 300
_NEWTON_STEPS = 30
_HALVINGS = 20
_TOLERANCE = 1e-6  # of the gradient, per sample
_STEP = 1e-4  # of differences in scores, for slopes
_WIDE_STEP = 1e-3  # for curvatures
_LEAST_CURVATURE = 1e-9  # in samples; keeps the equations solvable without a pull


def pulled_fits(
    design: Float64[np.ndarray, "n q"],
    base: Float64[np.ndarray, "n C"],
    loss: SampleLoss,
    strengths: Sequence[float],
) -> Float64[np.ndarray, "S q C"]:
    """The differences D from the shared model, for each strength.

    Args:
        design: the features that are fitted.
        base: scores of the shared model.
        loss: loss of each sample, from scores; sums over samples are minimised.
        strengths: the pulls to the shared model, in samples; 0 for no pull.

    Raises:
        MethodError: a strength is negative.
    """
    for strength in strengths:
        check_not_negative("strength", strength)
    fits = np.zeros((len(strengths), design.shape[1], base.shape[1]))
    if not len(design):
        return fits
    few = base.shape[1] <= _FEW_OUTPUTS and fits[0].size <= _FEW_NUMBERS
    solve = _newton if few else _lbfgs
    fit = np.zeros(fits.shape[1:])
    # From the strongest pull to the weakest, each fit starts at the one before.
    for place in np.argsort(strengths)[::-1]:
        problem = _Problem(design, base, loss, float(strengths[place]))
        # A client has few samples, so its products are small.
        with one_thread("numpy"):
            fit = solve(problem, fit)
        fits[place] = fit
    return fits


def held_out_losses(
    design: Float64[np.ndarray, "n q"],
    base: Float64[np.ndarray, "n C"],
    loss: Callable[[np.ndarray], SampleLoss],
    strengths: Sequence[float],
    fold: np.ndarray,
) -> Float64[np.ndarray, "S"]:
    """The summed loss of held-out samples for each strength, by cross-validation.

    Args:
        design: the features that are fitted.
        base: scores of the shared model.
        loss: function from the rows of samples to their loss.
        strengths: the pulls to the shared model, in samples.
        fold: the fold of each sample [n]; a fold is held out while the others are fitted.
    """
    total = np.zeros(len(strengths))
    for number in np.unique(fold):
        held = np.flatnonzero(fold == number)
        kept = np.flatnonzero(fold != number)
        fits = pulled_fits(design[kept], base[kept], loss(kept), strengths)
        held_out = loss(held)
        total += [held_out(base[held] + design[held] @ fit).sum() for fit in fits]
    return total


class _Problem(NamedTuple):
    """What a fit minimises, as in ``pulled_fits``, with one strength."""

    design: Float64[np.ndarray, "n q"]
    base: Float64[np.ndarray, "n C"]
    loss: SampleLoss
    strength: float

    def scores(self, fit: Float64[np.ndarray, "q C"]) -> Float64[np.ndarray, "n C"]:
        """The scores of the samples."""
        return self.base + self.design @ fit

    def value(self, fit: Float64[np.ndarray, "q C"]) -> float:
        """The value that is minimised."""
        value = self.loss(self.scores(fit)).sum() + self.strength / 2 * (fit**2).sum()
        return float(value) if np.isfinite(value) else np.inf

    def gradient(self, fit: Float64[np.ndarray, "q C"]) -> Float64[np.ndarray, "q C"]:
        """Its gradient."""
        return self.design.T @ _slopes(self.loss, self.scores(fit)) + self.strength * fit


def _newton(problem: _Problem, start: Float64[np.ndarray, "q C"]) -> Float64[np.ndarray, "q C"]:
    """The fit with few outputs. Steps are halved until the objective does not grow."""
    fit = start
    pull = max(problem.strength, _LEAST_CURVATURE) * np.eye(fit.size)
    value = problem.value(fit)
    for _ in range(_NEWTON_STEPS):
        gradient = problem.gradient(fit)
        if np.abs(gradient).max() <= _TOLERANCE * len(problem.design):
            break
        curvature = _curvature(problem.design, problem.loss, problem.scores(fit))
        if not curvature.any():
            # The loss is piecewise linear, so that Newton's steps have no meaning.
            return _lbfgs(problem, fit)
        step = np.linalg.solve(curvature + pull, gradient.ravel()).reshape(fit.shape)
        for halving in range(_HALVINGS):
            tried = fit - step / 2**halving
            found = problem.value(tried)
            if found <= value:
                break
        else:
            break
        fit = tried
        value = found
    return fit


def _slopes(loss: SampleLoss, scores: Float64[np.ndarray, "n C"]) -> Float64[np.ndarray, "n C"]:
    """Derivatives of each sample's loss by its scores."""
    slopes = np.empty_like(scores)
    for output, shift in enumerate(_STEP * np.eye(scores.shape[1])):
        slopes[:, output] = (loss(scores + shift) - loss(scores - shift)) / (2 * _STEP)
    return slopes


def _curvature(
    design: Float64[np.ndarray, "n q"], loss: SampleLoss, scores: Float64[np.ndarray, "n C"]
) -> Float64[np.ndarray, "p p"]:
    """Second derivatives of the summed loss by the p = q C fitted numbers."""
    features = design.shape[1]
    outputs = scores.shape[1]
    curvature = np.empty((features, outputs, features, outputs))
    shifts = _WIDE_STEP * np.eye(outputs)
    for one in range(outputs):
        for other in range(one + 1):
            if one == other:
                bend = loss(scores + shifts[one]) - 2 * loss(scores) + loss(scores - shifts[one])
                second = np.maximum(bend / _WIDE_STEP**2, 0.0)
            else:
                both = shifts[one] + shifts[other]
                apart = shifts[one] - shifts[other]
                bend = loss(scores + both) + loss(scores - both)
                bend -= loss(scores + apart) + loss(scores - apart)
                second = bend / (2 * _WIDE_STEP) ** 2
            block = (design * second[:, None]).T @ design
            curvature[:, one, :, other] = block
            curvature[:, other, :, one] = block
    return curvature.reshape(features * outputs, features * outputs)


def _lbfgs(problem: _Problem, start: Float64[np.ndarray, "q C"]) -> Float64[np.ndarray, "q C"]:
    """The fit with several outputs."""
    # Imported here, because it is slow to import and few users of the module need it.
    from scipy.optimize import minimize

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        fit = flat.reshape(start.shape)
        return problem.value(fit), problem.gradient(fit).ravel()

    options = {"gtol": _TOLERANCE * len(problem.design), "maxiter": 200}
    with one_thread("scipy.optimize"):
        found = minimize(
            value_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=options
        )
    return found.x.reshape(start.shape)
