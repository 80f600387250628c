"""A client's side of a secret sum (the server learns a sum over clients, but no client's vector):
four requests of the server, each answered once, in this order. The reply to each request is

    keys      two new public keys, and a commitment to the seed of the client's own mask
    shares    shares of the client's mask key and of this seed, encrypted ("sealed") for each
              holder; the holders are the client and its neighbours
    vector    the client's vector + its own mask + a common mask with each neighbour. Of the two
              clients with a common mask, the one with the lower number adds it, the other
              subtracts it
    reveal    for each neighbour ONE of the two shares: of the neighbour's seed if the neighbour's
              vector is in the sum (so that the server can subtract the neighbour's own mask),
              otherwise of the neighbour's mask key (so that the server can remove the common masks
              of the neighbour and other clients)

Source: Bonawitz et al. 2017, Practical Secure Aggregation. Masks come from
``security.secret_keys``. Between requests the client keeps a ``Session``, which it deletes after
revealing. Shapes: G holders of the client's shares, V numbers of a vector.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, UInt8, UInt32

from fedkin.core.errors import FedkinError
from fedkin.secret.neighbours import threshold
from fedkin.security import secret_keys as keys
from fedkin.security.secret_keys import KEY, SEAL, SEED, SecretKeyError

# Bytes of a client's announcement: public keys for masks and for shares, and the commitment.
ANNOUNCED = 3 * KEY
SEALED = 2 * SEED + SEAL  # bytes of the two shares that are sealed for a holder
LEAST = 3  # smallest number of clients in a sum that a client accepts
NO_HOLDER = -1  # fills the places of missing holders

# Which share of a client a holder must reveal.
NOTHING = 0
OWN_SEED = 1
MASK_KEY = 2

# Stages of a session: the last request that was answered.
_NEW = 1
_SHARED = 2
_MASKED = 3
_OVER = 4
SESSION = 1 + 32 + 2 * SEED + KEY + 32  # size of a session in bytes


class MaskingError(FedkinError):
    """A client refuses a request of a secret sum, for the reason in the error's text."""


@dataclass(frozen=True)
class Session:
    """The secrets that a client keeps between the requests of one sum.

    Attributes:
        stage: the last answered request.
        about: digest of the names of the run, the round and the group of clients.
        seed: seed of the client's own mask.
        mask_seed: seed of the client's private key for masks with neighbours.
        private: the client's private key, with which shares of secrets are encrypted.
        agreed: digest of the group (``Group``) in the last answered request. A later request that
            states another group is refused.
    """

    stage: int
    about: bytes
    seed: bytes = bytes(SEED)
    mask_seed: bytes = bytes(SEED)
    private: bytes = bytes(KEY)
    agreed: bytes = bytes(32)

    def array(self) -> Int[np.ndarray, "s"]:
        """The session as an array, to be stored in the client's memory."""
        parts = [self.about, self.seed, self.mask_seed, self.private, self.agreed]
        text = bytes([self.stage]) + b"".join(parts)
        return np.frombuffer(text, np.uint8).astype(np.int16)

    @classmethod
    def of(cls, array: Int[np.ndarray, "s"] | None) -> Session:
        """The session that ``array`` stored in an array. None gives a finished session, which
        answers no request."""
        if array is None:
            return cls(_OVER, bytes(32))
        text = array.astype(np.uint8).tobytes()
        parts = []
        start = 1
        for size in (32, SEED, SEED, KEY, 32):
            parts.append(text[start : start + size])
            start += size
        about, seed, mask_seed, private, agreed = parts
        return cls(
            stage=text[0],
            about=about,
            seed=seed,
            mask_seed=mask_seed,
            private=private,
            agreed=agreed,
        )


@dataclass(frozen=True)
class Group:
    """The clients that hold shares of a client's secrets, including the client itself, as the
    server states them.

    Attributes:
        about: names of the run, the round and the group, from which all keys are derived.
        me: number of the client.
        holders: numbers of the holders, padded with NO_HOLDER.
        announced: announcement of each holder (its public keys, and a commitment to its seed).
        least: smallest number of clients in a sum, from the run's settings.
    """

    about: bytes
    me: int
    holders: Int[np.ndarray, "G"]
    announced: UInt8[np.ndarray, "G _"]
    least: int = LEAST

    @property
    def present(self) -> Bool[np.ndarray, "G"]:
        """Which entries of ``holders`` name a holder; all others are the padding ``NO_HOLDER``."""
        return self.holders != NO_HOLDER

    @property
    def threshold(self) -> int:
        """Number of shares that are needed to reconstruct one of this client's secrets."""
        return threshold(int(self.present.sum()))

    @property
    def needed(self) -> int:
        """Smallest number of the holders, including the client, whose vectors must be in the sum;
        with fewer the client refuses to take part."""
        return needed(int(self.present.sum()), self.least)

    def digest(self, *extras: bytes) -> bytes:
        """A hash of all fields of this group, and of extra bytes, to notice if the server states
        another group in a later request."""
        content = hashlib.sha256(self.about + f"{self.me} of {self.least}".encode())
        content.update(self.holders.astype("<i8").tobytes())
        content.update(self.announced.tobytes())
        for extra in extras:
            content.update(extra)
        return content.digest()

    def pair(self, other: int) -> bytes:
        """The context from which this client and another client derive common keys."""
        return pair_context(self.about, self.me, other)

    def between(self, sender: int, receiver: int) -> bytes:
        """The context with which a sender encrypts its shares for a receiver."""
        return self.about + f" from {sender} to {receiver}".encode()


