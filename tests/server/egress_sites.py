"""Sites with ledgers, on an engine in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedkin.config.server_settings import DisclosureSettings
from fedkin.server.disclosure import Floors
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import Outbox, Receiver
from fedkin.server.frames import Frames
from fedkin.server.message import RpcMessage, encode
from fedkin.server.node import Node, respond_recorded
from tests.server.memory_transport import Handler

WHOLE = 2**40  # no array becomes a separate frame, as on the engine in memory


def outbox_of(folder: Path, site: str = "site-0", **options: Any) -> Outbox:
    """The outbox of a site with a ledger in a folder."""
    receiver = Receiver("trial", "fed.example.org:8000", "ab" * 32)
    return Outbox(SiteLedger(folder), site, receiver, **options)


def recorded(make_node: Callable[[], Node], outbox: Outbox) -> Handler:
    """A handler of requests that writes a line for each reply."""

    def handle(request: RpcMessage) -> RpcMessage:
        reply, parts = respond_recorded(make_node, lambda: request, outbox, WHOLE)
        # The engine encodes the reply again, to the same bytes.
        assert Frames(encode(reply)) == parts
        return reply

    return handle


def floors_of(samples: ArrayLike, tests: Sequence[int] = (), **settings: Any) -> Floors:
    """Floors of a site with such clients, each with half of its samples in one class."""
    sizes = np.array(samples)
    counts = np.stack([sizes - sizes // 2, sizes // 2, 0 * sizes], axis=1)
    return Floors(
        settings=DisclosureSettings(**settings),
        samples=sizes,
        sizes=lambda split: np.array(tests),
        class_counts=lambda: counts,
    )
