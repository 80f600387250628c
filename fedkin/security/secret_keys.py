"""Keys, masks and shares for secret sums (a server learns a sum over clients, but no client's
vector). A mask is pseudo-random numbers that hide a vector. A share is one of several pieces of a
secret. All primitives come from ``cryptography`` or, for Shamir's secret sharing, from
PyCryptodome.

Keys are agreed by X25519, and derived by HKDF (SHA-256) separately for each purpose. Masks are AES
in counter mode. Messages between clients are sealed by AES-GCM. (Flower 1.41 derives masks from
seeds of 28 to 32 bits, which a server can try exhaustively.)
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import UInt32

from fedkin.core.errors import FedkinError, MissingExtra

SEED = 16  # size of a shared secret in bytes
KEY = 32  # size of an X25519 key in bytes
_NONCE = 12  # size in bytes
_TAG = 16  # size in bytes
SEAL = _NONCE + _TAG  # bytes that sealing adds
_BLOCK = 2**16  # numbers of a mask that are generated at a time


class SecretKeyError(FedkinError):
    """A key or an encrypted message is invalid, or there are too few shares of a secret."""


def check_installed() -> None:
    """Raise MissingExtra if a library that secret sums need is not installed."""
    _cryptography()
    _shamir()


def new_seed() -> bytes:
    """A new secret of ``SEED`` bytes from the operating system's randomness."""
    return secrets.token_bytes(SEED)


def derived(secret: bytes, purpose: str, context: bytes, size: int = SEED) -> bytes:
    """Derive a key from a secret, separately for each purpose and context.

    Args:
        secret: a secret (e.g. one that two clients have agreed on).
        purpose: purpose of the key; each purpose gives a different key.
        context: where the key is used (e.g. names of the round and the clients); each context gives
            a different key.
        size: size of the key in bytes.
    """
    c = _cryptography()
    info = b"fedkin secret sums 1 " + purpose.encode() + b" " + context
    return c["HKDF"](algorithm=c["SHA256"](), length=size, salt=None, info=info).derive(secret)


def public_key(private: bytes) -> bytes:
    """The X25519 public key that belongs to a private key."""
    return _cryptography()["Private"].from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes) -> bytes:
    """The secret that two owners of X25519 keys agree on. Both compute the same secret.

    Args:
        private: private key of one owner.
        public: public key of the other owner.

    Raises:
        SecretKeyError: the public key is invalid.
    """
    c = _cryptography()
    try:
        of_other = c["Public"].from_public_bytes(public)
        return c["Private"].from_private_bytes(private).exchange(of_other)
    except ValueError as error:
        raise SecretKeyError(
            f"a client's public key is not a valid X25519 key of {KEY} bytes"
        ) from error


def add_mask(total: UInt32[np.ndarray, "V"], key: bytes, sign: int = 1) -> None:
    """Add a mask to a vector, or subtract the mask, modulo 2^32. A mask is pseudo-random numbers
    that are made from a key.

    Args:
        total: the vector, which is changed in place.
        key: 16 bytes, used for one mask only.
        sign: 1 to add, -1 to subtract.
    """
    c = _cryptography()
    # Counter mode turns zeros into a stream of pseudo-random bytes. It starts at 0 each time, so a
    # key must not be used twice.
    stream = c["Cipher"](c["AES"](key), c["CTR"](bytes(16))).encryptor()
    zeros = bytes(4 * _BLOCK)
    operation = np.add if sign > 0 else np.subtract
    for start in range(0, len(total), _BLOCK):
        part = total[start : start + _BLOCK]
        mask = np.frombuffer(stream.update(zeros[: 4 * len(part)]), "<u4")
        operation(part, mask, out=part)


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    """Encrypt content with a key. Without the key the content cannot be read, or changed unnoticed.

    Args:
        key: 16 bytes.
        content: plaintext.
        about: context of the content (e.g. sender and receiver); ``unseal`` needs the same context.
    """
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _cryptography()["AESGCM"](key).encrypt(nonce, content, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Decrypt content that ``seal`` encrypted.

    Args:
        key: 16 bytes.
        sealed: the result of ``seal``.
        about: the context with which ``seal`` encrypted the content.

    Raises:
        SecretKeyError: the content was encrypted with another key or context, or has been changed.
    """
    c = _cryptography()
    try:
        return c["AESGCM"](key).decrypt(sealed[:_NONCE], sealed[_NONCE:], about)
    except c["InvalidTag"] as error:
        raise SecretKeyError(
            "a share of a secret was not encrypted for this client in this round, or has been "
            "changed"
        ) from error


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """Split a secret of 16 bytes into shares by Shamir's scheme, one for each holder 1, 2, ...

    Args:
        secret: the secret.
        threshold: number of shares that reconstruct the secret; fewer reveal nothing about it.
        holders: number of holders, and of shares.
    """
    return [share for _, share in _shamir().split(threshold, holders, secret)]


def combine(shares: dict[int, bytes], threshold: int) -> bytes:
    """Reconstruct a secret from its shares. Raises SecretKeyError if there are too few shares.

    Args:
        shares: shares by the numbers of their holders, which start at 1.
        threshold: number of shares that are needed.
    """
    if len(shares) < threshold:
        raise SecretKeyError(
            f"there are {len(shares)} shares of a secret, but {threshold} are needed"
        )
    return _shamir().combine(list(shares.items())[:threshold])


@cache
def _cryptography() -> dict[str, Any]:
    """The classes of the package ``cryptography`` that secret sums use, imported on first use."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import (
            X25519PrivateKey,
            X25519PublicKey,
        )
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise _missing("cryptography") from error
    return {
        "Private": X25519PrivateKey,
        "Public": X25519PublicKey,
        "InvalidTag": InvalidTag,
        "Cipher": Cipher,
        "AESGCM": AESGCM,
        "AES": AES,
        "CTR": CTR,
        "SHA256": SHA256,
        "HKDF": HKDF,
    }


@cache
def _shamir() -> Any:
    """PyCryptodome's Shamir secret sharing, imported on first use."""
    try:
        from Crypto.Protocol.SecretSharing import Shamir
    except ImportError as error:
        raise _missing("PyCryptodome") from error
    return Shamir


def _missing(package: str) -> MissingExtra:
    """The error to raise if a package that secret sums need is not installed."""
    return MissingExtra(
        f"secret sums need {package}, which is not installed: pip install 'fedkin[secret]'"
    )
