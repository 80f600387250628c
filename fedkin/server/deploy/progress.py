"""The progress of a deployment's run, as ``fedkin deploy up --wait`` shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fedkin.config.server import ServerConfig
from fedkin.core.storage import complete_lines
from fedkin.run.folder.run_folder import METRICS, against_folder

_INTERVAL = 10.0  # seconds between lines about rounds


class RunProgress:
    """The rounds that a deployment's run has completed, and an estimate of the time that is left.

    Args:
        config: content of server.toml.
        clock: returns the time in seconds.
    """

    def __init__(self, config: ServerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_round = config.run.rounds
        run = Path(config.federation.folder)
        self._runs = {config.method.name: run}
        for entry in config.against:
            self._runs[entry.name] = against_folder(run, entry.name)
        self._first: tuple[float, int] | None = None  # time and number of rounds at the first call
        self._said: tuple[float, int] = (-_INTERVAL, 0)  # the same at the last line
        self._waiting = ""

    def line(self, waiting: str) -> str:
        """A line such as ``progress: 5 of 10 rounds (flexcfl 5 of 5, fedavg 0 of 5), about 20 s
        left``; empty if there is nothing new.

        Args:
            waiting: the event that the server waits for; empty if it does not wait.
        """
        if waiting != self._waiting:
            self._waiting = waiting
            return f"progress: {waiting}" if waiting else ""
        now = self._clock()
        rounds = {name: self._completed(run) for name, run in self._runs.items()}
        done = sum(rounds.values())
        if self._first is None:
            self._first = (now, done)
        said_at, said = self._said
        if done <= said or now - said_at < _INTERVAL:
            return ""
        self._said = (now, done)
        total = len(self._runs) * (self._last_round + 1)
        left = self._left(now, done, total)
        # Round 0 takes time, but it is no round of training.
        trained = {name: max(n - 1, 0) for name, n in rounds.items()}
        parts = [f"{name} {n} of {self._last_round}" for name, n in trained.items()]
        rounds_of_all = len(self._runs) * self._last_round
        return (
            f"progress: {sum(trained.values())} of {rounds_of_all} rounds "
            f"({', '.join(parts)}){left}"
        )

    def _completed(self, run: Path) -> int:
        """Number of completed rounds of one method's run; round 0 counts as well."""
        return len(complete_lines(run / METRICS))

    def _left(self, now: float, done: int, total: int) -> str:
        """The estimated time until the end, for the line; empty until a round has been observed."""
        assert self._first is not None
        start, before = self._first
        if done <= before:
            return ""
        seconds = (total - done) * (now - start) / (done - before)
        if seconds < 90:
            return f", about {seconds:.0f} s left"
        return f", about {seconds / 60:.0f} min left"
