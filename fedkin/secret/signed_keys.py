"""Signed announcements of the public keys that clients use in a secret sum, so that a server cannot
replace the keys.

A client signs with the certificate of its site (``security.signatures``). The signed content names
the sum, the client's number and its keys. Shapes: G holders of a client's shares, S bytes for a
signature with the signer's name and certificate.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from fedkin.core.errors import FedkinError
from fedkin.secret.client import Group, MaskingError
from fedkin.security.signatures import MessageSigner, SignatureError

SIGNATURE = 2048  # size in bytes, most of it the certificate
_LENGTHS = struct.Struct(">HHH")  # lengths of name, signature and certificate, sent before them


class Identity(NamedTuple):
    """The identity of a site: its name, and the signer with which it signs and checks signatures of
    other sites."""

    name: str
    signer: MessageSigner


def sign(identity: Identity | None, group: Group) -> UInt8[np.ndarray, "S"]:
    """A client's signature of its announcement, with its name and certificate, as S bytes.

    Args:
        identity: identity of the client; None if the client has none.
        group: a group of only the client, with its announcement.

    Raises:
        MaskingError: the client has no identity, or its certificate is longer than any certificate
            from fedkin.
    """
    name, signer = _required(identity)
    signature = signer.sign(_content(group, 0))
    name_bytes = name.encode()
    lengths = _LENGTHS.pack(len(name_bytes), len(signature), len(signer.certificate))
    text = lengths + name_bytes + signature + signer.certificate
    if len(text) > SIGNATURE:
        raise MaskingError(
            f"this site's certificate has {len(signer.certificate)} bytes, but certificate, name "
            f"and signature together may have only {SIGNATURE - _LENGTHS.size}; use a certificate "
            "made by fedkin.security.certificates.Authority"
        )
    return np.frombuffer(text.ljust(SIGNATURE, b"\0"), np.uint8)


def check_signed(
    identity: Identity | None, group: Group, signatures: UInt8[np.ndarray, "G S"]
) -> None:
    """Raise MaskingError unless all holders have signed their announcements.

    Args:
        identity: identity of the client that checks.
        group: holders of the client's shares.
        signatures: signatures of the holders.

    Raises:
        MaskingError: a signature does not verify, or two holders have the same name.
    """
    own = _required(identity)
    names = []
    for row in np.flatnonzero(group.present):
        number = int(group.holders[row])
        try:
            name, signature, certificate = _parts(signatures[row].tobytes())
            own.signer.check(name, certificate, signature, _content(group, int(row)))
        except (FedkinError, ValueError, struct.error) as error:
            detail = error.detail if isinstance(error, SignatureError) else str(error)
            raise MaskingError(f"the key of client {number} does not verify: {detail}") from error
        names.append(name)
    if len(set(names)) < len(names):
        raise MaskingError(
            "two clients have the same name: signed sums need sites with one client each"
        )


def _required(identity: Identity | None) -> Identity:
    """An identity that signed sums need. Raises MaskingError without one."""
    if identity is None:
        raise MaskingError(
            "secret.signed needs a certificate of this site: set sign_certificate and the other "
            "sign_ options in [client]"
        )
    return identity


def _content(group: Group, row: int) -> bytes:
    """The bytes that the client at place ``row`` of a group signs: a context that fits no other sum
    or client, and the client's announcement."""
    number = int(group.holders[row])
    context = b"fedkin secret sums 1 keys " + group.about + f" client {number} ".encode()
    return context + group.announced[row].tobytes()


def _parts(text: bytes) -> tuple[str, bytes, bytes]:
    """Split a signature as ``sign`` made it into the signer's name, the signature itself and the
    certificate. Raises ValueError or struct.error if the signature is damaged."""
    parts = []
    start = _LENGTHS.size
    for size in _LENGTHS.unpack_from(text):
        parts.append(text[start : start + size])
        start += size
    if start > len(text):
        raise ValueError("the signature is cut off")
    name, signature, certificate = parts
    return name.decode(), signature, certificate
