"""Rules for every method, in a world of quadratic clients and in a small simulated one.

A new method is one more line in CASES; the first test fails until it is there. Other tests of all
methods take their expectations from it too.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.shared_rows import SharedRows
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods import METHODS
from fedkin.methods.decentralized import PeerState
from fedkin.methods.fedavg import FedAvg
from fedkin.models import mclr, mlp
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Shifted
from fedkin.tasks.train import train
from tests.mappings import merged
from tests.simulation.numpy_detectors import linear


@dataclass(frozen=True)
class Case:
    """A method, its options here, and its promises."""

    options: dict[str, Any] = field(default_factory=dict)
    # Settings with which a round is FedAvg's, from the same model.
    as_fedavg: dict[str, Any] | None = None
    impossible: tuple[dict[str, Any], ...] = ()  # settings that must be refused
    clusters: int = 1
    # Settings under which an unselected cluster keeps its model.
    resting: dict[str, Any] = field(default_factory=dict)
    # Settings under which clusters that are far apart are found.
    finding: dict[str, Any] = field(default_factory=dict)
    # Finds its clusters by and by: it starts with fewer than ``clusters`` models.
    grows: bool = False
    # ``place`` gives newcomers a cluster at once; else they get one in their first round.
    places: bool = True
    models_down: float | Fraction = 1  # messages to each client of a round
    models_up: float | Fraction = 1  # and back
    detects: bool = False  # its models are detectors, and a cluster has several
    # It clusters by samples: quadratic clients then have their target for a sample.
    samples: bool = False
    hidden: bool = False  # its models must have more than a last layer
    peers: bool = False  # every client has its own model, and asks others
    soft: bool = False  # every client trains all models, and has shares of them
    # Arrays of its state that get a column in each step of a stream.
    by_step: frozenset[str] = frozenset()
    # What it declares with its defaults, where that is not neutral.
    needs: dict[str, Any] = field(default_factory=dict)
    # Parts of each client's own that it can run with.
    personal: Literal["any", "models", "none"] = "any"
    averages: bool = True  # its models are means, round after round


# What methods need: from the papers and the descriptions of the methods, with their default
# options.
SINGLE = {"reads.updates": "single"}  # updates or solutions of single clients are compared
ALL = {"memory.compares_all": True}  # a matrix over pairs of clients
KEPT = {"memory.kept_models": 1}  # a vector of the model's size for each client
NEEDS_OF_PEERS = {"peers": True, "rounds.full_cohort": True, **SINGLE, **ALL}  # no server
KEEPS = {"keeps_clusters": True}  # clients stay where they are: a robust rule may split clusters
BY_CLUSTER = {"separation.models": "by_cluster"}  # a site leaves with its clusters alone
ONE_MODEL = {"separation.models": "one", **KEEPS}
MIGRATES = {"reads.standing": (Shifted("label_blind", 0.2),)}  # tau = 0.2

GROUP = Case(
    options={"clusters": 3, "alpha": 2},
    as_fedavg={"clusters": 1, "mu": 0.0},
    impossible=(
        {"clusters": 0},
        {"clusters": -2},
        {"alpha": 0},
        {"alpha": -1},
        {"eta_g": -0.5},
        {"mu": -1.0},
    ),
    clusters=3,
    resting={"eta_g": 0.0},
    finding={"alpha": 20},
    needs={"clients.number": 3, **SINGLE},  # m = 3 groups
)
ONE_MEAN = {"clusters": 1, "weighting": "examples"}
IMPOSSIBLE = ({"clusters": 0}, {"eta_g": -1.0}, {"threshold": -0.1})
IFCA = Case(
    as_fedavg=ONE_MEAN,
    impossible=IMPOSSIBLE,
    clusters=3,
    finding={"clusters": 6},  # three random models may leave two clusters to one of them
    places=False,
    models_down=3,
    needs={"clients.number": 3, "separation.models": "by_choice", **SINGLE},  # k = 3 models
    personal="models",
)
BY_LOSS = {"newcomers": "loss"}  # newcomers by distance are all nearest to one cluster
FESEM = Case(
    as_fedavg=ONE_MEAN,
    impossible=IMPOSSIBLE,
    clusters=3,
    resting=BY_LOSS,
    finding={"clusters": 6, **BY_LOSS},
    needs={"clients.number": 3, **SINGLE, **KEPT},  # distances of single solutions to the centers
    personal="models",
)
LAST_LAYER = Case(
    options={"algorithm": "kmeans", "clusters": 3},
    impossible=tuple({name: 0} for name in ("clusters", "min_samples", "pretraining"))
    + (
        {"fraction": 0.0},
        {"suspicious": -1.0},
        {"eps": float("nan")},
        {"algorithm": "em"},
        {"layer": "first"},
    )
    + ({"noise": "away"},),
    clusters=3,
    needs={
        "model.last_layer": True,
        "data.classes": "trains the output of each class that a client has",
        **SINGLE,
        **ALL,
    },
    personal="models",
)
OF_CLASSES = {"data.classes": "compares the samples of each class"}
PEERS = Case(
    peers=True,
    options={"neighbours": 24},
    impossible=({"neighbours": 0},),
    needs={"clients.number": 4, **NEEDS_OF_PEERS},  # k = 3 neighbours
    personal="none",
)
PANM = Case(
    peers=True,
    # k = 3 neighbours, T1 = 100
    needs={"clients.number": 4, "rounds.stage_one": 100, **NEEDS_OF_PEERS},
    personal="none",
    options={"candidates": 24},
    impossible=tuple({name: 0} for name in ("neighbours", "candidates", "stage_one", "period")),
    models_down=14,  # model and update of seven others
    models_up=14,
)
HIDDEN = 8  # in the simulated world, whose models have 6 inputs and 6 classes
BODY = Fraction(7 * HIDDEN, 7 * HIDDEN + 6 * (HIDDEN + 1))  # of a model: all but its last layer
HEADS_STAY = Case(  # heads stay with the clients
    hidden=True,
    models_down=BODY,
    models_up=BODY,
    needs={
        "model.last_layer": True,
        "model.hidden_layers": True,
        "reads.sends": "bodies of models",
    },
    personal="none",
)
CASES = {
    "fedavg": Case(as_fedavg={}, needs=ONE_MODEL),  # the server needs a weighted mean of solutions
    "fedprox": Case(
        options={"mu": 0.5},
        as_fedavg={"mu": 0.0},
        impossible=({"mu": -0.5}, {"mu": float("nan")}),
        needs=ONE_MODEL,
    ),
    "scaffold": Case(
        impossible=({"server_lr": 0.0},),
        models_down=2,
        models_up=2,
        needs={"reads.sends": "control variates", **KEPT},  # c_i
        personal="none",
    ),
    "pfedme": Case(
        needs=KEPT,  # theta_i
        personal="none",
        options={"strength": 1.0},
        impossible=({"strength": 0.0}, {"own_steps": 0}, {"own_lr": 0.0}, {"beta": 0.0}),
    ),
    "apfl": Case(
        as_fedavg={},
        impossible=({"share": 0.0}, {"share": 1.5}, {"share_lr": 0.0}),
        needs=KEPT,
        personal="none",
    ),
    "ditto": Case(
        as_fedavg={},
        impossible=({"strength": -1.0}, {"own_epochs": 0}, {"own_lr": 0.0}),
        needs=KEPT,  # v_i
        personal="none",
    ),
    "fedrep": replace(HEADS_STAY, options={"head_epochs": 2}, impossible=({"head_epochs": -1},)),
    "fedper": HEADS_STAY,
    "fedgroup": GROUP,
    "fedgrouprox": GROUP,
    "flexcfl": replace(
        GROUP,
        as_fedavg={"clusters": 1},
        impossible=(
            *({name: 0} for name in ("clusters", "alpha", "steps")),
            {"eta_g": -1.0},
            {"threshold": -0.1},
            {"mu": -0.5},
        ),
        needs={**GROUP.needs, **MIGRATES, **BY_CLUSTER},
    ),
    "ifca": IFCA,
    "ifca_mig": replace(IFCA, needs={**IFCA.needs, **MIGRATES}),
    "fesem": FESEM,
    "fesem_mig": replace(FESEM, needs={**FESEM.needs, **MIGRATES}),
    "fedsim": Case(
        # each round's cohort is divided into 5 clusters
        needs={"clients.number": 5, "cohort.number": 5, **SINGLE},
        personal="models",
        options={"clusters": 3},
        as_fedavg={"clusters": 1},
        impossible=({"clusters": 0}, {"variance": 0.0}, {"variance": 1.1}),
        models_up=2,  # the gradient, and the update
    ),
    "feddrift": Case(
        needs={  # clients tell accuracies, and means of solutions are enough
            "data.classes": "compares models by their accuracies",
            "reads.sends": "scores of all models",
            "changes.always": "copies models where data drift, and merges them",
            "data.earlier_samples": True,
        },
        personal="none",
        averages=False,  # models of drifted clients are copied, and merged ones
        options={"every": 2, "models": 1},
        as_fedavg={"models": 1},
        impossible=(*({name: 0} for name in ("every", "models", "isolation")), {"delta": -0.1}),
        by_step=frozenset({"owner", "ends"}),
    ),
    "ocfl": Case(
        personal="models",
        needs={
            "clients.number": 2,
            "reads.updates": "single",
            "rounds.full_cohort": True,
            "rounds.first_clustering": 2,
            "memory.compares_all": True,
            **KEEPS,
        },
        options={"clusterer": "kmeans", "clusters": 1},
        impossible=(
            {"clusters": 0},
            {"min_size": 1},
            {"confirm": 1.0},
            {"clusterer": "optics"},
            {"noise": "none"},
        ),
    ),
    "fedgwc": Case(
        personal="models",
        needs={
            "reads.updates": "single",
            **ALL,
        },
        as_fedavg={},
        impossible=({"gamma": 0.0}, {"eps": -1.0}, {"mean": 2}, {"newcomers": "direction"}),
    ),
    "fedccfa": Case(
        needs={
            "model.last_layer": True,
            "model.hidden_layers": True,
            "reads.updates": "single",
            "reads.sends": "balanced last layers",
            "data.classes": "compares the last layer's rows of classes",
            **ALL,
        },
        options={"balanced_epochs": 2},
        models_up=2 - BODY,  # the update, and the balanced last layer
        impossible=(
            {"eps": -0.1},
            {"head_lr": 0.0},
            {"changes": 2},
            *({name: 0} for name in ("per_class", "balanced_epochs", "head_epochs")),
        ),
        hidden=True,
        personal="none",
    ),
    "selective_reclustering": Case(
        needs={
            "data.classes": "counts wrong classes",
            "reads.sends": "numbers of errors, and losses of all models",
            "changes.always": "opens, closes and merges clusters",
        },
        personal="none",
        averages=False,  # clusters open, close and merge
        options={"clusters": 1},
        as_fedavg={"clusters": 1},
        impossible=(
            *({name: 0} for name in ("clusters", "warmup", "probe_every", "trial")),
            {"merge_every": -1},
            {"alpha": 0.0},
            {"margin": 0.0},
        ),
        models_down=2,  # to choose a model in the warm-up, and to train it
    ),
    "sattler": Case(
        # no cut in the first 20 rounds; similarities
        needs={"rounds.first_clustering": 21, **SINGLE},
        personal="models",
        options={"eps1": 2.0, "eps2": 0.1, "first_split": 1, "min_size": 7},  # one cut, in round 2
        as_fedavg={"first_split": 99, "weighting": "examples"},
        impossible=(
            {"eps1": -0.1},
            {"eps2": float("nan")},
            {"first_split": -1},
            {"min_size": 0},
            {"gamma_max": 1.1},
        ),
        clusters=3,
        finding={
            "eps2": 2.5,
            "min_size": 2,
        },  # clusters are some seven apart, clients of a cluster less than one
        grows=True,
    ),
    "flhc": Case(
        needs={
            "clients.number": 3,
            "rounds.first_clustering": 20,
            **SINGLE,
            **ALL,
            **KEEPS,
        },  # one clustering, in round 20
        personal="models",
        options={"cluster_round": 1},
        as_fedavg={"cluster_round": 99},
        impossible=(
            {"clusters": 0},
            {"distance": -1.0},
            {"clusters": 3, "distance": 1.0},
            {"cluster_round": 0},
        )
        + ({"linkage": "ward", "metric": "l1"}, {"eta_g": -1.0}, {"threshold": -0.1}),
        clusters=3,
        resting={
            "cluster_round": 99
        },  # when clusters are made everybody trains, not the cohort alone
        grows=True,
    ),
    "fedlease": Case(
        needs={**SINGLE, **ALL, **KEEPS},
        personal="models",
        options={"floor": 0.0, "warm_up": 1},
        as_fedavg={"most": 1},
        impossible=({"most": 0}, {"warm_up": 0}, {"floor": -0.1}),
        clusters=3,
    ),
    "fltac": Case(
        needs={"clients.number": 3, **SINGLE, **ALL},  # K = 3 tasks
        personal="models",
        options={"clusters": 3},
        as_fedavg={"clusters": 1},
        impossible=({"clusters": 0}, {"clusters": -1}),
        clusters=3,
    ),
    "fedrouter": Case(
        # K = 4; means of solutions are enough
        needs={
            "clients.number": 4,
            "reads.sends": "the mean embedding of its samples",
            "data.newcomer_labels": False,
            **KEEPS,
        },
        options={"clusters": 3},
        as_fedavg={"clusters": 1},
        impossible=({"clusters": 0}, {"clusters": -1}, {"kinds": 0}),
        clusters=3,
        samples=True,
    ),
    "cflgp": Case(
        # K = 4; the first query, of gradients, is in round 1
        needs={"clients.number": 4, "rounds.first_clustering": 1, **SINGLE, **ALL, **KEPT},
        personal="models",
        options={"clusters": 3},
        as_fedavg={"clusters": 1},
        impossible=(
            {"clusters": 0},
            {"period": 0},
            {"last_query": 0},
            {"max_clusters": 0},
            {"warm_up": -1},
        ),
        clusters=3,
        resting={"warm_up": 98},  # at a query everybody is asked, not the cohort alone
        grows=True,
    ),
    "feroma": Case(
        needs={
            "model.last_layer": True,
            **SINGLE,
            **OF_CLASSES,
            "data.newcomer_labels": False,
            "changes.always": "stores each client's own solution",
            **KEPT,
        },
        personal="none",
        averages=False,  # models are clients' own
        as_fedavg={"latest": 99, "accuracy": 2.0},
        options={"latest": 99, "accuracy": 2.0},
        impossible=({"latest": -1}, {"accuracy": -0.1}),
        models_down=2,  # the model, and the mean that is scored
    ),
    "flux": Case(
        needs={
            "rounds.first_clustering": 4,  # after 3 rounds at the earliest
            "model.last_layer": True,
            "reads.sends": "moments of its samples",
            "data.newcomer_labels": False,
            **OF_CLASSES,
        },
        personal="models",  # it waits for the accuracy of the shared model
        options={"latest": 0, "eps": "gap", "noise": "nearest"},
        as_fedavg={"latest": 99},
        impossible=({"latest": -1}, {"gain": -0.1}, {"gain": float("nan")}),
        clusters=3,
        samples=True,
        resting={"latest": 99},
        grows=True,
    ),
    "private_clusters": Case(
        needs={"clients.number": 3, "start_sums": 3},  # M, and two steps of K-means
        options={"clusters": 3, "sketch": 8},
        as_fedavg={"clusters": 1},
        impossible=({"clusters": 0}, {"sketch": 2}, {"candidates": 0}, {"refinements": 0}),
        clusters=3,
        resting={"clusters": 3, "sketch": 8},
        finding={"clusters": 3, "sketch": 64},
    ),
    "fedem": Case(
        needs={"clients.number": 3, "reads.sends": "shares of clusters"},  # K = 3 components
        personal="none",
        options={"clusters": 3},
        as_fedavg={"clusters": 1, "average_over": "cohort"},
        impossible=({"clusters": 0}, {"clusters": -1}),
        clusters=3,
        soft=True,
        models_down=3,
        models_up=3,
    ),
    "fedrc": Case(
        needs={
            "clients.number": 3,
            "reads.sends": "shares of clusters",
            "data.classes": "weights samples by their classes",
        },
        personal="none",
        options={"clusters": 3},
        as_fedavg={"clusters": 1},
        impossible=({"clusters": 0}, {"clusters": -1}),
        clusters=3,
        soft=True,
        models_down=Fraction(24, 7),  # of 42 numbers, and a share of each of six labels
        models_up=Fraction(24, 7),
        by_step=frozenset({"shares"}),
    ),
    "fedsoft": Case(
        # K = 2 centres; the same solutions, weighed otherwise
        needs={"clients.number": 2, **SINGLE, **KEPT},
        personal="none",
        options={"clusters": 3},
        impossible=(
            *({name: 0} for name in ("clusters", "every", "selected")),
            {"strength": -1.0},
            {"floor": 0.0},
        ),
        clusters=3,
        soft=True,
        models_down=3,
    ),
    "pacfl": Case(
        # subspaces are the samples', and means of solutions are enough
        needs={
            "reads.sends": "bases of subspaces of its samples",
            **OF_CLASSES,
            **ALL,
            **BY_CLUSTER,
        },
        options={"p": 1, "threshold": 20.0},
        as_fedavg={"threshold": 180.0},
        impossible=(
            {"p": 0},
            {"threshold": -1.0},
            {"threshold": float("nan")},
            {"classwise": True, "angle": "sum"},
        ),
        clusters=3,
        samples=True,
        grows=True,
    ),
    "hierarchical": replace(LAST_LAYER, as_fedavg={"clusters": 1}),
    "athena": replace(
        LAST_LAYER,
        options={**LAST_LAYER.options, "layer": "last_layer"},
        impossible=(*LAST_LAYER.impossible, {"assignment": (0, 2)}, {"calibrate": -1}),
        models_down=2,  # the detectors of a cluster's two classes
        models_up=2,
        detects=True,
        needs={"model.detectors": True, **LAST_LAYER.needs},
        personal="none",
    ),
    "panm": replace(
        PANM,
        impossible=(*PANM.impossible, {"alpha": 1.1}, {"alpha": -0.1}, {"alpha": float("nan")}),
    ),
    "panm_loss": replace(PANM, models_down=7, models_up=7),
    "pens": Case(
        peers=True,
        # n_s = 10 are sampled, or all where there are fewer
        needs={"rounds.stage_one": 200, **NEEDS_OF_PEERS},
        personal="none",
        options={"sampled": 24},
        impossible=({"sampled": 0}, {"top": 0}, {"stage_one": 0}, {"top": 3, "sampled": 2}),
        models_down=7,
        models_up=7,
    ),
    "gossip": replace(PEERS, models_down=7, models_up=7),
    "given": Case(
        needs={"reads.sends": "a hash of its group's name", **KEEPS, **BY_CLUSTER},
        options={"groups": {str(client): "abc"[client % 3] for client in range(24)}},
        as_fedavg={"groups": {str(client): "all" for client in range(24)}},
        impossible=({"column": "", "groups": {}},),
        clusters=3,
    ),
    "oracle": replace(
        PEERS,
        models_down=3.25,  # five of a cluster, and three of another
        models_up=3.25,
        needs={**PEERS.needs, "data.true_clusters": True},
    ),
    "local": Case(
        peers=True,
        models_down=0,
        models_up=0,
        needs={"peers": True, "rounds.full_cohort": True, **SINGLE, **ALL},
        personal="none",
    ),
}
CLUSTERED = [name for name, case in CASES.items() if case.clusters > 1 and not case.soft]
CLIENTS = 24


def test_every_method_is_listed_once() -> None:
    assert CASES.keys() == METHODS.keys()
    assert len(set(METHODS.values())) == len(METHODS)


def make(name: str, **changes: Any) -> Any:
    return METHODS[name](**merged(CASES[name].options, changes))


# --- two worlds


def fake(name: str, **options: Any) -> FakeWorld:
    """Three clusters of clients, far apart, that differ a little within a cluster. A kind has two
    of six classes."""
    rng = np.random.default_rng(0)
    cluster_means = np.array([[8, 0, 0, 1], [0, 9, 0, 1], [0, 0, 10, 1]])
    target = cluster_means[np.arange(CLIENTS) % 3] + rng.normal(scale=0.3, size=(CLIENTS, 4))
    if CASES[name].detects:
        counts = np.repeat(np.eye(3, dtype=np.int64), 2, axis=1)[np.arange(CLIENTS) % 3]
        options = {"counts": counts, "detects": True, **options}
    if CASES[name].hidden:
        options = {"head": slice(1, 3), **options}
    options = {"true_clusters": np.arange(CLIENTS) % 3, **options}
    world = FakeWorld(
        target.astype(np.float32), rng.integers(5, 50, CLIENTS), LocalTraining(2, lr=0.3), **options
    )
    if CASES[name].samples:
        world.data.x = world.target
        world.spec = replace(world.spec, head_bias=slice(3, 4))  # one score, of three numbers
    return world


def simulated(name: str, **options: Any) -> SimulatedWorld:
    """Twenty-four clients of 6 to 12 samples; a cluster is a pair of the six classes."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(6, 13, CLIENTS)
    owner = np.repeat(np.arange(CLIENTS), sizes)
    y = 2 * (owner % 3) + rng.integers(0, 2, len(owner))
    x = (np.eye(6)[y] + rng.normal(scale=0.3, size=(len(y), 6))).astype(np.float32)
    rows = Ragged.of([np.flatnonzero(owner == c) for c in range(CLIENTS)])
    train, test = (
        Ragged.of([rows[c][part] for c in range(CLIENTS)]) for part in (slice(2, None), slice(0, 2))
    )
    data = FederatedData(
        name="kinds",
        x=x,
        y=y,
        classes=6,
        train=train,
        test=test,
        true_clusters=np.arange(CLIENTS) % 3,
    )
    model = (
        linear() if CASES[name].detects else mlp(data, HIDDEN) if CASES[name].hidden else mclr(data)
    )
    return SimulatedWorld(data, model, LocalTraining(epochs=2, batch_size=5, lr=0.1), **options)


