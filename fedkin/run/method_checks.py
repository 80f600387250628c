"""Whether a method fits a plan and a model: what cannot be is refused, what may disappoint is a warning."""

from __future__ import annotations

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.layout import ModelSpec
from fedkin.core.method import Method
from fedkin.core.requirements import count_and_cure, requirements_of


def check_plan(plan: Plan, method: Method, clients: int, where: str = "method") -> None:
    """Refuse a cohort that so many clients cannot give, and clients or a cohort that are too few for the method.

    Args:
        plan: the size of a cohort.
        method: the method.
        clients: how many there are.
        where: the method's place in the configuration, for the message.

    Raises ConfigError.
    """
    for name in ("patience", "until"):
        if getattr(plan, name) is not None and not plan.evaluate_every:
            raise ConfigError(f"run.{name} needs rounds that are scored, and run.evaluate_every is 0: set it to 1")
    if plan.sample_at_end and plan.evaluate_clients is None:
        raise ConfigError("run.sample_at_end needs the size of the sample: set run.evaluate_clients")
    if plan.cohort > clients:
        raise ConfigError(f"run.cohort must be at most the number of clients ({clients}), got {plan.cohort}")
    needs, name = requirements_of(method), f"{where}: {type(method).__name__}"
    if needs.clients > clients:
        count, cure = count_and_cure(method, needs.clients, clients, needs.clients_because, where)
        ways = f"add clients or set {cure}" if cure else "add clients"
        raise ConfigError(f"{name} needs at least {count}, and there are {clients}: {ways}")
    if needs.cohort > plan.cohort:
        count, cure = count_and_cure(method, needs.cohort, plan.cohort, needs.cohort_because, where)
        larger = f"run.cohort={needs.cohort}" if needs.cohort <= clients else ""
        ways = " or ".join(filter(None, (larger, cure))) or f"a cohort and {needs.cohort} clients"
        raise ConfigError(f"{name} needs a cohort of at least {count}, and run.cohort is {plan.cohort}: set {ways}")


def check_model(method: Method, spec: ModelSpec, where: str = "method") -> None:
    """Refuse detectors for a method that trains other models, the reverse, and a last layer that is not known,
    or is all of the model.

    Args:
        method: the method.
        spec: of the model.
        where: the method's place in the configuration, for the message.

    Raises ConfigError.
    """
    needs, name = requirements_of(method), f"{where}: {type(method).__name__}"
    if spec.detects != needs.detectors:
        detector = ("a detector", "not one")
        expected, actual = detector if needs.detectors else ("a model with a score for every class", "a detector")
        raise ConfigError(
            f"{name} trains {expected}, and the model is {actual}; see model.name (methods "
            "side by side train the same model: run.against=[] runs one alone)"
        )
    if needs.last_layer and spec.head is None:
        option = f" for its option {needs.last_layer_because}" if needs.last_layer_because else ""
        change = f", or change {needs.last_layer_because}" if needs.last_layer_because else ", or take another method"
        raise ConfigError(
            f"{name} needs the model's last layer{option}, and this model does not end in a weight [C, d] and a bias "
            f"[C]: make them its last two leaves{change}"
        )
    if needs.hidden_layers and spec.head and len(range(spec.parameters)[spec.head]) == spec.parameters:
        raise ConfigError(
            f"{name} needs layers before the model's last one, and this model has no other: take one with hidden "
            "layers, such as model.name=mlp, or another method"
        )


def plan_warnings(plan: Plan, method: Method, clients: int) -> list[str]:
    """What a plan keeps a method from.

    Args:
        plan: rounds and cohort.
        method: the method.
        clients: how many there are.
    """
    warnings, needs = [], requirements_of(method)
    if needs.first_clustering > plan.rounds:
        warnings.append(f"clusters are made from round {needs.first_clustering} on, and the run has {plan.rounds}")
    if needs.full_cohort and plan.cohort < clients:
        kind = "peers" if needs.peers else "clients"
        warnings.append(
            f"of {clients} {kind} only {plan.cohort} are awake in a round, and the others do not reply; "
            f"run.cohort={clients} wakes all"
        )
    rounds = plan.rounds * plan.cohort / clients  # of a peer, on average
    if needs.rounds_of_a_peer and needs.rounds_of_a_peer >= rounds:
        warnings.append(
            f"stage one has {needs.rounds_of_a_peer} rounds, and a peer does {rounds:.0f}: no peer reaches stage two"
        )
    return warnings
