"""Checks whether a plan (rounds and cohort) and a model suit a method. Impossible combinations
raise an error, unfavourable ones give a warning."""

from __future__ import annotations

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import Method
from fedkin.core.model_spec import ModelSpec
from fedkin.core.requirements import count_and_cure, requirements_of
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType


def check_plan(plan: Plan, method: Method, clients: int, where: str = "method") -> None:
    """Check that a plan is consistent, and that the number of clients and the size of the cohort
    are large enough for a method.

    Args:
        plan: the run's plan, with the size of a cohort.
        method: the method.
        clients: number of clients.
        where: the method's place in the configuration (e.g. ``run.against: ifca``), for messages.

    Raises ConfigError.
    """
    for name in ("patience", "until"):
        if getattr(plan, name) is not None and not plan.evaluate_every:
            raise ConfigError(
                f"run.{name} needs evaluated rounds, but run.evaluate_every is 0; set it to 1"
            )
    if plan.sample_at_end and plan.evaluate_clients is None:
        raise ConfigError(
            "run.sample_at_end needs the size of the sample; set run.evaluate_clients"
        )
    if plan.cohort > clients:
        raise ConfigError(
            f"run.cohort must be at most the number of clients ({clients}), got {plan.cohort}"
        )
    needs = requirements_of(method)
    name = f"{where}: {type(method).__name__}"
    if needs.clients.number > clients:
        count, cure = count_and_cure(method, needs.clients, clients, where)
        ways = f"add clients or set {cure}" if cure else "add clients"
        raise ConfigError(f"{name} needs at least {count}, and there are {clients}: {ways}")
    cohort = needs.cohort.number
    if cohort > plan.cohort:
        count, cure = count_and_cure(method, needs.cohort, plan.cohort, where)
        larger = f"run.cohort={cohort}" if cohort <= clients else ""
        ways = " or ".join(filter(None, (larger, cure))) or f"a cohort and {cohort} clients"
        have = f"run.cohort is {plan.cohort}"
        raise ConfigError(f"{name} needs a cohort of at least {count}, and {have}: set {ways}")


def check_model(method: Method, spec: ModelSpec, where: str = "method") -> None:
    """Check that a model suits a method.

    The model must be of the kind that the method trains: a detector (of one class against all
    others), or a classifier with a score for every class. If the method needs them, the model must
    also have a last layer that fedkin can find, and layers before the last one.

    Args:
        method: the method.
        spec: the model's size, layers and kind.
        where: the method's place in the configuration, as in ``check_plan``.

    Raises ConfigError.
    """
    model = requirements_of(method).model
    name = f"{where}: {type(method).__name__}"
    if spec.detects != model.detectors:
        expected = "a detector" if model.detectors else "a model with a score for every class"
        actual = "not one" if model.detectors else "a detector"
        raise ConfigError(
            f"{name} trains {expected}, but the model is {actual}; change model.name (compared "
            "methods train the same model; run.against=[] runs one method alone)"
        )
    if model.last_layer and spec.head is None:
        option = f" for its option {model.because}" if model.because else ""
        change = f"change {model.because}" if model.because else "take another method"
        raise ConfigError(
            f"{name} needs the model's last layer{option}, and this model does not end in a weight "
            f"[C, d] and a bias [C]: put these two arrays last in its parameters, or {change}"
        )
    parameters = spec.parameters
    if model.hidden_layers and spec.head and len(range(parameters)[spec.head]) == parameters:
        raise ConfigError(
            f"{name} needs layers before the model's last one, and this model has no other; use "
            "one with hidden layers, such as model.name=mlp, or another method"
        )


def check_labels(method: Method, task_type: TaskType, where: str = "method") -> None:
    """Check that a method works with labels of this task type.

    Args:
        method: the method.
        task_type: what the labels are.
        where: the method's place in the configuration, as in ``check_plan``.

    Raises ConfigError.
    """
    classes = requirements_of(method).data.classes
    if classes and task_type != CLASSIFICATION:
        raise ConfigError(
            f"{where}: {type(method).__name__} {classes}, so it needs class labels, but the labels "
            f"are of task = {task_type.name!r}; take a method that compares updates or losses, "
            "such as fedgroup, flexcfl, ifca or fesem"
        )
    for task in requirements_of(method).reads.standing:
        try:
            task.check_labels(task_type)
        except MethodError as error:
            raise ConfigError(f"{where}: {type(method).__name__}: {error}") from None


def plan_warnings(plan: Plan, method: Method, clients: int) -> list[str]:
    """Warnings about a plan that does not suit a method.

    Args:
        plan: rounds and cohort.
        method: the method.
        clients: number of clients.
    """
    warnings = []
    needs = requirements_of(method)
    first_clustering = needs.rounds.first_clustering
    if first_clustering > plan.rounds:
        warnings.append(
            f"clusters are formed from round {first_clustering} on, but the run has only "
            f"{plan.rounds}",
        )
    if needs.rounds.full_cohort and plan.cohort < clients:
        kind = "peers" if needs.peers else "clients"
        warnings.append(
            f"only {plan.cohort} of {clients} {kind} take part in a round, and the others do not "
            f"reply; run.cohort={clients} includes all"
        )
    rounds = plan.rounds * plan.cohort / clients  # mean number of rounds of a peer
    stage_one = needs.rounds.stage_one
    if stage_one and stage_one >= rounds:
        have = f"a peer does {rounds:.0f}"
        warnings.append(
            f"stage one has {stage_one} rounds, but {have}, so no peer reaches stage two"
        )
    return warnings
