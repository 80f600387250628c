"""Survival data as samples: risk sets, of which a Cox model says who dies first.

The partial likelihood of Cox (1972) is a product over deaths, of the softmax of the risks of those who were at risk at
that time. So a death with patients at risk beside it is one sample, whose label is the position of the patient
who died: the cross entropy of a sample is its term of the Cox loss, and no sample is without an event. A draw of the
patients at risk is enough (nested case-control sampling: Thomas 1977; Goldstein & Langholz 1992). Where a sample has
two patients, whether the one who died first has the higher risk is one comparable pair of Harrell's C-index, so the
accuracy over all pairs is the C-index.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from fedkin.core.errors import DataError


def followed_up(times: Float[np.ndarray, "n"], died: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n n"]:
    """Whether patient j was at risk when patient i died: seen alive later than that, or censored at that time.

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
) -> tuple[Float32[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Risk sets to train on: each death with patients at risk beside it, as often as wanted, each time others.

    Args:
        x, times, died: features, times and deaths of a client's patients.
        size: patients of a sample; where fewer are at risk, the others are absent.
        draws: samples of each death.
        rng: draws the patients.
        who: the client, for messages.

    Raises:
        DataError: no death has a patient at risk beside it, so that there is nothing to compare.
    """
    at_risk = followed_up(times, died)
    deaths = np.flatnonzero(at_risk.any(axis=1))
    if not len(deaths):
        raise DataError(
            f"{who}: of its {len(times)} patients none died while another was at risk, so a Cox loss has nothing to "
            "compare; leave this client out, or join it with another"
        )
    sets = [[i, *_beside(at_risk[i], size - 1, rng)] for i in np.repeat(deaths, draws).tolist()]
    return _samples(x, sets, size, rng)


def comparable_pairs(
    x: Float[np.ndarray, "n d"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    size: int,
    rng: np.random.Generator,
) -> tuple[Float32[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """All pairs of which it is known who died first, to be tested on: the accuracy is Harrell's C-index.

    Args:
        x, times, died: as for ``risk_sets``.
        size: of a sample; all patients but two are absent.
        rng: draws which of the two is first, so that equal risks are right in half of the pairs.
    """
    return _samples(x, np.argwhere(followed_up(times, died)).tolist(), size, rng)


def _beside(at_risk: Bool[np.ndarray, "n"], count: int, rng: np.random.Generator) -> list[int]:
    """Some of the patients at risk, or all where there are fewer."""
    others = np.flatnonzero(at_risk)
    return rng.choice(others, min(count, len(others)), replace=False).tolist()


def _samples(
    x: Float[np.ndarray, "n d"], sets: list[list[int]], size: int, rng: np.random.Generator
) -> tuple[Float32[np.ndarray, "s size d+1"], Int[np.ndarray, "s"]]:
    """Samples and the position of the first patient of each set among those present; the last feature is 1 for a
    patient, and 0 for an absent one."""
    samples, y = np.zeros((len(sets), size, x.shape[1] + 1), np.float32), np.zeros(len(sets), np.int64)
    for number, patients in enumerate(sets):
        order = rng.permutation(len(patients))
        samples[number, : len(patients), :-1] = x[np.asarray(patients)[order]]
        samples[number, : len(patients), -1] = 1
        y[number] = np.flatnonzero(order == 0)[0]
    return samples, y
