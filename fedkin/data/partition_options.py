"""The options that named sets share, and the deal that they describe."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.randomness import Stream
from fedkin.data import partition as recipes
from fedkin.data.federated import Ragged

MEANING = {  # which options mean something to which partition
    "power_law": ("classes_per_client",),
    "dirichlet": ("alpha",),
    "shards": ("classes_per_client",),
    "iid": (),
    "writer": (),
    "ditto": ("classes_per_client",),
    "blocks": ("classes_per_client",),
}
POOLED = ("power_law", "dirichlet", "shards", "iid", "blocks")  # those that need no more than labels
TESTED = ("own", "iid")

Owned = tuple[Ragged, Int[np.ndarray, "N"] | None]  # who has which samples; true clusters

MOST = 10_000_000  # clients, or samples of a client: more is a slip, and NumPy would ask for its memory
WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "text"}

P = ParamSpec("P")
R = TypeVar("R")


def checked(make: Callable[P, R]) -> Callable[P, R]:
    """The same function, refusing (ConfigError) arguments of another type than it says and seeds below zero, where
    Python would fail somewhere inside or, worse, not at all. NumPy's numbers serve for Python's."""
    kinds = {name: kind for name, kind in typing.get_type_hints(make).items() if name != "return"}

    @functools.wraps(make)
    def call(*args: P.args, **options: P.kwargs) -> R:
        given = dict(zip(kinds, args, strict=False)) | options
        for name, value in given.items():
            if name in kinds:  # Python itself refuses the other names
                _check_kind(name, value, kinds[name])
        return make(*args, **options)

    return call


def _check_kind(name: str, value: object, kind: typing.Any) -> None:
    plain = value.item() if isinstance(value, np.generic) else value
    if typing.get_origin(kind) is tuple:
        return _check_entries(name, value, typing.get_args(kind)[0])
    if not isinstance(plain, kind) or (isinstance(plain, bool) and kind is not bool):
        first = (typing.get_args(kind) or (kind,))[0]
        raise ConfigError(f"{name} must be {WORDS[first]}, got {value!r}")
    if name == "seed" and plain is not None and typing.cast(int, plain) < 0:
        raise ConfigError(f"seed must be an integer from 0 up, got {value}")


def _check_entries(name: str, value: object, kind: type) -> None:
    if not (isinstance(value, tuple) and all(isinstance(entry, kind) for entry in value)):
        raise ConfigError(f"{name} must be a tuple of {WORDS[kind]} (with one entry: (entry,)), got {value!r}")


def legacy(seed: int) -> np.random.RandomState:
    """NumPy's legacy generator, which the published recipes draw from."""
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed must be from 0 to 2**32 - 1, got {seed}")
    return np.random.RandomState(seed)


def positive(name: str, value: int) -> None:
    """Refuse counts below one, and those that cannot be."""
    if not 1 <= value <= MOST:
        raise ConfigError(f"{name} must be {'at least 1' if value < 1 else f'at most {MOST:,}'}, got {value}")


@dataclass(frozen=True)
class Deal:
    """Who shall get what; None stands for a default of the partition (k = 2, alpha = 0.5) or of the set (clients)."""

    partition: str
    clients: int | None = None
    classes_per_client: int | None = None
    alpha: float | int | None = None
    tested: str = "own"
    samples: int | None = None

    def check(self, known: tuple[str, ...]) -> None:
        """Refuse unknown partitions, and options that the partition would silently ignore (ConfigError)."""
        if self.partition not in known:
            raise ConfigError(unknown("partition", self.partition, known))
        for option in ("classes_per_client", "alpha"):
            value = getattr(self, option)
            if value is not None and option not in MEANING[self.partition]:
                raise ConfigError(f"{option} = {value} means nothing to partition {self.partition!r}; leave it out")
        if self.samples is not None and self.partition not in POOLED:
            raise ConfigError(f"samples = {self.samples} means nothing to partition {self.partition!r}; leave it out")
        if self.tested not in TESTED:
            raise ConfigError(unknown("value of tested", self.tested, TESTED))

    def of(self, labels: Int[np.ndarray, "M"], clients: int, seed: int) -> Owned:
        """The samples each client owns, by one of the POOLED partitions, and its true cluster where the partition
        makes clusters; ``clients`` is the set's default."""
        clients = clients if self.clients is None else self.clients
        k = 2 if self.classes_per_client is None else self.classes_per_client
        alpha = 0.5 if self.alpha is None else self.alpha
        stream = Stream(seed, purpose="data/deal")
        if self.partition == "blocks":
            return recipes.blocks(labels, clients, k, stream)
        make: dict[str, Callable[[], Ragged]] = {
            "power_law": lambda: recipes.power_law(labels, clients, k, legacy(seed)),
            "dirichlet": lambda: recipes.dirichlet(labels, clients, alpha, legacy(seed)),
            "shards": lambda: recipes.shards(labels, clients, k, stream),
            "iid": lambda: recipes.iid(len(labels), clients, stream),
        }
        return make[self.partition](), None

    def tests(self, test: Ragged, seed: int) -> Ragged:
        """The test parts that clients get for those that they were dealt."""
        return test if self.tested == "own" else recipes.dealt_again(test, Stream(seed, purpose="data/tested"))


def by_writer(writers: Shaped[np.ndarray, "M"], clients: int | None) -> Ragged:
    """One client per writer, the first ``clients`` of them; None keeps all."""
    owned = recipes.by_writer(writers)
    if clients is None:
        return owned
    if not 1 <= clients <= len(owned):
        raise ConfigError(f"clients must be from 1 to {len(owned)}, the number of writers; got {clients}")
    return Ragged(owned.rows[: owned.offsets[clients]], owned.offsets[: clients + 1])
