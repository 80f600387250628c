"""Measures of fairness across clients, from the clients' accuracies. Shapes: N clients.

Source of the variance: T. Li, M. Sanjabi, A. Beirami, V. Smith: Fair Resource Allocation in
Federated Learning. ICLR 2020. Source of the index: R. Jain, D. Chiu, W. Hawe: A Quantitative
Measure of Fairness and Discrimination. DEC-TR-301, 1984.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from fedkin.core.strict_json import finite_or_none

FAIRNESS = ("accuracy_variance", "accuracy_std", "bottom_decile", "top_decile", "jain_index")


def fairness_measures(accuracy: Float[np.ndarray, "N"]) -> dict[str, float]:
    """Fairness measures over clients; NaN without clients.

    The measures are variance (divided by N, as in Li et al.) and standard deviation, mean accuracy
    of the bottom and of the top 10% of clients (at least one client), and Jain's index.
    """
    if not len(accuracy):
        return dict.fromkeys(FAIRNESS, math.nan)
    ordered = np.sort(accuracy)
    tenth = math.ceil(len(accuracy) / 10)
    return {
        "accuracy_variance": float(accuracy.var()),
        "accuracy_std": float(accuracy.std()),
        "bottom_decile": float(ordered[:tenth].mean()),
        "top_decile": float(ordered[-tenth:].mean()),
        "jain_index": jain_index(accuracy),
    }


def jain_index(values: Float[np.ndarray, "N"]) -> float:
    """Jain's index (sum x)^2 / (N sum x^2): 1 if all values are equal, 1 / N if only one is
    nonzero, NaN if all are zero."""
    squares = float(np.sum(values**2))
    if not squares:
        return math.nan
    return float(np.sum(values)) ** 2 / (len(values) * squares)


def worst_decile(scores: Float[np.ndarray, "c"], sign: int = 1) -> float | None:
    """Mean score of the worst 10% of clients (at least one client); None without clients, and if
    one of these scores is not finite.

    Args:
        scores: score of each client.
        sign: 1 if higher scores are better, as of accuracies; -1 if lower ones are, as of losses.
    """
    if not len(scores):
        return None
    tenth = math.ceil(len(scores) / 10)
    worst_first = np.sort(scores)[::sign]
    return finite_or_none(worst_first[:tenth].mean())
