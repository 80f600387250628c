"""Whether a method fits a plan and a model: what cannot be is refused, what may disappoint is a warning."""

from __future__ import annotations

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import Method, State
from fedkin.core.world import ModelSpec
from fedkin.methods.decentralized import PeerMethod

# Names of version 0.1 that methods and states may still have, which nobody would call any more
_FORMER = {
    "needs_truth": "needs_true_clusters",
    "served": "models_for",
    "becomes": "aggregated_into",
    "set_aside": "excluded",
}


def check_names(method_or_state: Method | State) -> None:
    """Refuse a user's method or state with a name of version 0.1 (MethodError): it would silently do nothing."""
    for former, name in _FORMER.items():
        if hasattr(method_or_state, former):
            raise MethodError(f"{type(method_or_state).__name__}.{former} is now called {name}; rename it")


def check_plan(plan: Plan, method: Method, clients: int, where: str = "method") -> None:
    """Refuse a cohort, or a number of clusters or neighbours, that so many clients cannot give.

    Args:
        plan: the size of a cohort.
        method: the method.
        clients: how many there are.
        where: the method's place in the configuration, for the message.

    Raises ConfigError; MethodError for a name of version 0.1.
    """
    check_names(method)
    if plan.cohort > clients:
        raise ConfigError(f"run.cohort must be at most the number of clients ({clients}), got {plan.cohort}")
    neighbours = getattr(method, "neighbours", 0)
    if isinstance(neighbours, int) and neighbours >= clients:
        raise ConfigError(f"{where}.neighbours must be fewer than the {clients} clients, got {neighbours}")
    clusters = getattr(method, "clusters", None)
    if isinstance(clusters, int) and clusters > clients:
        raise ConfigError(f"{where}.clusters must be at most the number of clients ({clients}), got {clusters}")
    if getattr(method, "splits_cohort", False) and isinstance(clusters, int) and clusters > plan.cohort:
        raise ConfigError(f"{where}.clusters divide a cohort: at most run.cohort ({plan.cohort}), got {clusters}")


def check_model(method: Method, spec: ModelSpec, where: str = "method") -> None:
    """Refuse detectors for a method that trains other models, and the reverse.

    Args:
        method: the method.
        spec: of the model.
        where: the method's place in the configuration, for the message.

    Raises ConfigError.
    """
    trains_detectors = getattr(method, "detects", False)
    if spec.detects != trains_detectors:
        detector = ("a detector", "not one")
        expected, actual = detector if trains_detectors else ("a model with a score for every class", "a detector")
        raise ConfigError(
            f"{where}: {type(method).__name__} trains {expected}, and the model is {actual}; see model.name (methods "
            "side by side train the same model: run.against=[] runs one alone)"
        )


def plan_warnings(plan: Plan, method: Method, clients: int) -> list[str]:
    """What a plan keeps a method from.

    Args:
        plan: rounds and cohort.
        method: the method.
        clients: how many there are.
    """
    warnings = []
    first = max(getattr(method, "cluster_round", 0), getattr(method, "first_split", -1) + 1)
    if first > plan.rounds:
        warnings.append(f"clusters are made from round {first} on, and the run has {plan.rounds}")
    if not isinstance(method, PeerMethod):
        return warnings
    if plan.cohort < clients:
        warnings.append(
            f"of {clients} peers only {plan.cohort} are awake in a round, and the others do not reply; "
            f"run.cohort={clients} wakes all"
        )
    stage_one, rounds_of_peer = getattr(method, "stage_one", 0), plan.rounds * plan.cohort / clients
    if stage_one >= rounds_of_peer:
        warnings.append(
            f"stage one has {stage_one} rounds, and a peer does {rounds_of_peer:.0f}: no peer reaches stage two"
        )
    return warnings
