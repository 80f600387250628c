"""``fedkin deploy add``, ``remove`` and ``rotate``: sites join and leave a deployment, and get new
keys."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError
from fedkin.core.identifiers import is_name
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.run.folder.run_folder import holds_run
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy import keys, site_keys
from fedkin.server.deploy.compose import COMPOSE, write_containers
from fedkin.server.deploy.configurations import new_site
from fedkin.server.deploy.init import write_site
from fedkin.server.deploy.own_wheel import own_wheel
from fedkin.server.deploy.processes import GRACE, SITE, SUPERLINK, Program, is_up, stop
from fedkin.server.deploy.removed_sites import (
    REMOVED,
    RemovedSite,
    removed_sites,
    write_removed_sites,
)
from fedkin.server.deploy.selection import Selection, select
from fedkin.server.deploy.site_state import name_of
from fedkin.server.deploy.start_parts import Say
from fedkin.server.deploy.up import one_at_a_time, restart
from fedkin.server.deploy.worker_link import worker_folder

_WAIT_FOR = re.compile(r"^(\s*wait_for\s*=\s*)\d+", re.MULTILINE)
# Names that a site's folder cannot have, because the deployment uses them.
_TAKEN = ("app", "containers", "flwr", "run", str(files.KEYS), str(REMOVED), str(files.DATABASE))


def add(
    folder: Path,
    site: str,
    settings: Sequence[str] = (),
    *,
    public_key: Path | None = None,
    say: Say = print,
) -> None:
    """Add a site to a deployment: write its folder and keys, and register its key.

    A site that was removed comes back with its former folder and client ids, and with a new key.

    Args:
        folder: folder of the deployment, with the server.
        site: name of the site.
        settings: ``section.key=value`` for [client] or [data]; other values are those of the first
            site.
        public_key: the site's public key if the site has made its own key pair; None for a new
            pair.
        say: called with a line about each step.

    Raises:
        ConfigError, DataError, ModelError: the site exists already, or a setting is invalid.
        StorageError: a file cannot be written.
    """
    selection = _server(folder)
    _check_new_name(selection, site)
    removed = removed_sites(folder)
    with one_at_a_time(folder):
        before = len(selection.sites)
        former = removed.pop(site, None)
        if former is not None and (folder / former.folder / files.CLIENT).exists():
            _bring_back(folder, site, former, settings)
            say(f"{site} is back with its former folder and client ids")
        else:
            write_site(folder, site, new_site(folder, site, settings))
            say(f"{site}: its files are in {folder / site}")
        if files.read_address(folder / files.FLOWER).secure:
            _add_key(folder, site, public_key, say)
        if former is not None:
            write_removed_sites(folder, removed)
        _set_wait_for(folder, before, before + 1, say)
        _write_lists(folder)
    start = files.deploy_command("up", folder)
    if _runs(folder):
        say("the server need not be restarted: the site takes part from the next round on")
        start = f"{start} --site {site}"
    say(f"start the site: {start}")


def remove(folder: Path, site: str, *, say: Say = print) -> None:
    """Remove a site from a deployment: stop it, revoke its keys, and keep its folder in
    ``removed/``.

    The server's records of the site stay, and so do its client ids.

    Args:
        folder: folder of the deployment, with the server.
        site: name of the site.
        say: called with a line about each step.

    Raises:
        ConfigError: there is no such site, or it was removed before.
        StorageError: a file cannot be written.
    """
    selection = _server(folder)
    _check_known(selection, site)
    with one_at_a_time(folder):
        part = Program((folder / site).resolve(), SITE)
        if is_up(part):
            stop([part], GRACE[SITE])
            say(f"{site} was stopped")
        if not files.read_address(folder / files.FLOWER).secure:
            say(
                "this federation has no keys, so the server cannot refuse the site: let the "
                "firewall refuse its address"
            )
        elif site_keys.was_started(folder):
            number = site_keys.revoke(folder, name_of(folder / site))
            say(f"{site}: {_revoked(number)}")
        kept = _archive(folder, site)
        say(f"{site}: its folder is kept in {folder / kept}")
        _set_wait_for(folder, len(selection.sites), len(selection.sites) - 1, say)
        _write_lists(folder)
    say(f"the run goes on with the other sites, and its records of {site} stay")


def rotate(
    folder: Path, site: str | None = None, *, public_key: Path | None = None, say: Say = print
) -> None:
    """Give a site a new key. The server refuses the former keys from then on.

    Without the server, in the site's own folder, this only makes a new key pair.

    Args:
        folder: folder of the deployment, or of the site on its own machine.
        site: name of the site; None in the site's own folder.
        public_key: the new public key if the site has made the pair itself; None for a new pair.
        say: called with a line about each step.

    Raises:
        ConfigError: there is no such site, the federation has no keys, or the SuperLink refuses
            the new key.
        StorageError: a file cannot be written.
    """
    if site is None:
        return _rotate_here(folder, say)
    selection = _server(folder)
    _check_known(selection, site)
    if not files.read_address(folder / files.FLOWER).secure:
        raise ConfigError(f"{folder} holds a federation without keys, so {site} has none to rotate")
    own = folder / site
    has_key = (own / files.NODE_KEY).exists()
    if public_key is None and not has_key:
        here = files.deploy_command("rotate", folder, site)
        raise ConfigError(
            f"{own / files.NODE_KEY} is on the site's own machine; run fedkin deploy rotate . "
            f"there, and here {here} --public-key key.pub with the file that it writes"
        )
    with one_at_a_time(folder):
        new = _new_key(own, public_key)
        if site_keys.was_started(folder):
            number = site_keys.replace(folder, site, name_of(own), new / files.NODE_PUBLIC)
            say(f"{site}: the new key is registered")
            say(f"{site}, the former key: {_revoked(number)}")
        _take_key(own, new)
        say(f"{site}: its key is in {own}")
    if is_up(Program(own.resolve(), SITE)):
        restart(folder, site=site, say=say)
    elif public_key is not None:
        say("restart the site on its machine: fedkin deploy restart .")
    else:
        say(
            f"if {site} runs on another machine, copy {own / files.NODE_KEY} and "
            f"{own / files.NODE_PUBLIC} there, and restart it"
        )


def rotate_server(folder: Path, *, say: Say = print) -> None:
    """Give the server a new certificate and key, signed by the same authority.

    Args:
        folder: folder of the deployment, with the server.
        say: called with a line about each step.

    Raises:
        ConfigError: the federation has no keys, or the authority's key is missing.
        StorageError: a file cannot be written.
    """
    _server(folder)
    address = files.read_address(folder / files.FLOWER)
    if not address.secure:
        raise ConfigError(f"{folder} holds a federation without keys, so there is no certificate")
    name = load_server(folder / files.SERVER).federation.name
    with one_at_a_time(folder), storage_errors(folder / files.CERTIFICATE):
        keys.renew_server_certificate(folder, name, address.host)
    say(f"the server's new certificate is {folder / files.CERTIFICATE}; sites need no change")
    if _runs(folder):
        command = files.deploy_command("restart", folder, "--server")
        say(f"the server still shows the former one until it is restarted: {command}")


def _server(folder: Path) -> Selection:
    """The parts of a deployment with a server. Raises ConfigError if the folder has no server."""
    selection = select(folder)
    if not selection.holds_server:
        raise ConfigError(
            f"{folder}: there is no {files.SERVER}; sites are added, removed and given new keys "
            "where the server is: name the folder that fedkin deploy init wrote"
        )
    return selection


def _check_new_name(selection: Selection, site: str) -> None:
    """Raise ConfigError if a new site cannot have a name."""
    if not is_name(site) or site in _TAKEN:
        raise ConfigError(
            f"{site!r} cannot be the name of a site; use up to 64 letters, digits, _, . and -, "
            "such as site-4"
        )
    folder = selection.folder
    if site in selection.sites:
        command = files.deploy_command("rotate", folder, site)
        raise ConfigError(
            f"{site} is a site of {folder} already; give the new site another name, or give {site} "
            f"another key: {command}"
        )


def _check_known(selection: Selection, site: str) -> None:
    """Raise ConfigError unless a deployment has this site."""
    if site in selection.sites:
        return
    folder = selection.folder
    former = removed_sites(folder).get(site)
    if former is None:
        # No name is suggested: names of sites differ by a digit, and this command may remove one.
        raise ConfigError(
            f"{folder}: unknown site {site!r}; the sites are: "
            f"{', '.join(selection.sites) or 'none'}"
        )
    command = files.deploy_command("add", folder, site)
    raise ConfigError(
        f"{site} was removed from {folder} on {former.date} already; the sites are: "
        f"{', '.join(selection.sites) or 'none'}; to bring it back: {command}"
    )


def _bring_back(folder: Path, site: str, former: RemovedSite, settings: Sequence[str]) -> None:
    """Move the folder of a removed site back to its place, without its revoked key.

    Raises ConfigError if there are settings, because the site has its own client.toml.
    """
    if settings:
        raise ConfigError(
            f"{settings[0]}: {site} comes back with the {files.CLIENT} that it had; leave out the "
            "setting, and change that file afterwards"
        )
    with storage_errors(folder / site):
        if (folder / site).exists():
            raise ConfigError(
                f"{folder / site} exists, but {site} comes back with its former folder; move "
                f"{folder / site} away first"
            )
        shutil.move(folder / former.folder, folder / site)
        for name in (files.NODE_KEY, files.NODE_PUBLIC):
            (folder / site / name).unlink(missing_ok=True)


def _add_key(folder: Path, site: str, public_key: Path | None, say: Say) -> None:
    """Write the keys of a new site, and register its public key."""
    own = folder / site
    with storage_errors(own):
        if public_key is not None:
            keys.write_public(own / files.NODE_PUBLIC, _public_key(public_key))
        keys.create_site_keys(own, folder / files.CA)
    if public_key is not None or site_keys.was_started(folder):
        site_keys.register(folder, site)
        say(f"{site}: its key is registered")
    else:
        say(f"{site}: its key will be registered when the server starts")


def _public_key(path: Path) -> bytes:
    """The content of a public key in OpenSSH format. Raises ConfigError for any other file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        content = path.read_bytes()
        load_ssh_public_key(content)
        return content
    except OSError as error:
        raise ConfigError(f"--public-key: {path} cannot be read: {error.strerror}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"--public-key: {path} is no public key in OpenSSH format; name the "
            f"{files.NODE_PUBLIC} that fedkin deploy rotate or ssh-keygen -t ecdsa wrote"
        ) from error


