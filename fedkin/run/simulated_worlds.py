"""Creation of simulated worlds for an experiment's runs, with the same data, model and scenario."""

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
from fedkin.core.world import World
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
from fedkin.task_types.task_type import TaskType


@dataclass(frozen=True)
class SimulatedWorlds:
    """Makes a ``SimulatedWorld`` for each run of an experiment."""

    data: FederatedData
    model: AnyModel
    local: LocalTraining
    population: Population
    shift: Shift | None = None
    compute: Compute = field(default_factory=Compute)

    @property
    def clients(self) -> int:
        """The number of clients, including those that arrive later."""
        return self.data.clients

    @property
    def spec(self) -> ModelSpec:
        """The model's size and layers."""
        return self.model.spec

    @property
    def task_type(self) -> TaskType:
        """What the labels are: classes, numbers, counts, ..."""
        return self.data.task_type

    def digests(self) -> Digests:
        """Digests of the data and of the model, which the description of a run does not cover."""
        return data_digest(self.data), model_digest(self.model, self.data)

    def check(self, methods: Methods, plan: Plan, options: Iterable[Option]) -> None:
        """Raise ConfigError if a method with these options cannot run on these data, or if the run
        needs more memory than the machine has."""
        for place, (entry, method) in zip(method_places(methods), methods, strict=True):
            needs = requirements_of(method)
            if needs.data.true_clusters and self.data.true_clusters is None:
                raise ConfigError(
                    f"{place}: {entry['name']} needs the true clusters, but {self.data.name} has "
                    "none; use planted data (data.name=planted), or remove the method"
                )
            forgets = isinstance(self.shift, Steps) and not self.shift.history
            if needs.data.earlier_samples and forgets:
                raise ConfigError(
                    f"{place}: {entry['name']} needs clients that keep the samples of earlier "
                    "steps; set shift.history=true (in Python Steps(history=True)), or remove the "
                    "method"
                )
            if isinstance(method, Checking):
                with error_context(place):
                    method.check_run(self.spec, self.clients, self.local)
        if plan.patience is not None and self.data.validation is None:
            raise ConfigError(
                f"run.patience needs a validation split, but {self.data.name} has none; set "
                "data.validation=0.1 (in Python data.with_validation(0.1)). The test set must not "
                "be used for model selection"
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
                parts, "use a smaller model, or fewer clients, clusters or clients in a cohort"
            )
        world = self.make()
        # Check that at least one client is reachable in every round, despite late arrivals and
        # leaving.
        with error_context("scenario"):
            self.population.check_silent(self.clients)
            for round in (0, *world.population.arrivals, *world.population.departures):
                world.clients(min(round, plan.rounds))

    def make(self) -> SimulatedWorld:
        """A new simulated world with the experiment's data, model and scenario."""
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
        """A new simulated world for a run of a method, with functions that return facts about its
        clients."""
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
# Bytes for each pair of clients: the distance, and a copy of it for the clustering.
_PAIR = 16


def memory_parts(
    needs: Requirements, plan: Plan, clients: int, parameters: int, together: int | None = None
) -> dict[str, int]:
    """Estimated memory of a run in bytes, by purpose.

    Args:
        needs: the method's requirements.
        plan: the run's plan, with the size of a cohort.
        clients: N, the number of clients.
        parameters: P, the number of parameters.
        together: number of clients that a device trains at once; None: one.
    """
    model = _NUMBER * parameters
    # Each peer has a model. Other methods have about one for each client that they need at least,
    # since they need a client for each cluster.
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
        parts["vectors kept for each client"] = memory.kept_models * clients * model
    if memory.compares_all:
        parts["all pairs of clients"] = _PAIR * clients**2
    return parts


def check_samples(world: World) -> None:
    """Raise DataError if the sample files have changed during the run, which makes results
    wrong."""
    if isinstance(world, SimulatedWorld):
        world.check_samples()


def scored_split(world: World) -> str:
    """The split on which rounds are evaluated: ``validation`` if simulated data have it, otherwise
    ``test``."""
    return world.scored_split if isinstance(world, SimulatedWorld) else "test"
