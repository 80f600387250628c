"""Streams with concept drift: SINE, CIRCLE and SEA. A concept is a rule that gives samples their
labels; it changes at different times for different clients.

These are the data of FedDrift's experiments.

E. Jothimurugesan, K. Hsieh, J. Wang, G. Joshi, P. B. Gibbons: Federated Learning under Distributed
Concept Drift. AISTATS 2023, arXiv 2206.00799. SEA: W. N. Street, Y. Kim: A Streaming Ensemble
Algorithm. KDD 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.about import AboutData, named
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.partition_options import checked, positive

# The concept of each of ten clients (columns) in the steps 0 .. 10 (rows): "change-point matrix A"
# of the authors' code.
CHANGES_A = (
    "0000000000",
    "0100000000",
    "0100000100",
    "0111010100",
    "0111010110",
    "1011011010",
    "1001001010",
    "1000101011",
    "1000101001",
    "1000101001",
    "1000101001",
)
# Theta in each concept.
SEA_THRESHOLDS = (8.0, 9.0, 7.0, 9.0)
# Centre (two coordinates) and radius in each concept.
CIRCLES = ((0.2, 0.5, 0.15), (0.6, 0.5, 0.25))


@dataclass(frozen=True)
class StreamData(FederatedData):
    """Samples that arrive in T steps. At first, ``train`` is step 0 and ``test`` is step 1.

    During a run, the shift ``fedkin.Steps`` (a rule by which data change between rounds) advances
    both by one step at a time.

    Attributes:
        steps: the samples of each client in each step.
        concepts: true concept of each client in each step.

    Raises:
        DataError: the errors of ``FederatedData``, or there are fewer than two steps, or steps have
            different numbers of clients.
    """

    steps: tuple[Ragged, ...] = ()
    concepts: Int[np.ndarray, "T N"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        T = len(self.steps)
        all_clients = all(len(step) == self.clients for step in self.steps)
        if self.concepts is not None:
            all_clients = all_clients and self.concepts.shape == (T, self.clients)
        if T < 2 or not all_clients:
            raise DataError(
                f"{self.name}: a stream needs at least two steps, each with the samples of all "
                f"{self.clients} clients"
            )


# Maps the features and concept of each sample to whether the label is 1.
Labelling = Callable[[Float[np.ndarray, "m d"], Int[np.ndarray, "m"]], np.ndarray]


class _Generator(NamedTuple):
    """How the samples of a data set are generated, in each of several concepts.

    Attributes:
        name: name of the data set.
        features: number of features d.
        width: features are uniform in [0, width].
        label: function from the features and the concept of each sample to its label.
        concepts: number of concepts.
    """

    name: str
    features: int
    width: float
    label: Labelling
    concepts: int


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
    """SINE: x uniform in [0, 1]^2, y = 1 if x2 <= sin(x1). Concept 1 has the labels inverted.

    Args:
        clients: number of clients N.
        samples: number of samples of a client in each step.
        changes: the concept of each client in each step, as a text of digits for each step. With
            ("000", "010"), client 1 changes to concept 1 in step 1. For more clients than digits,
            the digits are repeated. None for FedDrift's matrix A of 11 steps.
        seed: seed of the samples.

    Raises:
        ConfigError: ``clients`` or ``samples`` is out of range, or ``changes`` has fewer than two
            steps, texts of different lengths, or digits for which there is no concept.
    """
    generator = _Generator(name="sine", features=2, width=1.0, label=_sine, concepts=2)
    return _stream(generator, clients=clients, samples=samples, changes=changes, seed=seed)


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
    """CIRCLE: x uniform in [0, 1]^2, y = 1 outside a circle. Each of two concepts has a circle.

    Args:
        clients: number of clients N.
        samples: number of samples of a client in each step.
        changes: concepts of the clients in each step, as in ``sine``.
        seed: seed of the samples.

    Raises:
        ConfigError: ``clients`` or ``samples`` is out of range, or ``changes`` has fewer than two
            steps, texts of different lengths, or digits for which there is no concept.
    """
    generator = _Generator(
        name="circle", features=2, width=1.0, label=_circle, concepts=len(CIRCLES)
    )
    return _stream(generator, clients=clients, samples=samples, changes=changes, seed=seed)


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
    """SEA: x uniform in [0, 10]^3, y = 1 if x2 + x3 > theta; theta is 8, 9, 7, 9 in the concepts
    0 to 3.

    Args:
        clients: number of clients N.
        samples: number of samples of a client in each step.
        changes: concepts of the clients in each step, as in ``sine``.
        noise: share of labels that are inverted; about 10 % in the authors' files.
        seed: seed of the samples.

    Raises:
        ConfigError: ``clients``, ``samples`` or ``noise`` is out of range, or ``changes`` has fewer
            than two steps, texts of different lengths, or digits for which there is no concept.
    """
    if not 0 <= noise < 1:
        raise ConfigError(f"noise must be a fraction of at least 0 and below 1, got {noise}")
    generator = _Generator(
        name="sea", features=3, width=10.0, label=_sea, concepts=len(SEA_THRESHOLDS)
    )
    return _stream(
        generator,
        clients=clients,
        samples=samples,
        changes=changes,
        seed=seed,
        noise=float(noise),
    )


def _sine(x: Float[np.ndarray, "m d"], concept: Int[np.ndarray, "m"]) -> np.ndarray:
    """The label of each point of SINE under its concept. Concept 1 inverts the labels of concept
    0."""
    return (x[:, 1] <= np.sin(x[:, 0])) ^ (concept == 1)


def _circle(x: Float[np.ndarray, "m d"], concept: Int[np.ndarray, "m"]) -> np.ndarray:
    """The label of each point of CIRCLE: 1 if it is outside of its concept's circle."""
    across, up, radius = np.array(CIRCLES)[concept].T
    return (x[:, 0] - across) ** 2 + (x[:, 1] - up) ** 2 > radius**2


