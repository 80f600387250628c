"""Synthetic(alpha, beta): logistic models that differ from client to client (Li et al. 2020,
FedProx)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.about import AboutData, named
from fedkin.data.array_targets import sample_arrays
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.partition import split_train_test
from fedkin.data.partition_options import checked, legacy_random, positive

FEATURES = 60
CLASSES = 10


class SyntheticSamples(NamedTuple):
    """Generated samples of all clients, stored client by client."""

    x: Float32[np.ndarray, "M 60"]
    y: Int[np.ndarray, "M"]
    sizes: Int[np.ndarray, "N"]


def generate(
    alpha: float | int,
    beta: float | int,
    clients: int,
    random: np.random.RandomState,
    iid: bool = False,
    samples: int | None = None,
) -> SyntheticSamples:
    """Draw all random numbers in the order of the authors' generator, so that a seed gives their
    data.

    Args:
        alpha: standard deviation between clients' models (the literature calls it a variance).
        beta: standard deviation between clients' features.
        clients: number of clients N.
        random: legacy random generator.
        iid: whether all clients have one model and one distribution of features.
        samples: number of samples per client; None for lognormal(4, 2) + 50.

    Returns:
        The samples, and the number of samples of each client.

    Raises:
        ConfigError: the machine has too little memory for the samples.
    """
    if samples is None:
        sizes = random.lognormal(4, 2, clients).astype(np.int64) + 50
    else:
        sizes = np.full(clients, samples)
    deviations = np.sqrt(np.arange(1.0, FEATURES + 1) ** -1.2)

    # With iid, all clients have one model with weights W and biases b; otherwise each has its own.
    W = np.zeros((FEATURES, CLASSES))
    b = np.zeros(CLASSES)
    centre = np.zeros(clients)
    if iid:
        means = np.zeros((clients, FEATURES))
        W = random.normal(0, 1, (FEATURES, CLASSES))
        b = random.normal(0, 1, CLASSES)
    else:
        # Mean of each client's weights, and of its biases.
        centre = random.normal(0, alpha, clients)
        spread = random.normal(0, beta, clients)
        means = random.normal(spread[:, None], 1, (clients, FEATURES))

    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x, y = sample_arrays("synthetic", int(offsets[-1]), (FEATURES,))
    for u in range(clients):
        if not iid:
            W = random.normal(centre[u], 1, (FEATURES, CLASSES))
            b = random.normal(centre[u], 1, CLASSES)
        drawn = random.standard_normal((sizes[u], FEATURES)) * deviations + means[u]
        rows = slice(offsets[u], offsets[u + 1])
        x[rows] = drawn
        # Labels are computed from the features in double precision.
        y[rows] = np.argmax(drawn @ W + b, axis=1)
    return SyntheticSamples(x, y, sizes)


@named(
    AboutData(
        clients=30,
        samples="any",
        content="logistic models that differ by client, Synthetic(alpha, beta)",
    )
)
@checked
def synthetic(
    *,
    alpha: float | int | None = None,
    beta: float | int | None = None,
    clients: int = 30,
    samples: int | None = None,
    iid: bool = False,
    train_fraction: float | int = 0.9,
    seed: int = 0,
) -> FederatedData:
    """Synthetic(alpha, beta): 60 features, 10 classes, lognormal(4, 2) + 50 samples per client.

    It needs no files.

    FedProx and FedSim use 30 clients, FedGroup 100. In the published generator, alpha only shifts
    all weights of a client by the same number, which shifts the scores of all classes equally. So
    no label changes, and a seed gives the same data for every alpha.

    Args:
        alpha: intended standard deviation between clients' models; None for 1.
        beta: standard deviation between clients' features; None for 1.
        clients: number of clients N.
        samples: number of samples per client; None for the published lognormal(4, 2) + 50. With a
            number, the first samples of a client are for training, without a shuffle, since samples
            are independent.
        iid: whether all clients have one model and one distribution of features; then alpha and
            beta are refused.
        train_fraction: each client's share of training samples.
        seed: seed of samples and split.

    Raises:
        ConfigError: options are invalid, or the machine has too little memory for the samples.
    """
    positive("clients", clients)
    if samples is not None:
        positive("samples", samples)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if value is not None and iid:
            raise ConfigError(
                f"{name} = {value} does not apply to synthetic with iid = true; leave one of them "
                "out"
            )
        if value is not None and not (np.isfinite(value) and value >= 0):
            raise ConfigError(f"{name} must be zero or a positive number, got {value}")
    alpha = 1.0 if alpha is None else alpha
    beta = 1.0 if beta is None else beta
    x, y, sizes = generate(
        alpha=alpha,
        beta=beta,
        clients=clients,
        random=legacy_random(seed),
        iid=iid,
        samples=samples,
    )
    stream = None if samples else Stream(seed, purpose="data/synthetic/split")
    train, test = split_train_test(Ragged.consecutive(sizes), stream, train_fraction)
    name = "synthetic(iid)" if iid else f"synthetic({alpha:g}, {beta:g})"
    return FederatedData(name=name, x=x, y=y, classes=CLASSES, train=train, test=test)
