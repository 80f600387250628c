"""A world of clients with quadratic losses, for tests of methods: each task has a closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client_engine import ClientEngine, ClientSamples
from fedkin.core.client_memory import ClientMemory
from fedkin.core.engine_protocols import LocalUpdates, ScoreSums
from fedkin.core.ledger import Ledger
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.core.train_call import Envelope, TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import Ragged
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.task_types.classification import CLASSIFICATION


@dataclass
class FakeWorld(SimulatedWorld):
    """Clients with quadratic losses, for tests: the loss of client i at w is half the squared
    distance of w to ``target[i]``.

    One epoch is one gradient step. Each client has one sample, whose label is the first class that
    the client has.

    Args:
        target: the parameters with the smallest loss, for each client.
        examples: weight of each client in means, in place of its number of training samples.
        work: settings of local training. Its ``steps`` are ignored.
        silent: clients that never reply.
        garbage: clients that reply NaN to training, and do not reply to other tasks.
        start: function that makes a new model from a random stream; None for normally distributed
            random numbers.
        counts: label counts of each client; None for one sample of one class. A test may change
            them during a run to imitate a shift of the data.
        detects: whether models are detectors. Client i trains the detector of class c towards
            ``target[i] + c``. A detector w gives every sample the score P - |w|^2.
        true_clusters: true cluster of each client; None if unknown.
        head: the parameters of the last layer; None for all parameters.
        features: features of each client's sample; None for zeros.
        client_columns: facts about clients, such as their sector: a value for each client, by name.
    """

    target: Float[np.ndarray, "N P"]
    examples: Int[np.ndarray, "N"]
    work: LocalTraining = field(default_factory=lambda: LocalTraining(lr=0.5))
    silent: frozenset[int] = frozenset()
    garbage: frozenset[int] = frozenset()
    start: Callable[[Stream], np.ndarray] | None = None
    counts: Int[np.ndarray, "N C"] | None = None
    detects: bool = False
    true_clusters: Int[np.ndarray, "N"] | None = None
    head: slice | None = None
    features: Float[np.ndarray, "N d"] | None = None
    client_columns: Mapping[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        # The dataclass does not call SimulatedWorld.__init__, which needs a data set and a model
        # and compiles programs. So the attributes that it makes are set here by hand: quadratic
        # clients in place of the data and the workers, and a population that never fails.
        self.total_clients, parameters = self.target.shape
        last = self.head or slice(0, parameters)
        self.spec = ModelSpec(
            parameters=parameters,
            slices={},
            head=last,
            head_bias=last,
            detects=self.detects,
        )
        self.ledger = Ledger()
        self.population = Population()
        self.model: Any = _Name("fake")
        self.data: Any = _Samples(self)
        self._first_data: Any = _Labels(self.data.label_counts())
        self._scorer = self._trainer = _Quadratic(self)
        self._ids = np.arange(self.total_clients)
        self._memory = ClientMemory(self.total_clients)
        # No data shift, no Ray actors, and no files to check.
        self._shifted_data = None
        self._compiled = True
        self._sum_by_actor = False
        self._now = Stream(0)
        self._detects_shifts = True
        self._files = {}
        self.identity = None
        self._release_programs = lambda: None  # nothing is compiled

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A new model: from the function ``start`` if the test gave one, otherwise of normally
        distributed random numbers."""
        make = self.start or (lambda s: s.rng().normal(size=self.spec.parameters))
        return make(stream).astype(np.float32)

    def _limited(
        self,
        clients: Int[np.ndarray, "r"],
        own: list[np.ndarray],
    ) -> tuple[ClientSamples, ClientEngine]:
        """Samples, and scorer and trainer (``ClientEngine``), of clients that use only some of
        their samples. Here fewer samples only give a client a smaller weight in means."""
        # In the smaller world a client's number is its position in `clients`.
        garbage = np.flatnonzero(np.isin(clients, list(self.garbage)))
        counts = None if self.counts is None else self.counts[clients]
        sizes = np.array([len(rows) for rows in own], np.int64)
        part = FakeWorld(
            target=self.target[clients],
            examples=sizes,
            garbage=frozenset(garbage.tolist()),
            counts=counts,
        )
        part.data.x = self.data.x[clients]
        samples = ClientSamples(self._ids[clients], part.data, first_data=part.data)
        return samples, ClientEngine(part._scorer, part._trainer, together=self.spec.detects)

    def _failed(
        self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream
    ) -> Bool[np.ndarray, "n"]:
        """Which rows (clients with their models) get no reply: those of clients in ``silent``, and
        those of clients in ``garbage`` if the task is not training."""
        away = self.silent if task.work is not None else self.silent | self.garbage
        return np.isin(clients, list(away)) & bool(task.can_be_lost)


