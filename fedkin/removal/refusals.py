"""Runs and clients that cannot be replayed, each with the way on."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.config.run import SECTIONS as CONFIGURATION
from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import shell_command
from fedkin.options import SECTIONS
from fedkin.run.run import Run

# Why a run with an option cannot be repeated in part, by section.
_WHY = {
    "privacy": "a replay would release noisy sums of the other clients once more, which the run's "
    "privacy budget does not cover",
    "secret": "the server knows no single update, so it cannot tell which sums to repeat",
    "monitor": "its alarms and moves of clients depend on the replies of all clients",
    "attack": "attackers see the updates of all clients, so every model may hold something of each",
    "late": "late replies of the recorded run would come in other rounds",
    "asynchronous": "without a client, other replies would be the first to arrive",
}


def check_run(run: Run) -> None:
    """Raise ConfigError if a run cannot be replayed: it has real sites, or options that cannot be
    repeated."""
    config = run.config
    if config.of_federation:
        raise ConfigError(
            "this run has real sites, whose data are on their machines, so it cannot be replayed "
            "here. Remove the site (fedkin deploy remove DIR SITE), and train again with the other "
            "sites in a new folder (fedkin deploy init, fedkin deploy up)"
        )
    for section, option in SECTIONS.items():
        if config.section(section) and not option.repeatable:
            why = _WHY.get(section, f"the {option.words} cannot be repeated")
            raise ConfigError(f"{section}: {why}; {new_run(run)}")
    own = [name for name, values in config.sections.items() if _is_unknown_option(name, values)]
    if own and config.from_python:
        raise ConfigError(
            f"{own[0]}: the option was given as an object, which the run's folder does not have; "
            f"{new_run(run)}"
        )


def check_clients(numbers: Sequence[int], run: Run) -> None:
    """Raise ConfigError if no client is named, one was removed before, or no client would be
    left."""
    if not numbers:
        raise ConfigError("clients must name at least one client, such as clients=[3]")
    removed = run.config.scenario.get("silent") or []
    for number in numbers:
        if number in removed:
            raise ConfigError(f"client {number} was removed from this run before (scenario.silent)")
    if len({*numbers, *removed}) >= len(run.assignment):
        raise ConfigError("every client of the run is named; at least one must stay")


def took_no_part(names: str) -> ConfigError:
    """The error for clients that a run never asked.

    Args:
        names: the clients.
    """
    return ConfigError(
        f"client {names} took no part in this run: no cohort had it, and it had no cluster before "
        "the first round, so no model holds anything of it. Its test samples may be in the "
        "scores: to leave it out of them too, run again with scenario.silent"
    )


def new_run(run: Run) -> str:
    """Text that says how to run again from the beginning without the client.

    Args:
        run: the run.
    """
    if run.config.from_python or run.folder is None:
        return (
            "run again from the beginning without the client: fk.simulate(..., "
            "scenario=fk.Population(silent=[3]))"
        )
    config = run.folder / "config.toml"
    words = shell_command("fedkin", "run", config, "scenario.silent=[3]")
    return f"run again from the beginning without the client, such as client 3: {words}"


def _is_unknown_option(section: str, values: object) -> bool:
    """Whether a section of a description is an option of a user's class."""
    return section not in ("python", *CONFIGURATION) and isinstance(values, dict)