WORLDS = {"fake": fake, "simulated": simulated}


# --- a run, as the runner drives it


def cohort_of(world: Any, seed: int, round: int, size: int = 8) -> np.ndarray:
    return np.sort(
        Stream(seed, round, "cohort").rng().choice(world.clients(round), size, replace=False)
    )


def step(method: Any, world: Any, state: Any, cohort: np.ndarray, seed: int, round: int) -> Any:
    """One round: cold clients are placed first."""
    stream = Stream(seed, round, "method")
    cold = cohort[state.assignment[cohort] == UNASSIGNED]
    if len(cold):
        state = method.place(world, state, cold, stream.child("place"))
    return method.round(world, state, cohort, stream)


def settled(method: Any, world: Any, seed: int = 5) -> Any:
    """A state in which everybody has a cluster, from one round with all clients."""
    return step(
        method=method,
        world=world,
        state=method.init(world, Stream(seed, 0, "init")),
        cohort=np.arange(CLIENTS),
        seed=seed,
        round=1,
    )


def run(
    method: Any,
    world: Any,
    rounds: int = 4,
    seed: int = 5,
    state: Any = None,
    first: int = 1,
    cohort: int = 8,
) -> Any:
    state = method.init(world, Stream(seed, 0, "init")) if state is None else state
    for r in range(first, rounds + 1):
        state = step(
            method=method,
            world=world,
            state=state,
            cohort=cohort_of(world, seed, r, cohort),
            seed=seed,
            round=r,
        )
    return state


