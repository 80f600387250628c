"""What a server, or a site, knows of a federation: who takes part, who is refused, and why.

The state is a small JSON file that ``fedkin deploy status``, ``fedkin deploy up`` and live pages
read. Nothing else depends on it, and a run goes on where it cannot be written.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_log = logging.getLogger("fedkin")
SITE_STATE = ".site.json"  # in the folder of a site


@dataclass(frozen=True)
class FederationState:
    """A federation as its server sees it, or as one of its sites does.

    Attributes:
        accepted: names of the sites that take part.
        ready: names of the sites that may take part, and wait with the server for others.
        refused: why each of these sites may not take part, by name.
        failing: why the last request to each of these sites failed, by name; they take part.
        waiting: what the server waits for; empty where it does not wait.
        error: why the server has ended, or the site cannot take part; empty otherwise.
    """

    accepted: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""
    error: str = ""

    def lines(self) -> list[str]:
        """A line about each refusal and failure, and about the end of the server."""
        lines = [f"{name} is refused: {reason}" for name, reason in self.refused.items()]
        lines += [f"{name} has failed: {reason}" for name, reason in self.failing.items()]
        if self.error:
            lines.append(f"error: {self.error}")
        return lines


def server_state_file(run_folder: Path) -> Path:
    """The file of a server's state: the hidden ``.NAME.sites.json`` beside the run folder NAME."""
    return run_folder.with_name(f".{run_folder.name}.sites.json")


def read_state(path: Path) -> FederationState:
    """The state in a file; an empty one where the file is missing or cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return FederationState(
            accepted=tuple(map(str, values["accepted"])),
            ready=tuple(map(str, values["ready"])),
            refused=_texts(values["refused"]),
            failing=_texts(values["failing"]),
            waiting=str(values["waiting"]),
            error=str(values["error"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return FederationState()


def write_state(path: Path, state: FederationState) -> None:
    """Put a state into its file. A file that cannot be written is a warning."""
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        reason = error.strerror
        _log.warning("%s cannot be written (%s): status does not show refused sites", path, reason)


def remove_state(path: Path) -> None:
    """Remove the file of a state, if there is one that can be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror
        _log.warning("%s cannot be removed (%s): status shows old refusals", path, reason)


def _texts(values: Any) -> dict[str, str]:
    return {str(name): str(reason) for name, reason in values.items()}
