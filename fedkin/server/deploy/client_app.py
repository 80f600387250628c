"""Flower's ClientApp: ``clientapp = "fedkin.server.deploy.client_app:app"`` in pyproject.toml.

Flower starts a process with this module for every message. A site may have a worker: a process that
keeps the site's data and compiled programs loaded. Then the process of a message imports only the
standard library and Flower, and forwards the message to the worker. Without a worker it makes the
node itself, and answers.
"""

from __future__ import annotations

import logging
import os
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkin.server.deploy.worker_client import SiteWorker
from fedkin.server.deploy.worker_link import WorkerLinkError
from fedkin.server.flower_record import parts_to_record, record_to_parts

if TYPE_CHECKING:
    from fedkin.server.node import Node

_log = logging.getLogger("fedkin")
app = ClientApp()


def wants_worker(config: Path) -> bool:
    """Whether a site's client.toml asks for a worker; False if the file cannot be read."""
    try:
        return tomllib.loads(config.read_text()).get("client", {}).get("worker", "warm") == "warm"
    except (OSError, ValueError, AttributeError):
        return False


@app.train()
@app.evaluate()
@app.query()
def handle(message: Message, context: Context) -> Message:
    """The reply to a message, from the site's worker or from a node made in this process."""
    path = context.node_config.get("config")
    if isinstance(path, str) and wants_worker(Path(path)):
        refused = partial(_note_refusal, Path(path))
        try:
            worker = SiteWorker(Path(path), os.getppid(), refused)
            reply = worker.reply(record_to_parts(message.content))
            return Message(parts_to_record(reply), reply_to=message)
        except (WorkerLinkError, ValueError) as error:
            _log.warning("the site's worker does not answer: %s", error)
    # The site wants no worker, or its worker does not answer, so this process makes the node. These
    # imports are slow, and are not needed if a worker answers.
    from fedkin.server.deploy.build_node import node_from_flower_config
    from fedkin.server.deploy.site_outbox import site_outbox
    from fedkin.server.flower_transport import reply_here

    def make_node() -> Node:
        return node_from_flower_config(dict(context.node_config), dict(context.run_config))

    if not isinstance(path, str):
        return reply_here(message, make_node)
    outbox = site_outbox(Path(path))
    return reply_here(message, make_node, outbox, partial(_note_refusal, Path(path)))


def _note_refusal(config: Path, reason: str) -> None:
    """Store why a site refused a message, so that its status shows it."""
    from fedkin.server.deploy.site_state import note_refusal

    note_refusal(config.absolute().parent, reason)
