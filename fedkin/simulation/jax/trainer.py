"""Local training and full gradients of rows (a client and a model each), distributed over devices
by number of steps."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jaxtyping import Float, Int, UInt32

from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model
from fedkin.simulation.batching import Batches, local_batches, rounded_up, sequential_batches
from fedkin.simulation.jax import local_training
from fedkin.simulation.jax.batch_plan import (
    BatchPlan,
    ProgramRows,
    label_array,
    plan,
    stack_plans,
)
from fedkin.simulation.jax.device_trial import cpu_instead, no_memory
from fedkin.simulation.jax.devices import (
    fastest_lanes,
    frozen_on,
    has_room,
    mesh_of,
    replicate,
    rows_by_device,
    shard,
)
from fedkin.simulation.jax.local_training import Shared
from fedkin.simulation.jax.sample_cache import RepeatedSamples, SamplesOfCall
from fedkin.simulation.jax.train_options import Recipe

_WIDTH = 64  # samples per batch of a full gradient
_MANY = 4  # a call with more than this many models per row has many unused models


class JaxTrainer:
    """Trains the clients of one data set.

    Args:
        data: samples of the clients.
        model: the model.
        devices: XLA devices.
        lanes: clients that a device trains in parallel; None to try several numbers in the first
            training call and keep the fastest.
        ids: the clients' ids in the random streams.
        keep: whether the devices keep all samples between training calls; None to keep them if an
            accelerator has room.
    """

    def __init__(
        self,
        data: FederatedData,
        model: Model,
        devices: list,
        lanes: int | None,
        ids: Int[np.ndarray, "N"],
        keep: bool | None = None,
    ) -> None:
        self._data = data
        self._model = model
        self._devices = devices
        self._lanes = lanes
        self._ids = ids
        self._largest = rounded_up(int(data.train.sizes.max()))
        self._mean_size = float(data.train.sizes.mean())
        self._keep = has_room(devices[0], data.x.nbytes) if keep is None else keep
        self._kept: dict[int, Any] = {}  # samples, by the number of devices
        self._repeated = RepeatedSamples()

    def train(self, call: TrainCall) -> LocalUpdates:
        """Train every row (a client with one model) of a training call.

        If no number of lanes (rows trained in parallel) was given, the first call finds the
        fastest. If the device has no memory for one lane, the CPU trains from then on.
        """
        if self._lanes is None:
            try:
                return self._train_fastest(call)
            except JaxRuntimeError as error:
                fault = no_memory(error)
                if fault is None:
                    raise
                self._use_cpu(cpu_instead(self._devices[0], f"one client does not fit: {fault}"))
        # Rows of one client differ only in their model: detectors, and components of a mixture.
        if call.work.positive is not None or call.options == {"weights"}:
            return self._train_groups(call)
        return self._train_rows(call)

    def _train_fastest(self, call: TrainCall) -> LocalUpdates:
        """Train all rows with the number of lanes that is the fastest for this model."""
        lanes = fastest_lanes(
            self._model,
            len(call.clients),
            lambda lanes: self._side_by_side(lanes).train(call),
        )
        return self._side_by_side(lanes).train(call)

    def _use_cpu(self, devices: list) -> None:
        """Train on the devices of a CPU, one row (a client with one model) after another."""
        self._devices = devices
        self._lanes = 1
        self._keep = False
        self._kept = {}
        self._repeated = RepeatedSamples()

    def _side_by_side(self, lanes: int) -> JaxTrainer:
        """The same trainer, with this number of clients trained in parallel."""
        other = copy.copy(self)
        other._lanes = lanes
        return other

    def _train_rows(self, call: TrainCall) -> LocalUpdates:
        """Train rows (clients) that have one model each."""
        call = _without_unused_models(call)
        batches = self._batches(call)
        rows = self._program_rows(call, batches)
        if call.weights is not None:
            pairs = zip(call.weights, batches, strict=True)
            rows = replace(rows, weights=[weights[drawn.rows] for weights, drawn in pairs])
        # Batches of a fixed number of steps may hold a sample twice or not at all. A full gradient
        # needs every sample once, so it is computed separately.
        separate = call.gradient and call.work.steps is not None
        recipe = _recipe(call.work, self._lanes or 1, gradient=call.gradient and not separate)
        if call.envelope is not None:
            recipe = recipe._replace(inner_steps=call.envelope.steps)
        updates = self._compute(recipe, call, rows)
        if not separate:
            return updates
        gradient = self.gradients(call.models, call.clients, call.model_index)
        return updates._replace(gradient=gradient)

    def _train_groups(self, call: TrainCall) -> LocalUpdates:
        """Train detectors, or the components of a mixture.

        The models of one client form one row of the program and train on the same batches.
        """
        recipe = _recipe(call.work, self._lanes or 1, detects=call.work.positive is not None)
        update = np.empty((len(call.clients), call.models.shape[1]), np.float32)
        last = np.empty(len(call.clients), np.float32)
        first = np.empty(len(call.clients), np.float32)
        # Groups of equal size run in one program; a program cannot mix sizes.
        for members in by_client(call.clients, call.num_steps):
            groups = call.select(members[:, 0])
            batches = self._batches(groups)
            rows = self._program_rows(groups, batches)
            rows = replace(rows, model_index=call.model_index[members])
            if call.work.positive is not None:
                rows = replace(rows, positive=call.work.positive[members])
            if call.weights is not None:
                rows = replace(rows, weights=_group_weights(batches, call.weights, members))
            local = self._compute(recipe, call, rows)
            update[members] = local.update
            last[members] = local.loss
            first[members] = local.first_loss
        return LocalUpdates(update, last, first, None)

    def _compute(self, recipe: Recipe, call: TrainCall, rows: ProgramRows) -> LocalUpdates:
        """Run the training program on these rows (clients with their models). The results are in
        the order of the rows."""
        owned, plans = self._distribute(rows, gather=not self._keep)
        mesh = mesh_of(self._devices[: len(owned)])
        if self._keep and mesh.size not in self._kept:
            self._kept[mesh.size] = replicate(mesh, (self._data.x, label_array(self._data.y)))
        envelope = None
        if call.envelope is not None:
            # Typed as float32, like the learning rate and mu below.
            envelope = (np.float32(call.envelope.strength), np.float32(call.envelope.lr))
        shared = Shared(
            models=call.models,
            lr=np.float32(call.work.rate(call.stream.round)),
            mu=np.float32(call.work.mu),
            trained=call.trained,
            envelope=envelope,
        )
        shared = replicate(mesh, shared)._replace(
            samples=self._kept.get(mesh.size), frozen=frozen_on(mesh, self._model)
        )
        updates = local_training.train(
            model=self._model,
            recipe=recipe,
            mesh=mesh,
            shared=shared,
            work=shard(mesh, plans),
        )
        return jax.tree.map(lambda part: _gathered(np.asarray(part), owned), updates)

    def gradients(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode."""
        sizes = self._data.train.sizes
        width = min(_WIDTH, self._largest)
        rows = ProgramRows(
            clients=clients,
            model_index=model_index,
            batches=[sequential_batches(int(sizes[c]), width) for c in clients],
            words=_no_words(clients),
        )
        owned, plans = self._distribute(rows, gather=True)
        mesh = mesh_of(self._devices[: len(owned)])
        gradients = local_training.gradients(
            model=self._model,
            mesh=mesh,
            models=replicate(mesh, models),
            work=shard(mesh, plans),
            frozen=frozen_on(mesh, self._model),
        )
        return _gathered(np.asarray(gradients), owned)

    def _distribute(
        self,
        rows: ProgramRows,
        gather: bool,
    ) -> tuple[list[Int[np.ndarray, "_"]], BatchPlan]:
        """The rows (clients with their models) of each device, and the stacked plans (samples,
        steps and rows) of all devices.

        Args:
            rows: rows of the training program.
            gather: whether to gather the samples of the rows' clients. If not, batches hold
                positions in the data set.
        """
        owned = rows_by_device(
            rows.batches,
            min(len(self._devices), len(rows.clients)),
            self._lanes or 1,
        )
        # If the devices do not hold all samples, they may still have those of the last call.
        kept = SamplesOfCall()
        if not self._keep:
            kept = self._repeated.begin([rows.clients[device_rows] for device_rows in owned])
        plans = [
            plan(
                y=self._data.y,
                owned=self._data.train,
                rows=rows.select(device_rows),
                gather=gather,
            )
            for device_rows in owned
        ]
        needed = gather and kept.samples is None
        whole = stack_plans(plans, self._data.x if needed else None, self._mean_size)
        if not self._keep:
            mesh = mesh_of(self._devices[: len(owned)])
            whole = whole._replace(x=self._repeated.on_devices(kept, mesh, whole.x))
        return owned, whole

    def _program_rows(self, call: TrainCall, batches: list[Batches]) -> ProgramRows:
        """The rows of a training call (clients with one model each), with their random keys,
        learning rates and class weights."""
        class_weights = None
        if call.work.class_weights is not None:
            class_weights = call.work.loss_weights(self._data.label_counts(clients=call.clients))
        rates: Any = None
        if call.work.step_schedule is not None:
            rates = [call.work.step_rates(call.stream.round, len(b.valid)) for b in batches]
        words = _no_words(call.clients)
        # The model's random numbers (e.g. dropout), separate from those that draw the batches.
        if self._model.random:
            device = call.stream.child("device")
            words = np.stack([device.words(int(client)) for client in self._ids[call.clients]])
        return ProgramRows(
            clients=call.clients,
            model_index=call.model_index,
            batches=batches,
            words=words,
            rates=rates,
            class_weights=class_weights,
            terms=call.terms,
            mixed=call.mixed,
        )

    def _batches(self, call: TrainCall) -> list[Batches]:
        """The batches of each row (a client with one model) of a training call; equal for rows with
        the same client and number of steps."""
        sizes = self._data.train.sizes
        pairs = list(zip(call.clients.tolist(), call.num_steps.tolist(), strict=True))
        drawn = {
            (client, steps): local_batches(
                samples=int(sizes[client]),
                work=call.work,
                num_steps=steps,
                client=int(self._ids[client]),
                stream=call.stream,
                largest=self._largest,
            )
            for client, steps in dict.fromkeys(pairs)
        }
        return [drawn[pair] for pair in pairs]


