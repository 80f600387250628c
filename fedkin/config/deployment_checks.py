"""Which methods run where: with a server, or between peers. A method's requirements decide it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedkin.config.registry import Entry
from fedkin.config.schema import Place
from fedkin.core.errors import ConfigError
from fedkin.core.requirements import requirements_of


def check_with_server(entries: Iterable[Entry], place: Place) -> None:
    """Refuse (ConfigError) methods that no server can run.

    Args:
        entries: the main method and those after it.
        place: from a key to where it was read.
    """
    for number, entry in enumerate(entries):
        if refusal := server_refusal(entry.made):
            raise ConfigError(f"{place('run.against' if number else 'method.name')}: {refusal}")


def check_between_peers(entry: Entry, place: Place) -> None:
    """Refuse (ConfigError) a method that real peers cannot run; ``place`` is as above."""
    if refusal := peers_refusal(entry.made):
        raise ConfigError(f"{place('method.name')}: {refusal}")


def server_refusal(method: Any) -> str | None:
    """Why no server can run a method, and what to do instead; None where one can."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.data.true_clusters:
        return _truth_refusal(name)
    if needs.peers:
        return (
            f"{name} needs peers that decide for themselves, and this federation has a server: run "
            "it with fedkin peer, or take a method with a server, such as fedavg"
        )
    return None


def peers_refusal(method: Any) -> str | None:
    """Why real peers cannot run a method, and what to do instead; None where they can."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.data.true_clusters:
        return _truth_refusal(name)
    if not needs.peers:
        return (
            f"{name} needs a server, and peers have none: run it with fedkin deploy, or take a "
            "method between peers, such as panm"
        )
    return None


def _truth_refusal(name: str) -> str:
    return (
        f"{name} needs the true clusters of all clients, which only a simulation knows: run it "
        "with fedkin run, or take another method"
    )
