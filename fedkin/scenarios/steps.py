"""Data streams: samples come in steps, and models are tested on a step before they train on it
(prequential evaluation).

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
    """The clients' data are streams: their samples come in steps.

    Step t has the rounds 1 + t ``every`` .. (t + 1) ``every``. In these rounds, clients train on
    the samples of step t (with ``history``, on the samples of steps 0 to t, the oldest first). They
    are tested on the samples of step t + 1, on which no client has trained. So the accuracy in a
    step's last round is prequential (on samples that come after all training samples);
    ``prequential_accuracy`` is its mean over steps.

    A concept is a rule that gives samples their labels. A client's true cluster is its concept in
    the step on which it trains. When a step begins in which a client has another concept, its data
    count as shifted. The last step is only used for tests: in its rounds, clients still train on
    the second to last step. Nothing here is random.

    Attributes:
        every: number of rounds in a step.
        history: whether clients train on all steps so far, not only on the present step.

    Examples:
        >>> import fedkin as fk
        >>> fk.Steps(every=20)
        Steps(every=20, history=False)
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
        """The data of a round. Raises DataError for data that do not come in steps, or have
        validation samples."""
        if not isinstance(original, StreamData):
            raise DataError(
                f"{original.name}: these data do not come in steps: use sine, circle, sea or "
                "another fedkin.data.StreamData, or leave out the shift 'steps'"
            )
        if original.validation is not None:
            # A step's training rows are all samples of the step, so also the validation samples.
            raise DataError(
                f"{original.name}: clients would train on the validation samples, since streams "
                "are tested on the next step; leave out data.validation"
            )
        last = len(original.steps) - 2
        step = max(round - 1, 0) // self.every
        shifted = np.zeros(original.clients, bool)
        # Data change only in the first round of a step. Step 0 needs no change: the data begin with
        # it.
        if step > last or (round - 1) % self.every or not step:
            return current, shifted
        first = 0 if self.history else step
        trained = original.steps[first : step + 1]
        rows = [np.concatenate([part[c] for part in trained]) for c in range(original.clients)]
        true_clusters = None
        if original.concepts is not None:
            true_clusters = original.concepts[step]
            shifted = true_clusters != original.concepts[step - 1]
        data = current.with_rows(Ragged.of(rows), original.steps[step + 1], true_clusters)
        return data, shifted


def prequential_accuracy(records: Sequence[Record], every: int) -> float:
    """The mean over steps of the accuracy in a step's last round, on samples of the next step.

    Args:
        records: records of a run with the shift ``Steps``.
        every: number of rounds in a step.

    Raises:
        ConfigError: no step's last round was scored.

    Examples:
        >>> import fedkin as fk
        >>> accuracies = enumerate([0.1, 0.5, 0.7])
        >>> records = [{"round": t, "accuracy": accuracy} for t, accuracy in accuracies]
        >>> fk.prequential_accuracy(records, every=1)
        0.6
    """
    last_rounds = [record for record in records if record["round"] and record["round"] % every == 0]
    scored = [record["accuracy"] for record in last_rounds if record["accuracy"] is not None]
    if not scored:
        raise ConfigError(
            f"no round that ends a step of {every} rounds was scored; set run.evaluate_every = "
            f"{every}"
        )
    return float(np.mean(scored))
