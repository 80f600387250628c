"""Several of Flower's commands in one process: ``flwr supernode register`` for each site, ``flwr
supernode unregister`` for keys that are revoked, then ``flwr run``.

With a process for each command, each would import Flower again. The output has a line for each step
that is done.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check_network import check_superlink
from fedkin.server.deploy.worker_link import site_name

# Words that the output's lines begin with.
REGISTERED = "registered"
REVOKED = "revoked"
RUN = "run"
_TIMEOUT = 120.0  # seconds
_PAUSE = 0.1  # seconds
_UNREGISTERED = "unregistered"  # Flower's status of a node whose key it no longer accepts


class CommandError(Exception):
    """A Flower command has failed."""


def wait_for_superlink(folder: Path, timeout: float | int = _TIMEOUT) -> None:
    """Wait until a deployment's SuperLink replies. The process exits with a message if it does
    not."""
    address = files.read_address(folder / files.FLOWER)
    end = time.monotonic() + timeout
    while True:
        result = check_superlink(address, folder / files.CA)
        if result.mark == "✓":
            return
        if time.monotonic() > end:
            sys.exit(f"error: {result.name}: {result.detail}")
        time.sleep(_PAUSE)


def flwr(*arguments: str) -> str:
    """The output of a Flower command. Raises CommandError with its message if it fails."""
    from flwr.cli.app import app

    output = io.StringIO()
    with redirect_stdout(output):
        try:
            status = app(list(arguments), standalone_mode=False)
        except SystemExit as error:
            status = error.code
        # The command, or the parser of its arguments, has failed.
        except Exception as error:
            raise CommandError(" ".join(str(error).split())) from error
    if status:
        text = " ".join(output.getvalue().split())
        raise CommandError(text or f"flwr {arguments[0]} ended with {status}")
    return output.getvalue()


def main(arguments: list[str]) -> None:
    """Register the sites of the deployment in the current folder, revoke keys, and start its
    run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--register", nargs="*", default=[], metavar="SITE")
    parser.add_argument(
        "--key", metavar="FILE", help="public key of the only site, in place of SITE/key.pub"
    )
    parser.add_argument(
        "--revoke",
        metavar="NAME",
        help="unregister all keys of this name, except the key that --register has registered",
    )
    parser.add_argument("--run", action="store_true")
    parser.add_argument(
        "--server",
        metavar="FILE",
        help="path of server.toml, if it differs from the path in the app",
    )
    options = parser.parse_args(arguments)
    wait_for_superlink(Path())
    try:
        keys = [_register(site, options.key) for site in options.register]
        print(REGISTERED, flush=True)
        if options.revoke is not None:
            print(REVOKED, _revoke(options.revoke, keep=keys), flush=True)
        if options.run:
            print(RUN, *_start_run(options.server), flush=True)
    except CommandError as error:
        sys.exit(f"error: {error}")


def _start_run(server: str | None) -> list[str]:
    """Start a run, and return its number as the only entry of a list.

    The list is empty if Flower's output has no number.

    Args:
        server: path of server.toml; None for the path in the app.
    """
    output = flwr(*_run_command(server))
    return re.findall(r"run (\d+)", output)[:1]


def _run_command(server: str | None) -> list[str]:
    """The words of the command that starts a run. ``server`` is the path of server.toml; None for
    the path in the app."""
    words = ["run", str(files.APP.parent), files.CONNECTION]
    if server is not None:
        words += ["--run-config", f"config={json.dumps(server)}"]
    return words


def _register(folder: str, file: str | None = None) -> Path:
    """Register a site's key under the site's name, unless it is registered already. Returns the
    path of the public key.

    Args:
        folder: the site's folder.
        file: path of the public key; None for ``key.pub`` in the site's folder.

    Raises:
        CommandError: Flower refuses the key, or knows it under another name.
    """
    name = site_name(Path(folder) / files.CLIENT) or folder
    key = Path(folder).absolute() / files.NODE_PUBLIC if file is None else Path(file)
    try:
        flwr(*_register_command(key, name))
    except CommandError as error:
        if "already in use" not in str(error):
            raise CommandError(f"{key} was not registered: {error}") from error
        _check_registered(key, name)
    return key


def _revoke(name: str, keep: Sequence[Path]) -> int:
    """Unregister all keys of a name, so that the SuperLink refuses them from now on. Returns the
    number of keys.

    Args:
        name: name under which the keys are registered.
        keep: paths of public keys that stay registered.

    Raises:
        CommandError: Flower refuses to unregister a key.
    """
    kept = [_key_content(path) for path in keep]
    revoked = 0
    for node in _nodes():
        if node.name != name or node.status == _UNREGISTERED or node.public_key in kept:
            continue
        flwr("supernode", "unregister", str(node.node_id), files.CONNECTION)
        revoked += 1
    return revoked


def _register_command(key: Path, name: str) -> list[str]:
    """The words of the command that registers a site's key."""
    return ["supernode", "register", str(key), files.CONNECTION, "--name", name]


def _check_registered(key: Path, name: str) -> None:
    """Raise CommandError if Flower knows a key under another name, or no longer accepts it."""
    for node in _nodes_with(key):
        cure = f"make another key: {files.new_key_command(key.with_name(files.NODE_KEY))}"
        if node.status == _UNREGISTERED:
            raise CommandError(
                f"{key} was unregistered, and Flower never accepts such a key again; {cure}"
            )
        if node.name != name:
            raise CommandError(
                f"{key} is registered as {node.name!r}, but this site is {name!r}; {cure}"
            )


def _nodes_with(key: Path) -> list[Any]:
    """The SuperLink's entries for nodes with this key."""
    content = _key_content(key)
    return [node for node in _nodes() if node.public_key == content]


def _key_content(key: Path) -> bytes:
    """A public key in the form in which the SuperLink stores it."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    public: Any = load_ssh_public_key(key.read_bytes())
    return public_key_to_bytes(public)


def _nodes() -> list[Any]:
    """The SuperLink's entries (with ``name``, ``status`` and ``public_key``) for all nodes.

    This uses Flower's client, because its commands do not show keys.
    """
    from flwr.cli.flower_config import read_superlink_connection
    from flwr.cli.utils import init_http_client_from_connection
    from flwr.proto.control_pb2 import ListNodesRequest

    client = init_http_client_from_connection(read_superlink_connection(files.CONNECTION))
    try:
        return list(client.ListNodes(ListNodesRequest()).nodes_info)
    finally:
        client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
