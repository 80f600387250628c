"""Secret sums in the life of a run: the method, and what a summary says of them."""

from __future__ import annotations

import logging
from pathlib import Path

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.core.records import Record
from fedkin.privacy.client_dp import ClientDP
from fedkin.privacy.journal import SECRET_SUMS, Journal
from fedkin.privacy.private import Private
from fedkin.privacy.secret_settings import SecretSums
from fedkin.privacy.secret_sums import Secret

_log = logging.getLogger("fedkin")


def check_secret(settings: SecretSums, plan: Plan, privacy: ClientDP | None) -> None:
    """Refuse (ConfigError) settings with which no round has a sum, and those that privacy has of its own.

    A limit with which models would not learn is logged.

    Args:
        settings: of the sums.
        plan: of the run.
        privacy: settings of a private run; None: without.
    """
    if plan.cohort < settings.least:
        raise ConfigError(
            f"secret.least = {settings.least}: cohorts of run.cohort = {plan.cohort} are too small for such a sum: "
            "raise run.cohort"
        )
    if privacy is None:
        for warning in settings.warnings(plan.cohort):
            _log.warning("%s", warning)
        return
    for name, instead in (("limit", "clip"), ("examples_cap", "examples_cap")):
        if getattr(settings, name) != getattr(SecretSums(), name):
            raise ConfigError(f"secret.{name} is of sums without privacy: set privacy.{instead}, and leave it out")


def secret_method(method: Method, settings: SecretSums, out: Path | None) -> Secret:
    """The method of a run with secret sums.

    Args:
        method: that averages.
        settings: of the sums.
        out: the run's folder, where it has one.
    """
    return Secret(method, settings, Journal(out / SECRET_SUMS if out else None))


def secret_record(method: Method) -> Record:
    """What a summary says of secret sums, empty of a run without.

    ``sums`` is how many there were, ``answered`` how many updates are in them, ``lost`` how many there should have been
    besides; ``clipped`` and ``unusable`` count updates with numbers above the limit, and without finite ones; ``clear``
    are tasks whose replies left clients in the clear. A private run counts neither clipped updates nor unusable ones.
    """
    if isinstance(method, Secret):
        clear = [entry["clear"] for entry in method.journal.entries if "clear" in entry]
    elif isinstance(method, Private) and method.secret is not None:
        clear = method.journal.uncharged
    else:
        return {}
    every = [entry for entry in method.journal.entries if "sums" in entry]
    rounds = {(entry["round"], entry["call"]): entry for entry in every}.values()  # one that was done again counts once
    said = {name: sum(entry[name] for entry in rounds) for name in ("sums", "answered", "clipped", "unusable")}
    lost = sum(len(entry["lost"]) for entry in rounds)
    return {"secret": {**said, "lost": lost, "clear": clear}}
