"""Signed statements, against the vector of ``production.json``, whose signature is exact."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.security import statements
from fedkin.security.statements import Statement, pre_authentication, sign, verify

pytest.importorskip("cryptography", reason="statements need pip install 'fedkin[flower]'")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VECTORS = json.loads((Path(__file__).parents[1] / "oracles/production.json").read_text())["ledger"]
DSSE = VECTORS["dsse"]
KEY = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(DSSE["secret_key_hex_rfc8032_test_1"]))
SIGNED = Statement(
    {"egress.jsonl": VECTORS["head"]},
    "https://fedkin.example/egress/v1",
    {"entries": 4, "seed": 11, "site": "site-0"},
)


def envelope(**changes: Any) -> bytes:
    """The vector's envelope with other entries."""
    return json.dumps({**json.loads(sign(SIGNED, KEY)), **changes}).encode()


def refusal(content: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        verify(content, KEY.public_key(), "statement.json")
    return str(caught.value)


def test_the_vector_is_exact() -> None:
    assert SIGNED.payload().decode() == DSSE["payload"]
    encoded = pre_authentication(DSSE["payload_type"], DSSE["payload"].encode())
    assert encoded.hex() == DSSE["pae_hex"]
    written = json.loads(sign(SIGNED, KEY))
    assert written["payloadType"] == DSSE["payload_type"]
    assert base64.b64decode(written["payload"]).decode() == DSSE["payload"]
    assert written["signatures"][0]["sig"] == DSSE["signature_base64"]
    assert KEY.public_key().public_bytes_raw().hex() == DSSE["public_key_hex"]


def test_a_type_that_is_no_text_is_refused() -> None:
    assert "is no signed statement" in refusal(envelope(payloadType="\ud800"))


def test_the_published_example_of_the_encoding() -> None:
    # From the text of DSSE's protocol.
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == expected
    # Lengths are of bytes, not of letters.
    assert pre_authentication("ä", "ö".encode()) == b"DSSEv1 2 \xc3\xa4 2 \xc3\xb6"


def test_a_statement_is_read_back() -> None:
    assert verify(envelope(), KEY.public_key(), "statement.json") == SIGNED
    # The identifier of a key is only a hint, and a further signature changes nothing.
    right = json.loads(envelope())["signatures"][0]["sig"]
    both = [{"sig": base64.b64encode(b"0" * 64).decode()}, {"keyid": "other", "sig": right}]
    assert verify(envelope(signatures=both), KEY.public_key(), "statement.json") == SIGNED


def test_a_changed_statement_is_refused() -> None:
    other = SIGNED._replace(predicate={"entries": 5})
    changed = base64.b64encode(other.payload()).decode()
    assert "no signature is by this key" in refusal(envelope(payload=changed))
    assert "no signature is by this key" in refusal(envelope(payloadType="text/plain"))
    assert "no signature is by this key" in refusal(envelope(signatures=[]))
    with pytest.raises(ConfigError, match="no signature is by this key"):
        verify(envelope(), Ed25519PrivateKey.generate().public_key(), "statement.json")


def signed_bytes(kind: str, payload: bytes) -> bytes:
    """An envelope with a right signature of any bytes."""
    signature = KEY.sign(pre_authentication(kind, payload))
    return json.dumps(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": kind,
            "signatures": [{"sig": base64.b64encode(signature).decode()}],
        }
    ).encode()


def test_other_signed_content_is_refused() -> None:
    assert "holds 'text/plain'" in refusal(signed_bytes("text/plain", b"hello"))
    for payload in (
        b"hello",
        b"{}",
        b"[]",
        SIGNED.payload().replace(b"/v1", b"/v2"),
        SIGNED._replace(predicate=[]).payload(),  # type: ignore[arg-type]
    ):
        assert "no in-toto statement" in refusal(signed_bytes(statements.PAYLOAD_TYPE, payload))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"[" * 100_000, envelope(payload="%"), envelope(signatures=[1])]
)
def test_a_file_that_is_no_envelope_is_refused(content: bytes) -> None:
    assert "statement.json: is no signed statement" in refusal(content)


def private_files(folder: Path, key: Any) -> list[Path]:
    """Files of a private key, in both formats."""
    formats = {
        "pem": serialization.PrivateFormat.PKCS8,
        "ssh": serialization.PrivateFormat.OpenSSH,
    }
    paths = []
    for name, form in formats.items():
        path = folder / name
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        )
        paths.append(path)
    return paths


def public_files(folder: Path, key: Any) -> list[Path]:
    """Files of a public key, in both formats."""
    formats = {
        "pub.pem": (
            serialization.Encoding.PEM,
            serialization.PublicFormat.SubjectPublicKeyInfo,
        ),
        "pub.ssh": (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH),
    }
    paths = []
    for name, (encoding, form) in formats.items():
        path = folder / name
        path.write_bytes(key.public_bytes(encoding, form))
        paths.append(path)
    return paths


def test_keys_of_both_formats_are_read(tmp_path: Path) -> None:
    for path in private_files(tmp_path, KEY):
        assert statements.read_private_key(path).private_bytes_raw() == KEY.private_bytes_raw()
    for path in public_files(tmp_path, KEY.public_key()):
        read = statements.read_public_key(path)
        assert statements.key_id(read) == statements.key_id(KEY.public_key())


def test_other_keys_are_refused_by_name(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    for path in private_files(tmp_path, other):
        with pytest.raises(ConfigError, match=f"{path.name}: expected an Ed25519 key"):
            statements.read_private_key(path)
    for path in public_files(tmp_path, other.public_key()):
        with pytest.raises(ConfigError, match=f"{path.name}: expected a public Ed25519 key"):
            statements.read_public_key(path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ConfigError, match="text: is no private key"):
        statements.read_private_key(tmp_path / "text")
    with pytest.raises(ConfigError, match="text: is no public key"):
        statements.read_public_key(tmp_path / "text")
    with pytest.raises(ConfigError, match="absent cannot be read: No such file"):
        statements.read_private_key(tmp_path / "absent")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[flower\]'"):
        statements.read_private_key(tmp_path / "key")
