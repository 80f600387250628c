"""The network as peers need it; ``zenoh_transport`` is one, and tests use one in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

RequestHandler = Callable[[str], bytes | None]


@runtime_checkable
class Transport(Protocol):
    """One peer's end of a network."""

    def peers(self) -> dict[str, str]:
        """The other peers that are online: the session of each by its name. A session ends with its
        process.

        Raises:
            ConfigError: another peer has this one's name, and had it first.
        """
        ...

    def request(
        self, names: Sequence[str], text: str, timeout: float
    ) -> dict[str, tuple[bytes, ...]]:
        """Send one request to several peers at once, and return the different replies of each.

        Args:
            names: of the peers.
            text: the request (``messages.request_text``).
            timeout: seconds after which a missing reply is given up.

        Returns:
            For each name no reply, as a rule one, at most two.
        """
        ...

    def serve(self, handler: RequestHandler) -> None:
        """Be online from now on. Raises as ``peers`` does.

        Args:
            handler: replies to requests; called on another thread.
        """
        ...

    def close(self) -> None:
        """Leave the network; a second time it does nothing."""
        ...
