"""Flower's ClientApp: ``clientapp = "fedkin.server.deploy.client_app:app"`` in pyproject.toml.

Flower starts a process with it for every message. With a worker, that process imports the standard library and Flower
only, and hands the message on; without one it makes the node itself.
"""

from __future__ import annotations

import logging
import os
import tomllib
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkin.server.deploy.ask_worker import SiteWorker
from fedkin.server.deploy.worker_link import WorkerError
from fedkin.server.flower_record import parts_to_record, record_to_parts

_log = logging.getLogger("fedkin")
app = ClientApp()


def wants_worker(config: Path) -> bool:
    """Whether a site's file asks for a worker; one that cannot be read does not."""
    try:
        return tomllib.loads(config.read_text()).get("client", {}).get("worker", "warm") == "warm"
    except (OSError, ValueError, AttributeError):
        return False


@app.train()
@app.evaluate()
@app.query()
def handle(message: Message, context: Context) -> Message:
    """The reply to a message, from the worker or from a node that is made here."""
    path = context.node_config.get("config")
    if isinstance(path, str) and wants_worker(Path(path)):
        try:
            reply = SiteWorker(Path(path), os.getppid()).reply(record_to_parts(message.content))
            return Message(parts_to_record(reply), reply_to=message)
        except (WorkerError, ValueError) as error:
            _log.warning("no worker answers: %s", error)
    from fedkin.server.deploy.build_node import node_from_flower_config
    from fedkin.server.flower_transport import reply_here

    return reply_here(message, lambda: node_from_flower_config(dict(context.node_config), dict(context.run_config)))
