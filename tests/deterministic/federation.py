"""One run of a schedule: the real server and the real nodes, on a fake engine, a fake clock and
fake disks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from fedkin.config.description import Description
from fedkin.config.server import ServerConfig, load_server
from fedkin.core import storage
from fedkin.core.errors import MethodError, StorageError
from fedkin.run.folder import environment_file, fingerprint
from fedkin.run.run import Run
from fedkin.server.deploy import run_server
from fedkin.server.deploy.run_server import serve
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import Outbox
from tests.deterministic import invariants
from tests.deterministic.checked_run import Violation as Violation
from tests.deterministic.checked_run import checked_run
from tests.deterministic.fake_clock import FakeClock
from tests.deterministic.fake_disk import FakeDisk, KilledError
from tests.deterministic.fake_transport import FakeTransport, Seat
from tests.deterministic.observed_world import ObservedWorld, Trace
from tests.deterministic.schedule import METHODS, OPTIONS, QUIET, Fault, Schedule
from tests.deterministic.sites import CLASSES, FEATURES, HIDDEN, Site

# Seconds after the last fault: a node that was refused may try again after 120, ids are offline
# after 60.
GRACE = 300.0
# A run never ends for lack of clients here: faults may keep sites away for longer than any
# deadline. tests/server/test_membership.py tests that end.
_FILE = """
[federation]
name = "chaos"
capacity = {capacity}
wait_for = {wait_for}
deadline = {deadline}
start_deadline = 1000000
quorum = {quorum}
retries = {retries}
folder = "run"
[samples]
shape = [{features}]
classes = {classes}
[model]
name = "mlp"
hidden = {hidden}
[method]
{method}
[local]
epochs = 1
lr = 0.5
[run]
rounds = {rounds}
cohort = {cohort}
seed = {seed}
checkpoint_every = {checkpoint_every}
"""
_log = logging.getLogger("fedkin")


class Federation:
    """A server and its sites on one schedule.

    Args:
        schedule: what happens.
        folder: an empty one, in memory.
        ledgers: whether the sites write ledgers of what leaves them.
    """

    def __init__(self, schedule: Schedule, folder: Path, ledgers: bool = False) -> None:
        self.schedule = schedule
        self.folder = folder
        self.ledgers = ledgers
        self.story = list[str]()
        self.clock = FakeClock(QUIET + 3 * GRACE + (schedule.rounds + 3) * 2 * schedule.deadline)
        self.disk = FakeDisk(Random(f"disk {schedule.seed}"))
        self.server = self.disk.add("server", folder / "server")
        self.trace = Trace(self.clock, schedule.deadline, folder / "server" / "run")
        self.sites: dict[str, Site] = {}
        start = 0
        for name, clients in schedule.sites.items():
            self.disk.add(name, folder / name)
            outbox = Outbox(SiteLedger(folder / name), name) if ledgers else None
            numbers = np.arange(start, start + clients)
            self.sites[name] = Site(
                name, numbers, folder / name / "state", outbox, schedule.test_floor
            )
            start += clients
        self.engine = FakeTransport(
            schedule=schedule,
            clock=self.clock,
            handle=self._handle,
            tell=self.tell,
            count=self.trace.count,
        )
        self.engine.crashed = self._crashed
        self.engine.killed = lambda fault: self._later(fault, lambda: self._start(fault.site))
        self.trace.beats = self._beats
        self._kill_at: float | None = None
        self._restart = 0.0
        self._lost_power: dict[str, float] = {}

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.clock.now:8.1f} s  {line}")

    def _beats(self) -> dict[int, float]:
        """When each node has sent its last heartbeat; never, for nodes that the engine does not
        count as online. After its clock has been set, an earlier heartbeat may be long ago."""
        seats = self.engine.seats.items()
        return {
            node: seat.last_beat if self.engine.is_online(seat) else -np.inf for node, seat in seats
        }

    def run(self) -> Run:
        """Serve until the run is done, however often the server ends meanwhile.
        Raises Violation."""
        late = {fault.site for fault in self.schedule.faults if fault.kind == "join"}
        for name in self.sites:
            if name not in late:
                self.clock.at(
                    Random(f"{self.schedule.seed} {name}").uniform(0, 3),
                    lambda name=name: self._start(name),
                )
        for fault in self.schedule.faults:
            self._plan(fault)
        config = _config_of(self.schedule, self.server.folder)
        self.plan = config.run
        try:
            while True:
                finished = self._life(config)
                if finished is not None:
                    break
            self.trace.end_round()
            invariants.check(self, finished)
            if self.ledgers:
                invariants.check_egress(self)
        except Exception as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        return finished

    # --- the server

    def _life(self, config: ServerConfig) -> Run | None:
        """The life of one server process; None where it has ended before the run."""
        self.tell("the server starts")
        try:
            return serve(config, self.engine, self.clock.time, self._sleep)
        except KilledError:
            self.tell("the server is killed")
            if self.server.power:
                self.server.power = False
                self.disk.cut_power("server")
            self._kill_at = None
            self.clock.sleep(max(self._restart, 1.0))
        except StorageError as error:
            assert "No space left" in str(error), error
            self.tell(f"the server ends: {error}")
            self.clock.sleep(20.0)
        # Too few replies for a start: whoever runs the server starts it again.
        except MethodError as error:
            self.tell(f"the server ends: {error}")
            self.clock.sleep(20.0)
        return None

    def _sleep(self, seconds: float) -> None:
        """The server's own sleep, in which it may be killed."""
        self.clock.sleep(seconds)
        if self._kill_at is not None and self.clock.now >= self._kill_at:
            raise KilledError

    # --- sites

    def _start(self, name: str) -> None:
        self.tell(f"{name} starts")
        self.engine.start(name)

    def _handle(self, name: str, data: bytes) -> bytes:
        return self.sites[name].handle(data)

    def _crashed(self, seat: Seat) -> None:
        """A node's process has ended; where the power has failed, so has the node."""
        machine = self.disk.machines[seat.site]
        if machine.power:
            machine.power = False
            self.disk.cut_power(seat.site)
            self.engine.stop(seat.site)
            self.clock.at(
                self.clock.now + self._lost_power[seat.site], lambda: self._start(seat.site)
            )

    # --- faults

    def _plan(self, fault: Fault) -> None:
        """Let a fault happen that is not one of messages."""
        if fault.kind in ("fail_site", "fail_server"):
            self.disk.machines[fault.site or "server"].fails_at = fault.number
        elif fault.kind in ("crash_in_write", "power_site", "crash_server", "power_server"):
            machine = self.disk.machines[
                fault.site if fault.kind in ("crash_in_write", "power_site") else "server"
            ]
            machine.killed_at = fault.number
            machine.power = fault.kind.startswith("power")
            if machine is self.server:
                self._restart = fault.length
            else:
                self._lost_power[fault.site] = fault.length
        elif not fault.number:
            happens: Callable[[Fault], Any] = getattr(self, f"_{fault.kind}")
            self.clock.at(fault.at, lambda: (self.tell(str(fault)), happens(fault)))

    def _later(self, fault: Fault, action: Callable[[], Any]) -> None:
        self.clock.at(self.clock.now + fault.length, action)

    def _join(self, fault: Fault) -> None:
        self._start(fault.site)

    def _leave(self, fault: Fault) -> None:
        """It leaves once the run has begun, for which the server may wait for all; and not if it is
        the last."""
        if self.trace.done < 0:
            self.clock.at(self.clock.now + 10, lambda: self._leave(fault))
        elif len({seat.site for seat in self.engine.seats.values() if seat.running}) > 2:
            self.engine.stop(fault.site)

    def _kill_site(self, fault: Fault) -> None:
        self.engine.stop(fault.site)
        self._later(fault, lambda: self._start(fault.site))

    def _partition(self, fault: Fault) -> None:
        self.engine.cut_off(fault.site, fault.length)

    def _twin(self, fault: Fault) -> None:
        self._start(fault.site)
        self._later(fault, lambda: self.engine.stop(fault.site, first=True))

    def _fill_site(self, fault: Fault) -> None:
        self._fill(fault, fault.site)

    def _fill_server(self, fault: Fault) -> None:
        self._fill(fault, "server")

    def _fill(self, fault: Fault, name: str) -> None:
        self.disk.machines[name].full = True
        self._later(fault, lambda: setattr(self.disk.machines[name], "full", False))

    def _kill_server(self, fault: Fault) -> None:
        self._kill_at = self.clock.now
        self._restart = fault.length

    def _freeze(self, fault: Fault) -> None:
        self.clock.freeze(fault.length)

    def _set_clock(self, fault: Fault) -> None:
        self.clock.wall_offset += fault.length

    def _restart_engine(self, fault: Fault) -> None:
        self.engine.forget_messages()


