"""What ``fedkin deploy up`` says once all programs run: who takes part, and who is refused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from fedkin.config.server import load_server
from fedkin.run.federation_state import FederationState, read_state, server_state_file
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.processes import SERVERAPP, SUPERLINK, Part, find
from fedkin.server.deploy.selection import Selection
from fedkin.server.deploy.site_state import name_of, site_refusal
from fedkin.server.deploy.start_parts import Say

_START, _TIMEOUT = 60.0, 60.0  # seconds in which the run's process comes, and then the verdicts
_READY = 5.0  # seconds after the last verdict, from which on a site that is ready waits for others
_PAUSE = 0.2  # seconds between looks


def say_who_takes_part(selection: Selection, sites: Sequence[Part], say: Say) -> bool:
    """Wait until the server has accepted or refused each of these sites, and say so.

    Returns False where the server refuses one, or has ended by an error.

    Args:
        selection: the selected parts; without the server nothing is waited for.
        sites: those that were started.
        say: takes a line about each.
    """
    if not selection.server:
        return True
    path = server_state_file(Path(load_server(selection.folder / files.SERVER).federation.folder))
    superlink = Part(selection.folder.resolve(), SUPERLINK)
    open_sites = {name_of(part.folder): part for part in sites}
    refused = 0
    start = time.monotonic()
    last = start + _START  # when the last verdict came, or the first is due
    seen = False
    while True:
        state = read_state(path)
        for name in list(open_sites):
            waits = bool(state.refused) or time.monotonic() - last > _READY
            verdict = _verdict(name, open_sites[name], state, waits)
            if verdict:
                last = time.monotonic()
                say(verdict)
                refused += name in state.refused
                del open_sites[name]
        if state.error:
            say(f"the run has ended: {state.error}")
            return False
        runs = any(SERVERAPP in process.command for process in find([superlink])[superlink])
        seen |= runs
        seconds = time.monotonic() - start
        if not open_sites or (not runs and (seen or seconds > _START)) or seconds > _START + _TIMEOUT:
            break
        time.sleep(_PAUSE)
    for part in open_sites.values():
        say(_open(part, selection.folder))
    return not refused


def _verdict(name: str, part: Part, state: FederationState, waits: bool) -> str:
    """The line about a site; empty as long as the server has not decided.

    Args:
        name: of the site.
        part: its program.
        state: what the server knows.
        waits: whether a site that is ready has to wait for others, and not only for a moment.
    """
    if name in state.refused:
        return f"{part.name} is refused: {state.refused[name]}"
    if name in state.accepted:
        return f"{part.name}: takes part"
    return f"{part.name}: is ready, and the server waits for others" if waits and name in state.ready else ""


def _open(part: Part, folder: Path) -> str:
    """The line about a site of which the server has not said anything."""
    reason = site_refusal(part.folder)
    if reason:
        return f"{part.name} is refused: {reason}"
    return f"{part.name}: the server has not said whether it takes part; see fedkin deploy status {folder}"
