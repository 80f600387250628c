"""The outbox of a site, which writes its ledger, from the files of its folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fedkin.config.schema import toml_values, validate
from fedkin.config.server_settings import DisclosureSettings
from fedkin.core.errors import ConfigError
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.worker_link import read_sections, site_name
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import Outbox, Receiver


def site_outbox(config: Path) -> Outbox:
    """The outbox of a site. Its ledger is next to client.toml.

    It is made even if the files are damaged, since a refusal is a message, too. The site's name is
    empty then.

    Args:
        config: path of the site's client.toml.
    """
    folder = config.absolute().parent
    values = read_sections(config) or {}
    disclosure = _disclosure(values)
    client = values.get("client")
    federation = client.get("federation", "") if isinstance(client, dict) else ""
    return Outbox(
        ledger=SiteLedger(folder),
        site=site_name(config),
        receiver=Receiver(str(federation)[:64], _address(folder), _certificate(folder)),
        floors={} if disclosure is None else toml_values(disclosure),
        bytes_per_round=None if disclosure is None else disclosure.bytes_per_round,
    )


def _disclosure(values: dict[str, Any]) -> DisclosureSettings | None:
    """The section [disclosure]; None without one. A section with an error gives None, too: the
    site's node cannot be made then, so only refusals leave."""
    section = values.get("disclosure")
    if not isinstance(section, dict):
        return None
    try:
        return validate(DisclosureSettings, section, str)
    except ConfigError:
        return None


def _address(folder: Path) -> str:
    """The server's address; empty if the site's files do not say it."""
    try:
        return files.read_environment(folder).get("SUPERLINK", "")
    except ConfigError:
        return ""


def _certificate(folder: Path) -> str:
    """SHA-256 of the certificate by which the site checks the server; empty without TLS."""
    try:
        return hashlib.sha256((folder / files.SITE_CA).read_bytes()).hexdigest()
    except OSError:
        return ""
