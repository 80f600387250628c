"""What peers need of a network; ``zenoh_transport`` is one, and tests put one in memory in its
place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

RequestHandler = Callable[[str], bytes | None]


@runtime_checkable
class Transport(Protocol):
    """One peer's end of a network."""

    def peers(self) -> dict[str, str]:
        """The other peers that are online: their names, and the session of each, another one after
        a restart.

        Raises ConfigError where another peer has this one's name, and had it first.
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
        """Be online from now on. ``handler`` is called on another thread. Raises as ``peers`` does."""
        ...

    def close(self) -> None:
        """Leave the network; a second time it does nothing."""
        ...
