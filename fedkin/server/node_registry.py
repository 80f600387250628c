"""The nodes that a server has accepted: their names, their clients, and the clients' ids.

A node has a name and one or more clients. Its clients get consecutive ids when the node is first
accepted, and keep them. A node that comes back in a new process, with a new node id, gets the same
client ids.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import CheckpointError
from fedkin.core.identifiers import is_name
from fedkin.core.log_events import event
from fedkin.core.site_names import REGISTRY, names_of_clients
from fedkin.server.message import InvalidMessageError, one_line
from fedkin.server.transport import OnlineNode

_log = logging.getLogger("fedkin")
_LONGEST_REASON = 600  # most characters in the reason of a refusal
Memory = dict[str, np.ndarray]


@dataclass
class NodeInfo:
    """An accepted node.

    The node's clients have the ids from ``first`` on. ``key`` is a digest of the node's registered
    key; empty if the node is not registered.
    """

    name: str
    first: int
    count: int
    key: str = ""

    @property
    def ids(self) -> Int[np.ndarray, "c"]:
        """Ids of the node's clients."""
        return np.arange(self.first, self.first + self.count)

    def client_names(self) -> list[str]:
        """Names of the node's clients: the node's name, with a number if it has several clients."""
        return names_of_clients(self.name, self.count)


class NodeRows(NamedTuple):
    """The clients of one node among the clients that a task is sent to.

    ``rows`` are their positions in the task's list of clients.
    """

    node_id: int
    info: NodeInfo
    rows: Int[np.ndarray, "r"]


