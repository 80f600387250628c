"""Survival data as risk sets: samples on which a Cox model learns to predict who dies first.

Cox's partial likelihood (1972) is a product over deaths. The factor of a death is the softmax over
the risks of all patients who were at risk, taken at the patient who died. A patient is at risk if
the patient's time is the time of the death or later. So here a sample is a death together with the
patients at risk (the risk set), and its label is the position of the patient who died. The cross
entropy of a sample is the term of this death in the Cox loss.

The training loss is the mean over samples, not over deaths: a death without another patient at risk
has no sample, because its term is 0 for every model. So the loss of whole risk sets is the Cox loss
times deaths / samples, and its gradient has the same direction. ``fedkin.cox_loss`` is the exact
loss per death. A random subset of the patients at risk suffices for training (nested case-control
sampling: Thomas 1977; Goldstein & Langholz 1992).

Tied deaths are in each other's risk sets. With "breslow" each has the whole risk set (Breslow
1974). With "efron" the k-th of d deaths, k = 0 .. d - 1, has a risk set in which the d patients
have weight 1 - k / d (Efron 1977). The cross entropy of such a sample is its term of the loss minus
log(1 - k / d), a constant of the data.

A sample of two patients is a comparable pair of Harrell's C-index: the model is right if the
patient who died first has the higher risk. So the accuracy over all pairs is the C-index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.measures.cox_loss import TIES


def check_ties(ties: str) -> None:
    """Raise ConfigError for an unknown treatment of deaths at the same time."""
    if ties not in TIES:
        raise ConfigError(unknown("ties", ties, TIES))


def deaths_with_others(
    times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"]
) -> Int[np.ndarray, "_"]:
    """The patients who died while another patient was at risk, in ascending order.

    Args:
        times: time until death, or until a patient was last seen.
        died: whether the death was observed; otherwise the patient is censored.
    """
    ascending = np.sort(times)
    at_risk = len(times) - np.searchsorted(ascending, times, side="left")
    return np.flatnonzero(died & (at_risk > 1))


def others_at_risk(times: Float[np.ndarray, "n"], death: int) -> Int[np.ndarray, "_"]:
    """The other patients at risk when a patient died, that is, those whose time is the same or
    later, in ascending order.

    Args:
        times: time until death, or until a patient was last seen.
        death: the patient who died.
    """
    at_risk = times >= times[death]
    at_risk[death] = False
    return np.flatnonzero(at_risk)


def followed_up(
    times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"], death: int
) -> Int[np.ndarray, "_"]:
    """The patients who certainly died after a patient whose death was observed, in ascending order.

    The time of such a patient is later, or it is the same and the patient was censored.

    Args:
        times, died: as in ``deaths_with_others``.
        death: the patient who died first.
    """
    later = times > times[death]
    censored = (times == times[death]) & ~died
    return np.flatnonzero(later | censored)


def risk_sets(
    x: Float[np.ndarray, "n d"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    size: int,
    draws: int,
    rng: np.random.Generator,
    who: str,
    ties: str = "breslow",
    dtype: Any = np.float32,
) -> tuple[Float[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Risk sets for training: each death with random patients who were at risk.

    Args:
        x, times, died: features, times and deaths of a client's patients.
        size: number of places for patients in a sample; some are empty if fewer are at risk.
        draws: number of samples for each death.
        rng: draws the patients.
        who: the client, for messages.
        ties: treatment of deaths at the same time: ``breslow`` or ``efron``.
        dtype: type of the samples; float64 for columns that are scaled later.

    Returns:
        Samples, whose last feature is a patient's weight (0 for an empty place), and the position
        in each sample of the patient who died.

    Raises:
        ConfigError: the treatment of ties is unknown.
        DataError: no death has another patient at risk, so there is nothing to compare.
    """
    check_ties(ties)
    deaths = deaths_with_others(times, died)
    if not len(deaths):
        raise DataError(
            f"{who}: none of its {len(times)} patients died while another was at risk, so a Cox "
            "loss has nothing to compare; leave this client out, or join it with another"
        )
    sets: list[list[int]] = []
    weights: list[Float[np.ndarray, "_"]] = []
    for death in deaths.tolist():
        at_risk = others_at_risk(times, death)
        for draw in range(draws):
            patients = [death, *_drawn(at_risk, size - 1, rng)]
            sets.append(patients)
            if ties == "efron":
                weights.append(_efron_weights(times, died, patients, draw))
            else:
                weights.append(np.ones(len(patients)))
    return _samples(x=x, sets=sets, weights=weights, size=size, rng=rng, dtype=dtype)


def comparable_pairs(
    x: Float[np.ndarray, "n d"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    size: int,
    rng: np.random.Generator,
    dtype: Any = np.float32,
) -> tuple[Float[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Test samples: all pairs of patients of which it is known who died first. The accuracy on them
    is Harrell's C-index.

    Args:
        x, times, died: features, times and deaths, as in ``risk_sets``.
        size: number of places for patients in a sample; all but two are empty.
        rng: draws the order of the two patients, so that a model that predicts equal risks is right
            for half of the pairs.
        dtype: type of the samples, as in ``risk_sets``.

    Returns:
        Samples, and the position in each of the patient who died first.
    """
    pairs: list[list[int]] = []
    # One death at a time, so that no array has a place for every two patients.
    for death in np.flatnonzero(died).tolist():
        pairs += [[death, later] for later in followed_up(times, died, death).tolist()]
    weights = [np.ones(2)] * len(pairs)
    return _samples(x=x, sets=pairs, weights=weights, size=size, rng=rng, dtype=dtype)


def _drawn(patients: Int[np.ndarray, "_"], count: int, rng: np.random.Generator) -> list[int]:
    """Draw ``count`` of the patients at risk at random; all of them if there are fewer."""
    return rng.choice(patients, min(count, len(patients)), replace=False).tolist()


def _efron_weights(
    times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"], patients: list[int], draw: int
) -> Float[np.ndarray, "_"]:
    """The weight of each patient in a risk set whose first patient died.

    Efron's weight of a tied death is 1 - k / d. In each draw, the d tied deaths have different k (0
    .. d - 1). In the next draw, each death takes the next k.
    """
    death = patients[0]
    tied = np.flatnonzero(died & (times == times[death]))
    # The position of this death among the tied ones, moved on by one in each draw.
    k = (int(np.flatnonzero(tied == death)[0]) + draw) % len(tied)
    return np.where(np.isin(patients, tied), 1 - k / len(tied), 1.0)


def _samples(
    x: Float[np.ndarray, "n d"],
    sets: list[list[int]],
    weights: list[Float[np.ndarray, "_"]],
    size: int,
    rng: np.random.Generator,
    dtype: Any,
) -> tuple[Float[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Make a sample of each set of patients (rows of x). The label is the position of the set's
    first patient, who died.

    The patients of a sample are in a random order. The last feature is a patient's weight, which is
    0 for an empty place.
    """
    samples = np.zeros((len(sets), size, x.shape[1] + 1), dtype)
    y = np.zeros(len(sets), np.int64)
    for number, (patients, weight) in enumerate(zip(sets, weights, strict=True)):
        order = rng.permutation(len(patients))
        samples[number, : len(patients), :-1] = x[np.asarray(patients)[order]]
        samples[number, : len(patients), -1] = weight[order]
        y[number] = np.flatnonzero(order == 0)[0]
    return samples, y
