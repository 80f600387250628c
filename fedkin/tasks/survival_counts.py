"""Sums over patients from which a server makes survival curves and a C-index for each cluster.

No time of a patient leaves a client: it sends numbers of events and of patients at risk on a public
grid of times, and numbers of comparable pairs. The reply is one vector for each client, added by
cluster, so secret sums carry it. Shapes: n rows (clients), r rows of a portion, K clusters, P
parameters, G times of the grid, p = 2 G + 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.columns import patients_split
from fedkin.core.replies import Reply
from fedkin.core.schema import Rows, Schema, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, setting, shared
from fedkin.measures.concordance import Concordance, concordance
from fedkin.measures.survival_curves import SurvivalSums, survival_sums

_PAIRS = 3  # concordant, discordant and tied pairs
_UNIT = 1000.0  # pairs are sent in this unit for each patient, so that all numbers are small


@dataclass(frozen=True)
class SurvivalCounts(Task):
    """Numbers of events and of patients at risk at each time of a grid, and of comparable pairs
    within the client by the risks of its cluster's model.

    A client sends them divided by its number of patients, and the means over a cluster are weighted
    by these numbers. So the sums follow from the means, and no number exceeds the limit of secret
    sums.

    Attributes:
        models: models of the clusters.
        model_index: the cluster of each row (a client).
        grid: the times, in ascending order.
        split: ``train`` or ``test`` patients.
        reduce: whether the server needs only the means of each cluster.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()
    grid: Float64[np.ndarray, "G"] = shared("G")
    split: str = setting(default="test")
    reduce: bool = True

    charged = "sum"

    @property
    def up(self) -> Schema:
        """Schema of the reply: the vector of counts (or its mean for each cluster), the number of
        patients, and the cluster."""
        return _schema(self.reduce)

    def sizes(self) -> dict[str, int]:
        return {**super().sizes(), "p": 2 * len(self.grid) + _PAIRS}

    def single(self) -> SurvivalCounts:
        return replace(self, reduce=False)

    def compute(self, client: Client) -> dict[str, Any]:
        index = int(self.model_index[0])
        times, died = client.patients(self.split)
        sums = survival_sums(times, died, self.grid)
        risks = client.scores(self.models[index], patients_split(self.split))[:, 0]
        pairs = concordance(risks, times, died)
        counts = np.concatenate([sums.events, sums.at_risk, np.array(pairs) / _UNIT])
        return {
            "update": counts / max(1, len(times)),
            "examples": len(times),
            "model_index": index,
        }

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        # The masked form of this task masks the counts, so they are computed by the plain task.
        plain = SurvivalCounts(
            models=self.models,
            model_index=self.model_index,
            grid=self.grid,
            split=self.split,
            reduce=self.reduce,
        )
        yield from rows.one_by_one(plain)


class ClusterCounts(NamedTuple):
    """The sums over the patients of a cluster.

    Attributes:
        sums: events and patients at risk at each time of the grid.
        pairs: comparable pairs within clients.
        patients: number of patients.
    """

    sums: SurvivalSums
    pairs: Concordance
    patients: int


def cluster_counts(task: SurvivalCounts, reply: Reply) -> list[ClusterCounts]:
    """The sums of each cluster, from a reply to ``SurvivalCounts`` with ``reduce``.

    Args:
        task: the task.
        reply: its reply, of clients in the clear or of secret sums.
    """
    clusters = len(task.models)
    weight = reply.weight
    if weight is None:
        arrived = reply.arrived
        index = np.asarray(task.model_index)[arrived]
        weight = np.bincount(index, reply.examples[arrived], clusters)
    size = len(task.grid)
    found = []
    for mean, patients in zip(np.asarray(reply.update, np.float64), weight, strict=True):
        # Counts are whole numbers; secret sums round a little.
        events = np.rint(mean[:size] * patients)
        at_risk = np.rint(mean[size : 2 * size] * patients)
        pairs = np.rint(mean[2 * size :] * patients * _UNIT).astype(int).tolist()
        sums = SurvivalSums(events=events, at_risk=at_risk, risk=at_risk)
        found.append(ClusterCounts(sums, Concordance(*pairs), round(float(patients))))
    return found


@cache
def _schema(reduce: bool) -> Schema:
    """The schema of a reply, made once for each value of ``reduce`` and cached."""
    over = "model" if reduce else "row"
    kind = Sums if reduce else Rows
    return kind(
        update=floats("p", np.float64, low=0, missing=0.0, over=over, norm_checked=True),
        examples=integers(over="row", counted=False),
        model_index=integers(over="row", counted=False),
    )
