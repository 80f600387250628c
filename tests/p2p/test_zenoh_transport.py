"""Zenoh as a transport: peers online, requests and replies, and refusals."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedkin.config.peer_settings import NetworkSettings
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.p2p.missing_peers import MissingPeers
from fedkin.p2p.zenoh_transport import ZenohTransport, zenoh_config
from tests.free_ports import free_ports, links, network, until

zenoh = pytest.importorskip("zenoh", reason="real peers need pip install 'fedkin[p2p]'")


def test_all_find_each_other_through_one_and_lose_peers_that_leave(
    opened: Callable[..., ZenohTransport],
) -> None:
    ports = free_ports(3)
    known = [[], ports[:1], ports[:1]]
    peers = {
        name: opened(name, links(port, *k))
        for name, port, k in zip("abc", ports, known, strict=True)
    }
    for one in peers.values():
        one.serve(lambda text: None)
    for name, one in peers.items():
        assert until(lambda one=one, name=name: one.peers().keys() == set("abc") - {name})
    peers["a"].close()  # the one whose address the others had
    assert until(lambda: peers["b"].peers().keys() == {"c"} and peers["c"].peers().keys() == {"b"})


def test_a_peer_is_there_from_the_moment_it_serves(opened: Callable[..., ZenohTransport]) -> None:
    ports = free_ports(2)
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    other.serve(lambda text: b"here")
    assert until(lambda: "other" in one.peers())
    time.sleep(0.1)
    assert "one" not in other.peers()
    assert one.request(["other", "absent"], "model", 2.0) == {"other": (b"here",), "absent": ()}


def test_questions_go_to_all_at_once_and_their_text_arrives(
    opened: Callable[..., ZenohTransport],
) -> None:
    """No peer answers before all three have been asked."""
    ports = free_ports(4)
    together = threading.Barrier(3, timeout=20)
    asker = opened("asker", links(ports[0]))
    for k in (1, 2, 3):
        one = opened(f"p{k}", links(ports[k], ports[0]))
        one.serve(lambda text, k=k: (together.wait(), f"{k}:{text}".encode())[1])
    assert until(lambda: len(asker.peers()) == 3)
    replies = asker.request(["p1", "p2", "p3"], "model@7", 30.0)
    assert replies == {f"p{k}": (f"{k}:model@7".encode(),) for k in (1, 2, 3)}


def test_an_empty_answer_is_asked_for_once_more(opened: Callable[..., ZenohTransport]) -> None:
    ports = free_ports(2)
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    asked: list[str] = []
    other.serve(lambda text: (asked.append(text), b"at last" if len(asked) == 2 else None)[1])
    assert until(lambda: "other" in one.peers())
    assert one.request(["other"], "model", 3.0) == {"other": (b"at last",)}
    other_empty = opened("third", links(free_ports(1)[0], ports[0]))
    count: list[str] = []
    other_empty.serve(lambda text: count.append(text))
    assert until(lambda: "third" in one.peers())
    assert one.request(["third"], "model", 3.0) == {"third": ()} and len(count) == 2


def test_a_deadline_is_kept(opened: Callable[..., ZenohTransport]) -> None:
    """The other answers only when the request is over."""
    ports = free_ports(2)
    over = threading.Event()
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    other.serve(lambda text: (over.wait(30), b"late")[1])
    assert until(lambda: "other" in one.peers())
    assert one.request(["other"], "model", 0.5) == {"other": ()}
    over.set()


def test_two_that_answer_for_one_name_are_both_heard(opened: Callable[..., ZenohTransport]) -> None:
    ports = free_ports(3)
    one, other, eve = (
        opened(n, links(p, *ports[:1])) for n, p in zip(("one", "other", "eve"), ports, strict=True)
    )
    other.serve(lambda text: b"mine")
    eve._session.declare_queryable(
        "fedkin/trial/model/other", lambda query: query.reply(str(query.key_expr), b"hers")
    )
    assert until(lambda: "other" in one.peers())
    assert until(lambda: set(one.request(["other"], "model", 1.0)["other"]) == {b"mine", b"hers"})


def test_a_message_that_is_much_too_long_is_not_taken_in(
    opened: Callable[..., ZenohTransport],
) -> None:
    ports = free_ports(2)
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    size = [10**6]
    other.serve(lambda text: b"x" * size[0])
    assert until(lambda: "other" in one.peers())
    assert one.request(["other"], "model", 2.0) == {"other": ()}
    size[0] = 900  # two vectors of 100 numbers, and something to say about them
    assert one.request(["other"], "model", 2.0) == {"other": (b"x" * 900,)}


def test_of_two_with_one_name_the_one_that_comes_second_goes(
    opened: Callable[..., ZenohTransport],
) -> None:
    ports = free_ports(3)
    first = opened("ada", links(ports[0]))
    witness = opened("bob", links(ports[1], ports[0]))
    second = opened("ada", links(ports[2], ports[1]))
    for each in (first, witness):
        each.serve(lambda text: None)
    assert until(lambda: "ada" in witness.peers() and second._online >= {("ada", first.session)})
    with pytest.raises(ConfigError, match="another peer had the name 'ada' first"):
        second.serve(lambda text: None)
    assert until(lambda: first.peers() == {"bob": witness.session})
    first.close()
    assert until(lambda: "ada" not in witness.peers())
    second.serve(lambda text: None)  # now the name is free
    assert until(lambda: witness.peers() == {"ada": second.session})


def test_of_two_with_one_name_that_meet_late_the_younger_goes(
    opened: Callable[..., ZenohTransport],
) -> None:
    ports = free_ports(3)
    older = opened("ada", links(ports[0]))
    younger = opened("ada", links(ports[1]))
    for each in (older, younger):
        each.serve(lambda text: None)
    assert older.peers() == younger.peers() == {}
    opened("bridge", links(ports[2], *ports[:2]))

    def gone() -> bool:
        try:
            younger.peers()
        except ConfigError:
            return True
        return False

    assert until(gone)
    older.peers()


def test_a_peer_goes_on_trying_an_address_without_a_peer(
    opened: Callable[..., ZenohTransport],
) -> None:
    ports = free_ports(2)
    early = opened("early", links(ports[0], ports[1]))
    time.sleep(1.5)
    late = opened("late", links(ports[1]))
    for each in (early, late):
        each.serve(lambda text: b"here")
    assert until(lambda: "late" in early.peers() and "early" in late.peers(), 20)
    assert early.request(["late"], "model", 2.0) == {"late": (b"here",)}


def test_federations_do_not_meet(opened: Callable[..., ZenohTransport]) -> None:
    ports = free_ports(3)
    ours = opened("ours", links(ports[0]))
    theirs = opened("theirs", links(ports[1], ports[0]), federation="other")
    third = opened("third", links(ports[2], ports[0]))
    for each in (theirs, third):
        each.serve(lambda text: b"here")
    assert until(lambda: "third" in ours.peers())
    assert "theirs" not in ours.peers() and ours.request(["theirs"], "model", 0.5) == {"theirs": ()}


def test_a_port_that_is_taken_is_named(opened: Callable[..., ZenohTransport]) -> None:
    (port,) = free_ports(1)
    opened("one", links(port))
    with pytest.raises(ConfigError, match=f"network: Zenoh cannot start: .*{port}.*in use"):
        opened("other", links(port))


def test_the_users_file_is_used(tmp_path: Path, opened: Callable[..., ZenohTransport]) -> None:
    own = tmp_path / "own.json5"
    own.write_text("{transport: {link: {tx: {lease: 1234}}}, scouting: {gossip: {enabled: false}}}")
    (port,) = free_ports(1)
    config = json.loads(str(zenoh_config(links(port, zenoh=str(own)), 10)))
    assert config["transport"]["link"]["tx"]["lease"] == 1234
    assert (
        config["scouting"]["gossip"]["enabled"] is False
        and config["scouting"]["multicast"]["enabled"] is False
    )
    assert config["mode"] == "peer" and config["listen"]["endpoints"] == [f"tcp/127.0.0.1:{port}"]


@pytest.mark.parametrize("content", [None, "{mode: ", "{no_such_option: 1}"])
def test_a_file_that_is_none_of_zenohs(tmp_path: Path, content: str | None) -> None:
    own = tmp_path / "own.json5"
    if content is not None:
        own.write_text(content)
    with pytest.raises(ConfigError, match=r"network\.zenoh: .*own\.json5"):
        network("one", NetworkSettings(zenoh=str(own)))


def test_without_zenoh_it_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[p2p\]'"):
        network("one", NetworkSettings())


def test_a_peer_whose_going_is_heard_after_its_return_is_found_again(
    opened: Callable[..., ZenohTransport],
) -> None:
    """Where a link breaks and is made again, news may come in this order, and nothing comes after
    it."""
    ports = free_ports(2)
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    other.serve(lambda text: None)
    assert until(lambda: "other" in one.peers())
    left = SimpleNamespace(
        key_expr=f"{one._root}/alive/other/{other.session}", kind=zenoh.SampleKind.DELETE
    )
    one._on_change(left)  # type: ignore[arg-type]
    assert until(lambda: one.peers() == {"other": other.session})


def lose(
    one: ZenohTransport, other: str, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """``one`` has not ``other`` online, and does not hear again that it is, until its connections
    are made again."""
    take = one._on_change

    def without_other(sample: Any, session: Any = one._session) -> None:
        if one._session is not session or f"/{other}/" not in str(sample.key_expr):
            take(sample)

    monkeypatch.setattr(one, "_on_change", without_other)
    one._online = {peer for peer in one._online if peer[0] != other}
    one._missing = MissingPeers(one._name, clock=lambda: clock[0])


def test_a_peer_that_hears_one_it_cannot_reach_connects_again(
    opened: Callable[..., ZenohTransport],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a hang of about a lease one side may lack all that the other declared, and hears of
    nothing new."""
    ports = free_ports(2)
    clock = [0.0]
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    one.serve(lambda text: b"mine")
    other.serve(lambda text: b"its")
    assert until(lambda: "other" in one.peers()) and until(lambda: "one" in other.peers())
    lose(one, "other", monkeypatch, clock)
    for clock[0] in (0.0, 6.0):  # it may have just left: its request was on the way
        assert other.request(["one"], "status", 5.0) == {"one": (b"mine",)}
        assert one.peers() == {} and not caplog.text
    clock[0] = 6.1
    assert other.request(["one"], "status", 5.0) == {"one": (b"mine",)}
    session = one._session
    assert until(lambda: one.peers() == {"other": other.session})
    assert (
        one._session is not session
        and "other: online for other peers but not for this peer" in caplog.text
    )
    assert until(lambda: other.request(["one"], "status", 5.0) == {"one": (b"mine",)})
    assert one.request(["other"], "status", 5.0) == {"other": (b"its",)}


