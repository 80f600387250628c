"""Peers that others name and that are not online here."""

from __future__ import annotations

import pytest

from fedkin.p2p.missing_peers import PATIENCE, TEXT_LIMIT, MissingPeers, names_of_bytes, names_to_bytes


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def missing(clock: Clock) -> MissingPeers:
    return MissingPeers("me", clock)


def rounds(missing: MissingPeers, clock: Clock, seconds: float, step: float, named: str = "other") -> list[float]:
    """When, in rounds of ``step`` seconds in each of which ``named`` is named, it was missing."""
    begin, times = clock.now, []
    while clock.now < begin + seconds:
        missing.add([named])
        if missing.check(set()) == [named]:
            times.append(clock.now - begin)
        clock.now += step
    return times


def test_who_is_named_for_long_and_not_online_is_missing(missing: MissingPeers, clock: Clock) -> None:
    assert rounds(missing, clock, PATIENCE + 1, 0.5) == [PATIENCE + 0.5]


def test_attempts_in_vain_double_the_wait(missing: MissingPeers, clock: Clock) -> None:
    times = rounds(missing, clock, 10 * PATIENCE, 0.5)
    # each wait begins with the round after, and ends with the first that is longer than 6, 12 and 24 s
    assert times == [6.5, 6.5 + 0.5 + 12.5, 6.5 + 0.5 + 12.5 + 0.5 + 24.5]


def test_once_it_was_online_the_wait_is_the_first_again(missing: MissingPeers, clock: Clock) -> None:
    rounds(missing, clock, 4 * PATIENCE, 0.5)
    assert missing.check({"other"}) == []
    assert rounds(missing, clock, PATIENCE + 1, 0.5) == [PATIENCE + 0.5]


def test_rounds_longer_than_the_patience(missing: MissingPeers, clock: Clock) -> None:
    assert rounds(missing, clock, 240, 60)[0] == 60


def test_a_word_in_each_third_round_is_enough(missing: MissingPeers, clock: Clock) -> None:
    times = []
    for t in range(12):
        if t % 3 == 0:
            missing.add(["other"])
        times += [t] if missing.check(set()) else []
        clock.now += 60
    assert times == [3, 9]


@pytest.mark.parametrize("step", [0.5, 60])
def test_who_left_and_comes_back_is_not_missing_at_once(missing: MissingPeers, clock: Clock, step: float) -> None:
    """What was still said of it when it left is too old to count when it comes back."""
    missing.add(["other"])
    assert missing.check(set()) == []
    for _ in range(100):
        clock.now += step
        assert missing.check(set()) == []
    missing.add(["other"])
    assert missing.check(set()) == []


def test_who_is_online_me_and_what_is_no_name(missing: MissingPeers, clock: Clock) -> None:
    for _ in range(20):
        missing.add(["me", "one", "", "no name/", "\ufffd"])
        assert missing.check({"one"}) == []
        clock.now += 1


def test_all_that_are_missing_are_named(missing: MissingPeers, clock: Clock) -> None:
    missing.add(["b", "a"])
    missing.check(set())
    clock.now += 7
    missing.add(["b", "a", "new"])
    assert missing.check(set()) == ["a", "b"]


def test_names_as_bytes_and_back() -> None:
    assert set(names_of_bytes(names_to_bytes(["one", "other"]))) == {"one", "other"}
    assert names_of_bytes(names_to_bytes([])) == [""]  # which is no name, and is not taken for one
    assert names_of_bytes(b"one\n\xff") == ["one", "\ufffd"]


def test_of_more_names_than_fit_others_come_each_time() -> None:
    names = {f"{k:064}" for k in range(600)}  # of 65 bytes with the end of the line
    contents = [names_to_bytes(names) for _ in range(20)]
    parts = [set(names_of_bytes(content)) for content in contents]
    assert all(len(content) <= TEXT_LIMIT and len(part) == 504 for content, part in zip(contents, parts, strict=True))
    assert set.union(*parts) == names
    assert names_of_bytes(b"x" * (TEXT_LIMIT + 1)) == []
