"""Requirements of a method: what it declares about the clients, the model and the rounds of the
runs in which it works."""

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
        because: the name of the method's option that determines the minimum, for the error
            message. Empty: no option does.
        per: by how much the option may rise with each further client. With more than 1, the minimum
            is the option divided by this number, rounded up.

    Examples:
        >>> import fedkin as fk
        >>> fk.AtLeast(3, because="clusters")
        AtLeast(number=3, because='clusters', per=1)
    """

    number: int = 1
    because: str = ""
    per: int = 1


@dataclass(frozen=True)
class ModelNeeds:
    """Requirements of a method for the model.

    Attributes:
        detectors: True: models have one score, for one class. False: a score for every class.
        last_layer: whether the position of the model's last layer must be known.
        because: the name of the method's option whose value requires a known last layer. Empty: no
            option does.
        hidden_layers: whether the model must have layers before its last one.

    Examples:
        >>> import fedkin as fk
        >>> needs = fk.ModelNeeds(last_layer=True)
        >>> needs.last_layer, needs.hidden_layers
        (True, False)
    """

    detectors: bool = False
    last_layer: bool = False
    because: str = ""
    hidden_layers: bool = False


@dataclass(frozen=True)
class ClientReads:
    """Replies of single clients that a method reads, for which a sum over clients is not enough.

    Attributes:
        updates: ``single`` if the method reads the update of each client, ``means`` if means of
            updates over clients are enough.
        because: the name of the method's option whose present value makes single updates necessary;
            other values need only means. Empty: ``updates`` does not depend on an option.
        sends: other data that each client sends, in addition to updates of whole models. Empty:
            clients send nothing else.
        standing: tasks that are not requested separately, because clients add the answer to every
            reply. An example is the question whether a client's data have shifted.

    Examples:
        >>> import fedkin as fk
        >>> reads = fk.ClientReads(updates="single", sends="losses")
        >>> reads.updates, reads.sends
        ('single', 'losses')
    """

    updates: Literal["means", "single"] = "means"
    because: str = ""
    sends: str = ""
    standing: tuple[Task, ...] = ()


@dataclass(frozen=True)
class ModelChanges:
    """How models change between rounds, in addition to averaging.

    A server optimiser cannot be used with such changes, since it follows the mean update only.

    Attributes:
        by_option: the name of the method's option whose present value causes such changes. Empty:
            no option does.
        always: the change that the method makes in every run, such as ``copies models``. Empty: it
            makes none.

    Examples:
        >>> import fedkin as fk
        >>> fk.ModelChanges(always="copies models")
        ModelChanges(by_option='', always='copies models')
    """

    by_option: str = ""
    always: str = ""


@dataclass(frozen=True)
class ModelParts:
    """Which parts of models stay on each client, and which must be shared.

    Attributes:
        own: the part that the method itself keeps on clients or trains in another way. No further
            part can then stay on clients. Empty: the method keeps no part there.
        shared_head: how the method compares clients by the last layers of shared models. Last
            layers then cannot stay on clients. Empty: it does not compare clients by them.

    Examples:
        >>> import fedkin as fk
        >>> fk.ModelParts(own="the last layer")
        ModelParts(own='the last layer', shared_head='')
    """

    own: str = ""
    shared_head: str = ""


@dataclass(frozen=True)
class Separation:
    """How far a client's updates spread among a method's models. It decides what ``fk.forget`` must
    train again.

    Attributes:
        models: ``unknown`` if any model may hold something of any client. ``one``: there is one
            model, and in a round only clients of the cohort work for it. ``by_choice``: also, a
            model changes only by the training of clients that are assigned to it after the round
            (local training in ``fedkin.tasks``), but decisions of a round may read the models.
            ``by_cluster``: as ``by_choice``, and no decision of a round reads the models.
        because: the name of the method's option whose present value makes the answer ``unknown`` or
            ``by_choice``. Empty: no option does.

    Examples:
        >>> import fedkin as fk
        >>> fk.Separation(models="by_cluster")
        Separation(models='by_cluster', because='')
    """

    models: Literal["unknown", "one", "by_choice", "by_cluster"] = "unknown"
    because: str = ""


@dataclass(frozen=True)
class RoundNeeds:
    """Rounds for which a method is designed. It runs with other rounds too, after a warning.

    Attributes:
        full_cohort: whether all clients should take part in every round.
        first_clustering: the first round in which the method can form clusters; 0: before the first
            round, or never.
        stage_one: number of rounds in the first stage of a method without a server, if its peers
            train in two stages; 0 for other methods. A peer needs more rounds to reach the second.

    Examples:
        >>> import fedkin as fk
        >>> fk.RoundNeeds(full_cohort=True)
        RoundNeeds(full_cohort=True, first_clustering=0, stage_one=0)
    """

    full_cohort: bool = False
    first_clustering: int = 0
    stage_one: int = 0


@dataclass(frozen=True)
class MemoryNeeds:
    """Memory of a method that grows with the number of clients.

    Attributes:
        kept_models: number of model-sized vectors kept for every client between rounds.
        compares_all: whether the method compares all pairs of clients at once, by their replies.

    Examples:
        >>> import fedkin as fk
        >>> fk.MemoryNeeds(kept_models=1)
        MemoryNeeds(kept_models=1, compares_all=False)
    """

    kept_models: int = 0
    compares_all: bool = False


@dataclass(frozen=True)
class DataNeeds:
    """Requirements of a method for the clients' data.

    Attributes:
        true_clusters: whether the true clusters must be known. Only a simulation knows them.
        earlier_samples: whether clients with data that arrive in steps must keep the samples of
            earlier steps (``Steps(history=True)``), because the method trains on all of them. Only
            the samples that a step adds count as new.
        newcomer_labels: whether the placement of a newcomer needs its labels. If False,
            ``run.place(x)`` is enough.
        classes: what the method does with class labels, if it works only with them, such as
            ``compares numbers of samples of each class``. Empty: labels may also be numbers.

    Examples:
        >>> import fedkin as fk
        >>> needs = fk.DataNeeds(true_clusters=True)
        >>> needs.true_clusters, needs.newcomer_labels
        (True, True)
    """

    true_clusters: bool = False
    earlier_samples: bool = False
    newcomer_labels: bool = True
    classes: str = ""


@dataclass(frozen=True)
class Requirements:
    """The requirements of a method with its present options.

    By default, any federation satisfies them.

    Attributes:
        clients: minimum number of clients in the federation, such as one for each cluster, or a
            peer and its neighbours.
        cohort: minimum number of clients in a round.
        model: requirements for the model.
        reads: replies of single clients that the method reads.
        changes: how models change, in addition to averaging.
        parts: parts of models that stay on clients, or must be shared.
        separation: how far a client's updates spread among the models.
        rounds: rounds for which the method is designed.
        memory: memory that grows with the number of clients.
        data: requirements for the clients' data.
        peers: whether clients train without a server and choose their peers themselves.
        keeps_clusters: whether a robust aggregation rule (against attackers) may split the method's
            clusters. Three conditions must hold: the method itself never moves clients between
            clusters, it stores only a model for each cluster, and the number of clusters may grow
            between rounds.
        start_sums: number of noisy sums over all clients that the method needs before the first
            round of a private run.

    Examples:
        >>> import fedkin as fk
        >>> needs = fk.Requirements(clients=fk.AtLeast(4))
        >>> needs.clients.number, needs.peers
        (4, False)
    """

    clients: AtLeast = AtLeast()
    cohort: AtLeast = AtLeast()
    model: ModelNeeds = ModelNeeds()
    reads: ClientReads = ClientReads()
    changes: ModelChanges = ModelChanges()
    parts: ModelParts = ModelParts()
    separation: Separation = Separation()
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


def compared_quantity(method: Any) -> str | None:
    """The quantity by which a method compares clients, in words (``About.compares``); None for a
    method that does not say it."""
    return getattr(getattr(method, "about", None), "compares", None)


def requirements_of(method: Any) -> Requirements:
    """The requirements that a method declares; without a declaration, it requires nothing.

    Raises MethodError if the declaration is not a ``Requirements``.
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
    """Parts of an error message about too few clients: the required number, and an option to
    change.

    Args:
        method: the method.
        need: the required number of clients, and the method's option that determines it.
        have: the available number of clients.
        where: the method's place in the configuration.

    Returns:
        Two texts, such as ``5 clients (clusters = 5)`` and ``method.clusters=3``. The second is
        empty if no value of the option is low enough.
    """
    option = need.because
    count = f"{need.number} client{'s' if need.number > 1 else ''}"
    if not option:
        return count, ""
    value = getattr(method, option, None)
    # An option that is not set has the method's default value.
    if value is None:
        value = need.number
    if need.per > 1:
        enough = have * need.per
    else:
        # Each step by which the option is lowered lowers the required number of clients by one.
        enough = value - (need.number - have)
    # No option can be appended to the place of a compared method (``run.against: ifca``).
    place = f"{where}.{option}" if where == "method" else option
    return f"{count} ({option} = {value})", f"{place}={enough}" if enough > 0 else ""
