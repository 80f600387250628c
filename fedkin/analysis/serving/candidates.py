"""The models that may serve a client, trained on all training samples or on some of them: its own
model, the model of the run's method, and one model for all clients.

Shapes: N clients, B samples, C outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.config import registry
from fedkin.config.plan import Cohort, Scoring
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED
from fedkin.data.federated import FederatedData
from fedkin.methods import FedAvg, Local
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.run.callbacks import Progress
from fedkin.run.run import Run
from fedkin.run.simulate import simulate
from fedkin.run.trained.models import TrainedModels

OWN = "own model"
WITH_CLUSTER = "own + cluster"
WITH_GLOBAL = "own + global"


class ServingScores(NamedTuple):
    """The outputs of a client's own model, and those of the other models, for the same samples."""

    own: Float[np.ndarray, "B C"]
    others: list[Float[np.ndarray, "B C"]]


@dataclass(frozen=True)
class Candidates:
    """The trained models of all clients.

    Attributes:
        own: models of clients that trained alone.
        clustered: models of the run's method.
        shared: the model of FedAvg.
        own_rounds: number of rounds after which the own models were taken.
    """

    own: TrainedModels
    clustered: TrainedModels
    shared: TrainedModels
    own_rounds: int

    @property
    def names(self) -> tuple[str, ...]:
        """What may serve a client, by number in ``Service.model``."""
        if self.clustered is self.shared:
            return OWN, WITH_GLOBAL
        return OWN, WITH_CLUSTER, WITH_GLOBAL

    def scores(self, client: int, x: Shaped[np.ndarray, "B ..."]) -> ServingScores:
        """The outputs for samples of a client. A client without a cluster has the global model in
        its place.

        Args:
            client: position of the client.
            x: samples as the network gets them.
        """
        known = self.clustered.state.assignment[client] != UNASSIGNED
        shared = self.shared.of_client(client).scores_of(x)
        others = [shared]
        if self.clustered is not self.shared:
            others.insert(0, self.clustered.of_client(client).scores_of(x) if known else shared)
        return ServingScores(self.own.of_client(client).scores_of(x), others)


@dataclass(frozen=True)
class Repetition:
    """A run's settings, with which its method and its alternatives are trained again.

    Args:
        run: the finished run.
        own_rounds: largest number of rounds in which clients train alone; None for the run's.
    """

    run: Run
    own_rounds: int | None = None

    @property
    def data(self) -> FederatedData:
        """The run's data."""
        return self.run.trained.parts.data

    def train(self, data: FederatedData, own_rounds: int | None = None) -> Candidates:
        """Train the three models.

        Args:
            data: the training samples. With validation samples, the own models are taken after
                their best round on these.
            own_rounds: number of rounds in which clients train alone; None for the largest.
        """
        parts = self.run.trained.parts
        if parts.method is None:
            raise ConfigError(
                "the run's method is a class of its program; load the run with it: "
                "Run.load(path, method=...)"
            )
        clustered = self._trained(parts.method, data).trained
        single = isinstance(parts.method, FedAvg)
        shared = clustered if single else self._trained(FedAvg(), data).trained
        alone = self._alone(data, own_rounds)
        best = alone.best
        own = alone.trained if best is None else replace(alone.trained, state=best.state)
        ended = alone.records[-1]["round"] if best is None else best.round
        return Candidates(own, clustered, shared, own_rounds=ended)

    def _trained(self, method: Any, data: FederatedData) -> Run:
        """A run of a method with the run's settings, scored after its last round only."""
        parts = self.run.trained.parts
        plan = self.run.config.run
        rounds = self.run.records[-1]["round"]
        return simulate(
            method,
            # The method and FedAvg are taken after their last round, as the run is.
            replace(data, validation=None),
            parts.model,
            rounds=rounds,
            cohort=Cohort(plan["cohort"], selection=plan.get("selection", "uniform")),
            local=parts.local,
            options=self._options(),
            seed=self.run.config.seed,
            scoring=Scoring(evaluate_every=rounds, checkpoint_every=rounds),
            callbacks=Progress(False),
        )

    def _alone(self, data: FederatedData, own_rounds: int | None) -> Run:
        """A run in which each client trains alone."""
        parts = self.run.trained.parts
        rounds = own_rounds or self.own_rounds or self.run.records[-1]["round"]
        return simulate(
            Local(),
            data,
            parts.model,
            rounds=rounds,
            cohort=data.clients,
            local=parts.local,
            seed=self.run.config.seed,
            scoring=Scoring(checkpoint_every=rounds),
            callbacks=Progress(False),
        )

    def _options(self) -> list[Option]:
        """The options of the run, made again. Raises ConfigError for options that cannot be
        repeated."""
        options = []
        for section, kind in SECTIONS.items():
            values = self.run.config.section(section)
            if not values:
                continue
            if not kind.repeatable:
                raise ConfigError(
                    f"the run has the option {section}, so its training cannot be repeated to "
                    "find out which model serves each client; use a run without it"
                )
            # Noise in the data is in the run's data already.
            if not kind.only_simulated:
                options.append(registry.resolve(section, kind.classes(), values, str).made)
        return options
