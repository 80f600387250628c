"""Clustering by drift: which clients leave their model for a new one, and which models are one.

E. Jothimurugesan et al.: Federated Learning under Distributed Concept Drift. AISTATS 2023, arXiv
2206.00799, as in the authors' code. Shapes: M models, N clients, k models that may be merged, S
steps, P parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.clustering.agglomerative import agglomerative

_APART = 2.0  # more than any difference of accuracies


class Choice(NamedTuple):
    """What clients chose in a step."""

    models: Float[np.ndarray, "M P"]  # with new ones
    owner: Int[np.ndarray, "N S"]  # without what models owned whose place was taken
    model: Int[np.ndarray, "N"]  # of each client
    accuracy: Float[np.ndarray, "N"]  # a_c(t), on its new samples
    drifted: Bool[np.ndarray, "N"]  # clients with a new model


def choose_models(
    models: Float[np.ndarray, "M P"],
    owner: Int[np.ndarray, "N S"],
    model: Int[np.ndarray, "N"],
    accuracy: Float[np.ndarray, "N M"],
    before: Float[np.ndarray, "N"],
    alone: Bool[np.ndarray, "N"],
    delta: float,
    eager: bool = False,
) -> Choice:
    """Every client takes its most accurate model, the first of equals. One whose accuracy falls by
    more than delta gets a new model, which starts as that one; where no place is left, it does not
    drift.

    Args:
        models: as they are.
        owner: model of each (client, step), -1 for none.
        model: of each client before, -1 for none.
        accuracy: of each model on each client's new samples; -inf for models that are not in use,
            and for clients without new samples, which keep their model.
        before: a_c(t-1); NaN for a client that had none.
        alone: clients that keep their model.
        delta: drift threshold.
        eager: one new model for all clients that drift.
    """
    present = np.isfinite(accuracy).any(axis=1)
    kept = (alone | ~present) & (model >= 0)
    best = np.where(kept, model, np.where(present, accuracy.argmax(axis=1), -1))
    own = np.take_along_axis(accuracy, np.maximum(best, 0)[:, None], axis=1)[:, 0]
    with np.errstate(invalid="ignore"):
        drifts = present & ~kept & (before - own > delta)
    after, owner, chosen, drifted = models.copy(), owner.copy(), best.copy(), np.zeros_like(drifts)
    taken = np.isin(np.arange(len(models)), best[~drifts])
    shared: int | None = None
    for client in np.flatnonzero(drifts):
        place = shared if shared is not None else recycled(owner, taken)
        if place is None:
            taken[best[client]] = True
            continue
        if shared is None:
            after[place], taken[place] = models[best[client]], True
            owner[owner == place] = -1
        chosen[client], drifted[client], shared = place, True, place if eager else None
    return Choice(after, owner, chosen, own, drifted)


def recycled(owner: Int[np.ndarray, "N S"], taken: Bool[np.ndarray, "M"]) -> int | None:
    """The place of a new model: one that owns nothing, else that whose last use is longest ago, the
    first of equals.

    Args:
        owner: model of each (client, step), -1 for none.
        taken: models that clients use in the present step.

    Returns:
        None where all are taken.
    """
    last = np.full(len(taken), -1)
    client, step = np.nonzero(owner >= 0)
    np.maximum.at(last, owner[client, step], step)
    return None if taken.all() else int(np.argmin(np.where(taken, owner.shape[1], last)))


def drift_distances(accuracy: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    """How much a model loses on another's samples: the larger of A_ii - A_ij and A_jj - A_ji, and
    at least 0.

    Args:
        accuracy: of model i on the samples of model j; NaN where there are none.
    """
    lost = np.diag(accuracy)[:, None] - accuracy
    return np.where(np.isnan(lost + lost.T), _APART, np.maximum(np.maximum(lost, lost.T), 0))


def merge_models(
    models: Float[np.ndarray, "M P"],
    fresh: Float[np.ndarray, "M P"],
    owner: Int[np.ndarray, "N S"],
    candidates: Int[np.ndarray, "k"],
    accuracy: Float[np.ndarray, "k k"],
    threshold: float,
    linkage: str = "complete",
) -> tuple[Float[np.ndarray, "M P"], Int[np.ndarray, "M"]]:
    """Models that are alike become their first: the mean by (client, step) pairs; the others start
    anew.

    Args:
        models: as they are.
        fresh: initial models.
        owner: model of each (client, step), -1 for none.
        candidates: models that may be merged, ascending.
        accuracy: of model i on the samples of model j, of these.
        threshold: groups this far apart, or farther, are not merged.
        linkage: ``complete`` or ``average``.

    Returns:
        the models, and what each has become.
    """
    after, into = models.copy(), np.arange(len(models))
    if len(candidates) < 2 or not threshold:
        return after, into
    pairs = np.bincount(owner[owner >= 0], minlength=len(models))
    labels = agglomerative(drift_distances(accuracy), threshold=threshold, linkage=linkage)
    for group in np.flatnonzero(np.bincount(labels) > 1):
        own = candidates[labels == group]
        mean = np.average(models[own].astype(np.float64), axis=0, weights=pairs[own])
        after[own], after[own[0]], into[own] = fresh[own], mean, own[0]
    return after, into