def arrays(state: Any) -> dict[str, np.ndarray]:
    """Arrays of a state, by name. Arrays of an option have the name of its section in front."""
    values = {f.name: getattr(state, f.name) for f in fields(state) if f.name != "extras"}
    for section, of_option in state.extras.items():
        values |= {f"{section}/{name}": array for name, array in of_option.items()}
    assert all(isinstance(value, (np.ndarray, SharedRows)) for value in values.values())
    return {name: np.asarray(value) for name, value in values.items()}


def assert_same(a: Any, b: Any) -> None:
    """Equal to the last bit, array by array."""
    assert type(a) is type(b)
    others = arrays(b)
    for name, array in arrays(a).items():
        other = others[name]
        assert (array.dtype, array.shape, array.tobytes()) == (
            other.dtype,
            other.shape,
            other.tobytes(),
        ), name


def assert_sound(state: Any, name: str, world: Any) -> None:
    clusters = state.clusters
    case = CASES[name]
    assert clusters >= 1 if case.grows or case.peers else clusters == case.clusters
    assert (
        state.models.shape == (len(state.models), world.spec.parameters)
        and state.models.dtype == np.float32
    )
    if case.peers:
        clusters = len(state.models)
        assert state.clusters <= clusters == CLIENTS
    assert len(state.models) >= clusters if case.detects else len(state.models) == clusters
    assert np.isfinite(state.models).all()
    assert state.assignment.shape == (world.total_clients,)
    assert np.all((state.assignment >= UNASSIGNED) & (state.assignment < clusters))


