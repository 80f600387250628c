"""Who a message is from: signatures, certificates, and what an authority did not sign."""

from __future__ import annotations

import datetime
import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.p2p.messages import MODEL, Message, Question, WireError, decode, encode
from fedkin.security.certificates import Authority, Signer, access_rules, write_public, write_secret

pytest.importorskip("cryptography", reason="certificates need pip install 'fedkin[p2p]'")

ASKED = Question("trial", "ada", MODEL, 2)
SAID = Message("ada", 1, 10, {"model": np.array([1, 2], np.float32)})


def certified(folder: Path, authority: Authority, name: str) -> Signer:
    """A peer's own files, and its signer."""
    folder.mkdir(exist_ok=True)
    authority.save(folder / "ca.pem", folder / "ca-key.pem")
    certificate, key = authority.member(name)
    write_public(folder / f"{name}.pem", certificate)
    write_secret(folder / f"{name}-key.pem", key)
    return Signer(name, folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}-key.pem")


@pytest.fixture
def authority() -> Authority:
    return Authority.new("trial")


def refused(data: bytes, seal: Signer) -> str:
    with pytest.raises(WireError) as caught:
        decode(data, ASKED, seal)
    return caught.value.reason


def test_what_ada_signed_bob_reads(tmp_path: Path, authority: Authority) -> None:
    ada, bob = certified(tmp_path, authority, "ada"), certified(tmp_path, authority, "bob")
    data = encode(SAID, "trial", ada)
    for _ in range(2):  # the second time her certificate is known
        np.testing.assert_array_equal(decode(data, ASKED, bob).arrays["model"], [1, 2])


def test_a_member_that_answers_for_ada_is_refused(tmp_path: Path, authority: Authority) -> None:
    ada, bob, eve = (certified(tmp_path, authority, name) for name in ("ada", "bob", "eve"))
    assert refused(encode(SAID, "trial", eve), bob) == "certificate"

    class Thief:
        """Shows ada's certificate, and has only eve's key."""

        certificate = ada.certificate
        sign, check = eve.sign, eve.check

    assert refused(encode(SAID, "trial", Thief()), bob) == "signature"


def test_what_is_not_signed_or_was_changed_is_refused(tmp_path: Path, authority: Authority) -> None:
    ada, bob = certified(tmp_path, authority, "ada"), certified(tmp_path, authority, "bob")
    assert refused(encode(SAID, "trial"), bob) == "signature"
    whole = encode(SAID, "trial", ada)
    assert refused(whole[:-1] + bytes([whole[-1] ^ 1]), bob) == "signature"  # a bit of a number
    assert refused(whole.replace(b'"round":1', b'"round":2'), bob) == "signature"


def test_another_authority_counts_for_nothing(tmp_path: Path, authority: Authority) -> None:
    bob = certified(tmp_path / "ours", authority, "bob")
    stranger = certified(tmp_path / "theirs", Authority.new("trial"), "ada")
    assert refused(encode(SAID, "trial", stranger), bob) == "certificate"


def test_a_certificate_ends(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = certified(tmp_path, authority, "ada")
    data = encode(SAID, "trial", ada)
    bob = certified(tmp_path, authority, "bob")
    now = datetime.datetime.now

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return now(tz) + datetime.timedelta(days=2000)

    monkeypatch.setattr(datetime, "datetime", Later)
    assert refused(data, bob) == "certificate"


def test_keys_are_their_owners_alone(tmp_path: Path, authority: Authority) -> None:
    certified(tmp_path, authority, "ada")
    for name in ("ca-key.pem", "ada-key.pem"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_an_authority_that_was_kept_goes_on(tmp_path: Path, authority: Authority) -> None:
    ada = certified(tmp_path, authority, "ada")
    again = Authority.load(tmp_path / "ca.pem", tmp_path / "ca-key.pem")
    bob = certified(tmp_path, again, "bob")
    assert decode(encode(SAID, "trial", ada), ASKED, bob).sender == "ada"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (("ca.pem", "bob.pem", "bob-key.pem"), r"network\.tls\.certificate: .*bob\.pem is not that of 'ada': .* 'bob'"),
        (("ca.pem", "ada.pem", "bob-key.pem"), r"network\.tls\.key: .*bob-key\.pem is not the key of .*ada\.pem"),
        (("ca.pem", "none.pem", "ada-key.pem"), r"network\.tls\.certificate: .*none\.pem cannot be read: No such file"),
        (("ca.pem", "ada-key.pem", "ada-key.pem"), r"network\.tls\.certificate: .* is not a certificate in PEM"),
        (("ca.pem", "ada.pem", "ada.pem"), r"network\.tls\.key: .* is not a key in PEM"),
        (("bob.pem", "ada.pem", "ada-key.pem"), r"network\.tls\.certificate: .*authority"),
    ],
)
def test_files_that_do_not_belong_together(
    tmp_path: Path, authority: Authority, files: tuple[str, str, str], words: str
) -> None:
    for name in ("ada", "bob"):
        certified(tmp_path, authority, name)
    with pytest.raises(ConfigError, match=words):
        Signer("ada", *(tmp_path / name for name in files))


def test_rules_are_zenohs_and_let_nobody_declare_what_is_anothers() -> None:
    zenoh = pytest.importorskip("zenoh")
    rules = access_rules("trial", ["ada", "bob"])
    told = zenoh.Config.from_json5(json.dumps(rules))  # it refuses words that it does not know
    assert json.loads(told.get_json("access_control/enabled")) is True
    control = rules["access_control"]
    assert control["default_permission"] == "deny"
    by_name = {rule["id"]: rule for rule in control["rules"]}
    for name, other in (("ada", "bob"), ("bob", "ada")):
        (policy,) = [entry for entry in control["policies"] if entry["subjects"] == [name]]
        into = [by_name[rule] for rule in policy["rules"] if "ingress" in by_name[rule]["flows"]]
        giving = [rule for rule in into if {"reply", "declare_queryable", "liveliness_token"} & set(rule["messages"])]
        assert [rule["key_exprs"] for rule in giving] == [
            [f"fedkin/trial/model/{name}", f"fedkin/trial/alive/{name}/*"]
        ]
        assert f"fedkin/trial/model/{other}" not in giving[0]["key_exprs"]


def test_without_cryptography_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[p2p\]'"):
        Authority.new("trial")
