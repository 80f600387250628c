"""Registers and revokes the keys of sites at the SuperLink, which is started for the time of the
command if it does not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import shell_command
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy import flower_commands
from fedkin.server.deploy.check_network import check_superlink
from fedkin.server.deploy.compose import COMPOSE
from fedkin.server.deploy.processes import GRACE, STARTER, SUPERLINK, Program, Started, is_up, stop
from fedkin.server.deploy.start_parts import Starter, start_superlink
from fedkin.server.deploy.up import refuse_port


def was_started(folder: Path) -> bool:
    """Whether the SuperLink of a deployment has run before, so that it may know keys."""
    return (folder / files.DATABASE).exists()


def register(folder: Path, site: str, key: Path | None = None) -> None:
    """Register a site's key under the site's name.

    Args:
        folder: folder of the deployment.
        site: name of the site's folder.
        key: the public key; None for ``key.pub`` in the site's folder.

    Raises:
        ConfigError: the SuperLink cannot be started, or refuses the key.
    """
    _run(folder, ["--register", site, *_key(key)], flower_commands.REGISTERED)


def revoke(folder: Path, name: str) -> int:
    """Revoke all keys of a name: the SuperLink refuses them from now on. Returns their number.

    Args:
        folder: folder of the deployment.
        name: name under which the keys are registered.

    Raises:
        ConfigError: the SuperLink cannot be started.
    """
    return int(_run(folder, ["--revoke", name], flower_commands.REVOKED))


def replace(folder: Path, site: str, name: str, key: Path) -> int:
    """Register a new key of a site, and revoke all its other keys. Returns the number of revoked
    keys.

    Args:
        folder: folder of the deployment.
        site: name of the site's folder.
        name: name under which the keys are registered.
        key: the new public key.

    Raises:
        ConfigError: the SuperLink cannot be started, or refuses the key.
    """
    steps = ["--register", site, *_key(key), "--revoke", name]
    return int(_run(folder, steps, flower_commands.REVOKED))


def _key(key: Path | None) -> list[str]:
    """The option that names a public key."""
    return [] if key is None else ["--key", str(key.absolute())]


def _run(folder: Path, steps: Sequence[str], word: str) -> str:
    """Run Flower's commands, and return the rest of the output line that begins with a word."""
    root = folder.resolve()
    with _superlink(root) as superlink:
        starter = Starter(root, steps, superlink)
        try:
            return starter.wait_for(word)
        finally:
            stop([Program(root, STARTER)], 1.0)


@contextmanager
def _superlink(folder: Path) -> Iterator[Started | None]:
    """Start the SuperLink unless it runs, and end it afterwards. Yields its process; None if it ran
    already.

    Raises ConfigError if it cannot be started here.
    """
    part = Program(folder, SUPERLINK)
    address = files.read_address(folder / files.FLOWER)
    if is_up(part) or check_superlink(address, folder / files.CA).mark == "✓":
        yield None
        return
    if (folder / COMPOSE).exists():
        in_container = shell_command("docker", "compose", "--file", folder / COMPOSE)
        raise ConfigError(
            f"the SuperLink of {folder} runs in a container, where its keys are changed: "
            f"{in_container} exec server flwr supernode list {files.CONNECTION}, then there "
            f"flwr supernode unregister NODE-ID {files.CONNECTION}"
        )
    refuse_port(address.bind_host, address.port, "the SuperLink")
    try:
        yield start_superlink(folder)
    finally:
        stop([part], GRACE[SUPERLINK])
