"""FedSim's comparison of two objectives, with and without clusters, measured on a federation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.world import World
from fedkin.measures.cluster_objectives import ClusterObjectives, objectives_of_losses
from fedkin.tasks.evaluate import evaluate


def cluster_objectives(
    world: World,
    model: Float[np.ndarray, "P"],
    clients: Int[np.ndarray, "n"],
    labels: Int[np.ndarray, "n"],
) -> ClusterObjectives:
    """Compute F_O, F_G and lambda of a model, trained or initial (Palihawadana et al. 2022, eqs. 4
    to 12).

    F_O is the mean training loss over the clients, F_G the mean over the clusters of their clients'
    mean, and lambda the difference F_O - F_G. The ledger counts the traffic as evaluation.

    Args:
        world: the simulated clients, such as ``fk.SimulatedWorld(data, model)``.
        model: parameters, such as a row of ``run.models``.
        clients: clients of a round.
        labels: cluster of each of these clients.

    Raises:
        MethodError: there are no clients.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> data = fk.data.digits(clients=3)
        >>> world = fk.SimulatedWorld(data, fk.models.mclr(data))
        >>> start = world.initial(fk.Stream(0))
        >>> found = fk.cluster_objectives(world, start, np.arange(3), np.array([0, 0, 1]))
        >>> found.clusters.shape
        (2,)
    """
    with world.ledger.scoring():
        scores = evaluate(
            world, model[None], clients, np.zeros(len(clients), np.int64), split="train"
        )
    return objectives_of_losses(scores.loss, labels)
