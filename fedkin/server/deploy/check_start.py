"""The checks that ``fedkin deploy up`` makes before it starts anything.

Failed checks are stored, so that ``fedkin deploy status`` and ``logs`` show them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.core.storage import append_line
from fedkin.run.federation_state import (
    SITE_STATE,
    FederationState,
    read_state,
    remove_state,
    server_state_file,
    write_state,
)
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check import (
    Table,
    check_server,
    check_shared_sites,
    check_site,
    needs_torch,
    versions,
)
from fedkin.server.deploy.check_result import CheckResult
from fedkin.server.deploy.processes import Program
from fedkin.server.deploy.selection import Selection
from fedkin.server.deploy.site_state import name_of
from fedkin.server.deploy.start_parts import Missing

_SERVER = "server"  # name of the server in the table of checks


def refuse_failed_checks(selection: Selection, missing: Missing) -> None:
    """Check everything that will be started, as ``fedkin deploy check`` does.

    Args:
        selection: the selected parts of the deployment (server, sites).
        missing: the parts to start.

    Raises:
        ConfigError: a check failed; the message gives the reasons for each part.
    """
    refused = {where: _reasons(results) for where, results in _table(selection, missing).items()}
    refused = {where: reasons for where, reasons in refused.items() if reasons}
    _keep(selection, missing, refused)
    if refused:
        found = "; ".join(f"{where} is refused: {reasons}" for where, reasons in refused.items())
        raise ConfigError(f"nothing was started: {found}")


def _table(selection: Selection, missing: Missing) -> Table:
    """The results of the checks of this machine, and of the server and the sites that will be
    started, by name."""
    starts_server = missing.superlink or missing.run
    folders = [part.folder for part in missing.sites]
    if starts_server:
        folders.insert(0, selection.folder)
    table: Table = {"this machine": versions(needs_torch(folders))}
    if starts_server:
        table[_SERVER] = check_server(selection.folder)
    # Sites are compared with server.toml even if the server runs already.
    server = selection.folder if selection.holds_server else None
    for part in missing.sites:
        table[part.name] = check_site(part.folder, server)
    # Sites that run already are compared too, but a start is refused only for new ones.
    for name, result in check_shared_sites(selection.sites).items():
        if name in table:
            table[name].append(result)
    return table


def _reasons(results: list[CheckResult]) -> str:
    """The failed checks among the results for the server or a site, as one line; empty if none
    failed."""
    failed = [result for result in results if result.mark == "✗"]
    return "; ".join(map(_reason, failed))


def _reason(result: CheckResult) -> str:
    """The detail of a check, with the check's name in front unless it is there already."""
    place = f"{result.name}: "
    return result.detail if result.detail.startswith(place) else f"{place}{result.detail}"


def _keep(selection: Selection, missing: Missing, refused: dict[str, str]) -> None:
    """Store failed checks for ``fedkin deploy status`` and ``logs``, and remove failed checks of an
    earlier start.

    Args:
        selection: the selected parts of the deployment (server, sites).
        missing: the parts to start.
        refused: the reasons for the server and each site with failed checks, by name.
    """
    for part in missing.sites:
        reason = refused.get(part.name, "")
        _keep_one(part.folder / SITE_STATE, FederationState(error=reason))
        if reason:
            _log_refusal(part.log, reason)
    if not selection.holds_server:
        return
    if missing.run and refused:
        reasons = "; ".join(f"{where}: {reason}" for where, reason in refused.items())
        _log_refusal(selection.folder / files.SERVER_LOG, reasons)
    try:
        run_folder = Path(load_server(selection.folder / files.SERVER).federation.folder)
    except FedkinError:
        # The folder is unknown, and the refusals already include this error.
        return
    path = server_state_file(run_folder)
    if missing.run:
        # The server's state lists sites by the name in client.toml, the checks by folder.
        sites = {
            name_of(site): refused[name]
            for name, site in selection.sites.items()
            if name in refused
        }
        _keep_one(path, FederationState(refused=sites, failed_checks=refused))
    else:
        _forget_mended(path, [part for part in missing.sites if part.name not in refused])


def _forget_mended(path: Path, mended: list[Program]) -> None:
    """Remove the stored failures of sites whose checks pass now, from the server's state.

    It is called if ``fedkin deploy up`` starts sites but no run (e.g. with ``--site``). Failures of
    other sites stay. An ``up`` that starts the run replaces all failures.

    Args:
        path: the file with the server's state.
        mended: the sites that pass now.
    """
    state = read_state(path)
    # Without failed checks there is nothing to remove, and a running server may own the file.
    if not state.failed_checks:
        return
    # `refused` lists sites by the name in client.toml, `failed_checks` by folder.
    names = {name_of(part.folder) for part in mended}
    parts = {part.name for part in mended}
    left = replace(
        state,
        refused={name: reason for name, reason in state.refused.items() if name not in names},
        failed_checks={
            part: reason for part, reason in state.failed_checks.items() if part not in parts
        },
    )
    _keep_one(path, left)


def _keep_one(path: Path, state: FederationState) -> None:
    """Store a state of the server or a site in its file. An empty state (no failures, no error)
    removes the file."""
    if state == FederationState():
        remove_state(path)
    else:
        write_state(path, state)


def _log_refusal(log: Path, reason: str) -> None:
    """Append to a log the reason why ``fedkin deploy up`` starts nothing."""
    append_line(
        log,
        f"{time.strftime('%H:%M:%S')} fedkin ERROR: fedkin deploy up refuses to start: {reason}",
    )
