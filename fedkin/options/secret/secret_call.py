"""The four exchanges of secret sums, one after another, with all groups of a round in each.

Shapes: n rows of a call, m clients of a group, r of those that are asked, G holders of a client's
shares.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt32

from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.core.world import UPDATE_MEMORY, World
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.secret.client import NOBODY
from fedkin.secret.quantization import EXTRA, Grid, NoiseShare
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
    """A group of clients: its number, the rows of those that have announced keys, their sum, and
    their signatures."""

    number: int
    rows: Int[np.ndarray, "m"]
    exchange: Exchange
    signatures: Int[np.ndarray, "m s"]
    revealed: Bool[np.ndarray, "m"] = field(
        init=False
    )  # who has answered all requests, and has no secrets left

    def __post_init__(self) -> None:
        self.revealed = np.zeros(len(self.rows), bool)


class GroupSum(NamedTuple):
    """The sum over a group, and the rows whose vectors are in it."""

    total: UInt32[np.ndarray, "V"]
    rows: Int[np.ndarray, "r"]


def group_rows(
    task: Any, clients: Int[np.ndarray, "n"], hide_choice: bool
) -> tuple[dict[int, Int[np.ndarray, "m"]], int]:
    """The rows of each group, and how many the largest has: a group for each cluster, or one of
    all.

    Args:
        task: that wants means.
        clients: of its rows.
        hide_choice: whether clusters are hidden.

    Raises:
        TaskError: a client has several rows, or nobody knows its cluster beforehand.
    """
    if len(np.unique(clients)) < len(clients):
        raise TaskError(
            f"secret: a client has several rows of the task {task.name}, and may add one vector "
            "only"
        )
    if not hide_choice and task.model_index is None:
        raise TaskError(
            "secret: clients choose their clusters as they train, so that it is not known "
            "beforehand who adds up with whom: set secret.hide_choice=true"
        )
    groups = (
        np.zeros(len(clients), np.int64) if hide_choice else np.asarray(task.model_index, np.int64)
    )
    rows = {group: np.flatnonzero(groups == group) for group in np.unique(groups).tolist()}
    return rows, max([len(own) for own in rows.values()], default=1)


def by_model(task: Any, sums: dict[int, GroupSum], hide_choice: bool) -> UInt32[np.ndarray, "K V"]:
    """Sums by model, zeros for a model without one.

    Args:
        task: that wants means.
        sums: of groups.
        hide_choice: whether one group has the sums of all models.
    """
    total = np.zeros((task.sizes()["K"], task.sizes()["p"] + EXTRA), np.uint32)
    for group, one in sums.items():
        where = slice(None) if hide_choice else slice(group, group + 1)
        total[where] = one.total.reshape(-1, total.shape[1])
    return total


class SecretCall:
    """One training of some clients, of which sums over groups are wanted.

    Args:
        world: of the clients.
        settings: of the sums.
        task: that wants means.
        clients: ids, one per row, each once.
        stream: of the clients' random numbers.
        grid: of the integers.
        noise: each client's share of the noise of private sums; None: there is none.
    """

    def __init__(
        self,
        world: World,
        settings: SecretSettings,
        task: Any,
        clients: Int[np.ndarray, "n"],
        stream: Stream,
        grid: Grid,
        noise: NoiseShare | None = None,
    ) -> None:
        self._world = world
        self._settings = settings
        self._task = task
        self._stream = stream
        self._clients = clients
        self._grid = grid
        self._noise = noise
        self._id = f"{secrets.token_hex(16)} round {stream.round}"  # no sum before or after has it
        self._begun = np.zeros(0, np.int64)  # rows that were asked for keys
        self.lost: dict[int, str] = {}  # why a group has no sum

    def sums(self, rows: dict[int, Int[np.ndarray, "m"]]) -> dict[int, GroupSum]:
        """The sums of groups; those that are not there are in ``lost``.

        Args:
            rows: of each group.
        """
        groups = self._announce(rows)
        groups = self._share(groups)
        self._train(groups)
        sums = self._unmask(groups)
        finished = [group.rows[group.revealed] for group in groups]
        silent = np.setdiff1d(self._begun, np.concatenate([np.zeros(0, np.int64), *finished]))
        self._world.run(SecretForget(), self._clients[silent])
        return sums

    def _announce(self, rows: dict[int, Int[np.ndarray, "m"]]) -> list[_Group]:
        """The first exchange: keys."""
        rows = {
            number: own[np.argsort(self._clients[own], kind="stable")]
            for number, own in rows.items()
        }
        every = np.concatenate([np.zeros(0, np.int64), *rows.values()])
        number = np.repeat(np.array([*rows], np.int64), [len(own) for own in rows.values()])
        asked = self._present(every, "keys")
        self._begun = every[asked]
        reply = self._world.run(
            SecretKeys(self._id, number[asked], self._settings.signed), self._clients[every[asked]]
        )
        groups = []
        for one in rows:
            there = reply.arrived & (number[asked] == one)
            own = every[asked[there]]
            announced = reply.announced[there].astype(np.uint8)
            try:
                settings = (announced, self._settings.neighbours, self._settings.least)
                exchange = Exchange.of(context(self._id, one), self._clients[own], *settings)
                groups.append(_Group(one, own, exchange, reply.signature[there]))
            except LostSumError as error:
                self.lost[one] = str(error)
        return groups

    def _share(self, groups: list[_Group]) -> list[_Group]:
        """The second: shares, sealed for their holders. Groups in which enough have enough holders
        go on."""
        everybody = [np.ones(len(group.rows), bool) for group in groups]
        for group, at, arrays in self._asked(
            groups, everybody, "shares", lambda fields, rows: SecretShares(**fields)
        ):
            group.exchange.shared[at] = True
            group.exchange.sealed[at] = arrays["sealed"][:, : group.exchange.places.shape[1]]
        left = [group for group in groups if group.exchange.leave_out_lonely()]
        for group in groups:
            if group not in left:
                count = group.exchange.needed
                size = group.exchange.places.shape[1]
                self.lost[group.number] = (
                    f"no client has {count} of its {size} holders of shares left"
                )
        return left

    def _train(self, groups: list[_Group]) -> None:
        """The third: training. Masked vectors are added portion by portion, as memory has room for."""
        grid = self._grid
        settings = self._settings
        own = {
            "members": grid.clients,
            "limit": grid.limit,
            "cap": grid.cap,
            "hide_choice": settings.hide_choice,
        }
        own |= {} if self._noise is None else asdict(self._noise)

        def make(fields: dict[str, Any], rows: Int[np.ndarray, "r"]) -> Task:
            return masked_form(self._task.select(rows), **fields, **own)

        sizes = self._task.sizes()
        numbers = sizes["p"] * (sizes["K"] if settings.hide_choice else 1)
        portion = max(1, max(UPDATE_MEMORY, self._world.update_memory) // (4 * numbers))
        left = [group.exchange.shared.copy() for group in groups]
        while any(one.any() for one in left):
            some = _first(left, portion)
            for group, at, arrays in self._asked(groups, some, "vector", make, self._stream):
                for position, masked in zip(at, arrays["masked"], strict=True):
                    group.exchange.add(int(position), masked)
            left = [one & ~now for one, now in zip(left, some, strict=True)]

    def _unmask(self, groups: list[_Group]) -> dict[int, GroupSum]:
        """The last: shares of what is left of the masks in the sums."""
        least = self._settings.least
        for group in groups:
            if (count := int(group.exchange.answered.sum())) < least:
                self.lost[group.number] = f"{count} clients have answered, and {least} are needed"
        groups = [group for group in groups if group.number not in self.lost]
        able = [group.exchange.can_reveal() for group in groups]
        revealed = {
            group.number: np.zeros((*group.exchange.places.shape, 16), np.uint8) for group in groups
        }
        for group, at, arrays in self._asked(
            groups, able, "reveal", lambda fields, rows: SecretReveal(**fields)
        ):
            revealed[group.number][at] = arrays["shares"][:, : group.exchange.places.shape[1]]
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
        """The replies of some clients of each group, by their positions in it."""
        at = [np.flatnonzero(one) for one in who]
        at = [
            one[self._present(group.rows[one], exchange)]
            for group, one in zip(groups, at, strict=True)
        ]
        if not any(map(len, at)):
            return
        parts = [self._fields(group, one, exchange) for group, one in zip(groups, at, strict=True)]
        width = max(part["holders"].shape[1] for part in parts)
        fields = {
            name: np.concatenate([_padded(part[name], name, width) for part in parts])
            for name in parts[0]
        }
        rows = np.concatenate([group.rows[one] for group, one in zip(groups, at, strict=True)])
        reply = self._world.run(
            make({"sum_id": self._id, "least": self._settings.least, **fields}, rows),
            self._clients[rows],
            stream,
        )
        ends = np.cumsum([0, *map(len, at)])
        for group, one, start, end in zip(groups, at, ends, ends[1:], strict=False):
            there = reply.arrived[start:end]
            yield (
                group,
                one[there],
                {name: array[start:end][there] for name, array in reply.arrays.items()},
            )

    def _fields(self, group: _Group, at: Int[np.ndarray, "r"], name: str) -> dict[str, np.ndarray]:
        """What some clients of a group are sent in an exchange."""
        exchange = group.exchange
        fields = {
            "holders": exchange.holder_numbers(),
            "announced": exchange.announced[exchange.places].astype(int),
        }
        if name == "shares":
            fields |= {"signatures": group.signatures[exchange.places]}
        else:
            fields |= {"partners": exchange.partners}
        if name == "reveal":
            fields |= {"sealed": exchange.inbox().astype(int), "wanted": exchange.wanted()}
        return {"group": np.full(len(at), group.number)} | {
            one: values[at] for one, values in fields.items()
        }

    def _present(self, rows: Int[np.ndarray, "r"], exchange: str) -> Int[np.ndarray, "a"]:
        """Positions of those that a simulation does not lose before an exchange."""
        if not self._settings.dropout:
            return np.arange(len(rows))
        lost = (
            self._stream.child(f"secret/{exchange}").rng().random(self._world.total_clients)
            < self._settings.dropout
        )
        return np.flatnonzero(~lost[self._clients[rows]])


def _padded(values: np.ndarray, name: str, width: int) -> np.ndarray:
    """Values about holders of groups of several sizes, with places that are not taken behind them."""
    if name == "group" or values.shape[1] == width:
        return values
    missing = [(0, 0), (0, width - values.shape[1]), *[(0, 0)] * (values.ndim - 2)]
    return np.pad(values, missing, constant_values=NOBODY if name == "holders" else 0)


def _first(left: list[Bool[np.ndarray, "_"]], count: int) -> list[Bool[np.ndarray, "_"]]:
    """Up to so many of those that are left, of all groups together."""
    some = []
    for one in left:
        some.append(one & (np.cumsum(one) <= count))
        count -= int(some[-1].sum())
    return some
