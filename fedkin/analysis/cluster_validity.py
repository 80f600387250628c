"""How tight the groups of a cold start are, without a round of training: the clustering validity of
FedGroup (section III-D) and FlexCFL (section 3.3)."""

from __future__ import annotations

from typing import Any

from fedkin.config.schema import check_integer
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.measures.cluster_validity import within_cluster_squares
from fedkin.methods.group_cold_start import ColdStarting
from fedkin.simulation.engine import SimulatedWorld


def cold_start_squares(world: SimulatedWorld, method: Any, seed: int = 0) -> float:
    """Within-cluster sum of squares of the groups that a run with this seed would start with.

    The clients' points are the rows that the method clusters: of the ternary similarity matrix for
    FedGroup, of the cosines with m directions (without the factor 1/m of eq. 7) for FlexCFL. For
    FlexCFL with ``measure="madc"`` they are these cosines as well. FlexCFL's points have m
    coordinates, so its values for different m are not of the same embedding.

    The clients of the cold start train once. The ledger counts this as evaluation.

    Args:
        world: the simulated clients, such as ``fk.SimulatedWorld(data, model, local)``. It is
            brought to round 0.
        method: ``fk.FedGroup``, ``fk.FedGrouProx`` or ``fk.FlexCFL``.
        seed: seed of the run.

    Raises:
        ConfigError: the seed is invalid.
        MethodError: the method has no group cold start, or too few clients reply.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> world = fk.SimulatedWorld(data, fk.models.mclr(data))
        >>> cold_start_squares(world, fk.FedGroup(clusters=6))
        0.0
    """
    check_integer("seed", seed, 0)
    if not isinstance(method, ColdStarting):
        raise MethodError(
            f"{type(method).__name__} has no group cold start; use fk.FedGroup, fk.FedGrouProx or "
            "fk.FlexCFL"
        )
    world.begin(Stream(seed, 0, "scenario"))
    with world.ledger.scoring():
        cold_start = method.cold_start(world, Stream(seed, 0, "method/init"))
    return within_cluster_squares(method.embedding(cold_start.updates), cold_start.groups)
