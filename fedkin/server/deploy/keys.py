"""Keys of a federation with a server: the authority, the server's certificate, and a key for each
node.

A node has no certificate: the server knows it by its public key, which is registered there. Needs
``cryptography``.
"""

from __future__ import annotations

from pathlib import Path

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.security.certificates import Authority, write_public, write_secret
from fedkin.server.deploy.deployment_folder import (
    CA,
    CA_KEY,
    CERTIFICATE,
    NODE_KEY,
    NODE_PUBLIC,
    SERVER_KEY,
    SITE_CA,
)


def require_cryptography() -> None:
    """Raises MissingExtra where it is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "keys need the package cryptography, which is not installed: pip install "
            "'fedkin[flower]' (--insecure does without)"
        ) from error


def create_server_certificate(folder: Path, federation: str, host: str) -> None:
    """Write an authority and the server's certificate, each where there is none yet.

    Args:
        folder: of the deployment.
        federation: name of the authority.
        host: at which sites reach the server.

    Raises:
        ConfigError: the authority's key is not there to sign a certificate.
    """
    if not (folder / CA).exists():
        (folder / CA).parent.mkdir(parents=True, exist_ok=True)
        Authority.new(federation).save(folder / CA, folder / CA_KEY)
    if (folder / CERTIFICATE).exists():
        return
    if not (folder / CA_KEY).exists():
        raise ConfigError(
            f"{folder / CA_KEY} is needed for the server's certificate; put it back for this "
            "command"
        )
    addresses = [text for text in (host, "127.0.0.1") if text != "localhost"]
    authority = Authority.load(folder / CA, folder / CA_KEY)
    certificate, key = authority.member("localhost", list(dict.fromkeys(addresses)))
    write_secret(folder / SERVER_KEY, key)
    write_public(folder / CERTIFICATE, certificate)


def create_site_keys(folder: Path, ca: Path) -> None:
    """Write a site's copy of the authority and its key (as ``ssh-keygen -t ecdsa -b 384``), where
    it has none."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    if not (folder / SITE_CA).exists():
        write_public(folder / SITE_CA, ca.read_bytes())
    # With one half here, the other may be elsewhere on purpose.
    if (folder / NODE_KEY).exists() or (folder / NODE_PUBLIC).exists():
        return
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
    write_secret(folder / NODE_KEY, private)
    write_public(folder / NODE_PUBLIC, public + f" {folder.name}\n".encode())
