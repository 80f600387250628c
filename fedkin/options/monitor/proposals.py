"""Proposals of the monitor: which client belongs to which other cluster, which clusters could
be one, and which cluster should be split in two. All are decided by counts of samples on
which two models differ.

Shapes: n rows (clients), K clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.measures.e_values import discordant_e_value, e_bh, not_worse_e_value

Kind = Literal["alarm", "move", "split", "merge", "one_model"]


class KindWords(NamedTuple):
    """One finding of a kind and several, and how to respond to it, in words."""

    one: str
    several: str
    cure: str


KINDS: dict[Kind, KindWords] = {
    "alarm": KindWords("alarm", "alarms", "look at its data, or let the method cluster again"),
    "move": KindWords("move", "moves", "set monitor.act=move, or place the client again"),
    "split": KindWords("split proposed", "splits proposed", "run again with one cluster more"),
    "merge": KindWords(
        "union of two clusters proposed",
        "unions of two clusters proposed",
        "run again with one cluster less",
    ),
    "one_model": KindWords(
        "time one model for all proposed",
        "times one model for all proposed",
        "compare with FedAvg (fedkin run --against fedavg)",
    ),
}


@dataclass(frozen=True)
class Act:
    """What the monitor has found, and whether it has acted.

    Attributes:
        round: the round.
        kind: ``alarm``: a client no longer fits. ``move``: another cluster serves it better.
            ``split``: a cluster should be split in two. ``merge``: two clusters could be one.
            ``one_model``: one model serves all clusters.
        cluster: the cluster of the client, or the one that is split, or the first one of a merge.
        client: the client of an alarm or a move.
        cause: the number that has risen at the client of an alarm: the ``loss`` of its model, or
            the distance of its ``features`` from the first ones.
        to: the other cluster of a move or a merge, or the one whose model serves all.
        log_evidence: natural logarithm of the e-value.
        done: whether the assignment was changed.
    """

    round: int
    kind: Kind
    cluster: int
    client: int | None = None
    to: int | None = None
    cause: Literal["loss", "features"] | None = None
    log_evidence: float | None = None
    done: bool = False

    def plain(self) -> dict[str, Any]:
        """The act as an entry of a record, without the fields that do not apply."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def in_words(self, names: Mapping[int, str]) -> str:
        """The finding, as a sentence without a point.

        Args:
            names: names of clients by their numbers; empty if they have none.
        """
        client = ""
        if self.client is not None:
            client = f"client {names.get(self.client, self.client)}"
        if self.kind == "alarm" and self.cause == "features":
            return f"the features of {client} in cluster {self.cluster} have moved"
        if self.kind == "alarm":
            return f"{client} no longer fits cluster {self.cluster}"
        if self.kind == "move":
            end = f"; it has moved to cluster {self.to}" if self.done else ""
            return f"cluster {self.to} serves {client} better than cluster {self.cluster}{end}"
        if self.kind == "split":
            return (
                f"cluster {self.cluster} should be split in two: clients that fit no cluster are "
                "in it"
            )
        if self.kind == "merge":
            return f"one model would serve clusters {self.cluster} and {self.to} as well"
        return f"the model of cluster {self.to} would serve all clusters as well"


def log_of(e_value: float) -> float:
    """Natural logarithm of an e-value, rounded; at least -1000, so that it is a JSON number."""
    with np.errstate(divide="ignore"):
        return round(float(np.clip(np.log(e_value), -1000, 1000)), 3)


def probe_rows(
    clients: Int[np.ndarray, "f"], clusters: Int[np.ndarray, "f"], others: Int[np.ndarray, "K"]
) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n 2"]]:
    """The rows of a comparison of each client's model with the models of all other clusters: the
    client of each row, and its present and other model.

    Args:
        clients: clients to probe.
        clusters: the cluster of each.
        others: clusters that have clients.
    """
    pairs = np.array([(k, j) for k in clusters for j in others if j != k], np.int64)
    rows = [client for client, k in zip(clients, clusters, strict=True) for j in others if j != k]
    return np.array(rows, np.int64), pairs.reshape(-1, 2)


