"""Settings classes of a federation with a server: [federation] for the server, [client] for a
site."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from fedkin.config.schema import Name, NotNegative, Positive, Seconds, settings
from fedkin.core.errors import ConfigError


@settings("federation")
class ServerSettings:
    """The section [federation] of a server: number of clients, deadlines and limits."""

    name: Name = "trial"
    # N, the largest number of clients ever. Ids are 0 .. N-1, in the order of appearance.
    capacity: Positive = 16
    wait_for: Positive = 1  # clients that must be online before the first round
    # Seconds for a round; a request may take two thirds of the remaining time.
    deadline: Seconds = 120.0
    # Seconds for which the server waits for further clients after the first one is online; None: as
    # ``deadline``.
    start_deadline: Seconds | None = None
    # Seconds from the start of a round to the start of the next one, at least; 0: the next round
    # starts at once. Sites that come meanwhile take part in the next round.
    round_interval: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    # When this share of nodes has replied, the others get as much time again.
    quorum: Annotated[float, Field(gt=0, le=1)] = 1.0
    retries: NotNegative = 1  # how often a lost message is sent again
    # An update with a norm this many times the usual norm is excluded.
    norm_limit: Annotated[float, Field(gt=1)] = 100.0
    registered: bool = False  # whether only registered nodes may take part
    folder: str = "run"  # folder of the run; a relative path starts at the file's folder
    track: Annotated[tuple[str, ...], Field(strict=False)] = ()  # trackers that record every round

    @property
    def first_wait(self) -> float:
        """Seconds that the first round waits for clients."""
        return float(self.deadline if self.start_deadline is None else self.start_deadline)

    @field_validator("wait_for")
    @classmethod
    def _at_most_capacity(cls, value: int, info: Any) -> int:
        """Check that the server does not wait for more clients than there can be."""
        if value > info.data.get("capacity", value):
            raise ValueError(f"expected at most capacity ({info.data['capacity']})")
        return value


@settings("client")
class SiteSettings:
    """The section [client] of a site: its name, which clients of its data set it runs, and the
    folder for its state."""

    name: Name
    federation: Name | Literal[""] = "trial"  # name of the federation; empty: any
    folder: str = "state"  # folder of the site's state
    # Clients of [data] that the site runs: numbers, or "first:end"; None: all.
    clients: Annotated[tuple[int, ...], Field(strict=False)] | str | None = None
    # "warm": one process answers all messages. "none": each message starts a new process.
    worker: Literal["warm", "none"] = "warm"
    # Certificate of the authority for signatures of secret-sum keys.
    sign_ca: str = ""
    sign_certificate: str = ""  # the site's certificate for its keys of secret sums
    sign_key: str = ""  # the private key of that certificate

    @field_validator("clients")
    @classmethod
    def _range(cls, value: Any) -> Any:
        """Check that a text has the form ``first:end``, with at least one number."""
        if isinstance(value, str):
            _numbers_of(value)
        return value

    def client_numbers(self, total: int) -> np.ndarray:
        """The sorted numbers of the clients that this site runs. ``total`` is the number of clients
        in its data set.

        Raises ConfigError for numbers out of range or repeated numbers.
        """
        numbers = self._numbers(total)
        if (
            not len(numbers)
            or len(set(numbers)) != len(numbers)
            or min(numbers) < 0
            or max(numbers) >= total
        ):
            raise ConfigError(
                "client.clients must list at least one number, without repeats, from 0 to "
                f"{total - 1} (the last client of [data]); got {self.clients!r}"
            )
        return np.sort(np.array(numbers, np.int64))

    def _numbers(self, total: int) -> list[int]:
        """The numbers of the site's clients as a list."""
        if self.clients is None:
            return list(range(total))
        if not isinstance(self.clients, str):
            return list(self.clients)
        return list(_numbers_of(self.clients))


@settings("disclosure")
class DisclosureSettings:
    """The section [disclosure] of a site: floors below which nothing leaves it. The server cannot
    change them. A site without this section has no floors."""

    # Fewest subjects behind a number that leaves the site.
    subjects: Positive = 10
    # What a subject is: a training sample, or a client (where a column names persons as clients).
    count: Literal["samples", "clients"] = "samples"
    # Fewest training samples of a class behind a number about this class, and fewest samples in a
    # cell of a histogram, if there are any.
    per_class: Positive = 5
    test: Positive = 10  # fewest test samples behind a score
    # Names of the tasks that the site answers; None: all.
    tasks: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    bytes_per_round: Positive | None = None  # most bytes that leave in a round of a run; None: any
    # Most vectors with a number for each of the model's parameters in a reply; None: any.
    models: Positive | None = None


def _numbers_of(text: str) -> range:
    """The numbers that a text ``first:end`` stands for; ``end`` is not one of them.

    Raises ValueError if the text has another form, or stands for no number.
    """
    first, colon, end = text.partition(":")
    if not (colon and first.strip().isdecimal() and end.strip().isdecimal()):
        raise ValueError('expected numbers, or a range such as "0:5000"')
    numbers = range(int(first), int(end))
    if not numbers:
        raise ValueError("expected a range first:end that has at least one number, so first < end")
    return numbers