def loss_of(world: Any, state: Any) -> float:
    """Mean over clients of the training loss of the models that their cluster trains. Detectors are
    scored one by one. With other methods, a client without a cluster has the first model."""
    everybody = np.arange(CLIENTS)
    if isinstance(state, PeerState):
        return float(world.run(Losses(state.models), everybody).losses[everybody, everybody].mean())
    # Whose one class has no probability.
    if isinstance(world, FakeWorld) and hasattr(state, "membership"):
        return float(
            (state.membership * world.run(Losses(state.models), everybody).losses)
            .sum(axis=1)
            .mean()
        )
    if own := state.evaluation(world.spec, everybody):
        return float(world.run(replace(own, split="train"), everybody).loss.mean())
    if not world.spec.detects:
        losses = world.run(Losses(state.models), everybody).losses
        return float(losses[everybody, np.maximum(state.assignment, 0)].mean())
    client, detector = np.nonzero(state.assignment[:, None] == state.home)
    if isinstance(world, FakeWorld):
        wanted = world.target[client] + state.positive[detector][:, None]
        return float(np.mean((state.models[detector] - wanted) ** 2))
    work = replace(world.work, positive=state.positive[detector])
    stream = Stream(5, 0, "loss")
    return float(
        train(world, state.models, client, detector, work=work, stream=stream).first_loss.mean()
    )


