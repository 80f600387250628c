"""What every task must do, in every world: one line for each in ``EXAMPLES``."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fedkin.tasks
from fedkin.core.ledger import Ledger
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_reply
from fedkin.core.schema import Array
from fedkin.core.task import Task, call_sizes
from fedkin.data.patients import Patients
from fedkin.models import mclr, mlp
from fedkin.scenarios.population import Population
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.apfl import EvaluateMixed, TrainMixed
from fedkin.tasks.classes import Classes
from fedkin.tasks.client_group import ClientGroup
from fedkin.tasks.columns import ColumnCounts, ColumnSums, ScaledColumns
from fedkin.tasks.detections import Detections
from fedkin.tasks.ditto import TrainBeside
from fedkin.tasks.embeddings import MeanEmbedding
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.feature_distance import FeatureDistance
from fedkin.tasks.fedccfa import TrainClassHeads
from fedkin.tasks.feddrift import SampleCounts, SpanScores, TrainSpans
from fedkin.tasks.fedem import EvaluateMixture, MixtureWeights, TrainMixture
from fedkin.tasks.fedper import EvaluatePersonal, Personal, body_of
from fedkin.tasks.fedrouter import EvaluateRouted, KindCentres, TrainKind
from fedkin.tasks.fedsoft import Importance, TrainTowards
from fedkin.tasks.fit_checks import BoundedLoss, CompareModels
from fedkin.tasks.gradients import CriterionGradients, Gradients
from fedkin.tasks.label_columns import LabelBins, LabelSums
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.loss_shift import LossShifted
from fedkin.tasks.losses import Losses
from fedkin.tasks.own_model import EvaluateOwn
from fedkin.tasks.pacfl import LabelSubspaces, Subspace
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.pfedme import TrainEnvelope
from fedkin.tasks.pulled_fit import ChooseStrength, EvaluatePulled
from fedkin.tasks.scaffold import Controlled
from fedkin.tasks.score_moments import DescribingModel, ScoreMoments
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Directions, Similarities
from fedkin.tasks.sketches import NearestSketch, SketchMoments, SketchSums
from fedkin.tasks.survival_counts import SurvivalCounts
from fedkin.tasks.train import Train
from tests.simulation import numpy_detectors, training_digests
from tests.simulation.small_federation import federation, models
from tests.simulation.test_data_shifts import DATA as EXCHANGED
from tests.simulation.test_data_shifts import MODEL as LOGISTIC
from tests.simulation.test_data_shifts import SCENARIO, RequestRound
from tests.simulation.torch.twins import HIDDEN, of_jax
from tests.tasks.worlds import REFERENCE, WORK, WORLDS, Kind, Opened, simulated

# Two clients with one sample, one without tests.
DATA = federation(sizes=(1, 2, 7, 23, 1), test_sizes=(3, 0, 1, 20, 2))
DATA = replace(
    DATA,
    client_columns={"sector": ("a", "b", "a", "a", "c")},
    patients=Patients(  # each sample is also a patient
        samples=np.arange(len(DATA.y)),
        times=1.0 + np.arange(len(DATA.y)) % 5,
        died=DATA.y > 0,
        train=DATA.train,
        test=DATA.test,
    ),
)
# Two samples are a unit, such as a patient.
UNITS = np.arange(len(DATA.y))
for client in range(DATA.clients):
    for rows in (DATA.train[client], DATA.test[client]):
        UNITS[rows] = rows[np.arange(len(rows)) // 2 * 2]
DATA = replace(DATA, unit=UNITS)
STREAM = Stream(3, 1, "run").child("task")
HALF = Population(dropout=0.5)
MODELS: dict[str, AnyModel] = {
    "dropout": training_digests.MODEL,
    "dense": mclr(DATA),
    "torch": of_jax(mlp(DATA, hidden=HIDDEN), (6, HIDDEN, 3)),
}
DETECTORS: dict[str, AnyModel] = {
    "small": numpy_detectors.small(),
    "torch": of_jax(numpy_detectors.linear(), (6, 1)),
}
# One program takes all rows at once, or blocks of another size, and so sums float32 numbers in
# another order: an error of some 1e-7 in each, which training multiplies. Counts, classes and flags
# are the same.
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 3e-6}


@dataclass(frozen=True)
class Given:
    """What an example is made of: three models, and rows of clients in no order."""

    spec: ModelSpec
    models: np.ndarray  # [3, P]
    clients: np.ndarray
    index: np.ndarray  # the model of each row
    positive: np.ndarray  # the class of each row's detector
    together: np.ndarray  # a detector for each class, or none
    columns: int = 6  # numbers of a sample

    @property
    def bodies(self) -> np.ndarray:
        """The models without their heads."""
        return body_of(self.models, self.spec.head)


@dataclass(frozen=True)
class Example:
    """A task, for models that detect one class or for others; with those that are run before it."""

    make: Callable[[Given], Task]
    detectors: bool = False
    before: tuple[Callable[[Given], Task], ...] = field(default=())


PER_ROW = np.array([3, 1, 2, 1, 2])  # epochs


def half_of(clients: np.ndarray) -> np.ndarray:
    """The first sample of each, and the later half."""
    sizes = DATA.train.sizes[clients]
    first = np.stack([0 * sizes, 1 + 0 * sizes], axis=1)
    later = np.stack([1 + sizes // 2, np.maximum(sizes, 1 + sizes // 2)], axis=1)
    return np.stack([first, later], axis=1)


SOFT = np.random.default_rng(4).dirichlet(np.ones(3), 5)  # each row's weights of three components
SOME_KNOWN = SOFT * np.array([1, 0, 1, 0, 1])[:, None]  # where it is 0, clients measure it
CENTRES = np.random.default_rng(8).normal(size=(5, 3, 6))  # of kinds of samples of each row
KNOWN = np.array([3, 2, 3, 1, 2])  # number of kinds of each row
USABLE = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 0], [0, 1, 1]], bool)
LOWER = np.random.default_rng(7).normal(size=(2, 6)) - 1  # for two quantiles of six columns
NEAR = np.random.default_rng(6).normal(size=(3, 4))  # directions of sketches
SHARES = np.random.default_rng(5).dirichlet(np.ones(3), 3)
EXAMPLES = {
    "ask": Example(lambda g: Ask(2)),
    "bounded loss": Example(lambda g: BoundedLoss(g.models, g.index, "train")),
    "classes": Example(lambda g: Classes()),
    "compare models": Example(
        lambda g: CompareModels(g.models, np.stack([g.index, (g.index + 1) % 3], axis=1), "train")
    ),
    "column counts": Example(
        lambda g: ColumnCounts(LOWER[:, : g.columns], LOWER[:, : g.columns] + 2, bins=3)
    ),
    "column sums": Example(lambda g: ColumnSums(LOWER[0, : g.columns])),
    "scaled columns": Example(
        lambda g: ScaledColumns(LOWER[0, : g.columns], LOWER[1, : g.columns] + 9)
    ),
    "feature distance": Example(lambda g: FeatureDistance("train")),
    "detections": Example(lambda g: Detections(g.models, g.index, g.positive), detectors=True),
    "detections of test samples": Example(
        lambda g: Detections(g.models, g.index, g.positive, "test"), detectors=True
    ),
    "directions": Example(lambda g: Directions(g.models)),
    "evaluate": Example(lambda g: Evaluate(g.models, g.index)),
    "evaluate detectors": Example(
        lambda g: Evaluate(g.models, g.together, "train"), detectors=True
    ),
    "evaluate the client's own": Example(
        lambda g: EvaluateOwn(g.models, g.index, "train"),
        before=(lambda g: TrainBeside(g.models, WORK, g.index, reduce=True),),
    ),
    "evaluate mixed": Example(
        lambda g: EvaluateMixed(g.models, g.index, "train"),
        before=(lambda g: TrainMixed(g.models, WORK, g.index, reduce=True, share=0.3),),
    ),
    "evaluate own": Example(lambda g: Evaluate(g.models, g.index, "train", local=True)),
    "evaluate personal": Example(
        lambda g: EvaluatePersonal(
            models=g.bodies, model_index=g.index, start=g.models[0], head=g.spec.head, split="train"
        ),
        before=(
            lambda g: Personal(
                models=g.bodies, work=WORK, model_index=g.index, start=g.models[0], head=g.spec.head
            ),
        ),
    ),
    "controlled": Example(
        lambda g: Controlled(
            models=g.models, control=g.models[2] / 9, work=WORK, model_index=g.index, rate=WORK.lr
        )
    ),
    "controlled by gradients": Example(
        lambda g: Controlled(
            models=g.models,
            control=g.models[2] / 9,
            work=WORK,
            model_index=g.index,
            rate=WORK.lr,
            option="I",
        )
    ),
    "criterion gradients": Example(lambda g: CriterionGradients(g.models, g.index)),
    "gradients": Example(lambda g: Gradients(g.models, g.index)),
    "label errors": Example(lambda g: LabelErrors(g.models)),
    "label subspaces": Example(lambda g: LabelSubspaces(2)),
    "losses": Example(lambda g: Losses(g.models)),
    "client group": Example(lambda g: ClientGroup("sector")),
    "choose strength": Example(
        lambda g: ChooseStrength(g.models, np.array([1.0, 30.0]), g.index, fits="intercept")
    ),
    "evaluate pulled": Example(
        lambda g: EvaluatePulled(g.models, g.index, "train", strength=10.0, fits="intercept")
    ),
    "survival counts": Example(
        lambda g: SurvivalCounts(g.models, g.index, np.array([1.0, 2.0, 4.0]), "train")
    ),
    "label sums": Example(lambda g: LabelSums(np.array([0.5, 1.0]))),
    "label counts": Example(lambda g: LabelBins(-np.ones((2, 2)), 2 * np.ones((2, 2)), bins=3)),
    "loss shift": Example(
        lambda g: LossShifted(g.models, g.index),
        before=(lambda g: LossShifted(g.models[[0, 0, 0]], g.index),),
    ),
    "evaluate mixture": Example(lambda g: EvaluateMixture(g.models, SOFT, "train")),
    "mean embedding": Example(lambda g: MeanEmbedding()),
    "kind centres": Example(lambda g: KindCentres(kinds=3)),
    "train kind": Example(
        lambda g: TrainKind(
            models=g.models,
            work=WORK,
            model_index=g.index,
            centres=CENTRES,
            known=KNOWN,
            kind=np.array([2, 1, 0, 0, 1]),
        )
    ),
    "evaluate routed": Example(
        lambda g: EvaluateRouted(g.models, CENTRES[0], usable=USABLE, split="train")
    ),
    "evaluate tests routed": Example(lambda g: EvaluateRouted(g.models, CENTRES[0], USABLE)),
    "membership": Example(lambda g: MixtureWeights(g.models, SOFT, SHARES)),
    "train mixture": Example(
        lambda g: TrainMixture(g.models.reshape(1, -1), replace(WORK, momentum=0.5), SOFT)
    ),
    "train mixture by label": Example(
        lambda g: TrainMixture(g.models.reshape(1, -1), WORK, SOFT, by_label=True, shares=SHARES)
    ),
    "importance": Example(lambda g: Importance(g.models)),
    "train towards": Example(
        lambda g: TrainTowards(g.models, WORK, g.index, importance=SOME_KNOWN)
    ),
    "note": Example(lambda g: Note()),
    "train class heads": Example(
        lambda g: TrainClassHeads(
            models=g.models,
            work=WORK,
            model_index=g.index,
            start=g.models[0],
            head=g.spec.head or slice(0),
        )
    ),
    "personal, head first": Example(
        lambda g: Personal(
            models=g.bodies,
            work=WORK,
            model_index=g.index,
            start=g.models[0],
            head=g.spec.head,
            head_epochs=2,
        )
    ),
    "personal, single": Example(
        lambda g: Personal(
            models=g.bodies,
            work=WORK,
            model_index=g.index,
            start=g.models[0],
            head=g.spec.head,
            reduce=False,
        )
    ),
    "personal": Example(
        lambda g: Personal(
            models=g.bodies, work=WORK, model_index=g.index, start=g.models[0], head=g.spec.head
        )
    ),
    "sample counts": Example(lambda g: SampleCounts()),
    "describing model": Example(lambda g: DescribingModel(g.models[0])),
    "score moments": Example(
        lambda g: ScoreMoments(g.models[0]), before=(lambda g: DescribingModel(g.models[0]),)
    ),
    "score moments without labels": Example(
        lambda g: ScoreMoments(g.models[1], False), before=(lambda g: DescribingModel(g.models[1]),)
    ),
    "shifted": Example(lambda g: Shifted("label_aware", 0.1), before=(lambda g: Note(),)),
    "similarities": Example(
        lambda g: Similarities(g.models[0], g.models, WORK),
        before=(lambda g: Directions(g.models),),
    ),
    "sketch moments": Example(lambda g: SketchMoments(g.models[0], WORK, 4, 7)),
    "sketch sums": Example(
        lambda g: SketchSums(start=g.models[0], work=WORK, size=4, seed=7, directions=NEAR)
    ),
    "sketch, single": Example(
        lambda g: SketchSums(
            start=g.models[0], work=WORK, size=4, seed=7, directions=NEAR, reduce=False
        )
    ),
    "nearest sketch": Example(
        lambda g: NearestSketch(start=g.models[0], work=WORK, size=4, seed=7, directions=NEAR)
    ),
    "span scores": Example(
        lambda g: SpanScores(g.models, 0 * g.index, DATA.train.sizes[g.clients])
    ),
    "subspace": Example(lambda g: Subspace(2)),
    "train": Example(
        lambda g: Train(g.models, replace(WORK, epochs=PER_ROW, momentum=0.5, mu=0.1), g.index)
    ),
    "train a part": Example(lambda g: Train(g.models, WORK, g.index, part=g.spec.head_bias)),
    "train own model": Example(
        lambda g: TrainBeside(g.models, WORK, g.index, strength=0.7, own_epochs=1, own_lr=0.05)
    ),
    "train envelope": Example(
        lambda g: TrainEnvelope(g.models, WORK, g.index, strength=2.0, own_steps=3, own_lr=0.05)
    ),
    "train mixed": Example(
        lambda g: TrainMixed(g.models, WORK, g.index, share=0.3, share_lr=0.1),
        before=(lambda g: TrainMixed(g.models, WORK, g.index),),
    ),
    "train own model to means": Example(
        lambda g: TrainBeside(g.models, WORK, g.index, reduce=True)
    ),
    "train detectors": Example(
        lambda g: Train(g.models, replace(WORK, positive=g.positive), g.index), detectors=True
    ),
    "train own": Example(lambda g: Train(g.models, WORK, g.index, local=True)),
    "train spans": Example(lambda g: TrainSpans(g.models, WORK, g.index, half_of(g.clients))),
    "train steps": Example(
        lambda g: Train(g.models, replace(WORK, steps=4, optimizer="adam", lr=0.01), g.index)
    ),
    "train the best": Example(lambda g: Train(g.models, WORK)),
    "train to means": Example(lambda g: Train(g.models, WORK, g.index, reduce=True, gradient=True)),
    "train with a test": Example(
        lambda g: Train(g.models, WORK, g.index, reduce=True, test=True, save=True)
    ),
}
# One model is enough.
MODELLESS = {
    "sample counts",
    "ask",
    "classes",
    "column counts",
    "mean embedding",
    "kind centres",
    "column sums",
    "scaled columns",
    "directions",
    "note",
    "shifted",
    "subspace",
    "label subspaces",
    "label sums",
    "label counts",
    "client group",
}


def models_for(name: str) -> list[str]:
    every = list(DETECTORS if EXAMPLES[name].detectors else MODELS)
    return every[:1] if name in MODELLESS else every


PAIRS = [(name, model) for name in EXAMPLES for model in models_for(name)]
each_pair = pytest.mark.parametrize(("name", "model"), PAIRS, ids=lambda value: value)


def model_of(name: str, model: str) -> AnyModel:
    return (DETECTORS if EXAMPLES[name].detectors else MODELS)[model]


@cache
def given(name: str, model: str) -> Given:
    """The example's rows: several of a client where models are detectors."""
    made = model_of(name, model)
    clients = np.array([2, 0, 3, 1, 4])
    index = np.array([1, 0, 1, 2, 1])
    if EXAMPLES[name].detectors and name != "evaluate detectors":
        clients = np.array([3, 0, 3, 1, 2, 3])
        index = np.array([2, 0, 1, 1, 0, 0])
    together = np.array([[0, 1, 2], [2, 1, 0], [0, 1, 2], [1, -1, 2], [0, -1, -1]])
    return Given(
        spec=made.spec,
        models=models(made, 3),
        clients=clients,
        index=index,
        positive=(index + clients) % 3,
        together=together,
    )


