"""``fedkin deploy status`` and ``logs``: which parts run here, how far the run is, and what they
have written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.run.federation_state import NOT_STARTED, FederationState, read_state, server_state_file
from fedkin.run.folder.run_folder import METRICS, SUMMARY, against_folder, read_config
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.processes import (
    SERVERAPP,
    SITE,
    SUPERLINK,
    Part,
    Process,
    find,
    leaders,
    require_proc,
)
from fedkin.server.deploy.selection import Selection, select
from fedkin.server.deploy.site_state import name_of, site_refusal
from fedkin.server.deploy.start_parts import parts_of

UP = "up"
DOWN = "down"
REFUSED = "refused"
RUN = "run"  # the run's name among the parts
_PAUSE = 0.3  # seconds between looks at a log
_RUN_TIMEOUT = 120.0  # seconds in which a run's process must come


@dataclass(frozen=True)
class PartStatus:
    """One line of the status.

    Attributes:
        name: of the part.
        state: ``up``, ``down`` or ``refused``.
        processes: their ids.
        detail: what else is known.
        reason: why a site is refused or its last reply was an error, or why there is no run; else
            empty.
    """

    name: str
    state: str
    processes: list[int]
    detail: str
    reason: str = ""


def status(folder: Path, *, server: bool = False, site: str | None = None) -> list[PartStatus]:
    """The state of each part, and of the run.

    Args:
        folder: of the deployment, or of one site.
        server: only the server.
        site: name of the only site; None: all.

    Raises:
        ConfigError: the folder holds no deployment.
    """
    require_proc()
    selection = select(folder, server=server, site=site)
    processes = find(parts_of(selection))
    state = server_state(selection)
    lines = [_part(part, own, state) for part, own in processes.items()]
    if selection.server:
        known = {name_of(path) for path in selection.sites.values()}
        lines += [
            PartStatus(name, REFUSED, [], "not of this machine", reason)
            for name, reason in state.refused.items()
            if name not in known
        ]
        lines.append(_run(selection, processes, state))
    return lines


def reason_line(line: PartStatus) -> str:
    """The line about the reason of a part: a site that is refused or has failed, or a run that is
    not there."""
    if line.name == RUN and line.reason.startswith(NOT_STARTED):
        return f"the run was not started: {line.reason.removeprefix(NOT_STARTED)}"
    if line.name == RUN:
        return f"the run has ended: {line.reason}"
    if line.state == REFUSED:
        return f"{line.name} is refused: {line.reason}"
    return f"{line.name} has failed: {line.reason}"


def server_state(selection: Selection) -> FederationState:
    """What the server of a deployment knows of its sites; nothing where no server is here, or it
    was not started."""
    if not selection.holds_server:
        return FederationState()
    try:
        folder = Path(load_server(selection.folder / files.SERVER).federation.folder)
    except FedkinError:
        return FederationState()
    return read_state(server_state_file(folder))


def log_lines(
    folder: Path,
    names: list[str],
    lines: int,
    follow: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """The last lines of the parts' logs, with the name of the part in front; with ``follow``, all
    that come after.

    Args:
        folder: of the deployment, or of one site.
        names: of parts; none: all.
        lines: how many of each.
        follow: go on for ever.
        sleep: waits so many seconds.

    Raises:
        ConfigError: the folder holds no deployment, or no such part.
    """
    logs = logs_of(select(folder))
    if wrong := set(names) - set(logs):
        raise ConfigError(f"{folder}: there is no {sorted(wrong)[0]}; there is: {', '.join(logs)}")
    chosen = {name: log for name, log in logs.items() if not names or name in names}
    width = max(len(name) for name in chosen)
    offsets: dict[str, int] = {}
    for name, log in chosen.items():
        text = log.read_bytes() if log.exists() else b""
        offsets[name] = len(text)
        yield from _named(
            name, text.decode(errors="replace").splitlines()[-lines:] if lines else [], width
        )
    while follow:
        for name, log in chosen.items():
            fresh, offsets[name] = _fresh(log, offsets[name])
            yield from _named(name, fresh, width)
        sleep(_PAUSE)


def logs_of(selection: Selection) -> dict[str, Path]:
    """The logs of the selected parts by name; that of the run is what the server logs about it."""
    logs: dict[str, Path] = {}
    for part in parts_of(selection):
        logs[part.name] = part.log
        if part.kind == SUPERLINK:
            logs[RUN] = selection.folder / files.SERVER_LOG
    return logs


def log_size(folder: Path) -> int:
    """Bytes of the server's log so far, from which ``wait_for_run`` goes on."""
    log = folder / files.SERVER_LOG
    return log.stat().st_size if log.exists() else 0


