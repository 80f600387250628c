"""A client's side of a secret sum: four requests, each answered once, in this order.

    keys      two new public keys, and a commitment to the seed of its own mask
    shares    of its mask key and of that seed, sealed for each holder
    vector    + own mask + masks with each neighbour, added by the one with the lower number and subtracted by the other
    reveal    of each holder's neighbour ONE of the two shares: its seed where its vector is in the sum, else its key

Bonawitz et al. 2017, Practical Secure Aggregation; masks are of ``security.secret_keys``. Between
requests the client keeps a ``Session``, and nothing once it has revealed. Shapes: G holders of its
shares, V numbers of a vector.
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

ANNOUNCED = (
    3 * KEY
)  # bytes of a client's announcement: public keys of masks and of shares, and the commitment
SEALED = 2 * SEED + SEAL  # bytes of the shares that are sealed for a holder
LEAST = 3  # a client takes part in no sum of fewer
NOBODY = -1  # among holders: a place that is not taken
# what is asked of a holder about a client
NOTHING = 0
OWN_SEED = 1
MASK_KEY = 2
# stages
_NEW = 1
_SHARED = 2
_MASKED = 3
_OVER = 4
SESSION = 1 + 32 + 2 * SEED + KEY + 32  # bytes


class RefusedError(FedkinError):
    """A request that a client does not answer."""


@dataclass(frozen=True)
class Session:
    """What a client keeps between the requests of one sum.

    Attributes:
        stage: what it has answered.
        about: digest of run, round and group.
        seed: of its own mask.
        mask_seed: of its key of masks with neighbours.
        private: its key of shares.
        agreed: digest of all that later requests must not change.
    """

    stage: int
    about: bytes
    seed: bytes = bytes(SEED)
    mask_seed: bytes = bytes(SEED)
    private: bytes = bytes(KEY)
    agreed: bytes = bytes(32)

    def array(self) -> Int[np.ndarray, "s"]:
        """As a client's memory has it."""
        text = (
            bytes([self.stage])
            + self.about
            + self.seed
            + self.mask_seed
            + self.private
            + self.agreed
        )
        return np.frombuffer(text, np.uint8).astype(np.int16)

    @classmethod
    def of(cls, array: Int[np.ndarray, "s"] | None) -> Session:
        """What ``array`` made; of None one that has ended."""
        if array is None:
            return cls(_OVER, bytes(32))
        text = array.astype(np.uint8).tobytes()
        parts = []
        start = 1
        for size in (32, SEED, SEED, KEY, 32):
            parts.append(text[start : start + size])
            start += size
        return cls(text[0], *parts)


@dataclass(frozen=True)
class Group:
    """The clients that hold a client's shares, itself among them, as the server says.

    Attributes:
        about: run, round and group, which all keys are derived with.
        me: the client's number.
        holders: numbers of the holders; NOBODY behind them.
        announced: what each has announced.
        least: clients without which there is no sum, as the run's settings say.
    """

    about: bytes
    me: int
    holders: Int[np.ndarray, "G"]
    announced: UInt8[np.ndarray, "G _"]
    least: int = LEAST

    @property
    def present(self) -> Bool[np.ndarray, "G"]:
        """Places that are taken."""
        return self.holders != NOBODY

    @property
    def threshold(self) -> int:
        """Shares that give a secret."""
        return threshold(int(self.present.sum()))

    @property
    def needed(self) -> int:
        """Holders, the client among them, that must be in the sum."""
        return needed(int(self.present.sum()), self.least)

    def digest(self, *more: bytes) -> bytes:
        """Of all of it, and more."""
        content = hashlib.sha256(self.about + f"{self.me} of {self.least}".encode())
        for part in (self.holders.astype("<i8").tobytes(), self.announced.tobytes(), *more):
            content.update(part)
        return content.digest()

    def pair(self, other: int) -> bytes:
        """What keys of two clients are derived with."""
        return self.about + f" {min(self.me, other)} {max(self.me, other)}".encode()

    def between(self, sender: int, receiver: int) -> bytes:
        """What shares are sealed with."""
        return self.about + f" from {sender} to {receiver}".encode()


def begin(about: bytes) -> tuple[Session, UInt8[np.ndarray, "a"]]:
    """New secrets for a sum, and what is announced of them."""
    secrets = keys.new_seed(), keys.new_seed(), keys.new_seed() + keys.new_seed()
    session = Session(_NEW, hashlib.sha256(about).digest(), *secrets)
    return session, np.frombuffer(_announced(session, about), np.uint8)


def share(session: Session, group: Group) -> tuple[Session, UInt8[np.ndarray, "G _"]]:
    """Shares of the client's two secrets, sealed for each holder.

    Args:
        session: after ``begin``.
        group: its holders, whose keys have been verified.

    Raises:
        RefusedError: it has answered this already, or these holders are not to be trusted with it.
    """
    _expect(session, _NEW, group.about)
    present = np.flatnonzero(group.present)
    numbers = group.holders[present].tolist()
    if len(set(numbers)) < len(numbers) or group.me not in numbers:
        raise RefusedError("holders of shares that are there twice, or without the client itself")
    _enough(len(numbers), "hold shares")
    if group.announced[numbers.index(group.me)].tobytes() != _announced(session, group.about):
        raise RefusedError("keys that this client has not announced")
    secrets = (session.mask_seed, session.seed)
    shares = [keys.split(secret, group.threshold, len(numbers)) for secret in secrets]
    sealed = np.zeros((len(group.holders), SEALED), np.uint8)
    for place, (row, number) in enumerate(zip(present, numbers, strict=True)):
        content = shares[0][place] + shares[1][place]
        message = keys.seal(_channel(session, group, row), content, group.between(group.me, number))
        sealed[row] = np.frombuffer(message, np.uint8)
    return replace(session, stage=_SHARED, agreed=group.digest()), sealed