class Ran(NamedTuple):
    """What a run of an example leaves: nothing of it is written to."""

    reply: Reply
    memory: dict[str, np.ndarray]
    ledger: Ledger


def run_in(kind: Kind | Opened, name: str, model: str, rows: Any = slice(None)) -> Ran:
    """Run an example twice, as clients' memory may matter; the last reply."""
    g = given(name, model)
    example = EXAMPLES[name]
    with ExitStack() as stack:
        opened = (
            kind
            if isinstance(kind, Opened)
            else stack.enter_context(kind.open(DATA, model_of(name, model)))
        )
        chosen = np.arange(len(g.clients))[rows]
        reply = None
        for make in (*example.before, example.make, example.make):
            task = make(g).select(chosen)
            reply = opened.world.run(task, g.clients[chosen], STREAM)
        assert reply is not None
        return Ran(reply, dict(opened.memory()), opened.world.ledger)


@cache
def whole_run(kind: str, name: str, model: str) -> Ran:
    """The run of all rows in a world, which several tests compare."""
    return run_in(REFERENCE if kind == "reference" else WORLDS[kind], name, model)


def assert_same(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Equal, floating-point numbers to tolerance."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, what
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, **CLOSE, err_msg=what)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=what)


def assert_same_arrays(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for array, values in expected.items():
        assert_same(got[array], values, array)


# --- the same in every world


@each_pair
@pytest.mark.parametrize("kind", WORLDS)
def test_every_world_gives_the_same_reply_ledger_and_memory(
    kind: str, name: str, model: str
) -> None:
    task = EXAMPLES[name].make(given(name, model))
    if (task.between_peers or task.local) and not WORLDS[kind].peers:
        pytest.skip("this world has no peers")
    if model in WORLDS[kind].skips:
        pytest.skip("this model is not the same in this world")
    reference = whole_run("reference", name, model)
    run = whole_run(kind, name, model)
    expected = reference.reply
    got = run.reply
    # Which messages carry without another request.
    assert got.arrays.keys() - expected.arrays.keys() <= {"test_sums"}
    assert_same_arrays({array: got.arrays[array] for array in expected.arrays}, expected.arrays)
    np.testing.assert_array_equal(got.arrived, expected.arrived)
    np.testing.assert_array_equal(got.nonfinite, expected.nonfinite)
    assert (got.weight is None) == (expected.weight is None)
    if got.weight is not None and expected.weight is not None:
        np.testing.assert_array_equal(got.weight, expected.weight)
    assert got.faults == expected.faults == {}
    assert (run.ledger.down, run.ledger.up) == (reference.ledger.down, reference.ledger.up)
    assert_same_arrays(run.memory, reference.memory)


@pytest.mark.parametrize("name", EXAMPLES)
def test_clients_that_drop_out_leave_the_schemas_missing_values_and_keep_nothing(name: str) -> None:
    """In both forms of the simulator;
    a client that does not reply in a round stores nothing in it."""
    model = models_for(name)[-1]
    replies = []
    task = EXAMPLES[name].make(given(name, model))
    clients = given(name, model).clients
    lost = HALF.dropped_out(clients, STREAM) & task.can_be_lost
    for compiled in (True, False):
        with simulated(DATA, model_of(name, model), compiled, HALF) as opened:
            opened.world.begin(STREAM)
            run = run_in(opened, name, model)
        reply = run.reply
        np.testing.assert_array_equal(reply.arrived, ~lost)
        assert not reply.nonfinite.any()
        for array, schema in task.up.of("row").items():
            np.testing.assert_array_equal(
                reply.arrays[array][lost],
                np.broadcast_to(
                    np.array(schema.missing, schema.dtype), reply.arrays[array][lost].shape
                ),
            )
        for column, kept in run.memory.items():
            assert not column.endswith(".kept") or not kept[clients[lost]].any()
        replies.append(run)
    assert 0 < HALF.dropped_out(clients, STREAM).sum() < len(clients)
    assert_same_arrays(replies[1].reply.arrays, replies[0].reply.arrays)
    assert_same_arrays(replies[1].memory, replies[0].memory)


@pytest.mark.parametrize("test", ["label_blind", "label_aware"])
def test_shifts_are_detected_the_same_client_by_client(test: str) -> None:
    """Clients 1 and 6 exchange their samples in round 2; 6 and 3 note their samples then."""
    found = []
    for compiled in (True, False):
        with simulated(EXCHANGED, LOGISTIC, compiled, shift=RequestRound()) as opened:
            for round in (0, 2, 4):
                opened.world.begin(SCENARIO.at(round))
                found.append(
                    np.flatnonzero(opened.world.run(Shifted(test), np.arange(7)).shifted).tolist()
                )
                opened.world.run(Note(), np.array([6, 3])[:round])
    assert found == [[], [1, 6], [6]] * 2


# --- each row by itself


@pytest.mark.parametrize(
    ("name", "model"), [pair for pair in PAIRS if pair[1] != "dense"], ids=lambda value: value
)
@pytest.mark.parametrize("kind", ["reference", *WORLDS])
def test_rows_do_not_depend_on_other_rows_of_the_call(kind: str, name: str, model: str) -> None:
    """Nor does a client's memory: alone, in other company, and in another order."""
    world = REFERENCE if kind == "reference" else WORLDS[kind]
    task = EXAMPLES[name].make(given(name, model))
    if (task.between_peers or task.local) and not world.peers:
        pytest.skip("this world has no peers")
    if not world.peers and model not in ("dense", "small"):
        pytest.skip("of worlds over messages, one model of each sort is enough")
    whole = whole_run(kind, name, model).reply
    clients = given(name, model).clients
    columns = whole_run(kind, name, model).memory
    for rows in ([1], [2, 4, 0]):
        part, memory, _ = run_in(world, name, model, rows)
        for array in task.up.of("row"):
            assert_same(part.arrays[array], whole.arrays[array][rows], array)
        np.testing.assert_array_equal(part.arrived, whole.arrived[rows])
        for column, kept in memory.items():
            assert_same(kept[clients[rows]], columns[column][clients[rows]], column)
            assert (
                column not in columns
                or not kept[np.setdiff1d(np.arange(DATA.clients), clients[rows])].any()
            )


@pytest.mark.parametrize("name", ["train to means"])
def test_means_are_those_of_the_single_form(name: str) -> None:
    g = given(name, "dropout")
    task = EXAMPLES[name].make(g)
    single = task.single()
    assert single is not None and not single.up.of("model")
    with REFERENCE.open(DATA, MODELS["dropout"]) as opened:
        expected = opened.world.run(task, g.clients, STREAM)
        got = mean_reply(task, opened.world.run(single, g.clients, STREAM), g.clients)
    for array, values in expected.arrays.items():
        np.testing.assert_array_equal(got.arrays[array], values, err_msg=array)
    np.testing.assert_array_equal(got.weight, expected.weight)


# --- the schema


@each_pair
def test_the_reply_follows_the_schema(name: str, model: str) -> None:
    """Written again here, with no help of the code that checks replies."""
    reply, memory, _ = whole_run("reference", name, model)
    g = given(name, model)
    task = EXAMPLES[name].make(g)
    n = len(g.clients)
    sizes = call_sizes(task, n, {"P": g.spec.parameters, "C": 3, "d": 6, "sums": 1, "test_sums": 3})
    carried = {array: schema for array, schema in task.up.arrays.items() if schema.carried}
    assert reply.arrays.keys() == carried.keys()
    for array, schema in carried.items():
        axes = [int(axis) if axis.isdigit() else sizes[axis] for axis in schema.axes.split()]
        entries = {"row": [n], "model": [sizes.get("K", 3)], "all": []}[str(schema.over)]
        values = reply.arrays[array]
        assert list(values.shape) == entries + axes, array
        assert values.dtype == np.dtype(schema.dtype), array
        assert schema.finite is False or np.isfinite(values).all(), array
        assert not ((values < schema.low) | (values > schema.high)).any(), array
    assert reply.arrived.shape == reply.nonfinite.shape == (n,) and reply.arrived.all()
    assert (reply.weight is not None) == bool(task.up.of("model"))
    assert set(memory) <= {
        f"clients/{column}{state}" for column in task.memory for state in ("", ".kept")
    }


# Its settings have an entry for each row.
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "train"])
def test_a_call_without_clients_has_a_reply_without_rows(name: str) -> None:
    model = models_for(name)[-1]
    for world in (REFERENCE, Kind(lambda data, made: simulated(data, made, compiled=False))):
        reply, memory, ledger = run_in(world, name, model, np.zeros(0, np.int64))
        assert all(
            len(reply.arrays[array]) == 0
            for array in EXAMPLES[name].make(given(name, model)).up.of("row")
        )
        assert reply.arrived.shape == (0,) and ledger.total() == (0, 0)
        assert not any(values.any() for values in memory.values())


