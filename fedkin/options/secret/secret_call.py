"""The four exchanges of secret sums: clients announce keys, share secrets, send masked vectors, and
reveal shares from which the server computes the masks that did not cancel.

A group is a set of clients whose vectors are added up, such as a cluster. Each exchange is one
request to the clients of all groups. The holders of a client are those that keep shares of its
secrets. Shapes: n clients of a training, m clients of a group, r clients that are asked, G holders
of a client.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt32

from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.core.world import UPDATE_MEMORY, World
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.secret.client import NO_HOLDER
from fedkin.secret.quantization import EXTRA, IntegerGrid, NoiseShare
from fedkin.secret.server import Exchange, LostSumError
from fedkin.tasks.secret_exchange import (
    SecretForget,
    SecretKeys,
    SecretReveal,
    SecretShares,
    context,
)
from fedkin.tasks.secret_training import masked_form


@dataclass(eq=False)
class _Group:
    """A group of clients whose vectors are added up.

    Attributes:
        number: the group's number.
        rows: the clients that have announced keys, as indices into the clients of the training.
        exchange: the keys, shares and masked sum of the group.
        signatures: each client's signature of its keys.
    """

    number: int
    rows: Int[np.ndarray, "m"]
    exchange: Exchange
    signatures: Int[np.ndarray, "m s"]
    # Clients that have answered the last exchange, and so keep no secrets of this sum any more.
    revealed: Bool[np.ndarray, "m"] = field(init=False)

    def __post_init__(self) -> None:
        self.revealed = np.zeros(len(self.rows), bool)


class GroupSum(NamedTuple):
    """The secret sum over one group of clients, and the clients whose vectors are in it (as indices
    into the clients of the training)."""

    total: UInt32[np.ndarray, "V"]
    rows: Int[np.ndarray, "r"]


def group_rows(
    task: Any, clients: Int[np.ndarray, "n"], hide_choice: bool
) -> tuple[dict[int, Int[np.ndarray, "m"]], int]:
    """The groups of clients whose vectors are added up, and the size of the largest group.

    Each group is an array of row indices into ``clients``. There is one group per cluster; if
    clusters are hidden, one group of all clients.

    Args:
        task: a task that asks for mean updates.
        clients: the clients that are to do the task; a row is a position in this array.
        hide_choice: whether the clients' clusters are hidden.

    Raises:
        TaskError: a client is asked more than once, or its cluster is not known before the
            training.
    """
    if len(np.unique(clients)) < len(clients):
        raise TaskError(
            f"secret: task {task.name} asks a client more than once, but a client may add only one "
            "vector to a secret sum; use another method, or leave out secret"
        )
    if not hide_choice and task.model_index is None:
        raise TaskError(
            "secret: clients choose their clusters during training, so it is not known in advance "
            "which vectors belong to one sum: set secret.hide_choice=true"
        )
    if hide_choice:
        groups = np.zeros(len(clients), np.int64)
    else:
        groups = np.asarray(task.model_index, np.int64)
    rows = {group: np.flatnonzero(groups == group) for group in np.unique(groups).tolist()}
    largest = max([len(members) for members in rows.values()], default=1)
    return rows, largest


def by_model(task: Any, sums: dict[int, GroupSum], hide_choice: bool) -> UInt32[np.ndarray, "K V"]:
    """The integer sum of the updates of each model; zeros for a model without a sum.

    Args:
        task: a task that asks for mean updates.
        sums: the sum of each group that has one.
        hide_choice: whether there is a single group, whose vector holds the sums of all models one
            after the other.
    """
    total = np.zeros((task.sizes()["K"], task.sizes()["p"] + EXTRA), np.uint32)
    for group, group_sum in sums.items():
        models = slice(None) if hide_choice else slice(group, group + 1)
        total[models] = group_sum.total.reshape(-1, total.shape[1])
    return total


def lost_by_model(task: Any, lost: Mapping[int, str], hide_choice: bool) -> dict[int, str]:
    """The reason for each model without a sum.

    Args:
        task: a task that asks for mean updates.
        lost: the reason for each group without a sum.
        hide_choice: whether the single group has the sums of all models.
    """
    if hide_choice and lost:
        (why,) = lost.values()
        return dict.fromkeys(range(task.sizes()["K"]), why)
    return dict(lost)


class SecretCall:
    """One training task whose updates become secret sums of groups of clients.

    The four exchanges (keys, shares, masked updates, unmasking) run for all groups together.

    Args:
        world: the clients.
        settings: settings of secret sums.
        task: a task that asks for mean updates.
        clients: the clients that train, each at most once; a row is a position in this array.
        stream: the clients' random numbers.
        grid: the integer grid on which updates are added.
        noise: each client's share of the noise of differential privacy; None without noise.
    """

    def __init__(
        self,
        world: World,
        settings: SecretSettings,
        task: Any,
        clients: Int[np.ndarray, "n"],
        stream: Stream,
        grid: IntegerGrid,
        noise: NoiseShare | None = None,
    ) -> None:
        self._world = world
        self._settings = settings
        self._task = task
        self._stream = stream
        self._clients = clients
        self._grid = grid
        self._noise = noise
        # A random number, so that no other sum has the same id, not even in a repeated round.
        self._id = f"{secrets.token_hex(16)} round {stream.round}"
        self._begun = np.zeros(0, np.int64)  # rows that were asked for keys
        self.lost: dict[int, str] = {}  # reason for each group without a sum

    def sums(self, rows: dict[int, Int[np.ndarray, "m"]]) -> dict[int, GroupSum]:
        """The secret sum of each group of clients; ``lost`` then gives the reason for each group
        without a sum.

        Args:
            rows: the clients of each group, as indices into the clients that train.
        """
        groups = self._announce(rows)
        groups = self._share(groups)
        self._train(groups)
        sums = self._unmask(groups)
        finished = [group.rows[group.revealed] for group in groups]
        # Clients that did not reach the last exchange still keep secrets, which they may forget.
        silent = np.setdiff1d(self._begun, np.concatenate([np.zeros(0, np.int64), *finished]))
        self._world.run(SecretForget(), self._clients[silent])
        return sums

    def _announce(self, rows: dict[int, Int[np.ndarray, "m"]]) -> list[_Group]:
        """First exchange: clients announce their keys.

        Returns:
            The groups in which enough clients have announced keys.
        """
        # An ``Exchange`` lists its clients in ascending order.
        rows = {
            number: members[np.argsort(self._clients[members], kind="stable")]
            for number, members in rows.items()
        }
        sizes = [len(members) for members in rows.values()]
        all_rows = np.concatenate([np.zeros(0, np.int64), *rows.values()])
        group_of_row = np.repeat(np.array([*rows], np.int64), sizes)

        present = self._present(all_rows, "keys")
        asked = all_rows[present]
        group_of_asked = group_of_row[present]
        self._begun = asked
        reply = self._world.run(
            SecretKeys(self._id, group_of_asked, self._settings.signed), self._clients[asked]
        )

        groups = []
        for number in rows:
            announced = reply.arrived & (group_of_asked == number)
            members = asked[announced]
            try:
                exchange = Exchange.of(
                    about=context(self._id, number),
                    clients=self._clients[members],
                    announced=reply.announced[announced].astype(np.uint8),
                    neighbours=self._settings.neighbours,
                    least=self._settings.least,
                )
                groups.append(_Group(number, members, exchange, reply.signature[announced]))
            except LostSumError as error:
                self.lost[number] = str(error)
        return groups

    def _share(self, groups: list[_Group]) -> list[_Group]:
        """Second exchange: each client splits its secrets into shares, and encrypts ("seals") one
        share for each of its holders (the clients that keep shares of its secrets).

        Returns:
            The groups in which enough clients have enough holders.
        """

        def make(fields: dict[str, Any], rows: Int[np.ndarray, "r"]) -> Task:
            return SecretShares(**fields)

        all_clients = [np.ones(len(group.rows), bool) for group in groups]
        for group, at, arrays in self._asked(groups, all_clients, "shares", make):
            holders = group.exchange.places.shape[1]
            group.exchange.shared[at] = True
            group.exchange.sealed[at] = arrays["sealed"][:, :holders]

        left = [group for group in groups if group.exchange.leave_out_lonely()]
        for group in groups:
            if group not in left:
                needed = group.exchange.needed
                holders = group.exchange.places.shape[1]
                self.lost[group.number] = (
                    f"no client has {needed} of its {holders} holders of shares left"
                )
        return left

    def _train(self, groups: list[_Group]) -> None:
        """Third exchange: clients train and send masked vectors.

        The vectors are added in portions that fit into memory.
        """
        grid = self._grid
        hide_choice = self._settings.hide_choice
        noise = {} if self._noise is None else asdict(self._noise)

        def make(fields: dict[str, Any], rows: Int[np.ndarray, "r"]) -> Task:
            return masked_form(
                self._task.select(rows),
                **fields,
                members=grid.clients,
                limit=grid.limit,
                cap=grid.cap,
                hide_choice=hide_choice,
                **noise,
            )

        sizes = self._task.sizes()
        numbers = sizes["p"] * (sizes["K"] if hide_choice else 1)
        memory = max(UPDATE_MEMORY, self._world.update_memory)
        portion = max(1, memory // (4 * numbers))
        left = [group.exchange.shared.copy() for group in groups]
        while any(clients.any() for clients in left):
            asked = _first(left, portion)
            replies = self._asked(
                groups=groups,
                who=asked,
                exchange="vector",
                make=make,
                stream=self._stream,
            )
            for group, at, arrays in replies:
                for position, masked in zip(at, arrays["masked"], strict=True):
                    group.exchange.add(int(position), masked)
            left = [clients & ~done for clients, done in zip(left, asked, strict=True)]

    def _unmask(self, groups: list[_Group]) -> dict[int, GroupSum]:
        """Fourth exchange: clients reveal shares of secrets from which the server computes the
        masks that did not cancel, so that it can subtract them from the sums.

        Returns:
            The sum of each group that has one, by the group's number.
        """

        def make(fields: dict[str, Any], rows: Int[np.ndarray, "r"]) -> Task:
            return SecretReveal(**fields)

        least = self._settings.least
        for group in groups:
            answered = int(group.exchange.answered.sum())
            if answered < least:
                self.lost[group.number] = (
                    f"{answered} clients have answered, but {least} are needed"
                )
        groups = [group for group in groups if group.number not in self.lost]
        able = [group.exchange.can_reveal() for group in groups]
        revealed = {
            group.number: np.zeros((*group.exchange.places.shape, 16), np.uint8) for group in groups
        }
        for group, at, arrays in self._asked(groups, able, "reveal", make):
            holders = group.exchange.places.shape[1]
            revealed[group.number][at] = arrays["shares"][:, :holders]
            group.revealed[at] = True

        sums = {}
        for group in groups:
            try:
                total = group.exchange.unmasked(revealed[group.number], group.revealed)
                sums[group.number] = GroupSum(total, group.rows[group.exchange.answered])
            except LostSumError as error:
                self.lost[group.number] = str(error)
        return sums

    def _asked(
        self,
        groups: list[_Group],
        who: list[Bool[np.ndarray, "_"]],
        exchange: str,
        make: Callable[[dict[str, Any], Int[np.ndarray, "r"]], Task],
        stream: Stream | None = None,
    ) -> Iterator[tuple[_Group, Int[np.ndarray, "r"], dict[str, np.ndarray]]]:
        """Ask some clients of each group, all by one task, and yield the replies group by group.

        Args:
            groups: groups that continue.
            who: which clients of each group are asked.
            exchange: name of the exchange: ``shares``, ``vector`` or ``reveal``.
            make: function from a task's fields and the asked clients' row indices to the task.
            stream: the clients' random numbers.

        Yields:
            A group, the positions (in the group) of the clients that replied, and their arrays.
        """
        positions = []
        for group, asked in zip(groups, who, strict=True):
            at = np.flatnonzero(asked)
            positions.append(at[self._present(group.rows[at], exchange)])
        if not any(map(len, positions)):
            return

        # One task for all groups: their fields one below the other, padded to the same width.
        fields: dict[str, Any] = {"sum_id": self._id, "least": self._settings.least}
        parts = [
            self._fields(group, at, exchange) for group, at in zip(groups, positions, strict=True)
        ]
        width = max(part["holders"].shape[1] for part in parts)
        for name in parts[0]:
            fields[name] = np.concatenate([_padded(part[name], name, width) for part in parts])
        rows = np.concatenate([group.rows[at] for group, at in zip(groups, positions, strict=True)])
        reply = self._world.run(make(fields, rows), self._clients[rows], stream)

        ends = np.cumsum([0, *map(len, positions)])
        for group, at, start, end in zip(groups, positions, ends, ends[1:], strict=False):
            replied = reply.arrived[start:end]
            arrays = {name: array[start:end][replied] for name, array in reply.arrays.items()}
            yield group, at[replied], arrays

    def _fields(self, group: _Group, at: Int[np.ndarray, "r"], name: str) -> dict[str, np.ndarray]:
        """The fields that the task of an exchange sends to some clients of a group, one row per
        client.

        Args:
            group: the group of clients.
            at: positions of the clients in the group.
            name: name of the exchange: ``shares``, ``vector`` or ``reveal``.
        """
        exchange = group.exchange
        fields = {
            "holders": exchange.holder_numbers(),
            "announced": exchange.announced[exchange.places].astype(int),
        }
        if name == "shares":
            fields["signatures"] = group.signatures[exchange.places]
        else:
            fields["partners"] = exchange.partners
        if name == "reveal":
            fields["sealed"] = exchange.inbox().astype(int)
            fields["wanted"] = exchange.wanted()
        group_numbers = np.full(len(at), group.number)
        return {"group": group_numbers} | {field: values[at] for field, values in fields.items()}

    def _present(self, rows: Int[np.ndarray, "r"], exchange: str) -> Int[np.ndarray, "a"]:
        """Indices into ``rows`` of the clients that take part in an exchange; in a simulation with
        ``dropout``, clients drop out at random."""
        if not self._settings.dropout:
            return np.arange(len(rows))
        chance = self._stream.child(f"secret/{exchange}").rng().random(self._world.total_clients)
        lost = chance < self._settings.dropout
        return np.flatnonzero(~lost[self._clients[rows]])


def _padded(values: np.ndarray, name: str, width: int) -> np.ndarray:
    """An array with one column per holder, padded to ``width`` columns. One task asks clients of
    all groups, and clients of small groups have fewer holders.

    Args:
        values: the array.
        name: name of the task's field. ``group`` has no columns, so it is not padded.
        width: number of columns.
    """
    if name == "group" or values.shape[1] == width:
        return values
    empty = NO_HOLDER if name == "holders" else 0
    missing = [(0, 0), (0, width - values.shape[1]), *[(0, 0)] * (values.ndim - 2)]
    return np.pad(values, missing, constant_values=empty)


def _first(left: list[Bool[np.ndarray, "_"]], count: int) -> list[Bool[np.ndarray, "_"]]:
    """Select the first ``count`` clients that are left, counted over all groups.

    One portion of clients is asked at a time, so that their vectors fit into memory. The result has
    a boolean array for each group, which is True for the selected clients.

    Args:
        left: for each group, the clients that have not been asked yet.
        count: number of clients in the portion.
    """
    first = []
    for clients in left:
        taken = clients & (np.cumsum(clients) <= count)
        first.append(taken)
        count -= int(taken.sum())
    return first
