"""Simulated worlds for the runs of an experiment, with the same data, model and scenario."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fedkin.config.plan import Compute, Plan
from fedkin.config.schema import Values, error_context
from fedkin.core.errors import ConfigError
from fedkin.core.method import Checking, Method
from fedkin.core.model_spec import ModelSpec
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.training import LocalTraining
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.data.machine_memory import check_memory
from fedkin.options.base import Option
from fedkin.options.with_options import requirements_with
from fedkin.run.folder.fingerprint import model_digest
from fedkin.run.metrics.clustering import GroundTruth
from fedkin.run.trained.ingredients import Ingredients
from fedkin.run.worlds import ClientFacts, Digests, Methods, OpenWorld, method_places
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift
from fedkin.scenarios.steps import Steps
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel


@dataclass(frozen=True)
class SimulatedWorlds:
    """Makes a ``SimulatedWorld`` for each run."""

    data: FederatedData
    model: AnyModel
    local: LocalTraining
    population: Population
    shift: Shift | None = None
    compute: Compute = field(default_factory=Compute)

    @property
    def clients(self) -> int:
        return self.data.clients

    @property
    def spec(self) -> ModelSpec:
        return self.model.spec

    def digests(self) -> Digests:
        return data_digest(self.data), model_digest(self.model, self.data)

    def check(self, methods: Methods, plan: Plan, options: Iterable[Option]) -> None:
        for place, (entry, method) in zip(method_places(methods), methods, strict=True):
            needs = requirements_of(method)
            if needs.data.true_clusters and self.data.true_clusters is None:
                raise ConfigError(
                    f"{place}: {entry['name']} needs the true clusters, and {self.data.name} has "
                    "none; take planted data (data.name=planted), or leave it out"
                )
            forgets = isinstance(self.shift, Steps) and not self.shift.history
            if needs.data.earlier_samples and forgets:
                raise ConfigError(
                    f"{place}: {entry['name']} needs clients that keep the samples of earlier "
                    "steps: set shift.history=true (in Python Steps(history=True)), or leave it out"
                )
            if isinstance(method, Checking):
                with error_context(place):
                    method.check_run(self.spec, self.clients, self.local)
        if plan.patience is not None and self.data.validation is None:
            raise ConfigError(
                f"run.patience needs a validation split, and {self.data.name} has none: set "
                "data.validation=0.1 (in Python data.with_validation(0.1)); test samples choose no "
                "round"
            )
        for _, method in methods:
            needs = requirements_with(method, options)
            parts = memory_parts(
                needs,
                plan,
                clients=self.clients,
                parameters=self.spec.parameters,
                together=self.compute.clients_per_batch,
            )
            check_memory(
                parts, "take a smaller model, or fewer clients, clusters or clients in a cohort"
            )
        world = self.make()
        # Whichever clients arrive or leave, at least one is reachable in every round.
        with error_context("scenario"):
            for round in (0, *world.population.arrivals, *world.population.departures):
                world.clients(min(round, plan.rounds))

    def make(self) -> SimulatedWorld:
        """A new world."""
        return SimulatedWorld(
            self.data,
            self.model,
            self.local,
            population=self.population,
            shift=self.shift,
            devices=self.compute.devices,
            clients_per_batch=self.compute.clients_per_batch,
            engine=self.compute.engine,
            actors=self.compute.actors,
            sum_by_actor=self.compute.sum_by_actor,
        )

    def open(self, entry: Values, method: Method) -> OpenWorld:
        world = self.make()
        return OpenWorld(
            world,
            lambda: ClientFacts(
                world.data.train.sizes, world.data.client_names, world.data.true_clusters
            ),
            lambda: GroundTruth(world.data.true_clusters, world.shifted_clients),
            Ingredients(method, self.model, self.data, local=self.local, shift=self.shift),
        )


_NUMBER = 4  # bytes of a parameter
# Bytes per pair of clients: their distance, and a copy of it for clustering.
_PAIR = 16


def memory_parts(
    needs: Requirements, plan: Plan, clients: int, parameters: int, together: int | None = None
) -> dict[str, int]:
    """Memory of a run in bytes, by purpose.

    Args:
        needs: memory needs of its method.
        plan: its rounds.
        clients: N.
        parameters: P.
        together: clients that a device trains at once; None for one.
    """
    model = _NUMBER * parameters
    models = clients if needs.peers else needs.clients.number
    memory = needs.memory
    parts = {
        "models": 2 * models * model,  # before and after a round
        "local training": 4
        * (together or 1)
        * model,  # weights, gradient, update and the optimiser's memory
    }
    if needs.reads.updates == "single":
        rows = clients if memory.compares_all else min(plan.cohort, clients)
        updates = "updates of all clients" if memory.compares_all else "updates of a cohort"
        parts[updates] = rows * model
    if memory.kept_models:
        parts["what is kept of each client"] = memory.kept_models * clients * model
    if memory.compares_all:
        parts["all pairs of clients"] = _PAIR * clients**2
    return parts
