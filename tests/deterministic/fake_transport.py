"""An engine in memory (``server.transport.Transport``) that loses, delays and repeats messages as a
schedule says.

It behaves as Flower was found to. Messages wait at the engine until their node fetches them, one
after another. A node sends a heartbeat every 30 s and counts as online for 60 s after it. A message
that has expired, or whose node is not online, is reported as lost to whoever asks for the reply.
Replies stay with the engine until the server fetches them. If a node is killed while it sends its
reply, the engine has half of the reply, and gives it up after 180 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from fedkin.server.egress_receipts import digest_of_reply
from fedkin.server.frames import Frames
from fedkin.server.message import InvalidMessageError, RpcMessage, decode, encode
from fedkin.server.reply_fetches import TOGETHER
from fedkin.server.transport import NodeReply, OnlineNode, SentRequest
from tests.deterministic.fake_clock import FakeClock
from tests.deterministic.fake_disk import KilledError
from tests.deterministic.hostile import tampered
from tests.deterministic.schedule import (
    AFTER_REPLY,
    BEFORE_REQUEST,
    IN_REPLY,
    IN_WORK,
    TRAINING,
    Fault,
    Schedule,
)

# Seconds between heartbeats, and after which one no longer counts.
HEARTBEAT = 30.0
TIMEOUT = 60.0
SESSION = 180.0  # seconds after which the engine gives up a reply whose rest has not come
_CRASHED = "the node's process crashed"


@dataclass
class Seat:
    """A node as the engine knows it, under one id."""

    node_id: int
    site: str
    alive_until: float  # time of day
    last_beat: float = 0.0
    running: bool = True
    unreachable_until: float = 0.0
    busy: bool = False
    queue: list[Request] = field(default_factory=list)


@dataclass
class Request:
    """A request at the engine."""

    id: str
    seat: Seat
    operation: str
    data: bytes
    expires: float
    number: int  # of the site's requests
    faults: dict[str, Fault]
    reply: bytes | None = None
    error: str = ""
    delivered: bool = False
    half_until: float = 0.0  # until when the engine waits for the rest of a reply

    def killed_in(self, step: str) -> bool:
        """Whether the node is killed in this step of the request."""
        return "kill_in_step" in self.faults and self.faults["kill_in_step"].what == step


class FakeTransport:
    """The engine.

    Args:
        schedule: with the faults.
        clock: of the whole world.
        handle: a site's reply to a request; KilledError where its process ends.
        tell: is given a line for each thing that happens.
        count: is given operation, bytes down and bytes up of each message that the server sends or
            fetches.
    """

    # Whether a look for replies waits for the rest of each, as Flower's own does.
    waits_for_halves = False
    pulls_together = TOGETHER  # requests whose replies are looked for at the same time

    def __init__(
        self,
        schedule: Schedule,
        clock: FakeClock,
        handle: Callable[[str, bytes], bytes],
        tell: Callable[[str], None],
        count: Callable[[str, int, int], None],
    ) -> None:
        self.schedule = schedule
        self.clock = clock
        self.seats = dict[int, Seat]()
        self.crashed: Callable[[Seat], None] = lambda seat: None
        self.killed: Callable[[Fault], None] = lambda fault: None
        self._calls = 0  # of the engine, by the server
        self._handle = handle
        self._tell = tell
        self._count = count
        self._requests: dict[str, Request] = {}
        self._numbers = dict.fromkeys(schedule.sites, 0)
        self._faults = {
            (one.site, one.number, one.kind): one for one in schedule.faults if one.number
        }
        self._ids = 0

    # --- nodes

    def start(self, site: str) -> Seat:
        """A node comes online, under a new id."""
        self._ids += 1
        seat = Seat(100 - self._ids, site, 0.0)
        self.seats[seat.node_id] = seat
        self._beat(seat)
        return seat

    def stop(self, site: str, first: bool = False) -> None:
        """The nodes of a site are killed, or the first of them; the engine learns of it from
        missing heartbeats."""
        running = [seat for seat in self.seats.values() if seat.site == site and seat.running]
        for seat in running[:1] if first else running:
            seat.running = False

    def cut_off(self, site: str, seconds: float) -> None:
        """A site's nodes are disconnected for a while."""
        for seat in self.seats.values():
            if seat.site == site:
                seat.unreachable_until = self.clock.now + seconds
        self.clock.at(self.clock.now + seconds, self._fetch_all)

    def forget_messages(self) -> None:
        """Lose all messages that are under way."""
        for request in self._requests.values():
            if not request.delivered:
                request.reply = None
                request.error = "the message was lost"
        for seat in self.seats.values():
            seat.queue.clear()

    def _beat(self, seat: Seat) -> None:
        if seat.running:
            if self.clock.now >= seat.unreachable_until:
                seat.alive_until = self.clock.wall() + TIMEOUT
                seat.last_beat = self.clock.now
            self.clock.at(self.clock.now + HEARTBEAT, lambda: self._beat(seat))

    # --- the server

    def nodes(self) -> Sequence[OnlineNode]:
        self._take_time()
        return [
            OnlineNode(s.node_id, alive_until=s.alive_until)
            for s in self.seats.values()
            if self.is_online(s)
        ]

    def push(
        self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float
    ) -> Sequence[SentRequest]:
        self._take_time()
        return [self._push(node, request, lifetime) for node, request in requests]

    def pull(self, request_ids: Iterable[str]) -> Sequence[NodeReply]:
        request_ids = sorted(request_ids)
        self._take_time_to_pull(len(request_ids))
        replies = []
        for request in [self._requests[one] for one in request_ids if one in self._requests]:
            if self.waits_for_halves and request.half_until > self.clock.now:
                self.clock.sleep(request.half_until - self.clock.now)
            reply = None if request.delivered else self._reply(request)
            if reply is not None:
                request.delivered = True
                copies = 1 + ("repeat_reply" in request.faults)
                replies += [reply] * copies
                self._count(request.operation, 0, copies * reply.size)
        return replies

    def _take_time(self) -> None:
        """A call of the engine takes its time."""
        if self.schedule.engine_seconds:
            self.clock.sleep(self._seconds_of_call())

    def _take_time_to_pull(self, requests: int) -> None:
        """A look is a call of the engine for each request, some of them at the same time."""
        if self.schedule.engine_seconds:
            seconds = [self._seconds_of_call() for _ in range(requests)]
            together = self.pulls_together
            groups = [seconds[i : i + together] for i in range(0, requests, together)]
            self.clock.sleep(sum(max(group) for group in groups))

    def _seconds_of_call(self) -> float:
        """How long a call of the engine takes."""
        self._calls += 1
        random = Random(f"{self.schedule.seed} call {self._calls}")
        return random.uniform(0, self.schedule.engine_seconds)

    def _push(self, node: int, message: RpcMessage, lifetime: float) -> SentRequest:
        data = encode(message)
        operation = str(message.header["operation"])
        seat = self.seats.get(node)
        if seat is None:
            return SentRequest(None, len(data))
        number = self._numbers[seat.site] = self._numbers[seat.site] + 1
        faults = {
            kind: f
            for (site, n, kind), f in self._faults.items()
            if (site, n) == (seat.site, number)
        }
        if "refuse" in faults:
            return SentRequest(None, len(data))
        self._count(operation, len(data), 0)
        name = f"request-{len(self._requests):05d}"
        request = Request(
            id=name,
            seat=seat,
            operation=operation,
            data=data,
            expires=self.clock.now + lifetime,
            number=number,
            faults=faults,
        )
        self._requests[name] = request
        self._tell(f"{operation} to {seat.site} (node {node}, request {number})")
        if "report_lost" in faults:
            request.error = "the message was lost"
        elif "lose_request" not in faults:
            late = faults["delay_request"].length if "delay_request" in faults else 0.0
            self.clock.at(self.clock.now + 0.1 + late, lambda: self._enqueue(request))
        return SentRequest(name, len(data))

    def _reply(self, request: Request) -> NodeReply | None:
        """The reply as the server is given it, if there is one or never will be."""
        if request.reply is not None:
            try:
                message = decode(request.reply)
                digest = digest_of_reply(message, Frames(request.reply))
                return NodeReply(request.id, message, len(request.reply), digest=digest)
            except InvalidMessageError as error:  # as the transport of Flower does
                return NodeReply(request.id, RpcMessage({"failed": str(error)}), len(request.reply))
        if request.half_until:
            lost = self.clock.now >= request.half_until
            return (
                NodeReply(request.id, None, error="the message was lost", lost=True)
                if lost
                else None
            )
        error = request.error or (
            "the reply came too late" if self.clock.now > request.expires else ""
        )
        error = error or ("" if self.is_online(request.seat) else "the node is gone")
        return NodeReply(request.id, None, error=error, lost=True) if error else None

    def is_online(self, seat: Seat) -> bool:
        return seat.alive_until > self.clock.wall()

    # --- the nodes

    def _enqueue(self, request: Request) -> None:
        request.seat.queue += [request] * (1 + ("repeat_request" in request.faults))
        self._fetch(request.seat)

    def _fetch_all(self) -> None:
        for seat in self.seats.values():
            self._fetch(seat)

    def _fetch(self, seat: Seat) -> None:
        """Begin with the next request, where there is one."""
        if seat.busy or not seat.running or self.clock.now < seat.unreachable_until:
            return
        while seat.queue and seat.queue[0].expires < self.clock.now:
            seat.queue.pop(0)
        if seat.queue and seat.queue[0].killed_in(BEFORE_REQUEST):
            self._kill(seat.queue[0])
        elif seat.queue:
            seat.busy = True
            request = seat.queue.pop(0)
            seconds = self._seconds_of_work(request)
            if request.killed_in(IN_WORK):
                self.clock.at(self.clock.now + seconds / 2, lambda: self._kill(request))
            self.clock.at(self.clock.now + seconds, lambda: self._work(request))

    def _seconds_of_work(self, request: Request) -> float:
        """How long a node works at a request."""
        random = Random(f"{self.schedule.seed} {request.seat.site} {request.number}")
        longest = self.schedule.slow * self.schedule.deadline
        if longest and request.operation.startswith(TRAINING):
            return random.uniform(0.8 * longest, longest)
        return random.uniform(0.2, 3.0)

    def _kill(self, request: Request) -> None:
        """The node is killed in a step of a request."""
        fault = request.faults["kill_in_step"]
        self._tell(str(fault))
        request.seat.running = False
        self.killed(fault)

    def _work(self, request: Request) -> None:
        seat = request.seat
        seat.busy = False
        if not seat.running:
            return
        try:
            if "crash_before" in request.faults:
                raise KilledError
            reply = self._handle(seat.site, request.data)
            if "crash_after" in request.faults:
                raise KilledError
            if "tamper" in request.faults:
                fault = request.faults["tamper"]
                reply = tampered(fault.what, reply, Random(f"{self.schedule.seed} {fault}"))
            late = request.faults["delay_reply"].length if "delay_reply" in request.faults else 0.0
            self.clock.at(self.clock.now + 0.1 + late, lambda: self._send(request, reply))
        except KilledError:
            self._tell(f"{seat.site} crashes with request {request.number}")
            request.error = _CRASHED
            self.crashed(seat)
        self._fetch(seat)

    def _send(self, request: Request, reply: bytes) -> None:
        """Hand a reply to the engine, as soon as it can be reached."""
        seat = request.seat
        if not seat.running or "lose_reply" in request.faults:
            return
        if request.killed_in(IN_REPLY):
            request.half_until = self.clock.now + SESSION
            self._kill(request)
            return
        if self.clock.now < seat.unreachable_until:
            self.clock.at(seat.unreachable_until, lambda: self._send(request, reply))
        elif not request.error and self.clock.now <= request.expires:
            self._tell(f"{seat.site} has replied to request {request.number}")
            request.reply = reply
            if request.killed_in(AFTER_REPLY):
                self._kill(request)
