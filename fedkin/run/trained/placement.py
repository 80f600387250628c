"""Which cluster a client belongs to that the run has not seen, by the method's own rule for
newcomers.

The method's ``place`` runs in a small simulated world: the clients of the run, with a stand-in
sample each that nobody asks for, and behind them the newcomer and resamples of it. Nothing of the
run changes.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import requirements_of
from fedkin.export.predictor import Predictor
from fedkin.options.with_options import evaluation_task
from fedkin.run.trained.models import TrainedModels
from fedkin.run.trained.newcomer_data import newcomer_data, newcomer_samples
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.fedem import EvaluateMixture
from fedkin.tasks.own_model import EvaluateOwn


@dataclass(frozen=True)
class Placement:
    """Where a newcomer belongs.

    Attributes:
        cluster: its number; -1 where the method leaves the newcomer without one, as it resembles no
            client.
        confidence: how stable that is: the share of the resamples of the newcomer's samples that go
            to the same cluster; 0 without a cluster, NaN of a single sample, of which every
            resample is the same. It is no probability of being right: few samples can agree on a
            wrong cluster.
        shares: the same of every cluster; what is missing to 1 are resamples without a cluster.
        membership: what the newcomer has of each cluster, in shares of 1, where membership is soft
            (FedEM, FedRC, FedSoft); else None.
        model: what serves it then: all models, mixed by ``membership``; else None, and ``cluster``
            has its model.
    """

    cluster: int
    confidence: float
    shares: Float[np.ndarray, "K"]
    membership: Float[np.ndarray, "K"] | None = None
    model: Predictor | None = None

    def __repr__(self) -> str:
        return f"Placement(cluster {self.cluster}, confidence {self.confidence:.2f})"


def place(
    trained: TrainedModels, x: Any, y: Any = None, resamples: int = 20, seed: int = 0
) -> Placement:
    """The cluster of an unseen client.

    Where the method's rule trains, it is at the learning rate before any schedule over rounds, by
    which clusters were found: one that has ended at 0 would leave nothing to compare.

    Args:
        trained: the models of the run.
        x: the newcomer's training samples [s ...], as the run's data hold them.
        y: their labels [s], names where those of the run are names, else numbers; None where they
            are not known, and the method reads none.
        resamples: bootstrap resamples (s samples, drawn with replacement) behind ``confidence``.
        seed: of these, and of the newcomer's local training.

    Raises:
        MethodError: a method that places no newcomers by their samples, or none without labels.
        ConfigError: a number of resamples below 1.
        DataError: samples or labels that do not fit the run's.
    """
    if isinstance(resamples, bool) or not isinstance(resamples, (int, np.integer)) or resamples < 1:
        raise ConfigError(f"resamples must be an integer of at least 1, got {resamples!r}")
    samples, labels = newcomer_samples(trained.parts.samples, x, y)
    method = _placing(trained.method, trained.parts.method, trained.state)
    clusters = trained.state.clusters
    if clusters == 1:
        return Placement(0, 1.0, np.ones(1))
    if y is None and requirements_of(method).data.newcomer_labels:
        raise MethodError(
            f"{trained.method} places a newcomer by labelled samples: give them, run.place(x, y)"
        )
    rng = np.random.default_rng(seed)
    size = len(samples)
    drawn = [np.arange(size), *(np.sort(rng.integers(size, size=size)) for _ in range(resamples))]
    total = len(trained.state.assignment)
    newcomers = total + np.arange(len(drawn))
    stand_ins = [np.zeros(1, np.int64)] * total  # for the clients of the run
    data = newcomer_data(trained.parts.samples, samples, labels, [*stand_ins, *drawn])
    world = SimulatedWorld(data, trained.parts.model, replace(trained.parts.local, schedule=None))
    state = _extended(trained.state, len(drawn))
    placed = method.place(world, state, newcomers, Stream(seed, trained.rounds + 1, "place"))
    places = placed.assignment[newcomers]
    # A new cluster of newcomers only has no trained model.
    places = np.where(places < clusters, places, UNASSIGNED)
    shares = np.bincount(places[1:][places[1:] != UNASSIGNED], minlength=clusters) / resamples
    cluster = int(places[0])
    stability = float(shares[cluster]) if size > 1 else np.nan
    mixture = (
        (None, None) if cluster == UNASSIGNED else _mixture(trained, placed, int(newcomers[0]))
    )
    return Placement(cluster, 0.0 if cluster == UNASSIGNED else stability, shares, *mixture)


def _mixture(
    trained: TrainedModels, placed: State, newcomer: int
) -> tuple[Float[np.ndarray, "K"], Predictor] | tuple[None, None]:
    """The shares of a newcomer, and the models mixed by them: their probabilities, or their
    parameters."""
    membership = getattr(placed, "membership", None)
    task = evaluation_task(placed, trained.spec, np.array([newcomer]))
    if membership is None or not isinstance(task, EvaluateMixture | EvaluateOwn):
        return None, None
    samples = trained.parts.samples
    cluster = int(placed.assignment[newcomer])
    names = getattr(samples, "label_names", None)
    shares = task.membership[0] if isinstance(task, EvaluateMixture) else None
    model = Predictor(
        name="newcomer",
        model=trained.parts.model,
        vectors=task.models,
        samples=samples,
        label_names=names,
        cluster=cluster,
        shares=shares,
    )
    return membership[newcomer], model


def _placing(name: str, method: Method | None, state: State) -> Method:
    """The method, as it places a client by its samples. Raises MethodError where it cannot."""
    if method is None:
        raise MethodError(
            f"the method {name!r} is not known here; give it: Run.load(path, ..., method=...)"
        )
    if requirements_of(method).peers:
        raise MethodError(
            f"{name} places no newcomers: a peer joins with the initial model and finds its "
            "neighbours in its rounds"
        )
    newcomers = newcomer_policy(method)
    if newcomers == "own" and len(state.models) > 1:
        raise MethodError(
            f"{name} with newcomers = 'own' places a client by the model that it has trained in "
            "its rounds, which a newcomer has not; run it with newcomers = 'loss'"
        )
    if newcomers == "round":  # it chooses in its first round, by the same rule
        return replace(method, newcomers="loss")  # type: ignore[type-var]
    return method


def newcomer_policy(method: Method) -> str | None:
    """How a method places newcomers, its option ``newcomers``; None where it has no such option."""
    return attrgetter("newcomers")(method) if "newcomers" in dir(method) else None


def _extended(state: State, more: int) -> State:
    """The state of a federation with so many more clients, of whom nothing is known: without a
    cluster, flags off, numbers NaN (0 where they are whole)."""
    total = len(state.assignment)
    hints = _dimensions(type(state))
    changed: dict[str, np.ndarray] = {
        "assignment": np.append(state.assignment, np.full(more, UNASSIGNED))
    }
    for name in (f.name for f in fields(state) if f.name not in ("models", "assignment", "extras")):
        array = getattr(state, name)
        axes = hints.get(name, "N" if array.shape[:1] == (total,) else "").split(" ")
        if axes[0] == "N":
            array = np.asarray(array)
            widths = [
                (0, more if axis == "N" else 0)
                for axis in (*axes, *[""] * (array.ndim - len(axes)))
            ]
            changed[name] = np.pad(
                array, widths, constant_values=np.nan if array.dtype.kind == "f" else 0
            )
    return replace(state, **changed)


def _dimensions(kind: type[State]) -> dict[str, str]:
    """The dimensions of the arrays of a state, as its annotations have them."""
    hints = typing.get_type_hints(kind, include_extras=True)
    of_unions = {name: (hint, *typing.get_args(hint)) for name, hint in hints.items()}
    return {
        name: one.dim_str
        for name, kinds in of_unions.items()
        for one in kinds
        if hasattr(one, "dim_str")
    }
