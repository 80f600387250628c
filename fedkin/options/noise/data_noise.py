"""Noise in the data of simulated clients: wrong labels, and noisy features. Noise is drawn once,
before the run (``fedkin/scenarios/noise.py``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import RUN_SEED, Stream
from fedkin.data.federated import FederatedData
from fedkin.options.base import Option
from fedkin.scenarios import validation
from fedkin.scenarios.noise import add_gaussian, flip_labels, growing


@plain_options
@dataclass(frozen=True)
class LabelNoise(Option):
    """Base class of options by which labels of training samples are wrong.

    Attributes:
        rate: probability that a label is wrong.
        grows: whether noise grows with a client's number: client i of N (from 1) has the rate
            ``rate`` i / N. Otherwise all clients have the same rate.
        rates: the rate of each client, in the order of the clients; used instead of ``rate``.
        seed: seed of the draws; "run": the run's seed.
    """

    section = "label_noise"
    pairs: ClassVar[bool] = False  # whether a class is always mistaken for the same other class

    rate: float = 0.2
    grows: bool = False
    rates: tuple[float | int, ...] | None = None
    seed: int | Literal["run"] = 0

    def __post_init__(self) -> None:
        validation.fraction("rate", self.rate)
        for rate in self.rates or ():
            validation.fraction("rates", rate)
        validation.switch("grows", self.grows)
        _check_seed(self.seed)

    def simulated(self, data: FederatedData, shift: Any) -> tuple[FederatedData, Any]:
        """The data with wrong labels.

        Raises:
            ConfigError: labels are no classes, or there is not one rate for each client.
            DataError: the data have only one class.
        """
        validation.refuse_other_labels(
            data, "label_noise", "leave it out, or use feature noise (fk.GaussianNoise)"
        )
        rates = _levels(
            "label_noise.rates",
            self.rates,
            common=self.rate,
            grows=self.grows,
            clients=data.clients,
        )
        stream = Stream(cast(int, self.seed), purpose="label_noise")
        return flip_labels(data, rates, stream, pairs=self.pairs), shift


@plain_options
@dataclass(frozen=True)
class SymmetricFlips(LabelNoise):
    """A wrong label is one of the other classes, each equally probable.

    Training and validation samples have wrong labels, test samples have none. The options are those
    of ``LabelNoise``: ``rate``, ``grows``, ``rates`` and ``seed``.

    Examples:
        >>> import fedkin as fk
        >>> fk.SymmetricFlips(rate=0.3, grows=True)
        SymmetricFlips(rate=0.3, grows=True, rates=None, seed=0)
    """


@plain_options
@dataclass(frozen=True)
class PairFlips(LabelNoise):
    """A wrong label of class c is c + 1, and 0 for the last class, as in Co-teaching's experiments
    (Han et al. 2018).

    Training and validation samples have wrong labels, test samples have none. The options are those
    of ``LabelNoise``: ``rate``, ``grows``, ``rates`` and ``seed``.

    Examples:
        >>> import fedkin as fk
        >>> fk.PairFlips(rate=0.3)
        PairFlips(rate=0.3, grows=False, rates=None, seed=0)
    """

    pairs = True


@plain_options
@dataclass(frozen=True)
class GaussianNoise(Option):
    """Gaussian noise in the features of training samples. It grows with a client's number, as in
    NIID-Bench (Li et al. 2022).

    Validation samples have the same noise; test samples have none. (NIID-Bench's code adds noise to
    test samples too.) Values are not clipped, so pixels may leave the range 0 .. 1.

    Attributes:
        level: variance of the noise of the last client. Client i of N (from 1) has the variance
            ``level`` i / N.
        grows: whether noise grows with a client's number. Otherwise all clients have the variance
            ``level``.
        levels: the variance of each client, in the order of the clients; used instead of ``level``.
        as_coded: whether to follow NIID-Bench's code: levels are standard deviations instead of
            variances, and client i has ``level`` (i - 1) / (N - 1), so that the first has no noise.
        seed: seed of the draws; "run": the run's seed.

    Examples:
        >>> import fedkin as fk
        >>> fk.GaussianNoise(level=0.5)
        GaussianNoise(level=0.5, grows=True, levels=None, as_coded=False, seed=0)
    """

    section = "feature_noise"

    level: float = 0.1
    grows: bool = True
    levels: tuple[float | int, ...] | None = None
    as_coded: bool = False
    seed: int | Literal["run"] = 0

    def __post_init__(self) -> None:
        _check_level("level", self.level)
        for level in self.levels or ():
            _check_level("levels", level)
        validation.switch("grows", self.grows)
        validation.switch("as_coded", self.as_coded)
        _check_seed(self.seed)

    def deviations(self, clients: int) -> Float[np.ndarray, "N"]:
        """The standard deviation of the noise of each client.

        Args:
            clients: number of clients N.

        Raises:
            ConfigError: there is not one level for each client.
        """
        if self.as_coded and self.grows and self.levels is None:
            return self.level * np.arange(clients) / max(clients - 1, 1)
        levels = _levels(
            "feature_noise.levels",
            self.levels,
            common=self.level,
            grows=self.grows,
            clients=clients,
        )
        return levels if self.as_coded else np.sqrt(levels)

    def simulated(self, data: FederatedData, shift: Any) -> tuple[FederatedData, Any]:
        """The data with noisy features.

        Raises:
            ConfigError: there is not one level for each client.
            DataError: the features are not real numbers.
        """
        stream = Stream(cast(int, self.seed), purpose="feature_noise")
        return add_gaussian(data, self.deviations(data.clients), stream), shift


def _check_level(name: str, value: object) -> None:
    """Raise ConfigError unless a level of noise is a finite number from 0 up."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= cast(float, value) < np.inf:
        raise ConfigError(f"{name} must be a number from 0 up, such as 0.1; got {value!r}")


def _check_seed(seed: object) -> None:
    """Raise ConfigError unless a seed is an integer from 0 up, or "run"."""
    if seed != RUN_SEED:
        validation.at_least(0, "seed", seed)


def _levels(
    name: str, given: tuple[float | int, ...] | None, *, common: float, grows: bool, clients: int
) -> Float[np.ndarray, "N"]:
    """The level (or rate) of noise of each client.

    Args:
        name: name of the option ``given``, for messages.
        given: the level of each client; None if they follow from ``common``.
        common: the level of all clients, or of the last one if noise grows.
        grows: whether noise grows with a client's number.
        clients: number of clients N.
    """
    if given is None:
        return growing(common, clients) if grows else np.full(clients, float(common))
    if len(given) != clients:
        example = ", ".join(["0.1", "0.2", "..."][: max(clients, 1)])
        raise ConfigError(
            f"{name}: expected a number for each of {clients} clients, such as [{example}], got "
            f"{len(given)}"
        )
    return np.array(given, float)
