"""Whether a deployment is a copy of another one, or was moved: its files name their folder.

A copy has the keys, the port and the sites of the original, and its files name the original's
folder. So it is refused. A folder that was moved gets its new path written into its files.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from fedkin.config.loader import read_toml
from fedkin.core.errors import ConfigError
from fedkin.core.storage import write_atomic
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check_result import CheckResult, doubtful, failed

NAME = "folder"  # of the check
_COMPOSE = "compose.yaml"


def recorded_folder(folder: Path) -> Path | None:
    """The folder for which a deployment's files were written; None where none of them names it.

    Args:
        folder: of the deployment, as it is now.
    """
    app: Any = _content(folder / files.APP)
    config = _entry(app, "tool", "flwr", "app", "config", "config")
    if isinstance(config, str) and Path(config).is_absolute():
        return Path(config).parent
    flower: Any = _content(folder / files.FLOWER)
    ca = _entry(flower, "superlink", files.CONNECTION, "root-certificates")
    if isinstance(ca, str) and Path(ca).is_absolute():
        return Path(ca).parent.parent
    return None


def original_of(folder: Path) -> Path | None:
    """The deployment of which a folder is a copy; None where it is no copy.

    Args:
        folder: of a deployment, or of a site in it.
    """
    for place in (folder, folder.absolute().parent):
        recorded = recorded_folder(place)
        if recorded is not None and not _same(recorded, place) and (recorded / files.SERVER).exists():
            return recorded
    return None


def moved_from(folder: Path) -> Path | None:
    """The folder from which a deployment was moved here; None where it was not moved."""
    recorded = recorded_folder(folder)
    if recorded is None or _same(recorded, folder) or (recorded / files.SERVER).exists():
        return None
    return recorded


def check_place(folder: Path) -> CheckResult:
    """Whether a deployment's files name its own folder: a copy fails, a moved one is doubtful."""
    original = original_of(folder)
    if original is not None:
        return failed(NAME, copy_message(folder, original))
    former = moved_from(folder)
    if former is not None:
        where = shlex.quote(str(folder))
        cure = f"fedkin deploy up {where} writes its new path into its files"
        return doubtful(NAME, f"was moved from {former}: {cure}")
    return CheckResult(NAME, str(folder.absolute()))


def copy_message(folder: Path, original: Path) -> str:
    """Why a copy is not started, and what to do instead."""
    start = f"fedkin deploy up {shlex.quote(str(original))}"
    new = f"fedkin deploy init {shlex.quote(f'{folder.name}-new')} --port PORT"
    return (
        f"{folder} is a copy of {original}, and has its keys, its port and its sites, so that nothing is "
        f"started. Start the original ({start}), or make a new deployment ({new}) and copy server.toml "
        "and the sites' data into it; if the copy is to take the original's place, remove "
        f"{original / files.SERVER}"
    )


def refuse_copy(folder: Path) -> None:
    """Raises ConfigError for a copy of another deployment."""
    original = original_of(folder)
    if original is not None:
        raise ConfigError(copy_message(folder, original))


def settle(folder: Path) -> Path | None:
    """Write the path of a deployment that was moved into its files.

    Returns:
        The folder from which it was moved; None where it was not moved.

    Raises:
        ConfigError: a file does not take the new path.
        StorageError: a file cannot be written.
    """
    former = moved_from(folder)
    if former is None:
        return None
    present = folder.absolute()
    for path in (folder / name for name in (files.APP, files.FLOWER, _COMPOSE)):
        _replace(path, str(former), str(present))
    _replace(folder / files.COMMANDS, shlex.quote(str(former)), shlex.quote(str(present)))
    if moved_from(folder) is not None:
        raise ConfigError(
            f"{folder / files.APP}: the folder was moved from {former}; write "
            f'config = "{folder.absolute() / files.SERVER}" under [tool.flwr.app.config]'
        )
    return former


def _replace(path: Path, former: str, present: str) -> None:
    """Replace a text in a file, if there is one."""
    if path.exists():
        write_atomic(path, path.read_text(encoding="utf-8").replace(former, present))


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _content(path: Path) -> Any:
    """The content of a TOML file; nothing where it cannot be read, which its own check reports."""
    try:
        return read_toml(path)
    except ConfigError:
        return {}


def _entry(values: Any, *keys: str) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values
