"""Whole federations with random faults: the invariants hold after each of some hundred
schedules."""

from __future__ import annotations

import jaxtyping
import pytest

from tests.deterministic import federation, peer_federation, peer_schedule, schedule
from tests.deterministic.kept_seeds import KEPT, KEPT_PEERS
from tests.deterministic.shrinking import find, find_kill, find_ledgers, find_options, find_peers

_PART = 25


@pytest.fixture(autouse=True)
def _types_are_checked_in_first_parts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other parts call the same functions. Without checks of types they take half the time."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if parameters.get("part", 0) > 0:
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize("part", range(12))
def test_a_server_and_its_nodes(part: int) -> None:
    """The story of a seed: ``python -m tests.deterministic --schedules 1 --seed SEED``."""
    assert [
        found for seed in range(part * _PART, (part + 1) * _PART) if (found := find(seed))
    ] == []


@pytest.mark.parametrize("part", range(2))
def test_one_of_four_sites_is_killed(part: int) -> None:
    """No other site loses its place, and no round takes longer than its deadline and grace."""
    assert [
        found for seed in range(part * _PART, (part + 1) * _PART) if (found := find_kill(seed))
    ] == []


@pytest.mark.parametrize("part", range(2))
def test_the_ledgers_of_sites_explain_all_replies(part: int) -> None:
    """Whatever is killed, lost, repeated or cut from power: a line is on the disk before its
    message leaves."""
    assert [
        found for seed in range(part * _PART, (part + 1) * _PART) if (found := find_ledgers(seed))
    ] == []


@pytest.mark.parametrize("part", range(2))
def test_options_of_a_run(part: int) -> None:
    """First replies, buffers, quorums, the monitor, and floors of sites. A simulation that repeats
    the order of arrivals ends with the same bits."""
    assert [
        found for seed in range(part * _PART, (part + 1) * _PART) if (found := find_options(seed))
    ] == []


def test_schedules_kill_in_every_step() -> None:
    drawn = [schedule.draw_kill(seed).faults for seed in range(2 * _PART)]
    assert {fault.what for (fault,) in drawn} == set(schedule.KILL_STEPS)


@pytest.mark.parametrize("part", range(2))
def test_peers(part: int) -> None:
    assert [
        found for seed in range(part * _PART, (part + 1) * _PART) if (found := find_peers(seed))
    ] == []


@pytest.mark.parametrize("name", KEPT)
def test_faults_found_once_are_not_found_again(name: str) -> None:
    federation.run_schedule(KEPT[name])


@pytest.mark.parametrize("name", KEPT_PEERS)
def test_faults_found_of_peers_are_not_found_again(name: str) -> None:
    peer_federation.run_schedule(KEPT_PEERS[name])


def test_a_seed_has_one_story() -> None:
    """In every process: nothing of a story is the computer's own."""
    for seed in (3, 11):
        one, two = (federation.run_schedule(schedule.draw(seed)) for _ in range(2))
        assert [_plain(line) for line in one.story] == [_plain(line) for line in two.story] and len(
            one.story
        ) > 20
    one, two = (peer_federation.run_schedule(peer_schedule.draw(5)) for _ in range(2))
    assert [_plain(line) for line in one.story] == [_plain(line) for line in two.story]


def _plain(line: str) -> str:
    """Without the names of folders and runs, which are different each time."""
    return line.partition("/dev/shm")[0].partition("/tmp")[0]


def test_a_story_can_be_read() -> None:
    text = str(schedule.draw(0))
    assert text.startswith("seed 0: ") and "\n  * " in text
    assert "peers with" in str(peer_schedule.draw(0))
