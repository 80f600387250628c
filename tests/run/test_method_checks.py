"""Methods and states of one's own with a former name are refused with what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.methods import FedAvg
from fedkin.run.loop import run
from tests.run.toy_method import fake_world


@dataclass(frozen=True)
class NeedsTruth(FedAvg):
    needs_truth: bool = True


@dataclass(frozen=True)
class ServingState(State):
    def served(self, clients: np.ndarray) -> None: ...


@dataclass(frozen=True)
class Serving(FedAvg):
    def init(self, *arguments: Any) -> State:
        state = super().init(*arguments)
        return ServingState(state.models, state.assignment)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (NeedsTruth(), r"NeedsTruth\.needs_truth is now declared: .* Requirements\(true_clusters=True\)"),
        (Serving(), "ServingState.served is now called models_for"),
    ],
)
def test_a_former_name_says_what_replaced_it(method: FedAvg, words: str) -> None:
    with pytest.raises(MethodError, match=words):
        run(fake_world(), method, Plan(1, 2))
