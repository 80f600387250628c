"""A network of peers in memory (``p2p.transport.PeerTransport``) that loses, repeats and changes
messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from fedkin.core.errors import ConfigError
from fedkin.p2p.messages import Message, encode, parse_request
from fedkin.p2p.transport import RequestHandler
from tests.deterministic.fake_clock import FakeClock
from tests.deterministic.fake_disk import KilledError
from tests.deterministic.peer_schedule import PeerSchedule
from tests.deterministic.schedule import Fault

LEASE = 10.0  # seconds after which a peer that was killed is no longer listed
FEDERATION = "chaos"


@dataclass
class RoundTrace:
    """What a round of a peer depends on: who was listed last, and all replies; and the valid
    replies as they were."""

    peers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[tuple[str, ...], str, dict[str, tuple[bytes, ...]]]] = field(
        default_factory=list
    )
    sound: dict[str, list[bytes]] = field(default_factory=dict)


class FakeNetwork:
    """The network of several peers.

    Args:
        schedule: with the faults.
        clock: of the whole world.
    """

    def __init__(self, schedule: PeerSchedule, clock: FakeClock) -> None:
        self.schedule = schedule
        self.clock = clock
        self.online: dict[str, FakeEnd] = {}
        self.unreachable: dict[str, float] = {}
        self._numbers = dict.fromkeys(schedule.peers, 0)
        self._faults = {
            (one.site, one.number, one.kind): one for one in schedule.faults if one.number
        }
        self._sessions = 0

    def end(self, name: str) -> FakeEnd:
        """A new end, of one process of a peer."""
        self._sessions += 1
        return FakeEnd(self, name, f"{self._sessions:04d}")

    def deliver(self, sender: str, name: str, text: str) -> tuple[tuple[bytes, ...], bytes | None]:
        """The replies of one peer to a request, and its own one if it is among them."""
        number = self._numbers[name] = self._numbers[name] + 1
        faults = {
            kind: f for (site, n, kind), f in self._faults.items() if (site, n) == (name, number)
        }
        far = (
            max(self.unreachable.get(sender, 0.0), self.unreachable.get(name, 0.0)) > self.clock.now
        )
        end = self.online.get(name)
        if "lose_request" in faults or far or end is None or end.killed or end.handler is None:
            return (), None
        reply = end.handler(text)
        if reply is None or "lose_reply" in faults:
            return (), None
        end.sent += len(reply)
        if "tamper" in faults:
            fault = faults["tamper"]
            return (
                tampered(
                    fault=fault,
                    name=name,
                    reply=reply,
                    text=text,
                    random=Random(f"{self.schedule.seed} {fault}"),
                ),
            ), None
        if "contradict" in faults:
            return (reply, reply[:-1] + bytes([reply[-1] ^ 1])), None
        # One that comes twice is one reply: the transport gives different ones only.
        return (reply,), reply


class FakeEnd:
    """One end of the network."""

    def __init__(self, network: FakeNetwork, name: str, session: str) -> None:
        self.network = network
        self.name = name
        self.session = session
        self.handler: RequestHandler | None = None
        self.killed = False
        self.sent = 0  # bytes of all replies
        self.trace: Callable[[], RoundTrace] = RoundTrace

    def peers(self) -> dict[str, str]:
        self._check()
        online = self.network.online
        if online.get(self.name, self) is not self:
            raise ConfigError(f"peer.name: another peer is called {self.name!r}")
        cut = self.network.unreachable.get(self.name, 0.0) > self.network.clock.now
        found = (
            {}
            if cut
            else {name: end.session for name, end in sorted(online.items()) if name != self.name}
        )
        self.trace().peers = found
        return found

    def request(
        self, names: Sequence[str], text: str, timeout: float
    ) -> dict[str, tuple[bytes, ...]]:
        self._check()
        trace = self.trace()
        replies = {}
        for name in names:
            replies[name], sound = self.network.deliver(self.name, name, text)
            trace.sound.setdefault(name, []).extend([] if sound is None else [sound])
        self.network.clock.sleep(0.1 if all(replies.values()) else timeout)
        self._check()
        trace.requests.append((tuple(names), text, replies))
        return replies

    def serve(self, handler: RequestHandler) -> None:
        self.peers()
        self.handler = handler
        self.network.online[self.name] = self

    def close(self) -> None:
        """Leave: no peer lists this end any more."""
        if self.network.online.get(self.name) is self:
            del self.network.online[self.name]

    def kill(self) -> None:
        """The process ends; others learn of it later."""
        self.killed = True
        self.network.clock.at(self.network.clock.now + LEASE, self.close)

    def _check(self) -> None:
        if self.killed:
            raise KilledError(self.name)


def tampered(fault: Fault, name: str, reply: bytes, text: str, random: Random) -> bytes:
    """A reply that no peer may use, in place of another."""
    if fault.what == "garbage":
        return random.randbytes(random.randrange(2000))
    if fault.what == "cut":
        return reply[: random.randrange(len(reply))]
    size = 5 if fault.what == "shape" else 4
    number = np.nan if fault.what == "nan" else 1e3
    arrays = {key: np.full(size, number, np.float32) for key in parse_request(text).arrays}
    if fault.what == "another":
        arrays = {"else": np.zeros(4, np.float32)}
    data = encode(
        Message("stranger" if fault.what == "sender" else name, 10**6, 10, arrays),
        "other" if fault.what == "federation" else FEDERATION,
    )
    return data.replace(b'"F32"', b'"I32"') if fault.what == "dtype" else data
