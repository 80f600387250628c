"""The server of a real federation: the rounds of a run, with clients that are elsewhere."""

from __future__ import annotations

import logging
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin import __version__
from fedkin.config import registry
from fedkin.config.schema import Values, error_context
from fedkin.config.server import ServerConfig, methods
from fedkin.core.method import Method
from fedkin.core.records import Record
from fedkin.run.fingerprint import fingerprint
from fedkin.run.lifecycle import client_table
from fedkin.run.loop import check, check_kind, run
from fedkin.run.results import Run
from fedkin.run.run_folder import AGAINST, Folder, holds_run
from fedkin.server.deploy.build_node import FIXED
from fedkin.server.deploy.registry_file import RegistryFile
from fedkin.server.deploy.run_lock import alone
from fedkin.server.handshake import digest_of, make_handshake
from fedkin.server.membership import Membership
from fedkin.server.remote_world import RemoteWorld
from fedkin.server.request_round import RequestRound, Transport
from fedkin.simulation.workers import check_samples

_log = logging.getLogger("fedkin")


def serve(config: ServerConfig, post: Transport) -> Run:
    """Run what a server's configuration says with the clients behind ``post``; go on where its folder holds the run.

    Raises ConfigError, ModelError, CheckpointError and StorageError as ``simulate`` does; StorageError too where
    another server is at work in the folder.
    """
    with alone(Path(config.federation.folder)):
        return _serve(config, _Server(config, post))


def _serve(config: ServerConfig, server: _Server) -> Run:
    (entry, method), *others = [(m, registry.make(methods(), m)) for m in (config.method, *config.against)]
    for place, one in ("method", method), *((f"run.against: {values['name']}", other) for values, other in others):
        check(config.plan, one, config.federation.capacity, place)
        check_kind(one, server.spec, place)
    out = Path(config.federation.folder)
    main = server.run(entry, method, out, [values for values, _ in others])
    runs = {values["name"]: server.run(values, other, out / AGAINST / values["name"], []) for values, other in others}
    whole = replace(main, against=runs)
    for finished in (*runs.values(), whole):
        assert finished.folder is not None
        finished.finish(finished.folder)
    return whole


class _Server:
    """What all methods of one configuration share: the model, and the hall where clients are met."""

    def __init__(self, config: ServerConfig, post: Transport) -> None:
        self.config, self._described = config, config.data_description()
        with error_context("model"):
            self.model = registry.make(registry.models(), config.model, self._described)
            self.spec = check_samples(self.model, self._described)
        start, shape = self.model.initial(FIXED), self._described.x.shape[1:]
        classes = self._described.classes
        own = make_handshake(config.federation.name, __version__, self.spec, shape, classes, config.shared_digest)
        kept = RegistryFile(Path(config.federation.folder))
        own = replace(own, start=digest_of(start))
        self.membership = Membership(RequestRound(post, config.federation), own, classes, kept.keep)
        if (known := kept.read()) is not None:
            self.membership.registry.recall(known)

    def run(self, entry: Values, method: Method, out: Path, beside: list[Values]) -> Run:
        """One method, from the beginning or from its checkpoint."""
        description = self.config.description()
        described = {**description, "method": entry, "run": {**description["run"], "against": beside}}
        known_by = fingerprint(described, self.membership.own.layout)
        kind = Folder.reopen if holds_run(out) else Folder.create
        folder = kind(out, described, known_by)
        name = f"{self.config.federation.name}-{entry['name']}-{secrets.token_hex(4)}"  # another in every run folder
        world = RemoteWorld(self.membership, self.spec, self.model.initial, self.config.work, name)
        if (migration := getattr(method, "migration", "none")) != "none":
            world.expect_shifts(migration, getattr(method, "threshold", 0.2))
        track = run(world, method, self.config.plan, name=entry["name"], folder=folder, on_round=tell)
        names = [*self.membership.registry.names()]
        names += [""] * (self.config.federation.capacity - len(names))
        clients = client_table(track, self.membership.registry.samples, names)
        kept = {"folder": out, "fingerprint": known_by, "memory": track.memory, "migrations": track.migrations}
        return Run(described, track.records, track.state, clients, track.seconds, **kept)


def tell(record: Record) -> None:
    """A line for each round in the log."""
    scored, sent = record.get("accuracy"), record.get("accuracy_before_training")
    parts = [f"accuracy {scored:.3f}"] if scored is not None else []
    parts += [f"{sent:.3f} as sent"] if sent is not None else []
    parts += [f"clusters of {record['cluster_sizes']}"] if record.get("cluster_sizes") else []
    parts += [f"{record[kind]} {kind}" for kind in ("missing", "nonfinite") if record[kind]]
    _log.info("%s, round %d: %s", record["method"], record["round"], ", ".join(parts) or "done")


def log_to(stream: Any = None) -> None:
    """Let fedkin's log be seen: an engine's processes show warnings only."""
    log = logging.getLogger("fedkin")
    if not log.handlers:
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s fedkin %(levelname)s: %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.propagate = False
    log.setLevel(logging.INFO)
