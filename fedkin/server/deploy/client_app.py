"""Flower's ClientApp: ``clientapp = "fedkin.server.deploy.client_app:app"`` in pyproject.toml.

Flower starts a process with this module for every message. A site may have a worker: a process that
keeps the site's data and compiled programs loaded. Then the process of a message imports only the
standard library and Flower, and forwards the message to the worker. Without a worker it makes the
node itself, and answers.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkin.core.errors import FedkinError
from fedkin.server.deploy.worker_client import SiteWorker
from fedkin.server.deploy.worker_link import WorkerLinkError, read_sections
from fedkin.server.flower_record import parts_to_record, record_to_parts

if TYPE_CHECKING:
    from fedkin.server.node import Node

_log = logging.getLogger("fedkin")
app = ClientApp()


def _wants_worker(sections: dict[str, Any]) -> bool:
    """Whether a site's client.toml, which can be read, asks for a worker. This is the default."""
    client = sections.get("client", {})
    return isinstance(client, dict) and client.get("worker", "warm") == "warm"


@app.train()
@app.evaluate()
@app.query()
def handle(message: Message, context: Context) -> Message:
    """The reply to a message, from the site's worker or from a node made in this process."""
    path = context.node_config.get("config")
    config = Path(path) if isinstance(path, str) else None
    sections = None if config is None else read_sections(config)
    reply = None
    if config is not None and sections is not None and _wants_worker(sections):
        reply = _reply_of_worker(message, config)
    if reply is None:
        reply = _reply_of_node(message, context, config)
    if config is not None and sections is not None and sections.get("metrics"):
        _count(message, reply, config, sections)
    return reply


def _reply_of_worker(message: Message, config: Path) -> Message | None:
    """The reply of the site's worker; None if it does not answer."""
    try:
        worker = SiteWorker(config, os.getppid(), partial(_note_refusal, config))
        reply = worker.reply(record_to_parts(message.content))
        return Message(parts_to_record(reply), reply_to=message)
    except (WorkerLinkError, ValueError) as error:
        _log.warning("the site's worker does not answer: %s", error)
        return None


def _reply_of_node(message: Message, context: Context, config: Path | None) -> Message:
    """The reply of a node that this process makes. The imports are slow, and are not needed if a
    worker answers."""
    from fedkin.server.deploy.build_node import node_from_flower_config
    from fedkin.server.deploy.site_outbox import site_outbox
    from fedkin.server.flower_transport import reply_here

    def make_node() -> Node:
        return node_from_flower_config(dict(context.node_config), dict(context.run_config))

    if config is None:
        return reply_here(message, make_node)
    outbox = site_outbox(config)
    return reply_here(message, make_node, outbox, partial(_note_refusal, config))


def _count(message: Message, reply: Message, config: Path, sections: dict[str, Any]) -> None:
    """Count the bytes of a reply, for a site whose client.toml has a section [metrics].

    The ledger has the reply already, so an error must not keep it from the server: it is logged.
    """
    from fedkin.config.loader import Sections
    from fedkin.config.metrics_settings import metrics_settings
    from fedkin.server.deploy.site_metrics import SiteMetrics
    from fedkin.server.message import operation_of

    folder = config.absolute().parent
    try:
        of_file = Sections(sections, sections, lambda name: f"{config}: {name}")
        metrics = SiteMetrics(metrics_settings(of_file, folder), folder)
        operation = operation_of(record_to_parts(message.content))
        metrics.count(operation, record_to_parts(reply.content).size)
    except (FedkinError, ValueError) as error:
        _log.warning("the metrics of this site are not up to date: %s", error)


def _note_refusal(config: Path, reason: str) -> None:
    """Store why a site refused a message, so that its status shows it."""
    from fedkin.server.deploy.site_state import note_refusal

    note_refusal(config.absolute().parent, reason)
