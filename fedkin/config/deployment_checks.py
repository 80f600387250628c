"""Checks that a method can run in a real federation with a server, or between real peers. The
checks use only the requirements that the method declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedkin.config.registry import Entry
from fedkin.config.schema import Place
from fedkin.core.errors import ConfigError
from fedkin.core.requirements import requirements_of

_SUMS = {
    "samples.scale": (
        "columns",
        "samples.scale_from = {mean = {age = 50.0}, scale = {age = 12.0}}",
    ),
    "samples.task": (
        "labels",
        "samples.label_scale_from = {mean = 50.0, scale = 12.0}, or {rate = 2.5} for counts",
    ),
}


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


def check_options(entries: Mapping[str, Entry], place: Place) -> None:
    """Raise ConfigError for settings that only a simulation has, and for differential privacy
    without secure aggregation."""
    late = entries.get("late")
    if late is not None and late.values.get("share"):
        raise ConfigError(
            f"{place('late.share')}: this option makes simulated clients late, and does not apply "
            "to real ones; remove it"
        )
    if "asynchronous" in entries:
        _check_asynchronous(entries["asynchronous"], place)
    secret = entries.get("secret")
    if secret is not None and secret.values.get("dropout"):
        raise ConfigError(
            f"{place('secret.dropout')}: this option makes simulated clients drop out, and does "
            "not apply to real ones; remove it"
        )
    privacy = entries.get("privacy")
    if privacy is not None and secret is None:
        raise ConfigError(
            f"{place('privacy')}: without secret sums the server sees every update of real sites "
            "and would have to add the noise itself, which is not supported; add [secret] with "
            'name = "sums", so that sites add the noise, or remove [privacy]'
        )
    if privacy is not None and privacy.values.get("testing_only_seeded_noise"):
        name = place("privacy.testing_only_seeded_noise")
        raise ConfigError(
            f"{name}: seeded noise is for tests of simulations, not for real sites; remove it"
        )


def _check_asynchronous(entry: Entry, place: Place) -> None:
    """Raise ConfigError if the section [asynchronous] needs simulated clients."""
    for name in entry.made.only_simulated():
        raise ConfigError(
            f"{place('asynchronous.' + name)}: this setting is for simulated clients, and does not "
            "apply to real ones, which have federation.deadline; remove it"
        )


def check_sums(key: str, entries: Mapping[str, Entry], place: Place) -> None:
    """Raise ConfigError if sums of columns or labels would break a promise of privacy or secret
    sums.

    Args:
        key: the key because of which the server computes them: ``samples.scale`` for columns,
            ``samples.task`` for labels.
        entries: registry entries of the options, by section.
        place: function that turns a key into its name in messages.
    """
    what, cure = _SUMS[key]
    cure = f"give known numbers instead: {cure}, in every file"
    if "privacy" in entries:
        raise ConfigError(
            f"{place(key)}: the sums of {what} come from the clients' samples and get no noise, so "
            f"[privacy] refuses them; {cure}"
        )
    if "secret" in entries:
        raise ConfigError(
            f"{place(key)}: secret sums add up trained models only, so the server would see the "
            f"sums of {what} of each site; {cure}"
        )


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
