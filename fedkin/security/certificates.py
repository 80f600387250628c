"""Certificates of a federation: who may take part, and who said what. Needs ``cryptography``.

One authority signs a certificate for every peer, whose common name is the peer's name. Zenoh lets nobody in without one
(mutual TLS). A member could still answer in another's place; so messages are signed with the sender's key, and the
access rules let no member declare what is another's.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.p2p.messages import WireError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.x509 import Certificate

AUTHORITY_DAYS, MEMBER_DAYS = 3650, 825


class Authority:
    """Makes the certificates of one federation."""

    def __init__(self, certificate: Certificate, key: EllipticCurvePrivateKey) -> None:
        self.certificate, self._key = certificate, key

    @classmethod
    def new(cls, federation: str) -> Authority:
        """A fresh authority."""
        c = _cryptography()
        key = c.ec.generate_private_key(c.ec.SECP256R1())
        name = _name(f"fedkin {federation}")
        usage = c.x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(c.x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        known_by = c.x509.SubjectKeyIdentifier.from_public_key(key.public_key())  # strict readers of TLS ask for it
        builder = builder.add_extension(known_by, critical=False)
        return cls(builder.sign(key, c.hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: Path, key: Path) -> Authority:
        """One that was written before. Raises ConfigError where it cannot be read."""
        return cls(_read_certificate(certificate, "authority"), _read_key(key, "authority"))

    def save(self, certificate: Path, key: Path) -> None:
        """Write both; only its owner can read the key."""
        write_public(certificate, _pem(self.certificate))
        write_secret(key, _pem_key(self._key))

    def member(self, name: str, addresses: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """A certificate and its key for a peer, or for a server that is reached at some ``addresses`` too (names or
        numbers); both in PEM."""
        c = _cryptography()
        key = c.ec.generate_private_key(c.ec.SECP256R1())
        ways = [c.x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, c.x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(name), self.certificate.subject, key.public_key(), MEMBER_DAYS)
        builder = builder.add_extension(c.x509.BasicConstraints(ca=False, path_length=None), critical=True)
        names = [c.x509.DNSName(name), *map(_address, addresses)]
        builder = builder.add_extension(c.x509.SubjectAlternativeName(names), critical=False)
        issuer = c.x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        builder = builder.add_extension(c.x509.ExtendedKeyUsage(ways), critical=False)
        return _pem(builder.sign(self._key, c.hashes.SHA256())), _pem_key(key)


class Signer:
    """Signs with a peer's own key, and checks others against the authority (a ``wire.MessageSigner``).

    Raises MissingExtra without ``cryptography``; ConfigError for files that cannot be read, do not belong together, or
    are not this peer's.
    """

    def __init__(self, name: str, authority: Path, certificate: Path, key: Path) -> None:
        c = _cryptography()
        self._authority = _read_certificate(authority, "network.tls.ca")
        own = _read_certificate(certificate, "network.tls.certificate")
        self._key = _read_key(key, "network.tls.key")
        if own.public_key() != self._key.public_key():
            raise ConfigError(f"network.tls.key: {key} is not the key of {certificate}")
        self.certificate = own.public_bytes(c.serialization.Encoding.DER)
        self._known: dict[tuple[str, bytes], EllipticCurvePublicKey] = {}
        try:
            self._key_of(name, self.certificate)
        except WireError as error:
            why = f"{certificate} is not that of {name!r}: {error.detail}"
            raise ConfigError(f"network.tls.certificate: {why}") from error

    def sign(self, content: bytes) -> bytes:
        c = _cryptography()
        return self._key.sign(content, c.ec.ECDSA(c.hashes.SHA256()))

    def check(self, name: str, certificate: bytes, signature: bytes, content: bytes) -> None:
        c = _cryptography()
        try:
            self._key_of(name, certificate).verify(signature, content, c.ec.ECDSA(c.hashes.SHA256()))
        except c.InvalidSignature as error:
            raise WireError("signature", "it does not fit") from error

    def _key_of(self, name: str, certificate: bytes) -> EllipticCurvePublicKey:
        """The public key in a certificate of this authority for this name. Raises WireError for any other."""
        if (name, certificate) not in self._known:
            self._known = {key: value for key, value in self._known.items() if key[0] != name}  # one for each name
            self._known[name, certificate] = self._verified(name, certificate)
        return self._known[name, certificate]

    def _verified(self, name: str, certificate: bytes) -> EllipticCurvePublicKey:
        c = _cryptography()
        try:
            shown = c.x509.load_der_x509_certificate(certificate)
            shown.verify_directly_issued_by(self._authority)
            names = [entry.value for entry in shown.subject.get_attributes_for_oid(c.x509.oid.NameOID.COMMON_NAME)]
            key = shown.public_key()
            now = datetime.datetime.now(datetime.UTC)
            valid = shown.not_valid_before_utc <= now <= shown.not_valid_after_utc
        except (ValueError, TypeError, c.InvalidSignature, c.UnsupportedAlgorithm) as error:
            raise WireError("certificate", "it is not of this federation's authority") from error
        if names != [name]:
            raise WireError("certificate", f"it was made for {' and '.join(map(str, names))[:64]!r}")
        if not valid:
            raise WireError("certificate", "it has expired, or is not valid yet")
        if not isinstance(key, c.ec.EllipticCurvePublicKey):
            raise WireError("certificate", "its key is of another kind")
        return key


def access_rules(federation: str, names: Sequence[str]) -> dict[str, Any]:
    """What Zenoh lets whom do, by certificate name: all may ask all; what a member declares and answers is its own;
    everything else is denied."""
    root = f"fedkin/{federation}"
    asking = ["query", "liveliness_query", "declare_liveliness_subscriber"]
    giving = ["reply", "declare_queryable", "liveliness_token"]
    all_keys = [f"{root}/model/*", f"{root}/alive/**"]
    rules: list[dict[str, Any]] = [
        {"id": "in", "messages": asking, "flows": ["ingress"], "key_exprs": all_keys},
        {"id": "out", "messages": asking + giving, "flows": ["egress"], "key_exprs": all_keys},
    ]
    for name in names:
        own = [f"{root}/model/{name}", f"{root}/alive/{name}/*"]
        rules.append({"id": f"own {name}", "messages": giving, "flows": ["ingress"], "key_exprs": own})
    return {
        "access_control": {
            "enabled": True,
            "default_permission": "deny",
            "rules": [{**rule, "permission": "allow"} for rule in rules],
            "subjects": [{"id": name, "cert_common_names": [name]} for name in names],
            "policies": [{"rules": ["in", "out", f"own {name}"], "subjects": [name]} for name in names],
        }
    }


def write_public(path: Path, content: bytes) -> None:
    """A file that anybody may read."""
    path.write_bytes(content)


def write_secret(path: Path, content: bytes) -> None:
    """A file that its owner alone may read, from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _builder(name: Any, issuer: Any, key: Any, days: int) -> Any:
    c = _cryptography()
    now = datetime.datetime.now(datetime.UTC)
    builder = c.x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(c.x509.random_serial_number())
    an_hour = datetime.timedelta(hours=1)  # clocks differ
    return builder.not_valid_before(now - an_hour).not_valid_after(now + datetime.timedelta(days=days))


