"""Ray actors (extra ``ray``), and the distribution of rows (clients with their models) among them.

An actor is a process that holds the data of all clients. Packed data, which are stored in a folder,
are opened there by every actor; other data are in Ray's shared memory.

An actor has no state except its data. If an actor or its machine dies, another actor starts where
the cluster has room, and it computes the rows of the dead actor again: only time is lost.
"""

from __future__ import annotations

import logging
import os
import platform
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.errors import ConfigError, DataError, MissingExtra, WorkerError
from fedkin.core.train_call import TrainCall
from fedkin.data.federated import FederatedData
from fedkin.data.packed import open_packed
from fedkin.simulation.one_core import one_core_variables
from fedkin.simulation.run_rows import RowReplies
from fedkin.simulation.workers import AnyModel, worker_factory

LOCAL = "ray"  # a cluster of this machine's cores, or the one that this process already belongs to
# Attempts for a call's rows, each on another actor. If rows fail this often, the rows themselves
# are the cause, not the machines.
_TRIES = 5
# Seconds to wait for a first actor; long enough for one that reads much data.
_START_SECONDS = 300
_LESS_MEMORY = "use fewer actors (run.actors), fewer clients at a time (run.cohort), or packed data"
_log = logging.getLogger("fedkin")


class _PackedData(NamedTuple):
    """Packed data that each actor opens.

    Attributes:
        folder: the folder of the files.
        task_type: the task type of the run. In a private run it has other statistics of the labels
            than the files.
    """

    folder: Path
    task_type: Any

    def opened(self) -> FederatedData:
        """The data of the run."""
        return open_packed(self.folder).with_task_type(self.task_type)


