"""Runs a site in the foreground: its worker, and its connection to the SuperLink."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import FrameType

from fedkin.config.server import ClientConfig, load_client
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.log_files import keep_output_small, log_to
from fedkin.server.deploy.place import refuse_copy
from fedkin.server.deploy.processes import SITE, Program
from fedkin.server.deploy.site_metrics import SiteMetrics
from fedkin.server.deploy.site_state import note_refusal
from fedkin.server.deploy.worker_client import SiteWorker
from fedkin.server.deploy.worker_link import WorkerLinkError

_log = logging.getLogger("fedkin")
_KEY_REFUSED = (
    "the server does not know this site's key (register its key.pub there: flwr supernode "
    "register), or the site was killed within the last minute; it tries again by itself"
)
_AGAIN = 3.0  # seconds; Flower ends a refused process after five


class Stopped(BaseException):
    """The site was asked to end. It is a BaseException, so that no error handler catches it."""


def run_site(folder: Path) -> None:
    """Run the site of a folder in this process, until the process is ended.

    Raises:
        ConfigError: the site's files are missing, invalid, or from a copied deployment.
        MissingExtra: Flower is not installed.
    """
    refuse_copy(folder)
    config = load_client(folder / files.CLIENT)
    variables = files.read_environment(folder)
    secure = (folder / files.SITE_CA).exists()
    place = f"{folder / files.ENVIRONMENT}: SUPERLINK"
    address = Address.parse(variables.get("SUPERLINK", ""), secure, place)
    home = folder.absolute()
    os.environ.update({**variables, "FLWR_HOME": str(home / "flwr")})
    # The file names below are relative to the site's folder.
    os.chdir(home)
    if needs_supernode(config):
        _refuse_page(config)
        _become_supernode(secure)
    try:
        from fedkin.server.deploy.flower_node import NodeRefusedError, run_node
    except ImportError as error:
        raise MissingExtra(
            "a site needs Flower, which is not installed: pip install 'fedkin[flower]'"
        ) from error
    log_to(service="fedkin-site")
    keep_output_small(Program(home, SITE).log)
    signal.signal(signal.SIGTERM, _stop)
    worker = SiteWorker(Path(files.CLIENT), os.getpid(), partial(note_refusal, home))
    try:
        worker.start()
    except WorkerLinkError as error:
        note_refusal(home, str(error))
        raise ConfigError(f'{error}; or set worker = "none" under [client]') from error
    metrics = SiteMetrics(config.metrics, home)
    try:
        with metrics.shown(address):
            run_node(
                address=str(address),
                answer=metrics.counted(worker.reply),
                ca=Path(files.SITE_CA) if secure else None,
                key=Path(files.NODE_KEY) if secure else None,
                connected=partial(note_refusal, home, ""),
            )
    except (Stopped, KeyboardInterrupt):
        _log.info("the site has left")
    except NodeRefusedError:
        _log.warning("this site was refused; trying again in %.0f s", _AGAIN)
        note_refusal(home, _KEY_REFUSED)
        time.sleep(_AGAIN)
        # Flower ends a refused process, so the site goes on in a new one with the same process id.
        os.execv(sys.executable, [sys.executable, "-m", "fedkin.cli", "deploy", "node", str(home)])


def _refuse_page(config: ClientConfig) -> None:
    """Raise ConfigError if a site that runs Flower's SuperNode is to show a page of metrics."""
    if config.metrics is not None and config.metrics.port is not None:
        raise ConfigError(
            "metrics.port: this site runs Flower's SuperNode, in which no process stays that could "
            "show a page; leave port out, so that the metrics are in a text file"
        )


def needs_supernode(config: ClientConfig) -> bool:
    """Whether a site runs Flower's own SuperNode.

    It does so if it has no worker. It also does so if its model is a PyTorch module, because the
    module's code may be in the app that the server sends, and only a SuperNode fetches the app.
    """
    return config.site.worker == "none" or "torch" in config.model.values


def _become_supernode(secure: bool) -> None:
    """Replace this process by Flower's SuperNode."""
    arguments = files.supernode_options(secure, os.environ)
    try:
        os.execvp("flower-supernode", ["flower-supernode", *arguments])
    except FileNotFoundError as error:
        raise MissingExtra(
            "flower-supernode was not found: pip install 'fedkin[flower]', and add its folder to "
            "PATH"
        ) from error


def _stop(number: int, frame: FrameType | None) -> None:
    """Signal handler for SIGTERM: raises ``Stopped``, so that the site leaves in an orderly way."""
    raise Stopped
