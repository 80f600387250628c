"""A run with client-level differential privacy: what does not go with it, its method, and its closing statement."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors.numpy import save

from fedkin.config import registry
from fedkin.config.option_registry import make_option
from fedkin.config.plan import Plan
from fedkin.config.run import RunConfig
from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.core.requirements import requirements_of
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.measures.measure import Measure
from fedkin.privacy import secret_sums
from fedkin.privacy.audit import Audit, audit
from fedkin.privacy.client_dp import ClientDP, Mechanism
from fedkin.privacy.journal import JOURNAL, RELEASE, Journal
from fedkin.privacy.private import NOT_PRIVATE, Private, refusal
from fedkin.privacy.randomness import SystemRandomness
from fedkin.privacy.secret_settings import SecretSums
from fedkin.privacy.statement import statement
from fedkin.run.loop import RunState
from fedkin.run.secret_runs import check_secret
from fedkin.tracking.tensorboard import TensorBoard
from fedkin.tracking.tracker import Tracker

STATEMENT, MODELS = "privacy.json", "models.safetensors"
_log = logging.getLogger("fedkin")


def check_private(
    settings: ClientDP,
    methods: Sequence[Method],
    plan: Plan,
    clients: int,
    trackers: Sequence[Tracker],
    secret: SecretSums | None = None,
) -> None:
    """Refuse (ConfigError) what would release more than noisy sums, and settings that have no epsilon.

    Args:
        settings: of the privacy.
        methods: that are run.
        plan: of the run.
        clients: N.
        trackers: of the run.
        secret: settings of secret sums; None: without.
    """
    for name in ("patience", "until"):
        if getattr(plan, name) is not None:
            raise ConfigError(
                f"privacy: run.{name} stops by scores of clients, which no noise covers, and the last round would show "
                "them: leave it out"
            )
    for tracker in trackers:
        if not isinstance(tracker, TensorBoard):
            raise ConfigError(
                f"privacy: the tracker {type(tracker).__name__} would send scores of clients elsewhere, which no noise "
                "covers: leave it out (tensorboard writes into the run's own folder)"
            )
    if settings.scores is not None and plan.sample_at_end:
        raise ConfigError(
            "privacy.scores is of all clients, and run.sample_at_end scores some: leave out one of the two"
        )
    for warning in settings.warnings(clients):
        _log.warning("%s", warning)
    for method in methods:
        mechanism_of(settings, method, plan, clients, secret)


def check_measures(measures: Sequence[Measure]) -> None:
    """Refuse (ConfigError) measures of the user's own in a private run."""
    if measures:
        raise ConfigError(
            f"privacy: run.measures ({', '.join(measure.name for measure in measures)}) are computed of scores of "
            "clients, which no noise covers: leave them out"
        )


def mechanism_of(
    settings: ClientDP, method: Method, plan: Plan, clients: int, secret: SecretSums | None = None
) -> Mechanism:
    """What a run of a method does with these settings.

    Args:
        settings: of the privacy.
        method: of the run, whose cold start may cost something.
        plan: of the run.
        clients: N.
        secret: settings of secret sums, whose server learns who takes part; None: without.

    Raises:
        ConfigError: cohorts of a fixed size; a budget below the price of one round.
    """
    start_sums = requirements_of(method).start_sums
    return settings.mechanism(clients, plan.cohort, plan.rounds, plan.selection, start_sums, secret is not None)


def private_method(
    method: Method, settings: ClientDP, plan: Plan, clients: int, out: Path | None, secret: SecretSums | None = None
) -> Private:
    """The method of a private run.

    Args:
        method: that averages.
        settings: of the privacy.
        plan: of the run.
        clients: N.
        out: the run's folder, where it has one: it holds what was released already.
        secret: settings of secret sums, to which clients add shares of the noise; None: without.

    Raises:
        ConfigError: what was released already had other noise.
    """
    mechanism = mechanism_of(settings, method, plan, clients, secret)
    seed = plan.seed if settings.testing_only_seeded_noise else None
    if seed is not None:
        _log.warning("privacy: %s", NOT_PRIVATE)
    journal = Journal(out / JOURNAL if out else None)
    _check_noise(mechanism, journal, plan)
    return Private(method, mechanism, journal, seed, secret)


