"""What goes with any method, by the name of its section in a configuration: server optimisers, what is a client's own,
privacy, robust rules, attacks, late replies, and secret sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fedkin.config import registry
from fedkin.config.loader import Sections
from fedkin.config.registry import Registry
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError


def _server_optimizers() -> Registry:
    from fedkin.methods.server_optimizers import SERVER_OPTIMIZERS

    return dict(SERVER_OPTIMIZERS)


def _personal_parts() -> Registry:
    from fedkin.methods.personal_parts import PERSONAL

    return dict(PERSONAL)


def _privacy() -> Registry:
    from fedkin.privacy.client_dp import ClientDP

    return {"client_dp": ClientDP}


def _robust_rules() -> Registry:
    from fedkin.robust.robust import RobustAggregation

    return {"aggregation": RobustAggregation}


def _attacks() -> Registry:
    from fedkin.robust.byzantine import Byzantine

    return {"byzantine": Byzantine}


def _late_replies() -> Registry:
    from fedkin.staleness.settings import LateReplies

    return {"replies": LateReplies}


def _secret_sums() -> Registry:
    from fedkin.privacy.secret_settings import SecretSums

    return {"sums": SecretSums}


class _Option(NamedTuple):
    """An option of all methods."""

    words: str  # in messages
    known: Callable[[], Registry]  # its values by name, imported when they are asked for


OPTIONS = {
    "server_optimizer": _Option("server optimizer", _server_optimizers),
    "personal": _Option("personal part", _personal_parts),
    "privacy": _Option("privacy", _privacy),
    "robust": _Option("robust rule", _robust_rules),
    "attack": _Option("attack", _attacks),
    "late": _Option("way to use late replies", _late_replies),
    "secret": _Option("secret sums", _secret_sums),
}


def known_values(section: str) -> Registry:
    """What an option can be, by name."""
    return OPTIONS[section].known()


def resolve_option(sections: Sections, section: str) -> Values:
    """An option's section, spelled out; empty where there is none, or where its name is "none".

    Args:
        sections: of a configuration.
        section: the option's.

    Raises:
        ConfigError: no name, a name that is not known, or what ``registry.resolve`` refuses.
    """
    given, place = sections[section], sections.place_in(section)
    if not given or given.get("name") == "none":  # options of a file that an override takes away
        return {}
    known = known_values(section)
    if "name" not in given:
        raise ConfigError(f"{place('name')}: is required; known: {', '.join(known)}, none")
    return registry.resolve(OPTIONS[section].words, known, given, place)


def make_option(section: str, values: Values) -> Any:
    """An option from its section; None for an empty one.

    Args:
        section: the option's.
        values: in it.
    """
    return registry.make(known_values(section), values) if values else None
