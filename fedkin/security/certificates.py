"""A certificate authority, and the certificates that it signs for members of a federation. Needs
``cryptography``.

The common name of a certificate is the member's name. Peers authenticate with their certificates
when they connect (mutual TLS), and sign their messages with their keys (``security.signatures``).
Sites authenticate their server by its certificate.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.core.storage import write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

# Number of days for which certificates are valid.
AUTHORITY_DAYS = 3650
MEMBER_DAYS = 825
_RESTORE = "restore it from a copy, because other certificates are signed with this authority"


class Authority:
    """The certificate authority of one federation, which signs its members' certificates."""

    def __init__(self, certificate: Certificate, key: EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def new(cls, federation: str) -> Authority:
        """A new certificate authority for a federation, with a new key (P-256)."""
        c = load_cryptography()
        key = c.ec.generate_private_key(c.ec.SECP256R1())
        name = _name(f"fedkin {federation}")
        usage = c.x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(
            c.x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(usage, critical=True)
        # Strict TLS libraries require this key identifier.
        key_id = c.x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(key_id, critical=False)
        return cls(builder.sign(key, c.hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: Path, key: Path) -> Authority:
        """Read an authority from the files that ``save`` wrote. Raises ConfigError if one of the
        files cannot be read."""
        return cls(
            read_certificate(certificate, where="authority", cure=_RESTORE),
            read_key(key, where="authority", cure=_RESTORE),
        )

    def save(self, certificate: Path, key: Path) -> None:
        """Write the authority's certificate and private key to files. Only the files' owner can
        read the key.

        The key is written first: if the certificate exists, so does its key. A process that is
        killed in between leaves a key without a certificate, and the next call replaces it.

        Raises StorageError if a file cannot be written.
        """
        write_secret(key, _pem_key(self._key))
        write_public(certificate, _pem(self.certificate))

    def member(self, name: str, addresses: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """A new certificate for a member, and its private key, both in PEM format.

        Args:
            name: the member's name; it becomes the certificate's common name and first DNS name.
            addresses: other names or IP addresses of the member.
        """
        c = load_cryptography()
        key = c.ec.generate_private_key(c.ec.SECP256R1())
        usages = [
            c.x509.oid.ExtendedKeyUsageOID.SERVER_AUTH,
            c.x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH,
        ]
        builder = _builder(_name(name), self.certificate.subject, key.public_key(), MEMBER_DAYS)
        builder = builder.add_extension(
            c.x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        names = [c.x509.DNSName(name), *map(_address, addresses)]
        builder = builder.add_extension(c.x509.SubjectAlternativeName(names), critical=False)
        issuer = c.x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        builder = builder.add_extension(c.x509.ExtendedKeyUsage(usages), critical=False)
        return _pem(builder.sign(self._key, c.hashes.SHA256())), _pem_key(key)


def write_public(path: Path, content: bytes) -> None:
    """Write a whole file that all users may read. Raises StorageError if that fails."""
    write_atomic(path, content)


def write_secret(path: Path, content: bytes) -> None:
    """Write a whole file that only its owner may read (mode 600, whatever the file had before).
    Raises StorageError if that fails."""
    write_atomic(path, content, mode=0o600)


def _builder(name: Any, issuer: Any, key: Any, days: int) -> Any:
    """The beginning of a certificate, with the entries that all of fedkin's certificates have. The
    caller adds further entries, and signs the certificate.

    Args:
        name: name of the certificate's owner.
        issuer: name of the authority that signs the certificate.
        key: public key of the owner.
        days: number of days for which the certificate is valid.
    """
    c = load_cryptography()
    now = datetime.datetime.now(datetime.UTC)
    builder = c.x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(c.x509.random_serial_number())
    # Valid from an hour ago, in case clocks differ.
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
    return builder.not_valid_after(now + datetime.timedelta(days=days))


def _name(text: str) -> Any:
    """A member's or authority's name as a common name, in the form that a certificate stores."""
    c = load_cryptography()
    return c.x509.Name([c.x509.NameAttribute(c.x509.oid.NameOID.COMMON_NAME, text)])


def _address(text: str) -> Any:
    """A member's IP address or DNS name, in the form that a certificate stores."""
    c = load_cryptography()
    try:
        return c.x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return c.x509.DNSName(text)


def _pem(certificate: Certificate) -> bytes:
    """The bytes of a certificate in PEM format, as they are written to a file."""
    return certificate.public_bytes(load_cryptography().serialization.Encoding.PEM)


def _pem_key(key: EllipticCurvePrivateKey) -> bytes:
    """The bytes of a private key in PEM format, not encrypted with a password."""
    s = load_cryptography().serialization
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())


def read_certificate(path: Path, where: str, cure: str) -> Certificate:
    """Read a certificate in PEM format.

    Args:
        path: path of the file.
        where: beginning of error messages, such as a key in a configuration file; may be empty.
        cure: end of error messages: how to get the right file.

    Raises:
        ConfigError: the file cannot be read, or is not a certificate.
    """
    content = _read(path, where, cure)
    try:
        return load_cryptography().x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise ConfigError(
            f"{_place(path, where)} is not a certificate in PEM format; {cure}"
        ) from error


def read_private_key(path: Path, where: str, cure: str) -> PrivateKeyTypes:
    """Read a private key of any type in PEM format. Arguments and errors are as for
    ``read_certificate``.

    Args:
        path: path of the file.
        where: beginning of error messages.
        cure: end of error messages.
    """
    c = load_cryptography()
    content = _read(path, where, cure)
    try:
        return c.serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, c.UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{_place(path, where)} is not a private key in PEM format, has a password, or is of "
            f"a type that is not supported; {cure}"
        ) from error


def read_key(path: Path, where: str, cure: str) -> EllipticCurvePrivateKey:
    """Read a private elliptic-curve key in PEM format. Arguments and errors are as for
    ``read_certificate``.

    Args:
        path: path of the file.
        where: beginning of error messages.
        cure: end of error messages.
    """
    key = read_private_key(path, where, cure)
    if not isinstance(key, load_cryptography().ec.EllipticCurvePrivateKey):
        raise ConfigError(
            f"{_place(path, where)}: expected an elliptic-curve key (P-256), got another type; "
            f"{cure}"
        )
    return key


def _read(path: Path, where: str, cure: str) -> bytes:
    """The content of a file. Raises ConfigError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{_place(path, where)} cannot be read: {error.strerror}; {cure}"
        ) from error


def _place(path: Path, where: str) -> str:
    """The beginning of an error message about a file."""
    return f"{where}: {path}" if where else str(path)


class Cryptography:
    """The modules and errors of the package ``cryptography`` that fedkin uses for certificates."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self.x509 = x509
        self.hashes = hashes
        self.serialization = serialization
        self.ec = ec
        self.InvalidSignature = InvalidSignature
        self.UnsupportedAlgorithm = UnsupportedAlgorithm


def load_cryptography() -> Cryptography:
    """Import the package ``cryptography``. Raises MissingExtra if it is not installed."""
    try:
        return Cryptography()
    except ImportError as error:
        raise MissingExtra(
            "certificates need the package cryptography, which is not installed: pip install "
            "'fedkin[p2p]'"
        ) from error
