"""Angles between the subspaces that clients' samples span: PACFL's measure of similar data, which
needs no training."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from fedkin.core.validation import check_choice
from fedkin.core.world import World
from fedkin.measures import principal_angles
from fedkin.tasks.pacfl import Subspace


def subspace_angles(world: World, p: int = 3, form: str = "smallest") -> Float64[np.ndarray, "N N"]:
    """Angles in degrees between the sample subspaces of a world's clients in round 0 (Vahidian et
    al. 2023).

    Each client sends the first p singular vectors of its samples once, without training. Samples
    are neither scaled nor centred, so compare only angles for the same features. The ledger counts
    the traffic as evaluation (``scoring.subspace``), not as a method's.

    Args:
        world: the simulated clients, such as ``fk.SimulatedWorld(data, model)``; the model is not
            used.
        p: number of vectors of each client; the paper uses 3 to 5.
        form: ``smallest`` (eq. 2: the smallest principal angle), ``sum`` (of all principal angles),
            ``same_rank`` (eq. 3: the sum of angles between vectors of the same rank) or
            ``as_coded`` (the smallest angle between any two vectors, as in the authors' code).

    Returns:
        The angles of all pairs; NaN for a client that did not reply or has not joined yet.

    Raises:
        MethodError: the form is unknown, or ``p`` is below 1.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> world = fk.SimulatedWorld(data, fk.models.mclr(data))
        >>> fk.subspace_angles(world).shape
        (6, 6)
    """
    check_choice("form", form, tuple(principal_angles.FORMS))
    clients = world.clients(0)
    with world.ledger.scoring():
        bases = world.run(Subspace(p), clients).basis
    angles = np.full((world.total_clients, world.total_clients), np.nan)
    angles[np.ix_(clients, clients)] = principal_angles.subspace_angles(bases, form)
    return angles
