"""Synthetic(alpha, beta): logistic models that differ from client to client (Li et al. 2020, FedProx)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.partition import split
from fedkin.data.partition_options import checked, legacy, positive

FEATURES, CLASSES = 60, 10


def generate(
    alpha: float | int, beta: float | int, clients: int, random: np.random.RandomState, iid: bool = False
) -> tuple[Float[np.ndarray, "M 60"], Int[np.ndarray, "M"], Int[np.ndarray, "N"]]:
    """Features, labels and client sizes; the samples of a client are consecutive.

    Draws in the order of the authors' generator, so a seed gives their numbers. As there, alpha and beta are standard
    deviations, although the literature calls them variances.
    """
    sizes = random.lognormal(4, 2, clients).astype(np.int64) + 50
    covariance = np.diag(np.arange(1.0, FEATURES + 1) ** -1.2)
    if iid:
        means = np.zeros((clients, FEATURES))
        shared = random.normal(0, 1, (FEATURES, CLASSES)), random.normal(0, 1, CLASSES)
    else:
        centre = random.normal(0, alpha, clients)  # of both a client's weights and its biases
        spread = random.normal(0, beta, clients)
        means = np.array([random.normal(spread[u], 1, FEATURES) for u in range(clients)])
    x, y = [], []
    for u in range(clients):
        W, b = (
            shared if iid else (random.normal(centre[u], 1, (FEATURES, CLASSES)), random.normal(centre[u], 1, CLASSES))
        )
        x.append(random.multivariate_normal(means[u], covariance, sizes[u]))
        y.append(np.argmax(x[u] @ W + b, axis=1))
    return np.concatenate(x), np.concatenate(y), sizes


@checked
def synthetic(
    *,
    alpha: float | int | None = None,
    beta: float | int | None = None,
    clients: int = 30,
    iid: bool = False,
    train_fraction: float | int = 0.9,
    seed: int = 0,
) -> FederatedData:
    """Synthetic(alpha, beta): 60 features, 10 classes, lognormal(4, 2) + 50 samples per client, no files needed.

    ``beta`` says how much the clients' features differ, ``alpha`` how much their models are meant to (standard
    deviations, 1 by default). But the published generator moves all the weights of a client by one number, and with
    them the scores of all classes alike: no label changes, and one seed gives the same data with every alpha. ``iid``
    gives every client the same model and features instead, so that alpha and beta mean nothing to it and are refused.
    FedProx and FedSim use 30 clients, FedGroup 100. Raises ConfigError for impossible options.
    """
    positive("clients", clients)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if value is not None and iid:
            raise ConfigError(f"{name} = {value} means nothing to synthetic with iid = true; leave one of them out")
        if value is not None and not (np.isfinite(value) and value >= 0):
            raise ConfigError(f"{name} must be zero or a positive number, got {value}")
    alpha, beta = (1.0 if value is None else value for value in (alpha, beta))
    x, y, sizes = generate(alpha, beta, clients, legacy(seed), iid)
    owned = Ragged.of(np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]))
    train, test = split(owned, Stream(seed, purpose="data/synthetic/split"), train_fraction)
    name = "synthetic(iid)" if iid else f"synthetic({alpha:g}, {beta:g})"
    return FederatedData(name, x.astype(np.float32), y, CLASSES, train, test)
