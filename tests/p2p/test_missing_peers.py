"""Peers that others name and that are not online here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedkin.p2p.missing_peers import (
    LONGEST_WAIT,
    PATIENCE,
    TEXT_LIMIT,
    MissingPeers,
    names_of_bytes,
    names_to_bytes,
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def missing(clock: Clock) -> MissingPeers:
    return MissingPeers("me", PATIENCE, clock)


def waits(
    missing: MissingPeers,
    clock: Clock,
    seconds: float,
    step: float,
    named: Callable[[int], str] = lambda t: "other",
) -> list[float]:
    """The seconds until a peer was missing, and from each time to the next, where each check finds
    another name."""
    begin = clock.now
    times = [clock.now]
    t = 0
    while clock.now <= begin + seconds:
        missing.add([named(t)])
        if missing.check():
            times.append(clock.now)
        clock.now += step
        t += 1
    return [later - earlier for earlier, later in zip(times, times[1:], strict=False)]


def test_a_peer_named_for_long_is_missing(missing: MissingPeers, clock: Clock) -> None:
    assert waits(missing, clock, PATIENCE + 1, 0.5) == [PATIENCE + 0.5]


def test_attempts_in_vain_double_the_wait_up_to_ten_minutes(
    missing: MissingPeers, clock: Clock
) -> None:
    # the wait begins with the round after the last attempt, and ends with the first round that is
    # later than it
    doubled = [6 + 0.5] + [PATIENCE * 2**k + 1 for k in range(1, 7)]
    assert waits(missing, clock, 3000, 0.5) == [*doubled, *[LONGEST_WAIT + 1] * 3]


def test_names_that_are_invented_one_after_another_disturb_as_seldom(
    missing: MissingPeers, clock: Clock
) -> None:
    """Each is named for ten seconds: longer than the first wait, and shorter than the second."""
    assert waits(
        missing=missing, clock=clock, seconds=3000, step=0.5, named=lambda t: f"ghost-{t // 20}"
    ) == [6.5]


def test_a_stranger_that_knows_the_waits_disturbs_twice_a_minute_at_most(clock: Clock) -> None:
    """Names for somewhat longer than the wait, then is silent for a time, again and again; the
    worst of many times."""
    attempts = {}
    for silence in (0, 12, 18, 24, 25, 30, 60):
        missing = MissingPeers("me", PATIENCE, clock)
        begin = clock.now
        pause = clock.now
        attempts[silence] = 0
        while clock.now < begin + 3000:
            if clock.now >= pause:
                missing.add(["ghost"])
            if missing.check():
                attempts[silence] += 1
                pause = clock.now + silence
            clock.now += 0.5
    assert 80 < max(attempts.values()) <= 100 and attempts[0] < 12


def test_a_wait_longer_than_the_longest_stays(clock: Clock) -> None:
    """With a lease of half an hour."""
    assert waits(MissingPeers("me", 1080.0, clock), clock, 5000, 1) == [1081, 1082, 1082, 1082]


def test_some_that_are_slow_to_come_back_do_not_keep_the_others_away(
    missing: MissingPeers, clock: Clock
) -> None:
    """Connections that take eight seconds: the second wait is long enough for all."""
    attempts = 0
    begin = clock.now
    for _ in range(1000):
        if clock.now - begin < 8:
            missing.add(["slow"])
        else:
            missing.remove("slow")
        if missing.check():
            attempts = attempts + 1
            begin = clock.now
        clock.now += 0.5
    assert attempts == 1


def test_after_a_calm_time_the_first_wait_is_short_again(
    missing: MissingPeers, clock: Clock
) -> None:
    assert waits(missing, clock, 20, 0.5) == [6.5, 13]
    missing.remove("other")
    for _ in range(50):  # the wait is 24 s now: 48 s without a missing peer
        assert not missing.check()
        clock.now += 1
    assert waits(missing, clock, 7, 0.5) == [6.5]


def test_before_a_calm_time_it_is_not(missing: MissingPeers, clock: Clock) -> None:
    waits(missing, clock, 20, 0.5)
    missing.remove("other")
    for _ in range(40):
        assert not missing.check()
        clock.now += 1
    assert waits(missing, clock, 25, 0.5) == [24.5]


def test_rounds_longer_than_the_wait(missing: MissingPeers, clock: Clock) -> None:
    assert waits(missing, clock, 240, 60) == [60, 120]


def test_a_word_in_each_third_round_is_enough(missing: MissingPeers, clock: Clock) -> None:
    times = []
    for t in range(10):
        if t % 3 == 0:
            missing.add(["other"])
        times += [t] if missing.check() else []
        clock.now += 60
    assert times == [3, 9]


@pytest.mark.parametrize("step", [0.5, 60])
def test_a_peer_that_left_and_comes_back_is_not_missing_at_once(
    missing: MissingPeers, clock: Clock, step: float
) -> None:
    """Reports about it from before it left are too old to count when it comes back."""
    for _ in range(100):
        missing.add(["other"] if clock.now == 1000 else [])
        assert missing.check() == []
        clock.now += step
    missing.add(["other"])
    assert missing.check() == []


def test_a_peer_that_comes_online_is_not_missing(missing: MissingPeers, clock: Clock) -> None:
    missing.add(["other"])
    missing.remove("other")
    clock.now += 10
    missing.add(["other"])
    assert missing.check() == []


def test_the_peer_itself_and_invalid_names_are_not_remembered(
    missing: MissingPeers, clock: Clock
) -> None:
    for _ in range(2):
        missing.add(["me", "", "no name/", "two\nlines", "\ufffd"])
        assert missing.check() == []
        clock.now += 10


def test_all_that_are_missing_are_named_and_of_very_many_some(
    missing: MissingPeers, clock: Clock
) -> None:
    missing.add(["b", "a"])
    clock.now += 7
    missing.add(["b", "a", "new"])
    assert missing.check() == ["a", "b"]
    names = [f"ghost-{k}" for k in range(100_000)]
    missing.add(names)
    clock.now += 13
    missing.add(names)
    assert len(missing.check()) == 1000


def test_names_as_bytes_and_back() -> None:
    assert set(names_of_bytes(names_to_bytes(["one", "other"]))) == {"one", "other"}
    assert names_of_bytes(names_to_bytes([])) == [""]  # which is no name, and is not taken for one
    assert names_of_bytes(b"one\n\xff") == ["one", "\ufffd"]


def test_of_more_names_than_fit_others_come_each_time() -> None:
    names = {f"{k:064}" for k in range(600)}  # of 65 bytes with the end of the line
    contents = [names_to_bytes(names) for _ in range(20)]
    parts = [set(names_of_bytes(content)) for content in contents]
    assert all(
        len(content) <= TEXT_LIMIT and len(part) == 504
        for content, part in zip(contents, parts, strict=True)
    )
    assert set.union(*parts) == names
    assert names_of_bytes(b"x" * (TEXT_LIMIT + 1)) == []
