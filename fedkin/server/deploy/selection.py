"""The parts of a deployment that a command acts on: all, only the server, or only one site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError
from fedkin.server.deploy import deployment_folder as files


@dataclass(frozen=True)
class Selection:
    """Selected parts: the folder, whether it has a server, whether that is selected, and sites by
    name."""

    folder: Path
    holds_server: bool
    server: bool
    sites: dict[str, Path]


def select(folder: Path, *, server: bool = False, site: str | None = None) -> Selection:
    """Select parts.

    Args:
        folder: of the deployment, or of one site.
        server: only the server.
        site: name of the only site; None: all.

    Raises:
        ConfigError: the folder does not contain the requested part.
    """
    if server and site is not None:
        raise ConfigError("--server and --site exclude each other; without both, it is about all")
    sites = {path.name: path for path in _sites(folder)}
    has_server = (folder / files.SERVER).exists()
    if server and not has_server:
        raise ConfigError(f"{folder}: there is no {files.SERVER}; fedkin deploy init writes one")
    if site is not None and site not in sites:
        raise ConfigError(
            f"{folder}: there is no {site}/{files.CLIENT}; there is: {', '.join(sites) or 'none'}"
        )
    if not (has_server or sites):
        raise ConfigError(f"{folder}: there is neither {files.SERVER} nor a site's {files.CLIENT}")
    selected = sites
    if server:
        selected = {}
    elif site is not None:
        selected = {site: sites[site]}
    return Selection(
        folder=folder,
        holds_server=has_server,
        server=has_server and site is None,
        sites=selected,
    )


def _sites(folder: Path) -> list[Path]:
    if (folder / files.CLIENT).exists():
        return [folder.absolute()]
    paths = [path.parent for path in folder.glob(f"*/{files.CLIENT}")]
    return sorted(paths, key=lambda path: (len(path.name), path.name))