def _check_noise(mechanism: Mechanism, journal: Journal, plan: Plan) -> None:
    """Refuse (ConfigError) other noise than that of what was released already, all of which is charged alike."""
    for kind, noise in (("clip", mechanism.noise_multiplier), ("start", mechanism.start_noise)):
        for entry in journal.entries:
            if kind in entry and not math.isclose(entry["noise_multiplier"], noise):
                raise ConfigError(
                    f"privacy: this run has released sums of noise {entry['noise_multiplier']:.4g}, and {plan.rounds} "
                    f"rounds at epsilon = {mechanism.settings.epsilon} have noise {noise:.4g}: noise that was found "
                    "for an epsilon is that of the rounds planned first. Resume with as many rounds; to extend a run, "
                    "give noise_multiplier from its start on"
                )


def audit_of_config(config: RunConfig) -> Audit:
    """An audit of the mechanism that a configuration's run would have, with its number of clients.

    Raises:
        ConfigError: the configuration has no privacy, or a run that is refused, or whose epsilon is infinite.
    """
    settings = make_option("privacy", config.privacy)
    if settings is None:
        raise ConfigError("privacy: there is nothing to audit: set privacy.name=client_dp privacy.epsilon=2")
    clients = registry.make(registry.datasets(), config.data).clients
    method = registry.make(registry.methods(), config.method)
    secret = make_option("secret", config.secret)
    why = refusal(method) or (None if secret is None else secret_sums.refusal(method, secret))
    if why:
        raise ConfigError(f"privacy: there is no claim to audit: {why}")
    if secret is not None:
        check_secret(secret, config.plan, settings)
    for warning in settings.warnings(clients):
        _log.warning("%s", warning)
    mechanism = mechanism_of(settings, method, config.plan, clients, secret)
    rounds = config.plan.rounds if mechanism.limit is None else min(config.plan.rounds, mechanism.limit)
    return audit(mechanism, rounds, SystemRandomness(), least=None if secret is None else secret.least)


def closing_record(method: Method, run_state: RunState, plan: Plan, out: Path | None) -> dict[str, Any]:
    """What a summary says of privacy, empty of a run without; the folder gets the statement, and what may be released.

    Args:
        method: of the run.
        run_state: after the last round, scored.
        plan: of the run.
        out: the run's folder, where it has one.
    """
    if not isinstance(method, Private):
        return {}
    assert run_state.scored is not None
    method.release_scores(run_state.round, run_state.scored.client_accuracy)
    said = statement(method, plan.rounds, run_state.round)
    if out is not None:
        write_atomic(out / STATEMENT, json.dumps(said, indent=2) + "\n")
        _write_release(out / RELEASE, said, run_state.state.models)
    return {"privacy": said}


def price_of_runs(statements: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Epsilon and delta of several private runs of the same clients together: the sums of theirs (basic composition).

    Args:
        statements: of the runs.
    """
    epsilons = [math.inf if one["epsilon"] == "infinite" else one["epsilon"] for one in statements]
    return sum(epsilons), sum(one["delta"] for one in statements)


def privacy_notes(statements: Sequence[Mapping[str, Any]], unfinished: bool = False) -> list[str]:
    """What several private runs of the same clients cost together, and what is wrong with it; empty without any.

    Args:
        statements: of the runs that are finished.
        unfinished: whether there are others that are not.
    """
    if not statements:
        return []
    epsilon, delta = price_of_runs(statements)
    more = "; what runs that are not finished have released comes on top" if unfinished else ""
    lines = [
        f"Privacy: all {len(statements)} finished private runs, on the same clients, cost up to epsilon {epsilon:.3g} "
        f"at delta {delta:.3g} together; choosing among them by scores without noise is not covered{more}."
    ]
    clients = max(one.get("clients", 0) for one in statements)  # 0: of statements that do not say it
    if clients and delta >= 1 / clients:
        lines.append(f"Privacy: delta {delta:.3g} with {clients:,} clients allows to publish one of them whole.")
    return lines + sorted({f"Privacy: {one['warning']}." for one in statements if "warning" in one})


def _write_release(folder: Path, said: dict[str, Any], models: Float[np.ndarray, "K P"]) -> None:
    """The part of a run's folder that may be released: models and statement; none where epsilon is infinite."""
    with storage_errors(folder):
        for name in (MODELS, STATEMENT):
            (folder / name).unlink(missing_ok=True)
        if said["epsilon"] == "infinite":
            return
        folder.mkdir(exist_ok=True)
    write_atomic(folder / MODELS, save({"models": np.ascontiguousarray(models, np.float32)}))
    write_atomic(folder / STATEMENT, json.dumps(said, indent=2) + "\n")