def _no_words(clients: Int[np.ndarray, "r"]) -> UInt32[np.ndarray, "r 2"]:
    """Random keys of zeros, one for each row, for programs that draw no random numbers."""
    return np.zeros((len(clients), 2), np.uint32)


def _without_unused_models(call: TrainCall) -> TrainCall:
    """The training call with only the models that its clients train, if most of its models are
    unused.

    Of a thousand peers' models, only the trained ones need to go to a device. A call with few
    unused models keeps all of them: each number of models needs another compiled program, so rounds
    with different numbers of clients would compile many.
    """
    # The number of kept models is rounded up, so that few sizes occur. No row uses the padding.
    used, index = np.unique(call.model_index, return_inverse=True)
    count = rounded_up(len(call.model_index))
    if _MANY * count >= len(call.models):
        return call
    return replace(
        call,
        models=call.models[np.pad(used, (0, count - len(used)))],
        model_index=index,
    )


def _recipe(
    work: LocalTraining, lanes: int, gradient: bool = False, detects: bool = False
) -> Recipe:
    """The options for which a training program is compiled, from the run's local training."""
    return Recipe(
        optimizer=work.optimizer,
        momentum=work.momentum,
        proximal=work.mu > 0,
        lanes=lanes,
        gradient=gradient,
        detects=detects,
        weight_decay=work.weight_decay,
        nesterov=work.nesterov,
        clip_norm=work.clip_norm,
        label_smoothing=work.label_smoothing,
        precision=work.precision,
    )


