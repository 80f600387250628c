"""The server's side of a secret sum: who is there, whose shares are wanted, and the sum without its
masks.

Shapes: n clients of a group, G holders of each client's shares, V numbers of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int, UInt8, UInt32

from fedkin.core.errors import FedkinError
from fedkin.secret import client
from fedkin.secret.client import KEY, LEAST, MASK_KEY, NOBODY, NOTHING, OWN_SEED
from fedkin.secret.neighbours import holders, threshold
from fedkin.security import secret_keys as keys
from fedkin.security.secret_keys import SecretKeyError


class LostSumError(FedkinError):
    """A sum that cannot be made, or must not be: nothing is known of its vectors."""


@dataclass
class Exchange:
    """One sum of a group of clients, as the server follows it.

    Attributes:
        about: run, round and group, which all keys are derived with.
        clients: numbers of those that have announced keys, ascending.
        announced: what each has announced.
        places: each client's holders, by position among ``clients``.
        least: clients without which there is no sum.
        shared: who has sealed shares for whom, [client, place].
        sealed: those.
        total: sum of the masked vectors.
        answered: whose vector is in it.
    """

    about: bytes
    clients: Int[np.ndarray, "n"]
    announced: UInt8[np.ndarray, "n _"]
    places: Int[np.ndarray, "n G"]
    least: int = LEAST
    shared: Bool[np.ndarray, "n"] = field(init=False)
    sealed: UInt8[np.ndarray, "n G _"] = field(init=False)
    answered: Bool[np.ndarray, "n"] = field(init=False)
    total: UInt32[np.ndarray, "V"] | None = None

    def __post_init__(self) -> None:
        self.shared, self.answered = np.zeros((2, len(self.clients)), bool)
        self.sealed = np.zeros((*self.places.shape, client.SEALED), np.uint8)

    @classmethod
    def of(
        cls,
        about: bytes,
        clients: Int[np.ndarray, "n"],
        announced: UInt8[np.ndarray, "n _"],
        neighbours: int,
        least: int = LEAST,
    ) -> Exchange:
        """A sum of clients that have announced keys.

        Args:
            about: as the attribute.
            clients: their numbers.
            announced: by each.
            neighbours: about how many each has.
            least: clients without which there is no sum.

        Raises:
            LostSumError: they are too few.
        """
        if len(clients) < least:
            raise LostSumError(
                f"{len(clients)} clients have announced keys, and {least} are needed"
            )
        return cls(about, clients, announced, holders(len(clients), neighbours), least)

    @property
    def needed(self) -> int:
        """Holders of each client, itself among them, that must be in the sum."""
        return client.needed(self.places.shape[1], self.least)

    def leave_out_lonely(self) -> bool:
        """Go on without clients too few of whose holders have shared, and without those that then
        have too few.

        They would refuse to send a vector. Returns whether anybody is left.
        """
        while (lonely := self.shared & (self.partners.sum(axis=1) < self.needed)).any():
            self.shared &= ~lonely
        return bool(self.shared.any())

    def can_reveal(self) -> Bool[np.ndarray, "n"]:
        """Clients that have answered, and enough of their holders: others would refuse to reveal
        anything."""
        return self.answered & ((self.wanted() == OWN_SEED).sum(axis=1) >= self.needed)

    @property
    def partners(self) -> Bool[np.ndarray, "n G"]:
        """Holders with whom each client masks: both have shared."""
        return self.shared[self.places] & self.shared[:, None]

    def holder_numbers(self) -> Int[np.ndarray, "n G"]:
        """Each client's holders, by their numbers."""
        return self.clients[self.places]

    def inbox(self) -> UInt8[np.ndarray, "n G _"]:
        """What each holder has sealed for each client, in the order of that client's holders."""
        return self.sealed[self.places, self._place_of_each]

    def add(self, position: int, masked: UInt32[np.ndarray, "V"]) -> None:
        """Take a client's masked vector."""
        self.total = np.zeros_like(masked) if self.total is None else self.total
        self.total += masked
        self.answered[position] = True

    def wanted(self) -> Int[np.ndarray, "n G"]:
        """Of which of its neighbours each client shall reveal what."""
        kinds = np.where(self.answered, OWN_SEED, MASK_KEY)[self.places]
        return np.where(self.partners & self.answered[:, None], kinds, NOTHING)

    def unmasked(
        self, revealed: UInt8[np.ndarray, "n G _"], replied: Bool[np.ndarray, "n"]
    ) -> UInt32[np.ndarray, "V"]:
        """The sum of the vectors of those that have answered.

        Args:
            revealed: by each client of its neighbours, in the order of its holders.
            replied: which clients have revealed anything.

        Raises:
            LostSumError: too few have answered, or shares are missing or wrong.
        """
        count = int(self.answered.sum())
        if count < self.least or self.total is None:
            raise LostSumError(f"{count} clients have answered, and {self.least} are needed")
        total = self.total.copy()
        seeds = {}
        gone = np.flatnonzero(
            self.shared & ~self.answered
        )  # others have masks with them in the sum
        for position in (*np.flatnonzero(self.answered), *gone):
            seeds[int(position)] = self._secret(int(position), revealed, replied)
        for position in np.flatnonzero(self.answered):
            keys.add_mask(total, client.own_mask(seeds[int(position)], self.about), -1)
        for position in gone:
            self._subtract_pairs(total, int(position), seeds[int(position)])
        return total

    def _secret(
        self, position: int, revealed: UInt8[np.ndarray, "n G _"], replied: Bool[np.ndarray, "n"]
    ) -> bytes:
        """A client's seed, or that of its mask key, from what its holders have revealed: the one
        that was announced."""
        own = self.places[position]
        back = self._place_of_each[position]
        there = replied[own] & self.partners[position]
        shares = {
            int(place) + 1: revealed[own[place], back[place]].tobytes()
            for place in np.flatnonzero(there)
        }
        announced = self.announced[position].tobytes()
        name = self.clients[position]
        try:
            secret = keys.combine(shares, threshold(len(own)))
        except SecretKeyError as error:
            raise LostSumError(f"client {name}: {error}") from error
        if self.answered[position]:
            fits = client.commitment(secret, self.about) == announced[2 * KEY :]
        else:
            fits = keys.public_key(client.mask_private(secret, self.about)) == announced[:KEY]
        if not fits:
            raise LostSumError(f"shares of client {name} are not those of what it has announced")
        return secret

    def _subtract_pairs(
        self, total: UInt32[np.ndarray, "V"], position: int, mask_seed: bytes
    ) -> None:
        """Take out the masks that others have with a client that has gone."""
        private = client.mask_private(mask_seed, self.about)
        me = int(self.clients[position])
        for other in self.places[position][
            self.answered[self.places[position]] & self.partners[position]
        ]:
            number = int(self.clients[other])
            pair = self.about + f" {min(me, number)} {max(me, number)}".encode()
            key = client.pair_mask(private, self.announced[other, :KEY].tobytes(), pair)
            keys.add_mask(total, key, -1 if number < me else 1)

    @cached_property
    def _place_of_each(self) -> Int[np.ndarray, "n G"]:
        """At which place of each of its holders' holders a client is; neighbours are mutual."""
        back = np.full((len(self.clients), len(self.clients)), NOBODY)
        back[np.arange(len(self.clients))[:, None], self.places] = np.arange(self.places.shape[1])
        return back[self.places, np.arange(len(self.clients))[:, None]]
