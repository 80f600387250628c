"""Interface of the peers' network. ``zenoh_transport`` implements it; tests use an in-memory
one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

RequestHandler = Callable[[str], bytes | None]


@runtime_checkable
class PeerTransport(Protocol):
    """One peer's end of a network."""

    def peers(self) -> dict[str, str]:
        """The other peers that are online: the session of each by its name. A session ends with its
        process.

        Raises:
            ConfigError: another peer had this one's name first.
        """
        ...

    def request(
        self, names: Sequence[str], text: str, timeout: float
    ) -> dict[str, tuple[bytes, ...]]:
        """Send one request to several peers at once, and return the different replies of each.

        Args:
            names: of the peers.
            text: the request (``messages.request_text``).
            timeout: seconds after which a missing reply is abandoned.

        Returns:
            The replies by name: usually one, none if missing, at most two.
        """
        ...

    def serve(self, handler: RequestHandler) -> None:
        """Go online. Raises as ``peers`` does.

        Args:
            handler: replies to requests; called on another thread.
        """
        ...

    def close(self) -> None:
        """Leave the network; repeated calls do nothing."""
        ...