def begin(about: bytes) -> tuple[Session, UInt8[np.ndarray, "a"]]:
    """First request of a sum: make a client's new secrets, and the announcement of the public keys
    that belong to them."""
    session = Session(
        stage=_NEW,
        about=hashlib.sha256(about).digest(),
        seed=keys.new_seed(),
        mask_seed=keys.new_seed(),
        private=keys.new_seed() + keys.new_seed(),
    )
    return session, np.frombuffer(_announced(session, about), np.uint8)


def share(session: Session, group: Group) -> tuple[Session, UInt8[np.ndarray, "G _"]]:
    """Second request of a sum: split the client's two secrets (the seed of its mask, and the seed
    of its mask key) into shares, and encrypt one share of each for every holder.

    Args:
        session: the session after ``begin``.
        group: the holders of the client's shares; their keys have been verified.

    Raises:
        MaskingError: the client has answered this request already, or the list of holders is wrong
            or too short.
    """
    _expect(session, _NEW, group.about)
    present = np.flatnonzero(group.present)
    numbers = group.holders[present].tolist()
    if len(set(numbers)) < len(numbers) or group.me not in numbers:
        raise MaskingError("the request's list of holders names a client twice, or not this client")
    _enough(len(numbers), "hold shares")
    if group.announced[numbers.index(group.me)].tobytes() != _announced(session, group.about):
        raise MaskingError(
            "the request's keys for this client are not the ones that this client has announced"
        )
    mask_shares = keys.split(session.mask_seed, group.threshold, len(numbers))
    seed_shares = keys.split(session.seed, group.threshold, len(numbers))
    sealed = np.zeros((len(group.holders), SEALED), np.uint8)
    for place, (row, number) in enumerate(zip(present, numbers, strict=True)):
        content = mask_shares[place] + seed_shares[place]
        message = keys.seal(_channel(session, group, row), content, group.between(group.me, number))
        sealed[row] = np.frombuffer(message, np.uint8)
    return replace(session, stage=_SHARED, agreed=group.digest()), sealed


def mask(
    session: Session, group: Group, partners: Bool[np.ndarray, "G"], vector: UInt32[np.ndarray, "V"]
) -> tuple[Session, UInt32[np.ndarray, "V"]]:
    """Third request of a sum: the client's vector plus all its masks.

    Args:
        session: the session after ``share``.
        group: the holders, as in ``share``.
        partners: which of the holders the client masks with, including the client itself. All of
            these have sent their shares.
        vector: the client's vector of integers.

    Raises:
        MaskingError: the client has answered this request already, the holders have changed, or too
            few holders are left.
    """
    _expect(session, _SHARED, group.about)
    if group.digest() != session.agreed:
        raise MaskingError(
            "the request names other holders, keys or settings than the request for shares"
        )
    numbers = group.holders[partners & group.present].tolist()
    if group.me not in numbers:
        raise MaskingError("the sum does not include this client")
    _enough(len(numbers), "are left", group.needed)
    masked = vector.copy()
    keys.add_mask(masked, own_mask(session.seed, group.about))
    private = mask_private(session.mask_seed, group.about)
    for row in np.flatnonzero(partners & group.present):
        other = int(group.holders[row])
        if other == group.me:
            continue
        public = group.announced[row, :KEY].tobytes()
        key = pair_mask(private, public, group.pair(other))
        # The client with the lower number adds, the other subtracts, so that masks cancel.
        keys.add_mask(masked, key, 1 if group.me < other else -1)
    return replace(session, stage=_MASKED, agreed=group.digest(partners.tobytes())), masked