def models_elsewhere(state: Any, cluster: int) -> np.ndarray:
    """Which models other clusters train."""
    return np.flatnonzero(getattr(state, "home", np.arange(len(state.models))) != cluster)


each_method = pytest.mark.parametrize("name", CASES)
each_clustered = pytest.mark.parametrize("name", CLUSTERED)
# The other world is quick, and has the formulas.
IN_SIMULATION = {
    "simulated": pytest.mark.simulation,
    "fake": (),
}
each_world = pytest.mark.parametrize(
    "world", [pytest.param(w, id=n, marks=IN_SIMULATION[n]) for n, w in WORLDS.items()]
)

# --- the promises


@each_method
def test_it_is_a_frozen_dataclass_with_defaults(name: str) -> None:
    method = METHODS[name]()
    assert (
        is_dataclass(method) and method == METHODS[name]() and hash(method) == hash(METHODS[name]())
    )
    for f in fields(method):
        with pytest.raises(AttributeError):
            setattr(method, f.name, None)


@each_world
@each_method
def test_states_are_sound_and_keep_their_shapes(name: str, world: Callable[..., Any]) -> None:
    method = make(name)
    w = world(name)
    state = method.init(w, Stream(5, 0, "init"))

    def shapes(state: Any) -> dict[str, Any]:  # models may become more, never fewer
        rows = {"models"} if CASES[name].grows else set()
        sizes = {
            key: a.shape[:1] if key in CASES[name].by_step else a.shape
            for key, a in arrays(state).items()
        }
        return {key: (sizes[key][key in rows :], a.dtype) for key, a in arrays(state).items()}

    before = state
    for r in range(1, 4):
        assert_sound(state, name, w)
        assert shapes(state) == shapes(before) and len(state.models) >= len(before.models)
        before = state
        state = step(
            method=method, world=w, state=state, cohort=cohort_of(w, 5, r), seed=5, round=r
        )


