"""Audits the noise that a configuration's run would add for differential privacy."""

from __future__ import annotations

import logging

from fedkin.config.run import RunConfig
from fedkin.core.errors import ConfigError
from fedkin.options.base import RunFacts
from fedkin.options.privacy.audit import Audit, audit
from fedkin.options.privacy.client_dp import ClientDP
from fedkin.options.privacy.private import mechanism_of, refusal
from fedkin.options.privacy.randomness import SystemRandomness
from fedkin.options.secret import secret_sums
from fedkin.options.secret.secret_sums import SecretSums

_log = logging.getLogger("fedkin")


def audit_of_config(config: RunConfig) -> Audit:
    """Audit the privacy mechanism that a run of this configuration would use, with its number of
    clients.

    Raises:
        ConfigError: the configuration is invalid, has no privacy, or has an infinite epsilon.
    """
    options = config.options
    settings = options.get(ClientDP.section)
    if not isinstance(settings, ClientDP):
        raise ConfigError(
            "privacy: there is nothing to audit without [privacy]; set privacy.name=client_dp "
            "privacy.epsilon=2"
        )
    data = config.make_data()
    method = config.method.made
    spec = config.model.make(data).spec
    run = RunFacts(method=method, plan=config.run, spec=spec, clients=data.clients, options=options)
    secret = options.get(SecretSums.section)
    why = refusal(method)
    if isinstance(secret, SecretSums):
        why = why or secret_sums.refusal(method, secret)
    if why:
        raise ConfigError(f"privacy: there is no finite epsilon to audit: {why}")
    if isinstance(secret, SecretSums):
        secret.check([run])
    for warning in settings.warnings(data.clients):
        _log.warning("%s", warning)
    mechanism = mechanism_of(settings, run)
    rounds = (
        config.run.rounds if mechanism.limit is None else min(config.run.rounds, mechanism.limit)
    )
    least = secret.least if isinstance(secret, SecretSums) else None
    return audit(mechanism, rounds, SystemRandomness(), least=least)
