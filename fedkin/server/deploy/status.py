"""``fedkin deploy status`` and ``logs``: which parts of a deployment (SuperLink, sites) run, the
run's progress, and the logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedkin.config.server import ServerConfig, load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.run.federation_state import NOT_STARTED, FederationState, read_state, server_state_file
from fedkin.run.folder.run_folder import METRICS, SUMMARY, against_folder, read_config
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.processes import (
    SERVERAPP,
    SITE,
    SUPERLINK,
    Process,
    Program,
    find,
    leaders,
    require_proc,
)
from fedkin.server.deploy.progress import RunProgress
from fedkin.server.deploy.selection import Selection, select
from fedkin.server.deploy.site_state import name_of, site_refusal
from fedkin.server.deploy.start_parts import parts_of

UP = "up"
DOWN = "down"
REFUSED = "refused"
FINISHED = "finished"
RUN = "run"  # the run's name among the parts
_PAUSE = 0.3  # seconds between polls of a log
_RUN_TIMEOUT = 120.0  # seconds within which a run's process must appear


@dataclass(frozen=True)
class PartStatus:
    """One line of the status, about one part of a deployment (SuperLink, site or run).

    Attributes:
        name: name of the part.
        state: ``up``, ``down`` or ``refused``; of a run that has all its rounds, ``finished``.
        processes: ids of the part's processes.
        detail: further facts, for users.
        reason: why a site is refused, why its last reply was an error, or why there is no run;
            otherwise empty.
        place: where more is found: the log of a part that is up, or the run's folder.
    """

    name: str
    state: str
    processes: list[int]
    detail: str
    reason: str = ""
    place: str = ""


def status(folder: Path, *, server: bool = False, site: str | None = None) -> list[PartStatus]:
    """The state of each part of a deployment (SuperLink, sites), and of the run.

    Args:
        folder: folder of the deployment, or of one site.
        server: whether to show only the server.
        site: name of the only site; None for all.

    Raises:
        ConfigError: the folder holds no deployment.
    """
    require_proc()
    selection = select(folder, server=server, site=site)
    processes = find(parts_of(selection))
    state = server_state(selection)
    lines = [_part(part, of_part, state) for part, of_part in processes.items()]
    if not selection.server:
        return lines
    here = {name_of(path) for path in selection.sites.values()}
    # Sites on other machines have no processes here, but the server knows whom it refuses.
    for name, reason in state.refused.items():
        if name not in here:
            lines.append(
                PartStatus(
                    name=name,
                    state=REFUSED,
                    processes=[],
                    detail="on another machine",
                    reason=reason,
                )
            )
    lines.append(_run(selection, processes, state))
    return lines


def reason_line(line: PartStatus) -> str:
    """A line that explains why a site is refused or has failed, or why there is no run."""
    if line.name == RUN and line.reason.startswith(NOT_STARTED):
        return f"the run was not started: {line.reason.removeprefix(NOT_STARTED)}"
    if line.name == RUN:
        return f"the run has ended: {line.reason}"
    if line.state == REFUSED:
        return f"{line.name} is refused: {line.reason}"
    return f"{line.name} has failed: {line.reason}"


def place_line(line: PartStatus) -> str:
    """A line that says where the log of a part is, or the run's folder."""
    return f"{line.name}: {'in' if line.name == RUN else 'log in'} {line.place}"


def server_state(selection: Selection) -> FederationState:
    """The state that a deployment's server has written.

    The state is empty if this folder has no server, or if the server was never started.
    """
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
    """The last lines of the logs of a deployment's parts (SuperLink, run, sites), with the part's
    name in front.

    With ``follow``, new lines are yielded as they are written.

    Args:
        folder: folder of the deployment, or of one site.
        names: names of the parts; empty for all.
        lines: number of lines from each log.
        follow: whether to wait for new lines without end.
        sleep: waits for a number of seconds.

    Raises:
        ConfigError: the folder has no deployment, or a part does not exist.
    """
    logs = logs_of(select(folder))
    if wrong := set(names) - set(logs):
        raise ConfigError(
            f"{folder}: there is no part {sorted(wrong)[0]}; the parts are: {', '.join(logs)}"
        )
    chosen = {name: log for name, log in logs.items() if not names or name in names}
    width = max(len(name) for name in chosen)
    offsets: dict[str, int] = {}
    for name, log in chosen.items():
        text = log.read_bytes() if log.exists() else b""
        offsets[name] = len(text)
        # Zero lines are a special case, because [-0:] would be all of them.
        last = text.decode(errors="replace").splitlines()[-lines:] if lines else []
        yield from _named(name, last, width)
    while follow:
        for name, log in chosen.items():
            fresh, offsets[name] = _fresh(log, offsets[name])
            yield from _named(name, fresh, width)
        sleep(_PAUSE)


def logs_of(selection: Selection) -> dict[str, Path]:
    """The logs of the selected parts of a deployment, by name. The run's log is the server's
    log."""
    logs: dict[str, Path] = {}
    for part in parts_of(selection):
        logs[part.name] = part.log
        if part.kind == SUPERLINK:
            logs[RUN] = selection.folder / files.SERVER_LOG
    return logs


def log_size(folder: Path) -> int:
    """Current size of the server's log in bytes, the ``offset`` for ``wait_for_run``."""
    log = folder / files.SERVER_LOG
    return log.stat().st_size if log.exists() else 0


