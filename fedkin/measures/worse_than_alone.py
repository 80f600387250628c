"""Clients that a model serves worse than the model that they train alone on their own samples.

A client loses if its mean test loss is more than 2% higher than with its own model. The margin is
relative to the own model's loss, so it means the same for every loss and unit. A promise without a
margin cannot be kept: two equally good models differ by chance in half of the clients.

Shapes: c clients.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.measures.measure import Measure

WORSE_THAN_ALONE = Measure(
    "worse_than_alone",
    title="share of clients whose test loss is more than 2% higher than with the model that they "
    "train alone",
    head="worse than alone",
    unit="share",
    direction="lower",
    kept="comparison",
)
MARGIN = 0.02  # a client loses if its loss is higher by more than this share
# A client with fewer test samples does not count, nor is it ranked among the worst clients
# (``TaskType.least_ranked``): its loss says little about its model.
LEAST_SAMPLES = 10


def loses(loss: Float[np.ndarray, "c"], own_loss: Float[np.ndarray, "c"]) -> Bool[np.ndarray, "c"]:
    """Whether each client's loss is more than 2% higher than with its own model.

    A model that has diverged, with a loss that is not finite, is worse than any own model with a
    finite loss. No model is worse than an own model that has diverged.

    Args:
        loss: test loss of each client, 0 or more; a mean or a sum over its samples.
        own_loss: the same of the client's own model.
    """
    within = loss <= (1 + MARGIN) * own_loss
    return np.isfinite(own_loss) & ~within


def worse_than_alone(
    loss: Float[np.ndarray, "c"],
    own_loss: Float[np.ndarray, "c"],
    samples: Int[np.ndarray, "c"],
) -> float:
    """Share of clients that lose more than 2% against their own model; NaN if no client counts.

    All clients have the same weight.

    Args:
        loss: test loss of each client, 0 or more; a mean or a sum over its samples.
        own_loss: the same of the client's own model; NaN for a client without one.
        samples: number of test samples of each client. Clients with fewer than ``LEAST_SAMPLES`` do
            not count, nor do clients without an own model.

    Examples:
        >>> import numpy as np
        >>> from fedkin.measures.worse_than_alone import worse_than_alone
        >>> own = np.array([1.0, 0.5, 2.0, 1.0])
        >>> shared = np.array([1.01, 0.52, 1.0, 9.0])
        >>> round(worse_than_alone(shared, own, np.array([20, 20, 20, 9])), 3)
        0.333
    """
    counts = counted(own_loss, samples)
    return float(loses(loss, own_loss)[counts].mean()) if counts.any() else math.nan


def counted(
    own_loss: Float[np.ndarray, "c"], samples: Int[np.ndarray, "c"]
) -> Bool[np.ndarray, "c"]:
    """The clients that count in ``worse_than_alone``.

    Args:
        own_loss: test loss of each client's own model; NaN for a client without one.
        samples: number of test samples of each client.
    """
    return (samples >= LEAST_SAMPLES) & ~np.isnan(own_loss)
