"""Members of a federation, each with a certificate."""

from __future__ import annotations

from pathlib import Path

from fedkin.security.certificates import Authority, write_public, write_secret
from fedkin.security.signatures import Signer


def certified(folder: Path, authority: Authority, name: str) -> Signer:
    """A member's own files, and its signer."""
    folder.mkdir(exist_ok=True)
    authority.save(folder / "ca.pem", folder / "ca-key.pem")
    certificate, key = authority.member(name)
    write_public(folder / f"{name}.pem", certificate)
    write_secret(folder / f"{name}-key.pem", key)
    return Signer(name, folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}-key.pem")
