"""The scores of a run's clients in the order in which charts show them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fedkin.measures.run_scores import scores_in
from fedkin.run.run import Run
from fedkin.task_types.task_type import TaskType

SAMPLES = "test_samples"


class ClientScores(NamedTuple):
    """The scores of a run's clients, the worst first.

    Attributes:
        values: the scores.
        unranked: number of clients that are left out, because they have too few test samples.
    """

    values: Float[np.ndarray, "c"]
    unranked: int


def ranked_scores(run: Run) -> ClientScores | None:
    """The test scores of a run's clients after the last round; None if they are unknown. Of
    numbers, clients with too few test samples are left out."""
    scores = scores_in(run.records[-1])
    name = scores.names.score
    if name not in run.clients:
        return None
    values = run.clients[name].to_numpy(np.float64)
    known = np.isfinite(values)
    ranked = known
    if run.final.get("unranked", run.records[-1].get("unranked")):
        ranked = known & (run.clients[SAMPLES].to_numpy() >= TaskType.least_ranked)
    ordered = np.sort(values[ranked])[:: scores.of_round.sign]
    return ClientScores(ordered, int(known.sum() - ranked.sum()))
