"""What a method needs of the federation, the plan and the model, declared by the method itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from fedkin.core.errors import MethodError
from fedkin.core.task import Task


@dataclass(frozen=True)
class AtLeast:
    """A lowest number of clients.

    Attributes:
        number: there are at least so many.
        because: the method's option that grows with it, so that a refusal can say what to change;
            empty: none.
    """

    number: int = 1
    because: str = ""


@dataclass(frozen=True)
class ModelNeeds:
    """What a method needs of the model.

    Attributes:
        detectors: models have one score, of one class; else a score for every class.
        last_layer: the model's last layer must be known.
        because: the option for which the last layer must be known; empty: none.
        hidden_layers: the model has layers before its last one.
    """

    detectors: bool = False
    last_layer: bool = False
    because: str = ""
    hidden_layers: bool = False


@dataclass(frozen=True)
class ClientReads:
    """What is read of each client alone, which no sum over clients can replace.

    Attributes:
        updates: ``single`` where updates are read one by one, ``means`` where their means over
            clients are enough.
        because: the option for which single updates are read, where another value needs means only.
        besides: what else than updates of whole models leaves each client; empty: nothing.
        standing: tasks that clients answer in every reply, such as whether their data have shifted.
    """

    updates: Literal["means", "single"] = "means"
    because: str = ""
    besides: str = ""
    standing: tuple[Task, ...] = ()


@dataclass(frozen=True)
class ModelChanges:
    """How models change between rounds, apart from being averaged.

    No server optimiser can step such models.

    Attributes:
        by_option: the option with which they do; empty: there is none.
        always: what becomes of them in every run, such as ``copies models``; empty: nothing.
    """

    by_option: str = ""
    always: str = ""


@dataclass(frozen=True)
class ModelParts:
    """Which parts of models are each client's own, and which must be shared.

    Attributes:
        own: what is each client's own already, or trained in another way, so that nothing more can
            be; empty: nothing.
        shared_head: what clients are compared by that depends on last layers of shared models, so
            that no client can have one of its own; empty: nothing.
    """

    own: str = ""
    shared_head: str = ""


@dataclass(frozen=True)
class RoundNeeds:
    """Which rounds a method is meant for. It runs with others, after a warning.

    Attributes:
        full_cohort: all clients take part in every round.
        first_clustering: the first round in which clusters can be made; 0: before the first round,
            or never.
        stage_one: the first stage of a peer has so many of its own rounds, and it must have more.
    """

    full_cohort: bool = False
    first_clustering: int = 0
    stage_one: int = 0


@dataclass(frozen=True)
class MemoryNeeds:
    """What a method keeps that grows with the number of clients.

    Attributes:
        kept_models: so many vectors of a model's size are kept for every client between rounds.
        compares_all: all clients are compared with each other at once, by what they have sent.
    """

    kept_models: int = 0
    compares_all: bool = False


@dataclass(frozen=True)
class DataNeeds:
    """What a method needs of clients' data.

    Attributes:
        true_clusters: the true clusters must be known, as only a simulation knows them.
        earlier_samples: clients keep the samples of earlier steps of a stream. They are trained on,
            and new ones are those that were not there before.
        newcomer_labels: placing a newcomer reads its labels; where it does not, ``run.place(x)`` is
            enough.
    """

    true_clusters: bool = False
    earlier_samples: bool = False
    newcomer_labels: bool = True


@dataclass(frozen=True)
class Requirements:
    """The needs of a method with its present options.

    By default it needs nothing that any federation lacks.

    Attributes:
        clients: of the federation: one for each cluster, or a peer and its neighbours.
        cohort: clients of a round.
        model: what the model must be.
        reads: what is read of each client alone.
        changes: how models change, apart from being averaged.
        parts: which parts of models are clients' own, or must be shared.
        rounds: which rounds it is meant for.
        memory: what it keeps of each client.
        data: what clients' data must be.
        peers: clients decide for themselves, and there is no server.
        keeps_clusters: a client stays in its cluster, a cluster is a model and nothing else, and
            there may be more of them from one round to the next: so a robust rule may split them.
        start_sums: noisy sums of all clients that its cold start needs, where it is private.
    """

    clients: AtLeast = AtLeast()
    cohort: AtLeast = AtLeast()
    model: ModelNeeds = ModelNeeds()
    reads: ClientReads = ClientReads()
    changes: ModelChanges = ModelChanges()
    parts: ModelParts = ModelParts()
    rounds: RoundNeeds = RoundNeeds()
    memory: MemoryNeeds = MemoryNeeds()
    data: DataNeeds = DataNeeds()
    peers: bool = False
    keeps_clusters: bool = False
    start_sums: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            expected = type(field.default)
            if not isinstance(value, expected):
                made = (
                    expected.__name__ if expected in (bool, int) else f"fk.{expected.__name__}(...)"
                )
                raise MethodError(f"Requirements: {field.name} must be {made}, got {value!r}")


def requirements_of(method: Any) -> Requirements:
    """What a method needs; one that declares nothing needs nothing.

    Raises MethodError: what it declares is not a ``Requirements``.
    """
    declare = getattr(method, "requirements", None)
    if declare is None:
        return Requirements()
    name = type(method).__name__
    try:
        requirements = declare() if callable(declare) else declare
    except MethodError as error:
        raise MethodError(f"{name}.requirements: {error}") from error
    except Exception as error:  # a user's own method may raise anything
        words = " ".join(str(error).split())
        raise MethodError(f"{name}.requirements: {type(error).__name__}: {words}") from error
    if not isinstance(requirements, Requirements):
        raise MethodError(
            f"{name}.requirements must be a function that returns a Requirements, got "
            f"{requirements!r}"
        )
    return requirements


def count_and_cure(method: Any, need: AtLeast, have: int, where: str = "method") -> tuple[str, str]:
    """The words about a number of clients that is needed, and about the option behind it.

    Args:
        method: whose need it is.
        need: how many clients, and the option of the method that this grows with.
        have: how many there are.
        where: the method's place in the configuration.

    Returns:
        Such as ``5 clients (clusters = 5)`` and ``method.clusters=3``. The second is empty without
        an option that can be low enough.
    """
    option = need.because
    count = f"{need.number} client{'s' if need.number > 1 else ''}"
    if not option:
        return count, ""
    value = getattr(method, option, None)
    # An option that is left out has the default of the method.
    if value is None:
        value = need.number
    enough = value - (need.number - have)
    place = f"{where}.{option}" if where == "method" else option
    return f"{count} ({option} = {value})", f"{place}={enough}" if enough > 0 else ""
