"""Survival: a sample is a risk set, the patients at risk when one of them died, and its label is
the patient who died (``fedkin.data.survival``).

The cross entropy of a risk set is its factor of Cox's partial likelihood, stratified by client. The
model is right on a pair of patients if the one who died first has the higher risk, so the share of
pairs on which it is right is the C-index within clients (Harrell et al. 1982).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedkin.task_types.classification import Classification
from fedkin.task_types.task_type import Sums, share_of

COX = "cox"  # name of the loss
BRESLOW = "breslow"
DRAWS = 8


@dataclass(frozen=True)
class Survival(Classification):
    """Labels are the patients who died in risk sets; the loss is Cox's.

    Attributes:
        ties: how the risk sets treat deaths at the same time: ``breslow`` or ``efron``. Risk sets
            of patients who come later are made in the same way. It is not compared.
        draws: number of training samples for each event. It is not compared either.
    """

    name = "survival"

    ties: str = field(default=BRESLOW, compare=False, kw_only=True)
    draws: int = field(default=DRAWS, compare=False, kw_only=True)

    @classmethod
    def is_named(cls, task: str | None, loss: str | None) -> bool:
        """Whether a task, or a loss without a task, names survival."""
        return task == cls.name or (task is None and loss == COX)

    @property
    def measures(self) -> tuple[str, ...]:
        return ("concordance_index",)

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        return {"concordance_index": share_of(sums["correct"], examples)}

    def own_values(self) -> dict[str, Any]:
        """The options of the risk sets that differ from the defaults."""
        chosen = {"ties": self.ties, "draws": self.draws}
        usual = {"ties": BRESLOW, "draws": DRAWS}
        return {name: value for name, value in chosen.items() if value != usual[name]}

    @classmethod
    def own_fields(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "ties": str(values.get("ties", BRESLOW)),
            "draws": int(values.get("draws", DRAWS)),
        }
