"""Secret sums are exact, whoever is lost; and a client answers nothing that would give it away."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedkin as fk
from fedkin.secret import client
from fedkin.secret.client import MASK_KEY, OWN_SEED, MaskingError, Session
from fedkin.secret.neighbours import holders, threshold
from fedkin.secret.server import Exchange, LostSumError
from fedkin.security import secret_keys
from tests.secret.sums import ABOUT, SmallSum


def finished(clients: int, *lost: set[int], neighbours: int = 20) -> SmallSum:
    """A sum with clients that are lost before the second, third and fourth exchange."""
    one = SmallSum(clients, neighbours=neighbours)
    for step, gone in zip((one.share, one.mask, one.reveal), lost, strict=True):
        step(gone)
    return one


@pytest.mark.parametrize(
    "lost",
    [
        (set(), set(), set()),
        ({4}, {0, 7}, {12, 19}),
        (set(), {1, 2, 3, 5, 8}, set()),
        ({0, 1, 2, 3, 4}, set(), set()),
    ],
)
def test_the_sum_of_twenty_is_exact_with_five_that_drop_out(lost: tuple[set[int], ...]) -> None:
    one = finished(20, *lost)
    np.testing.assert_array_equal(one.unmasked(), one.plain())


def test_a_graph_of_neighbours_gives_the_same() -> None:
    one = finished(30, {29}, {3}, {11}, neighbours=16)
    assert one.exchange.places.shape == (30, 17)
    np.testing.assert_array_equal(one.unmasked(), one.plain())


def ring(one: SmallSum) -> list[int]:
    """The clients in the order of the ring on which their neighbours are."""
    places = [set(row.tolist()) for row in one.exchange.places]
    order = [0]
    half = one.exchange.places.shape[1] // 2
    while len(order) < len(places):
        near = [j for j in places[order[-1]] if len(places[order[-1]] & places[j]) == 2 * half]
        order.append(next(j for j in near if j not in order))
    return order


def test_thirty_of_a_hundred_clients_are_lost() -> None:
    """Seven before the keys, and 23 that are spread over the ring of the others, each fourth. So
    no client lacks more of its 21 holders than the six that it can do without."""
    one = SmallSum(93, numbers=3)
    gone = ring(one)[::4][:23]
    for step, lost in zip(
        (one.share, one.mask, one.reveal), (gone[:7], gone[7:15], gone[15:]), strict=True
    ):
        step(lost)
    np.testing.assert_array_equal(one.unmasked(), one.plain())
    assert one.exchange.answered.sum() == 93 - 15 and one.replied.sum() == 70


def test_three_in_ten_are_lost_by_chance() -> None:
    """With all others as neighbours: two thirds of a client's holders are needed, and on a ring
    some lack more (``benchmarks.trust.secret_sums`` does the same with a hundred)."""
    lost = np.random.default_rng(0).choice(40, 12, replace=False).tolist()
    one = SmallSum(40, numbers=3, neighbours=39)
    for step, gone in zip(
        (one.share, one.mask, one.reveal), (lost[:4], lost[4:8], lost[8:]), strict=True
    ):
        step(set(gone))
    np.testing.assert_array_equal(one.unmasked(), one.plain())
    assert one.exchange.answered.sum() == 32 and one.replied.sum() == 28


def test_clients_with_too_few_holders_are_left_out_in_turns() -> None:
    """On a ring of 40 with 7 holders, of whom 5 are needed: three next to each other go, then those
    that lack three."""
    one = SmallSum(40, numbers=3, neighbours=6)
    order = ring(one)
    one.exchange.shared[:] = True
    one.exchange.shared[order[:2]] = False
    assert one.exchange.leave_out_lonely() and one.exchange.shared.sum() == 38
    one.exchange.shared[order[2]] = False  # the two on either side have four left, and then others
    assert not one.exchange.leave_out_lonely() and not one.exchange.shared.any()


def test_a_client_that_cannot_reveal_is_not_asked_and_the_sum_is_lost() -> None:
    one = SmallSum(30, numbers=3, neighbours=6)
    order = ring(one)
    one.share()
    one.mask(set(order[:3]))
    assert (~one.exchange.can_reveal()).sum() > 3
    one.reveal()
    with pytest.raises(LostSumError, match=r"there are [0-4] shares of a secret, but 5 are needed"):
        one.unmasked()


def test_messages_of_a_client_look_like_noise() -> None:
    """From a vector of zeros: as many ones as zeros among the bits, and another vector each
    time."""
    seen = []
    for _ in range(2):
        one = SmallSum(3, numbers=4000)
        one.vectors[:] = 0
        one.share()
        one.mask({1, 2})
        assert one.exchange.total is not None
        seen.append(one.exchange.total)
    bits = np.unpackbits(seen[0].view(np.uint8)).mean()
    assert abs(bits - 0.5) < 6 * 0.5 / np.sqrt(32 * 4000)
    assert (seen[0] == seen[1]).mean() < 0.01


def test_masks_of_the_whole_are_needed() -> None:
    """The server's sum of masked vectors is noise still, until shares are revealed."""
    one = finished(4, set(), set(), {0, 1, 2, 3})
    assert (one.exchange.total != one.plain()).mean() > 0.99
    with pytest.raises(
        LostSumError, match="client 5: there are 0 shares of a secret, but 3 are needed"
    ):
        one.unmasked()


