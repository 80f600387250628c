"""What asynchronous clusters keep between steps: requests, buffers, and versions of models."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int

from fedkin.options.asynchronous.buffer_rule import BufferRule
from fedkin.options.asynchronous.requests import Requests


@dataclass
class BufferProgress:
    """The progress of a run with asynchronous clusters.

    Attributes:
        versions: how often each cluster's model has stepped.
        counts: used and dropped replies since the start.
        clock: simulated seconds since the start.
        requests: requests at work, and replies in buffers.
    """

    versions: Int[np.ndarray, "K"]
    counts: Int[np.ndarray, "2"]
    clock: float = 0.0
    requests: Requests = field(default_factory=Requests.none)

    @classmethod
    def begin(cls, clusters: int) -> BufferProgress:
        """The progress before the first step.

        Args:
            clusters: K, the number of clusters.
        """
        return cls(np.zeros(clusters, np.int64), np.zeros(2, np.int64))

    def match_models(self, models: int) -> None:
        """Drop requests for other models if the number of models has changed.

        Args:
            models: K, the present number of models.
        """
        same = self.requests.models == models
        self.counts[1] += int((~same).sum())
        self.requests = self.requests.select(same)
        added = np.zeros(max(0, models - len(self.versions)), np.int64)
        self.versions = np.concatenate([self.versions, added])[:models]

    def first_to_arrive(self) -> int | None:
        """Index of the request whose reply arrives first; None if no time is known. Replies that
        come at the same time come in the order of client ids."""
        requests = self.requests
        waiting = np.flatnonzero(~requests.buffered & np.isfinite(requests.time))
        if not len(waiting):
            return None
        return int(waiting[np.lexsort((requests.client[waiting], requests.time[waiting]))[0]])

    def receive(
        self,
        client: int,
        update: Float[np.ndarray, "p"],
        examples: int,
        numbers: Float[np.ndarray, "q"],
    ) -> None:
        """Put the reply of a real client into the client's request. A reply without a request, or
        of another length, is ignored.

        Args:
            client: the client.
            update: its update.
            examples: its number of samples.
            numbers: further numbers of the reply.
        """
        requests = self.requests
        rows = np.flatnonzero((requests.client == client) & ~requests.buffered)
        # The number of models, or their length, may have changed since the request.
        if not len(rows) or requests.update.shape[1] != len(update):
            return
        received = replace(
            requests.select(rows[:1]),
            update=update[None].astype(np.float32),
            examples=np.array([examples]),
            numbers=numbers[None],
            time=np.zeros(1),
        )
        self.requests = requests.without(int(rows[0])).and_others(received)

    def arrive(self, row: int, cluster_now: int, rule: BufferRule) -> bool:
        """Put the reply to a request into its cluster's buffer, or drop it.

        Args:
            row: index of the request.
            cluster_now: the client's present cluster.
            rule: the rule of buffers.

        Returns:
            Whether the reply is in the buffer. If not, its client is in another cluster by now, or
            the reply is too stale.
        """
        cluster = self.requests.cluster[row]
        staleness = self.versions[cluster] - self.requests.version[row]
        if cluster_now != cluster or staleness > rule.max_staleness:
            self.requests = self.requests.without(row)
            self.counts[1] += 1
            return False
        self.requests = self.requests.with_buffered(row)
        return True

    def held(self, cluster: int) -> int:
        """How many replies a cluster's buffer holds."""
        return int((self.requests.buffered & (self.requests.cluster == cluster)).sum())

    def take(self, cluster: int) -> Requests:
        """Take all replies out of a cluster's buffer, in the order of clients.

        Args:
            cluster: the cluster, whose buffer is full.
        """
        taken = self.requests.buffered & (self.requests.cluster == cluster)
        full = self.requests.select(taken)
        self.requests = self.requests.select(~taken)
        self.counts[0] += len(full)
        return full.select(np.argsort(full.client, kind="stable"))

    def step(
        self, full: Requests, rule: BufferRule
    ) -> tuple[Float[np.ndarray, "K p"], Float[np.ndarray, "K"]]:
        """The step of every model by the replies of a full buffer, and the number of samples behind
        it. The model of the buffer gets its next version; other models have the step zero.

        Args:
            full: the replies, all of one cluster.
            rule: the rule of buffers.
        """
        staleness = self.versions[full.cluster] - full.version
        self.versions[full.cluster[0]] += 1
        return rule.step(
            update=full.update,
            staleness=staleness,
            examples=full.examples,
            cluster=full.cluster,
            clusters=len(self.versions),
        )
