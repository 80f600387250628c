"""The server's side of a secret sum (the server learns a sum over clients, but no client's vector).
The server tracks which clients are present, decides which shares of secrets to request, and
computes the sum without masks.

Shapes: n clients of a group, G holders of each client's shares, V numbers of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int, UInt8, UInt32

from fedkin.core.errors import FedkinError
from fedkin.secret import client
from fedkin.secret.client import KEY, LEAST, MASK_KEY, NO_HOLDER, NOTHING, OWN_SEED
from fedkin.secret.neighbours import holders, threshold
from fedkin.security import secret_keys as keys
from fedkin.security.secret_keys import SecretKeyError


class LostSumError(FedkinError):
    """A secret sum cannot or must not be computed. Nothing is revealed about the clients'
    vectors."""


@dataclass
class Exchange:
    """The server's state of one secret sum over a group of clients.

    Attributes:
        about: names of the run, the round and the group, from which all keys are derived.
        clients: numbers of the clients that have announced keys, ascending.
        announced: announcement of each client (its public keys, and a commitment to its seed).
        places: holders of shares of each client's secrets, as positions among ``clients``.
        least: smallest number of clients in a sum.
        shared: clients that have sent encrypted shares for their holders.
        sealed: the encrypted shares, by client and by place of the holder.
        total: sum of the masked vectors.
        answered: clients whose vector is in the sum.
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
        self.shared = np.zeros(len(self.clients), bool)
        self.answered = np.zeros(len(self.clients), bool)
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
        """Start a sum over clients that have announced keys.

        Args:
            about: names of the run, the round and the group, from which all keys are derived.
            clients: numbers of the clients, ascending.
            announced: announcement of each client (its public keys, and a commitment to its seed).
            neighbours: approximate number of neighbours of each client.
            least: smallest number of clients in a sum.

        Raises:
            LostSumError: there are too few clients.
        """
        if len(clients) < least:
            raise LostSumError(
                f"{len(clients)} clients have announced keys, but {least} are needed"
            )
        return cls(
            about=about,
            clients=clients,
            announced=announced,
            places=holders(len(clients), neighbours),
            least=least,
        )

    @property
    def needed(self) -> int:
        """Smallest number of a client's holders, including itself, that must be in the sum. With
        fewer, clients refuse to answer."""
        return client.needed(self.places.shape[1], self.least)

    def leave_out_lonely(self) -> bool:
        """Remove each client if too few of its holders have sent shares.

        Such a client would refuse to send a vector. Removal repeats, since other clients may then
        have too few holders.

        Returns:
            Whether any client is left.
        """
        while True:
            lonely = self.shared & (self.partners.sum(axis=1) < self.needed)
            if not lonely.any():
                return bool(self.shared.any())
            self.shared &= ~lonely

    def can_reveal(self) -> Bool[np.ndarray, "n"]:
        """Which clients can be asked to reveal shares: those that have sent their vector, if enough
        of their holders have sent a vector too.

        Any other client would refuse to reveal a share.
        """
        answered_holders = (self.wanted() == OWN_SEED).sum(axis=1)
        return self.answered & (answered_holders >= self.needed)

    @property
    def partners(self) -> Bool[np.ndarray, "n G"]:
        """For each client, which of its holders it masks with: those that have sent their shares,
        if the client has sent its shares too."""
        return self.shared[self.places] & self.shared[:, None]

    def holder_numbers(self) -> Int[np.ndarray, "n G"]:
        """The holders of each client's shares, by client number and not by position."""
        return self.clients[self.places]

    def inbox(self) -> UInt8[np.ndarray, "n G _"]:
        """The encrypted shares for each client, one from each of its holders, in the order of
        ``places``."""
        return self.sealed[self.places, self._place_of_each]

    def add(self, position: int, masked: UInt32[np.ndarray, "V"]) -> None:
        """Add the masked vector of the client at this position to the sum."""
        if self.total is None:
            self.total = np.zeros_like(masked)
        self.total += masked
        self.answered[position] = True

    def wanted(self) -> Int[np.ndarray, "n G"]:
        """For each client and each of its holders, which share of the holder's secrets the client
        must reveal: OWN_SEED, MASK_KEY or NOTHING."""
        kinds = np.where(self.answered, OWN_SEED, MASK_KEY)[self.places]
        return np.where(self.partners & self.answered[:, None], kinds, NOTHING)

    def unmasked(
        self, revealed: UInt8[np.ndarray, "n G _"], replied: Bool[np.ndarray, "n"]
    ) -> UInt32[np.ndarray, "V"]:
        """The sum of the vectors that clients have sent, after all masks that do not cancel have
        been subtracted.

        Args:
            revealed: shares that each client has revealed, in the order of its holders.
            replied: which clients have revealed shares.

        Raises:
            LostSumError: too few clients have sent their vectors, or shares are missing or wrong.
        """
        count = int(self.answered.sum())
        if count < self.least or self.total is None:
            raise LostSumError(f"{count} clients have answered, but a sum needs {self.least}")
        answered = np.flatnonzero(self.answered).tolist()
        # Clients that have shared but sent no vector. Their neighbours' vectors still contain the
        # masks of pairs with them, which do not cancel.
        gone = np.flatnonzero(self.shared & ~self.answered).tolist()
        secrets = {
            position: self._secret(position, revealed, replied) for position in (*answered, *gone)
        }
        total = self.total.copy()
        for position in answered:
            keys.add_mask(total, client.own_mask(secrets[position], self.about), -1)
        for position in gone:
            self._subtract_pairs(total, position, secrets[position])
        return total

    def _secret(
        self, position: int, revealed: UInt8[np.ndarray, "n G _"], replied: Bool[np.ndarray, "n"]
    ) -> bytes:
        """The one secret of a client that the server needs, reconstructed from its holders' shares.

        This secret is the seed of the client's own mask if the client has sent its vector,
        otherwise the seed of its mask key. It is checked against the client's announcement.

        Raises:
            LostSumError: shares are missing or wrong.
        """
        its_holders = self.places[position]
        place_of_client = self._place_of_each[position]
        revealing = replied[its_holders] & self.partners[position]
        # Shamir's shares are numbered from 1, by the holder's place.
        shares = {
            int(place) + 1: revealed[its_holders[place], place_of_client[place]].tobytes()
            for place in np.flatnonzero(revealing)
        }
        announced = self.announced[position].tobytes()
        name = self.clients[position]
        try:
            secret = keys.combine(shares, threshold(len(its_holders)))
        except SecretKeyError as error:
            raise LostSumError(f"client {name}: {error}") from error
        if self.answered[position]:
            fits = client.commitment(secret, self.about) == announced[2 * KEY :]
        else:
            fits = keys.public_key(client.mask_private(secret, self.about)) == announced[:KEY]
        if not fits:
            raise LostSumError(f"the shares of client {name} do not match its announcement")
        return secret

    def _subtract_pairs(
        self, total: UInt32[np.ndarray, "V"], position: int, mask_seed: bytes
    ) -> None:
        """Remove from the sum the masks that other clients have in common with a client that has
        dropped out."""
        private = client.mask_private(mask_seed, self.about)
        gone = int(self.clients[position])
        its_holders = self.places[position]
        masked_with_it = its_holders[self.answered[its_holders] & self.partners[position]]
        for other in masked_with_it:
            number = int(self.clients[other])
            pair = client.pair_context(self.about, gone, number)
            key = client.pair_mask(private, self.announced[other, :KEY].tobytes(), pair)
            # The other client has added the mask if its number is lower, otherwise subtracted it.
            keys.add_mask(total, key, -1 if number < gone else 1)

    @cached_property
    def _place_of_each(self) -> Int[np.ndarray, "n G"]:
        """For each client and each of its holders, the client's place among the holder's holders.

        Every client has such a place, since each of two neighbours holds the other's shares.
        """
        count, size = self.places.shape
        rows = np.arange(count)[:, None]
        place = np.full((count, count), NO_HOLDER)
        place[rows, self.places] = np.arange(size)
        return place[self.places, rows]
