"""FedEM's synthetic federation: every client's samples come from K logistic models, in shares of
its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from fedkin.core.errors import ConfigError
from fedkin.data.about import AboutData, named
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.machine_memory import check_memory
from fedkin.data.partition_options import checked, legacy_random, positive

_LARGEST = 1000  # training samples of a client


class Generated(NamedTuple):
    """Samples of all clients: those of a client are consecutive, training samples before test
    samples."""

    x: Float32[np.ndarray, "M d"]
    y: Int[np.ndarray, "M"]
    component: Int[np.ndarray, "M"]  # of each sample
    sizes: Int[np.ndarray, "N"]  # training samples
    shares: Float[np.ndarray, "N K"]  # pi
    models: Float[np.ndarray, "K d"]  # theta


def generate(
    clients: int,
    components: int,
    features: int,
    concentration: float | int,
    test_samples: int,
    random: np.random.RandomState,
) -> Generated:
    """Draw sizes, shares and models, and then the samples of client after client, as the authors'
    generator does.

        n_i = min(lognormal(4, 2) + 50, 1000), pi_i ~ Dir(concentration), theta_k ~ U(-1, 1)^d x ~
        U(-1, 1)^d, y = round(sigmoid(theta_k x + N(0, 0.1^2))), the numbers of samples by k ~
        Multinomial(n, pi_i)

    Args:
        clients: N.
        components: K.
        features: d.
        concentration: of the Dirichlet distribution of shares.
        test_samples: of every client.
        random: legacy generator.

    Raises ConfigError where the machine has too little memory for them.
    """
    sizes = np.minimum(random.lognormal(4, 2, clients).astype(np.int64) + 50, _LARGEST)
    shares = random.dirichlet(np.full(components, concentration), clients)
    models = random.uniform(-1, 1, (components, features))
    parts = np.stack([sizes, np.full(clients, test_samples)], axis=1).ravel()
    ends = np.cumsum(parts)
    total = int(parts.sum())
    needed = (features * 4 + 4 * 8) * total
    check_memory(
        {f"{total:,} samples of synthetic_mixture": needed},
        "take fewer: data.clients, data.test_samples",
    )
    x = np.empty((total, features), np.float32)
    y = np.empty(total, np.int64)
    component = np.empty(total, np.int64)
    for part, (end, size) in enumerate(zip(ends, parts, strict=True)):
        own = slice(end - size, end)
        counts = random.multinomial(size, shares[part // 2])
        k = random.permutation(np.repeat(np.arange(components), counts))
        drawn = random.uniform(-1, 1, (size, features))
        score = np.einsum("jd,jd->j", drawn, models[k]) + random.normal(0, 0.1, size)
        # the sigmoid is rounded up above 0
        x[own] = drawn
        y[own] = score > 0
        component[own] = k
    return Generated(x=x, y=y, component=component, sizes=sizes, shares=shares, models=models)


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
    """FedEM's synthetic federation: two classes by K logistic models, of which each client has
    shares. No files.

    A client's true cluster is the model of which it has most; few clients have one alone. The
    authors' seed is 12345, and they have 5000 test samples of each client; the order in which
    samples are drawn differs from theirs.

    Args:
        clients: N.
        components: K.
        features: d.
        concentration: of the Dirichlet distribution of shares; the lower, the more a client has of
            one model.
        test_samples: of every client.
        seed: of everything.

    Raises:
        ConfigError: invalid options, or more samples than this machine has memory for.
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
    start = np.cumsum(made.sizes + test_samples) - (made.sizes + test_samples)
    train = Ragged.of([np.arange(s, s + n) for s, n in zip(start, made.sizes, strict=True)])
    test = Ragged.of(
        [np.arange(s + n, s + n + test_samples) for s, n in zip(start, made.sizes, strict=True)]
    )
    name = f"synthetic mixture of {components}"
    return FederatedData(
        name=name,
        x=made.x,
        y=made.y,
        classes=2,
        train=train,
        test=test,
        true_clusters=made.shares.argmax(axis=1),
    )
