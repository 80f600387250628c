"""Options of a run by the names of their sections, as tests vary them, and a method with options without a run."""

from __future__ import annotations

from typing import Any

from fedkin.config.plan import Plan
from fedkin.core.method import Method
from fedkin.core.world import World
from fedkin.options import SECTIONS
from fedkin.options.base import Option, RunFacts
from fedkin.options.with_options import ActiveOptions, WithOptions, by_section, check_options


def with_option_list(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``simulate``, with those that have the name of an option's section in one list.

    Args:
        settings: arguments, and options by section; None: without that option.
    """
    named = {name: value for name, value in settings.items() if name in SECTIONS}
    others = {name: value for name, value in settings.items() if name not in SECTIONS}
    options = [option for option in named.values() if option is not None]
    return {**others, "options": [*others.get("options", ()), *options]}


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
    """A method with options, as a run has it. Raises ConfigError for options that do not go with it.

    Args:
        method: of the run.
        options: of the run.
        world: of the clients.
    """
    run = facts(method, *options, world=world)
    check_options([run], ["method"])
    return WithOptions(method, ActiveOptions.of(run))