def wait_for_run(folder: Path, say: Callable[[str], None], offset: int | None = None) -> bool:
    """Wait until the run of a deployment has ended; whether it has its results.

    Args:
        folder: of the deployment.
        say: takes each line that the server logs about the run meanwhile, and at last why a run has
            no results.
        offset: bytes of the server's log that are left out; None: those that are there now.
    """
    part = Part(folder.resolve(), SUPERLINK)
    log = folder / files.SERVER_LOG
    read = log_size(folder) if offset is None else offset
    seen = False
    end = time.monotonic() + _RUN_TIMEOUT
    while True:
        own = find([part])[part]
        runs = any(SERVERAPP in process.command for process in own)
        seen |= runs
        fresh, read = _fresh(log, read)
        for line in fresh:
            say(line)
        error = server_state(select(folder)).end
        if not own or (
            not runs and (seen or error or is_finished(folder) or time.monotonic() > end)
        ):
            break
        time.sleep(_PAUSE)
    finished = is_finished(folder)
    if not finished:
        say(
            "error: the run has no results: "
            f"{error or f'its process has ended; see {log} and {part.log}'}"
        )
    return finished


def is_finished(folder: Path) -> bool:
    """Whether the run of a server's folder, and those beside it, have their results for all rounds
    configured."""
    config = load_server(folder / files.SERVER)
    out = Path(config.federation.folder)
    runs = [out, *(against_folder(out, entry.name) for entry in config.against)]
    if not all((run / SUMMARY).exists() for run in runs):
        return False
    return all(read_config(run).rounds == config.run.rounds for run in runs)


def _fresh(log: Path, offset: int) -> tuple[list[str], int]:
    """The whole lines of a log after so many bytes, and where they end."""
    data = log.read_bytes()[offset:] if log.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), offset + len(whole)


def _named(name: str, lines: list[str], width: int) -> Iterator[str]:
    yield from (f"{name:<{width}} | {line}" for line in lines)


def _part(part: Part, own: list[Process], state: FederationState) -> PartStatus:
    """The status of a program. A site that is refused is so whether it is up or down; the detail
    says which."""
    numbers = [process.number for process in own]
    programs = leaders(own)
    if programs:
        running = UP
        minutes = (time.time() - programs[0].started) / 60
        detail = f"for {minutes:.0f} min, log in {part.log}"
    else:
        running = DOWN
        detail = "what it has started is left" if own else ""
    refusal = _refusal(part, state)
    if not refusal:
        return PartStatus(part.name, running, numbers, detail, _failure(part, state))
    detail = f"{running} {detail}".strip()
    return PartStatus(part.name, REFUSED, numbers, detail, refusal)


def _refusal(part: Part, state: FederationState) -> str:
    """Why a site is refused; the server's word comes first."""
    if part.kind != SITE:
        return ""
    return state.refused.get(name_of(part.folder)) or site_refusal(part.folder)


def _failure(part: Part, state: FederationState) -> str:
    """Why the last request to a site that takes part has failed."""
    return state.failing.get(name_of(part.folder), "") if part.kind == SITE else ""


def _run(
    selection: Selection, processes: dict[Part, list[Process]], state: FederationState
) -> PartStatus:
    """How far the run is, by its folder."""
    own = [
        p
        for part, all_of in processes.items()
        if part.kind == SUPERLINK
        for p in all_of
        if SERVERAPP in p.command
    ]
    try:
        config = load_server(selection.folder / files.SERVER)
    except FedkinError as error:
        return PartStatus(RUN, DOWN, [], "", str(error))
    out = Path(config.federation.folder)
    rounds = config.run.rounds
    entries = [
        (config.method, out),
        *((entry, against_folder(out, entry.name)) for entry in config.against),
    ]
    detail = ", ".join(f"{entry.name} {_progress(run, rounds)}" for entry, run in entries)
    waiting = f"{state.waiting}; " if own and state.waiting else ""
    numbers = [process.number for process in own]
    return PartStatus(RUN, UP if own else DOWN, numbers, f"{waiting}{detail}; in {out}", state.end)


def _progress(run: Path, rounds: int) -> str:
    if (run / SUMMARY).exists():
        return "finished"
    path = run / METRICS
    done = len(path.read_bytes().splitlines()) - 1 if path.exists() else -1
    return f"round {done} of {rounds}" if done >= 0 else "not begun"
