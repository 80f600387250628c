"""Faults put into fedkin on purpose: the schedules must find them, or they find nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fedkin.core import storage
from fedkin.options.asynchronous.progress import BufferProgress
from fedkin.run.folder import run_folder
from fedkin.run.folder.checkpoint import Checkpoint
from fedkin.run.folder.run_folder import Folder
from fedkin.server import rpc_client
from fedkin.server.deploy.run_server import RegistryFile
from fedkin.server.disclosure import Floors
from fedkin.server.membership import Membership
from fedkin.server.node_memory import NodeMemory
from fedkin.server.overdue_requests import OverdueRequests
from fedkin.server.reply_collector import ReplyCollector
from fedkin.server.request_round import RequestRound
from tests.deterministic.fake_disk import FakeDisk
from tests.deterministic.fake_transport import FakeTransport
from tests.deterministic.observed_world import ObservedWorld


def _count_first_reply_twice() -> Any:
    """The first reply of a call is added twice."""
    read = ReplyCollector.read

    def twice(self: Any, rows: np.ndarray, arrays: Any, used: Any) -> None:
        before = self.arrived.any()
        read(self, rows, arrays, used)
        if not before:
            self._means *= 2
            for name in self.totals:
                self.sums[name] = self.sums[name] * 2

    return patch.object(ReplyCollector, "read", twice)


def _refuse_repeated_replies() -> Any:
    """A reply that comes twice is looked up twice."""
    pull = RequestRound._pull

    def pulled(self: Any, waiting: Any) -> Any:
        found = pull(self, waiting)
        assert len({reply.request_id for reply in found}) == len(found), "KeyError"
        return found

    return patch.object(RequestRound, "_pull", pulled)


def _no_sync(folders: bool) -> Any:
    """Nothing is forced to the disk, or only names are not."""
    sync = FakeDisk.sync

    def skipped(self: Any, path: Path) -> None:
        if folders and not path.is_dir():
            sync(self, path)

    return patch.object(FakeDisk, "sync", skipped)


def _write_in_place() -> Any:
    """Files are written where they are read."""

    def write(path: Path, content: bytes | str) -> None:
        with storage.storage_errors(path), storage.file_system.open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        storage.force_to_disk(path)

    from fedkin.run.folder import checkpoint

    return patch.object(checkpoint, "write_atomic", write)


def _no_deadline() -> Any:
    """Requests are waited for as long as they take."""
    send = RequestRound.send

    def patient(self: Any, requests: Any, round: int, late: int = 0) -> Any:
        self._deadline = self.clock() + 10 * self.settings.deadline
        return send(self, requests, round, late)

    return patch.object(RequestRound, "send", patient)


def _forget_ledger() -> Any:
    """What messages weighed before a restart is forgotten."""
    restore = Folder.restore

    def restored(self: Any, world: Any) -> Any:
        found = restore(self, world)
        world.ledger.measured_up = {}
        return found

    return patch.object(Folder, "restore", restored)


def _keep_all_records() -> Any:
    """Records of rounds after the checkpoint stay."""
    up_to = run_folder.records_up_to
    return patch.object(run_folder, "records_up_to", lambda path, last: up_to(path, last + 1))


def _later_heartbeats_only() -> Any:
    """A node is back with a later heartbeat only, though the clock may have been set back."""

    def online(self: Any) -> Any:
        nodes = list(self.transport.nodes())
        back = {
            node.node_id for node in nodes if node.alive_until > self.suspects.get(node.node_id, -1)
        }
        self.suspects = {node: alive for node, alive in self.suspects.items() if node not in back}
        return [node for node in nodes if node.node_id not in self.suspects]

    return patch.object(RequestRound, "online_nodes", online)


def _wait_for_all() -> Any:
    """A run that goes on waits for all clients that it began with."""
    wait = Membership.wait_for_clients

    def patient(self: Any, clients: int, round: int = 0, patience: float = np.inf) -> None:
        wait(self, clients, round)

    return patch.object(Membership, "wait_for_clients", patient)


def _wrong_order() -> Any:
    """A checkpoint is written before the records it stands on are on the disk."""
    return patch.object(run_folder, "force_to_disk", lambda path: None)


def _unsaved(kind: type, name: str, result: Any = None) -> Any:
    return patch.object(kind, name, lambda *arguments: result)


def _skip_checkpoint() -> Any:
    """The checkpoint of round 1 is not written."""
    keep = Folder.keep

    def kept(self: Any, state: Checkpoint) -> None:
        if state.round != 1:
            keep(self, state)

    return patch.object(Folder, "keep", kept)


def _reply_for_another() -> Any:
    """Where a node has not replied, the last reply of another stands for its own."""
    successful = rpc_client.message_of
    last: list[Any] = []

    def any_reply(reply: Any) -> Any:
        try:
            last[:] = [successful(reply)]
        except rpc_client.NoReplyError:
            if not last:
                raise
        return last[0]

    return patch.object(rpc_client, "message_of", any_reply)


def _late_reply_twice() -> Any:
    """A late reply is given to a method in every round from then on."""
    take = OverdueRequests.take

    def taken(self: Any, task: Any, rounds: int) -> Any:
        self._replies += (replies := take(self, task, rounds))
        return replies

    return patch.object(OverdueRequests, "take", taken)


def _late_for_another() -> Any:
    """A late reply counts for another client."""
    take = OverdueRequests.take

    def taken(self: Any, task: Any, rounds: int) -> Any:
        return [one._replace(clients=(one.clients + 1) % 4) for one in take(self, task, rounds)]

    return patch.object(OverdueRequests, "take", taken)


def _unsuspected_expired() -> Any:
    """A node is suspected only where nothing at all was heard of its request."""
    suspect = RequestRound._suspect

    def suspected(self: Any, nodes: Any, operation: str, seconds: float) -> None:
        suspect(self, self.missed.values(), operation, seconds)

    return patch.object(RequestRound, "_suspect", suspected)


def _uncounted_in_a_step() -> Any:
    """The bytes of replies that come while a step of buffers waits are not counted."""

    def waited(self: Any) -> bool:
        has_time = self.membership.request_round.wait()
        self.membership.request_round.late_bytes = 0
        self._receive_late()
        return has_time

    return patch.object(ObservedWorld, "wait", waited)


def _always_fresh() -> Any:
    """A reply counts as one to the present version of its model."""
    receive = BufferProgress.receive

    def fresh(self: Any, **reply: Any) -> None:
        receive(self, **reply)
        self.requests = replace(self.requests, version=self.versions[self.requests.cluster])

    return patch.object(BufferProgress, "receive", fresh)


MUTATIONS: dict[str, Callable[[], Any]] = {
    "the first reply of a call counts twice": _count_first_reply_twice,
    "a repeated reply ends the server": _refuse_repeated_replies,
    "nothing is forced to disk": lambda: _no_sync(folders=False),
    "new names are not forced to disk": lambda: _no_sync(folders=True),
    "checkpoints are written in place": _write_in_place,
    "records are not forced to disk before their checkpoint": _wrong_order,
    "the deadline is ignored": _no_deadline,
    "the ledger is not restored": _forget_ledger,
    "records of a lost round stay": _keep_all_records,
    "a checkpoint is skipped": _skip_checkpoint,
    "only later heartbeats count": _later_heartbeats_only,
    "a run that goes on waits for all": _wait_for_all,
    "the last reply stands for a missing one": _reply_for_another,
    "the registry is not written": lambda: _unsaved(RegistryFile, "save"),
    "nodes keep nothing": lambda: _unsaved(NodeMemory, "save"),
    "a late reply counts twice": _late_reply_twice,
    "a late reply counts for another client": _late_for_another,
    "a reply that was cut off holds up all others": lambda: patch.object(
        FakeTransport, "waits_for_halves", True
    ),
    "a node whose request has expired is asked again": _unsuspected_expired,
    "nodes forget their replies": lambda: _unsaved(NodeMemory, "replies"),
    "bytes within a step are not counted": _uncounted_in_a_step,
    "staleness is forgotten": _always_fresh,
    "floors are ignored": lambda: patch.multiple(
        Floors, check_task=lambda *_: None, check_reply=lambda *_: None, hides_scores=False
    ),
}
