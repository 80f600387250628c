"""Signed statements: in-toto statements in DSSE envelopes, signed with Ed25519. Needs
``cryptography``.

A statement says something about files, which it names by their digests. The envelope (DSSE 1.0.2)
holds the statement's bytes and a signature of these bytes together with their type. A signature is
checked before the statement is read, and only the checked bytes are read.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.core.strict_json import json_text
from fedkin.security.line_chain import line_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_MAKE_KEY = "openssl genpkey -algorithm ed25519 -out egress-key.pem"
_MAKE_PUBLIC = "openssl pkey -in egress-key.pem -pubout -out egress-key.pub"


class Statement(NamedTuple):
    """A statement about files.

    Attributes:
        subject: SHA-256 digest of each file, by the file's name.
        predicate_type: a URI that names the meaning of ``predicate``.
        predicate: the statement's content: plain values.
    """

    subject: dict[str, str]
    predicate_type: str
    predicate: dict[str, Any]

    def payload(self) -> bytes:
        """The statement in the form of in-toto, as bytes: JSON with sorted keys, without blanks."""
        value = {
            "_type": STATEMENT,
            "subject": [
                {"name": name, "digest": {"sha256": digest}}
                for name, digest in self.subject.items()
            ],
            "predicateType": self.predicate_type,
            "predicate": self.predicate,
        }
        return line_text(value).encode()


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: DSSE's pre-authentication encoding of a payload and its type."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(statement: Statement, key: Ed25519PrivateKey) -> str:
    """The envelope of a statement, as the text of a JSON file.

    Args:
        statement: the statement.
        key: the private key that signs it.
    """
    payload = statement.payload()
    signature = key.sign(pre_authentication(PAYLOAD_TYPE, payload))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}
        ],
    }
    return json_text(envelope)


def verify(envelope: bytes, key: Ed25519PublicKey, where: str) -> Statement:
    """The statement in an envelope, whose signature is checked first.

    The key identifier in an envelope is a hint and decides nothing: one of the signatures must be
    by ``key``.

    Args:
        envelope: the content of the envelope's file.
        key: the public key of the signer.
        where: name of the file, for messages.

    Raises:
        ConfigError: no signature is by this key, or the file holds no signed statement.
    """
    payload_type, payload, signatures = _parts(envelope, where)
    signed = pre_authentication(payload_type, payload)
    if not any(_is_signature(key, signature, signed) for signature in signatures):
        raise ConfigError(
            f"{where}: no signature is by this key, or the statement was changed after it was "
            "signed; check it with the signer's public key, and fetch the file again"
        )
    if payload_type != PAYLOAD_TYPE:
        raise ConfigError(f"{where}: holds {payload_type[:60]!r}, expected {PAYLOAD_TYPE!r}")
    return _statement(payload, where)


def key_id(key: Ed25519PublicKey) -> str:
    """A name for a public key: the first 16 digits of the SHA-256 digest of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private Ed25519 key without a password, in the format PEM or OpenSSH.

    Raises:
        ConfigError: the file cannot be read, or holds another kind of key.
        MissingExtra: ``cryptography`` is not installed.
    """
    c = _cryptography()
    content = _read(path, _MAKE_KEY)
    try:
        if content.startswith(_OPENSSH):
            key = c.serialization.load_ssh_private_key(content, None)
        else:
            key = c.serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, c.UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path}: is no private key in the format PEM or OpenSSH, or has a password; make a "
            f"key: {_MAKE_KEY}"
        ) from error
    if not isinstance(key, c.ed25519.Ed25519PrivateKey):
        raise ConfigError(
            f"{path}: expected an Ed25519 key, got another kind; make a key for statements only: "
            f"{_MAKE_KEY}"
        )
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public Ed25519 key in the format PEM or OpenSSH. Raises as ``read_private_key``."""
    c = _cryptography()
    content = _read(path, _MAKE_PUBLIC)
    try:
        if content.startswith((b"ssh-", b"ecdsa-")):
            key = c.serialization.load_ssh_public_key(content)
        else:
            key = c.serialization.load_pem_public_key(content)
    except (ValueError, TypeError, c.UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path}: is no public key in the format PEM or OpenSSH; write the public key of a "
            f"private key: {_MAKE_PUBLIC}"
        ) from error
    if not isinstance(key, c.ed25519.Ed25519PublicKey):
        raise ConfigError(f"{path}: expected a public Ed25519 key, got another kind")
    return key


def _parts(envelope: bytes, where: str) -> tuple[str, bytes, list[bytes]]:
    """Type and bytes of an envelope's statement, and the signatures. Raises ConfigError."""
    try:
        values = json.loads(envelope)
        payload = base64.b64decode(values["payload"], validate=True)
        signatures = [
            base64.b64decode(signature["sig"], validate=True) for signature in values["signatures"]
        ]
        payload_type = str(values["payloadType"])
        payload_type.encode()  # a UnicodeEncodeError is a ValueError
        return payload_type, payload, signatures
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{where}: is no signed statement (a DSSE envelope); fedkin egress sign writes one"
        ) from error


def _is_signature(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    """Whether a signature of these bytes is by a key."""
    try:
        key.verify(signature, signed)
    except _cryptography().InvalidSignature:
        return False
    return True


def _statement(payload: bytes, where: str) -> Statement:
    """The statement in checked bytes. Raises ConfigError for bytes that hold no statement."""
    try:
        values = json.loads(payload)
        if values["_type"] != STATEMENT or not isinstance(values["predicate"], dict):
            raise ValueError("another type")
        subject = {entry["name"]: entry["digest"]["sha256"] for entry in values["subject"]}
        return Statement(subject, str(values["predicateType"]), values["predicate"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{where}: the signed content is no in-toto statement") from error


def _read(path: Path, cure: str) -> bytes:
    """The content of a key's file. Raises ConfigError if it cannot be read, with the command that
    makes such a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the key {path} cannot be read: {error.strerror}; make one: {cure}"
        ) from error


class _Cryptography:
    """The parts of the package ``cryptography`` that statements use."""

    def __init__(self) -> None:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        self.serialization = serialization
        self.ed25519 = ed25519
        self.InvalidSignature = InvalidSignature
        self.UnsupportedAlgorithm = UnsupportedAlgorithm


def _cryptography() -> _Cryptography:
    """Import the package ``cryptography``. Raises MissingExtra if it is not installed."""
    try:
        return _Cryptography()
    except ImportError as error:
        raise MissingExtra(
            "signed statements need the package cryptography, which is not installed: pip install "
            "'fedkin[flower]'"
        ) from error