@each_world
@each_method
def test_training_helps(name: str, world: Callable[..., Any]) -> None:
    w = world(name)
    method = make(name)
    before = loss_of(w, method.init(w, Stream(5, 0, "init")))  # while clients remember nothing
    assert loss_of(w, run(method, w, rounds=8)) < before


@each_world
@each_method
def test_the_same_seed_gives_the_same_bits(name: str, world: Callable[..., Any]) -> None:
    assert_same(run(make(name), world(name)), run(make(name), world(name)))


@each_world
@each_method
def test_another_seed_gives_another_run(name: str, world: Callable[..., Any]) -> None:
    a = run(make(name), world(name), seed=5)
    b = run(make(name), world(name), seed=6)
    assert a.models.tobytes() != b.models.tobytes()


@each_world
@each_method
def test_resume_is_bitwise(name: str, world: Callable[..., Any]) -> None:
    """The state and the clients' memory are all there is. As plain arrays, in a fresh world, the
    run goes on as if never stopped."""
    before = world(name)
    after = world(name)
    half = run(make(name), before, rounds=2)
    after.recall(before.memory())
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays(half))
    file.seek(0)
    loaded = type(half)(**np.load(file, allow_pickle=False))
    assert_same(run(make(name), after, state=loaded, first=3), run(make(name), world(name)))