def _revoked(number: int) -> str:
    """The words about revoked keys."""
    if not number:
        return "the server knew no key to revoke"
    what = "its key is" if number == 1 else f"its {number} keys are"
    return f"{what} revoked, and the server refuses {'it' if number == 1 else 'them'} from now on"


def _archive(folder: Path, site: str) -> Path:
    """Move a site's folder into ``removed/``, and record the removal. Returns the new place,
    relative to the deployment's folder."""
    kept = REMOVED / f"{site}-{time.strftime('%Y%m%d-%H%M%S')}"
    # The record comes first. If the move then fails, the site is still there to be removed.
    removed = RemovedSite(
        name=name_of(folder / site), date=time.strftime("%Y-%m-%d"), folder=str(kept)
    )
    write_removed_sites(folder, removed_sites(folder) | {site: removed})
    with storage_errors(folder / kept):
        shutil.rmtree(worker_folder(folder / site / files.CLIENT), ignore_errors=True)
        (folder / site).replace(folder / kept)
    return kept


def _set_wait_for(folder: Path, before: int, after: int, say: Say) -> None:
    """Change ``wait_for`` in server.toml if the server waits for all sites.

    Args:
        folder: folder of the deployment.
        before: number of sites before the change.
        after: number of sites now.
        say: called with a line about the change.
    """
    path = folder / files.SERVER
    config = load_server(path)
    waits_for = config.federation.wait_for
    # A run that has begun need not wait for a new site.
    grows = after > before
    if waits_for != before or not after or (grows and holds_run(Path(config.federation.folder))):
        return
    text = path.read_text(encoding="utf-8")
    changed = _WAIT_FOR.sub(rf"\g<1>{after}", text, count=1)
    if changed == text:
        return
    write_atomic(path, changed)
    say(f"{path}: federation.wait_for is now {after} (it was {waits_for})")


