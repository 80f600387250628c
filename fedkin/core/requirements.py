"""What a method requires of the federation, the plan and the model, as the method declares it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from fedkin.core.errors import MethodError
from fedkin.core.task import Task


@dataclass(frozen=True)
class AtLeast:
    """A minimum number of clients.

    Attributes:
        number: the minimum.
        because: the method's option that determines it, so that an error message can say what to
            change; empty: none.
    """

    number: int = 1
    because: str = ""


@dataclass(frozen=True)
class ModelNeeds:
    """What a method requires of the model.

    Attributes:
        detectors: True: models have one score, for one class. False: a score for every class.
        last_layer: the model's last layer must be known.
        because: the option that requires a known last layer; empty: none.
        hidden_layers: the model has layers before its last one.
    """

    detectors: bool = False
    last_layer: bool = False
    because: str = ""
    hidden_layers: bool = False


@dataclass(frozen=True)
class ClientReads:
    """Single replies of clients that a method reads, which no sum over clients can replace.

    Attributes:
        updates: ``single`` if updates are read one by one, ``means`` if their means over clients
            are enough.
        because: the option that requires single updates, if another value needs only means.
        sends: other data that leave each client, in addition to updates of whole models; empty:
            nothing.
        standing: tasks that clients answer in every reply, such as whether their data have shifted.
    """

    updates: Literal["means", "single"] = "means"
    because: str = ""
    sends: str = ""
    standing: tuple[Task, ...] = ()


@dataclass(frozen=True)
class ModelChanges:
    """How models change between rounds, in addition to averaging.

    A server optimiser cannot step such models.

    Attributes:
        by_option: the option that causes such changes; empty: there is none.
        always: changes in every run, such as ``copies models``; empty: nothing.
    """

    by_option: str = ""
    always: str = ""


@dataclass(frozen=True)
class ModelParts:
    """Which parts of models stay on each client, and which must be shared.

    Attributes:
        own: the part that stays on clients already, or is trained in another way, so that no
            further part can; empty: nothing.
        shared_head: the comparison of clients that depends on the last layers of shared models, so
            that last layers cannot stay on clients; empty: nothing.
    """

    own: str = ""
    shared_head: str = ""


@dataclass(frozen=True)
class RoundNeeds:
    """Rounds for which a method is designed. It runs with other rounds too, after a warning.

    Attributes:
        full_cohort: all clients take part in every round.
        first_clustering: the first round in which clusters can be made; 0: before the first round,
            or never.
        stage_one: number of a peer's rounds in its first stage; a peer must do more rounds.
    """

    full_cohort: bool = False
    first_clustering: int = 0
    stage_one: int = 0


@dataclass(frozen=True)
class MemoryNeeds:
    """Memory of a method that grows with the number of clients.

    Attributes:
        kept_models: number of model-sized vectors kept for every client between rounds.
        compares_all: all clients are compared with each other at once, by their replies.
    """

    kept_models: int = 0
    compares_all: bool = False


@dataclass(frozen=True)
class DataNeeds:
    """What a method requires of clients' data.

    Attributes:
        true_clusters: the true clusters must be known, which is possible only in a simulation.
        earlier_samples: clients accumulate the samples of a stream and train on all of them. Only
            samples that were not there before count as new.
        newcomer_labels: placing a newcomer reads its labels. If it does not, ``run.place(x)`` is
            enough.
    """

    true_clusters: bool = False
    earlier_samples: bool = False
    newcomer_labels: bool = True


@dataclass(frozen=True)
class Requirements:
    """The requirements of a method with its present options.

    By default, any federation satisfies them.

    Attributes:
        clients: minimum for the federation: one for each cluster, or a peer and its neighbours.
        cohort: minimum for a round.
        model: requirements of the model.
        reads: single replies that are read.
        changes: how models change, in addition to averaging.
        parts: parts of models that stay on clients, or must be shared.
        rounds: rounds for which it is designed.
        memory: memory that grows with the number of clients.
        data: requirements of clients' data.
        peers: clients decide for themselves, and there is no server.
        keeps_clusters: clients stay in their clusters, a cluster is a model and nothing else, and
            the number of clusters may grow between rounds. A robust rule may then split clusters.
        start_sums: noisy sums of all clients that its cold start needs in a private run.
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
    """The requirements of a method; one that declares none has no requirements.

    Raises MethodError: the declaration is not a ``Requirements``.
    """
    declare = getattr(method, "requirements", None)
    if declare is None:
        return Requirements()
    name = type(method).__name__
    try:
        requirements = declare() if callable(declare) else declare
    except MethodError as error:
        raise MethodError(f"{name}.requirements: {error}") from error
    except Exception as error:  # a user's method may raise anything
        words = " ".join(str(error).split())
        raise MethodError(f"{name}.requirements: {type(error).__name__}: {words}") from error
    if not isinstance(requirements, Requirements):
        raise MethodError(
            f"{name}.requirements must be a function that returns a Requirements, got "
            f"{requirements!r}"
        )
    return requirements


def count_and_cure(method: Any, need: AtLeast, have: int, where: str = "method") -> tuple[str, str]:
    """The words of a message about a required number of clients, and about the option behind it.

    Args:
        method: the method.
        need: the required number, and the option of the method that determines it.
        have: the available number.
        where: the method's place in the configuration.

    Returns:
        For example ``5 clients (clusters = 5)`` and ``method.clusters=3``. The second is empty if
        no option can be low enough.
    """
    option = need.because
    count = f"{need.number} client{'s' if need.number > 1 else ''}"
    if not option:
        return count, ""
    value = getattr(method, option, None)
    # A missing option has the method's default.
    if value is None:
        value = need.number
    enough = value - (need.number - have)
    place = f"{where}.{option}" if where == "method" else option
    return f"{count} ({option} = {value})", f"{place}={enough}" if enough > 0 else ""
