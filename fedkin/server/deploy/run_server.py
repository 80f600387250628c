"""The server of a real federation: runs the rounds with remote clients."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from filelock import FileLock, Timeout

from fedkin import __version__
from fedkin.config import user_methods
from fedkin.config.plan import Plan
from fedkin.config.schema import Values, error_context
from fedkin.config.server import ServerConfig
from fedkin.core.codec import decode, encode
from fedkin.core.columns import CommonScaling
from fedkin.core.errors import CheckpointError, FedkinError, StorageError
from fedkin.core.log_events import event
from fedkin.core.method import Method
from fedkin.core.records import Record
from fedkin.core.requirements import requirements_of
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.data.column_summaries import summarised_transform
from fedkin.data.table_transform import ROBUST, TableTransform
from fedkin.measures.run_scores import scores_in
from fedkin.options.base import Option
from fedkin.run.experiment import Experiment
from fedkin.run.federation_state import FederationState, server_state_file, write_state
from fedkin.run.folder.kept_label_statistics import read_label_statistics, write_label_statistics
from fedkin.run.folder.lock import lock_file, owner_noted
from fedkin.run.folder.run_folder import CHECKPOINTS, LABELS, holds_run
from fedkin.run.folder.transform_file import TRANSFORM, read_transform
from fedkin.run.interruption import is_interrupted
from fedkin.run.metrics.partial_rounds import scored_text
from fedkin.run.run import Run
from fedkin.run.trained.ingredients import Ingredients
from fedkin.run.worlds import ClientFacts, Digests, Methods, OpenWorld, named_methods
from fedkin.server.column_summaries import column_summaries, label_statistics, scale_columns
from fedkin.server.deploy.build_node import HANDSHAKE_SEED
from fedkin.server.deploy.server_metrics import ServerMetrics
from fedkin.server.deploy.stated_needs import stated_needs
from fedkin.server.egress_receipts import RecordingTransport, receipts_file
from fedkin.server.handshake import make_handshake, model_digest
from fedkin.server.membership import Membership
from fedkin.server.node_registry import Memory
from fedkin.server.remote_world import RemoteWorld
from fedkin.server.request_round import RequestRound
from fedkin.server.transport import Transport
from fedkin.simulation.workers import check_samples
from fedkin.task_types.label_words import label_words
from fedkin.tracking.health import Checks
from fedkin.tracking.registry import make_trackers

_TIMEOUT = 180.0  # seconds to wait until another server ends
_POLL = 0.5  # seconds between attempts
_log = logging.getLogger("fedkin")


def serve(
    config: ServerConfig,
    transport: Transport,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    removed: Callable[[], Collection[str]] = tuple,
    checks: Checks = MappingProxyType({}),
) -> Run:
    """Run a server's configuration with the clients that a transport reaches.

    A run in the server's folder is resumed.

    Args:
        config: content of server.toml.
        transport: sends messages to the clients.
        clock: returns the time in seconds.
        sleep: waits for a number of seconds.
        removed: returns the names of the sites that were removed for good.
        checks: further health checks of the page in [metrics], by name.

    Raises:
        ConfigError, ModelError, CheckpointError, MissingExtra: as in ``simulate``.
        StorageError: as in ``simulate``, or another server uses the folder.
    """
    folder = Path(config.federation.folder)
    with run_lock(folder):
        state = StateWriter(folder)
        try:
            recording = RecordingTransport(transport, receipts_file(folder))
            request_round = RequestRound(recording, config.federation, clock, sleep)
            worlds = RemoteWorlds(config, request_round, removed)
            metrics = ServerMetrics(config, worlds.membership)
            with metrics.shown(checks):
                run = _serve(config, worlds, state, metrics)
            state.finish()
            return run
        except Exception as error:
            state.fail(error)
            raise
        finally:
            state.stop()


def _serve(
    config: ServerConfig, worlds: RemoteWorlds, state: StateWriter, metrics: ServerMetrics
) -> Run:
    """Run a server's configuration while ``state`` stores which sites take part, and ``metrics``
    counts.

    Raises the errors of ``serve``.
    """
    folder = Path(config.federation.folder)
    trackers = make_trackers([*config.federation.track, *metrics.trackers], folder)
    state.follow(worlds.membership, metrics.write)
    selected = named_methods(config.methods)
    resume = holds_run(folder)
    experiment = Experiment(
        worlds=worlds,
        plan=config.run,
        description=config.description(),
        on_round=partial(log_round, rounds=config.run.rounds),
        resume=resume,
        trackers=trackers,
        options=config.options,
        measures=config.measures,
    )
    return experiment.run(selected, folder)


class StateWriter:
    """Keeps the file with a server's state up to date: its sites, and why the server has ended.

    Args:
        folder: the run's folder. The state file is next to it, and starts empty.
    """

    def __init__(self, folder: Path) -> None:
        self.path = server_state_file(folder)
        self.state = FederationState()
        write_state(self.path, self.state)

    def follow(self, membership: Membership, and_then: Callable[[], None]) -> None:
        """Write the state to its file whenever ``membership`` (the nodes that take part) may have
        changed, and call ``and_then``."""

        def write() -> None:
            members = membership.registry
            # Of all clients with an id, those whose node this process has met.
            online = members.rows_by_node(np.arange(len(members)))
            self._write(
                FederationState(
                    accepted=tuple(members.met()),
                    ready=tuple(membership.candidates()),
                    refused=dict(members.refusals),
                    failing=dict(members.failures),
                    waiting=membership.waiting,
                    nodes={node.info.name: node.node_id for node in online},
                )
            )
            and_then()

        membership.on_change = write

    def fail(self, error: Exception) -> None:
        """Write to the state file why the server has ended with an error."""
        self._write(replace(self.state, error=error_line(error)))

    def finish(self) -> None:
        """Remove the failures of sites, because the run is complete."""
        self._write(replace(self.state, failing={}))

    def stop(self) -> None:
        """Remove the line about clients that the server waits for, because the server ends."""
        self._write(replace(self.state, waiting=""))

    def _write(self, state: FederationState) -> None:
        """Write the state to its file if it has changed."""
        if state != self.state:
            self.state = state
            write_state(self.path, state)


def error_line(error: Exception) -> str:
    """An error as one line. An unexpected error has its type in front."""
    text = " ".join(str(error).split())
    return text if isinstance(error, FedkinError) else f"{type(error).__name__}: {text}"


class RemoteWorlds:
    """Makes a ``RemoteWorld`` (the clients of real sites) for each run. All runs share one model
    and one membership (the nodes that take part)."""

    def __init__(
        self,
        config: ServerConfig,
        request_round: RequestRound,
        removed: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.config = config
        self.clients = config.federation.capacity
        data = config.data_description()
        with error_context("model"):
            self.model = config.model.make(data)
            self.spec = check_samples(self.model, data)
        start = self.model.initial(HANDSHAKE_SEED)
        shape = data.x.shape[1:]
        handshake = make_handshake(
            federation=config.federation.name,
            version=__version__,
            spec=self.spec,
            shape=shape,
            classes=data.classes,
            config=config.shared_digest,
            labels=label_words(data.task_type, config.samples.label_scale_from),
        )
        file = RegistryFile(Path(config.federation.folder))
        secret = config.option_entries.get("secret")
        self.membership = Membership(
            request_round=request_round,
            own=replace(handshake, start=model_digest(start)),
            classes=data.classes,
            save=file.save,
            signed=secret is not None and bool(secret.values.get("signed")),
        )
        self.membership.removed = removed
        self.membership.interrupted = is_interrupted
        methods = [entry.made for entry in config.methods]
        self.membership.states = stated_needs(methods, config.option_entries)
        self._agreed: TableTransform | None = None  # the scaling of all sites, once it is known
        self.task_type = data.task_type  # with the statistics of all sites, once they are known
        self._labels_known = not config.samples.labels_summed
        # Nodes that joined after the last checkpoint keep their ids too.
        registered = file.load()
        if registered is not None:
            self.membership.registry.recall(registered)

    def digests(self) -> Digests:
        """Digests of the model, which must be the same when a run is resumed."""
        return self.membership.own.identity()

    def check(self, methods: Methods, plan: Plan, options: Iterable[Option]) -> None:
        """Do nothing: the server has already checked everything it can."""

    def open(self, entry: Values, method: Method) -> OpenWorld:
        """A new ``RemoteWorld`` for a run of a method."""
        # Nodes use this name for a file, so it must differ between run folders.
        title = user_methods.title(entry["name"])[:40]
        name = f"{self.config.federation.name}-{title}-{secrets.token_hex(4)}"
        world = RemoteWorld(
            membership=self.membership,
            spec=self.spec,
            initial=self.model.initial,
            work=self.config.work,
            run=name,
            task_type=self.task_type,
        )
        transform = self._transform(world)
        self._find_label_statistics(world)
        columns = CommonScaling() if transform is None else transform.scaling
        summed = self.config.samples.labels_summed
        scaling = columns._replace(labels=self.task_type.statistics if summed else None)
        if any(array is not None for array in scaling):
            scale_columns(world, scaling)
        # Clients answer these tasks in every reply, from the first one on.
        for task in requirements_of(method).reads.standing:
            world.expect(task)
        samples = replace(self.config.data_description(), task_type=self.task_type)
        if transform is not None:
            samples = replace(samples, transform=transform)
        parts = Ingredients(method, self.model, samples, self.config.work)
        return OpenWorld(world, self._client_facts, parts=parts)

    def _transform(self, world: RemoteWorld) -> TableTransform | None:
        """The scaling that this server computes with its sites, once for all runs of its folder;
        None if it computes none. A run that is resumed keeps its scaling.

        Raises:
            ConfigError: no site replies.
            CheckpointError: the folder of the resumed run lacks the scaling.
        """
        samples = self.config.samples
        if not samples.summed:
            return None
        if self._agreed is None:
            folder = Path(self.config.federation.folder)
            if holds_run(folder):
                self._agreed = self._kept_transform(folder)
            else:
                quartiles = samples.scale == ROBUST
                summaries = column_summaries(world, samples.features or (), quartiles)
                _log.info(
                    "the columns are scaled by sums over %d training samples of all sites",
                    summaries[0].count,
                )
                self._agreed = summarised_transform(str(samples.scale), summaries)
        return self._agreed

    def _find_label_statistics(self, world: RemoteWorld) -> None:
        """Compute the statistics of labels that are numbers with the sites, once for all runs of
        this server's folder. A run that is resumed keeps its statistics.

        Raises:
            ConfigError: no site replies, or all labels are equal.
            CheckpointError: the folder of the resumed run lacks the statistics.
        """
        if not self._labels_known:
            folder = Path(self.config.federation.folder)
            file = folder / LABELS
            if holds_run(folder):
                self.task_type = self.task_type.with_statistics(read_label_statistics(file))
            else:
                self.task_type = label_statistics(world, self.task_type)
                write_label_statistics(file, self.task_type.statistics)
            self._labels_known = True
        world.task_type = self.task_type

    def _kept_transform(self, folder: Path) -> TableTransform:
        """The scaling of the run in a folder. Raises CheckpointError if the folder has none."""
        transform = read_transform(folder)
        if transform is None:
            raise CheckpointError(
                f"{folder} has no {TRANSFORM} with the scaling of its run, which other numbers "
                "would spoil; restore it from a copy. If samples.scale is new in server.toml, set "
                "another federation.folder"
            )
        return transform

    def _client_facts(self) -> ClientFacts:
        """Numbers of samples and names of all clients. An id that is not assigned to a client yet
        has an empty name."""
        nodes = self.membership.registry
        names = [*nodes.client_names()]
        return ClientFacts(nodes.samples, names + [""] * (self.clients - len(names)))


def log_round(record: Record, rounds: int) -> None:
    """Log one line about a round: scores (such as accuracies), clusters and lost replies.

    Args:
        record: record of the round.
        rounds: number of the last round.
    """
    score = scores_in(record).of_round
    after = record.get(score.name)
    before = record.get(f"{score.name}_before_training")
    parts = []
    if after is not None:
        parts.append(f"{score.head} {after:.3f} after aggregation")
    if text := scored_text(record):
        parts.append(text)
    if before is not None:
        parts.append(f"{before:.3f} before local training")
    if record.get("cluster_sizes"):
        parts.append(f"clusters of {record['cluster_sizes']}")
    for kind in ("missing", "nonfinite", "outliers"):
        if record.get(kind):
            parts.append(f"{record[kind]} {kind}")
    text = ", ".join(parts) or "done"
    facts = event("round", method=record["method"], round=record["round"], rounds=rounds)
    _log.info(
        "%s, round %d of %d: %s", record["method"], record["round"], rounds, text, extra=facts
    )


class RegistryFile:
    """The file ``.NAME.registry`` next to the run folder NAME, with all accepted nodes.

    The server loads it only when it resumes a run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder.with_name(f".{folder.name}.registry")

    def save(self, memory: Memory) -> None:
        """Write the whole registry. Raises StorageError if that fails."""
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, encode({}, memory))

    def load(self) -> Memory | None:
        """The saved registry if a run is resumed. Raises CheckpointError if it cannot be read."""
        if not (self._folder / CHECKPOINTS).exists():
            return None
        try:
            return decode(self.path.read_bytes()).arrays
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} cannot be read ({error}); restore it from a copy. Or remove it: then "
                "the run continues, but clients that joined after the last checkpoint may get "
                "other ids"
            ) from error


@contextmanager
def run_lock(
    folder: Path, timeout: float | int = _TIMEOUT, poll: float | int = _POLL
) -> Iterator[None]:
    """Hold the lock of a run folder, and wait while another server holds it.

    Args:
        folder: the run folder; the lock is the hidden file ``.NAME.lock`` next to it.
        timeout: seconds to wait.
        poll: seconds between attempts.

    Raises:
        StorageError: another server still holds the lock after ``timeout`` seconds, or the lock
            file cannot be written.
    """
    path = lock_file(folder)
    lock = FileLock(path, poll_interval=poll)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The first attempt does not wait, so that the warning comes before the wait.
        try:
            lock.acquire(blocking=False)
        except Timeout:
            _log.warning("another server uses %s; waiting until it ends", folder)
            try:
                lock.acquire(timeout=timeout)
            except Timeout:
                raise StorageError(
                    f"another server uses {folder}; stop it first (flwr list, flwr stop)"
                ) from None
    try:
        with owner_noted(path, folder):
            yield
    finally:
        lock.release()
