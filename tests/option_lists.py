"""Arguments of a run by the names of a configuration, as tests vary them, and a method with options
without a run."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from fedkin.config.plan import Cohort, Compute, Plan, Scoring
from fedkin.core.method import Method
from fedkin.core.progress import Progress
from fedkin.core.world import World
from fedkin.options import SECTIONS
from fedkin.options.base import Option, RunFacts
from fedkin.options.with_options import ActiveOptions, WithOptions, by_section, check_options


def simulate_arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``simulate``, of settings as a configuration names them.

    Args:
        settings: arguments of ``simulate``; settings of [run]; and options by section, None for
            none.
    """
    scoring = _taken(settings, Scoring)
    compute = _taken(settings, Compute)
    options = [settings[name] for name in SECTIONS if settings.get(name) is not None]
    callbacks = [*settings.get("track", ())]
    if settings.get("on_round") is not None:
        callbacks.append(settings["on_round"])
    if settings.get("progress") is not None:
        callbacks.append(Progress(settings["progress"]))
    grouped = {*SECTIONS, *scoring, *compute, "selection", "on_round", "track", "progress"}
    arguments = {name: value for name, value in settings.items() if name not in grouped}
    if scoring:
        arguments["scoring"] = replace(settings.get("scoring", Scoring()), **scoring)
    if compute:
        arguments["compute"] = Compute(**compute)
    if "selection" in settings:
        arguments["cohort"] = Cohort(settings["cohort"], selection=settings["selection"])
    if callbacks:
        given = settings.get("callbacks", [])
        before = given if isinstance(given, list) else [given]
        arguments["callbacks"] = [*before, *callbacks]
    if options:
        arguments["options"] = [*settings.get("options", ()), *options]
    return arguments


def _taken(settings: dict[str, Any], kind: type[Scoring] | type[Compute]) -> dict[str, Any]:
    """Those settings that are fields of a value."""
    return {field.name: settings[field.name] for field in fields(kind) if field.name in settings}


def facts(method: Method, *options: Option, world: World) -> RunFacts:
    """What options know of a run of ten rounds with all clients of a world.

    Args:
        method: of the run.
        options: of the run.
        world: of the clients.
    """
    return RunFacts(
        method=method,
        plan=Plan(rounds=10, cohort=world.total_clients),
        spec=world.spec,
        clients=world.total_clients,
        options=by_section(options),
        true_clusters=world.true_clusters,
    )


def with_options(method: Method, *options: Option, world: World) -> WithOptions:
    """A method with options, as a run has it. Raises ConfigError for options that contradict the
    method.

    Args:
        method: of the run.
        options: of the run.
        world: of the clients.
    """
    run = facts(method, *options, world=world)
    check_options([run], ["method"])
    return WithOptions(method, ActiveOptions.of(run))
