"""Signed announcements of clients, so that a server cannot replace their keys.

A signature is made with a member's certificate (``security.signatures``), over the sum, the
client's number and its keys. Shapes: G holders of a client's shares, S bytes of a signature
followed by the name and the certificate.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from fedkin.core.errors import FedkinError
from fedkin.secret.client import Group, MaskingError
from fedkin.security.signatures import MessageSigner, SignatureError

SIGNATURE = 2048  # bytes, most of which are the certificate
_LENGTHS = struct.Struct(">HHH")  # of the name, the signature and the certificate, in front of them


class Identity(NamedTuple):
    """A member that signs, and checks other members' signatures."""

    name: str
    signer: MessageSigner


def sign(identity: Identity | None, group: Group) -> UInt8[np.ndarray, "S"]:
    """The signature of a client's announcement.

    Args:
        identity: the client's; None if it has none.
        group: contains only the client, with its announcement.

    Raises:
        MaskingError: the client has no identity, or its certificate is longer than any that fedkin
            makes.
    """
    if identity is None:
        raise MaskingError(
            "secret.signed needs a certificate of this site: sign_certificate and others in "
            "[client]"
        )
    name = identity.name.encode()
    signer = identity.signer
    signature = signer.sign(_content(group, 0))
    lengths = _LENGTHS.pack(len(name), len(signature), len(signer.certificate))
    text = lengths + name + signature + signer.certificate
    if len(text) > SIGNATURE:
        raise MaskingError(f"a certificate of {len(signer.certificate)} bytes, which is too long")
    return np.frombuffer(text.ljust(SIGNATURE, b"\0"), np.uint8)


def check_signed(
    identity: Identity | None, group: Group, signatures: UInt8[np.ndarray, "G S"]
) -> None:
    """Refuse holders whose announcements they have not signed.

    Args:
        identity: identity of the checking client.
        group: its holders.
        signatures: the holders' signatures.

    Raises:
        MaskingError: a signature does not verify, or two holders have the same name.
    """
    if identity is None:
        raise MaskingError(
            "secret.signed needs a certificate of this site: sign_certificate and others in "
            "[client]"
        )
    names = []
    for row in np.flatnonzero(group.present):
        number = int(group.holders[row])
        try:
            name, signature, certificate = _parts(signatures[row].tobytes())
            identity.signer.check(name, certificate, signature, _content(group, int(row)))
        except (FedkinError, ValueError, struct.error) as error:
            detail = error.detail if isinstance(error, SignatureError) else str(error)
            raise MaskingError(f"the key of client {number} does not verify: {detail}") from error
        names.append(name)
    if len(set(names)) < len(names):
        raise MaskingError("two clients of one name: signed sums are of sites with one client each")


def _content(group: Group, row: int) -> bytes:
    """The bytes that a client signs of its announcement."""
    number = int(group.holders[row])
    context = b"fedkin secret sums 1 keys " + group.about + f" client {number} ".encode()
    return context + group.announced[row].tobytes()


def _parts(text: bytes) -> tuple[str, bytes, bytes]:
    """Name, signature and certificate. Raises ValueError or struct.error for anything else."""
    parts = []
    start = _LENGTHS.size
    for size in _LENGTHS.unpack_from(text):
        parts.append(text[start : start + size])
        start += size
    if start > len(text):
        raise ValueError("it is cut")
    name, signature, certificate = parts
    return name.decode(), signature, certificate
