"""Who is who: nodes with stable names, the clients that each plays, and the ids that methods know those by.

A node has a name, and holds one client or a fleet of them. Its clients get consecutive ids when it is first met, and
keep them: a node that comes back, in whatever process and with whatever number the engine gives it, has its ids again.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import CheckpointError
from fedkin.core.names import is_name
from fedkin.server.message import InvalidMessageError, plain
from fedkin.server.request_round import OnlineNode

_log = logging.getLogger("fedkin")
MEMORY = "roster"  # its name in a checkpoint
Memory = dict[str, np.ndarray]


@dataclass
class NodeInfo:
    """A node that was accepted: its first client's id, how many it has, and the key that it is registered under."""

    name: str
    first: int
    count: int
    key: str = ""

    @property
    def ids(self) -> Int[np.ndarray, "c"]:
        return np.arange(self.first, self.first + self.count)

    def names(self) -> list[str]:
        """Of its clients: its own, with their numbers where it has several."""
        return [self.name] if self.count == 1 else [f"{self.name}/{i}" for i in range(self.count)]


class NodeRegistry:
    """The members of a federation of at most ``capacity`` clients, and where they are now. If they must all be
    ``registered`` with the engine, it vouches for their names."""

    def __init__(self, capacity: int, registered: bool = False) -> None:
        self.capacity, self.registered = capacity, registered
        self.members: dict[str, NodeInfo] = {}
        self.samples = np.zeros(capacity, np.int64)  # training samples of each client, as it said last
        self.refused: dict[int, str] = {}  # nodes that may not take part, and why
        self._said: dict[int, str] = {}  # why nodes were refused last, which is not said twice
        self._at: dict[str, int] = {}  # node number of each member that was met in this process

    def __len__(self) -> int:
        """Clients that have an id."""
        return sum(member.count for member in self.members.values())

    def unknown(self, seats: Iterable[OnlineNode]) -> list[OnlineNode]:
        """Nodes that have not introduced themselves to this process."""
        known = {*self._at.values(), *self.refused}
        return [seat for seat in seats if seat.node not in known]

    def check(self, seat: OnlineNode, name: str, clients: int) -> None:
        """Whether a node can be taken in under a name. Raises Unfit, with the reason, where it cannot."""
        member = self.members.get(name)
        if not is_name(name):
            raise InvalidMessageError(f"{plain(name, 64)!r} cannot be a name")
        if seat.name and seat.name != name:
            raise InvalidMessageError(
                f"it is registered as {plain(seat.name)!r} and calls itself {name!r}; both must be the same"
            )
        if self.registered and not seat.name:
            raise InvalidMessageError(
                "it is not registered under a name (flwr supernode register ... --name), and all must be"
            )
        if member is None:
            self._check_room(clients)
        elif member.key and not seat.key:
            raise InvalidMessageError(f"the name {name!r} belongs to a node that is registered, with another key")
        elif clients != member.count:
            raise InvalidMessageError(f"it had {member.count} clients and now has {clients}; give it another name")

    def accept(self, seat: OnlineNode, name: str, samples: Int[np.ndarray, "c"]) -> NodeInfo:
        """Take a node in under its name; one that was here before gets its ids back. Raises Unfit as ``check``."""
        self.check(seat, name, len(samples))
        member = self.members.setdefault(name, NodeInfo(name, len(self), len(samples), seat.key))
        if member.key != seat.key:  # the engine vouches for the name, whatever the key
            _log.warning("%s came with another key than before, which is registered under its name", name)
            member.key = seat.key
        before = self._at.get(name)
        if before is not None and before != seat.node:  # the newest is believed: who is not registered has no key
            self.refused[before] = f"another node came with its name, {name!r}"
        self.samples[member.ids] = samples
        self._at[name] = seat.node
        return member

    def refuse(self, seat: OnlineNode, name: str, reason: str) -> None:
        """Remember, and say once, that a node may not take part."""
        reason, before = plain(reason), self._said.get(seat.node)
        self.refused[seat.node] = self._said[seat.node] = reason
        if reason != before:
            _log.warning("client %r (node %d) is refused: %s", plain(name or seat.name, 64), seat.node, reason)

    def forgive(self, nodes: Iterable[int]) -> None:
        """These may introduce themselves again: what was wrong may have been put right."""
        for node in nodes:
            self.refused.pop(node, None)

    def there(self, seats: Iterable[OnlineNode]) -> Int[np.ndarray, "c"]:
        """Ids of the clients whose nodes are online, ascending."""
        online = {seat.node for seat in seats}
        ids = [member.ids for name, member in self.members.items() if self._at.get(name) in online]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *ids]))

    def deal(self, clients: Int[np.ndarray, "n"]) -> list[tuple[int, NodeInfo, Int[np.ndarray, "r"]]]:
        """Which rows of a call go to which node: (node, member, rows). Clients that were not met yet are nobody's."""
        dealt = []
        for name, member in self.members.items():
            rows = np.flatnonzero((clients >= member.first) & (clients < member.first + member.count))
            if len(rows) and name in self._at:
                dealt.append((self._at[name], member, rows))
        return dealt

    def names(self) -> list[str]:
        """A name for each client that has an id, in the order of ids."""
        ordered = sorted(self.members.values(), key=lambda member: member.first)
        return [name for member in ordered for name in member.names()]

    def memory(self) -> Memory:
        """All of it that outlives a process."""
        entries = [asdict(member) for member in self.members.values()]
        return {MEMORY: np.frombuffer(json.dumps(entries).encode(), np.uint8).copy(), "samples": self.samples.copy()}

    def recall(self, memory: Memory) -> None:
        """Go on from ``memory()``, beside those that have come since; who is where must be found out anew.

        Raises CheckpointError where it is the memory of another federation.
        """
        kept = {entry["name"]: NodeInfo(**entry) for entry in json.loads(memory[MEMORY].tobytes())}
        if len(memory["samples"]) != self.capacity:
            raise CheckpointError(
                f"federation.capacity was {len(memory['samples'])} when the run began, and is {self.capacity} now"
            )
        merged = kept | self.members
        taken = [number for member in merged.values() for number in member.ids]
        if any(merged[name] != member for name, member in kept.items()) or len(set(taken)) < len(taken):
            raise CheckpointError("the run was made with other clients, or with the same in another order")
        self.members = merged
        self.samples = np.where(self.samples > 0, self.samples, memory["samples"])

    def _check_room(self, count: int) -> None:
        first = len(self)
        if first + count > self.capacity:
            raise InvalidMessageError(
                f"there is no room for {count} more clients: {first} of {self.capacity} ids are taken "
                "(federation.capacity)"
            )


def natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``site-9`` before ``site-10``."""
    parts = [part.lstrip("0") if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
    return [(len(part) if i % 2 else -1, part) for i, part in enumerate(parts)]
