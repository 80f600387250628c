"""Clients as a task sees them: one client (``Client``), or in a simulation all at once
(``ClientRows``). A call of ``World.run`` runs a task. It has n rows. Each row is a client that does
the task, with its entries in the task's arrays (e.g. the index of the model that it trains). A
client may have several rows. A portion is a group of r rows that are computed at once.

Shapes: N clients, K models, P parameters, C classes, s samples of a client, t samples of all rows
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client_engine import ClientEngine, ClientSamples
from fedkin.core.client_memory import ClientMemory, OwnMemory, client_name
from fedkin.core.columns import columns_of_split, raw_labels, raw_values, units_of_split
from fedkin.core.engine_protocols import LocalUpdates, Scorer, ScoreSums, Trainer
from fedkin.core.errors import TaskError
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.randomness import Stream
from fedkin.core.schema import Memory
from fedkin.core.train_call import TrainCall, shortened
from fedkin.core.training import LocalTraining

CHUNK_BYTES = 256 * 2**20  # samples and vectors that one portion may hold
_FEWER_SAMPLES = 4  # several portions hold a quarter of these bytes of samples each


@dataclass(frozen=True)
class Client:
    """One client: its samples, its model engine, its random numbers and its memory.

    Attributes:
        id: the client's number in random streams and messages.
        steps: epochs (or steps) of local training that the client completes. A straggler completes
            fewer than requested.
        memory: arrays that the client keeps between rounds, by name. Only declared arrays can be
            stored.
    """

    id: int
    steps: int
    memory: OwnMemory
    _rows: ClientRows
    _row: int
    _asked: int  # epochs (or steps) that the task requests; 0 if it has no field ``work``

    def __str__(self) -> str:
        return f"client {self._rows.name(int(self._position[0]))}"

    @property
    def identity(self) -> Any:
        """The client's signing key (``secret.signed_keys.Identity``). None if the client has no
        key, as in a simulation."""
        return self._rows.identity

    @property
    def classes(self) -> int:
        """C, the number of classes."""
        return self._rows.data.classes

    def samples(self, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
        """The client's features [s ...] and labels [s]. ``split`` is ``train``, ``test``, or
        ``validation`` if the data set has a validation split."""
        data = self._rows.data
        positions = data.part(split)[int(self._position[0])]
        return data.x[positions], data.y[positions]

    def units(self, split: str = "train") -> Int[np.ndarray, "s"] | None:
        """The unit of each of the client's samples, such as a patient with several visits. None if
        each sample is a unit."""
        return units_of_split(self._rows.data, int(self._position[0]), split)

    def raw_columns(self) -> Float[np.ndarray, "s ..."]:
        """Features of the client's training samples (or patients) before scaling, in float64."""
        data = self._rows.data
        return raw_values(data, columns_of_split(data, int(self._position[0]), "train"))

    def patients(self, split: str = "test") -> tuple[np.ndarray, np.ndarray]:
        """Times [s] and events [s] of the client's patients, for survival data. Raises TaskError
        for other data."""
        patients = self._rows.data.patients
        if patients is None:
            raise TaskError(
                f"task {self._rows.task}: {self._rows.data.name} has no patients (times and "
                "events); use data of fk.data.from_patients, such as fk.data.tcga_brca()"
            )
        rows = patients.part(split)[int(self._position[0])]
        return patients.times[rows], patients.died[rows]

    def raw_labels(self) -> Float[np.ndarray, "s 3"]:
        """The client's training labels in their own unit, with exposures and weights; for labels
        that are numbers."""
        return raw_labels(self._rows.data.task_type, self.samples()[1])

    @property
    def label_counts(self) -> Int[np.ndarray, "C"]:
        """The client's number of training samples of each class."""
        return self._rows.data.label_counts(clients=self._position)[0]

    @property
    def first_label_counts(self) -> Int[np.ndarray, "C"]:
        """The client's label counts before any shift of its data. A real client returns its present
        counts, because it knows no earlier ones."""
        return self._rows.samples.first_data.label_counts(clients=self._position)[0]

    @property
    def first_labels(self) -> np.ndarray:
        """The client's training labels before any shift of its data, as ``samples`` returns them. A
        real client returns its present ones."""
        first = self._rows.samples.first_data
        return first.y[first.part("train")[int(self._position[0])]]

    @property
    def task_type(self) -> Any:
        """What the labels are (``TaskType``): classes, numbers, counts, ..."""
        return self._rows.data.task_type

    def fact(self, column: str) -> str | None:
        """A fact about the client, from a column of its table: one of ``client_columns``, or a
        feature with the same value in all training samples. None if there is no such column."""
        data = self._rows.data
        client = int(self._position[0])
        if column in (data.client_columns or {}):
            return data.client_columns[column][client]
        if column not in (data.feature_names or ()):
            return None
        values = self.raw_columns()[:, data.feature_names.index(column)]
        return f"{values[0]:.6g}" if np.ptp(values) <= 1e-6 * abs(values[0]) else None

    @property
    def has_validation(self) -> bool:
        """Whether the data set has a validation split."""
        return self._rows.data.validation is not None

    @property
    def detects_shifts(self) -> bool:
        """Whether the client looks for shifts of its data. If False, it never reports one."""
        return self._rows.samples.detects_shifts

    def rng(self) -> np.random.Generator:
        """The client's random generator for this task, the same in every world. Raises TaskError if
        the task was run without a stream."""
        return self._rows.drawn().client(self.id)

    # --- the model engine

    def train(
        self,
        model: Float[np.ndarray, "P"],
        work: LocalTraining,
        gradient: bool = False,
        **options: Any,
    ) -> LocalUpdates:
        """Local training from a model.

        A straggler completes only a part of the epochs that its task requests. It then completes
        the same part of this training.

        Args:
            model: initial parameters.
            work: training settings.
            gradient: whether to return the full gradient at the start as well.
            options: other optional fields of ``TrainCall``, for this client.

        Returns:
            update [P], loss, first_loss, and, if requested, gradient [P] of the full training loss
            at the start.
        """
        work = work.select(_FIRST)
        call = TrainCall(
            models=model[None],
            clients=self._position,
            model_index=_FIRST,
            work=work,
            num_steps=shortened(work.count, np.array([self.steps]), self._asked),
            stream=self._rows.drawn(),
            gradient=gradient,
            **options,
        )
        return self._rows.trainer.train(call).row(0)

    def gradient(self, model: Float[np.ndarray, "P"]) -> Float[np.ndarray, "P"]:
        """Gradient of the client's full training loss at a model."""
        return self._rows.trainer.gradients(model[None], self._position, _FIRST)[0]

    def losses(self, models: Float[np.ndarray, "K P"]) -> Float[np.ndarray, "K"]:
        """The client's mean training loss for each model, with the regularisation used in
        training."""
        return self._rows.scorer.losses(models, self._position)[0]

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        model_index: Int[np.ndarray, "..."],
        split: str = "test",
    ) -> ScoreSums:
        """Number of correct predictions, summed loss and number of samples of a split.
        ``model_index`` selects one model, or for each class one detector (class against others)."""
        sums = self._rows.scorer.score(models, self._position, model_index[None], split)
        return ScoreSums(*(part[0] for part in sums))

    def predict(self, model: Float[np.ndarray, "P"], split: str = "train") -> Int[np.ndarray, "s"]:
        """The classes that a model predicts for the client's samples."""
        return self._rows.scorer.predict(model[None], self._position, split)[0]

    def raw_scores(
        self, detector: Float[np.ndarray, "P"], split: str = "train"
    ) -> Float[np.ndarray, "s"]:
        """The client's sample scores by a detector (of one class against all others)."""
        return self._rows.scorer.raw_scores(detector[None], self._position, _FIRST, split)

    def sample_losses(self, models: Float[np.ndarray, "K P"]) -> Float[np.ndarray, "K s"]:
        """The loss of each model on each training sample of the client, without regularisation."""
        return self._rows.scorer.sample_losses(models, self._position)

    def scores(
        self, model: Float[np.ndarray, "P"], split: str = "train"
    ) -> Float[np.ndarray, "s C"]:
        """The scores of all classes that a model gives to the client's samples."""
        return self._rows.scorer.scores(model, self._position, split)

    def embeddings(self, split: str = "train") -> Float[np.ndarray, "s e"]:
        """The embeddings of the client's samples by the model's frozen network."""
        return self._rows.scorer.embeddings(self._position, split)

    def with_samples(self, own: Int[np.ndarray, "_"]) -> Client:
        """The same client with only the training samples at some positions. Raises TaskError if
        there are none, or if a position is out of range."""
        return replace(self, _rows=self._rows.with_samples(np.array([self._row]), [own]), _row=0)

    @property
    def _position(self) -> Int[np.ndarray, "1"]:
        """The client's position in the data, as an array with one entry."""
        return self._rows.clients[self._row : self._row + 1]


