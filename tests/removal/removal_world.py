"""Small runs of which a client is removed: three rotations of digits, twelve clients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fedkin as fk
from fedkin.data.federated import FederatedData

ROUNDS = 6
LEAVER = 2


@cache
def data() -> FederatedData:
    """Twelve clients in three true clusters."""
    return fk.planted("digits", "rotation", clusters=3, clients=12, samples=40, test_samples=6)


def simulated(
    method: Any,
    out: Path | None = None,
    silent: Sequence[int] | None = None,
    *,
    keep: int = 0,
    **arguments: Any,
) -> fk.Run:
    """A run; ``keep``: rounds between checkpoints that all stay, 0: the newest two stay."""
    scoring = fk.Scoring(keep_checkpoints=keep > 0, checkpoint_every=keep or 10)
    settings: dict[str, Any] = {
        "rounds": ROUNDS,
        "cohort": 8,
        "seed": 3,
        "local": fk.LocalTraining(epochs=1, batch_size=10, lr=0.1),
        "scoring": scoring,
        "scenario": fk.Population(silent=None if silent is None else tuple(silent)),
        "callbacks": fk.Progress(False),
    }
    made_of = arguments.pop("data", None) or data()
    return fk.simulate(method, made_of, fk.models.mclr(made_of), out=out, **settings | arguments)
