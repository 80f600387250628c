"""Keys that sites have signed: a server that puts its own in their place is refused by every
client."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedkin.secret.client import Group, MaskingError
from fedkin.secret.signed_keys import SIGNATURE, Identity, check_signed, sign
from fedkin.security.certificates import Authority
from tests.secret.sums import ABOUT, SmallSum
from tests.security.signers import certified

NAMES = ("ada", "bob", "cleo")


class Signed:
    """Three clients, their announcements, and their signatures."""

    def __init__(self, folder: Path, names: tuple[str, ...] = NAMES) -> None:
        self.folder = folder
        self.authority = Authority.new("trial")
        self.sum = SmallSum(3)
        self.identities = [
            Identity(name, certified(folder, self.authority, name)) for name in names
        ]
        self.group = self.sum.group(0)
        self.signatures = np.stack(
            [sign(one, self.alone(i)) for i, one in enumerate(self.identities)]
        )

    def alone(self, i: int, group: Group | None = None) -> Group:
        """A client's announcement."""
        own = group or self.group
        return Group(
            own.about, int(own.holders[i]), own.holders[i : i + 1], own.announced[i : i + 1]
        )


def test_keys_that_the_holders_have_signed_are_accepted(tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    assert signed.signatures.shape == (3, SIGNATURE)
    for identity in signed.identities:
        check_signed(identity, signed.group, signed.signatures)


def test_a_key_in_anothers_place_is_refused(tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    changed = signed.group.announced.copy()
    changed[1] = SmallSum(3).exchange.announced[1]
    other = replace(signed.group, announced=changed)
    with pytest.raises(
        MaskingError,
        match="client 8 does not verify: the certificate's key did not sign this message",
    ):
        check_signed(signed.identities[0], other, signed.signatures)
    # The server's own authority.
    stranger = certified(tmp_path / "elsewhere", Authority.new("trial"), "bob")
    forged = signed.signatures.copy()
    forged[1] = sign(Identity("bob", stranger), signed.alone(1, other))
    with pytest.raises(
        MaskingError,
        match="client 8 does not verify: the certificate is not from this federation's authority",
    ):
        check_signed(signed.identities[0], other, forged)


def test_keys_of_another_round_or_client_are_refused(tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    with pytest.raises(MaskingError, match="does not verify"):
        check_signed(
            signed.identities[0], replace(signed.group, about=ABOUT + b" later"), signed.signatures
        )
    with pytest.raises(MaskingError, match="does not verify"):
        check_signed(signed.identities[0], signed.group, signed.signatures[[0, 2, 1]])


def test_a_member_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    signed = Signed(tmp_path, ("ada", "bob", "bob"))
    with pytest.raises(MaskingError, match="two clients have the same name"):
        check_signed(signed.identities[0], signed.group, signed.signatures)


@pytest.mark.parametrize("text", [b"", b"\0", b"\xff" * 40, bytes(SIGNATURE)])
def test_an_invalid_signature_is_refused(text: bytes, tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    nothing = np.tile(np.frombuffer(text, np.uint8), (3, 1))
    with pytest.raises(MaskingError, match="the key of client 5 does not verify"):
        check_signed(signed.identities[0], signed.group, nothing)


def test_a_client_without_a_certificate_neither_signs_nor_takes_part(tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    for step in (
        lambda: sign(None, signed.alone(0)),
        lambda: check_signed(None, signed.group, signed.signatures),
    ):
        with pytest.raises(MaskingError, match="sign_certificate"):
            step()