def reveal(
    session: Session,
    group: Group,
    partners: Bool[np.ndarray, "G"],
    sealed: UInt8[np.ndarray, "G _"],
    wanted: Int[np.ndarray, "G"],
) -> tuple[Session, UInt8[np.ndarray, "G s"]]:
    """Fourth request of a sum: for each neighbour, this client's share of the one secret that the
    server requests.

    The session ends with this request, and its secrets are deleted.

    Args:
        session: the session after ``mask``.
        group: the holders, as in ``share``.
        partners: which of the holders the client has masked with, as in ``mask``.
        sealed: the shares that each holder has encrypted for this client.
        wanted: the requested share of each holder: OWN_SEED if the holder's vector is in the sum,
            MASK_KEY if the holder has dropped out, otherwise NOTHING.

    Raises:
        MaskingError: the client has answered this request already, both shares of one client are
            requested, or the sum has too few clients.
    """
    _expect(session, _MASKED, group.about)
    if group.digest(partners.tobytes()) != session.agreed:
        raise MaskingError(
            "the request names other clients, keys or settings than the request for the vector"
        )
    if not np.isin(wanted, (NOTHING, OWN_SEED, MASK_KEY)).all():
        raise MaskingError(
            "both shares of one client are requested, which together would reveal its vector"
        )
    of_strangers = (wanted != NOTHING) & ~(partners & group.present)
    # Among its holders is the client itself. Its own vector is in the sum, so the server needs a
    # share of its seed, and must not request a share of its mask key.
    of_itself = wanted[group.holders == group.me]
    if of_strangers.any() or (of_itself != OWN_SEED).any():
        raise MaskingError(
            "the request asks for a share of a client with which this client has not masked its "
            "vector, or does not ask for this client's share of its seed"
        )
    _enough(int((wanted == OWN_SEED).sum()), "have answered", group.needed)
    shares = np.zeros((len(wanted), SEED), np.uint8)
    for row in np.flatnonzero(wanted):
        about = group.between(int(group.holders[row]), group.me)
        try:
            both = keys.unseal(_channel(session, group, row), sealed[row].tobytes(), about)
        except SecretKeyError as error:
            raise MaskingError(str(error)) from error
        # Never both: with both secrets of a client the server could unmask its vector.
        one_share = both[:SEED] if wanted[row] == MASK_KEY else both[SEED:]
        shares[row] = np.frombuffer(one_share, np.uint8)
    return Session(_OVER, session.about), shares


def needed(holders: int, least: int) -> int:
    """Number of holders of a client's shares, including the client, whose vectors must be in a sum.

    Args:
        holders: number of holders G.
        least: smallest number of clients in a sum. The number is ignored if it is above G, since a
            client sees only its own holders.
    """
    return max(threshold(holders), LEAST, least if least <= holders else 0)


def mask_private(mask_seed: bytes, about: bytes) -> bytes:
    """A client's private key for masks, derived from a seed. The seed is split into shares, and not
    the key, because the key is too long for Shamir's scheme with 16 bytes."""
    return keys.derived(mask_seed, "mask key", about, KEY)


def pair_context(about: bytes, one: int, other: int) -> bytes:
    """The context from which two clients derive common keys.

    These bytes name the sum and both clients. The lower number comes first, so that both clients
    use the same bytes.

    Args:
        about: names of the run, the round and the group.
        one: number of one client.
        other: number of the other client.
    """
    return about + f" {min(one, other)} {max(one, other)}".encode()


def pair_mask(private: bytes, public: bytes, pair: bytes) -> bytes:
    """The key of the mask that two clients have in common.

    Args:
        private: one client's key for masks.
        public: the other client's public key for masks.
        pair: the context of the two clients, from ``pair_context``.
    """
    return keys.derived(keys.agreed(private, public), "pair", pair)


def own_mask(seed: bytes, about: bytes) -> bytes:
    """The key of a client's own mask, which no other client knows.

    Args:
        seed: the client's seed.
        about: names of the run, the round and the group of clients.
    """
    return keys.derived(seed, "own", about)


def commitment(seed: bytes, about: bytes) -> bytes:
    """A digest of a seed, which a client publishes. With the digest the server can check a seed
    that was reconstructed from shares. The digest does not reveal the seed."""
    return keys.derived(seed, "commitment", about, KEY)


def _channel(session: Session, group: Group, row: int | np.integer) -> bytes:
    """The key that this client and one of its holders both derive, to encrypt the shares that they
    send each other through the server.

    Args:
        session: this client's session, with its private key for shares.
        group: the holders of this client's shares.
        row: place of the other holder in ``group.holders``.
    """
    # Bytes KEY to 2 KEY of an announcement are the holder's public key for shares.
    shared = keys.agreed(session.private, group.announced[row, KEY : 2 * KEY].tobytes())
    return keys.derived(shared, "channel", group.pair(int(group.holders[row])))


def _announced(session: Session, about: bytes) -> bytes:
    """The bytes that a client announces for its session: its public key for masks, its public key
    for shares, and the commitment to its seed."""
    mask_public = keys.public_key(mask_private(session.mask_seed, about))
    share_public = keys.public_key(session.private)
    return mask_public + share_public + commitment(session.seed, about)


def _expect(session: Session, stage: int, about: bytes) -> None:
    """Raise MaskingError if a client's session belongs to another sum, or if the request is not the
    next one of the sum. So no request is answered twice, which could reveal both secrets of a
    client."""
    if session.stage != stage or session.about != hashlib.sha256(about).digest():
        raise MaskingError(
            "the request is not the next one of this sum: each is answered once, in the order "
            "keys, shares, vector, reveal"
        )


def _enough(count: int, what: str, least: int = LEAST) -> None:
    """Raise MaskingError if there are fewer clients than a sum needs.

    Args:
        count: number of clients.
        what: what these clients do, for the message (e.g. "have answered").
        least: number of clients that are needed; never below ``LEAST``.
    """
    if count < max(least, LEAST):
        raise MaskingError(f"only {count} clients {what}, but {max(least, LEAST)} are needed")
