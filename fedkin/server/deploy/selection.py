"""The parts of a deployment that a command acts on: all, only the server, or only one site."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.removed_sites import removed_sites


@dataclass(frozen=True)
class Selection:
    """The parts of a deployment (server, sites) that a command acts on."""

    folder: Path
    holds_server: bool  # whether the folder has a server, selected or not
    server: bool  # whether the command acts on the server
    sites: dict[str, Path]  # folders of the selected sites by name


def select(folder: Path, *, server: bool = False, site: str | None = None) -> Selection:
    """Select the parts of a deployment (server, sites) that a command acts on.

    Args:
        folder: folder of the deployment, or of one site.
        server: whether to select only the server.
        site: name of the only site; None for all.

    Raises:
        ConfigError: the folder does not contain the requested server or site.
    """
    if server and site is not None:
        raise ConfigError(
            "--server and --site cannot be combined; leave out both to select all parts"
        )
    sites = {path.name: path for path in _sites(folder)}
    has_server = (folder / files.SERVER).exists()
    if server and not has_server:
        raise ConfigError(f"{folder}: there is no {files.SERVER}; fedkin deploy init writes one")
    if site is not None and site not in sites:
        raise ConfigError(_no_site(folder, site, sites))
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


def _no_site(folder: Path, site: str, sites: Iterable[str]) -> str:
    """The message about a site that a deployment does not have, or no longer has."""
    known = f"the sites are: {', '.join(sites) or 'none'}"
    if site not in removed_sites(folder):
        return f"{folder}: there is no {site}/{files.CLIENT}; {known}"
    again = files.deploy_command("add", folder, site)
    return f"{site} was removed from {folder}; {known}; to bring it back: {again}"


def _sites(folder: Path) -> list[Path]:
    """The folders of the sites in a folder, or the folder itself if it is a site's."""
    if (folder / files.CLIENT).exists():
        return [folder.absolute()]
    paths = [path.parent for path in folder.glob(f"*/{files.CLIENT}")]
    # By length first, so that site-10 comes after site-9.
    return sorted(paths, key=lambda path: (len(path.name), path.name))
