"""One run of a schedule of peers: the real peers and their folders, on a fake network, a fake clock
and fake disks.

A peer that waits lets the others go on: their rounds overlap as in separate processes, in an
order that the seed decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from unittest.mock import patch

import numpy as np

from fedkin.config import registry
from fedkin.config.peer_settings import PeerSettings
from fedkin.core import storage
from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.storage import complete_lines
from fedkin.p2p.messages import Message, Request, decode
from fedkin.p2p.peer import Peer, PeerMemory
from fedkin.p2p.peer_folder import METRICS, PeerFolder
from fedkin.p2p.peer_table import PeerTable
from fedkin.simulation.fake_world import FakeWorld
from tests.deterministic.checked_run import Violation, checked_run
from tests.deterministic.fake_clock import FakeClock
from tests.deterministic.fake_disk import FakeDisk, KilledError
from tests.deterministic.federation import logged
from tests.deterministic.peer_network import FEDERATION, FakeEnd, FakeNetwork, RoundTrace
from tests.deterministic.peer_schedule import END, METHODS, QUIET, PeerSchedule
from tests.deterministic.schedule import Fault
from tests.p2p.small_federations import P, two_clusters

_TIMEOUT = 2.0  # seconds for a reply
_LEAST = 2  # rounds that a peer does when nothing happens any more


class FakeEvent(Event):
    """An event that waits on a fake clock."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.sleep(timeout or 0.0)
        return self.is_set()


class Station:
    """One peer over all its lives: the replies that its saved rounds depended on, and its records
    of them."""

    def __init__(self, name: str, client: int, folder: Path) -> None:
        self.name = name
        self.client = client
        self.folder = folder
        self.rounds: dict[int, RoundTrace] = {}
        self.lines: dict[int, dict[str, Any]] = {}
        self.saved = 0  # age at the newest save that has succeeded
        self.peer: Peer | None = None
        self.end: FakeEnd | None = None
        self.wanted = False  # whether it shall run
        self.torn = False  # whether its power has failed, and it was not started since
        self.told = 0  # rounds that are done when nothing happens any more


class ObservedFolder(PeerFolder):
    """A peer's folder that tells its station about each save."""

    def __init__(self, station: Station, settings: PeerSettings) -> None:
        super().__init__(station.folder, settings)
        self._station = station

    def save(self, memory: PeerMemory) -> None:
        super().save(memory)
        self._station.saved = memory.age

    def append(self, record: dict[str, Any]) -> None:
        super().append(record)
        self._station.lines[record["round"]] = record