def _name(text: str) -> Any:
    c = _cryptography()
    return c.x509.Name([c.x509.NameAttribute(c.x509.oid.NameOID.COMMON_NAME, text)])


def _address(text: str) -> Any:
    """Where a server is reached: a number or a name."""
    c = _cryptography()
    try:
        return c.x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return c.x509.DNSName(text)


def _pem(certificate: Certificate) -> bytes:
    return certificate.public_bytes(_cryptography().serialization.Encoding.PEM)


def _pem_key(key: EllipticCurvePrivateKey) -> bytes:
    s = _cryptography().serialization
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())


def _read_certificate(path: Path, where: str) -> Certificate:
    try:
        return _cryptography().x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{where}: {path} cannot be read: {error.strerror}; fedkin peer init makes them") from error
    except ValueError as error:
        raise ConfigError(f"{where}: {path} is not a certificate in PEM") from error


def _read_key(path: Path, where: str) -> EllipticCurvePrivateKey:
    c = _cryptography()
    try:
        key = c.serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise ConfigError(f"{where}: {path} cannot be read: {error.strerror}; fedkin peer init makes them") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {path} is not a key in PEM without a password") from error
    if not isinstance(key, c.ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{where}: {path} must be a key of an elliptic curve (P-256), got another kind")
    return key


class _Cryptography:
    """The parts of ``cryptography`` that are used, imported when they are."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self.x509, self.hashes, self.serialization, self.ec = x509, hashes, serialization, ec
        self.InvalidSignature, self.UnsupportedAlgorithm = InvalidSignature, UnsupportedAlgorithm


def _cryptography() -> _Cryptography:
    try:
        return _Cryptography()
    except ImportError as error:
        raise MissingExtra(
            "certificates need the package cryptography, which is not installed: pip install 'fedkin[p2p]'"
        ) from error
