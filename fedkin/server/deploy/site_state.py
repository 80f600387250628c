"""Stores why a site was refused: in the site's log, and in the file that ``fedkin deploy status``
reads."""

from __future__ import annotations

import logging
from pathlib import Path

from fedkin.run.federation_state import (
    SITE_STATE,
    FederationState,
    read_state,
    remove_state,
    write_state,
)
from fedkin.server.deploy.deployment_folder import CLIENT
from fedkin.server.deploy.worker_link import site_name

_log = logging.getLogger("fedkin")


def name_of(site: Path) -> str:
    """The name in a site's client.toml; the folder's name if the file cannot be read."""
    return site_name(site / CLIENT) or site.name


def note_refusal(folder: Path, reason: str) -> None:
    """Log and store why a site refused a message or cannot take part.

    Args:
        folder: folder of the site.
        reason: one line. An empty reason says that the site has answered a message, and removes an
            earlier reason.
    """
    before = site_refusal(folder)
    if reason and reason != before:
        _log.error("this site is refused: %s", reason)
        write_state(folder / SITE_STATE, FederationState(error=reason))
    elif before and not reason:
        _log.info("this site is no longer refused")
        remove_state(folder / SITE_STATE)


def site_refusal(folder: Path) -> str:
    """Why a site refused the last message or cannot take part; empty if it takes part."""
    return read_state(folder / SITE_STATE).error
