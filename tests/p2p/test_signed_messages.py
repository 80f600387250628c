"""Peers' messages with signatures: read as they were sent, and refused where a byte was changed or
the signature is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkin.p2p.messages import MODEL, Message, PeerMessageError, Request, decode, encode
from fedkin.security.certificates import Authority
from tests.security.signers import certified

pytest.importorskip("cryptography", reason="certificates need pip install 'fedkin[p2p]'")

REQUEST = Request("trial", "ada", MODEL, 2)
MESSAGE = Message("ada", 1, 10, {"model": np.array([1, 2], np.float32)})


def test_a_signed_message_is_read_and_a_changed_or_unsigned_one_refused(tmp_path: Path) -> None:
    authority = Authority.new("trial")
    ada, bob, eve = (certified(tmp_path, authority, name) for name in ("ada", "bob", "eve"))
    data = encode(MESSAGE, "trial", ada)
    np.testing.assert_array_equal(decode(data, REQUEST, bob).arrays["model"], [1, 2])
    wrong = {
        "a bit of a number": (data[:-1] + bytes([data[-1] ^ 1]), "signature"),
        "another round": (data.replace(b'"round\\":1', b'"round\\":2'), "signature"),
        "no signature": (encode(MESSAGE, "trial"), "signature"),
        "another member's": (encode(MESSAGE, "trial", eve), "certificate"),
    }
    for what, (changed, reason) in wrong.items():
        assert changed != data, what
        with pytest.raises(PeerMessageError) as caught:
            decode(changed, REQUEST, bob)
        assert caught.value.reason == reason, what
