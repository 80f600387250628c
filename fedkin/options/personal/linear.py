"""A client's own linear model, or its own intercept, pulled to the model of its cluster by as much
as pays on held-out samples.

    v_i = argmin_v   sum over the client's samples of the loss of v + k / 2 |v - w|^2

w is the cluster's model and k the strength, in samples: clients with many more samples than k go
their own way, clients with fewer stay near the cluster. One k serves all clients. It is the one
with the lowest loss on held-out samples, summed over the clients of a round. In the limits k = 0
and k = infinity it is local training and the method without a personal part.

The method and its models do not change: the fit is made when clients are evaluated. So it can be
used with methods that compare whole models, such as IFCA. With ``fits = "intercept"`` only the bias
moves. For squared error it is then the shrunk mean of the client's residuals, with k = variance
within clients / variance between them (empirical Bayes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.records import Record
from fedkin.core.requirements import Requirements
from fedkin.core.validation import check_choice, check_not_negative
from fedkin.core.world import World
from fedkin.options.base import ActiveOption, Around, Call, RunEnd, RunFacts
from fedkin.options.personal.parts import STRENGTH, WHOLE_FIT, PersonalPart
from fedkin.tasks.pulled_fit import INTERCEPT, MODEL, STRENGTHS, ChooseStrength


@plain_options
@dataclass(frozen=True)
class PersonalLinear(PersonalPart):
    """An own linear model for each client, pulled to its cluster's model. The strength of the pull
    is chosen on held-out samples.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mclr(data)
        >>> own = fk.PersonalLinear(strength=10.0, fits="intercept")
        >>> run = fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=6, options=[own])
        >>> run.models.shape
        (1, 650)
    """

    # k, in samples; None to choose it among ``strengths`` on held-out samples.
    strength: float | None = None
    strengths: tuple[float, ...] = STRENGTHS  # the candidates for k
    fits: str = MODEL  # what a client fits itself: its whole "model", or its "intercept"

    def __post_init__(self) -> None:
        check_choice("fits", self.fits, (MODEL, INTERCEPT))
        if self.strength is not None:
            check_not_negative("strength", self.strength)
        if not isinstance(self.strengths, Sequence) or not len(self.strengths):
            raise ConfigError(
                f"strengths must be numbers from 0 up, such as (1, 10, 100); got {self.strengths!r}"
            )
        for strength in self.strengths:
            check_not_negative("strengths", strength)

    def requirements(self, needs: Requirements) -> Requirements:
        kept = needs.memory.kept_models + 1
        needs = replace(needs, memory=replace(needs.memory, kept_models=kept))
        if self.strength is not None or needs.reads.sends:
            return needs
        return replace(needs, reads=replace(needs.reads, sends="losses of held-out samples"))

    def model_refusal(self, method: Method, spec: ModelSpec) -> str:
        name = type(method).__name__
        if spec.head_bias is None or spec.detects:
            return (
                f"{name} with own fits needs a model whose last layer has one bias for each "
                "output, such as model.name=mclr. A Cox model has no intercept, since it cancels "
                "out of the loss: the baseline hazard of each client takes its place"
            )
        whole = spec.head is not None and spec.head == slice(0, spec.parameters)
        if self.fits == MODEL and not whole:
            return (
                f"{name} with own linear models needs a linear model, such as model.name=mclr, and "
                "this model has further layers; set personal.fits=intercept, or "
                "personal.name=ditto"
            )
        return ""

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActivePersonalLinear(self, run)


class ActivePersonalLinear(ActiveOption):
    """Own linear models in a run. The state holds the strength of the pull.

    Args:
        option: the settings.
        run: facts about the run.
    """

    def __init__(self, option: PersonalLinear, run: RunFacts) -> None:
        super().__init__(option.section)
        self._option = option
        self._plan = run.plan

    def around(self, world: World, before: State | None, call: Call) -> Around:

        def finish(after: State) -> State:
            strength = self._option.strength
            if strength is None:
                strength = self._strength(before)
                if call.step == "round" and self._plan.evaluates(call.round):
                    strength = self._chosen(world, after, call, strength)
            arrays = {
                "start": np.zeros(0, np.float32),
                STRENGTH: np.array(strength),
                WHOLE_FIT: np.array(self._option.fits == MODEL),
            }
            return self.with_arrays(after, arrays)

        return Around(world, finish)

    def _strength(self, before: State | None) -> float:
        """The strength so far; NaN before the first choice, so that clients have no own fit."""
        arrays = self.arrays(before)
        return float(arrays[STRENGTH]) if STRENGTH in arrays else float("nan")

    def _chosen(self, world: World, after: State, call: Call, before: float) -> float:
        """The strength with the lowest held-out loss of the cohort; the one before if no client
        has replied."""
        assert call.clients is not None
        members = call.clients[after.assignment[call.clients] != UNASSIGNED]
        task = ChooseStrength(
            models=after.models,
            strengths=np.array(self._option.strengths, np.float64),
            model_index=after.assignment[members],
            fits=self._option.fits,
        )
        reply = world.run(task, members, call.stream.child("own fits"))
        if not reply.arrays["examples"] or not np.isfinite(reply.arrays["loss"]).any():
            return before
        return float(self._option.strengths[int(np.nanargmin(reply.arrays["loss"]))])

    def closing(self, end: RunEnd) -> Record:
        strength = self._strength(end.state)
        return {"own_fit_strength": None if np.isnan(strength) else strength}
