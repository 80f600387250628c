"""The options that named data sets share, their checks, and the partition that they describe."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.plain import plain, plain_lists
from fedkin.core.randomness import Stream
from fedkin.data import fedprox_partitions, partition
from fedkin.data.ragged import Ragged

# The options that each partition has.
OPTIONS_OF = {
    "power_law": ("classes_per_client",),
    "dirichlet": ("alpha", "min_samples"),
    "shards": ("classes_per_client",),
    "iid": (),
    "writer": (),
    "ditto": ("classes_per_client",),
    "blocks": ("classes_per_client",),
}
# Partitions of pooled samples by their labels.
POOLED = (
    "power_law",
    "dirichlet",
    "shards",
    "iid",
    "blocks",
)
TEST_CHOICES = ("own", "iid")
# Name of the option for a partition's number of clients in from_arrays and similar functions.
COUNT = "num_clients"

# The rows of each client, and the true clusters.
Owned = tuple[Ragged, Int[np.ndarray, "N"] | None]

# Largest number of clients, or of samples per client. A larger number is a typing error that would
# exhaust memory.
MAX_COUNT = 10_000_000
TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "text"}

P = ParamSpec("P")
R = TypeVar("R")


def checked(make: Callable[P, R]) -> Callable[P, R]:
    """A decorator that raises ConfigError for negative seeds and arguments of the wrong type.

    The annotations give the types. NumPy's numbers are converted to Python's.
    """
    types = {name: kind for name, kind in typing.get_type_hints(make).items() if name != "return"}
    signature = inspect.signature(make)

    @functools.wraps(make)
    def call(*args: P.args, **options: P.kwargs) -> R:
        """Check the arguments against the annotations, then call the decorated function."""
        bound = signature.bind(*args, **options)
        for name, value in bound.arguments.items():
            if types.get(name, typing.Any) is not typing.Any:
                bound.arguments[name] = _checked_value(name, value, types[name])
        return make(*bound.args, **bound.kwargs)

    return call


def _checked_value(name: str, given: object, kind: typing.Any) -> typing.Any:
    """The value of an argument, in Python's types. Raises ConfigError unless the value is of the
    type ``kind``."""
    if kind == Sequence[str] | None:
        names = plain_lists(given)
        _check_names(name, names)
        return names
    value = plain(given)
    if typing.get_origin(kind) is tuple:
        _check_entries(name, value, typing.get_args(kind)[0])
        return value
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or (is_bool and kind not in (bool, bool | None)):
        first = (typing.get_args(kind) or (kind,))[0]
        raise ConfigError(f"{name} must be {TYPE_NAMES[first]}, got {value!r}")
    if name == "seed" and value is not None and typing.cast(int, value) < 0:
        raise ConfigError(f"seed must be an integer of at least 0, got {value}")
    return value


def _check_entries(name: str, value: object, kind: type) -> None:
    """Raise ConfigError unless a value is a tuple with entries of this type."""
    if not (isinstance(value, tuple) and all(isinstance(entry, kind) for entry in value)):
        raise ConfigError(
            f"{name} must be a tuple of {TYPE_NAMES[kind]} (with one entry: (entry,)), got "
            f"{value!r}"
        )


def _check_names(name: str, value: object) -> None:
    """Raise ConfigError unless a value is None or a list of text."""
    if value is None:
        return
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise ConfigError(f"{name} must be a list of text, got {value!r}")


def legacy_random(seed: int) -> np.random.RandomState:
    """NumPy's legacy generator, from which the published partitions are drawn."""
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed must be from 0 to 2**32 - 1, got {seed}")
    return np.random.RandomState(seed)


def positive(name: str, value: int) -> None:
    """Raise ConfigError for counts (e.g. of clients) below one, and for absurdly large ones."""
    if value < 1:
        raise ConfigError(f"{name} must be at least 1, got {value}")
    if value > MAX_COUNT:
        raise ConfigError(f"{name} must be at most {MAX_COUNT:,}, got {value}")


