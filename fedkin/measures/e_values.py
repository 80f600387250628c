"""E-values: evidence against a hypothesis that may be looked at after every round.

An e-value is a nonnegative number whose mean is at most 1 if the hypothesis (the null) holds. The
product of e-values, each fair given the past, is a test martingale M: the probability that M ever
reaches 1/alpha is at most alpha (Ville's inequality). So a test may stop at any time, without a
plan of looks. Nothing here assumes that the numbers of different rounds are independent.

Sources: V. Vovk, R. Wang: E-values: Calibration, Combination and Applications. Annals of Statistics
2021. J. Shin, A. Ramdas, A. Rinaldo: E-detectors: A Nonparametric Framework for Sequential Change
Detection. 2022, arXiv 2203.03532. R. Wang, A. Ramdas: False Discovery Rate Control with E-values.
JRSS B 2022, arXiv 2009.02824. V. Vovk et al.: Retrain or Not Retrain: Conformal Test Martingales
for Change-Point Detection. 2021, arXiv 2102.10439.

Shapes: T rounds, N hypotheses (e.g. one for each client).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import FedkinError

_LOG_2 = np.log(2.0)


def bounded_bet(
    x: Float[np.ndarray, "..."], mean: Float[np.ndarray, "..."], bet: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """The e-value 1 + bet (x - mean) of the null that x, a number from 0 to 1, has at most this
    mean given the past.

    Args:
        x: observed numbers.
        mean: the largest mean under the null.
        bet: from 0 to below 1 / mean; it may depend on the past, never on ``x``.
    """
    return 1.0 + bet * (x - mean)


def martingale(e: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    """The product of all e-values up to each round. It tests one null over all rounds."""
    return np.cumprod(e)


def e_cusum(
    before: Float[np.ndarray, "..."], e: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """One step of the e-detector in the form of CUSUM: M_t = e_t max(1, M_{t-1}).

    It detects a change at an unknown round. An alarm at M >= c comes in the mean after at least c
    rounds if nothing has changed (Shin, Ramdas, Rinaldo).

    Args:
        before: M_{t-1}; 0 at the start.
        e: e-value of the round.
    """
    return e * np.maximum(1.0, before)


def e_shiryaev_roberts(
    before: Float[np.ndarray, "..."], e: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """One step of the e-detector in the form of Shiryaev and Roberts: M_t = e_t (1 + M_{t-1}).

    It is never below ``e_cusum``, and has the same bound on false alarms. Its mean after t rounds
    is at most t, so M / T is an e-value in every one of T rounds.

    Args:
        before: M_{t-1}; 0 at the start.
        e: e-value of the round.
    """
    return e * (1.0 + before)


def detector_path(
    e: Float[np.ndarray, "T N"], shiryaev_roberts: bool = False
) -> Float[np.ndarray, "T N"]:
    """The values of N e-detectors after each round.

    Args:
        e: e-values of each round.
        shiryaev_roberts: which form of the detector; the form of CUSUM by default.
    """
    step = e_shiryaev_roberts if shiryaev_roberts else e_cusum
    value = np.zeros(e.shape[1])
    path = []
    for of_round in e:
        value = step(value, of_round)
        path.append(value)
    return np.array(path)


def discordant_e_value(
    better: Int[np.ndarray, "..."], worse: Int[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """The e-value of the null that another model is better than the present one on at most half of
    the samples on which the two differ.

    It is a mixture over the share q in [1/2, 1]: 2^(m+1) B(b+1, c+1) P(Q > 1/2), Q ~ Beta(b+1,
    c+1), m = b + c. Its mean is exactly 1 at q = 1/2. E-values of disjoint fresh samples multiply;
    the same samples, looked at again, are one test.

    Args:
        better: number b of samples on which the other model alone is right (or has the lower loss).
        worse: number c of samples on which the present model alone is right.
    """
    from scipy.special import betainc, betaln

    b = np.asarray(better, np.float64)
    c = np.asarray(worse, np.float64)
    # P(Q > 1/2) of Beta(b+1, c+1) is the distribution function of Beta(c+1, b+1) at 1/2.
    upper = betainc(c + 1, b + 1, 0.5)
    with np.errstate(divide="ignore"):
        log = (b + c + 1) * _LOG_2 + betaln(b + 1, c + 1) + np.log(upper)
    return np.exp(log)


def larger_share_e_value(
    wrong: Int[np.ndarray, "..."],
    samples: Int[np.ndarray, "..."],
    largest: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "..."]:
    """The e-value of the null that fresh independent samples are wrong with a probability of at
    most ``largest``: the mean over four bets of the product of ``bounded_bet``.

    Args:
        wrong: number of wrong samples.
        samples: number of all samples.
        largest: above 0 and below 1.
    """
    products = []
    for share in BET_SHARES:
        bet = share / largest
        log = wrong * np.log(bounded_bet(np.ones_like(largest), largest, bet))
        log += (samples - wrong) * np.log(bounded_bet(np.zeros_like(largest), largest, bet))
        products.append(np.exp(log))
    return np.mean(products, axis=0)


def not_worse_e_value(
    better: Int[np.ndarray, "..."],
    worse: Int[np.ndarray, "..."],
    samples: Int[np.ndarray, "..."],
    margin: float,
) -> Float[np.ndarray, "..."]:
    """The e-value of the null that another model is worse by at least ``margin`` in accuracy. A
    large value shows that the other model may replace the present one.

    Each sample gives x = 1 (the other model alone is right), -1 (the present one alone) or 0. Under
    the null x has at most the mean -margin, so 1 + bet (x + margin) is an e-value. The result is
    the mean of the products for four bets.

    Args:
        better, worse: numbers of samples with x = 1 and x = -1.
        samples: number of all samples.
        margin: above 0 and below 1.
    """
    b = np.asarray(better, np.float64)
    c = np.asarray(worse, np.float64)
    ties = np.asarray(samples, np.float64) - b - c
    products = []
    for share in BET_SHARES:
        # The largest bet that keeps the factor of x = -1 above 0 is 1 / (1 - margin).
        bet = share / (1.0 - margin)
        log = b * np.log1p(bet * (1.0 + margin))
        log += ties * np.log1p(bet * margin)
        log += c * np.log1p(-bet * (1.0 - margin))
        products.append(np.exp(log))
    return np.mean(products, axis=0)


# Bets as shares of the largest possible one. Small bets find small changes, and large bets find
# large changes soon; their mean is an e-value again.
BET_SHARES = (0.1, 0.25, 0.5, 0.9)


def e_bh(e_values: Float[np.ndarray, "N"], alpha: float) -> Bool[np.ndarray, "N"]:
    """The nulls that are rejected with a false discovery rate of at most alpha, whatever the
    dependence between them: those of the k largest e-values with e_(k) >= N / (k alpha), for the
    largest such k (e-BH, Wang and Ramdas 2022).

    Args:
        e_values: one for each null; NaN counts as 0.
        alpha: the false discovery rate. If all nulls hold, it bounds the probability of any
            rejection.
    """
    e_values = np.nan_to_num(np.asarray(e_values, np.float64), nan=0.0, posinf=np.inf)
    total = len(e_values)
    rejected = np.zeros(total, bool)
    order = np.argsort(-e_values, kind="stable")
    ranks = np.arange(1, total + 1)
    passing = np.flatnonzero(e_values[order] >= total / (ranks * alpha))
    if len(passing):
        rejected[order[: passing[-1] + 1]] = True
    return rejected


def conformal_p_values(
    scores: Float[np.ndarray, "T"], ties: Float[np.ndarray, "T"]
) -> Float[np.ndarray, "T"]:
    """The rank of each score among all scores so far, as a p-value: the share of larger scores,
    where equal ones, the score itself included, count by a random part.

    If the scores are exchangeable, the p-values are independent and uniform.

    Args:
        scores: higher is stranger.
        ties: independent uniform numbers from 0 to 1.
    """
    larger = np.array([np.sum(scores[: t + 1] > score) for t, score in enumerate(scores)])
    equal = np.array([np.sum(scores[: t + 1] == score) for t, score in enumerate(scores)])
    return (larger + ties * equal) / np.arange(1, len(scores) + 1)


def simple_jumper(p_values: Float[np.ndarray, "T"], jump: float = 0.01) -> Float[np.ndarray, "T"]:
    """The test martingale of the simple jumper (Vovk et al.), which bets that the
    p-values stop being uniform.

    Args:
        p_values: conformal p-values.
        jump: J, the share of the capital that is divided among the three bets in each round.

    Raises:
        FedkinError: ``jump`` is not between 0 and 1.
    """
    if not 0 <= jump <= 1:
        raise FedkinError(f"jump must be from 0 to 1, got {jump!r}")
    slopes = np.array([-1.0, 0.0, 1.0])
    capital = np.full(3, 1 / 3)
    path = []
    for p in p_values:
        capital = (1 - jump) * capital + jump * capital.sum() / 3
        capital = capital * (1 + slopes * (p - 0.5))
        path.append(capital.sum())
    return np.array(path)
