"""The clients' side: the real node with quadratic clients, in pure NumPy, and its own disk."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Int

from fedkin import __version__
from fedkin.config.samples_section import SamplesSection
from fedkin.config.server import DataDescription
from fedkin.config.server_settings import DisclosureSettings
from fedkin.core.errors import StorageError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.training import LocalTraining
from fedkin.models import mlp
from fedkin.models.model import Model
from fedkin.server.deploy.build_node import HANDSHAKE_SEED
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.disclosure import Floors
from fedkin.server.egress_outbox import Outbox
from fedkin.server.handshake import Handshake, make_handshake, model_digest
from fedkin.server.message import RpcMessage, decode, encode
from fedkin.server.node import Node, respond, respond_recorded
from fedkin.server.task_messages import call_digest
from fedkin.simulation.fake_world import FakeWorld
from fedkin.simulation.workers import check_samples
from tests.deterministic.counting import CountRequests
from tests.deterministic.fake_disk import KilledError

FEATURES = 2
HIDDEN = 2
CLASSES = 3
WHOLE = 2**40  # no array becomes a separate frame
SAMPLES = SamplesSection(shape=[FEATURES], classes=CLASSES)


@cache
def model() -> Model:
    """The model that the server's file names; only its initial numbers and its layout are used."""
    return mlp(DataDescription.of(SAMPLES, "chaos"), HIDDEN)


@cache
def spec() -> ModelSpec:
    """Its layout."""
    return check_samples(model(), DataDescription.of(SAMPLES, "chaos"))


@cache
def initial(words: bytes) -> np.ndarray:
    """The initial model of some randomness."""
    return np.asarray(model().initial(np.frombuffer(words, np.uint32)))


@cache
def handshake(config: str) -> Handshake:
    """A side's description of itself."""
    own = make_handshake(
        federation="chaos",
        version=__version__,
        spec=spec(),
        shape=(FEATURES,),
        classes=CLASSES,
        config=config,
    )
    return replace(own, start=model_digest(initial(HANDSHAKE_SEED.tobytes())))


def quadratic_clients(numbers: Int[np.ndarray, "c"]) -> FakeWorld:
    """Clients by their own numbers: even ones want +3 and odd ones -3, each with a slant."""
    slant = 0.3 * np.random.default_rng(0).normal(size=(100, spec().parameters))[numbers]
    target = (np.where(numbers % 2 == 0, 3.0, -3.0)[:, None] + slant).astype(np.float32)
    counts = np.eye(CLASSES, dtype=np.int64)[numbers % CLASSES] * 12
    # Directions of samples: near either of two.
    angle = np.pi / 2 * (numbers % 2) + 0.01 * slant[:, 0]
    features = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    world = FakeWorld(target, 10 + numbers, LocalTraining(lr=0.5), counts=counts, features=features)
    world.spec = spec()
    world.start = lambda stream: initial(stream.words().tobytes())
    return world


class Site:
    """One site: its clients, its disk, and what it has seen.

    Args:
        name: of the node.
        numbers: of its clients, among all of the federation.
        folder: its disk.
        outbox: writes its ledger; None: it has none.
        test_floor: fewest test samples behind a score; 0: it has no floors.
    """

    def __init__(
        self,
        name: str,
        numbers: Int[np.ndarray, "c"],
        folder: Path,
        outbox: Outbox | None = None,
        test_floor: int = 0,
    ) -> None:
        self.test_floor = test_floor
        self.name = name
        self.numbers = numbers
        self.folder = folder
        self.outbox = outbox
        self.ids: dict[str, int] = {}  # the first id of its clients, by the name of the run
        self.counted = CountedCalls(len(numbers))

    def handle(self, data: bytes) -> bytes:
        """The reply of a new process."""
        request = decode(data)
        self._check_ids(request.header)
        try:
            reply, sent = self._respond(request)
        except KilledError:
            if "run" in request.header:  # a handshake counts nothing
                self.counted.killed(request.header)
            raise
        if request.header["operation"] == CountRequests.name and "calls" in reply.arrays:
            key = f"{request.header['run']} {call_digest(CountRequests, request)}"
            self.counted.check(key, request.arrays["clients"], reply.arrays["calls"])
        return sent

    def _respond(self, request: RpcMessage) -> tuple[RpcMessage, bytes]:
        """The reply and its bytes, after its line is in the ledger."""
        if self.outbox is None:
            reply = respond(self._node, lambda: request)
            return reply, encode(reply)
        try:
            reply, parts = respond_recorded(self._node, lambda: request, self.outbox, WHOLE)
        except StorageError as error:  # the line cannot be written, so nothing is sent
            raise KilledError(str(error)) from error
        return reply, parts.rest

    def _node(self) -> Node:
        samples = 10 + self.numbers
        own = handshake("")
        world = quadratic_clients(self.numbers)
        return Node(
            name=self.name,
            handshake=lambda spec: own,
            start=lambda: own.start,
            samples=samples,
            world=lambda ids: world,
            disk=NodeDisk(self.folder),
            floors=self._floors(samples),
        )

    def _floors(self, samples: Int[np.ndarray, "c"]) -> Floors | None:
        """The site's floors: every client has enough training samples."""
        if not self.test_floor:
            return None
        return Floors(
            settings=DisclosureSettings(subjects=10, per_class=5, test=self.test_floor),
            samples=samples,
            sizes=lambda split: samples,
            class_counts=lambda: np.full((len(samples), CLASSES), 12),
            hides_scores=True,
        )

    def _check_ids(self, header: dict[str, object]) -> None:
        if "run" in header:
            first = self.ids.setdefault(str(header["run"]), int(str(header["first"])))
            assert first == header["first"], (
                f"{self.name} had the ids from {first} on, and has {header['first']} now"
            )


class CountedCalls:
    """Whether work with memory was done once: clients counted as many calls as they were asked."""

    def __init__(self, clients: int) -> None:
        self._counts = np.zeros(clients, np.int64)
        self._unknown = 0
        self._last = ""
        self._run = ""

    def killed(self, header: dict[str, object]) -> None:
        """A process ended in a call: the caller cannot know whether it was done."""
        self._begin(str(header["run"]))
        self._unknown += header["operation"] == CountRequests.name

    def check(self, key: str, clients: np.ndarray, calls: np.ndarray) -> None:
        """Compare a reply with the number of calls."""
        self._begin(key.split()[0])
        if key == self._last:
            assert (calls == self._counts[clients]).all(), (
                f"a call that came again was done again: {calls}"
            )
        else:
            more = calls - self._counts[clients]
            assert ((more >= 1) & (more <= 1 + self._unknown)).all(), (
                f"calls were done {more} times"
            )
        self._counts[clients] = calls
        self._last = key

    def _begin(self, run: str) -> None:
        """Start the count again in another run."""
        if run != self._run:
            self._counts[:] = 0
            self._run = run
            self._unknown = 0