def test_two_that_lost_each_other_hear_it_from_a_third(
    opened: Callable[..., ZenohTransport],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a hang of about a lease both may have dropped their connection, with none of them to
    make it again."""
    ports = free_ports(3)
    clock = [0.0]
    third = opened("third", links(ports[0]))
    one = opened("one", links(ports[1], ports[0]))
    other = opened("other", links(ports[2], ports[0]))
    for peer in (third, one, other):
        peer.serve(lambda text: b"reply")
        assert until(lambda peer=peer: peer is third or "third" in peer.peers())
    assert until(lambda: set(third.peers()) == {"one", "other"}) and until(
        lambda: len(one.peers()) == 2
    )
    lose(one, "other", monkeypatch, clock)
    for clock[0] in (0.0, 6.1):
        assert set(one.peers()) == {"third"}
        assert one.request(["third"], "status", 5.0) == {"third": (b"reply",)}
    # The connections are made again, and peers that were online are waited for.
    assert "third" in one.peers()
    assert until(lambda: set(one.peers()) == {"third", "other"})
    assert "other: online for other peers but not for this peer, which therefore" in caplog.text
    assert one.request(["other"], "status", 5.0) == {"other": (b"reply",)}


def test_a_reply_arrives_with_any_number_of_names(
    opened: Callable[..., ZenohTransport],
) -> None:
    ports = free_ports(2)
    one = opened("one", links(ports[0]))
    other = opened("other", links(ports[1], ports[0]))
    other.serve(lambda text: b"its" * 5000)
    assert until(lambda: "other" in one.peers())
    other._online |= {(f"{k:064}", "1") for k in range(10_000)}
    assert one.request(["other"], "status", 5.0) == {"other": (b"its" * 5000,)}


def test_where_the_connections_cannot_be_made_again_it_tries_later(
    opened: Callable[..., ZenohTransport], caplog: pytest.LogCaptureFixture
) -> None:
    """A port that another process took in that moment does not end the peer."""
    ports = free_ports(2)
    clock = [0.0]
    one = opened("one", links(ports[0], ports[1]))
    other = opened("other", links(ports[1]))
    one.serve(lambda text: b"mine")
    other.serve(lambda text: b"its")
    assert until(lambda: "other" in one.peers())
    one._missing = MissingPeers("one", clock=lambda: clock[0])
    for clock[0] in (0.0, 7.0):
        one._note(["ghost"])
    # Which the other has.
    settings = one._settings
    one._settings = links(ports[1])
    assert one.peers() == one.peers() == {} and one.request([], "status", 5.0) == {}
    assert caplog.text.count("trying again every round") == 1 and f"{ports[1]}" in caplog.text
    one._settings = settings
    assert one.peers() == {"other": other.session}
    assert until(lambda: other.request(["one"], "status", 5.0) == {"one": (b"mine",)})


def test_many_missing_peers_make_one_short_line(
    opened: Callable[..., ZenohTransport], caplog: pytest.LogCaptureFixture
) -> None:
    one = opened("one", links(*free_ports(1)))
    clock = [0.0]
    one._missing = MissingPeers("one", clock=lambda: clock[0])
    for clock[0] in (0.0, 7.0):
        one._note([f"ghost-{k}" for k in range(9)])
    one.peers()
    assert (
        "ghost-0, ghost-1, ghost-2, ghost-3, ghost-4 and 4 more: online for other peers but not "
        "for this peer" in caplog.text
    )


def test_the_wait_fits_the_lease(tmp_path: Path, opened: Callable[..., ZenohTransport]) -> None:
    (tmp_path / "slow.json5").write_text("{transport: {link: {tx: {lease: 60000}}}}")
    slow = opened("slow", links(*free_ports(1), zenoh=str(tmp_path / "slow.json5")))
    quick = opened("quick", links(*free_ports(1)))
    assert (slow._missing._patience, quick._missing._patience) == (36.0, 6.0)