def run_schedule(schedule: Schedule, ledgers: bool = False) -> Federation:
    """Run a schedule, and check what must hold. Raises Violation; the federation is its
    ``federation``."""
    return checked_run(partial(Federation, schedule, ledgers=ledgers), _in_place)


def run_with_ledgers(schedule: Schedule) -> Federation:
    """Run a schedule with sites that write ledgers, and check these, too. Raises Violation."""
    return run_schedule(schedule, ledgers=True)


@contextmanager
def _in_place(federation: Federation) -> Iterator[None]:
    """The fake disk and the observed world, in place of the real ones; fedkin's log goes into the
    story."""
    world = type("World", (ObservedWorld,), {"trace": federation.trace})
    with (
        logged(federation.tell),
        patch.object(storage, "file_system", federation.disk),
        patch.object(run_server, "RemoteWorld", world),
        patch.object(environment_file, "environment", _environment),
    ):
        yield


@contextmanager
def logged(tell: Callable[[str], None]) -> Iterator[None]:
    """fedkin's log goes into a story, and nowhere else."""
    handler = _Story(tell)
    before = _log.propagate
    level = _log.level
    _log.propagate = False
    _log.setLevel(logging.INFO)
    _log.addHandler(handler)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.propagate = before
        _log.setLevel(level)


class _Story(logging.Handler):
    """Adds fedkin's log to a story."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self.tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self.tell(f"log: {record.getMessage()[:300]}")


@cache
def _known_environment() -> dict[str, Any]:
    return fingerprint.environment(Description({}))


def _environment(description: dict[str, Any]) -> dict[str, Any]:
    """Where a run takes place, found out once: it takes longer than all the rest."""
    return _known_environment()


def _config_of(schedule: Schedule, folder: Path) -> ServerConfig:
    options = {"name": f'"{schedule.method}"', **METHODS[schedule.method]}
    values = {
        name: getattr(schedule, name)
        for name in ("wait_for", "deadline", "quorum", "retries", "rounds", "cohort")
    }
    text = _FILE.format(
        **values,
        # With a place for one more client, clusters that are smaller than a buffer are allowed.
        capacity=schedule.clients + bool(schedule.options),
        features=FEATURES,
        hidden=HIDDEN,
        classes=CLASSES,
        seed=schedule.seed % 1000,
        checkpoint_every=schedule.checkpoint_every,
        method="\n".join(f"{name} = {value}" for name, value in options.items()),
    )
    text += "".join(OPTIONS[option] for option in schedule.options)
    text += f'[late]\nname = "replies"\nmax_age = {schedule.late}\n' if schedule.late else ""
    path = folder / "server.toml"
    path.write_text(text)
    return load_server(path)
