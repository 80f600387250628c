"""Decisions of selective re-clustering, from numbers of correct samples: which clients have
drifted, which model serves them better, and which models are equal.

All tests are by e-values (``fedkin/measures/e_values.py``), and come from fedkin
(``fedkin/methods/selective.py``). Shapes: n clients, k models in use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.measures.e_values import (
    discordant_e_value,
    e_bh,
    larger_share_e_value,
    not_worse_e_value,
)

_BELOW_ONE = 1 - 1e-9  # a probability of 1 leaves nothing to bet on


def drifted(
    wrong: Int[np.ndarray, "n"],
    samples: Int[np.ndarray, "n"],
    error: Float[np.ndarray, "n"],
    margin: float,
    alpha: float,
) -> Bool[np.ndarray, "n"]:
    """The clients whose model is wrong more often than before by more than a margin (e-BH).

    Args:
        wrong: numbers of wrong samples.
        samples: numbers of all samples.
        error: share of wrong samples before; NaN for a client without an earlier check, which
            cannot drift.
        margin: rise that is no drift.
        alpha: false discovery rate.
    """
    largest = np.where(np.isnan(error), _BELOW_ONE, np.minimum(error + margin, _BELOW_ONE))
    return ~np.isnan(error) & e_bh(larger_share_e_value(wrong, samples, largest), alpha)


class ChosenModels(NamedTuple):
    """The model that serves each client better than its own, and the clients that none fits."""

    target: Int[np.ndarray, "n"]  # column of the model; -1: stay
    stray: Bool[np.ndarray, "n"]


def choose(
    correct: Int[np.ndarray, "n k"],
    row: Int[np.ndarray, "n"],
    samples: Int[np.ndarray, "n"],
    error: Float[np.ndarray, "n"],
    margin: float,
    alpha: float,
) -> ChosenModels:
    """Choose a model for each of some clients.

    Args:
        correct: number of samples that each model predicts correctly.
        row: column of each client's own model.
        samples: numbers of all samples.
        error: share of wrong samples that a client is used to.
        margin: rise above it with which a model still fits.
        alpha: false discovery rate of moves.
    """
    own = correct[np.arange(len(row)), row]
    highest = correct.max(axis=1, initial=0)
    better = e_bh(better_e_value(own, highest, samples), alpha)
    stray = 1 - highest / np.maximum(samples, 1) > error + margin
    return ChosenModels(target=np.where(better, correct.argmax(axis=1), -1), stray=stray)


def equal_models(
    correct: Int[np.ndarray, "n k"],
    row: Int[np.ndarray, "n"],
    samples: Int[np.ndarray, "n"],
    margin: float,
    alpha: float,
) -> tuple[int, int] | None:
    """The two models that are most clearly equal: the clients of neither lose ``margin`` of their
    accuracy with the other one; None if there is no such pair.

    Args:
        correct: number of samples that each model predicts correctly.
        row: column of each client's own model.
        samples: numbers of all samples.
        margin: loss of accuracy that matters.
        alpha: probability of any wrong pair.
    """
    k = correct.shape[1]
    e_values = np.zeros((k, k))
    for i in range(k):
        clients = row == i
        totals = correct[clients].sum(axis=0)
        number = int(samples[clients].sum())
        b, c = _differences(np.full(k, totals[i]), totals, np.full(k, number))
        e_values[i] = not_worse_e_value(b, c, np.full(k, number), margin)
    both = np.triu(np.minimum(e_values, e_values.T), k=1)
    pairs = k * (k - 1) / 2
    if k < 2 or both.max() < pairs / alpha:
        return None
    i, j = np.unravel_index(int(both.argmax()), both.shape)
    return int(i), int(j)


def better_e_value(
    own: Int[np.ndarray, "n"], other: Int[np.ndarray, "n"], samples: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    """Evidence that another model is better, from numbers of correct samples.

    The samples on which the models differ are unknown. The e-value falls with their number, so the
    largest possible one is taken.

    Args:
        own: number of samples that the present model predicts correctly.
        other: the same for the other model.
        samples: number of all samples.
    """
    b, c = _differences(own, other, samples)
    return discordant_e_value(b, c)


def _differences(
    own: Int[np.ndarray, "n"], other: Int[np.ndarray, "n"], samples: Int[np.ndarray, "n"]
) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Numbers of samples that only the other model and only the own model predict correctly, if the
    models differ on as many samples as possible."""
    only_other = np.minimum(other, samples - own)
    return only_other, only_other - (other - own)
