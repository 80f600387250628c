"""The arrays that a node stores on disk for each run: its clients' memory, arrays that the server
told it to keep, and its last replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from fedkin.core.world import World
from fedkin.tasks import all_tasks

_KEPT = "kept/"  # prefix of the names of arrays that the server told the node to keep
_REPLY = "replies/"  # prefix of the names of arrays of last replies


class NodeWorld(World, Protocol):
    """The simulated world of a node's clients."""

    @property
    def memory_changes(self) -> int:
        """How often clients have stored or deleted an array."""
        ...


@runtime_checkable
class Disk(Protocol):
    """The storage of a node, with separate arrays for each run."""

    def load_memory(self, run: str) -> dict[str, np.ndarray]:
        """The arrays that ``save_memory`` stored for a run; an empty dict if there are none."""
        ...

    def save_memory(self, run: str, memory: Mapping[str, np.ndarray]) -> None:
        """Store the arrays of the node's clients and of the node itself, in place of a run's
        earlier arrays."""
        ...

    def save_models(self, run: str, models: Mapping[str, np.ndarray]) -> None:
        """Store models by name; a model replaces an earlier one with the same name."""
        ...


class NodeMemory:
    """The arrays that a node stores between requests.

    Some tasks read or change arrays that a client keeps, so they must not be done twice. The node
    stores its last reply to each of these tasks. If the reply is lost and the server repeats the
    request, the node sends the stored reply.
    """

    def __init__(self, disk: Disk, run: str, world: NodeWorld) -> None:
        self.run = run
        self._disk = disk
        self._world = world
        stored = disk.load_memory(run)
        self.kept = {
            name.removeprefix(_KEPT): array
            for name, array in stored.items()
            if name.startswith(_KEPT)
        }
        self._replies = {name: array for name, array in stored.items() if name.startswith(_REPLY)}
        if stored:
            of_world = {
                name: array
                for name, array in stored.items()
                if not name.startswith((_KEPT, _REPLY))
            }
            world.recall(of_world)
        self._changes = world.memory_changes
        self._new = False  # whether `kept` or the replies must be saved

    def keep(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Remember arrays that the server sends only once, until ``save`` writes them to disk.

        These arrays replace earlier arrays with the same names.
        """
        self.kept |= arrays
        self._new |= bool(arrays)

    def replies(self, task: str, call: str) -> dict[str, np.ndarray] | None:
        """The arrays of the stored reply, if this request is a repetition of the last request of
        its task; otherwise None.

        Args:
            task: name of the task.
            call: digest of the request (``task_messages.call_digest``).
        """
        prefix = f"{_REPLY}{task}/"
        last_call = self._replies.get(prefix)
        if last_call is None or last_call.tobytes() != call.encode():
            return None
        return {
            name.removeprefix(prefix): array
            for name, array in self._replies.items()
            if name.startswith(prefix) and name != prefix
        }

    def remember(self, task: str, call: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store the reply to a request, in place of the stored reply of the same task.

        Args:
            task: name of the task.
            call: digest of the request (``task_messages.call_digest``).
            arrays: arrays of the reply.
        """
        prefix = f"{_REPLY}{task}/"
        self._replies = {
            name: array for name, array in self._replies.items() if not name.startswith(prefix)
        }
        # The prefix alone is the name under which the request's digest is stored.
        self._replies[prefix] = np.frombuffer(call.encode(), np.uint8)
        for name, array in arrays.items():
            self._replies[prefix + name] = array
        self._new = True

    def forget_replies(self) -> None:
        """Delete stored replies, because the cluster of a client has changed.

        Only replies to tasks that store arrays for a client's present cluster are deleted. If the
        server repeats a request of such a task, the node does the work again.
        """
        kinds = set()
        for kind in all_tasks():
            if any(memory.lifetime == "assignment" for memory in kind.memory.values()):
                kinds.add(kind.name)
        # The arrays are named replies/TASK/ARRAY.
        lasting = {
            name: array for name, array in self._replies.items() if name.split("/")[1] not in kinds
        }
        self._new |= len(lasting) < len(self._replies)
        self._replies = lasting

    def save(self) -> None:
        """Store all arrays on disk, if any has changed."""
        if self._new or self._world.memory_changes != self._changes:
            kept = {_KEPT + name: array for name, array in self.kept.items()}
            self._disk.save_memory(self.run, self._world.memory() | kept | self._replies)
