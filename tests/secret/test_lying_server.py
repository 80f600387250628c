"""A server that lies is refused as far as clients can see it; docs/secret-sums.md says how far that
is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedkin.secret import client
from fedkin.secret.client import MASK_KEY, OWN_SEED, MaskingError
from fedkin.security import secret_keys
from fedkin.security.secret_keys import SecretKeyError
from tests.secret.sums import SmallSum


def before_reveal(clients: int = 6, least: int = 3) -> SmallSum:
    one = SmallSum(clients, least=least)
    one.share()
    one.mask()
    return one


def test_holders_with_different_instructions_give_neither_secret() -> None:
    """Three of six hear that the last client is there, two that it has gone: five shares of one
    kind are needed."""
    one = before_reveal()
    shares: dict[int, dict[int, bytes]] = {OWN_SEED: {}, MASK_KEY: {}}
    for i in range(5):
        session, group, partners, inbox, wanted = one.asked(i)
        kind = OWN_SEED if i < 3 else MASK_KEY
        _, revealed = client.reveal(
            session=session,
            group=group,
            partners=partners,
            sealed=inbox,
            wanted=np.where(np.arange(6) == 5, kind, wanted),
        )
        shares[kind][i + 1] = revealed[5].tobytes()
    assert all(any(share) for kind in shares.values() for share in kind.values())
    for kind in (OWN_SEED, MASK_KEY):
        with pytest.raises(SecretKeyError, match="5 are needed"):
            secret_keys.combine(shares[kind], one.group(5).threshold)


def test_the_other_share_is_not_given_through_another_group() -> None:
    """After one share of a client: neither again, nor as of a group of another number, nor with
    other holders."""
    one = before_reveal()
    session, group, partners, inbox, wanted = one.asked(0)
    after, _ = client.reveal(
        session=session, group=group, partners=partners, sealed=inbox, wanted=wanted
    )
    gone = np.where(np.arange(6) == 5, MASK_KEY, wanted)
    for own in (session, after):
        for about in (group.about, group.about + b"1"):
            if own is session and about == group.about:
                continue
            with pytest.raises(MaskingError, match="each is answered once"):
                client.reveal(
                    session=own,
                    group=replace(group, about=about),
                    partners=partners,
                    sealed=inbox,
                    wanted=gone,
                )
    for changed in (
        replace(group, holders=np.array([*group.holders[:5], 99])),
        replace(group, announced=group.announced[[1, 0, 2, 3, 4, 5]]),
        replace(group, holders=group.holders[:5], announced=group.announced[:5]),
    ):
        width = len(changed.holders)
        with pytest.raises(MaskingError, match="other clients, keys or settings than the request"):
            client.reveal(
                session=session,
                group=changed,
                partners=partners[:width],
                sealed=inbox[:width],
                wanted=gone[:width],
            )


def test_partners_that_change_after_the_vector_are_refused() -> None:
    one = before_reveal()
    session, group, partners, inbox, wanted = one.asked(0)
    fewer = np.where(np.arange(6) == 5, False, partners)
    with pytest.raises(MaskingError, match="other clients, keys or settings than the request"):
        client.reveal(
            session=session,
            group=group,
            partners=fewer,
            sealed=inbox,
            wanted=np.where(fewer, wanted, 0),
        )


def test_a_second_vector_for_other_partners_is_refused() -> None:
    one = SmallSum(6)
    one.share()
    session = one.sessions[0]
    group = one.group(0)
    partners = one.exchange.partners[0]
    after, _ = client.mask(session, group, partners, one.vectors[0])
    with pytest.raises(MaskingError, match="each is answered once"):
        client.mask(after, group, np.where(np.arange(6) == 5, False, partners), one.vectors[0])


def test_too_many_that_are_called_gone_are_refused() -> None:
    one = before_reveal()
    session, group, partners, inbox, wanted = one.asked(0)
    with pytest.raises(MaskingError, match="only 4 clients have answered, but 5 are needed"):
        client.reveal(
            session=session,
            group=group,
            partners=partners,
            sealed=inbox,
            wanted=np.where(np.arange(6) > 3, MASK_KEY, wanted),
        )


def test_least_is_checked_by_each_client_and_does_not_change_within_a_sum() -> None:
    """t of six is 5; where all six are needed, five are refused before the vector and after it."""
    one = SmallSum(6, least=6)
    one.share({5})
    with pytest.raises(MaskingError, match="only 5 clients are left, but 6 are needed"):
        one.mask()
    lower = replace(one.group(0), least=3)
    with pytest.raises(MaskingError, match="other holders, keys or settings than the request"):
        client.mask(one.sessions[0], lower, one.exchange.partners[0], one.vectors[0])
    one = before_reveal(least=6)
    session, group, partners, inbox, wanted = one.asked(0)
    gone = np.where(np.arange(6) == 5, MASK_KEY, wanted)
    with pytest.raises(MaskingError, match="only 5 clients have answered, but 6 are needed"):
        client.reveal(session=session, group=group, partners=partners, sealed=inbox, wanted=gone)
    with pytest.raises(MaskingError, match="other clients, keys or settings than the request"):
        client.reveal(
            session=session,
            group=replace(group, least=3),
            partners=partners,
            sealed=inbox,
            wanted=gone,
        )


def test_a_client_does_not_check_values_that_it_cannot_see() -> None:
    """It needs 15 of 21 holders, or ``least`` of them. The server must keep a ``least`` above
    21."""
    assert [client.needed(21, least) for least in (3, 15, 18, 21, 22)] == [15, 15, 18, 21, 15]
