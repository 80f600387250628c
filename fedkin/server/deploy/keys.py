"""Keys of a federation with a server: the certificate authority, the server's certificate, and a
key for each node.

A node has no certificate. The server identifies it by its registered public key. This module needs
``cryptography``.
"""

from __future__ import annotations

from pathlib import Path

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.core.object_repr import shell_command
from fedkin.security.certificates import Authority, write_public, write_secret
from fedkin.server.deploy.deployment_folder import (
    CA,
    CA_KEY,
    CERTIFICATE,
    KEYS,
    NODE_KEY,
    NODE_PUBLIC,
    SERVER_KEY,
    SITE_CA,
)


def require_cryptography() -> None:
    """Raise MissingExtra if ``cryptography`` is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "keys need the package cryptography, which is not installed: pip install "
            "'fedkin[flower]', or use --insecure"
        ) from error


def create_server_certificate(folder: Path, federation: str, host: str) -> None:
    """Write a certificate authority and the server's certificate, unless they exist.

    Args:
        folder: folder of the deployment.
        federation: name of the federation, for the authority's certificate.
        host: the host at which sites reach the server.

    Raises:
        ConfigError: the authority's key, needed to sign a certificate, is missing. Or the
            authority's certificate is missing, and a site or the server still relies on it.
    """
    if not (folder / CA).exists():
        _refuse_second_authority(folder)
        (folder / CA).parent.mkdir(parents=True, exist_ok=True)
        Authority.new(federation).save(folder / CA, folder / CA_KEY)
    if (folder / CERTIFICATE).exists():
        return
    if not (folder / CA_KEY).exists():
        raise ConfigError(
            f"{folder / CA_KEY} is needed to sign the server's certificate; put it back for this "
            "command"
        )
    # The certificate is also valid on the server's machine itself, e.g. for a health check.
    addresses = [text for text in (host, "127.0.0.1") if text != "localhost"]
    authority = Authority.load(folder / CA, folder / CA_KEY)
    certificate, key = authority.member("localhost", list(dict.fromkeys(addresses)))
    write_secret(folder / SERVER_KEY, key)
    write_public(folder / CERTIFICATE, certificate)


def renew_server_certificate(folder: Path, federation: str, host: str) -> None:
    """Write a new certificate and key of the server in place of the present ones. Sites need no
    change, because the authority stays the same.

    Args:
        folder: folder of the deployment.
        federation: name of the federation.
        host: the host at which sites reach the server.

    Raises:
        ConfigError: the authority's certificate or key is missing; nothing is changed.
    """
    for name in (CA, CA_KEY):
        if not (folder / name).exists():
            raise ConfigError(
                f"{folder / name} is needed to sign the server's certificate; put it back for this "
                "command"
            )
    (folder / CERTIFICATE).unlink(missing_ok=True)
    create_server_certificate(folder, federation, host)


def _refuse_second_authority(folder: Path) -> None:
    """Raise ConfigError if the authority's certificate of an existing federation is missing. A new
    authority would not fit the copies of the old certificate at the sites."""
    copies = sorted(folder.glob(f"*/{SITE_CA}"))
    copies = [path for path in copies if path != folder / CA]
    if copies:
        raise ConfigError(
            f"{folder / CA} is missing, but the sites have copies of it and trust no other "
            f"authority; put it back: {shell_command('cp', copies[0], folder / CA)}"
        )
    if (folder / CERTIFICATE).exists():
        raise ConfigError(
            f"{folder / CA} is missing, but {folder / CERTIFICATE} was signed by it; put it back "
            f"from a site's {SITE_CA}, or remove {folder / KEYS} for a new authority"
        )


def create_site_keys(folder: Path, ca: Path) -> None:
    """Write a site's copy of the authority's certificate, and the site's key pair, unless they
    exist.

    If only one half of the key pair exists, the other may be stored elsewhere on purpose, and no
    key is written.
    """
    if not (folder / SITE_CA).exists():
        write_public(folder / SITE_CA, ca.read_bytes())
    if (folder / NODE_KEY).exists() or (folder / NODE_PUBLIC).exists():
        return
    write_key_pair(folder, folder.name)


def write_key_pair(folder: Path, comment: str) -> None:
    """Write a new key pair of a site, in the format of ``ssh-keygen -t ecdsa -b 384``.

    Args:
        folder: folder of the files ``key`` and ``key.pub``.
        comment: comment in the public key.
    """
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
    write_secret(folder / NODE_KEY, private)
    write_public(folder / NODE_PUBLIC, public + f" {comment}\n".encode())
