"""FedDrift: clients whose data drift get a new model, and models that become similar are merged.

E. Jothimurugesan, K. Hsieh, J. Wang, G. Joshi, P. B. Gibbons: Federated Learning under Distributed
Concept Drift. AISTATS 2023, arXiv 2206.00799. Models are compared by accuracies, as in the authors'
code; the paper compares losses.

Data come in steps of ``every`` rounds. A model owns the (client, step) pairs on whose samples it is
trained. acc(m, c) is the accuracy of model m on the new samples of client c. In step t:

    1  clients that drifted W steps ago are isolated no longer
    2  m_c <- argmax_m acc(m, c),  a_c(t) = max_m acc(m, c)
       of the models in use, for each client that is not isolated
    3  if a_c(t-1) - a_c(t) > delta, client c drifts. It gets a new model, which starts as m_c, and
       is isolated for W steps: it keeps this model, and the model does not merge
    4  D_ij = max(A_ii - A_ij, A_jj - A_ji, 0),  A_ij: accuracy of model i on all samples that
       model j owns. Models in use before the step merge by linkage while D is below delta'. The
       first model becomes the mean of all that merge, weighted by the number of pairs that each
       owns, and then owns all these pairs. The others become new initial models
    5  ``every`` rounds of FedAvg of each model, on the samples of all pairs that it owns

``eager`` (FedDrift-Eager): the clients that drift in a step share one new model, no client is
isolated, and no models merge.

All clients start with one model, as in variant C of the authors' code. (Variant F starts with one
model for each client; the published delta = 0.06 is for F. Variant E has one new model a step.)
There are at most ``models`` models. A new model replaces the least recently used one; no model then
owns the pairs of the replaced one. If all are in use, a client does not drift. Ties take the first
(the authors: a random one), and in the eager form the new model starts as the model of its first
client. The optimiser is new in each round (the authors' AMSGrad continues). Clients keep all their
samples (``Steps(history=True)``), and send only accuracies (the authors' server has the data, and
takes 21 batches). Clients without new samples neither choose nor drift. A new client takes the best
model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.clustering.drift import choose_models, merge_models
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, DataNeeds, ModelChanges, ModelParts, Requirements
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.methods.drift_history import History, count, gather, spans_of
from fedkin.tasks.feddrift import TrainSpans


@dataclass(frozen=True)
class FedDriftState(State):
    """M models (most may be unused), and which of them is trained on each (client, step) pair."""

    owner: Int[np.ndarray, "N S"]  # model that owns the step; UNASSIGNED without new samples
    ends: Int[np.ndarray, "N S"]  # number of the client's samples after the step
    accuracy: Float[np.ndarray, "N"]  # a_c of the last step; NaN if unknown
    release: Int[np.ndarray, "N"]  # step in which the client's isolation ends

    def aggregated_into(
        self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        return trained


@plain_options
@dataclass(frozen=True)
class FedDrift:
    """Clients whose data drift get a new model; models that become similar are merged.

    Examples:
        >>> import fedkin as fk
        >>> fk.FedDrift(models=4).delta
        0.06
    """

    about: ClassVar[About] = About(
        name="feddrift",
        paper="Jothimurugesan et al., AISTATS 2023",
        compares="accuracies on new data",
        when="at a drift",
        membership="hard",
        decides="client and server",
        count="found",
        leaves="accuracies",
    )

    every: int = 200  # number of rounds in a step
    models: int = 10  # largest number of models (M)
    delta: float = 0.06  # drop of accuracy above which a client drifts
    delta_merge: float | None = None  # threshold for merging (delta'); None: delta
    isolation: int = 1  # number of steps in which a client is alone after a drift (W)
    linkage: Literal["complete", "average"] = "complete"  # linkage by which models merge
    eager: bool = False  # FedDrift-Eager: one new model for all that drift in a step, no merging

    def __post_init__(self) -> None:
        for name in ("every", "models", "isolation"):
            check_positive_integer(name, getattr(self, name))
        check_not_negative("delta", self.delta)
        check_not_negative("delta_merge", self._merge_threshold)
        check_choice("linkage", self.linkage, ("complete", "average"))
        check_choice("eager", self.eager, (True, False))

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(sends="scores of all models"),
            changes=ModelChanges(always="copies models where data drift, and merges them"),
            parts=ModelParts(own="models for parts of each client's samples"),
            data=DataNeeds(earlier_samples=True, classes="compares models by their accuracies"),
        )

    def init(self, world: World, stream: Stream) -> FedDriftState:
        N = world.total_clients
        return FedDriftState(
            models=_fresh(world, self.models, stream),
            assignment=np.full(N, UNASSIGNED if self.models > 1 else 0),
            owner=np.zeros((N, 0), np.int64),
            ends=np.zeros((N, 0), np.int64),
            accuracy=np.full(N, np.nan),
            release=np.zeros(N, np.int64),
        )

    def round(
        self, world: World, state: FedDriftState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedDriftState:
        if (stream.round - 1) // self.every >= state.owner.shape[1]:
            state = self._begin_step(world, state, stream)

        # Line 5: each client trains every model that owns one of its steps, on that model's
        # samples.
        owns = (state.owner[cohort][:, :, None] == np.arange(self.models)).any(axis=1)
        row, model = np.nonzero(owns)
        client = cohort[row]
        owned = (state.owner[client] == model[:, None])[:, :, None]
        spans = np.where(owned, spans_of(state.ends)[client], 0)
        task = TrainSpans(state.models, world.work, model, spans)
        reply = world.run(task, client, stream.child("train"))
        return replace(state, models=state.models + reply.update)

    def place(
        self, world: World, state: FedDriftState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedDriftState:
        # Before the first step there is one model.
        if not state.owner.shape[1]:
            assignment = state.assignment.copy()
            assignment[newcomers] = 0
            return replace(state, assignment=assignment)
        state = replace(state, ends=count(world, state.ends, newcomers))
        history = gather(
            world, state.models, in_use=_in_use(state), ends=state.ends, clients=newcomers
        )
        return self._choose(state, history)

    @property
    def _merge_threshold(self) -> float:
        """delta', the threshold below which two models merge."""
        return self.delta if self.delta_merge is None else self.delta_merge

    def _begin_step(self, world: World, state: FedDriftState, stream: Stream) -> FedDriftState:
        """The state with one more time step, after lines 1 to 4 of the algorithm."""
        clients = world.clients(stream.round)
        in_use = _in_use(state)

        before = np.zeros((world.total_clients, 1), np.int64)
        if state.ends.size:
            before = state.ends[:, -1:]
        ends = count(world, np.hstack([state.ends, before]), clients)
        owner = np.hstack([state.owner, np.full_like(before, UNASSIGNED)])
        state = replace(state, owner=owner, ends=ends)

        history = gather(world, state.models, in_use=in_use, ends=state.ends, clients=clients)
        state = self._choose(state, history)
        if self.eager:
            return state
        return self._merge(state, history, in_use, _fresh(world, self.models, stream))

    def _choose(self, state: FedDriftState, history: History) -> FedDriftState:
        """The state after lines 1 to 3 of the algorithm: each client has chosen a model or
        drifted."""
        step = state.owner.shape[1] - 1
        # Line 1 (isolated clients), line 2, and the drifts of line 3
        chosen = choose_models(
            models=state.models,
            owner=state.owner,
            model=state.assignment,
            accuracy=history.accuracy(step),
            before=state.accuracy,
            alone=state.release > step,
            delta=self.delta,
            eager=self.eager,
        )
        has_samples = history.samples[:, step] > 0
        owner = chosen.owner
        owner[has_samples, step] = chosen.model[has_samples]
        isolated = chosen.drifted & (not self.eager)
        return replace(
            state,
            models=chosen.models,
            assignment=chosen.model,
            owner=owner,
            accuracy=np.where(has_samples, chosen.accuracy, state.accuracy),
            release=np.where(isolated, step + self.isolation, state.release),
        )

    def _merge(
        self,
        state: FedDriftState,
        history: History,
        in_use: Int[np.ndarray, "k"],
        fresh: Float[np.ndarray, "M P"],
    ) -> FedDriftState:
        """The state after line 4 of the algorithm: models in use before the step (``in_use``) may
        merge. Those that merge into another model become initial models (``fresh``)."""
        step = state.owner.shape[1] - 1
        # A model that was replaced in this step owns none of the earlier steps.
        owning = np.isin(in_use, state.owner[:, :step])
        alone = np.isin(in_use, state.assignment[state.release > step])
        candidates = in_use[owning & ~alone]
        models, into = merge_models(
            models=state.models,
            fresh=fresh,
            owner=state.owner,
            candidates=candidates,
            accuracy=history.between(state.owner, candidates),
            threshold=self._merge_threshold,
            linkage=self.linkage,
        )
        # The appended entry makes index -1, which stands for no model, map to no model.
        into = np.append(into, UNASSIGNED)
        return replace(
            state, models=models, owner=into[state.owner], assignment=into[state.assignment]
        )


def _in_use(state: FedDriftState) -> Int[np.ndarray, "k"]:
    """The models that own a (client, step) pair; the first model if there is no step yet."""
    owned = np.unique(state.owner[state.owner != UNASSIGNED])
    return owned if len(owned) else np.zeros(1, np.int64)


def _fresh(world: World, models: int, stream: Stream) -> Float[np.ndarray, "M P"]:
    """M different random models, for a start or in place of merged models."""
    return np.stack([world.initial(stream.child(f"model {m}")) for m in range(models)])
