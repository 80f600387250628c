"""What a federation with a server is told: the server's terms, and who a site is. Values, not files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedkin.core.errors import ConfigError
from fedkin.core.names import is_name


@dataclass(frozen=True)
class ServerSettings:
    """[federation] of a server: how many take part, and how long it waits for them."""

    name: str = "trial"
    capacity: int = 16  # N, the most clients that there can ever be: ids are 0 .. N-1, in the order of appearance
    wait_for: int = 1  # clients that must be there before the first round
    deadline: float | int = 120.0  # seconds for a round; one exchange may take two thirds of what is left of them
    quorum: float | int = 1.0  # of the nodes asked: once they have answered, the others get as long again
    retries: int = 1  # letters that the engine lost are sent again so often
    norm_limit: float | int = 100.0  # an update so many times longer than usual is set aside
    registered: bool = False  # only nodes that are registered under their name may take part
    folder: str = "run"

    def __post_init__(self) -> None:
        _named("federation.name", self.name)
        for key, least in (("capacity", 1), ("wait_for", 1), ("retries", 0)):
            if getattr(self, key) < least:
                raise ConfigError(f"federation.{key} must be an integer of at least {least}, got {getattr(self, key)}")
        if self.wait_for > self.capacity:
            raise ConfigError(f"federation.wait_for must be at most capacity ({self.capacity}), got {self.wait_for}")
        if not 0 < self.deadline < np.inf:
            raise ConfigError(f"federation.deadline must be seconds above 0, got {self.deadline}")
        if not 0 < self.quorum <= 1:
            raise ConfigError(f"federation.quorum must be a share above 0 and at most 1, got {self.quorum}")
        if not 1 < self.norm_limit:
            raise ConfigError(f"federation.norm_limit must be a factor above 1, got {self.norm_limit}")


@dataclass(frozen=True)
class SiteSettings:
    """[client] of a node: who it is, which clients of its data it plays, and where it keeps what is its own."""

    name: str
    federation: str = "trial"  # empty: whichever it is that asks
    folder: str = "state"
    clients: tuple[int, ...] | str | None = None  # of [data]: numbers, or "first:end"; None: all of them

    def __post_init__(self) -> None:
        _named("client.name", self.name)
        if self.federation:
            _named("client.federation", self.federation)

    def chosen(self, there: int) -> np.ndarray:
        """The clients that this node plays, out of as many as the data have.

        Raises ConfigError where there are no such clients.
        """
        wanted = self._numbers(there)
        if not len(wanted) or len(set(wanted)) != len(wanted) or min(wanted) < 0 or max(wanted) >= there:
            raise ConfigError(
                f"client.clients must be different numbers from 0 to {there - 1}, the last client of [data], at least "
                f"one; got {self.clients!r}"
            )
        return np.sort(np.array(wanted, np.int64))

    def _numbers(self, there: int) -> list[int]:
        if self.clients is None:
            return list(range(there))
        if not isinstance(self.clients, str):
            return list(self.clients)
        first, colon, end = self.clients.partition(":")
        if not (colon and first.strip().isdecimal() and end.strip().isdecimal()):
            raise ConfigError(f'client.clients must be numbers or text such as "0:5000", got {self.clients!r}')
        return list(range(int(first), int(end)))


def _named(key: str, value: str) -> None:
    if not is_name(value):
        raise ConfigError(
            f"{key} must be 1 to 64 letters, digits, '_', '.' or '-', and begin with a letter or digit, got {value!r}"
        )
