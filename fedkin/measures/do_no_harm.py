"""Which model serves each client, so that few clients are worse off than with their own model.

Each client measures, on held-out samples, the gain of every alternative over its own model: the
mean of (own loss - other loss) and its variance. These two numbers leave the client. Recommended
alternatives are half-and-half mixtures of the own model with the cluster's and with the global one:
for a convex loss, a client that a mixture harms is harmed by every mixture in which its own model
has a smaller weight.

The rule: the federation's gate is the mean gain of the best alternative, relative to the own
models' loss. If it is 10% or more, all clients get this alternative, except those whose own gain is
negative (veto). If it is less, a client gets an alternative only if its own paired t-test says that
it is better. The rule and its 10% are ours, read off eleven natural and synthetic federations.

Empirical Bayes: R. DerSimonian, N. Laird: Meta-Analysis in Clinical Trials. Controlled Clinical
Trials 7, 1986.

Shapes: N clients, A alternatives, M held-out samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Real

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_fraction, check_positive_integer
from fedkin.measures.corrected_interval import corrected_interval

OWN = 0  # in ``Service.model``: the client keeps its own model
GATE = 0.1
LEVEL = 0.05
LEAST_SAMPLES = 8


class HeldOutGains(NamedTuple):
    """Gains of alternatives over each client's own model, on its held-out samples.

    Attributes:
        mean: mean of own loss - other loss [N A]; NaN without samples.
        variance: variance of these differences, divided by the count minus 1 [N A]; NaN with fewer
            than two samples. With units, a variance of units: divided by their number, it is the
            squared error of the mean.
        samples: number of held-out samples [N], or of their units.
        own_loss: mean loss of the client's own model [N].
    """

    mean: Float64[np.ndarray, "N A"]
    variance: Float64[np.ndarray, "N A"]
    samples: Int[np.ndarray, "N"]
    own_loss: Float64[np.ndarray, "N"]


class Service(NamedTuple):
    """What each client is served by, and how it was decided.

    Attributes:
        model: 0 for the client's own model, 1 .. A for an alternative [N].
        gate: whether the federation's gate is open.
        gain: mean gain of the best alternative, relative to the own models' loss.
        low: lower end of the 95% interval of this gain, over clients; NaN with one client.
        high: upper end.
        best: the best alternative, 1 .. A.
        vetoed: clients that keep their own model although the gate is open [N].
        worse: clients whose own paired t-test says that the best alternative is worse than their
            own model [N]. Clients with few held-out samples have no test. If it is equal for all
            others, these are about 5% of them by chance.
    """

    model: Int[np.ndarray, "N"]
    gate: bool
    gain: float
    low: float
    high: float
    best: int
    vetoed: Bool[np.ndarray, "N"]
    worse: Bool[np.ndarray, "N"]


class EmpiricalBayes(NamedTuple):
    """Gains of clients, shrunk to their common mean.

    Attributes:
        mu: the common mean.
        tau2: variance of the true gains between clients; at least 0.
        variance_of_mu: squared standard error of the common mean.
        mean: shrunk gain of each client [N].
        variance: its variance, with the common mean given [N].
        switch: whether the gain is above 0 with a one-sided probability of 95% [N].
    """

    mu: float
    tau2: float
    variance_of_mu: float
    mean: Float64[np.ndarray, "N"]
    variance: Float64[np.ndarray, "N"]
    switch: Bool[np.ndarray, "N"]


def held_out_gains(
    own: Real[np.ndarray, "M"],
    others: Real[np.ndarray, "A M"],
    client: Int[np.ndarray, "M"],
    clients: int,
    cap: float = np.inf,
    unit: Int[np.ndarray, "M"] | None = None,
) -> HeldOutGains:
    """The gains of all clients from their losses on single held-out samples.

    Args:
        own: loss of each sample under the client's own model.
        others: loss of each sample under each alternative.
        client: position of the sample's client.
        clients: number of clients N.
        cap: larger losses count as this one, so that no sample decides alone. For squared errors,
            9 times the variance of the label cuts residuals at 3 standard deviations.
        unit: unit of each sample, such as its patient. Samples of a unit are alike, so sums over
            units give the variance, and units are counted. None if each sample is a unit.
    """
    own = np.minimum(np.asarray(own, np.float64), cap)
    count = np.bincount(client, minlength=clients)
    own_loss = _means(own, client, count)
    mean = np.empty((clients, len(others)))
    variance = np.empty((clients, len(others)))
    groups = None if unit is None else _units_of_clients(client, unit, clients)
    for number, other in enumerate(others):
        gain = own - np.minimum(np.asarray(other, np.float64), cap)
        mean[:, number] = _means(gain, client, count)
        if groups is not None:
            centred = gain - mean[client, number]
            variance[:, number] = _variance_of_units(centred, groups, count)
            continue
        squares = np.bincount(client, weights=(gain - mean[client, number]) ** 2, minlength=clients)
        variance[:, number] = np.divide(
            squares, count - 1, out=np.full(clients, np.nan), where=count > 1
        )
    samples = count if groups is None else groups.count
    return HeldOutGains(mean, variance, samples, own_loss)


class _Units(NamedTuple):
    """The units of all clients: U of them."""

    of_sample: Int[np.ndarray, "M"]
    client: Int[np.ndarray, "U"]
    count: Int[np.ndarray, "N"]


def _units_of_clients(
    client: Int[np.ndarray, "M"], unit: Int[np.ndarray, "M"], clients: int
) -> _Units:
    """The units of all clients. Equal units of two clients are two units."""
    pairs = np.stack([client, unit], axis=1)
    found, of_sample = np.unique(pairs, axis=0, return_inverse=True)
    owner = found[:, 0]
    return _Units(of_sample.reshape(-1), owner, np.bincount(owner, minlength=clients))


def _variance_of_units(
    centred: Float64[np.ndarray, "M"], units: _Units, samples: Int[np.ndarray, "N"]
) -> Float64[np.ndarray, "N"]:
    """The variance of clustered samples: divided by the number of units, it is the squared standard
    error of the mean over samples, u / (u - 1) times the sum of squared sums of units / n^2.

    Args:
        centred: values minus their client's mean.
        units: the units.
        samples: number of samples n of each client.
    """
    sums = np.bincount(units.of_sample, weights=centred, minlength=len(units.client))
    squares = np.bincount(units.client, weights=sums**2, minlength=len(samples))
    factor = np.divide(
        units.count.astype(np.float64) ** 2,
        units.count - 1,
        out=np.full(len(samples), np.nan),
        where=units.count > 1,
    )
    return factor * squares / np.maximum(samples, 1).astype(np.float64) ** 2


def choose_models(
    gains: HeldOutGains,
    *,
    gate: float = GATE,
    level: float = LEVEL,
    least_samples: int = LEAST_SAMPLES,
) -> Service:
    """Decide which model serves each client, by gate, veto and paired t-test.

    Clients count alike in the gate. A client with few held-out samples, or without a finite gain,
    has no decision: it gets the best alternative if the gate is open, and its own model otherwise.

    Args:
        gains: the clients' gains. The alternatives should be mixtures of the own model with others.
        gate: smallest relative gain with which all clients get the best alternative.
        level: one-sided level of the paired t-test, divided by the number of alternatives.
        least_samples: smallest number of held-out samples with which a client decides.

    Raises:
        MethodError: there is no alternative, no client has a gain, or an option is out of range.

    Examples:
        >>> import numpy as np
        >>> from fedkin.measures.do_no_harm import choose_models, held_out_gains
        >>> client = np.repeat([0, 1, 2], 10)
        >>> own = np.full(30, 2.0)
        >>> other = np.repeat([1.0, 1.5, 2.2], 10)
        >>> choose_models(held_out_gains(own, other[None], client, clients=3)).model
        array([1, 1, 0])
    """
    check_fraction("gate", gate)
    check_fraction("level", level)
    check_positive_integer("least_samples", least_samples)
    if not gains.mean.shape[1]:
        raise MethodError("there must be at least one alternative to the own models, got none")
    measured = np.isfinite(gains.mean).all(axis=1) & (gains.samples > 0)
    if not measured.any():
        raise MethodError("no client has a finite gain on held-out samples")
    own_loss = float(gains.own_loss[measured].mean())
    if not own_loss > 0:
        raise MethodError(
            f"gains are relative to the own models' mean loss, which must be above 0, got "
            f"{own_loss:g}; use a loss that is never negative, such as the deviance of counts"
        )
    relative = gains.mean[measured] / own_loss
    best = int(relative.mean(axis=0).argmax())
    gain, low, high = corrected_interval(relative[:, best].tolist(), test_ratio=0.0)[:3]

    is_open = gain >= gate
    decides = measured & (gains.samples >= least_samples)
    negative = decides & (gains.mean[:, best] < 0)
    if is_open:
        model = np.where(negative, OWN, best + 1)
    else:
        model = _by_paired_t(gains, decides, level)
    return Service(
        model=model,
        gate=is_open,
        gain=gain,
        low=low,
        high=high,
        best=best + 1,
        vetoed=negative & is_open,
        worse=decides
        & paired_t_better(-gains.mean[:, best], gains.variance[:, best], gains.samples, level),
    )


def paired_t_better(
    mean: Float64[np.ndarray, "..."],
    variance: Float64[np.ndarray, "..."],
    samples: Int[np.ndarray, "..."],
    level: float = LEVEL,
) -> Bool[np.ndarray, "..."]:
    """Whether a one-sided paired t-test says that a mean gain is above 0.

    If all differences are equal, any gain above 0 is. With fewer than two samples none is.

    Args:
        mean: mean gains.
        variance: variances of the gains of single samples.
        samples: numbers of samples.
        level: largest probability of a wrong yes.
    """
    # Imported here, because it is slow to import and few users of the module need it.
    from scipy import stats

    enough = (samples > 1) & np.isfinite(mean) & np.isfinite(variance)
    error = np.sqrt(np.where(enough, variance, 0.0) / np.maximum(samples, 1))
    least = stats.t.ppf(1 - level, np.maximum(samples - 1, 1)) * error
    return enough & (np.where(enough, mean, 0.0) > least)


def empirical_bayes(
    gain: Float64[np.ndarray, "N"], squared_error: Float64[np.ndarray, "N"]
) -> EmpiricalBayes:
    """Shrink the gains of clients to their common mean, by the variance between clients of
    DerSimonian and Laird.

    It is good where clients are of few kinds. Where the variance between clients is estimated as 0,
    it serves all clients alike, and harms more of them than ``choose_models``.

    Args:
        gain: d, the mean gain of each client.
        squared_error: s^2, the squared standard error of each gain, above 0.

    Raises:
        MethodError: there are no clients, or a squared error is not above 0.
    """
    if not len(gain) or not (squared_error > 0).all():
        raise MethodError(
            "empirical_bayes needs at least one client, and squared errors above 0; leave out "
            "clients without two different gains"
        )
    weight = 1 / squared_error
    fixed = (weight * gain).sum() / weight.sum()
    spread = (weight * (gain - fixed) ** 2).sum()
    scale = weight.sum() - (weight**2).sum() / weight.sum()
    excess = spread - (len(gain) - 1)
    tau2 = max(float(excess / scale), 0.0) if scale > 0 else 0.0

    total = tau2 + squared_error
    variance_of_mu = 1 / (1 / total).sum()
    mu = (gain / total).sum() * variance_of_mu
    shrinkage = squared_error / total
    mean = gain * (1 - shrinkage) + mu * shrinkage
    variance = tau2 * shrinkage
    one_sided = 1.645
    return EmpiricalBayes(
        mu=float(mu),
        tau2=tau2,
        variance_of_mu=float(variance_of_mu),
        mean=mean,
        variance=variance,
        switch=mean > one_sided * np.sqrt(variance + variance_of_mu * shrinkage**2),
    )


def _by_paired_t(
    gains: HeldOutGains, decides: Bool[np.ndarray, "N"], level: float
) -> Int[np.ndarray, "N"]:
    """The alternative with the highest gain among those that are better than the client's own model
    by its paired t-test; the own model if there is none."""
    alternatives = gains.mean.shape[1]
    samples = np.repeat(gains.samples[:, None], alternatives, axis=1)
    better = paired_t_better(gains.mean, gains.variance, samples, level / alternatives)
    better &= decides[:, None]
    highest = np.where(better, gains.mean, -np.inf).argmax(axis=1)
    return np.where(better.any(axis=1), highest + 1, OWN)


def _means(
    values: Float64[np.ndarray, "M"], client: Int[np.ndarray, "M"], count: Int[np.ndarray, "N"]
) -> Float64[np.ndarray, "N"]:
    """Mean of each client's values; NaN without any."""
    total = np.bincount(client, weights=values, minlength=len(count))
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