def mask(
    session: Session, group: Group, partners: Bool[np.ndarray, "G"], vector: UInt32[np.ndarray, "V"]
) -> tuple[Session, UInt32[np.ndarray, "V"]]:
    """The client's vector, behind masks.

    Args:
        session: after ``share``.
        group: as in ``share``.
        partners: holders with whom it masks, itself among them: they have shared as well.
        vector: integers.

    Raises:
        RefusedError: it has answered this already, for others, or too few are left.
    """
    _expect(session, _SHARED, group.about)
    if group.digest() != session.agreed:
        raise RefusedError("other holders than those that have the shares")
    numbers = group.holders[partners & group.present].tolist()
    if group.me not in numbers:
        raise RefusedError("a sum without this client")
    _enough(len(numbers), "are left", group.needed)
    masked = vector.copy()
    own = mask_private(session.mask_seed, group.about)
    keys.add_mask(masked, own_mask(session.seed, group.about))
    for row in np.flatnonzero(partners & group.present):
        if (other := int(group.holders[row])) != group.me:
            key = pair_mask(own, group.announced[row, :KEY].tobytes(), group.pair(other))
            keys.add_mask(masked, key, 1 if group.me < other else -1)
    return replace(session, stage=_MASKED, agreed=group.digest(partners.tobytes())), masked


def reveal(
    session: Session,
    group: Group,
    partners: Bool[np.ndarray, "G"],
    sealed: UInt8[np.ndarray, "G _"],
    wanted: Int[np.ndarray, "G"],
) -> tuple[Session, UInt8[np.ndarray, "G s"]]:
    """One share of each neighbour about whom one is wanted; the session is over, and its secrets
    forgotten.

    Args:
        session: after ``mask``.
        group: as in ``share``.
        partners: as in ``mask``.
        sealed: what each holder has sealed for this client.
        wanted: OWN_SEED of a client whose vector is in the sum, MASK_KEY of one that has gone, else
            NOTHING.

    Raises:
        RefusedError: it has answered already, both shares of one client are wanted, or the sum is
            of too few.
    """
    _expect(session, _MASKED, group.about)
    if group.digest(partners.tobytes()) != session.agreed:
        raise RefusedError("other clients than those with whom this one has masked")
    if not np.isin(wanted, (NOTHING, OWN_SEED, MASK_KEY)).all():
        raise RefusedError("both shares of one client")
    if ((wanted != NOTHING) & ~(partners & group.present)).any() or (
        wanted[group.holders == group.me] != OWN_SEED
    ).any():
        raise RefusedError("a share of a client with which this one has not masked, or its own key")
    _enough(int((wanted == OWN_SEED).sum()), "have answered", group.needed)
    shares = np.zeros((len(wanted), SEED), np.uint8)
    for row in np.flatnonzero(wanted):
        about = group.between(int(group.holders[row]), group.me)
        try:
            both = keys.unseal(_channel(session, group, row), sealed[row].tobytes(), about)
        except SecretKeyError as error:
            raise RefusedError(str(error)) from error
        own = both[:SEED] if wanted[row] == MASK_KEY else both[SEED:]
        shares[row] = np.frombuffer(own, np.uint8)
    return Session(_OVER, session.about), shares


def needed(holders: int, least: int) -> int:
    """How many holders of a client's shares, itself among them, must be in a sum.

    Args:
        holders: G.
        least: clients of a sum. Above G a client cannot see whether they are there.
    """
    return max(threshold(holders), LEAST, least if least <= holders else 0)


def mask_private(mask_seed: bytes, about: bytes) -> bytes:
    """The private key of masks, from the seed that is shared in its place."""
    return keys.derived(mask_seed, "mask key", about, KEY)


def pair_mask(private: bytes, public: bytes, pair: bytes) -> bytes:
    """The key of the mask of two clients.

    Args:
        private: one's key of masks.
        public: the other's.
        pair: as of ``Group.pair``.
    """
    return keys.derived(keys.agreed(private, public), "pair", pair)


def own_mask(seed: bytes, about: bytes) -> bytes:
    """The key of a client's own mask."""
    return keys.derived(seed, "own", about)


def commitment(seed: bytes, about: bytes) -> bytes:
    """By which a seed is known again and not found."""
    return keys.derived(seed, "commitment", about, KEY)


def _channel(session: Session, group: Group, row: int | np.integer) -> bytes:
    """The key by which two clients seal what they send each other."""
    shared = keys.agreed(session.private, group.announced[row, KEY : 2 * KEY].tobytes())
    return keys.derived(shared, "channel", group.pair(int(group.holders[row])))


def _announced(session: Session, about: bytes) -> bytes:
    public = (
        keys.public_key(mask_private(session.mask_seed, about)),
        keys.public_key(session.private),
    )
    return b"".join((*public, commitment(session.seed, about)))


def _expect(session: Session, stage: int, about: bytes) -> None:
    if session.stage != stage or session.about != hashlib.sha256(about).digest():
        raise RefusedError(
            "a request that is not the next one of this sum: each is answered once, in its order"
        )


def _enough(count: int, what: str, least: int = LEAST) -> None:
    if count < max(least, LEAST):
        raise RefusedError(f"only {count} clients {what}, and {max(least, LEAST)} are needed")