class Cluster:
    """A connection to Ray, made once per process.

    Args:
        engine: ``ray``, or an address: ``ray:HOST:PORT``, ``ray:auto``.
        actors: number of actors. None: one on each GPU; without GPUs one on each machine, or one on
            each core of a single machine.

    Raises:
        MissingExtra: Ray is not installed.
        ConfigError: there is no such cluster, or its version of Python or Ray differs.
    """

    def __init__(self, engine: str, actors: int | None) -> None:
        self.ray = _import_ray()
        if not self.ray.is_initialized():
            try:
                # JAX warns about a fork, but here the fork only starts another program.
                with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                    self._connect(engine)
            except (ConnectionError, ValueError, RuntimeError) as error:
                reason = " ".join(str(error).split())
                raise ConfigError(
                    f"run.engine = {engine}: {reason}; start a cluster with ray start --head",
                ) from error
        machines = [node for node in self.ray.nodes() if node["Alive"]]
        resources = self.ray.cluster_resources()
        cores = int(resources.get("CPU", 1))
        self.total_cores = cores
        self.one_machine = len(machines) == 1
        gpus = int(resources.get("GPU", 0))
        # GPUs and cores that Ray reserves for each actor. A reservation may be a fraction of one
        # GPU, but more than one GPU must be a whole number.
        self.actors = actors or gpus or (cores if self.one_machine else len(machines))
        self.gpus = gpus / self.actors if gpus < self.actors else int(gpus // self.actors)
        self.cores = 1 if self.one_machine and not gpus else max(1, int(cores // self.actors))
        room = sum(int(node["Resources"].get("CPU", 0) // self.cores) for node in machines)
        if room < self.actors:
            _log.warning(
                "the cluster's machines have room for %d of %d actors of %d cores each, and the "
                "other actors never start: raise run.actors, so that each actor gets fewer cores, "
                "or lower run.actors if each actor has only one core",
                room,
                self.actors,
                self.cores,
            )

    def _connect(self, engine: str) -> None:
        """Start a cluster on this machine's cores, or connect to the cluster at an address."""
        if engine != LOCAL:
            address = engine.removeprefix("ray:").removeprefix("//")
            self.ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            return
        # Without "local" Ray would connect to the cluster that this machine used last, even a dead
        # one.
        self.ray.init(
            "local",
            num_cpus=os.cpu_count(),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )


class ActorPool:
    """Starts actors that hold the data of one federation, and distributes rows (clients with their
    models) among them.

    The actors start on first use.

    Args:
        cluster: connects to Ray; called on first use.
        data: the federation's data.
        model: the model.
        ids: the clients' ids in the random streams.
        clients_per_batch: clients trained at a time on one device, as in one process.
    """

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        data: FederatedData,
        model: AnyModel,
        ids: Int[np.ndarray, "N"],
        clients_per_batch: int | None,
    ) -> None:
        self.data = data
        self._connect = cluster
        self._model = model
        self._ids = ids
        self._cluster: Cluster | None = None
        self._clients_per_batch = clients_per_batch
        # Working actors.
        self._actors: list[Any] = []
        # Starting actors, by the future of their first reply.
        self._starting: dict[Any, Any] = {}
        self._last_error = ""
        self._failed_starts = 0  # in a row

    def _start(self) -> None:
        """Connect to Ray, and start all actors."""
        cluster = self._cluster = self._connect()
        self.ray = cluster.ray
        # Imported here, since it needs Ray.
        from fedkin.simulation.ray.script_classes import check_classes

        check_classes(self._model)
        packed = self.data.packed  # in a folder that every machine must reach
        held: FederatedData | _PackedData = self.data
        if packed is not None:
            held = _PackedData(packed.folder.resolve(), self.data.task_type)
        # XLA devices of an actor: one for its only core, otherwise all that XLA finds.
        devices = 1 if cluster.cores == 1 else None
        self._parts = self.ray.put((held, self._model, self._ids, self._clients_per_batch, devices))
        options: dict[str, Any] = {"num_cpus": cluster.cores, "scheduling_strategy": "SPREAD"}
        # Ray shows an actor only the GPUs that it has reserved for it.
        if cluster.gpus:
            options["num_gpus"] = cluster.gpus
        # A machine may have several actors, each with one core.
        if cluster.cores == 1:
            options["runtime_env"] = {"env_vars": one_core_variables()}
        self._kind = self.ray.remote(**options)(_Actor)
        for _ in range(cluster.actors):
            self._add()

    def _add(self) -> None:
        """Start one more actor."""
        actor = self._kind.remote(self._parts)
        self._starting[actor.ready.remote()] = actor

    def _join(self) -> None:
        """Add the actors that have become ready to the list of working actors. Wait for one if the
        list is empty.

        An actor for which the cluster has no room never starts, so there is no waiting for it while
        another actor works.
        """
        if self._cluster is None:
            self._start()
        ready = self._started(0 if self._actors else _START_SECONDS)
        while ready:
            for future in ready:
                actor = self._starting.pop(future)
                try:
                    machine, there, digest = self.ray.get(future)
                    check_versions(machine, there, versions())
                    self._check_samples(machine, digest)
                    self._actors.append(actor)
                    self._failed_starts = 0
                except self.ray.exceptions.RayError as error:
                    self._last_error = self._reason(error)
                    self._failed_starts += 1
                    if self._failed_starts < _TRIES:
                        _log.warning(
                            "a Ray actor could not be started (%s); another one is started",
                            self._last_error,
                        )
                        self._add()
            ready = self._started(0)
        if not self._actors:
            why = self._last_error or (
                f"none was ready in {_START_SECONDS} seconds; to see the cluster's resources, run: "
                "ray status"
            )
            raise WorkerError(f"no Ray actor could be started: {why}")

    def _started(self, seconds: float | int) -> list[Any]:
        """Futures of actors that have become ready, after waiting up to ``seconds`` for a first
        one."""
        if not self._starting:
            return []
        ready, _ = self.ray.wait(list(self._starting), timeout=seconds)
        return ready

    def _check_samples(self, machine: str, digest: str | None) -> None:
        """Raise DataError if the folder of packed data has other contents on the machine of an
        actor than on this machine.

        Args:
            machine: name of the actor's machine.
            digest: digest of the packed data there.
        """
        if self.data.packed is not None and digest != self.data.packed.digest:
            folder = self.data.packed.folder.resolve()
            raise DataError(
                f"machine {machine} of the cluster has different packed data in {folder}: copy the "
                f"folder of the machine that runs the rounds to {machine}"
            )

    def deal(
        self, clients: Int[np.ndarray, "r"], work: Int[np.ndarray, "r"]
    ) -> list[Int[np.ndarray, "_"]]:
        """The rows (clients with their models) of each actor, balanced by work.

        All rows of a client go to one actor. Clients with the most work come first, and each goes
        to the actor with the least work so far.

        Args:
            clients: client of each row.
            work: samples of each row, or any number proportional to its work.
        """
        self._join()
        _, first, row = np.unique(clients, return_index=True, return_inverse=True)
        total = np.bincount(row.ravel(), work, len(first))
        loads = np.zeros(len(self._actors))
        owner = np.zeros(len(first), np.int64)
        for client in np.argsort(-total, kind="stable"):
            owner[client] = np.argmin(loads)
            loads[owner[client]] += total[client]
        owner_of_row = owner[row.ravel()]
        dealt = [np.flatnonzero(owner_of_row == actor) for actor in range(len(loads))]
        return [rows for rows in dealt if len(rows)]

    def compute(self, method: str, shared: tuple, parts: Sequence[tuple]) -> list[Any]:
        """Compute the parts of a training or scoring call (some of its rows each), each on one
        actor.

        Args:
            method: what an actor calls for each part: a method of ``_Actor`` or of one of its
                attributes, such as ``train`` or ``scorer.losses``.
            shared: first arguments of the method, common to all parts. They are sent to each
                machine once.
            parts: for each part, the arguments that follow ``shared``.

        Returns:
            The results in the order of the parts.

        Raises:
            WorkerError: some parts failed on every actor that tried them.
        """
        common = self.ray.put(shared)
        results: dict[int, Any] = {}
        for _ in range(_TRIES):
            self._join()
            left = [part for part in range(len(parts)) if part not in results]
            calls = {
                part: self._actors[place % len(self._actors)] for place, part in enumerate(left)
            }
            futures = {
                part: actor.compute.remote(method, common, parts[part])
                for part, actor in calls.items()
            }
            dead = set()
            for part, future in futures.items():
                try:
                    results[part] = self.ray.get(future)
                except self.ray.exceptions.RayTaskError as error:
                    if isinstance(error.cause, MemoryError):
                        raise WorkerError(
                            f"a Ray actor could not allocate an array: {_LESS_MEMORY}"
                        ) from error
                    # An error of the computation itself: any other actor would raise it too.
                    raise error.as_instanceof_cause() from error
                except self.ray.exceptions.RayError as error:  # the actor or its machine died
                    self._last_error = self._reason(error)
                    _log.warning(
                        "a Ray actor has failed (%s); other actors take over its clients",
                        type(error).__name__,
                    )
                    dead.add(calls[part])
            if len(results) == len(parts):
                return [results[part] for part in range(len(parts))]
            self._replace(dead)
        raise WorkerError(
            f"the work of some clients failed on {_TRIES} Ray actors, one after another; the last "
            f"error: {self._last_error}"
        )

    def _reason(self, error: Exception) -> str:
        """Why an actor failed, and the cure if its machine ran out of memory."""
        if isinstance(error, self.ray.exceptions.OutOfMemoryError):
            return f"the actor's machine ran out of memory: {_LESS_MEMORY}"
        return (str(error).strip().splitlines() or [type(error).__name__])[-1]

    def _replace(self, dead: set[Any]) -> None:
        """Start new actors in place of those whose process or machine has died."""
        self._actors = [actor for actor in self._actors if actor not in dead]
        for actor in dead:
            with suppress(self.ray.exceptions.RayError):
                self.ray.kill(actor)
            self._add()


class _Actor:
    """The content of a Ray process: scorer and trainer for the data of one federation."""

    def __init__(
        self,
        parts: tuple[FederatedData | _PackedData, AnyModel, np.ndarray, int | None, int | None],
    ) -> None:
        held, model, ids, clients_per_batch, devices = parts
        data = held.opened() if isinstance(held, _PackedData) else held
        self.scorer, self.trainer = worker_factory(model, ids, devices, clients_per_batch)(data)
        self.replies = RowReplies(data, ids, self.scorer, self.trainer)
        self.digest = data.packed.digest if data.packed else None

    def ready(self) -> tuple[str, dict[str, str], str | None]:
        """The machine, its package versions, and the digest of packed data."""
        return platform.node(), versions(), self.digest

    def compute(self, method: str, shared: tuple, own: tuple) -> Any:
        """The result of a method for one part (some rows) of a training or scoring call.

        Args:
            method: name of the method, as for ``ActorPool.compute``.
            shared: the method's first arguments, common to all parts.
            own: the method's other arguments, for this part.
        """
        return attrgetter(method)(self)(*shared, *own)

    def train(self, models: Float[np.ndarray, "K P"], part: TrainCall) -> LocalUpdates:
        """Train a part (some rows) of a training call. The models are a separate argument, because
        all parts of the call that run on one machine share them in memory."""
        return self.trainer.train(replace(part, models=models))


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that affect the bits of a client's work."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in ("fedkin", "jax", "jaxlib", "numpy", "equinox", "optax", "torch", "torchax"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def check_versions(machine: str, there: dict[str, str], here: dict[str, str]) -> None:
    """Raise ConfigError if another machine has other versions of Python or packages than this one.

    Args:
        machine: name of the other machine.
        there: versions on the other machine.
        here: versions of the machine that runs the rounds.
    """
    differences = [
        f"{name} {there.get(name)}, here {here_version}"
        for name, here_version in here.items()
        if there.get(name) != here_version
    ]
    if differences:
        raise ConfigError(
            f"machine {machine} of the cluster has {'; '.join(differences)}: install the same "
            "versions on all machines"
        )


def _import_ray() -> Any:
    """The module ``ray``, with its usage statistics off. Raises MissingExtra if it is not
    installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra(
            "run.engine = ray needs Ray, which is not installed: pip install 'fedkin[ray]'"
        ) from None
    return ray