def wait_for_run(folder: Path, say: Callable[[str], None], offset: int | None = None) -> bool:
    """Wait until a deployment's run has ended.

    Args:
        folder: folder of the deployment.
        say: called with each line that the server logs meanwhile, and with lines about the
            progress. If the run ends without results, the last call gives the reason.
        offset: bytes of the server's log to skip; None for its current size.

    Returns:
        Whether the run has results for all of its rounds.
    """
    part = Program(folder.resolve(), SUPERLINK)
    log = folder / files.SERVER_LOG
    read = log_size(folder) if offset is None else offset
    progress = RunProgress(load_server(folder / files.SERVER))
    seen = False  # whether the run's process has appeared
    end = time.monotonic() + _RUN_TIMEOUT
    while True:
        processes = find([part])[part]
        runs = any(SERVERAPP in process.command for process in processes)
        seen |= runs
        fresh, read = _fresh(log, read)
        for line in fresh:
            say(line)
        state = server_state(select(folder))
        if line := progress.line(state.waiting if runs else ""):
            say(line)
        error = state.end
        if not processes:
            break
        # The run's process has exited, or has not appeared in time.
        if not runs and (seen or error or is_finished(folder) or time.monotonic() > end):
            break
        time.sleep(_PAUSE)
    finished = is_finished(folder)
    if not finished:
        why = error or f"its process has ended; see {log} and {part.log}"
        say(f"error: the run has no results: {why}")
    return finished


def is_finished(folder: Path) -> bool:
    """Whether a server's run, and the runs it is compared with, have results for all configured
    rounds."""
    return _has_all_rounds(load_server(folder / files.SERVER))


def _has_all_rounds(config: ServerConfig) -> bool:
    """Whether the runs of a server's configuration have results for all of its rounds."""
    out = Path(config.federation.folder)
    runs = [out, *(against_folder(out, entry.name) for entry in config.against)]
    if not all((run / SUMMARY).exists() for run in runs):
        return False
    return all(read_config(run).rounds == config.run.rounds for run in runs)


def _fresh(log: Path, offset: int) -> tuple[list[str], int]:
    """The complete lines that a log has after an offset in bytes, and the offset after them. A log
    that is shorter was rotated, and is read from its start."""
    content = log.read_bytes() if log.exists() else b""
    if len(content) < offset:
        offset = 0
    data = content[offset:]
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), offset + len(whole)


def _named(name: str, lines: list[str], width: int) -> Iterator[str]:
    """Lines of a log, each with the name of its part (SuperLink, run or site) in front, filled up
    to ``width`` characters."""
    yield from (f"{name:<{width}} | {line}" for line in lines)


def _part(part: Program, processes: list[Process], state: FederationState) -> PartStatus:
    """The status of a program. A refused site may be up or down, and the detail then says which."""
    programs = leaders(processes)
    place = ""
    if programs:
        running = UP
        place = str(part.log)
        minutes = (time.time() - programs[0].started) / 60
        detail = f"for {minutes:.0f} min"
    else:
        running = DOWN
        detail = "only child processes of this program are left" if processes else ""
    reason = _failure(part, state)
    refusal = _refusal(part, state)
    if refusal:
        detail = f"{running} {detail}".strip()
        running = REFUSED
        reason = refusal
    return PartStatus(
        name=part.name,
        state=running,
        processes=[process.number for process in processes],
        detail=detail,
        reason=reason,
        place=place,
    )


def _refusal(part: Program, state: FederationState) -> str:
    """Why a site is refused; empty if it is not. The server's reason has priority."""
    if part.kind != SITE:
        return ""
    return state.refused.get(name_of(part.folder)) or site_refusal(part.folder)


def _failure(part: Program, state: FederationState) -> str:
    """Why the last request to a participating site failed; empty if it succeeded."""
    return state.failing.get(name_of(part.folder), "") if part.kind == SITE else ""


def _run(
    selection: Selection, processes: dict[Program, list[Process]], state: FederationState
) -> PartStatus:
    """The status line of the run: its processes, and its progress as shown by the run folder."""
    numbers: list[int] = []
    for part, of_part in processes.items():
        if part.kind == SUPERLINK:
            numbers += [process.number for process in of_part if SERVERAPP in process.command]
    try:
        config = load_server(selection.folder / files.SERVER)
    except FedkinError as error:
        return PartStatus(name=RUN, state=DOWN, processes=[], detail="", reason=str(error))
    out = Path(config.federation.folder)
    rounds = config.run.rounds
    runs = [(config.method.name, out)]
    for entry in config.against:
        runs.append((entry.name, against_folder(out, entry.name)))
    detail = ", ".join(f"{name} {_progress(run, rounds)}" for name, run in runs)
    waiting = f"{state.waiting}; " if numbers and state.waiting else ""
    running = UP if numbers else DOWN
    if running == DOWN and not state.end and _has_all_rounds(config):
        running = FINISHED
    return PartStatus(
        name=RUN,
        state=running,
        processes=numbers,
        detail=f"{waiting}{detail}",
        reason=state.end,
        place=str(out),
    )


def _progress(run: Path, rounds: int) -> str:
    """How far a run is, according to the files in its folder."""
    if (run / SUMMARY).exists():
        return "finished"
    # The file has a line for each round, and the first round is 0.
    path = run / METRICS
    done = len(path.read_bytes().splitlines()) - 1 if path.exists() else -1
    return f"round {done} of {rounds}" if done >= 0 else "not begun"
