"""Checks of certificates and keys: they exist, match, are valid long enough, and are secret.

"Authority" is the federation's certificate authority, which signs the server's certificate.
"""

from __future__ import annotations

import datetime
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from fedkin.core.errors import ConfigError
from fedkin.security.certificates import read_certificate, read_private_key
from fedkin.server.deploy.check_result import CheckResult, doubtful, failed, run_check
from fedkin.server.deploy.deployment_folder import (
    CA,
    CA_KEY,
    CERTIFICATE,
    NODE_KEY,
    NODE_PUBLIC,
    SERVER_KEY,
    SITE_CA,
)
from fedkin.server.deploy.keys import require_cryptography

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SOON = datetime.timedelta(days=30)  # an earlier expiry makes a check doubtful


def check_server_keys(
    folder: Path, host: str, now: datetime.datetime | None = None
) -> list[CheckResult]:
    """Check the authority, the server's certificate for ``host``, and their keys.

    Args:
        folder: folder of the deployment.
        host: the host name at which sites reach the server.
        now: time of the check; None for the current time.
    """
    ca = folder / CA
    authority = run_check("authority", lambda: _expiry("authority", _certificate(ca), ca, now))
    results = [authority]
    if authority.mark != "✗":
        results.append(run_check("certificate", lambda: _server_certificate(folder, host, now)))
    results.append(check_secret(folder / SERVER_KEY))
    if (folder / CA_KEY).exists():
        results.append(check_secret(folder / CA_KEY))
    return results


def check_server_certificate(folder: Path, now: datetime.datetime | None = None) -> CheckResult:
    """Check how long the server's certificate is valid."""
    path = folder / CERTIFICATE
    return run_check("certificate", lambda: _expiry("certificate", _certificate(path), path, now))


def check_site_authority(folder: Path, now: datetime.datetime | None = None) -> CheckResult:
    """Check how long the authority's certificate at a site is valid."""
    ca = folder / SITE_CA
    return run_check("authority", lambda: _expiry("authority", _certificate(ca), ca, now))


def check_site_keys(folder: Path, now: datetime.datetime | None = None) -> list[CheckResult]:
    """Check the authority's certificate at a site, and the site's key."""
    return [
        check_site_authority(folder, now),
        run_check("node key", lambda: _node_key(folder)),
        check_secret(folder / NODE_KEY),
    ]


def check_secret(path: Path) -> CheckResult:
    """Whether only a file's owner can read it."""
    name = f"{path.name} is secret"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return failed(name, f"{path}: {error.strerror}")
    if mode & 0o077:
        return failed(
            name,
            f"others can read {path} (mode {mode:o}): chmod 600 {path}; make a new key if someone "
            "has read it",
        )
    return CheckResult(name, f"mode {mode:o}")


def _server_certificate(folder: Path, host: str, now: datetime.datetime | None) -> CheckResult:
    """Whether the authority issued the server's certificate, for the server's key and for
    ``host``."""
    path = folder / CERTIFICATE
    certificate = _certificate(path)
    again = f"remove {path} and run fedkin deploy init again, with {folder / CA_KEY} in its place"
    try:
        certificate.verify_directly_issued_by(_certificate(folder / CA))
    # InvalidSignature, or any other error of a malformed certificate.
    except Exception as error:
        raise ConfigError(
            f"{path} is not signed by the authority {folder / CA}: {again}"
        ) from error
    key = read_private_key(
        folder / SERVER_KEY,
        where="",
        cure="remove it and the server's certificate, and run fedkin deploy init again, which "
        "makes both",
    )
    if key.public_key() != certificate.public_key():
        raise ConfigError(f"{folder / SERVER_KEY} is not the key of {path}: {again}")
    names = _names(certificate)
    if host not in names:
        raise ConfigError(
            f"{path} is valid for {', '.join(names) or 'no machine'}, but sites connect to {host}: "
            f"{again}"
        )
    return _expiry("certificate", certificate, path, now)


def _expiry(
    name: str, certificate: Certificate, path: Path, now: datetime.datetime | None
) -> CheckResult:
    """Whether a certificate is valid at the time ``now``, and until when."""
    now = now or datetime.datetime.now(datetime.UTC)
    until = certificate.not_valid_after_utc
    if until < now:
        return failed(
            name,
            f"{path} has expired on {until:%Y-%m-%d}: remove it and run fedkin deploy init again",
        )
    if now < certificate.not_valid_before_utc:
        return failed(
            name,
            f"{path} is valid only from {certificate.not_valid_before_utc:%Y-%m-%d}: check the "
            "clock of this machine",
        )
    if until - now < SOON:
        return doubtful(name, f"{path} expires on {until:%Y-%m-%d}, in {(until - now).days} days")
    return CheckResult(name, f"{path}, until {until:%Y-%m-%d}")


def _names(certificate: Certificate) -> list[str]:
    """The host names for which a certificate is valid."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in names]


def _node_key(folder: Path) -> str:
    """Whether a site's key is an elliptic-curve key in OpenSSH format that matches its public key.

    If it is not, raises a ConfigError with the command that makes a new key, or that writes the
    public key again.
    """
    path = folder / NODE_KEY
    public = folder / NODE_PUBLIC
    make = f'make one here: ssh-keygen -t ecdsa -b 384 -N "" -f {path}'
    require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = _read(path, make)
    public_half = _read(public, f"write it again with: ssh-keygen -y -f {path} > {public}")
    try:
        key = serialization.load_ssh_private_key(private, None)
        expected = serialization.load_ssh_public_key(public_half)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path} and {public}: expected an OpenSSH key without a password; {make}"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path}: expected an elliptic-curve key, got another type; {make}")
    if key.public_key() != expected:
        raise ConfigError(
            f"{public} is not the public half of {path}; write it again with: ssh-keygen -y -f "
            f"{path} > {public}"
        )
    return f"{path}, {key.curve.name}; {public.name} must be registered at the server"


def _certificate(path: Path) -> Certificate:
    """The certificate in a file. Raises ConfigError if the file does not hold one."""
    require_cryptography()
    return read_certificate(
        path,
        where="",
        cure="fedkin deploy init makes it on the server if it is missing; a site's ca.pem is a "
        "copy of the server's keys/ca.pem",
    )


def _read(path: Path, hint: str) -> bytes:
    """The content of a file. If it cannot be read, raises ConfigError with ``hint``, which says how
    to make the file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; {hint}") from error