_FIRST = np.zeros(1, np.int64)


@dataclass(frozen=True)
class ClientRows:
    """All rows (clients that do the task), for tasks that compute many clients at once. At a real
    site, only rows of the site's clients.

    Attributes:
        task: the task's name, for messages.
        clients: the client of each row, a position in the data.
        active: mask of the rows whose client does the work; results of other rows are not used.
        steps: epochs (or steps) of local training that each row completes.
        samples: samples of all N clients.
        engine: model computations.
        memory: memory of all N clients.
        declared: the memory arrays that the task declares, by name.
        stream: random numbers of the task; None if the task draws none.
        identity: signing key of the real site; None in a simulation.
    """

    task: str
    clients: Int[np.ndarray, "n"]
    active: Bool[np.ndarray, "n"]
    steps: Int[np.ndarray, "n"]
    samples: ClientSamples
    engine: ClientEngine
    memory: ClientMemory
    declared: Mapping[str, Memory]
    stream: Stream | None
    identity: Any = None

    @property
    def ids(self) -> Int[np.ndarray, "N"]:
        """The numbers by which random streams identify the clients."""
        return self.samples.ids

    @property
    def data(self) -> Any:
        """The present samples of all clients (``FederatedData``)."""
        return self.samples.data

    @property
    def scorer(self) -> Scorer:
        """Scores models on the clients' samples."""
        return self.engine.scorer

    @property
    def trainer(self) -> Trainer:
        """Trains models on the clients' samples."""
        return self.engine.trainer

    @property
    def every(self) -> slice:
        """An index of all rows (clients), for a task that computes them as a single portion."""
        return slice(None)

    def name(self, client: int) -> str:
        """The name of a client, for messages; the client's number if it has no name. ``client`` is
        its position."""
        return client_name(client, getattr(self.data, "client_names", None), self.ids)

    def drawn(self) -> Stream:
        """The task's random stream. Raises TaskError if the task was run without one."""
        if self.stream is None:
            raise TaskError(
                f"task {self.task} draws random numbers: run it with a stream, world.run(task, "
                "ids, stream)"
            )
        return self.stream

    def select(self, some: Int[np.ndarray, "r"]) -> ClientRows:
        """Only the rows (clients that do the task) with the given indices."""
        return replace(
            self,
            clients=self.clients[some],
            active=self.active[some],
            steps=self.steps[some],
        )

    def train_call(
        self,
        models: Float[np.ndarray, "K P"],
        model_index: Int[np.ndarray, "n"],
        work: LocalTraining,
        **options: Any,
    ) -> TrainCall:
        """The ``TrainCall`` (request for local training) of all rows, each a client with one model.
        ``call.select(rows)`` restricts it to some rows.

        Args:
            models: initial parameters.
            model_index: the model of each row.
            work: settings of the training, for all rows.
            options: other fields of ``TrainCall``.
        """
        call = TrainCall(
            models=models,
            clients=self.clients,
            model_index=model_index,
            work=work,
            num_steps=self.steps,
            stream=self.drawn(),
        )
        return replace(call, **options)

    def portions(self, numbers: int) -> Iterator[Int[np.ndarray, "r"]]:
        """Rows (active clients), by client, in portions that fit into ``CHUNK_BYTES`` of memory.

        Args:
            numbers: how many float32 numbers a row needs, in addition to its client's samples.
        """
        active = np.flatnonzero(self.active)
        rows = active[np.argsort(self.clients[active], kind="stable")]
        clients = self.clients[rows]
        samples = self.data.train.sizes[clients] * self.data.x[:1].nbytes
        each = samples + numbers * BYTES_PER_NUMBER
        # Many samples in a portion save no time: devices keep only those of a call in one portion.
        if each.sum() > CHUNK_BYTES:
            each = np.maximum(_FEWER_SAMPLES * samples, each)
        portions = np.cumsum(each) // CHUNK_BYTES
        if self.engine.together:  # each row takes the portion of its client's first row
            portions = portions[np.searchsorted(clients, clients)]
        yield from (rows[portions == portion] for portion in np.unique(portions))

    def by_model(
        self, model_index: Int[np.ndarray, "n"]
    ) -> Iterator[tuple[int, Int[np.ndarray, "r"]]]:
        """Yield each model with its active rows (clients), for work of which all clients of a model
        are one call. ``model_index`` is the model of each row."""
        active = np.flatnonzero(self.active)
        for index in np.unique(model_index[active]):
            yield int(index), active[model_index[active] == index]

    def with_samples(
        self, some: Int[np.ndarray, "r"], own: list[Int[np.ndarray, "_"]]
    ) -> ClientRows:
        """The selected rows, each with its client restricted to some of its training samples. These
        clients have no memory. Raises TaskError for an empty subset or positions out of range.

        Args:
            some: indices of the selected rows.
            own: for each selected row, positions among its client's training samples.
        """
        clients = self.clients[some]
        sizes = self.data.train.sizes[clients]
        for client, size, rows in zip(clients, sizes, own, strict=True):
            if not len(rows) or not 0 <= rows.min() <= rows.max() < size:
                raise TaskError(
                    f"task {self.task}: expected positions of training samples from 0 to "
                    f"{size - 1}, got {rows} (client {self.name(int(client))})"
                )
        assert self.engine.limited is not None  # every world has it
        samples, engine = self.engine.limited(clients, own)
        part = self.select(some)
        return replace(
            part,
            clients=np.arange(len(some)),
            samples=samples,
            engine=engine,
            declared={},  # these clients have no memory
        )

    def store(self, name: str, rows: Int[np.ndarray, "r"], values: np.ndarray) -> None:
        """Store arrays [r ...] in the memory of the clients of some active rows. Raises TaskError
        for an undeclared name."""
        if name not in self.declared:
            raise TaskError(
                f"task {self.task}, memory {name}: the task's `memory` does not declare it"
            )
        self.memory.write(
            task=self.task,
            name=name,
            memory=self.declared[name],
            clients=self.clients[rows],
            values=values,
        )

    def one_by_one(self, task: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield the replies of a task's ``compute``, one client after another. Raises TaskError if
        ``compute`` does not return a dictionary of arrays."""
        for row in np.flatnonzero(self.active):
            index = np.array([row])
            client = int(self.clients[row])
            single = task.select(index)
            who = Client(
                id=int(self.ids[client]),
                steps=int(self.steps[row]),
                memory=OwnMemory(self.memory, client, self.task, self.declared),
                _rows=self,
                _row=int(row),
                _asked=0 if single.work is None else single.work.count,
            )
            arrays = single.compute(who)
            if not isinstance(arrays, dict):
                kind = type(arrays).__name__
                raise TaskError(
                    f"task {self.task}: compute must return a dictionary of arrays, got {kind} "
                    f"({who})"
                )
            yield index, {name: self._entry(name, value, who) for name, value in arrays.items()}

    def _entry(self, name: str, value: Any, client: Client) -> np.ndarray:
        """A client's value as an array with a new row axis. Raises TaskError if it is no array."""
        try:
            return np.asarray(value)[None]
        except ValueError as error:
            raise TaskError(f"task {self.task}: {name} is no array: {error} ({client})") from error
