"""Shifts of clients' data: each client stores a summary of its labels when it is assigned to a
cluster ("placed"), and tests later whether they have changed. The summary of classes is label
counts, and the summary of numbers is quantiles.

Source of the test of classes: FlexCFL (Duan et al. 2022), Algorithm 2, l. 5. As in the authors'
code, the distance is between label counts. The test of numbers is our own
(``measures.number_shift``). Shapes: n rows (clients), C classes.
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
from fedkin.measures.number_shift import QUANTILES, label_quantiles, labels_shifted
from fedkin.measures.wasserstein import label_aware, label_blind, shift_threshold
from fedkin.task_types.loss import targets_of

OF_CLASSES = {"label_blind": label_blind, "label_aware": label_aware}
OF_NUMBERS = "label_quantiles"
TESTS = (*OF_CLASSES, OF_NUMBERS)
_MEMORY = {
    "noted_labels": Memory("C", np.int32),
    "samples_at_first": Memory("", np.int64),
    "noted_quantiles": Memory(str(QUANTILES), np.float64),
    "noted_samples": Memory("", np.int64),
}


class _Noted(NamedTuple):
    """What clients have stored to detect shifts: their label counts at some earlier time, and their
    number of samples before any shift."""

    labels: Int[np.ndarray, "n C"]
    samples: Int[np.ndarray, "n"]


@dataclass(frozen=True)
class Note(Task):
    """Clients that have just been assigned to a cluster store their present label counts, and their
    number of samples before any shift; or the quantiles and the number of their labels, if labels
    are numbers."""

    memory = _MEMORY
    delivery = "next"
    resets = ("shifted",)
    detectors = None
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        if client.task_type.loss is not None:
            labels = targets_of(client.samples()[1]).label
            client.memory["noted_quantiles"] = label_quantiles(labels)
            client.memory["noted_samples"] = np.int64(len(labels))
            return {}
        if "samples_at_first" not in client.memory:
            client.memory["samples_at_first"] = client.first_label_counts.sum()
        client.memory["noted_labels"] = client.label_counts
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        every = np.arange(len(rows.clients))
        if rows.data.task_type.loss is not None:
            yield from rows.one_by_one(self)
            return
        if len(every):
            rows.store("samples_at_first", every, _noted(rows).samples)
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

    ``label_quantiles`` is the test of numbers: the mean distance of 20 quantiles, in pooled
    standard deviations of the label, is above ``threshold`` and above the distance that chance
    explains. If labels are numbers, ``label_blind`` is this test too.

    In the authors' code only clients whose data were swapped are tested, so no client reports a
    shift under ``Incremental(as_coded=True)``.

    Attributes:
        test: name of the distance: ``label_blind``, ``label_aware`` or ``label_quantiles``.
        threshold: largest distance without a shift, in units of n_i / C, or of the pooled standard
            deviation.
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

    def check_labels(self, task_type: Any) -> None:
        if task_type.loss is None and self.test == OF_NUMBERS:
            raise MethodError(
                "migration = 'label_quantiles' compares labels that are numbers, but the labels "
                "are classes; set migration = 'label_blind' or 'label_aware'"
            )
        if task_type.loss is not None and self.test == "label_aware":
            raise MethodError(
                "migration = 'label_aware' compares label counts class by class, but the labels "
                "are numbers; set migration = 'label_quantiles' or 'loss'"
            )

    def compute(self, client: Client) -> dict[str, Any]:
        if not client.detects_shifts:
            return {"shifted": np.False_}
        if client.task_type.loss is not None:
            return {"shifted": np.bool_(self._numbers_shifted(client))}
        labels = client.memory.get("noted_labels", client.first_label_counts)
        samples = client.memory.get("samples_at_first", client.first_label_counts.sum())
        noted = _Noted(labels[None], np.asarray(samples)[None])
        return {"shifted": self._shifted(noted, client.label_counts[None])[0]}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        if not rows.samples.detects_shifts:
            yield rows.every, {"shifted": np.zeros(len(rows.clients), bool)}
            return
        if rows.data.task_type.loss is not None:
            yield from rows.one_by_one(self)
            return
        noted = _noted(rows)
        counts = rows.data.label_counts(clients=rows.clients)
        yield rows.every, {"shifted": self._shifted(noted, counts)}

    def _numbers_shifted(self, client: Client) -> bool:
        """Whether the present quantiles of a client's labels are too far from the stored ones."""
        first = targets_of(client.first_labels).label
        return labels_shifted(
            targets_of(client.samples()[1]).label,
            old=client.memory.get("noted_quantiles", label_quantiles(first)),
            old_samples=int(client.memory.get("noted_samples", np.int64(len(first)))),
            deviation=client.task_type.deviation,
            least=self.threshold,
        )

    def _shifted(self, noted: _Noted, counts: Int[np.ndarray, "n C"]) -> Bool[np.ndarray, "n"]:
        """Whether the present label counts of each client are too far from the stored label counts.

        Args:
            noted: the label counts (and numbers of samples) that the clients have stored.
            counts: the clients' present label counts.
        """
        size = noted.labels.sum(axis=1) if self.test == "label_aware" else noted.samples
        distance = OF_CLASSES[self.test](counts, noted.labels)
        return distance > shift_threshold(size, counts.shape[1], self.threshold)


def _noted(rows: ClientRows) -> _Noted:
    """The label counts that the task's clients have stored. For a client that has stored none, they
    are its label counts before any shift."""
    first = rows.samples.first_data.label_counts(clients=rows.clients)
    samples = rows.memory.read("samples_at_first", rows.clients, first.sum(axis=1))
    return _Noted(rows.memory.read("noted_labels", rows.clients, first), samples)
