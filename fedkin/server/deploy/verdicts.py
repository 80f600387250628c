"""Waits until the server has accepted or refused each site that ``fedkin deploy up`` has started,
and reports the outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from fedkin.config.server import load_server
from fedkin.run.federation_state import FederationState, read_state, server_state_file
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.processes import SERVERAPP, SUPERLINK, Program, find
from fedkin.server.deploy.selection import Selection
from fedkin.server.deploy.site_state import name_of, site_refusal
from fedkin.server.deploy.start_parts import Missing, Say

_START = 60.0  # seconds within which the run's process must appear
_TIMEOUT = 60.0  # further seconds within which the server must accept or refuse each site
_READY = 5.0  # seconds after the last verdict; then a ready site is reported as waiting for others
_PAUSE = 0.2  # seconds between polls


@dataclass(frozen=True)
class Former:
    """The server's state before ``up`` started any site, to be compared with later states.

    Attributes:
        state: state of the server.
        same_ids: whether a site that is started again keeps its node id, because its key determines
            the id.
    """

    state: FederationState
    same_ids: bool

    def refusal(self, name: str, state: FederationState) -> str:
        """Why the server has refused a site since its start; empty if it has not.

        A refusal with the same reason as before the start does not count. The state lists a refusal
        under the site's name, or as ``NAME (node ID)`` if another node was accepted with this name.

        Args:
            name: name of the site.
            state: present state of the server.
        """
        for label, reason in state.refused.items():
            is_own = label == name or label.startswith(f"{name} (node ")
            if is_own and self.state.refused.get(label) != reason:
                return reason
        return ""

    def accepts(self, name: str, state: FederationState) -> bool:
        """Whether the server has accepted a site since the site was started.

        Args:
            name: name of the site.
            state: present state of the server.
        """
        if name not in state.accepted or name in state.refused:
            return False
        if name not in self.state.accepted or self.same_ids:
            return True
        # It was accepted before as well; a new node id shows that it has come again.
        return state.nodes.get(name) != self.state.nodes.get(name)


def former_state(selection: Selection, missing: Missing) -> Former:
    """The server's state before any site is started; empty if the run is started too.

    Args:
        selection: the selected parts of the deployment (server, sites).
        missing: the parts that will be started.
    """
    if not selection.server or missing.run:
        return Former(FederationState(), same_ids=False)
    address = files.read_address(selection.folder / files.FLOWER)
    return Former(read_state(_state_file(selection)), same_ids=address.secure)


def say_who_takes_part(selection: Selection, missing: Missing, former: Former, say: Say) -> bool:
    """Wait until the server has accepted or refused each started site, and report it.

    Args:
        selection: the selected parts of the deployment. Without the server there is nothing to wait
            for.
        missing: the parts that were started.
        former: the server's state before the sites were started.
        say: called with a line about each site.

    Returns:
        True on success; False if the server refuses a site, or has ended with an error.
    """
    if not selection.server:
        return True
    superlink = Program(selection.folder.resolve(), SUPERLINK)
    if not missing.run and not _runs(superlink):
        say(
            "the run is finished, so the sites have nothing to do; for more rounds raise run.rounds"
        )
        return True
    path = _state_file(selection)
    # Sites that the server has neither accepted nor refused yet.
    open_sites = {name_of(part.folder): part for part in missing.sites}
    refused = 0  # number of refused sites
    start = time.monotonic()
    last = start + _START  # time of the last verdict, or deadline of the first
    seen = not missing.run  # whether the run's process has appeared
    while True:
        state = read_state(path)
        for name in list(open_sites):
            # A ready site may still be refused or accepted within seconds; then that is reported.
            waits = bool(state.refused) or time.monotonic() - last > _READY
            reason = former.refusal(name, state)
            verdict = f" is refused: {reason}" if reason else _verdict(name, state, former, waits)
            if verdict:
                last = time.monotonic()
                say(f"{open_sites.pop(name).name}{verdict}")
                refused += bool(reason)
        if state.error:
            say(f"the run has ended: {state.error}")
            return False
        runs = _runs(superlink)
        seen |= runs
        seconds = time.monotonic() - start
        run_is_gone = not runs and (seen or seconds > _START)
        if not open_sites or run_is_gone or seconds > _START + _TIMEOUT:
            break
        time.sleep(_PAUSE)
    for name, part in open_sites.items():
        reason = state.refused.get(name) or site_refusal(part.folder)
        refused += bool(reason)
        say(_open(part, selection.folder, reason))
    return not refused


def _state_file(selection: Selection) -> Path:
    """The file in which the deployment's server keeps its state."""
    return server_state_file(Path(load_server(selection.folder / files.SERVER).federation.folder))


def _runs(superlink: Program) -> bool:
    """Whether the process of the server's run exists on this machine."""
    return any(SERVERAPP in process.command for process in find([superlink])[superlink])


def _verdict(name: str, state: FederationState, former: Former, waits: bool) -> str:
    """The last words of the line that reports a site that is not refused, such as ``: takes part``.
    The text is empty while the server has not decided.

    Args:
        name: name of the site.
        state: present state of the server.
        former: the server's state before the site was started.
        waits: whether to report a ready site as waiting for other sites. It is False for the first
            seconds, unless some site is refused, because the server may still decide about the
            ready site.
    """
    if former.accepts(name, state):
        return ": takes part"
    if waits and name in state.ready:
        return ": is ready, and the server waits for others"
    return ""


def _open(part: Program, folder: Path, reason: str) -> str:
    """The line about a site that the server has neither accepted nor refused since its start.

    Args:
        part: the site.
        folder: folder of the deployment.
        reason: a reason of refusal that the server stored before the site's start, or that the site
            itself has stored; empty if there is none.
    """
    if reason:
        return f"{part.name} is refused: {reason}"
    return (
        f"{part.name}: the server has not reported whether it takes part; see fedkin deploy status "
        f"{folder}"
    )
