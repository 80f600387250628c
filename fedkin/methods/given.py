"""Given: one model for each group of clients, where the groups are known facts about clients, such
as their sector, region or device.

There is no paper: it is FedAvg within each group. It is what clusters that a method finds should be
compared with, and what a table with such a column suggests first.

    k(i) = the group of client i, by the order in which groups are first seen
    w_k <- sum_i n_i w_i / sum_i n_i     over the clients i of group k whose solution w_i arrived

All groups start from the same model. A client tells a hash of its group's name once, before its
first round. The hash has no secret key: the server learns who shares a group, and the name of every
group that it can guess, such as those in a list of sectors. A newcomer joins its group; the first
client of a new group starts a model from the mean of all models. With ``groups`` the server knows
the groups by clients' names, and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, Requirements, Separation
from fedkin.core.world import World, client_names
from fedkin.methods.about import About
from fedkin.methods.fedavg import train_and_average
from fedkin.tasks.client_group import ClientGroup, code_of


@dataclass(frozen=True)
class GivenState(State):
    """A model for each group that was seen, and the group of each client."""

    codes: Int[np.ndarray, "K"]  # code of each group


@plain_options
@dataclass(frozen=True)
class Given:
    """One model for each group of clients that a column of the table names, such as a sector or a
    region.

    Each client sends a hash of its group's name. It does not hide the name: whoever has a list of
    possible names can hash them and compare.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> groups = {str(client): "north" if client < 3 else "south" for client in range(6)}
        >>> method = fk.Given(groups=groups)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="given",
        compares="a known fact about clients",
        when="before the first round",
        membership="hard",
        decides="server",
        count="given",
        leaves="a hash of its group's name",
    )

    # column of facts about clients (client_columns of the table), or a feature that is constant
    # within clients
    column: str = "group"
    # the group of each client by its name, in place of the column
    groups: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.column and not self.groups:
            raise MethodError(
                "column must be the name of a column that describes clients, such as "
                'column="sector"; or give groups, such as groups={"client-1": "north"}'
            )

    def requirements(self) -> Requirements:
        sends = "" if self.groups else "a hash of its group's name"
        return Requirements(
            reads=ClientReads(sends=sends),
            separation=Separation("by_cluster"),
            keeps_clusters=True,
        )

    def init(self, world: World, stream: Stream) -> GivenState:
        start = world.initial(stream.child("model"))
        state = GivenState(
            models=start[None][:0],
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            codes=np.zeros(0, np.int64),
        )
        clients = world.clients(0)
        codes, known = self._codes(world, clients)
        if not known.any():
            raise MethodError("Given: no client has told its group; at least one must be there")
        return _with_groups(state, clients[known], codes[known], start)

    def round(
        self, world: World, state: GivenState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> GivenState:
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: GivenState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> GivenState:
        codes, known = self._codes(world, newcomers)
        start = state.models.mean(axis=0).astype(np.float32)
        return _with_groups(state, newcomers[known], codes[known], start)

    def _codes(
        self, world: World, clients: Int[np.ndarray, "n"]
    ) -> tuple[Int[np.ndarray, "n"], np.ndarray]:
        """The code of each client's group, and whether it is known."""
        if not self.groups:
            reply = world.run(ClientGroup(self.column), clients)
            return reply.arrays["group"], reply.arrays["known"]
        names = client_names(world)
        told = [str(client) if names is None else str(names[client]) for client in clients.tolist()]
        known = np.array([name in self.groups for name in told], bool)
        if not known.all():
            missing = told[int(np.argmin(known))]
            raise MethodError(
                f"Given: groups has no entry for client {missing} ({int((~known).sum())} such "
                f'clients); add one, such as "{missing}": "other"'
            )
        return np.array([code_of(str(self.groups[name])) for name in told], np.int64), known


def _with_groups(
    state: GivenState,
    clients: Int[np.ndarray, "n"],
    codes: Int[np.ndarray, "n"],
    start: Float[np.ndarray, "P"],
) -> GivenState:
    """The state with clients in their groups. Groups that are new get the start model."""
    known = state.codes.tolist()
    new = [code for code in dict.fromkeys(codes.tolist()) if code not in known]
    every = np.array([*known, *new], np.int64)
    assignment = state.assignment.copy()
    row_of = {code: row for row, code in enumerate(every.tolist())}
    assignment[clients] = [row_of[code] for code in codes.tolist()]
    models = np.concatenate([state.models, np.repeat(start[None], len(new), axis=0)])
    return replace(state, models=models, assignment=assignment, codes=every)