@dataclass(frozen=True)
class PartitionOptions:
    """The options of a partition.

    Attributes:
        partition: name of the partition.
        clients: number of clients N; None for the default of the data set.
        classes_per_client: number of classes per client k; None for 2.
        alpha: concentration of ``dirichlet``; None for 0.5.
        tested: ``own`` or ``iid`` test samples.
        samples: size of a random subset; None for all samples.
        min_samples: smallest number of samples per client for ``dirichlet``; None for 10, as in
            NIID-Bench.
    """

    partition: str
    clients: int | None = None
    classes_per_client: int | None = None
    alpha: float | int | None = None
    tested: str = "own"
    samples: int | None = None
    min_samples: int | None = None

    def check(self, known: tuple[str, ...]) -> None:
        """Raise ConfigError for an unknown partition, or for options that have no effect on it.

        Args:
            known: the partitions of the data set.
        """
        if self.partition not in known:
            raise ConfigError(unknown("partition", self.partition, known))
        for option in ("classes_per_client", "alpha", "min_samples"):
            value = getattr(self, option)
            if value is not None and option not in OPTIONS_OF[self.partition]:
                raise ConfigError(
                    f"{option} = {value} does not apply to partition {self.partition!r}; leave it "
                    "out"
                )
        if self.samples is not None and self.partition not in POOLED:
            raise ConfigError(
                f"samples = {self.samples} does not apply to partition {self.partition!r}; leave "
                "it out"
            )
        if self.tested not in TEST_CHOICES:
            raise ConfigError(unknown("value of tested", self.tested, TEST_CHOICES))

    def partition_labels(self, labels: Int[np.ndarray, "M"], clients: int, seed: int) -> Owned:
        """Divide samples over clients by one of the partitions in ``POOLED``, which use only the
        labels.

        Args:
            labels: class of each sample.
            clients: default number of clients.
            seed: seed of the partition.

        Returns:
            The rows (samples) of each client, and the client's true cluster if the partition makes
            clusters.
        """
        clients = clients if self.clients is None else self.clients
        k = 2 if self.classes_per_client is None else self.classes_per_client
        stream = Stream(seed, purpose="data/deal")
        match self.partition:
            case "blocks":
                return partition.blocks(labels, clients, k, stream)
            case "shards":
                return partition.shards(labels, clients, k, stream), None
            case "iid":
                return partition.iid(len(labels), clients, stream), None
            case "power_law":
                random = legacy_random(seed)
                return fedprox_partitions.power_law(labels, clients, k, random), None
            case "dirichlet":
                owned = partition.dirichlet(
                    labels=labels,
                    clients=clients,
                    alpha=0.5 if self.alpha is None else self.alpha,
                    random=legacy_random(seed),
                    minimum=10 if self.min_samples is None else self.min_samples,
                )
                return owned, None
            case _:
                raise KeyError(self.partition)

    def test_parts(self, test: Ragged, seed: int) -> Ragged:
        """The test samples of each client by the option ``tested``: its own, or an IID share of all
        test samples."""
        if self.tested == "own":
            return test
        return partition.redistribute(test, Stream(seed, purpose="data/tested"))


def own_partition(
    partition: str | None,
    clients: int | None,
    classes_per_client: int | None,
    alpha: float | int | None,
    min_samples: int | None,
    count: str = COUNT,
) -> PartitionOptions | None:
    """The options of a partition; None if ``partition`` is None.

    Args:
        partition: name of the partition, one of ``POOLED``.
        clients: number of clients N.
        classes_per_client: number of classes per client for the partitions by class.
        alpha: concentration of the Dirichlet partition.
        min_samples: smallest number of samples per client for the Dirichlet partition; None for 10.
        count: the name of the option from which ``clients`` comes, for messages (the readers of
            data name it differently).

    Raises:
        ConfigError: the partition is unknown, an option is given that it does not have, or options
            are given without a partition.
    """
    if partition is not None:
        options = PartitionOptions(
            partition, clients, classes_per_client, alpha, min_samples=min_samples
        )
        options.check(POOLED)
        if clients is None:
            raise ConfigError(
                f"partition={partition!r} needs the number of clients, such as {count}=10"
            )
        positive(count, clients)
        if min_samples is not None:
            positive("min_samples", min_samples)
        return options
    ignored = {
        count: clients,
        "classes_per_client": classes_per_client,
        "alpha": alpha,
        "min_samples": min_samples,
    }
    for name, value in ignored.items():
        if value is not None:
            raise ConfigError(
                f"{name} = {value} applies to a partition only; set partition= "
                f"({', '.join(POOLED)}) too, or leave it out"
            )
    return None


def by_writer(writers: Shaped[np.ndarray, "M"], clients: int | None) -> Ragged:
    """One client for each writer: the first ``clients`` writers, or all if it is None."""
    owned = partition.by_owner(writers)
    if clients is None:
        return owned
    if not 1 <= clients <= len(owned):
        raise ConfigError(
            f"clients must be from 1 to {len(owned)}, the number of writers; got {clients}"
        )
    return Ragged(owned.rows[: owned.offsets[clients]], owned.offsets[: clients + 1])
