"""The sender of a message: signatures, certificates, and certificates that the authority did not
sign."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from fedkin.core.errors import ConfigError
from fedkin.p2p.messages import Message, PeerMessageError, encode
from fedkin.security.certificates import Authority
from fedkin.security.signatures import MessageSigner, SignatureError, Signer
from tests.security.signers import KEYS, certified

pytest.importorskip("cryptography", reason="certificates need pip install 'fedkin[p2p]'")


@pytest.fixture
def authority() -> Authority:
    return Authority.new("trial")


def refusal(
    signer: Signer, certificate: bytes, signature: bytes, content: bytes = b"content"
) -> str:
    """The reason for which a message that names ada is refused."""
    with pytest.raises(SignatureError) as caught:
        signer.check("ada", certificate, signature, content)
    return caught.value.reason


def test_every_member_checks_adas_signature(tmp_path: Path, authority: Authority) -> None:
    ada = certified(tmp_path, authority, "ada")
    bob = certified(tmp_path, authority, "bob")
    assert isinstance(ada, MessageSigner)
    for _ in range(2):  # the second time her certificate is known
        bob.check("ada", ada.certificate, ada.sign(b"content"), b"content")


def test_a_member_that_signs_for_ada_is_refused(tmp_path: Path, authority: Authority) -> None:
    ada, bob, eve = (certified(tmp_path, authority, name) for name in ("ada", "bob", "eve"))
    assert refusal(bob, eve.certificate, eve.sign(b"content")) == "certificate"
    # ada's certificate, eve's key.
    assert refusal(bob, ada.certificate, eve.sign(b"content")) == "signature"


def test_changed_content_and_no_signature_are_refused(tmp_path: Path, authority: Authority) -> None:
    ada = certified(tmp_path, authority, "ada")
    bob = certified(tmp_path, authority, "bob")
    assert refusal(bob, ada.certificate, ada.sign(b"content"), b"contenu") == "signature"
    assert refusal(bob, ada.certificate, b"") == "signature"
    assert refusal(bob, b"", ada.sign(b"content")) == "certificate"


def test_a_certificate_of_another_authority_is_refused(
    tmp_path: Path, authority: Authority
) -> None:
    bob = certified(tmp_path / "ours", authority, "bob")
    stranger = certified(tmp_path / "theirs", Authority.new("trial"), "ada")
    assert refusal(bob, stranger.certificate, stranger.sign(b"content")) == "certificate"


def test_an_expired_certificate_is_refused(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = certified(tmp_path, authority, "ada")
    bob = certified(tmp_path, authority, "bob")
    signature = ada.sign(b"content")
    now = datetime.datetime.now

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return now(tz) + datetime.timedelta(days=2000)

    monkeypatch.setattr(datetime, "datetime", Later)
    assert refusal(bob, ada.certificate, signature) == "certificate"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            ("ca.pem", "bob.pem", "bob-key.pem"),
            r"mine\.certificate: .*bob\.pem does not belong to 'ada': .* 'bob'",
        ),
        (
            ("ca.pem", "ada.pem", "bob-key.pem"),
            r"mine\.key: .*bob-key\.pem is not the key of .*ada\.pem",
        ),
        (
            ("ca.pem", "none.pem", "ada-key.pem"),
            r"mine\.certificate: .*none\.pem cannot be read: No such file or directory; ask ada",
        ),
        (
            ("ca.pem", "ada-key.pem", "ada-key.pem"),
            r"mine\.certificate: .* is not a certificate in PEM",
        ),
        (("ca.pem", "ada.pem", "ada.pem"), r"mine\.key: .* is not a private key in PEM"),
        (("bob.pem", "ada.pem", "ada-key.pem"), r"mine\.certificate: .*authority"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    tmp_path: Path, authority: Authority, files: tuple[str, str, str], words: str
) -> None:
    for name in ("ada", "bob"):
        certified(tmp_path, authority, name)
    with pytest.raises(ConfigError, match=words):
        authority_file, certificate, key = (tmp_path / name for name in files)
        Signer("ada", authority_file, certificate, key=key, keys=KEYS)


def test_a_certificate_that_no_peer_would_read_is_not_sent() -> None:
    class Long:
        certificate = bytes(8193)

        def sign(self, content: bytes) -> bytes:
            return b"signature"

        def check(self, name: str, certificate: bytes, signature: bytes, content: bytes) -> None:
            raise NotImplementedError

    with pytest.raises(PeerMessageError, match="certificate: 8193 bytes, at most 8192"):
        encode(Message("ada", 1, 10), "trial", Long())
    Long.certificate = bytes(8192)
    assert bytes(8192) in encode(Message("ada", 1, 10), "trial", Long())
