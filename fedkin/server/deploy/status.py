"""``fedkin deploy status`` and ``logs``: which parts run here, how far the run is, and what they have written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.run.run_folder import METRICS, SUMMARY, against_folder, read_config
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.processes import SERVERAPP, SUPERLINK, Part, Process, find, leaders, require_proc
from fedkin.server.deploy.selection import Selection, select
from fedkin.server.deploy.start_parts import parts_of

UP, DOWN = "up", "down"
_PAUSE = 0.3  # seconds between looks at a log
_RUN_TIMEOUT = 120.0  # seconds in which a run's process must come


@dataclass(frozen=True)
class PartStatus:
    """One line of the status."""

    name: str
    state: str
    processes: list[int]
    detail: str


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
    lines = [_part(part, own) for part, own in processes.items()]
    return lines + ([_run(selection, processes)] if selection.server else [])


def log_lines(
    folder: Path, names: list[str], lines: int, follow: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """The last lines of the parts' logs, with the name of the part in front; with ``follow``, all that come after.

    Args:
        folder: of the deployment, or of one site.
        names: of parts; none: all.
        lines: how many of each.
        follow: go on for ever.
        sleep: waits so many seconds.

    Raises:
        ConfigError: the folder holds no deployment, or no such part.
    """
    parts = {part.name: part for part in parts_of(select(folder))}
    if wrong := set(names) - set(parts):
        raise ConfigError(f"{folder}: there is no {sorted(wrong)[0]}; there is: {', '.join(parts)}")
    own = [part for part in parts.values() if not names or part.name in names]
    width = max(len(part.name) for part in own)
    offsets: dict[Part, int] = {}
    for part in own:
        text = part.log.read_bytes() if part.log.exists() else b""
        offsets[part] = len(text)
        yield from _named(part, text.decode(errors="replace").splitlines()[-lines:] if lines else [], width)
    while follow:
        for part in own:
            fresh, offsets[part] = _fresh(part.log, offsets[part])
            yield from _named(part, fresh, width)
        sleep(_PAUSE)


def wait_for_run(folder: Path, say: Callable[[str], None]) -> bool:
    """Wait until the run of a deployment has ended; whether it has its results.

    Args:
        folder: of the deployment.
        say: takes each line that the server logs about the run meanwhile.
    """
    part = Part(folder.resolve(), SUPERLINK)
    offset = part.log.stat().st_size if part.log.exists() else 0
    seen, end = False, time.monotonic() + _RUN_TIMEOUT
    while True:
        own = find([part])[part]
        runs = any(SERVERAPP in process.command for process in own)
        seen |= runs
        fresh, offset = _fresh(part.log, offset)
        for line in fresh:
            if " fedkin " in line:
                say(line)
        if not own or (not runs and (seen or is_finished(folder) or time.monotonic() > end)):
            return is_finished(folder)
        time.sleep(_PAUSE)


def is_finished(folder: Path) -> bool:
    """Whether the run of a server's folder, and those beside it, have their results for all rounds configured."""
    config = load_server(folder / files.SERVER)
    out = Path(config.federation.folder)
    runs = [out, *(against_folder(out, entry["name"]) for entry in config.against)]
    if not all((run / SUMMARY).exists() for run in runs):
        return False
    return all(read_config(run).get("run", {}).get("rounds") == config.run.rounds for run in runs)


def _fresh(log: Path, offset: int) -> tuple[list[str], int]:
    """The whole lines of a log after so many bytes, and where they end."""
    data = log.read_bytes()[offset:] if log.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), offset + len(whole)


def _named(part: Part, lines: list[str], width: int) -> Iterator[str]:
    yield from (f"{part.name:<{width}} | {line}" for line in lines)


def _part(part: Part, own: list[Process]) -> PartStatus:
    programs = leaders(own)
    if not programs:
        return PartStatus(part.name, DOWN, [p.number for p in own], "" if not own else "what it has started is left")
    minutes = (time.time() - programs[0].started) / 60
    return PartStatus(part.name, UP, [p.number for p in own], f"for {minutes:.0f} min, log in {part.log}")


def _run(selection: Selection, processes: dict[Part, list[Process]]) -> PartStatus:
    """How far the run is, by its folder."""
    own = [p for part, all_of in processes.items() if part.kind == SUPERLINK for p in all_of if SERVERAPP in p.command]
    try:
        config = load_server(selection.folder / files.SERVER)
    except FedkinError as error:
        return PartStatus("run", DOWN, [], str(error))
    out, rounds = Path(config.federation.folder), config.run.rounds
    entries = [(config.method, out), *((entry, against_folder(out, entry["name"])) for entry in config.against)]
    detail = ", ".join(f"{entry['name']} {_progress(run, rounds)}" for entry, run in entries)
    return PartStatus("run", UP if own else DOWN, [p.number for p in own], f"{detail}; in {out}")


def _progress(run: Path, rounds: int) -> str:
    if (run / SUMMARY).exists():
        return "finished"
    path = run / METRICS
    done = len(path.read_bytes().splitlines()) - 1 if path.exists() else -1
    return f"round {done} of {rounds}" if done >= 0 else "not begun"
