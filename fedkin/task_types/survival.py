"""Survival: a sample is a risk set, the patients at risk when one of them died, and its label is
the patient who died (``fedkin.data.survival``).

The cross entropy of a risk set is its factor of Cox's partial likelihood, stratified by client. The
model is right on a pair of patients if the one who died first has the higher risk, so the share of
pairs on which it is right is the C-index within clients (Harrell et al. 1982).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedkin.task_types.classification import Classification
from fedkin.task_types.task_type import Sums, share_of

COX = "cox"  # name of the loss


@dataclass(frozen=True)
class Survival(Classification):
    """Labels are the patients who died in risk sets; the loss is Cox's."""

    name = "survival"

    @classmethod
    def is_named(cls, task: str | None, loss: str | None) -> bool:
        """Whether a task, or a loss without a task, names survival."""
        return task == cls.name or (task is None and loss == COX)

    @property
    def measures(self) -> tuple[str, ...]:
        return ("concordance_index",)

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        return {"concordance_index": share_of(sums["correct"], examples)}
