"""Epochs until convergence and bytes sent, as in ATHENA-FL's Table 1. Shapes: T epochs, D
detectors, n values."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import MethodError

DETECTOR_AS_CODED = 2  # the authors' file "mean_model2": the third of ten, counted from 0

_MIB = 2**20


def convergence_epoch(accuracy: Float[np.ndarray, "*D T"], tolerance: float = 0.001) -> int | None:
    """The first epoch e >= 2 (from 1) with an accuracy within ``tolerance`` of the previous one;
    else None.

    The criterion is prev (1 - tolerance) < accuracy < prev (1 + tolerance), with prev the accuracy
    of the previous epoch. It holds at the first two epochs of similar accuracy, possibly long
    before the best epoch, and never if both are 0. For several detectors, it is applied to their
    mean accuracy. The authors average differently: ``mean_convergence_epoch``.
    """
    if not len(accuracy):
        return None
    detectors = tuple(range(accuracy.ndim - 1))
    curve = accuracy.mean(axis=detectors, dtype=np.float64)
    before = curve[:-1]
    after = curve[1:]
    converged = (before * (1 - tolerance) < after) & (after < before * (1 + tolerance))
    return int(converged.argmax()) + 2 if converged.any() else None


def mean_convergence_epoch(
    accuracy: Float[np.ndarray, "D T"], tolerance: float = 0.001, as_coded: bool = False
) -> float | None:
    """E[e] of ATHENA-FL: the mean over detectors of the epochs at which each converges; None if
    none does.

    Detectors that do not converge are left out, as in the authors' script. This biases the mean
    downwards.

    Args:
        accuracy: of each detector after each epoch.
        tolerance: see ``convergence_epoch``.
        as_coded: reproduce a bug of that script, which reads the same detector (number 2, counted
            from 0) ten times, so that the published means are the epoch of this detector.

    Raises:
        MethodError: ``as_coded`` with fewer than three detectors.
    """
    if as_coded and len(accuracy) <= DETECTOR_AS_CODED:
        raise MethodError(
            f"as coded, the third detector counts: expected at least 3, got {len(accuracy)}"
        )
    curves = accuracy[DETECTOR_AS_CODED, None] if as_coded else accuracy
    epochs = [convergence_epoch(curve, tolerance) for curve in curves]
    converged = [epoch for epoch in epochs if epoch is not None]
    return float(np.mean(converged)) if converged else None


def transmitted_mib(epochs: float | int, models: int, bytes_each: int) -> float:
    """TDT of ATHENA-FL in MiB (the paper writes MB for 2^20 bytes), in one direction for one
    client.

    Args:
        epochs: until convergence.
        models: sent in each epoch.
        bytes_each: of one model.
    """
    return epochs * models * bytes_each / _MIB


def economy(athena: float | int, fedavg: float | int) -> float:
    """Share of FedAvg's bytes that ATHENA-FL saves: 1 - athena / fedavg; negative if it sends more.

    Raises:
        MethodError: FedAvg sent nothing.
    """
    if not fedavg > 0:
        raise MethodError(
            f"economy is a share of what FedAvg sends, which must be above 0; got {fedavg}"
        )
    return 1 - athena / fedavg


def confidence_interval(values: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """(mean, half width) of the normal 95 % interval that ATHENA-FL prints, 1.96 s / sqrt(n).

    s is the standard deviation with n - 1 (as in MATLAB). The half width of one value is NaN. For
    few values the interval is too narrow: Student's t at n = 10 has 2.26 instead of 1.96.

    Raises:
        MethodError: no value.
    """
    if not len(values):
        raise MethodError("an interval needs at least 1 value, got 0")
    deviation = values.std(ddof=1, dtype=np.float64) if len(values) > 1 else math.nan
    return float(values.mean(dtype=np.float64)), float(1.96 * deviation / math.sqrt(len(values)))
