"""How long simulated clients take to reply, for options in which this decides whose replies count.

    t_i,r = m_i exp(spread * z_i,r)     seconds from a request in round r to the reply of client i
    m_i     ``reply_seconds``, for slow clients ``slow_factor`` times this; or a measured time
    z_i,r   a standard normal number

Slow clients are the same in the whole run. In a deployment nothing is drawn: replies take as long
as they take.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.validation import check_not_negative, check_positive
from fedkin.options.base import Option, RunFacts


@dataclass(frozen=True, kw_only=True)
class TimedOption(Option):
    """Base class of options that need the times of simulated replies.

    Attributes:
        reply_seconds: median seconds from a request to the reply, in a simulation.
        spread: standard deviation of the logarithm of these seconds; 0: replies of a client always
            take the same time.
        slow_share: share of the clients that are slow.
        slow_factor: how many times longer slow clients take.
        measured: the median seconds of each client, in the order of ids, in place of
            ``reply_seconds`` and slow clients; None: they are not measured.
    """

    section = "asynchronous"

    reply_seconds: float = 1.0
    spread: float = 0.5
    slow_share: float = 0.0
    slow_factor: float = 20.0
    measured: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_positive("reply_seconds", self.reply_seconds)
        check_not_negative("spread", self.spread)
        check_not_negative("slow_share", self.slow_share)
        if self.slow_share > 1:
            raise MethodError(
                f"slow_share must be at most 1 (all clients), got {self.slow_share:g}"
            )
        check_positive("slow_factor", self.slow_factor)
        for seconds in self.measured or ():
            check_positive("measured", seconds)

    # Settings that real clients do not have.
    _simulated: ClassVar[tuple[str, ...]] = (
        "reply_seconds",
        "spread",
        "slow_share",
        "slow_factor",
        "measured",
    )

    def only_simulated(self) -> list[str]:
        """The names of settings that only simulated clients have, and that differ from their
        defaults."""
        defaults = {field.name: field.default for field in fields(cast(Any, self))}
        return [name for name in self._simulated if getattr(self, name) != defaults[name]]

    def times_refusal(self, run: RunFacts) -> str:
        """Why the measured times do not fit the run; empty if they do."""
        if self.measured is None or len(self.measured) == run.clients:
            return ""
        return (
            f"measured has {len(self.measured)} times, but there are {run.clients} clients; give "
            "one number of seconds for each client, in the order of ids"
        )

    def times(
        self, clients: Int[np.ndarray, "n"], total: int, stream: Stream
    ) -> Float[np.ndarray, "n"]:
        """Seconds that each client takes to reply, in a simulation.

        A client's number does not depend on which others are asked.

        Args:
            clients: clients that are asked.
            total: N, the number of clients.
            stream: the run's seed, and the round of the request.
        """
        draws = Stream(stream.seed, stream.round, "reply_times")
        normal = np.array([draws.client(int(client)).standard_normal() for client in clients])
        return self.medians(total, stream.seed)[clients] * np.exp(self.spread * normal)

    def medians(self, total: int, seed: int) -> Float[np.ndarray, "N"]:
        """The median time of each client.

        Args:
            total: N, the number of clients.
            seed: the run's seed, which draws the slow clients.
        """
        if self.measured is not None:
            return np.array(self.measured, np.float64)
        medians = np.full(total, self.reply_seconds, np.float64)
        order = Stream(seed, 0, "slow_clients").rng().permutation(total)
        medians[order[: round(self.slow_share * total)]] *= self.slow_factor
        return medians
