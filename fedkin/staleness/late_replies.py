"""Any method that averages, with replies that came too late: later rounds use them, up to an age (bounded staleness).

    u_{i,s}   the update of client i in round s, which arrived after that round's end
    s(a)      (1 + a)^-exponent, a = t - s rounds old, at most ``max_age``
    mean      in round t, of cluster k:  sum_i n_i s(a_i) u_{i,t-a_i} / sum_i n_i, over all updates that are used

J. Nguyen et al.: Federated Learning with Buffered Asynchronous Aggregation. AISTATS 2022, arXiv 2106.06639, has s(a)
with exponent 0.5 on the update, so that a mean of old ones only is a smaller step; here in each cluster, and rounds
stay rounds. An old update counts for nothing where its client has replied in this round, where it belongs to another
cluster by now, or where the number of clusters has changed.

In a simulation ``share`` makes replies late: by a rounds or more with probability share^a. Those of real clients come
when they come (``WaitingWorld``). With ``max_age=0`` they are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import MethodError
from fedkin.core.extended_state import extended_type, own_state, values
from fedkin.core.method import Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.world import World
from fedkin.staleness.buffer import LateBuffer
from fedkin.staleness.late_world import LateWorld
from fedkin.staleness.settings import LateReplies

LATE = ("late_rows", "late_updates", "late_counts")  # arrays of a state that has them, as LateBuffer has them


def refusal(method: Method) -> str | None:
    """Why late replies are no use to a method; None where they are."""
    needs, name = requirements_of(method), type(method).__name__
    if needs.peers:
        return f"{name} has no server and no rounds that a reply could miss: its peers average when they hear something"
    if needs.detectors:
        return f"{name} trains several models of a client in one round, and late replies are of one"
    return _single(method) if needs.updates_because else None


def _single(method: Method) -> str:
    """What is wrong with a method that reads single updates. Others find that out in their first round."""
    because = requirements_of(method).updates_because
    why = f", because of its option {because}" if because else ""
    return (
        f"{type(method).__name__} averages single updates by itself{why}, so that late ones have no place; a "
        "method that asks for means has one (fedavg, fedgroup, flexcfl, ifca with weighting='examples')"
    )


@dataclass(frozen=True)
class Late:
    """A method whose means hold late replies, too. Raises MethodError for one that it does not go with."""

    method: Method
    settings: LateReplies

    def __post_init__(self) -> None:
        if why := refusal(self.method):
            raise MethodError(why)

    def requirements(self) -> Requirements:
        return requirements_of(self.method)

    def init(self, world: World, stream: Stream) -> State:
        return _with(self.method.init(world, stream), LateBuffer.empty())

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        """A round in which late replies count. Raises MethodError where the method averages single updates itself."""
        buffer = _buffer(state)
        own = LateWorld(world, self.settings, buffer, state.assignment, stream.round)
        after = self.method.round(own, own_state(state), cohort, stream)
        if own.single and not own.averages and stream.round != requirements_of(self.method).first_clustering:
            raise MethodError(f"late: {_single(self.method)}")
        return _with(after, buffer)

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return _with(self.method.place(world, own_state(state), newcomers, stream), _buffer(state))

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(own_state(state)) if isinstance(self.method, Remarking) else ()


def late_record(state: State) -> dict[str, int]:
    """How many replies were used in a later round than their own, and how many came too late, since the start."""
    counts = getattr(state, LATE[-1], None)
    return {} if counts is None else {"late_used": int(counts[0]), "late_dropped": int(counts[1])}


@cache
def with_late(kind: type[State]) -> type[Any]:
    """A type of states with the late replies beside the arrays of another; its name and all else are the other's."""
    return extended_type(kind, LATE)


def _buffer(state: State) -> LateBuffer:
    return LateBuffer(*(getattr(state, name).copy() for name in LATE))


def _with(state: State, buffer: LateBuffer) -> State:
    arrays = (buffer.rows, buffer.updates, buffer.counts)
    return with_late(type(state))(**values(state), **dict(zip(LATE, arrays, strict=True)))
