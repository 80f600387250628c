"""Clustering under concept drift (FedDrift): clients switch to new models, and similar models
merge.

E. Jothimurugesan et al.: Federated Learning under Distributed Concept Drift. AISTATS 2023, arXiv
2206.00799, as in the authors' code. Shapes: M models (slots, of which some may be unused), N
clients, k models that may be merged, S time steps of the data, P parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.clustering.agglomerative import agglomerative

_APART = 2.0  # the distance of models that must not merge: above any difference of accuracies


class Choice(NamedTuple):
    """The models that clients have chosen in a time step; and all models, with the (client, step)
    pairs on whose samples each is trained, after these choices."""

    models: Float[np.ndarray, "M P"]  # including new models
    owner: Int[np.ndarray, "N S"]  # -1: none, or a model that was replaced by a new one
    model: Int[np.ndarray, "N"]  # model of each client
    accuracy: Float[np.ndarray, "N"]  # a_c(t), of each client's model on its new samples
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
    """Assign every client to its most accurate model (the first of ties).

    If a client's accuracy falls by more than delta, the client drifts: it gets a new model,
    initialised from its most accurate model. If none of the M places for models (slots) is free,
    the client does not drift.

    Args:
        models: models before the time step.
        owner: model that is trained on the samples of each (client, time step); -1 for none.
        model: model of each client before the step, -1 for none.
        accuracy: accuracy of each model on each client's new samples. It is -inf for unused models,
            and for clients without new samples, which keep their model.
        before: a_c(t-1), the accuracy of each client in the previous step; NaN if it has none.
        alone: mask of the clients that keep their model, because they drifted recently.
        delta: drift threshold.
        eager: whether all clients that drift share one new model.
    """
    has_samples = np.isfinite(accuracy).any(axis=1)
    kept = (alone | ~has_samples) & (model >= 0)
    best = np.where(kept, model, np.where(has_samples, accuracy.argmax(axis=1), -1))
    reached = np.take_along_axis(accuracy, np.maximum(best, 0)[:, None], axis=1)[:, 0]
    with np.errstate(invalid="ignore"):
        drifts = has_samples & ~kept & (before - reached > delta)

    after = models.copy()
    owner = owner.copy()
    chosen = best.copy()
    drifted = np.zeros_like(drifts)
    shared: int | None = None
    for client in np.flatnonzero(drifts):
        # A client has its best model until it gets a new one, so that one without a free slot can
        # keep it.
        taken = np.isin(np.arange(len(models)), chosen)
        place = recycled(owner, taken) if shared is None else shared
        # Without a free slot, the client keeps its most accurate model.
        if place is None:
            continue
        if shared is None:
            after[place] = models[best[client]]
            owner[owner == place] = -1
        chosen[client] = place
        drifted[client] = True
        shared = place if eager else None
    return Choice(models=after, owner=owner, model=chosen, accuracy=reached, drifted=drifted)


def recycled(owner: Int[np.ndarray, "N S"], taken: Bool[np.ndarray, "M"]) -> int | None:
    """The slot (one of the M places for models) that a new model takes: one that no (client, step)
    pair uses, otherwise the least recently used one (the first of ties). Slots in ``taken`` are
    never chosen.

    Args:
        owner: model that is trained on the samples of each (client, time step); -1 for none.
        taken: models that clients use in the current step.

    Returns:
        The slot; None if all slots are in use.
    """
    if taken.all():
        return None
    last_use = np.full(len(taken), -1)
    client, step = np.nonzero(owner >= 0)
    np.maximum.at(last_use, owner[client, step], step)
    return int(np.argmin(np.where(taken, owner.shape[1], last_use)))


def drift_distances(accuracy: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    """Distances of all pairs of models, max(A_ii - A_ij, A_jj - A_ji, 0): the accuracy that a model
    loses on the other model's samples.

    Args:
        accuracy: accuracy of model i on the samples of model j; NaN if there are no samples.
    """
    lost = np.diag(accuracy)[:, None] - accuracy
    larger = np.maximum(lost, lost.T)
    return np.where(np.isnan(lost + lost.T), _APART, np.maximum(larger, 0))


def merge_models(
    models: Float[np.ndarray, "M P"],
    fresh: Float[np.ndarray, "M P"],
    owner: Int[np.ndarray, "N S"],
    candidates: Int[np.ndarray, "k"],
    accuracy: Float[np.ndarray, "k k"],
    threshold: float,
    linkage: str = "complete",
) -> tuple[Float[np.ndarray, "M P"], Int[np.ndarray, "M"]]:
    """Merge groups of similar models.

    The first model of a group becomes the group's mean, weighted by the number of (client, step)
    pairs that each model owns. The other models are reset to initial models.

    Args:
        models: models before merging.
        fresh: initial models, one for each of the M models.
        owner: model that is trained on the samples of each (client, time step); -1 for none.
        candidates: models that may be merged, ascending.
        accuracy: accuracy of candidate i on the samples of candidate j.
        threshold: groups at this distance or more are not merged.
        linkage: ``complete`` or ``average``.

    Returns:
        The models after merging, and for each former model the number of the model into which it
        was merged.
    """
    after = models.copy()
    into = np.arange(len(models))
    if len(candidates) < 2 or not threshold:
        return after, into
    pairs = np.bincount(owner[owner >= 0], minlength=len(models))
    labels = agglomerative(drift_distances(accuracy), threshold=threshold, linkage=linkage)
    for group in np.flatnonzero(np.bincount(labels) > 1):
        members = candidates[labels == group]
        first = members[0]
        # Reset all models of the group; the first one then gets the mean.
        after[members] = fresh[members]
        after[first] = np.average(
            models[members].astype(np.float64), axis=0, weights=pairs[members]
        )
        into[members] = first
    return after, into