def _group_weights(
    batches: list[Batches],
    weights: Sequence[Float[np.ndarray, "_"]],
    members: Int[np.ndarray, "g G"],
) -> list[Float[np.ndarray, "_ G _"]]:
    """The sample weights of the batches of every group (one client's G models), one array [S G B]
    for each group.

    Args:
        batches: batches of each group.
        weights: sample weights of each row (a client with one model) of the training call.
        members: the rows that are the members of each group.
    """
    return [
        np.stack([weights[row][drawn.rows] for row in group], axis=1)
        for group, drawn in zip(members, batches, strict=True)
    ]


def by_client(
    clients: Int[np.ndarray, "r"], num_steps: Int[np.ndarray, "r"]
) -> Iterator[Int[np.ndarray, "g G"]]:
    """Group the rows of a training call (clients with one model each) by client and number of
    steps.

    Yields an array for each group size G. Line i of the array lists the G rows of the call that
    form group i.
    """
    _, group, sizes = np.unique(
        np.stack([clients, num_steps]), axis=1, return_inverse=True, return_counts=True
    )
    order = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(sizes)[:-1])
    for size in np.unique(sizes):
        yield np.stack([rows for rows in order if len(rows) == size])


def _gathered(
    part: Float[np.ndarray, "D n ..."], owned: list[Int[np.ndarray, "_"]]
) -> Float[np.ndarray, "r ..."]:
    """Results of all devices, without padding, put back in the order of the rows (clients with
    their models) of the training call."""
    out = np.empty((sum(len(rows) for rows in owned), *part.shape[2:]), part.dtype)
    for device, rows in enumerate(owned):
        out[rows] = part[device, : len(rows)]
    return out
