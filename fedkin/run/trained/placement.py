"""Placement of new clients that a run has not seen, by the method's rule for newcomers.

The method's ``place`` runs in a small simulated world. Its clients are the run's clients, each with
one placeholder sample that is never used, and then the newcomer and its resamples. The run is not
changed.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import requirements_of
from fedkin.export.predictor import Predictor
from fedkin.options.with_options import evaluation_task
from fedkin.run.trained.models import TrainedModels
from fedkin.run.trained.newcomer_data import has_labels, newcomer_data, newcomer_samples
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.fedem import EvaluateMixture
from fedkin.tasks.own_model import EvaluateOwn


@dataclass(frozen=True)
class Placement:
    """The result of placing a newcomer.

    Attributes:
        cluster: the cluster's number; -1 if the method leaves the newcomer unassigned because it is
            not similar to any client.
        confidence: stability of the placement, i.e. the share of resamples of the newcomer's
            samples that are assigned to the same cluster. It is 0 without a cluster, and NaN for a
            single sample, since all its resamples are equal. It is not the probability that the
            cluster is right: resamples of few samples can agree on a wrong cluster.
        shares: share of resamples that are assigned to each cluster. If the sum is below 1, the
            rest got no cluster.
        membership: the newcomer's share of each cluster, summing to 1, if membership is soft
            (FedEM, FedRC, FedSoft); otherwise None.
        model: for soft membership, all models mixed by ``membership``; otherwise None, and the
            newcomer uses the model of ``cluster``.
    """

    cluster: int
    confidence: float
    shares: Float[np.ndarray, "K"]
    membership: Float[np.ndarray, "K"] | None = None
    model: Predictor | None = None

    def __repr__(self) -> str:
        # A single sample has no confidence.
        known = "" if np.isnan(self.confidence) else f", confidence {self.confidence:.2f}"
        return f"Placement(cluster {self.cluster}{known})"


def place(
    trained: TrainedModels, x: Any, y: Any = None, resamples: int = 20, seed: int = 0
) -> Placement:
    """Find the cluster of a client that the run has not seen.

    If the method's rule for newcomers trains, the run's settings of local training are used, but
    its schedule of the learning rate over rounds is not. A schedule may end at 0, and updates would
    then be 0.

    Args:
        trained: the models of the run.
        x: the newcomer's training samples [s ...], in the format of the run's data.
        y: the samples' labels [s]: names if the run's labels are names, otherwise numbers. None if
            unknown, for methods that read no labels; and for forecasts, whose x is a table of the
            newcomer's past with its labels.
        resamples: number of bootstrap resamples (s samples, drawn with replacement) for
            ``confidence``.
        seed: seed of the resamples, and of the newcomer's local training.

    Raises:
        MethodError: the method does not place newcomers by their samples, or needs labels.
        ConfigError: ``resamples`` is below 1.
        DataError: the samples or labels do not fit the run's.
    """
    _check_resamples(resamples)
    samples, labels = newcomer_samples(trained.parts.samples, x, y)
    method = _placing(trained.method, trained.parts.method, trained.state)
    needs_labels = requirements_of(method).data.newcomer_labels
    if not has_labels(trained.parts.samples, x, y) and trained.state.clusters > 1 and needs_labels:
        raise MethodError(
            f"{trained.method} needs labels to place a newcomer; give them: run.place(x, y)"
        )
    return place_rows(trained, samples, labels, resamples=resamples, seed=seed)


def place_rows(
    trained: TrainedModels,
    samples: Shaped[np.ndarray, "s ..."],
    labels: Shaped[np.ndarray, "s ..."],
    resamples: int = 20,
    seed: int = 0,
) -> Placement:
    """Find the cluster of a client whose samples are like those of the run's data.

    Args:
        trained: the models of the run.
        samples: features of the client's samples, scaled as in the run's data.
        labels: rows like those of ``FederatedData.y``.
        resamples, seed: as for ``place``.

    Raises:
        MethodError: the method does not place newcomers by their samples.
        ConfigError: ``resamples`` is below 1.
    """
    _check_resamples(resamples)
    method = _placing(trained.method, trained.parts.method, trained.state)
    clusters = trained.state.clusters
    # With a single cluster there is no choice, and no labels are needed.
    if clusters == 1:
        return Placement(0, 1.0, np.ones(1))
    rng = np.random.default_rng(seed)
    size = len(samples)
    # The first newcomer has all samples, and each of the others is a resample.
    drawn = [np.arange(size), *(np.sort(rng.integers(size, size=size)) for _ in range(resamples))]
    total = len(trained.state.assignment)
    newcomers = total + np.arange(len(drawn))  # positions after the run's clients
    stand_ins = [np.zeros(1, np.int64)] * total  # placeholder samples of the run's clients
    data = newcomer_data(trained.parts.samples, samples, labels, [*stand_ins, *drawn])
    world = SimulatedWorld(data, trained.parts.model, replace(trained.parts.local, schedule=None))
    state = _extended(trained.state, len(drawn))
    placed = method.place(world, state, newcomers, Stream(seed, trained.rounds + 1, "place"))
    places = placed.assignment[newcomers]
    # A new cluster that consists of newcomers only has no trained model.
    places = np.where(places < clusters, places, UNASSIGNED)
    shares = np.bincount(places[1:][places[1:] != UNASSIGNED], minlength=clusters) / resamples
    cluster = int(places[0])
    stability = float(shares[cluster]) if size > 1 else np.nan
    mixture = (
        (None, None) if cluster == UNASSIGNED else _mixture(trained, placed, int(newcomers[0]))
    )
    return Placement(cluster, 0.0 if cluster == UNASSIGNED else stability, shares, *mixture)


def _check_resamples(resamples: int) -> None:
    """Raise ConfigError for a number of resamples that is not an integer of at least 1."""
    if isinstance(resamples, bool) or not isinstance(resamples, (int, np.integer)) or resamples < 1:
        raise ConfigError(f"resamples must be an integer of at least 1, got {resamples!r}")


def _mixture(
    trained: TrainedModels, placed: State, newcomer: int
) -> tuple[Float[np.ndarray, "K"], Predictor] | tuple[None, None]:
    """The newcomer's shares of all clusters, and a predictor that mixes the models with these
    shares, by probabilities or by parameters. (None, None) if membership is hard."""
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
    """The method, in a form that places a newcomer at once by the newcomer's samples. If the option
    ``newcomers`` is ``round`` (clients choose a cluster in their first round), it is set to
    ``loss``, which is the same rule without a round.

    Raises MethodError if the method's class is unknown, or if the method cannot place a newcomer by
    its samples.
    """
    if method is None:
        raise MethodError(
            f"the class of the method {name!r} cannot be found; give the method: Run.load(path, "
            "..., method=...)"
        )
    if requirements_of(method).peers:
        raise MethodError(
            f"{name} cannot place newcomers: a peer joins with the initial model and finds its "
            "neighbours in its rounds"
        )
    newcomers = newcomer_policy(method)
    if newcomers == "own" and len(state.models) > 1:
        raise MethodError(
            f"{name} with newcomers = 'own' places a client by the model from its own training "
            "rounds, which a newcomer does not have; run the method with newcomers = 'loss'"
        )
    if newcomers == "round":  # clients choose in their first round, by the same rule
        return replace(method, newcomers="loss")  # type: ignore[type-var]
    return method


def newcomer_policy(method: Method) -> str | None:
    """A method's option ``newcomers``; None if it has no such option."""
    return attrgetter("newcomers")(method) if "newcomers" in dir(method) else None


def _extended(state: State, more: int) -> State:
    """A method's state with ``more`` further clients, about which nothing is known: they have no
    cluster, and their entries in the state's arrays are False, NaN or 0, depending on the array's
    type."""
    total = len(state.assignment)
    hints = _dimensions(type(state))
    changed: dict[str, np.ndarray] = {
        "assignment": np.append(state.assignment, np.full(more, UNASSIGNED))
    }
    # Extend every array whose first axis is N, along all its axes of length N.
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
    """The names of the axes of a state's arrays (e.g. ``N K``), by array, from the annotations of
    the state's class."""
    hints = typing.get_type_hints(kind, include_extras=True)
    of_unions = {name: (hint, *typing.get_args(hint)) for name, hint in hints.items()}
    return {
        name: one.dim_str
        for name, kinds in of_unions.items()
        for one in kinds
        if hasattr(one, "dim_str")
    }
