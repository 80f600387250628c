"""Streams whose concept drifts, at another time for every client: SINE, CIRCLE and SEA (FedDrift's
experiments).

E. Jothimurugesan, K. Hsieh, J. Wang, G. Joshi, P. B. Gibbons: Federated Learning under Distributed
Concept Drift. AISTATS 2023, arXiv 2206.00799. SEA: W. N. Street, Y. Kim: A Streaming Ensemble
Algorithm. KDD 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.about import AboutData, named
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.partition_options import checked, positive

# The concept of each of ten clients in the steps 0 .. 10: "change-point matrix A" of the authors'
# code
CHANGES_A = (
    *("0000000000", "0100000000", "0100000100", "0111010100", "0111010110", "1011011010"),
    *("1001001010", "1000101011", "1000101001", "1000101001", "1000101001"),
)
SEA_THRESHOLDS = (8.0, 9.0, 7.0, 9.0)
CIRCLES = ((0.2, 0.5, 0.15), (0.6, 0.5, 0.25))  # centre and radius


@dataclass(frozen=True)
class StreamData(FederatedData):
    """Samples that come in steps: ``train`` are those of step 0, ``test`` those of step 1. The
    shift ``Steps`` goes on.

    Raises DataError as ``FederatedData`` does, and for fewer than two steps or steps of other
    clients.
    """

    steps: tuple[Ragged, ...] = ()  # the samples of each client in each step
    concepts: Int[np.ndarray, "T N"] | None = None  # true concept of each client in each step

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (len(self.steps), self.clients)
        same = self.concepts is None or self.concepts.shape == shape
        if len(self.steps) < 2 or not same or any(len(step) != self.clients for step in self.steps):
            raise DataError(
                f"{self.name}: a stream has two steps or more, each with the samples of all "
                f"{self.clients} clients"
            )


Concepts = Callable[[Float[np.ndarray, "m d"], Int[np.ndarray, "m"]], np.ndarray]


@named(
    AboutData(
        clients=10,
        samples="11,000",
        content="a stream in 11 steps: below a sine or not, or inverted",
    )
)
@checked
def sine(
    *, clients: int = 10, samples: int = 100, changes: Sequence[str] | None = None, seed: int = 0
) -> FederatedData:
    """SINE: x uniform in [0, 1]^2, y = 1 where x2 <= sin(x1); concept 1 has the labels inverted.

    Args:
        clients: N.
        samples: of a client in each step.
        changes: the concepts of the clients, a text of digits for each step, such as ("000",
            "010"); with more clients than digits, they are repeated. None: FedDrift's matrix A of
            11 steps.
        seed: of the samples.

    Raises:
        ConfigError: impossible numbers or concepts.
    """
    return _stream(
        name="sine",
        options=(clients, samples, changes, seed),
        features=2,
        width=1.0,
        label=_sine,
        known=2,
    )


@named(
    AboutData(
        clients=10,
        samples="11,000",
        content="a stream in 11 steps: outside one of two circles",
    )
)
@checked
def circle(
    *, clients: int = 10, samples: int = 100, changes: Sequence[str] | None = None, seed: int = 0
) -> FederatedData:
    """CIRCLE: x uniform in [0, 1]^2, y = 1 outside a circle; concept 0 has another circle than
    concept 1.

    Args:
        clients: N.
        samples: of a client in each step.
        changes: as of ``sine``.
        seed: of the samples.

    Raises:
        ConfigError: impossible numbers or concepts.
    """
    return _stream(
        name="circle",
        options=(clients, samples, changes, seed),
        features=2,
        width=1.0,
        label=_circle,
        known=len(CIRCLES),
    )


@named(
    AboutData(
        clients=10,
        samples="11,000",
        content="a stream in 11 steps: two of three numbers above a threshold, with noise",
    )
)
@checked
def sea(
    *,
    clients: int = 10,
    samples: int = 100,
    changes: Sequence[str] | None = None,
    noise: float | int = 0.1,
    seed: int = 0,
) -> FederatedData:
    """SEA: x uniform in [0, 10]^3, y = 1 where x2 + x3 > theta; theta is 8, 9, 7, 9 in the concepts
    0 to 3.

    Args:
        clients: N.
        samples: of a client in each step.
        changes: as of ``sine``.
        noise: share of labels that are inverted; the authors' files have some 10 %.
        seed: of the samples.

    Raises:
        ConfigError: impossible numbers or concepts.
    """
    if not 0 <= noise < 1:
        raise ConfigError(f"noise must be a fraction from 0 up and below 1, got {noise}")
    return _stream(
        name="sea",
        options=(clients, samples, changes, seed),
        features=3,
        width=10.0,
        label=_sea,
        known=len(SEA_THRESHOLDS),
        noise=float(noise),
    )


def _sine(x: Float[np.ndarray, "m d"], concept: Int[np.ndarray, "m"]) -> np.ndarray:
    return (x[:, 1] <= np.sin(x[:, 0])) ^ (concept == 1)


def _circle(x: Float[np.ndarray, "m d"], concept: Int[np.ndarray, "m"]) -> np.ndarray:
    across, up, radius = np.array(CIRCLES)[concept].T
    return (x[:, 0] - across) ** 2 + (x[:, 1] - up) ** 2 > radius**2


def _sea(x: Float[np.ndarray, "m d"], concept: Int[np.ndarray, "m"]) -> np.ndarray:
    return x[:, 1] + x[:, 2] > np.array(SEA_THRESHOLDS)[concept]


def _stream(
    name: str,
    options: tuple[int, int, Sequence[str] | None, int],
    features: int,
    width: float,
    label: Concepts,
    known: int,
    noise: float = 0.0,
) -> StreamData:
    """A stream of one generator; row (step, client, sample) in this order."""
    clients, samples, changes, seed = options
    positive("clients", clients)
    positive("samples", samples)
    concepts = _concepts(CHANGES_A if changes is None else changes, clients, known)
    rng = Stream(seed, purpose=f"data/{name}").rng()
    each = np.repeat(concepts.ravel(), samples)
    x = (width * rng.random((len(each), features))).astype(np.float32)
    y = label(x.astype(np.float64), each) ^ (rng.random(len(each)) < noise)
    rows = np.arange(len(each)).reshape(len(concepts), clients, samples)
    steps = tuple(Ragged.of(list(own)) for own in rows)
    return StreamData(
        name=name,
        x=x,
        y=y.astype(np.int64),
        classes=2,
        train=steps[0],
        test=steps[1],
        true_clusters=concepts[0],
        steps=steps,
        concepts=concepts,
    )


def _concepts(changes: Sequence[str], clients: int, known: int) -> Int[np.ndarray, "T N"]:
    digits = {str(k) for k in range(known)}
    if (
        len(changes) < 2
        or len({len(row) for row in changes}) > 1
        or not all(row and digits >= set(row) for row in changes)
    ):
        raise ConfigError(
            "changes must have two steps or more, each with as many of the digits 0 .. "
            f"{known - 1} as there are clients, such as ('000', '010'); got {changes!r}"
        )
    table = np.array([[int(digit) for digit in row] for row in changes])
    return table[:, np.arange(clients) % table.shape[1]]
