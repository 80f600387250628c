"""FedEM's synthetic federation: samples from K logistic models, which clients mix in different
shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from fedkin.core.errors import ConfigError
from fedkin.data.about import AboutData, named
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.machine_memory import check_memory
from fedkin.data.partition_options import checked, legacy_random, positive

# Largest number of training samples of a client.
_LARGEST = 1000


class MixtureSamples(NamedTuple):
    """Samples of all clients, stored client by client, training samples before test samples.

    Attributes:
        x: features.
        y: labels.
        component: index of the model of each sample.
        sizes: number of training samples of each client.
        shares: pi, the share of each model in each client.
        models: theta, the models.
    """

    x: Float32[np.ndarray, "M d"]
    y: Int[np.ndarray, "M"]
    component: Int[np.ndarray, "M"]
    sizes: Int[np.ndarray, "N"]
    shares: Float[np.ndarray, "N K"]
    models: Float[np.ndarray, "K d"]


def generate(
    clients: int,
    components: int,
    features: int,
    concentration: float | int,
    test_samples: int,
    random: np.random.RandomState,
) -> MixtureSamples:
    """Draw sizes, shares and models, then the samples of each client, as the authors' generator
    does.

    Client i has n_i training samples, and the share pi_ik of its samples comes from the logistic
    model with weights theta_k:

        n_i = min(lognormal(4, 2) + 50, 1000)
        pi_i ~ Dir(concentration)
        theta_k ~ U(-1, 1)^d
        number of samples of model k ~ Multinomial(n, pi_i)
        x ~ U(-1, 1)^d
        y = round(sigmoid(theta_k x + N(0, 0.1^2)))

    Args:
        clients: number of clients N.
        components: number of models K.
        features: number of features d.
        concentration: concentration of the Dirichlet distribution of shares.
        test_samples: number of test samples of every client.
        random: legacy random generator.

    Raises:
        ConfigError: the machine has too little memory for the samples.
    """
    sizes = np.minimum(random.lognormal(4, 2, clients).astype(np.int64) + 50, _LARGEST)
    shares = random.dirichlet(np.full(components, concentration), clients)
    models = random.uniform(-1, 1, (components, features))
    # Parts alternate: training of client 0, test of client 0, training of client 1, ...
    parts = np.stack([sizes, np.full(clients, test_samples)], axis=1).ravel()
    ends = np.cumsum(parts)
    total = int(parts.sum())
    # Features in float32; label, component and two index entries in int64.
    needed = (features * 4 + 4 * 8) * total
    check_memory(
        {f"{total:,} samples of synthetic_mixture": needed},
        "use fewer: data.clients, data.test_samples",
    )
    x = np.empty((total, features), np.float32)
    y = np.empty(total, np.int64)
    component = np.empty(total, np.int64)
    for part, (end, size) in enumerate(zip(ends, parts, strict=True)):
        # Two parts belong to each client.
        counts = random.multinomial(size, shares[part // 2])
        k = random.permutation(np.repeat(np.arange(components), counts))
        drawn = random.uniform(-1, 1, (size, features))
        score = np.einsum("jd,jd->j", drawn, models[k]) + random.normal(0, 0.1, size)
        rows = slice(end - size, end)
        x[rows] = drawn
        # The sigmoid of a score above 0 is rounded to 1.
        y[rows] = score > 0
        component[rows] = k
    return MixtureSamples(x=x, y=y, component=component, sizes=sizes, shares=shares, models=models)


@named(
    AboutData(
        clients=300,
        samples="any",
        content="each client has samples of several logistic models, FedEM's federation",
    )
)
@checked
def synthetic_mixture(
    *,
    clients: int = 300,
    components: int = 3,
    features: int = 150,
    concentration: float | int = 0.4,
    test_samples: int = 1000,
    seed: int = 12345,
) -> FederatedData:
    """FedEM's synthetic federation: two classes from K logistic models, mixed in different shares.

    It needs no files.

    A client's true cluster is its most frequent model; few clients have a single model. The
    authors' seed is 12345, and they have 5000 test samples for each client. Samples are drawn in
    another order than theirs.

    Args:
        clients: number of clients N.
        components: number of models K.
        features: number of features d.
        concentration: concentration of the Dirichlet distribution of shares. At a low value, most
            samples of a client come from one model.
        test_samples: number of test samples of every client.
        seed: seed of all draws.

    Raises:
        ConfigError: options are invalid, or the machine has too little memory for the samples.
    """
    for name, value in (("clients", clients), ("components", components), ("features", features)):
        positive(name, value)
    positive("test_samples", test_samples)
    if not (np.isfinite(concentration) and concentration > 0):
        raise ConfigError(f"concentration must be a positive number, got {concentration}")
    made = generate(
        clients=clients,
        components=components,
        features=features,
        concentration=concentration,
        test_samples=test_samples,
        random=legacy_random(seed),
    )
    both = made.sizes + test_samples
    starts = np.cumsum(both) - both
    train = []
    test = []
    for start, size in zip(starts, made.sizes, strict=True):
        train.append(np.arange(start, start + size))
        test.append(np.arange(start + size, start + size + test_samples))
    return FederatedData(
        name=f"synthetic mixture of {components}",
        x=made.x,
        y=made.y,
        classes=2,
        train=Ragged.of(train),
        test=Ragged.of(test),
        true_clusters=made.shares.argmax(axis=1),
    )
