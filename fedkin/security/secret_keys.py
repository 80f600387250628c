"""Keys, masks and shares of secret sums. Every primitive is of ``cryptography`` or, for Shamir's
shares, PyCryptodome.

Keys are agreed by X25519 and derived by HKDF (SHA-256), with what they are for in the derivation;
masks are AES in counter mode; what one client sends another is sealed by AES-GCM. (Flower 1.41's
masks come from seeds of 28 to 32 bits, which a server can try one after another.)
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import UInt32

from fedkin.core.errors import FedkinError, MissingExtra

# bytes of what is shared, and of a key of X25519
SEED = 16
KEY = 32
_NONCE = 12
_TAG = 16
SEAL = _NONCE + _TAG  # bytes that a sealed content is longer
_BLOCK = 2**16  # numbers of a mask that are made at once


class SecretKeyError(FedkinError):
    """A key, a sealed content or shares that are not what they should be."""


def check_installed() -> None:
    """Raises MissingExtra where a library that secret sums need is not installed."""
    _cryptography()
    _shamir()


def new_seed() -> bytes:
    """A new secret of the operating system's randomness."""
    return secrets.token_bytes(SEED)


def derived(secret: bytes, purpose: str, context: bytes, size: int = SEED) -> bytes:
    """A key from a secret.

    Args:
        secret: such as one that two clients have agreed on.
        purpose: what the key is for: each purpose has another key.
        context: of which round and clients: each has another key.
        size: bytes.
    """
    c = _cryptography()
    info = b"fedkin secret sums 1 " + purpose.encode() + b" " + context
    return c["HKDF"](algorithm=c["SHA256"](), length=size, salt=None, info=info).derive(secret)


def public_key(private: bytes) -> bytes:
    """The public key of X25519 to a private one."""
    return _cryptography()["Private"].from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes) -> bytes:
    """What the owners of two keys of X25519 have in common. Raises SecretKeyError for a public key
    that is none."""
    c = _cryptography()
    try:
        return (
            c["Private"].from_private_bytes(private).exchange(c["Public"].from_public_bytes(public))
        )
    except ValueError as error:
        raise SecretKeyError("a public key that is none") from error


def add_mask(total: UInt32[np.ndarray, "V"], key: bytes, sign: int = 1) -> None:
    """Add the mask of a key, or subtract it, modulo 2^32, in place.

    Args:
        total: to which it is added.
        key: of 16 bytes, that is used for one mask only.
        sign: 1 or -1.
    """
    c = _cryptography()
    stream = c["Cipher"](c["AES"](key), c["CTR"](bytes(16))).encryptor()
    zeros = bytes(4 * _BLOCK)
    operation = np.add if sign > 0 else np.subtract
    for start in range(0, len(total), _BLOCK):
        part = total[start : start + _BLOCK]
        operation(part, np.frombuffer(stream.update(zeros[: 4 * len(part)]), "<u4"), out=part)


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    """Encrypt what only the owner of a key can read, or change.

    Args:
        key: of 16 bytes.
        content: that is sealed.
        about: what must be known, and the same, to open it.
    """
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _cryptography()["AESGCM"](key).encrypt(nonce, content, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """What ``seal`` sealed.

    Args:
        key: of 16 bytes.
        sealed: by it.
        about: as it was sealed.

    Raises:
        SecretKeyError: it was sealed with another key, about something else, or has been changed.
    """
    c = _cryptography()
    try:
        return c["AESGCM"](key).decrypt(sealed[:_NONCE], sealed[_NONCE:], about)
    except c["InvalidTag"] as error:
        raise SecretKeyError("a share that was not sealed for this client in this round") from error


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """Shamir's shares of a secret of 16 bytes, of holders 1, 2, ...; so many of them as the
    threshold give the secret, and fewer nothing.

    Args:
        secret: that is shared.
        threshold: shares that are enough.
        holders: number of shares.
    """
    return [share for _, share in _shamir().split(threshold, holders, secret)]


def combine(shares: dict[int, bytes], threshold: int) -> bytes:
    """The secret behind shares, by the numbers of their holders. Raises SecretKeyError for too few."""
    if len(shares) < threshold:
        raise SecretKeyError(
            f"{len(shares)} shares of a secret are there, and {threshold} are needed"
        )
    return _shamir().combine(list(shares.items())[:threshold])


@cache
def _cryptography() -> dict[str, Any]:
    """The parts of ``cryptography`` that are used, imported on first use."""
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
    parts = {"Private": X25519PrivateKey, "Public": X25519PublicKey, "InvalidTag": InvalidTag}
    return parts | {one.__name__: one for one in (Cipher, AESGCM, AES, CTR, SHA256, HKDF)}


@cache
def _shamir() -> Any:
    try:
        from Crypto.Protocol.SecretSharing import Shamir
    except ImportError as error:
        raise _missing("PyCryptodome") from error
    return Shamir


def _missing(package: str) -> MissingExtra:
    return MissingExtra(
        f"secret sums need {package}, which is not installed: pip install 'fedkin[secret]'"
    )
