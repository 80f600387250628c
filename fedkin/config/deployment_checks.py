"""Checks that a method can run in a real federation with a server, or between real peers. The
checks use only the requirements that the method declares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedkin.config.registry import Entry
from fedkin.config.schema import Place
from fedkin.core.errors import ConfigError
from fedkin.core.requirements import requirements_of


def check_with_server(entries: Iterable[Entry], place: Place) -> None:
    """Raise ConfigError for methods that a server cannot run.

    Args:
        entries: the main method and the compared methods.
        place: function that turns a key into its name in messages, such as
            ``FILE: method.name``.
    """
    for number, entry in enumerate(entries):
        if refusal := server_refusal(entry.made):
            raise ConfigError(f"{place('run.against' if number else 'method.name')}: {refusal}")


def check_between_peers(entry: Entry, place: Place) -> None:
    """Raise ConfigError for a method that real peers cannot run. ``place`` turns a key into its
    name in messages, such as ``FILE: method.name``."""
    if refusal := peers_refusal(entry.made):
        raise ConfigError(f"{place('method.name')}: {refusal}")


def server_refusal(method: Any) -> str | None:
    """Error message if a server cannot run a method, with an alternative; None if it can."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.data.true_clusters:
        return _truth_refusal(name)
    if needs.peers:
        return (
            f"{name} needs peers, but this federation has a server; run "
            "it with fedkin peer, or use a method with a server, such as fedavg"
        )
    return None


def peers_refusal(method: Any) -> str | None:
    """Error message if real peers cannot run a method, with an alternative; None if they can."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.data.true_clusters:
        return _truth_refusal(name)
    if not needs.peers:
        return (
            f"{name} needs a server, but peers have none; run it with fedkin deploy, or use a "
            "method between peers, such as panm"
        )
    return None


def _truth_refusal(name: str) -> str:
    """Error message for the method called ``name``, which needs the true clusters."""
    return (
        f"{name} needs the true clusters of all clients, which only a simulation knows; run it "
        "with fedkin run, or use another method"
    )