class _Name(NamedTuple):
    """A model of which only the name is used."""

    name: str


class _Labels:
    """The label counts of all clients at one time, in place of a data set."""

    packed = None

    def __init__(self, counts: Int[np.ndarray, "N C"]) -> None:
        self._counts = counts.copy()

    def label_counts(self, split: str = "train", clients: Any = None) -> Int[np.ndarray, "n C"]:
        """Label counts of these clients, or of all, as in ``FederatedData``."""
        return self._counts if clients is None else self._counts[clients]


class _Samples:
    """One sample of each client, in place of a data set; models never use its features."""

    scored_split = "test"
    task_type = CLASSIFICATION

    def __init__(self, world: FakeWorld) -> None:
        clients = world.total_clients
        self._world = world
        self.client_columns = world.client_columns
        self.feature_names = None
        self.x = np.zeros((clients, 1), np.float32) if world.features is None else world.features
        self._rows = Ragged(np.arange(clients), np.arange(clients + 1))

    @property
    def train(self) -> SimpleNamespace:
        """The training split, of which only ``sizes`` exists: the clients' weights, in place of
        their numbers of training samples. Tests may change the weights."""
        return SimpleNamespace(sizes=self._world.examples)

    @property
    def y(self) -> Int[np.ndarray, "N"]:
        """The first class of each client."""
        return (self.label_counts() > 0).argmax(axis=1)

    @property
    def classes(self) -> int:
        """Number of classes C."""
        return self.label_counts().shape[1]

    def part(self, split: str) -> Ragged:
        """One sample of each client."""
        return self._rows

    def label_counts(self, split: str = "train", clients: Any = None) -> Int[np.ndarray, "n C"]:
        """The present label counts; one sample of one class per client if the world has none."""
        counts = self._world.counts
        if counts is None:
            counts = np.ones((self._world.total_clients, 1), int)
        return _Labels(counts).label_counts(split, clients)


