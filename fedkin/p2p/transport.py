"""Interface of the network between peers. ``zenoh_transport`` implements it for real networks;
tests use an implementation in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

RequestHandler = Callable[[str], bytes | None]


@runtime_checkable
class PeerTransport(Protocol):
    """One peer's connection to the network."""

    def peers(self) -> dict[str, str]:
        """Names and session ids of the other peers that are online. A session lasts at most as long
        as its process.

        Raises:
            ConfigError: another peer had this peer's name first.
        """
        ...

    def request(
        self, names: Sequence[str], text: str, timeout: float
    ) -> dict[str, tuple[bytes, ...]]:
        """Send one request to several peers at once, and return the different replies of each peer.

        Args:
            names: names of the peers.
            text: the request (``messages.request_text``).
            timeout: seconds to wait for replies.

        Returns:
            For each name, the different replies of this peer: one as a rule, an empty tuple if it
            has not replied, two if replies contradict each other.
        """
        ...

    def serve(self, handler: RequestHandler) -> None:
        """Go online. Raises the errors of ``peers``.

        Args:
            handler: answers requests; it is called on another thread.
        """
        ...

    def close(self) -> None:
        """Leave the network. A repeated call has no effect."""
        ...