@dataclass(frozen=True)
class Probe:
    """The result of probing one client.

    Attributes:
        client: the client.
        cluster: its present cluster.
        to: the other cluster that serves it best; None if there is no other.
        e_value: evidence that some other cluster serves it better: the mean over the others.
        passes: whether the evidence passes e-BH among the clients that are probed together.
    """

    client: int
    cluster: int
    to: int | None
    e_value: float
    passes: bool


def read_probes(
    clients: Int[np.ndarray, "n"],
    pairs: Int[np.ndarray, "n 2"],
    counts: Int[np.ndarray, "n 3"],
    alpha: float,
) -> list[Probe]:
    """The clients' best other clusters, with the evidence for a move.

    Args:
        clients: the client of each row.
        pairs: its present and other model.
        counts: better, worse, samples.
        alpha: false discovery rate of moves.
    """
    e_values = discordant_e_value(counts[:, 0], counts[:, 1])
    gain = counts[:, 0] - counts[:, 1]
    found = []
    for client in np.unique(clients):
        rows = np.flatnonzero(clients == client)
        best = rows[np.argmax(gain[rows])]
        to = int(pairs[best, 1]) if gain[best] > 0 else None
        # The mean of e-values is an e-value whatever their dependence, so choosing the best does
        # not raise the error rate.
        evidence = float(e_values[rows].mean())
        found.append(Probe(int(client), int(pairs[best, 0]), to, evidence, passes=False))
    passed = e_bh(np.array([probe.e_value for probe in found]), alpha)
    return [
        Probe(probe.client, probe.cluster, probe.to, probe.e_value, passes=bool(passes))
        for probe, passes in zip(found, passed, strict=True)
    ]


def splits(
    stray: Bool[np.ndarray, "N"], assignment: Int[np.ndarray, "N"], share: float, least: int = 2
) -> list[int]:
    """The clusters of which at least ``share`` of the clients, and at least ``least``, no longer
    fit and fit nowhere else.

    Args:
        stray: these clients.
        assignment: cluster of each client; negative without one.
        share: smallest share of a cluster's clients.
        least: smallest number of clients.
    """
    found = []
    for cluster in np.unique(assignment[stray]).tolist():
        members = assignment == cluster
        strays = int((stray & members).sum())
        if cluster >= 0 and strays >= max(least, share * members.sum()) and strays < members.sum():
            found.append(cluster)
    return found


def not_worse(
    pairs: Int[np.ndarray, "n 2"], counts: Int[np.ndarray, "n 3"], clusters: int, margin: float
) -> Float[np.ndarray, "K K"]:
    """Evidence that the clients of cluster i lose less than ``margin`` of accuracy with the model
    of cluster j: entry [i, j]. It is 0 without samples, and on the diagonal.

    Args:
        pairs: present and other model of each row.
        counts: better, worse, samples.
        clusters: K.
        margin: the loss of accuracy that matters.
    """
    totals = np.zeros((clusters, clusters, 3), np.int64)
    np.add.at(totals, (pairs[:, 0], pairs[:, 1]), counts)
    better, worse, samples = np.moveaxis(totals, -1, 0)
    e_values = not_worse_e_value(better, worse, samples, margin)
    return np.where(samples > 0, e_values, 0.0)


def unions(e_values: Float[np.ndarray, "K K"], alpha: float, round: int) -> list[Act]:
    """Clusters that one model would serve as well: pairs of clusters, and all of them.

    A pair is one if both directions have evidence, and all are one if every cluster can take the
    same model. The smallest of several e-values tests that at least one of the nulls holds. Alpha
    is divided by the number of questions.

    Args:
        e_values: ``not_worse``; rows and columns of clusters without samples are 0.
        alpha: probability of any wrong union at this look.
        round: the round.
    """
    used = np.flatnonzero((e_values > 0).any(axis=0) | (e_values > 0).any(axis=1))
    questions = len(used) * (len(used) - 1) // 2 + len(used)
    acts = []
    for place, i in enumerate(used.tolist()):
        for j in used[place + 1 :].tolist():
            evidence = min(e_values[i, j], e_values[j, i])
            if evidence >= questions / alpha:
                acts.append(Act(round, "merge", i, to=j, log_evidence=log_of(evidence)))
    for j in used.tolist():
        others = used[used != j]
        evidence = e_values[others, j].min() if len(others) else 0.0
        if evidence >= questions / alpha:
            acts.append(Act(round, "one_model", j, to=j, log_evidence=log_of(evidence)))
            break
    return acts