def _sea(x: Float[np.ndarray, "m d"], concept: Int[np.ndarray, "m"]) -> np.ndarray:
    """The label of each point of SEA: 1 if x2 + x3 exceeds the threshold of its concept."""
    return x[:, 1] + x[:, 2] > np.array(SEA_THRESHOLDS)[concept]


def _stream(
    generator: _Generator,
    *,
    clients: int,
    samples: int,
    changes: Sequence[str] | None,
    seed: int,
    noise: float = 0.0,
) -> StreamData:
    """Generate the samples of a stream, ordered by step, then client, then sample."""
    positive("clients", clients)
    positive("samples", samples)
    concepts = _concepts(CHANGES_A if changes is None else changes, clients, generator.concepts)
    concept_of_sample = np.repeat(concepts.ravel(), samples)
    M = len(concept_of_sample)

    rng = Stream(seed, purpose=f"data/{generator.name}").rng()
    x = (generator.width * rng.random((M, generator.features))).astype(np.float32)
    # Labels are computed from the features as stored, in float32.
    clean = generator.label(x.astype(np.float64), concept_of_sample)
    inverted = rng.random(M) < noise

    rows = np.arange(M).reshape(len(concepts), clients, samples)
    steps = tuple(Ragged.of(list(rows_of_step)) for rows_of_step in rows)
    return StreamData(
        name=generator.name,
        x=x,
        y=(clean ^ inverted).astype(np.int64),
        classes=2,
        train=steps[0],
        test=steps[1],
        true_clusters=concepts[0],
        steps=steps,
        concepts=concepts,
    )


def _concepts(changes: Sequence[str], clients: int, number: int) -> Int[np.ndarray, "T N"]:
    """The concept of each client in each step, one of 0 .. number - 1."""
    digits = {str(k) for k in range(number)}
    lengths = {len(row) for row in changes}
    valid = all(row and set(row) <= digits for row in changes)
    if len(changes) < 2 or len(lengths) > 1 or not valid:
        raise ConfigError(
            "changes must have at least two steps, each with a digit from 0 to "
            f"{number - 1} for every client, such as ('000', '010'); got {changes!r}"
        )
    # With more clients than digits, the digits are repeated.
    table = np.array([[int(digit) for digit in row] for row in changes])
    return table[:, np.arange(clients) % table.shape[1]]
