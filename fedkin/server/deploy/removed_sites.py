"""The sites that were removed from a deployment: when, and where their folders are kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError
from fedkin.core.storage import storage_errors, write_atomic

REMOVED = Path("removed")  # folder of the deployment that keeps the folders of removed sites
_RECORD = REMOVED / "sites.json"


@dataclass(frozen=True)
class RemovedSite:
    """A site that was removed.

    Attributes:
        name: name under which the server knows the site.
        date: day of the removal, such as 2026-11-28.
        folder: the folder that is kept, relative to the deployment's folder; empty if the site had
            no folder on the server's machine.
    """

    name: str
    date: str
    folder: str


def removed_sites(folder: Path) -> dict[str, RemovedSite]:
    """The removed sites of a deployment, by the name of their former folders.

    Raises ConfigError if the file that lists them cannot be read.
    """
    path = folder / _RECORD
    if not path.exists():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): RemovedSite(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); put it back from a backup, or remove it: then "
            "fedkin forgets which sites were removed, but the server still refuses their keys"
        ) from error


def removed_names(folder: Path) -> set[str]:
    """The names under which the server knows the removed sites of a deployment; empty if the list
    cannot be read."""
    try:
        return {site.name for site in removed_sites(folder).values()}
    except ConfigError:
        return set()


def write_removed_sites(folder: Path, sites: dict[str, RemovedSite]) -> None:
    """Store the removed sites of a deployment. Raises StorageError if that fails."""
    path = folder / _RECORD
    with storage_errors(path):
        path.parent.mkdir(exist_ok=True)
    entries = {name: asdict(site) for name, site in sites.items()}
    write_atomic(path, json.dumps(entries, indent=1))