class NodeRegistry:
    """The nodes of a federation, and their present node ids.

    Args:
        capacity: N, the largest number of clients.
        registered: whether nodes must be registered with Flower, which authenticates their names.
        signed: whether keys for secret sums are signed with node names. Then a node may have only
            one client.
    """

    def __init__(self, capacity: int, registered: bool = False, signed: bool = False) -> None:
        self.capacity = capacity
        self.registered = registered
        self.signed = signed
        self.members: dict[str, NodeInfo] = {}
        # Number of training samples of each client, as last reported.
        self.samples = np.zeros(capacity, np.int64)
        self.refused: dict[int, str] = {}  # reasons by id of the nodes that may not take part
        self.refusals: dict[str, str] = {}  # reasons by name, until the node may take part
        self.failures: dict[str, str] = {}  # reasons by name why the last request to a node failed
        self._numbered: dict[int, str] = {}  # names in ``refusals`` that contain a node's number
        self._logged: dict[int, str] = {}  # the last logged reason for each refused node
        self._node_ids: dict[str, int] = {}  # node id of each node that this process has met

    def __len__(self) -> int:
        """Number of clients that have an id."""
        return sum(member.count for member in self.members.values())

    def unknown(self, nodes: Iterable[OnlineNode]) -> list[OnlineNode]:
        """The nodes whose handshake this process has not received yet."""
        met = {*self._node_ids.values(), *self.refused}
        return [node for node in nodes if node.node_id not in met]

    def check(self, node: OnlineNode, name: str, clients: int) -> None:
        """Check that a node can be accepted.

        Args:
            node: the node, as Flower reports it.
            name: name that the node gives itself.
            clients: number of its clients.

        Raises:
            InvalidMessageError: the node cannot be accepted, for the reason in the text.
        """
        member = self.members.get(name)
        if not is_name(name):
            raise InvalidMessageError(
                f"{one_line(name, 64)!r} cannot be a name; use up to 64 letters, digits, _, . and "
                "-, with a letter or digit first"
            )
        if node.name and node.name != name:
            raise InvalidMessageError(
                f"it is registered as {one_line(node.name)!r} but calls itself {name!r}; give it "
                "the same name in both places"
            )
        if self.registered and not node.name:
            raise InvalidMessageError(
                "it is not registered under a name, but all nodes must be (flwr supernode register "
                "... --name)"
            )
        if self.signed and clients > 1:
            raise InvalidMessageError(
                f"it has {clients} clients, but signed sums (secret.signed) need sites with one "
                "client each: give each client its own site with a name and a certificate, or "
                "leave out secret.signed"
            )
        if member is None:
            self._check_capacity(clients)
        # Otherwise any unregistered node could take the place of a registered one.
        elif member.key and not node.key:
            raise InvalidMessageError(
                f"the name {name!r} belongs to a registered node, but the calling node has no "
                "registered key; register the key of the calling node under this name, or give the "
                "node another name"
            )
        elif clients != member.count:
            raise InvalidMessageError(
                f"it had {member.count} clients and now has {clients}; give it another name"
            )

    def accept(self, node: OnlineNode, name: str, samples: Int[np.ndarray, "c"]) -> NodeInfo:
        """Assign ids to a node's clients. A node that was accepted before keeps its ids.

        Args:
            node: the node, as Flower reports it.
            name: name that the node gives itself.
            samples: number of training samples of each of its clients.

        Raises:
            InvalidMessageError: the node cannot be accepted, as in ``check``.
        """
        self.check(node, name, len(samples))
        member = self.members.setdefault(name, NodeInfo(name, len(self), len(samples), node.key))
        # Flower authenticates the name, so the key may change.
        if member.key != node.key:
            _log.warning(
                "%s has another key than before; the new key is registered under its name", name
            )
            member.key = node.key
        before = self._node_ids.get(name)
        if before is not None and before != node.node_id:
            self.replace(before, name)
        self.samples[member.ids] = samples
        self._node_ids[name] = node.node_id
        self.clear_refusal(node, name)
        return member

    def replace(self, node_id: int, name: str) -> None:
        """Send no more requests to a node, because another node came with its name.

        The newest node counts, because an unregistered node has no key that identifies it. Usually
        both are the same site after a restart. The site then takes part under its new node id.

        Args:
            node_id: id of the former node.
            name: name of both nodes.
        """
        self.refused[node_id] = f"another node came with its name, {name!r}"

    def clear_refusal(self, node: OnlineNode, name: str) -> None:
        """Remove a node's refusal, because it may take part now.

        Args:
            node: the node, as Flower reports it.
            name: name that the node gives itself.
        """
        self.refusals.pop(name, None)
        self._forget_numbered(node.node_id)

    def forget_absent(self, online: Collection[int]) -> None:
        """Remove refusals of nodes that are offline, if they are listed by their number.

        A node that is listed by its number gave no name, or the name of another node. It comes back
        with another number, so its refusal would stay forever.

        Args:
            online: ids of all nodes that are online.
        """
        for node_id in [node_id for node_id in self._numbered if node_id not in online]:
            self._forget_numbered(node_id)

    def _forget_numbered(self, node_id: int) -> None:
        """Remove the refusal listed under a name with this node's number, if there is one."""
        self.refusals.pop(self._numbered.pop(node_id, ""), None)

    def met(self) -> list[str]:
        """Names of the accepted nodes that this process has met, in the order of their clients."""
        return sorted(self._node_ids, key=lambda name: self.members[name].first)

    def refuse(self, node: OnlineNode, name: str, reason: str) -> None:
        """Record that a node may not take part, and log each reason once.

        Args:
            node: the node, as Flower reports it.
            name: name that the node gives itself; may be empty.
            reason: reason of the refusal.
        """
        reason = one_line(reason, _LONGEST_REASON)
        before = self._logged.get(node.node_id)
        self.refused[node.node_id] = reason
        self._logged[node.node_id] = reason
        self._forget_numbered(node.node_id)
        label = self._label(node, name)
        self.refusals[label] = reason
        if label != one_line(node.name or name, 64):
            self._numbered[node.node_id] = label
        if reason != before:
            _log.warning(
                "client %r (node %d) is refused: %s",
                one_line(name or node.name, 64),
                node.node_id,
                reason,
                extra=event("site_refused", site=label),
            )

    def _label(self, node: OnlineNode, name: str) -> str:
        """The name under which a refused node is listed.

        It is the name that Flower authenticates, or else the name that the node gives itself.
        """
        label = one_line(node.name or name, 64) or _unnamed(node.node_id)
        belongs_to_member = label in self._node_ids and self._node_ids[label] != node.node_id
        return _impostor(label, node.node_id) if belongs_to_member else label

    def allow_retry(self, node_ids: Iterable[int]) -> None:
        """Remove refusals, so that the nodes get a new handshake and may then be accepted."""
        for node_id in node_ids:
            self.refused.pop(node_id, None)

    def online_names(self, nodes: Iterable[OnlineNode]) -> list[str]:
        """Names of the accepted nodes among these nodes."""
        online = {node.node_id for node in nodes}
        return [name for name in self.members if self._node_ids.get(name) in online]

    def online_clients(self, nodes: Iterable[OnlineNode]) -> Int[np.ndarray, "c"]:
        """Ids of the clients of these nodes, ascending."""
        ids = [self.members[name].ids for name in self.online_names(nodes)]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *ids]))

    def rows_by_node(self, clients: Int[np.ndarray, "n"]) -> list[NodeRows]:
        """For each node, its clients among ``clients``. Nodes that this process has not met are
        left out."""
        assigned = []
        for name, member in self.members.items():
            end = member.first + member.count
            rows = np.flatnonzero((clients >= member.first) & (clients < end))
            if len(rows) and name in self._node_ids:
                assigned.append(NodeRows(self._node_ids[name], member, rows))
        return assigned

    def client_names(self) -> list[str]:
        """The name of each client that has an id, in the order of ids."""
        ordered = sorted(self.members.values(), key=lambda member: member.first)
        return [name for member in ordered for name in member.client_names()]

    def memory(self) -> Memory:
        """The registry's content, as arrays of a checkpoint."""
        entries = [asdict(member) for member in self.members.values()]
        return {
            REGISTRY: np.frombuffer(json.dumps(entries).encode(), np.uint8).copy(),
            "samples": self.samples.copy(),
        }

    def recall(self, memory: Memory) -> None:
        """Restore the registry's content that ``memory`` returned. Nodes accepted since then are
        kept, and so are keys that replaced stored ones since then.

        Node ids are not restored: a node gets its id when it connects again.

        Raises:
            CheckpointError: the content belongs to another federation.
        """
        stored = {
            entry["name"]: NodeInfo(**entry) for entry in json.loads(memory[REGISTRY].tobytes())
        }
        if len(memory["samples"]) != self.capacity:
            raise CheckpointError(
                f"federation.capacity was {len(memory['samples'])} when the run began, but is now "
                f"{self.capacity}; set it to the former number"
            )
        # Nodes that came since then must neither change a stored node nor have its ids.
        merged = stored | self.members
        ids = [client for member in merged.values() for client in member.ids]
        # A site may have got a new key since then, which does not make it another client.
        differ = any(merged[name].ids.tolist() != one.ids.tolist() for name, one in stored.items())
        if differ or len(set(ids)) < len(ids):
            raise CheckpointError(
                "the run in this folder began with other clients, or with the same clients in "
                "another order; set another federation.folder for a new run"
            )
        self.members = merged
        self.samples = np.where(self.samples > 0, self.samples, memory["samples"])

    def _check_capacity(self, count: int) -> None:
        """Raise InvalidMessageError if there are not enough free ids for so many clients."""
        used = len(self)
        if used + count > self.capacity:
            raise InvalidMessageError(
                f"there is no room for {count} more clients: {used} of {self.capacity} ids are "
                "taken; raise federation.capacity for a new run"
            )


def _unnamed(node_id: int) -> str:
    """The name in messages and lists for a node that gave no name."""
    return f"node {node_id}"


def _impostor(name: str, node_id: int) -> str:
    """The name in messages for a node that came with the name of another node."""
    return f"{name} (node {node_id})"


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sort key that orders numbers in names by value: ``site-9`` before ``site-10``."""
    key = []
    for i, part in enumerate(re.split(r"(\d+)", name)):
        digits = part.lstrip("0") if part.isdecimal() else part
        # Every second part is a number, and a number with more digits is larger.
        length = len(digits) if i % 2 else -1
        key.append((length, digits))
    return key
