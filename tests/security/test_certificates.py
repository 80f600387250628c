"""An authority, its files, and the message where ``cryptography`` is not installed."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from fedkin.core.errors import MissingExtra
from fedkin.security.certificates import Authority
from tests.security.signers import certified

pytest.importorskip("cryptography", reason="certificates need pip install 'fedkin[p2p]'")


def test_only_the_owner_can_read_a_key(tmp_path: Path) -> None:
    certified(tmp_path, Authority.new("trial"), "ada")
    for name in ("ca-key.pem", "ada-key.pem"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_loaded_authority_signs_for_the_same_federation(tmp_path: Path) -> None:
    ada = certified(tmp_path, Authority.new("trial"), "ada")
    loaded = Authority.load(tmp_path / "ca.pem", tmp_path / "ca-key.pem")
    bob = certified(tmp_path, loaded, "bob")
    bob.check("ada", ada.certificate, ada.sign(b"content"), b"content")


def test_without_cryptography_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[p2p\]'"):
        Authority.new("trial")
