"""Mutual TLS on the loopback: who is let in, and who gets nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedkin.p2p.init_federation import init_federation
from fedkin.p2p.launch import TLS_KEYS
from fedkin.p2p.messages import MODEL, Message, PeerMessageError, Request, decode, encode
from fedkin.p2p.zenoh_transport import ZenohTransport
from fedkin.security.signatures import Signer
from tests.free_ports import free_ports, links, until

pytest.importorskip("zenoh", reason="real peers need pip install 'fedkin[p2p]'")
SAID = Message("peer-1", 1, 10, {"model": np.ones(2, np.float32)})


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three members of one federation, as ``fedkin peer init --tls`` makes them."""
    folder = tmp_path_factory.mktemp("members")
    init_federation(folder, 3, tls=True)
    return folder


def signer_of(folder: Path, name: str) -> Signer:
    own = folder / name
    return Signer(
        name=name,
        authority=own / "ca.pem",
        certificate=own / "certificate.pem",
        key=own / "key.pem",
        keys=TLS_KEYS,
    )


def member(
    members: Path, name: str, port: int, *known: int, rules: bool = True
) -> tuple[str, object]:
    """Name and links of a member; without ``rules`` it lets every member do everything."""
    own = members / name
    more = {"zenoh": str(own / "access.json5")} if rules else {}
    return name, links(port, *known, tls=own, **more)


def test_members_find_and_answer_each_other(
    members: Path, opened: Callable[..., ZenohTransport]
) -> None:
    ports = free_ports(3)
    names = [f"peer-{k}" for k in range(3)]
    nets = [opened(*member(members, n, p, *ports[:1])) for n, p in zip(names, ports, strict=True)]
    for name, net in zip(names, nets, strict=True):
        net.serve(lambda text, name=name: name.encode())
    for name, net in zip(names, nets, strict=True):
        others = sorted(set(names) - {name})
        assert until(lambda net=net, others=others: sorted(net.peers()) == others)
        assert net.request(others, "model", 3.0) == {other: (other.encode(),) for other in others}


@pytest.mark.parametrize("stranger", ["plain", "another authority", "no certificate"])
def test_a_stranger_gets_nothing_and_is_not_seen(
    stranger: str, members: Path, tmp_path: Path, opened: Callable[..., ZenohTransport]
) -> None:
    ports = free_ports(2)
    inside = opened(*member(members, "peer-0", ports[0]))
    inside.serve(lambda text: b"secret")
    if stranger == "plain":
        outside = opened("peer-1", links(ports[1], ports[0]))
    else:
        init_federation(tmp_path / "theirs", 2, tls=True)
        own = tmp_path / "theirs" / "peer-1"
        if stranger.startswith("no"):
            # It trusts ours, and shows one that we did not sign.
            shutil.copy(members / "ca.pem", own / "ca.pem")
        outside = opened("peer-1", links(ports[1], ports[0], tls=own))
    outside.serve(lambda text: b"trap")
    time.sleep(1.5)
    assert outside.peers() == {} and outside.request(["peer-0"], "model", 1.0) == {"peer-0": ()}
    assert inside.peers() == {} and inside.request(["peer-1"], "model", 1.0) == {"peer-1": ()}


def test_a_member_outside_the_rules_gets_nothing(
    members: Path, opened: Callable[..., ZenohTransport]
) -> None:
    folder = members.parent / "more"
    shutil.copytree(members, folder)
    before = (folder / "peer-0" / "access.json5").read_text()
    init_federation(folder, 4, tls=True)
    (folder / "peer-0" / "access.json5").write_text(before)  # peer-0 has not heard of peer-3 yet
    ports = free_ports(2)
    inside = opened(*member(folder, "peer-0", ports[0]))
    inside.serve(lambda text: b"secret")
    late = opened(*member(folder, "peer-3", ports[1], ports[0]))
    late.serve(lambda text: b"hello")
    time.sleep(1.5)
    assert late.request(["peer-0"], "model", 1.0) == {"peer-0": ()} and inside.peers() == {}


def test_a_member_cannot_answer_for_another(
    members: Path, opened: Callable[..., ZenohTransport]
) -> None:
    """Where rules are left out, by its signature; where they are not, not even that far."""
    request = Request("trial", "peer-1", MODEL, 2)
    forged = encode(SAID, "trial", signer_of(members, "peer-2"))
    for rules in (False, True):
        ports = free_ports(2)
        asker = opened(*member(members, "peer-0", ports[0], rules=rules))
        eve = opened(*member(members, "peer-2", ports[1], ports[0], rules=False))
        eve.serve(lambda text: None)
        key = "fedkin/trial/model/peer-1"
        eve._session.declare_queryable(key, lambda query: query.reply(str(query.key_expr), forged))
        assert until(lambda asker=asker: "peer-2" in asker.peers())
        time.sleep(0.3)
        replies = asker.request(["peer-1"], "model", 1.0)["peer-1"]
        assert len(replies) == (0 if rules else 1)
        for reply in replies:
            with pytest.raises(PeerMessageError, match="certificate"):
                decode(reply, request, signer_of(members, "peer-0"))
