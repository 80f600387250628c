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
from typing import TYPE_CHECKING, Any

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
    sections = _sections(config)
    client = {} if sections is None else sections.get("client", {})
    return sections is not None and isinstance(client, dict) and _is_warm(client)


def _is_warm(client: dict[str, Any]) -> bool:
    """Whether the section [client] asks for a worker, which is the default."""
    return client.get("worker", "warm") == "warm"


def _sections(config: Path) -> dict[str, Any] | None:
    """The sections of a site's client.toml; None if the file cannot be read."""
    try:
        return tomllib.loads(config.read_text())
    except (OSError, ValueError):
        return None


@app.train()
@app.evaluate()
@app.query()
def handle(message: Message, context: Context) -> Message:
    """The reply to a message, from the site's worker or from a node made in this process."""
    path = context.node_config.get("config")
    config = Path(path) if isinstance(path, str) else None
    reply = None
    if config is not None and wants_worker(config):
        reply = _reply_of_worker(message, config)
    if reply is None:
        reply = _reply_of_node(message, context, config)
    if config is not None and (_sections(config) or {}).get("metrics"):
        _count(message, reply, config)
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


def _count(message: Message, reply: Message, config: Path) -> None:
    """Count the bytes of a reply, for a site whose client.toml has a section [metrics]."""
    from fedkin.config.server import load_client
    from fedkin.server.deploy.site_metrics import SiteMetrics
    from fedkin.server.message import operation_of

    metrics = SiteMetrics(load_client(config).metrics, config.absolute().parent)
    metrics.count(
        operation_of(record_to_parts(message.content)), record_to_parts(reply.content).size
    )


def _note_refusal(config: Path, reason: str) -> None:
    """Store why a site refused a message, so that its status shows it."""
    from fedkin.server.deploy.site_state import note_refusal

    note_refusal(config.absolute().parent, reason)
