"""The losses of the oracle vectors: each case with its loss, scores and printed gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.task_types.count import Gamma, NegativeBinomial, Poisson, Tweedie
from fedkin.task_types.loss import Loss, Targets
from fedkin.task_types.quantile import Pinball
from fedkin.task_types.regression import AbsoluteError, GaussianLikelihood, Huber, SquaredError
from tests.task_vectors import task_case

LOSSES: dict[str, Loss] = {
    "squared_error": SquaredError(),
    "absolute_error": AbsoluteError(),
    "huber_0.5": Huber(0.5),
    "huber_1.35": Huber(1.35),
    "pinball_0.1": Pinball((0.1,)),
    "pinball_0.5": Pinball((0.5,)),
    "pinball_0.9": Pinball((0.9,)),
    "poisson_log_link": Poisson(),
    "poisson_extreme_scores": Poisson(),
    "poisson_softplus_link": Poisson("softplus"),
    "gamma_log_link": Gamma(),
    "tweedie_1.5": Tweedie(1.5),
    "negative_binomial": NegativeBinomial(0.7),
    "gaussian_scale": GaussianLikelihood(),
}
# Losses of which FACTS gives the gradient where label and score are equal: 0.
WITH_A_KINK: tuple[Loss, ...] = (AbsoluteError(), Pinball((0.1,)), Pinball((0.1, 0.5, 0.9)))


@dataclass(frozen=True)
class LossCase:
    """A case: a loss, its samples, and the values and gradients that are printed."""

    loss: Loss
    scores: np.ndarray  # [B C]
    y: np.ndarray  # [B]
    offset: np.ndarray | float  # [B], or 0.0
    values: np.ndarray  # [B]
    gradient: np.ndarray  # [B C]
    tolerance: float

    def targets(self, convert: Callable[[np.ndarray], Any]) -> Targets:
        """The targets as arrays of a library."""
        offset = convert(self.offset) if isinstance(self.offset, np.ndarray) else self.offset
        return Targets(convert(self.y), offset, None)


def loss_case(oracle: Callable[[str], dict[str, Any]], name: str) -> LossCase:
    """The case of the oracle vectors with this name."""
    known = task_case(oracle, name)
    inputs = known["inputs"]
    outputs = known["outputs"]
    first = next(inputs[key] for key in ("f", "eta", "a", "s") if key in inputs)
    columns = [first]
    gradients = [outputs.get("grad", outputs.get("grad f", outputs.get("grad linear above 20")))]
    if name == "gaussian_scale":
        columns.append(inputs["s"])
        gradients.append(outputs["grad s"])
    exposure = inputs.get("exposure")
    return LossCase(
        loss=LOSSES[name],
        scores=np.stack(columns, axis=1),
        y=np.array(inputs["y"]),
        offset=0.0 if exposure is None else np.log(exposure),
        values=np.array(outputs.get("loss", outputs.get("loss linear above 20"))),
        gradient=np.stack(gradients, axis=1),
        tolerance=known["tolerance"],
    )