class PeerFederation:
    """Peers on one schedule.

    Args:
        schedule: what happens.
        folder: an empty one, in memory.
    """

    def __init__(self, schedule: PeerSchedule, folder: Path) -> None:
        self.schedule = schedule
        self.story = list[str]()
        self.clock = FakeClock(10 * END)
        self.world = clients()
        self.disk = FakeDisk(Random(f"disk {schedule.seed}"))
        self.network = FakeNetwork(schedule, self.clock)
        self.random = Random(f"pace {schedule.seed}")
        self._end = END
        self.method = registry.make(
            registry.methods(), {"name": schedule.method, **METHODS[schedule.method]}
        )
        self.early_operations: dict[str, int] = {}  # on each disk, before nothing new happens
        self.stations = {
            name: Station(name, i, folder / name) for i, name in enumerate(schedule.peers)
        }
        for name in schedule.peers:
            self.disk.add(name, folder / name)

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.clock.now:8.1f} s  {line}")

    def run(self) -> None:
        """Let peers do rounds until the end. Raises Violation."""
        late = {fault.site for fault in self.schedule.faults if fault.kind == "join"}
        for name in self.stations:
            if name not in late:
                self.clock.at(self.random.uniform(0, 2), lambda name=name: self._start(name))
        for fault in self.schedule.faults:
            self._plan(fault)
        self.clock.at(QUIET, self._note_operations)
        self.clock.at(QUIET + 14, self._note_ages)
        try:
            while self.clock.now < self._end + 20:
                self.clock.sleep(self._end + 20 - self.clock.now)
            for station in self.stations.values():
                self._check(station)
        except Exception as error:
            raise Violation(f"{type(error).__name__}: {error}") from error

    # --- lives

    def _start(self, name: str, wanted: bool = True) -> None:
        """Start a peer's process from its folder."""
        station = self.stations[name]
        station.wanted |= wanted
        if not station.wanted or (station.end is not None and not station.end.killed):
            return
        settings = PeerSettings(
            name, FEDERATION, station.client, save_every=self.schedule.save_every
        )
        try:
            folder = ObservedFolder(station, settings)
            memory = folder.restore(P)
        except (StorageError, KilledError) as error:
            self._ended(station, f"cannot start: {error!r}")
            return
        station.torn = False
        age = memory.age if memory else 0
        assert age >= station.saved, (
            f"{name} had saved round {station.saved}, and goes on from {age}"
        )
        station.rounds = {t: trace for t, trace in station.rounds.items() if t <= age}
        station.lines = {t: line for t, line in station.lines.items() if t <= age}
        end = station.end = self.network.end(name)
        peer = Peer(
            settings=settings,
            method=self.method,
            world=self.world,
            transport=end,
            storage=folder,
            memory=memory,
            timeout=_TIMEOUT,
            clock=self.clock.time,
        )
        peer.client.stopped = FakeEvent(self.clock)
        station.peer = peer
        end.trace = lambda: station.rounds.setdefault(peer.memory.age + 1, RoundTrace())
        self.tell(f"{name} starts at round {age}")
        self._next(station, end)

    def _next(self, station: Station, end: FakeEnd) -> None:
        self.clock.at(
            self.clock.now + self.random.uniform(1.0, 3.0), lambda: self._round(station, end)
        )

    def _round(self, station: Station, end: FakeEnd) -> None:
        """One round of a process, if it runs still."""
        peer = station.peer
        if end.killed or peer is None or station.end is not end or self.clock.now > self._end:
            return
        age = peer.memory.age
        station.rounds[age + 1] = RoundTrace()
        try:
            record = peer.round()
        except KilledError:
            self._ended(station, "is killed")
            return
        except ConfigError as error:  # the others list its former process still
            self._ended(station, f"ends: {error}")
            return
        assert peer.memory.age == record["round"] == age + 1
        check_average(peer, station.rounds[age + 1], record)
        self.tell(f"{station.name} has done round {age + 1} with {record['partners']}")
        self._next(station, end)

    def _ended(self, station: Station, line: str) -> None:
        """A process has ended by itself; it is started again."""
        self.tell(f"{station.name} {line}")
        machine = self.disk.machines[station.name]
        if machine.power and not machine.killed_at:
            machine.power = False
            self.disk.cut_power(station.name)
            station.torn = True
        if station.end is not None:
            station.end.kill()
        self.clock.at(self.clock.now + 5, lambda: self._start(station.name, wanted=False))
        # Its disk did so many operations late only: the others have time after it, too.
        if self.clock.now > QUIET:
            self._end = max(self._end, self.clock.now + END - QUIET)
            self.clock.at(self.clock.now + 14, self._note_ages)

    def _note_operations(self) -> None:
        self.early_operations = {
            name: machine.operations for name, machine in self.disk.machines.items()
        }

    def _note_ages(self) -> None:
        for station in self.stations.values():
            station.told = station.peer.memory.age if station.peer else 0

    # --- faults

    def _plan(self, fault: Fault) -> None:
        if fault.kind in ("crash_in_write", "power_site"):
            machine = self.disk.machines[fault.site]
            machine.killed_at = fault.number
            machine.power = fault.kind == "power_site"
        elif fault.kind == "fail_site":
            self.disk.machines[fault.site].fails_at = fault.number
        elif not fault.number:
            happens: Callable[[Fault], Any] = getattr(self, f"_{fault.kind}")
            self.clock.at(fault.at, lambda: (self.tell(str(fault)), happens(fault)))

    def _join(self, fault: Fault) -> None:
        self._start(fault.site)

    def _kill_site(self, fault: Fault) -> None:
        station = self.stations[fault.site]
        if station.end is not None:
            station.end.kill()
            self.clock.at(
                self.clock.now + fault.length, lambda: self._start(fault.site, wanted=False)
            )

    def _leave(self, fault: Fault) -> None:
        station = self.stations[fault.site]
        station.wanted = False
        if station.end is not None:
            station.end.killed = True
            station.end.close()

    def _partition(self, fault: Fault) -> None:
        self.network.unreachable[fault.site] = self.clock.now + fault.length

    def _fill_site(self, fault: Fault) -> None:
        machine = self.disk.machines[fault.site]
        machine.full = True
        self.clock.at(self.clock.now + fault.length, lambda: setattr(machine, "full", False))

    def _twin(self, fault: Fault) -> None:
        """A second peer with a name that is taken is refused."""
        first = self.network.online.get(fault.site)
        if first is None:
            return
        try:
            self.network.end(fault.site).serve(lambda text: None)
        except ConfigError:
            return
        raise AssertionError(f"two peers are called {fault.site}")

    # --- invariants

    def _check(self, station: Station) -> None:
        peer = station.peer
        name = station.name
        if peer is None:
            return
        if station.wanted:
            assert peer.memory.age >= station.told + _LEAST, (
                f"{name} has not gone on after round {station.told}"
            )
        rounds = [registry_line(line)["round"] for line in complete_lines(station.folder / METRICS)]
        expected = sorted(station.lines)
        if station.torn:
            expected = [t for t in expected if t <= station.saved or t in rounds]
        assert rounds == expected, f"{name} has other records than it wrote"
        assert len(peer.table) <= len(self.stations) and len(peer.client._cache._messages) <= 2
        check_undisturbed(self, station, peer)