@each_world
@each_method
def test_states_are_never_changed_in_place(name: str, world: Callable[..., Any]) -> None:
    w = world(name)
    method = make(name)
    state = method.init(w, Stream(5, 0, "init"))
    for array in arrays(state).values():
        array.flags.writeable = False
    run(method, w, state=state)


@each_world
@each_method
def test_the_order_of_clients_does_not_matter(name: str, world: Callable[..., Any]) -> None:
    w = world(name)
    method = make(name)
    state = settled(method, w)
    cohort = cohort_of(w, 5, 2)
    kept = w.memory()
    forward = method.round(w, state, cohort, Stream(5, 2, "method"))
    w.recall(kept)
    backward = method.round(w, state, cohort[::-1].copy(), Stream(5, 2, "method"))
    np.testing.assert_allclose(backward.models, forward.models, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(backward.assignment, forward.assignment)


@each_method
def test_the_names_of_clients_do_not_matter(name: str) -> None:
    """Clients renumbered: the same models, and everybody in the cluster she was in."""
    w = fake(name)
    method = make(name)
    state = settled(method, w)
    new = np.random.default_rng(2).permutation(CLIENTS)  # old client i is now client new[i]
    old = np.argsort(new)
    per_client = {key: a[old] for key, a in arrays(state).items() if a.shape[:1] == (CLIENTS,)}
    per_client |= {key: a[:, old] for key, a in per_client.items() if a.shape == (CLIENTS, CLIENTS)}
    assert w.true_clusters is not None
    moved = replace(
        w, target=w.target[old], examples=w.examples[old], true_clusters=w.true_clusters[old]
    )
    moved.recall(
        {key: a[old] if key.startswith("clients/") else a for key, a in w.memory().items()}
    )
    cohort = cohort_of(w, 5, 1)
    here = method.round(w, state, cohort, Stream(5, 1, "method"))
    there = method.round(
        moved, replace(state, **per_client), np.sort(new[cohort]), Stream(5, 1, "method")
    )
    per_model = new if CASES[name].peers else slice(None)
    np.testing.assert_allclose(there.models[per_model], here.models, rtol=1e-5, atol=1e-5)
    assert adjusted_rand_score(there.assignment[new], here.assignment) == 1
    assert CASES[name].peers or np.array_equal(there.assignment[new], here.assignment)


@each_world
@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.as_fedavg is not None]
)
def test_one_cluster_is_fedavg(name: str, world: Callable[..., Any]) -> None:
    w = world(name)
    fedavg = FedAvg()
    method = make(name, **(CASES[name].as_fedavg or {}))
    plain = fedavg.init(w, Stream(5, 0, "init"))
    state = replace(method.init(w, Stream(5, 0, "init")), models=plain.models)
    for r in range(1, 4):
        cohort = cohort_of(w, 5, r)
        plain, state = (
            step(method=m, world=w, state=s, cohort=cohort, seed=5, round=r)
            for m, s in ((fedavg, plain), (method, state))
        )
    np.testing.assert_allclose(state.models, plain.models, rtol=1e-5, atol=1e-6)


@each_world
@each_clustered
def test_an_empty_cluster_keeps_its_model(name: str, world: Callable[..., Any]) -> None:
    w = world(name)
    method = make(name, **CASES[name].resting)
    state = settled(method, w)
    only = int(state.assignment[0])
    cohort = np.flatnonzero(state.assignment == only)
    after = method.round(w, state, cohort, Stream(5, 2, "method"))
    others = models_elsewhere(state, only)
    assert (len(others) or CASES[name].grows) and after.models[others].tobytes() == state.models[
        others
    ].tobytes()
    own = np.setdiff1d(np.arange(len(state.models)), others)
    assert after.models[own].tobytes() != state.models[own].tobytes()


@each_clustered
def test_clusters_that_are_far_apart_are_found(name: str) -> None:
    everybody = CASES[name].grows  # a client absent when a cluster is cut may end in none
    state = run(
        make(name, **CASES[name].finding), fake(name), rounds=8, cohort=CLIENTS if everybody else 8
    )
    cluster_means = [set(state.assignment[k::3].tolist()) for k in range(3)]
    assert all(len(kind) == 1 for kind in cluster_means) and len(set.union(*cluster_means)) == 3


# --- replies that do not come

LOST = frozenset({1, 4, 5, 11, 18})


