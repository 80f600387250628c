"""FedSim's similarity of clients' data by the Kolmogorov-Smirnov statistic, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData
from fedkin.measures.kolmogorov_smirnov import ks_statistics


def ks_similarity(
    data: FederatedData, clients: Sequence[int] | None = None
) -> Float64[np.ndarray, "n n"]:
    """Similarity of the training samples of all pairs of clients (Palihawadana et al. 2022, Fig.
    1).

    It is 1 minus the mean over the features of the two-sample Kolmogorov-Smirnov statistic: 1 for
    clients whose features are distributed alike, 0 for clients whose features do not overlap. The
    paper names the statistic, but not the values that it compares. The labels are not used.

    Every pair needs the samples of both clients in one place, so this describes simulated data. No
    method may use it.

    Args:
        data: the clients' data, with numbers as features.
        clients: clients to compare; default: all. The time grows with the square of their number.

    Raises:
        DataError: the samples are texts, or there is no such client.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> fk.ks_similarity(data).shape
        (6, 6)
    """
    chosen = range(data.clients) if clients is None else clients
    if data.vocabulary is not None:
        raise DataError(f"{data.name}: similarity needs features that are numbers, got texts")
    for client in chosen:
        if not 0 <= client < data.clients:
            raise DataError(
                f"{data.name}: there is no client {client}; clients are 0 to {data.clients - 1}"
            )
    samples = [data.x[data.train[client]] for client in chosen]
    flat = [of_client.reshape(len(of_client), -1) for of_client in samples]
    similarity = np.eye(len(flat))
    for i in range(len(flat)):
        for j in range(i):
            similarity[i, j] = 1 - ks_statistics(flat[i], flat[j]).mean()
            similarity[j, i] = similarity[i, j]
    return similarity