def test_too_many_that_are_lost_lose_the_sum() -> None:
    one = finished(20, set(), {0, 1, 2, 3}, {4, 5, 6})
    with pytest.raises(LostSumError, match="there are 13 shares of a secret, but 14 are needed"):
        one.unmasked()


def test_a_sum_of_two_is_refused_by_clients_and_server() -> None:
    with pytest.raises(LostSumError, match="2 clients have announced keys"):
        SmallSum(2)
    one = SmallSum(4)
    one.share({2, 3})
    with pytest.raises(MaskingError, match="only 2 clients are left, but 3 are needed"):
        one.mask()


def test_each_request_is_answered_once_and_in_order() -> None:
    one = finished(4, set(), set(), {0, 1, 2, 3})
    asked = one.asked(0)
    session, group, *others = asked
    after, _ = client.reveal(*asked)
    assert after.seed == after.mask_seed == bytes(16)  # nothing is left to be asked for
    for repeated in (
        lambda: client.reveal(after, group, *others),
        lambda: client.mask(session, one.group(0), one.exchange.partners[0], one.vectors[0]),
        lambda: client.share(session, one.group(0)),
        lambda: client.mask(
            client.begin(b"another")[0], one.group(0), one.exchange.partners[0], one.vectors[0]
        ),
    ):
        with pytest.raises(MaskingError, match="each is answered once"):
            repeated()


def test_never_both_shares_of_one_client() -> None:
    one = finished(4, set(), {3}, {0, 1, 2, 3})
    session, group, partners, inbox, wanted = one.asked(0)
    np.testing.assert_array_equal(wanted, [OWN_SEED, OWN_SEED, OWN_SEED, MASK_KEY])
    both = np.where(np.arange(4) == 3, OWN_SEED + MASK_KEY, wanted)
    with pytest.raises(MaskingError, match="both shares of one client"):
        client.reveal(session=session, group=group, partners=partners, sealed=inbox, wanted=both)
    with pytest.raises(MaskingError, match="does not ask for this client's share of its seed"):
        client.reveal(
            session=session,
            group=group,
            partners=partners,
            sealed=inbox,
            wanted=np.array([MASK_KEY, 1, 1, 1]),
        )
    twice = replace(
        group, holders=group.holders[[0, 1, 1, 3]], announced=group.announced[[0, 1, 1, 3]]
    )
    with pytest.raises(MaskingError, match="other clients, keys or settings"):
        client.reveal(session=session, group=twice, partners=partners, sealed=inbox, wanted=wanted)
    with pytest.raises(MaskingError, match="names a client twice"):
        client.share(SmallSum(4).sessions[0], twice)


