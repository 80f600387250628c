"""An authority, its files, and the message where ``cryptography`` is not installed."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedkin.core.errors import ConfigError, MissingExtra, StorageError
from fedkin.security import certificates
from fedkin.security.certificates import Authority, read_key, write_public, write_secret
from tests.full_disk import no_file_longer_than
from tests.security.signers import certified, key_of_unknown_curve

pytest.importorskip("cryptography", reason="certificates need pip install 'fedkin[p2p]'")


def test_only_the_owner_can_read_a_key(tmp_path: Path) -> None:
    certified(tmp_path, Authority.new("trial"), "ada")
    for name in ("ca-key.pem", "ada-key.pem"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_key_that_others_could_read_becomes_secret(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_secret(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("write", [write_secret, write_public])
def test_a_full_disk_leaves_no_part_of_a_file(
    write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    with no_file_longer_than(100), pytest.raises(StorageError):
        write(tmp_path / "key", b"x" * 1000)
    assert not list(tmp_path.iterdir())
    write(tmp_path / "key", b"old")
    with no_file_longer_than(100), pytest.raises(StorageError):
        write(tmp_path / "key", b"x" * 1000)
    assert (tmp_path / "key").read_bytes() == b"old"


def test_an_authority_whose_certificate_exists_has_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between the two files."""

    def kill(path: Path, content: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(certificates, "write_public", kill)
    with pytest.raises(KeyboardInterrupt):
        Authority.new("trial").save(tmp_path / "ca.pem", tmp_path / "ca-key.pem")
    assert [path.name for path in tmp_path.iterdir()] == ["ca-key.pem"]


def test_a_key_of_an_unknown_curve_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(key_of_unknown_curve())
    with pytest.raises(ConfigError, match=r"mine\.key: .* not supported; ask ada$"):
        read_key(path, "mine.key", "ask ada")


def test_a_damaged_authority_is_restored_from_a_copy(tmp_path: Path) -> None:
    Authority.new("trial").save(tmp_path / "ca.pem", tmp_path / "ca-key.pem")
    (tmp_path / "ca-key.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"^authority: .*ca-key\.pem .*; restore it from a copy"):
        Authority.load(tmp_path / "ca.pem", tmp_path / "ca-key.pem")


def test_a_loaded_authority_signs_for_the_same_federation(tmp_path: Path) -> None:
    ada = certified(tmp_path, Authority.new("trial"), "ada")
    loaded = Authority.load(tmp_path / "ca.pem", tmp_path / "ca-key.pem")
    bob = certified(tmp_path, loaded, "bob")
    bob.check("ada", ada.certificate, ada.sign(b"content"), b"content")


def test_without_cryptography_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[p2p\]'"):
        Authority.new("trial")
