"""Members of a federation, each with a certificate."""

from __future__ import annotations

import base64
from pathlib import Path

from fedkin.security.certificates import Authority, write_public, write_secret
from fedkin.security.signatures import FileKeys, Signer

KEYS = FileKeys("mine.ca", "mine.certificate", "mine.key", cure="ask ada")


def certified(folder: Path, authority: Authority, name: str) -> Signer:
    """A member's own files, and its signer."""
    folder.mkdir(exist_ok=True)
    authority.save(folder / "ca.pem", folder / "ca-key.pem")
    certificate, key = authority.member(name)
    write_public(folder / f"{name}.pem", certificate)
    write_secret(folder / f"{name}-key.pem", key)
    return Signer(
        name=name,
        authority=folder / "ca.pem",
        certificate=folder / f"{name}.pem",
        key=folder / f"{name}-key.pem",
        keys=KEYS,
    )


def key_of_unknown_curve() -> bytes:
    """A private key in PEM format, of a curve that ``cryptography`` does not know."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    content = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # The identifier of prime239v1 replaces the one of P-256.
    p256 = bytes.fromhex("2a8648ce3d030107")
    text = base64.encodebytes(content.replace(p256, p256[:-1] + b"\4"))
    return b"-----BEGIN PRIVATE KEY-----\n" + text + b"-----END PRIVATE KEY-----\n"
