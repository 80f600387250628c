"""Signatures that authenticate the senders of messages. Needs ``cryptography``.

Any member of a federation has a valid certificate, so without signatures it could send messages in
another member's name. Therefore each sender signs its messages.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from fedkin.core.errors import ConfigError, FedkinError
from fedkin.security.certificates import load_cryptography, read_certificate, read_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey


class SignatureError(FedkinError):
    """A message is not from the member that it names as its sender.

    ``reason`` names the invalid part of the message: ``signature`` or ``certificate``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@runtime_checkable
class MessageSigner(Protocol):
    """Signs a member's messages, and checks the messages of other members."""

    @property
    def certificate(self) -> bytes:
        """The member's certificate in DER format."""
        ...

    def sign(self, content: bytes) -> bytes:
        """This member's signature of ``content``."""
        ...

    def check(self, name: str, certificate: bytes, signature: bytes, content: bytes) -> None:
        """Raise SignatureError unless the certificate belongs to the member ``name``, and the
        certificate's key has signed ``content``."""
        ...


class FileKeys(NamedTuple):
    """The configuration keys that name the files of a ``Signer``, for its error messages.

    Attributes:
        authority: key for the authority's certificate.
        certificate: key for the member's certificate.
        private: key for the member's private key.
        cure: how a user gets the right files.
    """

    authority: str
    certificate: str
    private: str
    cure: str


class Signer:
    """The ``MessageSigner`` of a member with a certificate from the federation's authority.

    Args:
        name: name of the member.
        authority: file with the authority's certificate.
        certificate: file with the member's certificate.
        key: file with the member's private key. All three files are in PEM format.
        keys: the configuration keys that name the three files.

    Raises:
        MissingExtra: ``cryptography`` is not installed.
        ConfigError: the files cannot be read, do not belong together, or belong to another member.
    """

    def __init__(
        self, name: str, authority: Path, certificate: Path, key: Path, keys: FileKeys
    ) -> None:
        c = load_cryptography()
        self._authority = read_certificate(authority, keys.authority, keys.cure)
        member = read_certificate(certificate, keys.certificate, keys.cure)
        self._key = read_key(key, keys.private, keys.cure)
        if member.public_key() != self._key.public_key():
            raise ConfigError(f"{keys.private}: {key} is not the key of {certificate}")
        self.certificate = member.public_bytes(c.serialization.Encoding.DER)
        self._public_keys: dict[tuple[str, bytes], EllipticCurvePublicKey] = {}
        # The member checks its certificate as others will, so that a wrong file shows at the start.
        try:
            self._key_of(name, self.certificate)
        except SignatureError as error:
            why = f"{certificate} does not belong to {name!r}: {error.detail}"
            raise ConfigError(f"{keys.certificate}: {why}") from error

    def sign(self, content: bytes) -> bytes:
        c = load_cryptography()
        return self._key.sign(content, c.ec.ECDSA(c.hashes.SHA256()))

    def check(self, name: str, certificate: bytes, signature: bytes, content: bytes) -> None:
        c = load_cryptography()
        try:
            self._key_of(name, certificate).verify(
                signature, content, c.ec.ECDSA(c.hashes.SHA256())
            )
        except c.InvalidSignature as error:
            raise SignatureError(
                "signature", "the certificate's key did not sign this message"
            ) from error

    def _key_of(self, name: str, certificate: bytes) -> EllipticCurvePublicKey:
        """The public key in a member's certificate. The certificate is checked once, and then the
        key is cached.

        Raises SignatureError unless the certificate is valid for the member ``name``.
        """
        if (name, certificate) not in self._public_keys:
            # Only one certificate per name is cached.
            others = {key: value for key, value in self._public_keys.items() if key[0] != name}
            public_key = self._verified(name, certificate)
            self._public_keys = others | {(name, certificate): public_key}
        return self._public_keys[name, certificate]

    def _verified(self, name: str, certificate: bytes) -> EllipticCurvePublicKey:
        """Check that a certificate is signed by the federation's authority, made for the member
        ``name`` and valid today. Returns its public key. Raises SignatureError if a check fails."""
        c = load_cryptography()
        try:
            claimed = c.x509.load_der_x509_certificate(certificate)
            claimed.verify_directly_issued_by(self._authority)
            names = [
                entry.value
                for entry in claimed.subject.get_attributes_for_oid(c.x509.oid.NameOID.COMMON_NAME)
            ]
            key = claimed.public_key()
            now = datetime.datetime.now(datetime.UTC)
            valid = claimed.not_valid_before_utc <= now <= claimed.not_valid_after_utc
        except (ValueError, TypeError, c.InvalidSignature, c.UnsupportedAlgorithm) as error:
            raise SignatureError(
                "certificate", "the certificate is not from this federation's authority"
            ) from error
        if names != [name]:
            raise SignatureError(
                "certificate",
                f"the certificate was made for {' and '.join(map(str, names))[:64]!r}",
            )
        if not valid:
            raise SignatureError("certificate", "the certificate has expired, or is not valid yet")
        if not isinstance(key, c.ec.EllipticCurvePublicKey):
            raise SignatureError(
                "certificate", "the certificate's key is not an elliptic-curve key"
            )
        return key
