"""Whether certificates and keys are there, belong together, hold long enough, and are read by nobody else."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import ConfigError
from fedkin.server.deploy.check_result import CheckResult, doubtful, tried, wrong
from fedkin.server.deploy.keys import require_cryptography
from fedkin.server.deploy.project import CA, CA_KEY, CERTIFICATE, NODE_KEY, NODE_PUBLIC, SERVER_KEY, SITE_CA

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SOON = datetime.timedelta(days=30)  # an expiry that is nearer is worth a word


def server_keys(folder: Path, host: str, now: datetime.datetime | None = None) -> list[CheckResult]:
    """The authority, the server's certificate for ``host``, and their keys."""
    authority = tried("authority", lambda: _dated("authority", _certificate(folder / CA), folder / CA, now))
    found = [authority]
    if authority.mark != "✗":
        found.append(tried("certificate", lambda: _servers(folder, host, now)))
    found.append(secret(folder / SERVER_KEY))
    if (folder / CA_KEY).exists():
        found.append(secret(folder / CA_KEY))
    return found


def site_keys(folder: Path, now: datetime.datetime | None = None) -> list[CheckResult]:
    """What lets a site in: the authority's certificate, and a key of its own."""
    ca = folder / SITE_CA
    return [
        tried("authority", lambda: _dated("authority", _certificate(ca), ca, now)),
        tried("node key", lambda: _node_key(folder)),
        secret(folder / NODE_KEY),
    ]


def secret(path: Path) -> CheckResult:
    """Whether a file is its owner's alone."""
    what = f"{path.name} is secret"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return wrong(what, f"{path}: {error.strerror}")
    if mode & 0o077:
        return wrong(what, f"others can get at {path} (mode {mode:o}): chmod 600 {path}, or a new key if they did")
    return CheckResult(what, f"mode {mode:o}")


def _servers(folder: Path, host: str, now: datetime.datetime | None) -> CheckResult:
    """The server's certificate: of the authority, for its key and its name."""
    path, shown = folder / CERTIFICATE, _certificate(folder / CERTIFICATE)
    again = f"remove {path} and run fedkin deploy init again, with {folder / CA_KEY} in its place"
    try:
        shown.verify_directly_issued_by(_certificate(folder / CA))
    except Exception as error:  # InvalidSignature, and whatever a strange certificate makes of it
        raise ConfigError(f"{path} is not of the authority {folder / CA}: {again}") from error
    if _private(folder / SERVER_KEY).public_key() != shown.public_key():
        raise ConfigError(f"{folder / SERVER_KEY} is not the key of {path}: {again}")
    names = _names(shown)
    if host not in names:
        raise ConfigError(f"{path} is for {', '.join(names) or 'nobody'}, and sites look for {host}: {again}")
    return _dated("certificate", shown, path, now)


def _dated(what: str, shown: Certificate, path: Path, now: datetime.datetime | None) -> CheckResult:
    """Whether a certificate is valid, and for how long."""
    now = now or datetime.datetime.now(datetime.UTC)
    until = shown.not_valid_after_utc
    if until < now:
        return wrong(what, f"{path} has expired on {until:%Y-%m-%d}: remove it and run fedkin deploy init again")
    if now < shown.not_valid_before_utc:
        return wrong(what, f"{path} is valid from {shown.not_valid_before_utc:%Y-%m-%d}: is the clock right here?")
    if until - now < SOON:
        return doubtful(what, f"{path} expires on {until:%Y-%m-%d}, in {(until - now).days} days")
    return CheckResult(what, f"{path}, until {until:%Y-%m-%d}")


def _names(shown: Certificate) -> list[str]:
    """The machines that a certificate is for."""
    from cryptography import x509

    try:
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in names]


def _node_key(folder: Path) -> str:
    """A key of an elliptic curve, as OpenSSH writes it, and its public half."""
    path, public = folder / NODE_KEY, folder / NODE_PUBLIC
    make = f'make one here: ssh-keygen -t ecdsa -b 384 -N "" -f {path}'
    require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private, told = _read(path, make), _read(public, f"ssh-keygen -y -f {path} > {public}")
    try:
        key, shown = serialization.load_ssh_private_key(private, None), serialization.load_ssh_public_key(told)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} and {public}: expected a key of OpenSSH without a password; {make}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path}: expected a key of an elliptic curve, got another kind; {make}")
    if key.public_key() != shown:
        raise ConfigError(f"{public} is not the public half of {path}: ssh-keygen -y -f {path} > {public}")
    return f"{path}, {key.curve.name}; the server must know {public.name}"


def _certificate(path: Path) -> Certificate:
    require_cryptography()
    from cryptography import x509

    content = _read(path, "it is made by fedkin deploy init on the server")
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise ConfigError(f"{path} is not a certificate in PEM") from error


def _private(path: Path) -> Any:
    from cryptography.hazmat.primitives import serialization

    content = _read(path, "it is made with the certificate")
    try:
        return serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} is not a key in PEM without a password") from error


def _read(path: Path, otherwise: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; {otherwise}") from error
