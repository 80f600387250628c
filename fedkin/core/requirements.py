"""What a method needs of the federation, the plan and the model that it runs with, declared by the method itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fedkin.core.errors import MethodError
from fedkin.core.task import Task


@dataclass(frozen=True)
class Requirements:
    """The needs of a method with its present options. By default it needs nothing that any federation lacks.

    Where an option of the method decides a need, ``.._because`` names it, so that a refusal can say what to change.

    Attributes:
        clients: the federation has at least so many: one for each cluster, or a peer and its neighbours.
        clients_because: the option that grows with ``clients``.
        cohort: a round has at least so many clients.
        cohort_because: the option that grows with ``cohort``.
        full_cohort: all clients take part in every round; it runs with fewer, but not as meant.
        first_clustering: the first round in which clusters can be made; 0: before the first round, or never.
        rounds_of_a_peer: stage one of a peer has so many of its own rounds, and it must have more.
        peers: clients decide for themselves, and there is no server.
        true_clusters: the true clusters must be known, as only a simulation knows them.
        detectors: models have one score, of one class; else a score for every class.
        last_layer: the model's last layer must be known.
        last_layer_because: the option for which it must be.
        hidden_layers: the model has layers before its last one.
        updates: ``single`` where updates are read one by one, ``means`` where their means over clients are enough.
        updates_because: the option for which single updates are read, where another value needs means only.
        sends: what else than updates of whole models, of which means are enough, leaves the clients for it; empty:
            nothing.
        common_start: clients begin from one model, made from the seed, and what they have become since is compared or
            averaged without a server: it must be the same for all.
        changes_models: the option by which models are changed between rounds besides being averaged; empty: none is.
        replaces_models: what becomes of models in every run besides being averaged, so that no server optimiser can
            step them; empty: nothing.
        earlier_samples: clients keep the samples of earlier steps of a stream: they are trained on, and new ones are
            those that were not there before.
        shared_head: what clients are clustered by that depends on last layers of shared models, so that no client can
            have one of its own; empty: nothing.
        own_part: what is each client's own already, or trained in another way, so that nothing more can be;
            empty: nothing.
        keeps_clusters: a client stays in its cluster, a cluster is a model and nothing else, and there may be more of
            them from one round to the next: so a robust rule may split them.
        kept_models: so many vectors of a model's size are kept for every client from round to round.
        compares_all: all clients are compared with each other at once, by what they have sent.
        newcomer_labels: placing a newcomer reads its labels; where it does not, ``run.place(x)`` is enough.
        start_sums: noisy sums of all clients that its cold start needs, where it is private.
        standing: tasks that clients answer in every reply, such as whether their data have shifted.
    """

    clients: int = 1
    clients_because: str = ""
    cohort: int = 1
    cohort_because: str = ""
    full_cohort: bool = False
    first_clustering: int = 0
    rounds_of_a_peer: int = 0
    peers: bool = False
    true_clusters: bool = False
    detectors: bool = False
    last_layer: bool = False
    last_layer_because: str = ""
    hidden_layers: bool = False
    updates: Literal["means", "single"] = "means"
    updates_because: str = ""
    sends: str = ""
    common_start: bool = False
    changes_models: str = ""
    replaces_models: str = ""
    earlier_samples: bool = False
    shared_head: str = ""
    own_part: str = ""
    keeps_clusters: bool = False
    kept_models: int = 0
    compares_all: bool = False
    newcomer_labels: bool = True
    start_sums: int = 0
    standing: tuple[Task, ...] = ()


def requirements_of(method: Any) -> Requirements:
    """What a method needs; one that declares nothing needs nothing.

    Raises MethodError: what it declares is not a ``Requirements``.
    """
    declare = getattr(method, "requirements", None)
    if declare is None:
        return Requirements()
    requirements = declare() if callable(declare) else declare
    if not isinstance(requirements, Requirements):
        raise MethodError(
            f"{type(method).__name__}.requirements must be a function that returns a Requirements, got {requirements!r}"
        )
    return requirements


def count_and_cure(method: Any, need: int, have: int, option: str, where: str = "method") -> tuple[str, str]:
    """The words about a number of clients that is needed, and about the option behind it.

    Args:
        method: whose need it is.
        need: how many clients.
        have: how many there are.
        option: the method's, which grows with the need; empty: none.
        where: the method's place in the configuration.

    Returns:
        Such as ``5 clients (clusters = 5)`` and ``method.clusters=3``; the second is empty without an option that
        can be low enough.
    """
    count = f"{need} client{'s' if need > 1 else ''}"
    if not option:
        return count, ""
    value = getattr(method, option, None)
    value = need if value is None else value  # an option that is left out has a default of its own
    enough = value - (need - have)
    place = f"{where}.{option}" if where == "method" else option
    return f"{count} ({option} = {value})", f"{place}={enough}" if enough > 0 else ""