@pytest.mark.parametrize("how", ["silent", "garbage"])
@each_method
def test_a_round_uses_the_replies_that_came(name: str, how: str) -> None:
    """With some replies lost, a round equals a round without those clients."""
    method = make(name)
    whole = fake(name)
    state = settled(method, whole)
    everybody = np.arange(CLIENTS)
    lossy = fake(name, **{how: LOST})
    lossy.recall(whole.memory())
    after = method.round(lossy, state, everybody, Stream(5, 2, "method"))
    without = method.round(
        whole, state, np.setdiff1d(everybody, list(LOST)), Stream(5, 2, "method")
    )
    np.testing.assert_allclose(after.models, without.models, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("how", ["silent", "garbage"])
@each_method
def test_a_run_survives_missing_replies(name: str, how: str) -> None:
    w = fake(name, **{how: LOST})
    assert_sound(run(make(name), w), name, w)


@pytest.mark.simulation
@each_method
def test_a_simulated_run_survives_dropout_and_stragglers(name: str) -> None:
    w = simulated(name, population=Population(dropout=0.3, stragglers=0.3))
    assert_sound(run(make(name), w), name, w)


@pytest.mark.parametrize("how", ["silent", "garbage"])
@each_method
def test_a_round_without_any_reply_changes_no_model(name: str, how: str) -> None:
    method = make(name, **CASES[name].resting)
    state = method.init(fake(name), Stream(5, 0, "init"))
    deaf = fake(name, **{how: frozenset(range(CLIENTS))})
    after = step(method=method, world=deaf, state=state, cohort=np.arange(CLIENTS), seed=5, round=1)
    assert after.models.tobytes() == state.models.tobytes()


@each_method
def test_a_round_without_a_cohort_changes_no_model(name: str) -> None:
    method = make(name, **CASES[name].resting)
    state = method.init(fake(name), Stream(5, 0, "init"))
    after = method.round(fake(name), state, np.zeros(0, np.int64), Stream(5, 1, "method"))
    assert after.models.tobytes() == state.models.tobytes()


@each_method
def test_a_start_without_any_reply_is_sound_or_refused_in_words(name: str) -> None:
    deaf = fake(name, silent=frozenset(range(CLIENTS)))
    try:
        state = make(name).init(deaf, Stream(5, 0, "init"))
    except FedkinError as error:
        assert CASES[name].clusters > 1 and "0 of" in str(error)
    else:
        assert_sound(state, name, deaf)


# --- newcomers


@pytest.mark.parametrize(
    "name", [n for n, case in CASES.items() if n not in CLUSTERED and not (case.peers or case.soft)]
)
def test_with_one_cluster_no_client_is_unassigned(name: str) -> None:
    state = make(name).init(
        simulated(name, population=Population(arrivals={2: 6})), Stream(5, 0, "init")
    )
    np.testing.assert_array_equal(state.assignment, np.zeros(CLIENTS))


@each_world
@each_clustered
def test_newcomers_are_placed_and_change_no_model(name: str, world: Callable[..., Any]) -> None:
    w = world(name)
    method = make(name)
    state = settled(method, w)
    cold = state.assignment.copy()
    cold[[2, 3, 10]] = UNASSIGNED
    placed = method.place(
        w, replace(state, assignment=cold), np.array([2, 3, 10]), Stream(5, 2, "place")
    )
    assert placed.models.tobytes() == state.models.tobytes()
    if not CASES[name].places:
        placed = method.round(w, placed, np.array([2, 3, 10]), Stream(5, 2, "method"))
    assert np.all(placed.assignment != UNASSIGNED)
    rest = np.setdiff1d(np.arange(CLIENTS), [2, 3, 10])
    np.testing.assert_array_equal(placed.assignment[rest], state.assignment[rest])


@pytest.mark.simulation
@each_method
def test_clients_that_arrive_later(name: str) -> None:
    w = simulated(name, population=Population(arrivals={2: 6}))
    state = run(make(name), w)
    assert_sound(state, name, w)
    late = [c for r in (2, 3, 4) for c in cohort_of(w, 5, r) if c >= CLIENTS - 6]
    assert late and np.all(state.assignment[late] != UNASSIGNED)


# --- communication


@each_method
def test_a_round_sends_its_models_down_and_one_up_per_client(name: str) -> None:
    w = simulated(name)
    method = make(name)
    state = settled(method, w)
    before = w.ledger.total()
    method.round(w, state, cohort_of(w, 5, 2), Stream(5, 2, "method"))
    down, up = (after - was for after, was in zip(w.ledger.total(), before, strict=True))
    each = 8 * 4 * w.spec.parameters
    assert (down, up) == (CASES[name].models_down * each, CASES[name].models_up * each)


# --- refusals


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, bad) for name, case in CASES.items() for bad in case.impossible],
    ids=str,
)
def test_impossible_settings_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        make(name, **options)


@pytest.mark.parametrize(
    "name", [name for name in CLUSTERED if hasattr(METHODS[name](), "clusters")]
)
def test_more_clusters_than_clients_are_refused(name: str) -> None:
    with pytest.raises(FedkinError, match=str(CLIENTS + 1)):
        make(name, clusters=CLIENTS + 1).init(fake(name), Stream(5, 0, "init"))
