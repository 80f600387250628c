"""Noise in the data of a simulation: wrong labels, and features with Gaussian noise.

Noise is in the training samples, and in the validation samples, which are split off the training
samples. Test samples, true clusters and the numbers of samples do not change.

* Features: Q. Li, Y. Diao, Q. Chen, B. He: Federated Learning on Non-IID Data Silos: An
  Experimental Study (NIID-Bench). ICDE 2022, arXiv 2102.02079.
* Pair flips: B. Han et al.: Co-teaching: Robust Training of Deep Neural Networks with Extremely
  Noisy Labels. NeurIPS 2018, arXiv 1804.06872.

Shapes: N clients, M samples.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.scenarios.own_rows import parts_of, with_own_rows
from fedkin.scenarios.validation import refuse_other_labels

_NOISY = ("train", "validation")  # splits with noise


def flip_labels(
    data: FederatedData, rates: Float[np.ndarray, "N"], stream: Stream, pairs: bool = False
) -> FederatedData:
    """The data in which labels of samples are wrong.

    Each sample of client i gets another label with probability ``rates[i]``, independently of all
    others. A label is never flipped to itself.

    Args:
        data: data of the federation.
        rates: probability of a wrong label, for each client.
        stream: draws the flips. Each client and split has a separate stream.
        pairs: whether class c becomes class c + 1 (and the last class becomes class 0). Otherwise
            each of the other classes is equally probable.

    Raises:
        ConfigError: labels are no classes.
        DataError: the data have only one class.
    """
    refuse_other_labels(data, "label noise")
    if data.classes < 2:
        raise DataError(f"{data.name}: labels cannot be wrong, since there is only one class")
    data = _with_single_owners(data)
    labels = data.y.copy()
    for split in _noisy_splits(data):
        part = data.part(split)
        for client in np.flatnonzero(rates > 0).tolist():
            rows = part[client]
            rng = stream.child(split).client(client)
            is_wrong = rng.random(len(rows)) < rates[client]
            # Adding 1 .. classes - 1 always gives another label.
            steps = np.ones(len(rows), np.int64)
            if not pairs:
                steps = rng.integers(1, data.classes, len(rows))
            wrong = (labels[rows].astype(np.int64) + steps) % data.classes
            labels[rows[is_wrong]] = wrong[is_wrong]
    return _with_samples(data, y=labels)


def add_gaussian(
    data: FederatedData, deviations: Float[np.ndarray, "N"], stream: Stream
) -> FederatedData:
    """The data in which Gaussian noise with mean 0 is added to every feature.

    Args:
        data: data of the federation.
        deviations: standard deviation of the noise, for each client.
        stream: draws the noise. Each client and split has a separate stream.

    Raises:
        DataError: the features are not real numbers, such as words of a text.
    """
    if data.x.dtype.kind != "f":
        raise DataError(
            f"{data.name}: noise can only be added to features that are real numbers, got "
            f"{data.x.dtype}; use label_noise.name=symmetric for noise in the labels"
        )
    data = _with_single_owners(data)
    x = np.array(data.x)
    for split in _noisy_splits(data):
        part = data.part(split)
        for client in np.flatnonzero(deviations > 0).tolist():
            rows = part[client]
            noise = stream.child(split).client(client).standard_normal((len(rows), *x.shape[1:]))
            x[rows] += (deviations[client] * noise).astype(x.dtype)
    return _with_samples(data, x=x)


def growing(level: float, clients: int) -> Float[np.ndarray, "N"]:
    """The levels of all clients if noise grows with a client's number: level * i / N for client
    i = 1 .. N."""
    return level * np.arange(1, clients + 1) / clients


def _noisy_splits(data: FederatedData) -> list[str]:
    """The splits of the data that get noise."""
    return [split for split in _NOISY if split in data.splits]


def _with_single_owners(data: FederatedData) -> FederatedData:
    """The data with separate copies of samples that have several owners or uses, so that noise of
    one client changes no other client's samples, and no test sample."""
    owned = np.concatenate([part.rows for part in parts_of(data).values()])
    return data if len(np.unique(owned)) == len(owned) else with_own_rows(data)


def _with_samples(
    data: FederatedData, x: np.ndarray | None = None, y: Int[np.ndarray, "M"] | None = None
) -> FederatedData:
    """The data with other samples or labels, and the same owners."""
    return data.with_rows(data.train, data.test, x=x, y=y)
