"""How many bytes travel between server and clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Ledger:
    """Bytes downloaded and uploaded by clients, by operation.

    Two kinds of traffic have accounts of their own, outside the total: evaluation (``scoring.*``), and what the servers
    of different clusters would send each other (``servers.*``).
    """

    def __init__(self) -> None:
        self.down: dict[str, int] = {}
        self.up: dict[str, int] = {}
        self.is_local = False  # whether models stay on the device that has them
        self._scoring = False

    def add(self, operation: str, down: int, up: int) -> None:
        """Count the bytes of one call."""
        if self.is_local:
            return
        account = f"scoring.{operation}" if self._scoring else operation
        self.down[account] = self.down.get(account, 0) + int(down)
        self.up[account] = self.up.get(account, 0) + int(up)

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Context of evaluation: its traffic is not the method's."""
        self._scoring = True
        try:
            yield
        finally:
            self._scoring = False

    @contextmanager
    def local(self) -> Iterator[None]:
        """Context of work that peers do with models they have: nothing is sent, so nothing is counted or lost."""
        self.is_local = True
        try:
            yield
        finally:
            self.is_local = False

    def between_servers(self, operation: str, count: int) -> None:
        """Count bytes that cross between the servers of clusters, where every cluster has one."""
        self.add(f"servers.{operation}", 0, count)

    def total(self) -> tuple[int, int]:
        """Bytes (downloaded, uploaded) by the method."""
        other = ("scoring.", "servers.")
        down, up = (sum(n for name, n in side.items() if not name.startswith(other)) for side in (self.down, self.up))
        return down, up
