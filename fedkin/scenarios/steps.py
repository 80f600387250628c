"""Samples that come in steps: a stream, each step of which is tested before it is trained on
(prequentially).

E. Jothimurugesan et al.: Federated Learning under Distributed Concept Drift. AISTATS 2023, arXiv
2206.00799.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.data.drifting import StreamData
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.swaps import ShiftedRound
from fedkin.scenarios.validation import at_least, switch


@plain_options
@dataclass(frozen=True)
class Steps:
    """A stream's samples come in steps.

    Step t of a stream has the rounds 1 + t ``every`` .. (t + 1) ``every``. In these, clients train
    on the samples of step t (with ``history`` on all up to it, the oldest first), and are tested on
    those of step t + 1, which nobody has trained on yet. So the accuracy of a step's last round is
    prequential; ``prequential_accuracy`` is its mean.

    True clusters are the concepts of the step that is trained on; clients shift where they have
    another than in the step before. After the last step that has a next one, nothing changes any
    more. Nothing is drawn here.

    Attributes:
        every: rounds of a step.
        history: train on the samples of all steps so far, not of the present one only.
    """

    every: int = 200
    history: bool = False

    def __post_init__(self) -> None:
        at_least(1, "every", self.every)
        switch("history", self.history)

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> ShiftedRound:
        """The data of a round. Raises DataError for data that do not come in steps."""
        if not isinstance(original, StreamData):
            raise DataError(
                f"{original.name}: these data do not come in steps: take sine, circle, sea or "
                "another fedkin.data.StreamData, or leave out the shift 'steps'"
            )
        last = len(original.steps) - 2
        step = max(round - 1, 0) // self.every
        shifted = np.zeros(original.clients, bool)
        if step > last or (round - 1) % self.every or not step:
            return current, shifted
        before = original.steps[: step + 1] if self.history else original.steps[step : step + 1]
        train = Ragged.of(
            [np.concatenate([own[c] for own in before]) for c in range(original.clients)]
        )
        concepts = original.concepts
        if concepts is not None:
            shifted = concepts[step] != concepts[step - 1]
        now = None if concepts is None else concepts[step]
        return current.with_rows(train, original.steps[step + 1], now), shifted


def prequential_accuracy(records: Sequence[Record], every: int) -> float:
    """The mean over steps of the accuracy after a step's last round, which is on the samples of the
    next step.

    Args:
        records: of a run with the shift ``Steps``.
        every: rounds of a step.

    Raises:
        ConfigError: no step's last round was scored.
    """
    scored = [
        r["accuracy"]
        for r in records
        if r["round"] and r["round"] % every == 0 and r["accuracy"] is not None
    ]
    if not scored:
        raise ConfigError(
            f"no round that ends a step of {every} rounds was scored; set run.evaluate_every = "
            f"{every}"
        )
    return float(np.mean(scored))
