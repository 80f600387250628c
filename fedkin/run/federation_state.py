"""State of a federation as its server or a site sees it: accepted, waiting and refused sites.

The state is a small JSON file that ``fedkin deploy status``, ``fedkin deploy up`` and live pages
read. A run does not depend on the file, and continues if it cannot be written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedkin.core.errors import StorageError
from fedkin.core.storage import storage_errors, write_atomic

_log = logging.getLogger("fedkin")
SITE_STATE = ".site.json"  # file in the folder of a site
NOT_STARTED = "fedkin deploy up has started nothing: "  # begins ``end`` if checks have failed


@dataclass(frozen=True)
class FederationState:
    """The state of a federation, as its server or one of its sites sees it.

    Attributes:
        accepted: names of the sites that take part.
        ready: names of the sites that may take part, and wait until enough sites are online.
        refused: reason for each refused site, by name.
        failing: reason why the last request to a site failed, by name. These sites still take part.
        waiting: the event that the server waits for; empty if it does not wait.
        error: reason why the server has ended, or why the site cannot take part; otherwise empty.
        nodes: Flower's node id of each accepted site at its last contact, by name.
        failed_checks: reason for each part of the deployment (e.g. the server or a site) that
            failed a check of ``fedkin deploy up``, by the part's name. If a check fails, the
            command starts nothing.
    """

    accepted: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""
    error: str = ""
    nodes: Mapping[str, int] = field(default_factory=dict)
    failed_checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """The reason why there is no run: the server's error, or the failed checks; empty if there
        is a run."""
        if self.error or not self.failed_checks:
            return self.error
        reasons = "; ".join(f"{part}: {reason}" for part, reason in self.failed_checks.items())
        return f"{NOT_STARTED}{reasons}"

    def lines(self) -> list[str]:
        """Lines of text: one for each refused or failing site, and one for an error of the
        server."""
        lines = [f"{name} is refused: {reason}" for name, reason in self.refused.items()]
        lines += [f"{name} has failed: {reason}" for name, reason in self.failing.items()]
        if self.end:
            lines.append(f"error: {self.end}")
        return lines


def server_state_file(run_folder: Path) -> Path:
    """The file of a server's state: the hidden file ``.NAME.sites.json`` next to the run folder
    NAME."""
    return run_folder.with_name(f".{run_folder.name}.sites.json")


def read_state(path: Path) -> FederationState:
    """Read a federation's state from a file. A missing or unreadable file gives an empty state."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return FederationState(
            accepted=tuple(map(str, values["accepted"])),
            ready=tuple(map(str, values["ready"])),
            refused=_texts(values["refused"]),
            failing=_texts(values["failing"]),
            waiting=str(values["waiting"]),
            error=str(values["error"]),
            nodes={str(name): int(node) for name, node in values["nodes"].items()},
            failed_checks=_texts(values["failed_checks"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return FederationState()


def write_state(path: Path, state: FederationState) -> None:
    """Write a federation's state to a file. A failure only logs a warning."""
    try:
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(state), indent=1))
    except StorageError as error:
        _log.warning("%s: `fedkin deploy status` cannot show refused sites", error)


def remove_state(path: Path) -> None:
    """Remove a state's file. A failure only logs a warning."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror
        _log.warning(
            "%s cannot be removed (%s), so `fedkin deploy status` still shows earlier refusals",
            path,
            reason,
        )


def _texts(values: Any) -> dict[str, str]:
    """A mapping from names (of sites or of parts of the deployment) to reasons, e.g. of a refusal,
    as read from the file of a federation's state. All keys and values are converted to text."""
    return {str(name): str(reason) for name, reason in values.items()}
