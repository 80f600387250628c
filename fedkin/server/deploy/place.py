"""Detects copied and moved deployments, whose files contain the path of their former folder.

A copy has the keys, port and sites of the original, and its files contain the original's path, so
it is refused. The files of a moved folder are updated to the new path. A folder also counts as
moved if a new deployment, with different keys, is at its former path.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.config.loader import read_toml
from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import shell_command
from fedkin.core.storage import write_atomic
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check_result import CheckResult, doubtful, failed
from fedkin.server.deploy.compose import COMPOSE
from fedkin.server.deploy.selection import select

NAME = "folder"  # name of the check


def recorded_folder(folder: Path) -> Path | None:
    """The folder path recorded in a deployment's files; None if no file records one.

    Args:
        folder: the deployment's present folder.
    """
    app: Any = _content(folder / files.APP)
    config = _entry(app, ("tool", "flwr", "app", "config", "config"))
    if isinstance(config, str) and Path(config).is_absolute():
        return Path(config).parent
    flower: Any = _content(folder / files.FLOWER)
    ca = _entry(flower, ("superlink", files.CONNECTION, "root-certificates"))
    if isinstance(ca, str) and Path(ca).is_absolute():
        return Path(ca).parent.parent
    return None


def original_of(folder: Path) -> Path | None:
    """The deployment that a folder was copied from; None if it is not a copy.

    Args:
        folder: folder of a deployment, or of a site in it.
    """
    for place in (folder, folder.absolute().parent):
        recorded = recorded_folder(place)
        if recorded is not None and _is_copy(place, recorded):
            return recorded
    return None


def moved_from(folder: Path) -> Path | None:
    """The former folder of a moved deployment; None if it was not moved."""
    recorded = recorded_folder(folder)
    if recorded is None or _same(recorded, folder) or _is_copy(folder, recorded):
        return None
    return recorded


def check_place(folder: Path) -> CheckResult:
    """Check that a deployment's files name its folder. A copy fails, a moved folder is doubtful."""
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
    """The message that refuses a copied deployment and says what to do instead."""
    start = f"fedkin deploy up {shlex.quote(str(original))}"
    new = f"fedkin deploy init {shlex.quote(f'{folder.name}-new')} --port PORT"
    return (
        f"{folder} is a copy of {original} and has the same keys, port and sites, so nothing is "
        f"started. Start the original ({start}), or make a new deployment ({new}) and copy "
        "server.toml and the sites' data into it. To use the copy in place of the original, move "
        "the original away first "
        f"({shell_command('mv', original, original.with_name(f'{original.name}-old'))})"
    )


def refuse_copy(folder: Path) -> None:
    """Raise ConfigError if a folder is a copy of another deployment."""
    original = original_of(folder)
    if original is not None:
        raise ConfigError(copy_message(folder, original))


def settle(folder: Path) -> Path | None:
    """Write the new path of a moved deployment into its files.

    Returns:
        The former folder; None if the deployment was not moved.

    Raises:
        ConfigError: the new path cannot be written in a file's format.
        StorageError: a file cannot be written.
    """
    former = moved_from(folder)
    if former is None:
        return None
    present = folder.absolute()
    for path in (folder / name for name in (files.APP, files.FLOWER, COMPOSE)):
        _replace(path, str(former), str(present))
    write_atomic(folder / files.COMMANDS, _commands(folder))
    if moved_from(folder) is not None:
        raise ConfigError(
            f"{folder / files.APP}: the folder was moved from {former}; write "
            f'config = "{folder.absolute() / files.SERVER}" under [tool.flwr.app.config]'
        )
    return former


def _replace(path: Path, former: str, present: str) -> None:
    """Replace a deployment's former folder in the quoted paths of a file, if the file exists.

    Only quoted paths are replaced, because other text may begin with the folder's path.
    """
    if not path.exists():
        return
    pattern = rf"""(?<=["']){re.escape(former)}(?=[/"'])"""
    text = re.sub(pattern, lambda match: present, path.read_text(encoding="utf-8"))
    write_atomic(path, text)


def _commands(folder: Path) -> str:
    """Content of ``COMMANDS.md``, as ``fedkin deploy init`` writes it."""
    address = files.read_address(folder / files.FLOWER)
    return files.commands_page(folder, address, [*select(folder).sites])


def _is_copy(folder: Path, original: Path) -> bool:
    """Whether a deployment is a copy of the deployment in another folder.

    A copy has the same certificate authority as its original. Without keys, the settings of the
    server or of a site are compared instead.
    """
    if _same(folder, original) or not (original / files.SERVER).exists():
        return False
    if (folder / files.CA).exists() or (original / files.CA).exists():
        return _same_content(folder / files.CA, original / files.CA)
    settings = [files.SERVER]
    for path in folder.glob(f"*/{files.CLIENT}"):
        settings.append(f"{path.parent.name}/{files.CLIENT}")
    return any(_same_content(folder / name, original / name) for name in settings)


def _same_content(one: Path, other: Path) -> bool:
    """Whether two files exist and have the same content."""
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same folder, for example through a link."""
    return one.resolve() == other.resolve()


def _content(path: Path) -> Any:
    """The content of a TOML file; empty if it cannot be read, which another check reports."""
    try:
        return read_toml(path)
    except ConfigError:
        return {}


def _entry(values: Any, keys: Sequence[str]) -> Any:
    """The value under a sequence of keys in nested tables; None if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values