# --- the list, and the files


def modules() -> list[str]:
    return [f"fedkin.tasks.{module.name}" for module in pkgutil.iter_modules(fedkin.tasks.__path__)]


def kinds() -> list[type[Task]]:
    """Every class of task in fedkin/tasks."""
    found = []
    for name in modules():
        members = vars(importlib.import_module(name)).values()
        found += [
            m
            for m in members
            if isinstance(m, type) and issubclass(m, Task) and m.__module__ == name
        ]
    return found


def test_every_task_of_fedkin_has_an_example() -> None:
    """But those of secret sums: their replies are noise, each time another, and tested in
    tests/secret and tests/run by the sums that come of them, and in tests/server by simulated and
    real clients that give the same."""
    examples = {type(EXAMPLES[name].make(given(name, model))) for name, model in PAIRS}
    masked = {kind for kind in kinds() if kind.name.startswith("secret_")}
    assert set(kinds()) - masked - examples == set(), "give each a line in EXAMPLES"
    assert examples - set(kinds()) == set()


def test_each_kind_of_client_work_is_in_one_file_of_its_package() -> None:
    """Every file has one kind, or several that belong together; no class is derived from a task
    anywhere else."""
    assert {kind.__module__ for kind in kinds()} == set(modules())
    root = Path(fedkin.tasks.__file__).parents[1]
    bases = {"Task", *(kind.__name__ for kind in kinds())}
    for path in root.rglob("*.py"):
        classes = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
        ]
        names = [
            c.name
            for c in classes
            if bases & {getattr(base, "id", getattr(base, "attr", "")) for base in c.bases}
        ]
        assert not names or path.parent.name == "tasks", f"{path}: {names} belong into fedkin/tasks"


def test_tasks_are_known_by_their_names() -> None:
    names = [kind.name for kind in kinds()]
    assert len(set(names)) == len(names)
    assert all(fedkin.tasks.find_task(kind.name) is kind for kind in kinds())


def test_arrays_of_schemas_name_the_axes_of_each_row() -> None:
    """No array without a dtype that messages have, and none by a name of the task's fields in
    another sense."""
    for name, model in PAIRS:
        for array in EXAMPLES[name].make(given(name, model)).up.arrays.values():
            assert isinstance(array, Array) and array.over in ("row", "model", "all")