class _Quadratic:
    """Trainer and scorer of clients with quadratic losses."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    def train(self, call: TrainCall) -> LocalUpdates:
        """Run gradient steps on all rows (clients with one model each). All rows take as many steps
        as the row with the most epochs."""
        start = call.models[call.model_index].astype(np.float64)
        target = self._world.target[call.clients].astype(np.float64)
        if call.work.positive is not None:
            target = target + call.work.positive[:, None]
        w = start
        own = own_start = start
        if call.mixed is not None:
            own = own_start = call.mixed.start.astype(np.float64)
        rate = call.work.rate(call.stream.round)
        for _ in range(int(np.max(call.work.epochs))):
            if call.mixed is not None:
                share = call.mixed.share[:, None]
                own = own - rate * share * (share * own + (1 - share) * w - target)
            if call.envelope is not None:
                own = _minimiser(call.envelope, w, target)
                w = w - rate * call.envelope.strength * (w - own)
            else:
                w = w - rate * _step(call, w, start, target)
        # Clients in `garbage` reply NaN, as after a training that has diverged.
        garbage = np.isin(call.clients, list(self._world.garbage))[:, None]
        has_own = call.mixed is not None or call.envelope is not None
        return LocalUpdates(
            update=np.where(garbage, np.nan, w - start).astype(np.float32),
            loss=0.5 * np.sum((w - target) ** 2, axis=1),
            first_loss=0.5 * np.sum((start - target) ** 2, axis=1),
            gradient=(start - target).astype(np.float32) if call.gradient else None,
            own=(own - own_start).astype(np.float32) if has_own else None,
        )

    def gradients(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
    ) -> Float[np.ndarray, "r P"]:
        """The gradient of each row (a client with one model): the model minus the client's
        target."""
        return (models[model_index] - self._world.target[clients]).astype(np.float32)

    def losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n K"]:
        """Half the squared distance of every model to every client's target."""
        away = models[None] - self._world.target[clients][:, None]
        return 0.5 * np.sum(away**2, axis=2).astype(np.float64)

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """Score models: a model is correct within a distance of 1 from the client's target.

        Detectors are correct if the detector of the client's first class scores highest.
        """
        ones = np.ones(len(clients), np.int64)
        if model_index.ndim == 2:
            scores = models.shape[1] - np.sum(models[model_index] ** 2, axis=2)
            scores = np.where(model_index < 0, -np.inf, scores)
            correct = scores.argmax(axis=1) == self._world.data.y[clients]
            return ScoreSums(sums=correct[:, None] * 1.0, loss=0.0 * ones, examples=ones)  # no loss
        away = models[model_index] - self._world.target[clients]
        distance = np.sum(away**2, axis=1).astype(np.float64)
        return ScoreSums(sums=(distance < 1)[:, None] * 1.0, loss=distance, examples=ones)

    def predict(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], split: str
    ) -> list[Float[np.ndarray, "t"]]:
        """Predictions that differ from the label by the model's distance from the client's target.

        So the better of two models has the smaller error.
        """
        return list(np.sqrt(2 * self.losses(models, clients)).T + self._world.data.y[clients])

    def sample_losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "K t"]:
        """The loss of each client's single sample under every model."""
        return self.losses(models, clients).T

    def scores(
        self, model: Float[np.ndarray, "P"], clients: Int[np.ndarray, "n"], split: str
    ) -> Float[np.ndarray, "t C"]:
        """Outputs of a linear layer with weights ``model``, whose inputs are entries of the
        client's target."""
        classes = self._world.data.classes
        weight = model[: len(model) - classes].reshape(classes, -1)
        bias = model[len(model) - classes :]
        return self._world.target[clients, : weight.shape[1]] @ weight.T + bias

    def embeddings(self, clients: Int[np.ndarray, "n"], split: str) -> Float[np.ndarray, "t e"]:
        """The target of each client, which has one sample."""
        return self._world.target[clients]

    def raw_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> Float[np.ndarray, "t"]:
        """The score P - |w|^2 of each row (a client with a detector w, which has P parameters)."""
        return models.shape[1] - np.sum(models[model_index] ** 2, axis=1)


def _step(
    call: TrainCall,
    w: Float[np.ndarray, "r P"],
    start: Float[np.ndarray, "r P"],
    target: Float[np.ndarray, "r P"],
) -> Float[np.ndarray, "r P"]:
    """The gradient of every row (a client with one model) at w, with the additional terms of the
    training call.

    The gradient is 0 for parameters that are not trained.
    """
    gradient = w - target
    if call.weights is not None:
        gradient = np.concatenate(call.weights)[:, None] * gradient
    gradient = gradient + call.work.mu * (w - start)
    if call.terms is not None:
        # A term that is one number per row becomes a column, to multiply the rows of a vector.
        by_row = call.terms.map(lambda term: term.reshape(len(term), -1))
        gradient = by_row.added_to(gradient, w)
    return gradient if call.trained is None else gradient * call.trained


def _minimiser(
    envelope: Envelope, w: Float[np.ndarray, "r P"], target: Float[np.ndarray, "r P"]
) -> np.ndarray:
    """The minimiser theta in pFedMe's envelope, for quadratic clients, by gradient steps from w."""
    theta = w
    for _ in range(envelope.steps):
        theta = theta - envelope.lr * (theta - target + envelope.strength * (theta - w))
    return theta
