"""Shifts of clients' data: each client stores its label counts when it is assigned to a cluster
("placed"), and tests later whether they have changed.

Source: FlexCFL (Duan et al. 2022), Algorithm 2, l. 5. As in the authors' code, the distance is
between label counts. Shapes: n rows (clients), C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import MethodError
from fedkin.core.schema import Memory, Rows, booleans
from fedkin.core.task import Task
from fedkin.measures.wasserstein import label_aware, label_blind, shift_threshold

TESTS = {"label_blind": label_blind, "label_aware": label_aware}
_MEMORY = {"noted_labels": Memory("C", np.int32), "samples_at_first": Memory("", np.int64)}


class _Noted(NamedTuple):
    """What clients have stored to detect shifts: their label counts at some earlier time, and their
    number of samples before any shift."""

    labels: Int[np.ndarray, "n C"]
    samples: Int[np.ndarray, "n"]


@dataclass(frozen=True)
class Note(Task):
    """Clients that have just been assigned to a cluster store their present label counts.

    With ``Incremental(as_coded=True)`` ("stale counts"), the counts that a client stores at its
    first placement are used for only one test (see ``Shifted``), and then replaced. If the client's
    memory has the entry ``samples_at_first``, the stored counts are kept.
    """

    memory = _MEMORY
    delivery = "next"
    resets = ("shifted",)
    detectors = None
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        lasting = not client.stale_counts or "noted_labels" in client.memory
        if lasting and "samples_at_first" not in client.memory:
            client.memory["samples_at_first"] = client.first_label_counts.sum()
        client.memory["noted_labels"] = client.label_counts
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        every = np.arange(len(rows.clients))
        if len(every):
            noted = rows.memory.has("noted_labels", rows.clients)
            lasting = np.flatnonzero(noted) if rows.samples.stale_counts else every
            rows.store("samples_at_first", lasting, _noted(rows).samples[lasting])
            rows.store("noted_labels", every, rows.data.label_counts(clients=rows.clients))
        yield rows.every, {}


@dataclass(frozen=True)
class Shifted(Task):
    """Whether each client's data have shifted since it was assigned to its cluster.

    A client's data have shifted if the distance between its present and its stored label counts is
    above ``threshold`` n_i / C.

    ``label_blind`` is the Wasserstein distance between the counts as samples, which does not detect
    a permutation of classes. Its n_i is always the client's number of samples before any shift, as
    in FlexCFL's code. ``label_aware`` is our own: it compares the counts class by class, and its
    n_i is the number of samples when the counts were stored. (With the number before any shift, a
    client that has lost most of its samples would hardly ever detect a shift.)

    In the authors' code a client is first tested in the round after its placement, against its
    counts before any shift. Here it is also tested in the round of its placement. With
    ``Incremental(as_coded=True)``, this first test uses the counts at the placement. Later tests
    use the counts before any shift, as in the authors' code, until the client is placed again.

    Attributes:
        test: name of the distance, ``label_blind`` or ``label_aware``.
        threshold: largest distance without a shift, in units of n_i / C.
    """

    test: str = "label_blind"
    threshold: float = 0.2

    up = Rows(shifted=booleans(counted=False))
    memory = _MEMORY
    standing = "shift"
    detectors = None
    can_be_lost = False

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise MethodError(
                f"the shift test must be one of {', '.join(TESTS)}, got {self.test!r}"
            )
        # Always a float, so that equal tests are encoded as equal messages.
        object.__setattr__(self, "threshold", float(self.threshold))

    def compute(self, client: Client) -> dict[str, Any]:
        labels = client.memory.get("noted_labels", client.first_label_counts)
        samples = client.memory.get("samples_at_first", client.first_label_counts.sum())
        noted = _Noted(labels[None], np.asarray(samples)[None])
        # Counts that are used for one test only are replaced by the counts before any shift.
        if (
            client.stale_counts
            and "noted_labels" in client.memory
            and "samples_at_first" not in client.memory
        ):
            client.memory["noted_labels"] = client.first_label_counts
            client.memory["samples_at_first"] = client.first_label_counts.sum()
        return {"shifted": self._shifted(noted, client.label_counts[None])[0]}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        noted = _noted(rows)
        if rows.samples.stale_counts:
            _store_first(rows)
        counts = rows.data.label_counts(clients=rows.clients)
        yield rows.every, {"shifted": self._shifted(noted, counts)}

    def _shifted(self, noted: _Noted, counts: Int[np.ndarray, "n C"]) -> Bool[np.ndarray, "n"]:
        """Whether the present label counts of each client are too far from the stored label counts.

        Args:
            noted: the label counts (and numbers of samples) that the clients have stored.
            counts: the clients' present label counts.
        """
        size = noted.labels.sum(axis=1) if self.test == "label_aware" else noted.samples
        distance = TESTS[self.test](counts, noted.labels)
        return distance > shift_threshold(size, counts.shape[1], self.threshold)


def _store_first(rows: ClientRows) -> None:
    """Replace stored label counts that are valid for one test only by the label counts of the
    clients' data before any shift. These counts are kept."""
    noted = rows.memory.has("noted_labels", rows.clients)
    lasting = rows.memory.has("samples_at_first", rows.clients)
    once = np.flatnonzero(noted & ~lasting)
    first = rows.samples.first_data.label_counts(clients=rows.clients[once])
    rows.store("noted_labels", once, first)
    rows.store("samples_at_first", once, first.sum(axis=1))


def _noted(rows: ClientRows) -> _Noted:
    """The label counts that the task's clients have stored. For a client that has stored none, they
    are its label counts before any shift."""
    first = rows.samples.first_data.label_counts(clients=rows.clients)
    samples = rows.memory.read("samples_at_first", rows.clients, first.sum(axis=1))
    return _Noted(rows.memory.read("noted_labels", rows.clients, first), samples)
