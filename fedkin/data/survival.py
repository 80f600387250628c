"""Survival data as risk sets: samples of which a Cox model says who dies first.

The partial likelihood of Cox (1972) is a product over deaths, of the softmax of the risks of all
patients who were at risk at that time: all whose time is that of the death or later. So a death
with other patients at risk is one sample, whose label is the position of the patient who died. The
cross entropy of a sample is its term of the Cox loss.

The training loss is the mean over samples, not over deaths: a death without another patient at risk
has no sample, as its term is 0 whatever the model is. So the loss of whole risk sets is the Cox
loss times deaths / samples, and its gradient has the same direction. ``fedkin.cox_loss`` is the
exact loss per death. A draw of the patients at risk is enough to train on (nested case-control
sampling: Thomas 1977; Goldstein & Langholz 1992).

Several deaths at the same time are in each other's risk sets. With "breslow" each has the whole
risk set (Breslow 1974). With "efron" the k-th of d deaths, k = 0 .. d - 1, has a risk set in which
the d patients have weight 1 - k / d (Efron 1977). The cross entropy of such a sample is its term of
the loss minus log(1 - k / d), a constant of the data.

Where a sample has two patients, whether the one who died first has the higher risk is one
comparable pair of Harrell's C-index, so the accuracy over all pairs is the C-index.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.measures.cox_loss import TIES


def check_ties(ties: str) -> None:
    """Refuse (ConfigError) an unknown treatment of deaths at the same time."""
    if ties not in TIES:
        raise ConfigError(unknown("ties", ties, TIES))


def others_at_risk(
    times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"]
) -> Bool[np.ndarray, "n n"]:
    """Whether another patient j was at risk when patient i died: it has the time of the death or a
    later one.

    Args:
        times: until death, or until a patient was last seen.
        died: whether the death was observed; else the patient is censored.
    """
    at_risk = died[:, None] & (times[None] >= times[:, None])
    np.fill_diagonal(at_risk, False)
    return at_risk


def followed_up(
    times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"]
) -> Bool[np.ndarray, "n n"]:
    """Whether it is known that patient i died before patient j: j was seen alive later, or censored
    at that time.

    Args:
        times: until death, or until a patient was last seen.
        died: whether the death was observed; else the patient is censored.
    """
    later = times[None] > times[:, None]
    censored = (times[None] == times[:, None]) & ~died[None]
    return died[:, None] & (later | censored)


def risk_sets(
    x: Float[np.ndarray, "n d"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    size: int,
    draws: int,
    rng: np.random.Generator,
    who: str,
    ties: str = "breslow",
) -> tuple[Float32[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Risk sets to train on: each death with other patients at risk, as often as wanted, each time
    others.

    Args:
        x, times, died: features, times and deaths of a client's patients.
        size: patients of a sample; where fewer are at risk, the others are absent.
        draws: samples of each death.
        rng: draws the patients.
        who: the client, for messages.
        ties: of deaths at the same time: ``breslow`` or ``efron``.

    Raises:
        ConfigError: unknown ties.
        DataError: no death has another patient at risk, so that there is nothing to compare.
    """
    check_ties(ties)
    at_risk = others_at_risk(times, died)
    deaths = np.flatnonzero(at_risk.any(axis=1))
    if not len(deaths):
        raise DataError(
            f"{who}: of its {len(times)} patients none died while another was at risk, so a Cox "
            "loss has nothing to compare; leave this client out, or join it with another"
        )
    sets: list[list[int]] = []
    weights: list[Float[np.ndarray, "_"]] = []
    for death in deaths.tolist():
        for draw in range(draws):
            patients = [death, *_beside(at_risk[death], size - 1, rng)]
            sets.append(patients)
            weights.append(
                _efron_weights(times, died, patients, draw)
                if ties == "efron"
                else np.ones(len(patients))
            )
    return _samples(x=x, sets=sets, weights=weights, size=size, rng=rng)


def comparable_pairs(
    x: Float[np.ndarray, "n d"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    size: int,
    rng: np.random.Generator,
) -> tuple[Float32[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """All pairs of which it is known who died first, to be tested on: the accuracy is Harrell's
    C-index.

    Args:
        x, times, died: as for ``risk_sets``.
        size: of a sample; all patients but two are absent.
        rng: draws which of the two is first, so that equal risks are right in half of the pairs.
    """
    pairs = np.argwhere(followed_up(times, died)).tolist()
    return _samples(x=x, sets=pairs, weights=[np.ones(2)] * len(pairs), size=size, rng=rng)


def _beside(at_risk: Bool[np.ndarray, "n"], count: int, rng: np.random.Generator) -> list[int]:
    """Some of the patients at risk, or all where there are fewer."""
    others = np.flatnonzero(at_risk)
    return rng.choice(others, min(count, len(others)), replace=False).tolist()


def _efron_weights(
    times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"], patients: list[int], draw: int
) -> Float[np.ndarray, "_"]:
    """The weight of each patient of a risk set, the first of which died.

    Every draw of a death takes the next k, so that each of d deaths at a time has another one in
    every draw.
    """
    death = patients[0]
    tied = np.flatnonzero(died & (times == times[death]))
    k = (int(np.flatnonzero(tied == death)[0]) + draw) % len(tied)
    return np.where(np.isin(patients, tied), 1 - k / len(tied), 1.0)


def _samples(
    x: Float[np.ndarray, "n d"],
    sets: list[list[int]],
    weights: list[Float[np.ndarray, "_"]],
    size: int,
    rng: np.random.Generator,
) -> tuple[Float32[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Samples, and the position of the first patient of each set among those present.

    The last feature is a patient's weight, 1 but for deaths at the same time by Efron, and 0 for an
    absent patient.
    """
    samples = np.zeros((len(sets), size, x.shape[1] + 1), np.float32)
    y = np.zeros(len(sets), np.int64)
    for number, (patients, weight) in enumerate(zip(sets, weights, strict=True)):
        order = rng.permutation(len(patients))
        samples[number, : len(patients), :-1] = x[np.asarray(patients)[order]]
        samples[number, : len(patients), -1] = weight[order]
        y[number] = np.flatnonzero(order == 0)[0]
    return samples, y
