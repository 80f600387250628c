"""A secret sum without messages, step by step, with clients that are lost before any of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fedkin.secret import client
from fedkin.secret.client import LEAST, Group, Session
from fedkin.secret.server import Exchange

ABOUT = b"a sum, round 3, group 0"


class SmallSum:
    """The clients of a sum and their server.

    Args:
        clients: n.
        numbers: V.
        neighbours: of each.
        least: clients of the sum.
    """

    def __init__(
        self, clients: int, numbers: int = 50, neighbours: int = 20, least: int = LEAST
    ) -> None:
        begun = [client.begin(ABOUT) for _ in range(clients)]
        self.sessions: list[Session] = [session for session, _ in begun]
        announced = np.stack([one for _, one in begun])
        self.numbers = 3 * np.arange(clients) + 5
        self.exchange = Exchange.of(
            about=ABOUT,
            clients=self.numbers,
            announced=announced,
            neighbours=neighbours,
            least=least,
        )
        self.vectors = np.random.default_rng(clients).integers(
            0, 2**32, (clients, numbers), dtype=np.uint32
        )
        self.revealed = np.zeros((*self.exchange.places.shape, 16), np.uint8)
        self.replied = np.zeros(clients, bool)

    def group(self, position: int) -> Group:
        """The settings as a client gets them."""
        exchange = self.exchange
        return Group(
            about=ABOUT,
            me=int(self.numbers[position]),
            holders=exchange.holder_numbers()[position],
            announced=exchange.announced[exchange.places[position]],
            least=exchange.least,
        )

    def share(self, lost: Collection[int] = ()) -> None:
        """The second exchange."""
        for i in set(range(len(self.sessions))) - set(lost):
            self.sessions[i], self.exchange.sealed[i] = client.share(
                self.sessions[i], self.group(i)
            )
            self.exchange.shared[i] = True

    def mask(self, lost: Collection[int] = ()) -> None:
        """The third."""
        for i in set(np.flatnonzero(self.exchange.shared).tolist()) - set(lost):
            partners = self.exchange.partners[i]
            self.sessions[i], masked = client.mask(
                self.sessions[i], self.group(i), partners, self.vectors[i]
            )
            self.exchange.add(i, masked)

    def reveal(self, lost: Collection[int] = ()) -> None:
        """The last."""
        for i in set(np.flatnonzero(self.exchange.can_reveal()).tolist()) - set(lost):
            self.sessions[i], self.revealed[i] = client.reveal(*self.asked(i))
            self.replied[i] = True

    def asked(self, i: int) -> tuple[Session, Group, np.ndarray, np.ndarray, np.ndarray]:
        """What a client is asked in the last exchange."""
        exchange = self.exchange
        inbox = exchange.inbox()[i]
        wanted = exchange.wanted()[i]
        return self.sessions[i], self.group(i), exchange.partners[i], inbox, wanted

    def unmasked(self) -> np.ndarray:
        """The sum as the server has it."""
        return self.exchange.unmasked(self.revealed, self.replied)

    def plain(self) -> np.ndarray:
        """The sum of the vectors that have come, modulo 2^32."""
        return self.vectors[self.exchange.answered].sum(axis=0, dtype=np.uint64).astype(np.uint32)
