"""What trainers and scorers give back: one entry per row, a row being a client with a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int


class LocalUpdates(NamedTuple):
    """Results of local training; arrays of JAX within a compiled program, of NumPy outside."""

    update: Any  # [r P] local solution minus the model it started from
    loss: Any  # [r] mean training loss during the last local epoch
    first_loss: Any  # [r] ... during the first local epoch
    gradient: Any  # [r P] gradient of the full training loss at the start; None unless requested


class ScoreSums(NamedTuple):
    """Scores summed over the samples of each row."""

    correct: Float[np.ndarray, "n"]  # correct predictions
    loss: Float[np.ndarray, "n"]  # summed, not averaged
    examples: Int[np.ndarray, "n"]
