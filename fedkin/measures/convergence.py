"""Measures of ATHENA-FL's Table 1: epochs until convergence, and transmitted bytes. Shapes: T
epochs, D detectors, n values."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import MethodError

DETECTOR_AS_CODED = 2  # the authors' file "mean_model2": the third of ten detectors

_MIB = 2**20


def convergence_epoch(accuracy: Float[np.ndarray, "*D T"], tolerance: float = 0.001) -> int | None:
    """The epoch of convergence: the first epoch with nearly the same accuracy as the epoch before.

    Epochs are counted from 1, so the result is at least 2, or None. The criterion is prev (1 -
    tolerance) < accuracy < prev (1 + tolerance), with prev the accuracy of the previous epoch. This
    may be long before the best epoch. While accuracies are 0, the criterion never holds, because
    the bounds are then 0 too. For several detectors, the criterion is applied to their mean
    accuracy. The authors average differently: ``mean_convergence_epoch``.
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
    """E[e] of ATHENA-FL: the mean over detectors of the epoch of convergence; None if no detector
    converges.

    Detectors that do not converge are left out, as in the authors' script. This biases the mean
    downwards.

    Args:
        accuracy: accuracy of each detector after each epoch.
        tolerance: see ``convergence_epoch``.
        as_coded: whether to reproduce a bug of the authors' script. It reads the same detector
            (number 2, counted from 0) ten times, so the published means are the epoch of this
            detector.

    Raises:
        MethodError: ``as_coded`` is True and there are fewer than three detectors.
    """
    if as_coded and len(accuracy) <= DETECTOR_AS_CODED:
        raise MethodError(
            "as_coded uses the third detector, so it needs at least 3 detectors, got "
            f"{len(accuracy)}"
        )
    curves = accuracy[DETECTOR_AS_CODED, None] if as_coded else accuracy
    epochs = [convergence_epoch(curve, tolerance) for curve in curves]
    converged = [epoch for epoch in epochs if epoch is not None]
    return float(np.mean(converged)) if converged else None


def transmitted_mib(epochs: float | int, models: int, bytes_each: int) -> float:
    """TDT (total data transmitted) of ATHENA-FL: what one client sends in one direction, in MiB.

    The paper writes MB for 2^20 bytes.

    Args:
        epochs: number of epochs until convergence.
        models: number of models that are sent in each epoch.
        bytes_each: bytes of one model.
    """
    return epochs * models * bytes_each / _MIB


def economy(athena: float | int, fedavg: float | int) -> float:
    """Share of FedAvg's bytes that ATHENA-FL saves, 1 - athena / fedavg. It is negative if
    ATHENA-FL sends more.

    Raises:
        MethodError: the bytes of FedAvg are not above 0.
    """
    if not fedavg > 0:
        raise MethodError(
            f"economy is a share of FedAvg's bytes, which must be above 0; got {fedavg}"
        )
    return 1 - athena / fedavg


def confidence_interval(values: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """Mean and half width of the normal 95 % interval that ATHENA-FL reports: 1.96 s / sqrt(n).

    s is the standard deviation with n - 1 (as in MATLAB). The half width for one value is NaN. For
    few values the interval is too narrow: for n = 10, Student's t has 2.26 instead of 1.96.

    Raises:
        MethodError: there are no values.
    """
    if not len(values):
        raise MethodError("an interval needs at least 1 value, got 0")
    deviation = values.std(ddof=1, dtype=np.float64) if len(values) > 1 else math.nan
    return float(values.mean(dtype=np.float64)), float(1.96 * deviation / math.sqrt(len(values)))
