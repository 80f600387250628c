"""Any method that averages, with a server optimiser (``server_optimizers.py``) behind it, cluster by cluster.

Running statistics (batch normalisation) are no gradients' work: they are averaged as without an optimiser.

A cluster whose model did not change (no reply arrived) keeps its model and its moments. A client that migrates changes
its cluster and no moment. Where the number of clusters changes (a split, a late clustering, a merge), a new cluster has
the moments, and the former model as x, of its parent: the cluster that most of its clients were in before the round.
One without a parent keeps the model that the method made, and begins with fresh moments. FedSim clusters a cohort to
weigh its one model: there is one pair of moments.

It does not apply to methods between peers, to detectors, and to options that change models besides averaging them
(``Requirements.changes_models``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import MethodError
from fedkin.core.extended_state import extended_type, own_state, values
from fedkin.core.method import UNASSIGNED, Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.world import World
from fedkin.methods.server_optimizers import ServerOptimizer

MOMENTS = ("server_momentum", "server_square")  # arrays [K P] of a state that has them


@dataclass(frozen=True)
class ServerOptimized:
    """A method whose cluster models take the steps of a server optimiser. Raises MethodError for one that it does not
    apply to."""

    method: Method
    optimizer: ServerOptimizer

    def __post_init__(self) -> None:
        if why := refusal(self.method):
            raise MethodError(why)

    def requirements(self) -> Requirements:
        return requirements_of(self.method)

    def init(self, world: World, stream: Stream) -> State:
        return self._next(world, None, self.method.init(world, stream))

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        return self._next(world, state, self.method.round(world, own_state(state), cohort, stream))

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        """As the method does it; a model that it changes by that is not optimised."""
        placed = self.method.place(world, own_state(state), newcomers, stream)
        return self._next(world, state, placed, steps=False)

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(own_state(state)) if isinstance(self.method, Remarking) else ()

    def _next(self, world: World, before: Any, after: State, steps: bool = True) -> State:
        """The method's next state with moments, and with the optimiser's models where it ``steps``."""
        shape = after.models.shape
        models, momentum = after.models, np.zeros(shape, np.float32)
        square = np.full(shape, self.optimizer.start, np.float32)
        if before is not None:
            parent = parents(before.assignment, after.assignment, len(before.models), len(models))
            known = parent != UNASSIGNED
            momentum[known] = before.server_momentum[parent[known]]
            square[known] = before.server_square[parent[known]]
            former = models.astype(np.float64)  # one without a parent does not change
            former[known] = before.models[parent[known]]
            for part in world.spec.untrained:  # nothing to step from: without a change it moves by no moment either
                former[:, part] = models[:, part]
            delta = models - former
            moved = delta.any(axis=1) & steps
            change, *moments = self.optimizer.step(
                delta[moved], *(a[moved].astype(np.float64) for a in (momentum, square))
            )
            momentum[moved], square[moved] = moments
            models = models.copy()
            models[moved] = former[moved] + change
        moments_by_name = dict(zip(MOMENTS, (momentum, square), strict=True))
        return with_moments(type(after))(**{**values(after), "models": models, **moments_by_name})


def refusal(method: Method) -> str | None:
    """Why a server optimiser does not apply to a method; None where it does."""
    needs, name = requirements_of(method), type(method).__name__
    if needs.peers:
        return f"{name} has no server: its peers average among themselves; leave the server optimizer out"
    if needs.detectors:
        return (
            f"{name} trains detectors of single classes, and a server optimizer is for models of clusters; leave it out"
        )
    if needs.changes_models:
        return (
            f"{name} with {needs.changes_models} changes models besides averaging them, which a server optimizer would "
            f"take for updates; leave it out, or {needs.changes_models}"
        )
    if needs.replaces_models:
        return f"{name} {needs.replaces_models}, which a server optimizer would take for updates; leave it out"
    return None


def parents(before: Int[np.ndarray, "N"], after: Int[np.ndarray, "N"], old: int, new: int) -> Int[np.ndarray, "new"]:
    """The former cluster that each of ``new`` clusters comes from, or UNASSIGNED.

    Args:
        before, after: the clusters of all clients.
        old, new: how many clusters there were, and are. As long as none disappears, the first ``old`` ones stay.
    """
    parent = np.arange(new)
    for k in range(old, new) if new >= old else range(new):
        members = before[(after == k) & (before != UNASSIGNED)]
        parent[k] = np.bincount(members).argmax() if len(members) else UNASSIGNED
    return parent


@cache
def with_moments(kind: type[State]) -> type[Any]:
    """A type of states with the moments beside the arrays of another; its name and all else are the other's."""
    return extended_type(kind, MOMENTS)
