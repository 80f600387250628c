"""Accounting of the bytes sent between server and clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Ledger:
    """Bytes that clients download and upload, by task. The ledger counts the arrays that tasks
    declare, in the same way for simulated and real clients.

    Two kinds of traffic are counted under names with a prefix, and are not in the total: evaluation
    (``scoring.*``), and messages between the servers of different clusters (``servers.*``).

    Examples:
        >>> import fedkin as fk
        >>> ledger = fk.Ledger()
        >>> ledger.add("train", down=2600, up=2600)
        >>> ledger.total()
        (2600, 2600)
    """

    def __init__(self) -> None:
        self.down: dict[str, int] = {}
        self.up: dict[str, int] = {}
        self.measured_down: dict[str, int] = {}  # bytes of real messages; empty in a simulation
        self.measured_up: dict[str, int] = {}
        self._scoring = False

    def measure(self, operation: str, down: int, up: int) -> None:
        """Count the bytes of real messages, including names, settings and single numbers."""
        _add(self.measured_down, self._account(operation), down)
        _add(self.measured_up, self._account(operation), up)

    def add(self, operation: str, down: int, up: int) -> None:
        """Count the declared bytes of one operation (e.g. a task): ``down`` downloaded, ``up``
        uploaded."""
        _add(self.down, self._account(operation), down)
        _add(self.up, self._account(operation), up)

    def _account(self, operation: str) -> str:
        """The name under which an operation is counted: with a prefix while clients are
        evaluated."""
        return f"scoring.{operation}" if self._scoring else operation

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Context manager for evaluation: its traffic is counted separately."""
        before = self._scoring
        self._scoring = True
        try:
            yield
        finally:
            self._scoring = before

    def between_servers(self, operation: str, count: int) -> None:
        """Count bytes sent between the servers of clusters, if every cluster has its own server."""
        self.add(f"servers.{operation}", 0, count)

    def total(self) -> tuple[int, int]:
        """Bytes (downloaded, uploaded) of the method, without evaluation and traffic between
        servers."""
        return _total(self.down), _total(self.up)

    def measured_total(self) -> tuple[int, int]:
        """Bytes of real messages (downloaded, uploaded), without evaluation."""
        return _total(self.measured_down), _total(self.measured_up)


def _total(side: dict[str, int]) -> int:
    """The sum of the bytes in one direction (download or upload) over all operations, without
    evaluation and traffic between servers."""
    return sum(
        count for name, count in side.items() if not name.startswith(("scoring.", "servers."))
    )


def _add(side: dict[str, int], account: str, count: int) -> None:
    """Add bytes to one direction of the traffic, under the name ``account``."""
    side[account] = side.get(account, 0) + int(count)