def test_a_share_of_another_round_or_client_is_refused() -> None:
    earlier, one = (finished(4, set(), set(), {0, 1, 2, 3}) for _ in range(2))
    session, group, partners, inbox, wanted = one.asked(0)
    replayed = inbox.copy()
    misplaced = inbox.copy()
    replayed[2] = earlier.asked(0)[3][2]
    misplaced[2] = one.asked(1)[3][2]
    for wrong in (replayed, misplaced):
        with pytest.raises(MaskingError, match="not encrypted for this client in this round"):
            client.reveal(
                session=session, group=group, partners=partners, sealed=wrong, wanted=wanted
            )


def test_keys_that_a_client_has_not_announced_are_refused() -> None:
    one = SmallSum(4)
    group = one.group(0)
    changed = group.announced.copy()
    changed[0, 0] ^= 1
    with pytest.raises(MaskingError, match="not the ones that this client has announced"):
        client.share(one.sessions[0], replace(group, announced=changed))


def test_a_wrong_share_is_noticed() -> None:
    """A hostile client's share gives another secret than was announced: the sum is lost, and not
    silently wrong."""
    for gone in (set(), {3}):
        one = finished(4, set(), gone, set())
        one.revealed[0, 3, 0] ^= 1
        with pytest.raises(LostSumError, match="shares of client 14 do not match"):
            one.unmasked()


@given(st.integers(3, 300), st.integers(1, 40))
def test_neighbours_are_mutual_and_as_many_for_all(clients: int, neighbours: int) -> None:
    places = holders(clients, neighbours)
    pairs = {(i, int(j)) for i, row in enumerate(places) for j in row}
    assert all((j, i) in pairs for i, j in pairs)
    assert all(
        len(set(row.tolist())) == places.shape[1] and i in row for i, row in enumerate(places)
    )


def test_two_thirds_are_not_enough() -> None:
    """A server that tells half of the holders one thing, and the others another, never has enough
    of both."""
    assert [threshold(count) for count in (3, 4, 20, 21, 100)] == [3, 3, 14, 15, 67]
    assert all(2 * threshold(g) - g > g / 3 for g in range(3, 200))


def test_a_session_outlives_its_process() -> None:
    session, announced = client.begin(ABOUT)
    again = Session.of(session.array())
    assert again == session and announced.shape == (96,)
    assert Session.of(None).stage == client._OVER


def test_published_vectors() -> None:
    """X25519 of RFC 7748 (6.1), and AES in counter mode, of zeros under a key of zeros (NIST's
    AESAVS)."""
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    alice = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert secret_keys.agreed(bob, alice).hex() == shared
    mask = np.zeros(4, np.uint32)
    secret_keys.add_mask(mask, bytes(16))
    assert mask.tobytes().hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    secret_keys.add_mask(mask, bytes(16), -1)
    assert not mask.any()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("cryptography.hazmat.primitives.ciphers", "cryptography"),
        ("Crypto.Protocol.SecretSharing", "PyCryptodome"),
    ],
)
def test_a_library_that_is_missing_is_named(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    caches = (secret_keys._cryptography, secret_keys._shamir)
    for one in caches:
        one.cache_clear()
    with pytest.raises(
        fk.MissingExtra, match=rf"{name}, which is not installed: pip install 'fedkin\[secret\]'"
    ):
        fk.SecretSums()
    for one in caches:
        one.cache_clear()


def test_exchange_needs_three() -> None:
    with pytest.raises(LostSumError, match="3 are needed"):
        Exchange.of(ABOUT, np.arange(1), np.zeros((1, 96), np.uint8), 20)