def run_schedule(schedule: PeerSchedule) -> PeerFederation:
    """Run a schedule, and check what must hold. Raises Violation; the federation is its
    ``federation``."""
    return checked_run(partial(PeerFederation, schedule), _in_place)


@contextmanager
def _in_place(federation: PeerFederation) -> Iterator[None]:
    """The fake disk, in place of the real one; fedkin's log goes into the story."""
    with logged(federation.tell), patch.object(storage, "file_system", federation.disk):
        yield


@cache
def clients() -> FakeWorld:
    """The data of all peers; each uses its own."""
    return two_clusters(8)


def registry_line(line: str) -> dict[str, Any]:
    """A record as it was written."""
    import json

    return json.loads(line)


def check_average(peer: Peer, trace: RoundTrace, record: dict[str, Any]) -> None:
    """A round's model is the mean of the peer's model and its partners' models, each once, and of
    no other."""
    messages = [peer.client._cache._messages[record["round"]]]
    for name in record["partners"]:
        assert trace.sound.get(name), f"{name} is averaged with, and no valid reply of it came"
        messages.append(_read(name, trace.sound[name][-1], trace))
    weights = np.array([message.examples for message in messages], float)
    mean = np.average([message.arrays["model"] for message in messages], axis=0, weights=weights)
    np.testing.assert_allclose(peer.memory.model, mean, rtol=1e-5, atol=1e-6)
    got = sum(
        len(data)
        for _, _, replies in trace.requests
        for all_of in replies.values()
        for data in all_of
    )
    assert record["bytes"]["got"] == got, (
        f"{record['bytes']['got']} bytes are counted, and {got} came"
    )


def _read(name: str, data: bytes, trace: RoundTrace) -> Message:
    """A reply, with the arrays of its request."""
    for arrays in (("model",), ("model", "update")):
        try:
            return decode(data, Request(FEDERATION, name, arrays, P))
        except Exception:
            continue
    raise AssertionError(f"a reply of {name} cannot be read")


class _Script:
    """A network that gives the replies of a trace."""

    def __init__(self, rounds: dict[int, RoundTrace]) -> None:
        self.rounds = rounds
        self.round = 1
        self.next = 0

    def peers(self) -> dict[str, str]:
        return self.rounds[self.round].peers

    def request(self, names: list[str], text: str, timeout: float) -> dict[str, tuple[bytes, ...]]:
        asked = [one for one in self.rounds[self.round].requests if one[0]]
        assert self.next < len(asked), f"undisturbed, {names} are asked in round {self.round}"
        known, known_text, replies = asked[self.next]
        self.next += 1
        assert (known, known_text) == (tuple(names), text), (
            f"undisturbed, {names} are asked {text}; {known} were"
        )
        return replies

    def serve(self, handler: Any) -> None:
        """No other peer asks."""

    def close(self) -> None:
        """There is nothing to leave."""


class _Nowhere:
    """A folder that keeps nothing."""

    def save(self, memory: PeerMemory) -> None:
        """Nothing is kept."""

    def append(self, record: dict[str, Any]) -> None:
        """Nothing is kept."""


def check_undisturbed(federation: PeerFederation, station: Station, peer: Peer) -> None:
    """A peer that nothing disturbs, with the same replies, ends with the same memory."""
    settings = PeerSettings(station.name, FEDERATION, station.client)
    clock = FakeClock(1e9)
    script: Any = _Script(station.rounds)
    again: Any = Peer(
        settings=settings,
        method=federation.method,
        world=federation.world,
        transport=script,
        storage=_Nowhere(),
        clock=clock.time,
    )
    again.client.stopped = FakeEvent(clock)
    while again.memory.age < peer.memory.age:
        script.round = again.memory.age + 1
        script.next = 0
        again.round()
    mine = peer.memory
    theirs = again.memory
    np.testing.assert_array_equal(mine.model, theirs.model)
    assert (mine.age, set(mine.trust), dict(mine.votes)) == (
        theirs.age,
        set(theirs.trust),
        dict(theirs.votes),
    )
    assert isinstance(peer.table, PeerTable) and mine.names == theirs.names