def _write_lists(folder: Path) -> None:
    """Write the files that list the sites again: COMMANDS.md, and those for containers."""
    address = files.read_address(folder / files.FLOWER)
    sites = [*select(folder).sites]
    write_atomic(folder / files.COMMANDS, files.commands_page(folder, address, sites))
    if (folder / COMPOSE).exists():
        from fedkin.config.loader import read_toml

        with storage_errors(folder):
            write_containers(
                folder=folder,
                address=address,
                sites=sites,
                server=read_toml(folder / files.SERVER),
                wheel=own_wheel(),
            )


def _runs(folder: Path) -> bool:
    """Whether the deployment's SuperLink runs on this machine."""
    return is_up(Program(folder.resolve(), SUPERLINK))


def _rotate_here(folder: Path, say: Say) -> None:
    """Make a new key pair in a site's own folder."""
    if not (folder / files.CLIENT).exists():
        raise ConfigError(
            f"{folder}: there is no {files.CLIENT}; name the site: "
            f"{files.deploy_command('rotate', folder)} SITE"
        )
    if not (folder / files.SITE_CA).exists():
        raise ConfigError(f"{folder}: this site's federation has no keys, so there is none")
    with one_at_a_time(folder):
        _take_key(folder, _new_key(folder, None))
    name = name_of(folder)
    say(f"{name}: its new key is in {folder}; the server does not know it yet")
    say(
        f"send {folder / files.NODE_PUBLIC} to the server, and run there: fedkin deploy rotate "
        f"FOLDER {name} --public-key {files.NODE_PUBLIC}; then here: "
        f"{files.deploy_command('restart', folder)}"
    )


def _new_key(own: Path, public_key: Path | None) -> Path:
    """Make a new key pair of a site, or take its public key, in a folder next to the present key.
    Returns that folder."""
    new = own / ".new-key"
    content = None if public_key is None else _public_key(public_key)
    with storage_errors(own):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if content is None:
            keys.write_key_pair(new, name_of(own))
        else:
            keys.write_public(new / files.NODE_PUBLIC, content)
    return new


def _take_key(own: Path, new: Path) -> None:
    """Move the new key of a site to its place."""
    with storage_errors(own):
        # A pair that does not match is found by `fedkin deploy check`, so the order is free.
        (own / files.NODE_KEY).unlink(missing_ok=True)
        for path in new.iterdir():
            path.replace(own / path.name)
        new.rmdir()
