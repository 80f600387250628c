"""FedDrift: clients whose data drift get a model of their own, and models that turn out alike are
merged.

E. Jothimurugesan, K. Hsieh, J. Wang, G. Joshi, P. B. Gibbons: Federated Learning under Distributed
Concept Drift. AISTATS 2023, arXiv 2206.00799; as in the authors' code, which compares accuracies
where the text has losses.

Data come in steps of ``every`` rounds. acc(m, c): accuracy of model m on the new samples of client
c. In step t:

    1  clients that have been alone for W steps are released
    2  m_c <- argmax_m acc(m, c),  a_c(t) = max_m acc(m, c)          of the models in use, for each free client
    3  a_c(t-1) - a_c(t) > delta:  client c drifts, and is alone for W steps with a new model, which starts as m_c
    4  D_ij = max(A_ii - A_ij, A_jj - A_ji, 0),  A_ij: accuracy of model i on all samples that model j owns; models
       in use before the step merge below delta' by linkage: the first becomes their mean, weighted
       by the (client, step) pairs they own, and owns all of these; the others start anew
    5  ``every`` rounds of FedAvg of each model, on the samples of all steps that it owns

``eager`` (FedDrift-Eager): the clients that drift in a step share one new model, nobody is alone,
no models merge.

All begin with one model, the code's variant C (F, for which delta = 0.06 is printed, has one for
each client, E one new model a step). Models do not grow beyond ``models``: a new one takes the
place of that used longest ago, and forgets what it owned; where all are in use, a client does not
drift. Of equals the first is taken (the authors: one at random), and the eager form's model starts
as that of its first client. The optimiser begins anew in each round (theirs, AMSGrad, goes on).
Clients keep all their samples (``Steps(history=True)``), and tell accuracies only (the authors'
server has the data, and takes 21 batches); without new ones they neither choose nor drift. A
newcomer takes the best model.
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
    """M models, most of which may not be in use, and which of them owns each step of each client."""

    owner: Int[np.ndarray, "N S"]  # UNASSIGNED where a client had no new samples
    ends: Int[np.ndarray, "N S"]  # how many samples the client had by then
    accuracy: Float[np.ndarray, "N"]  # a_c of the last step; NaN: none
    release: Int[np.ndarray, "N"]  # the step in which the client is no longer alone

    def aggregated_into(
        self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        return trained


@plain_options
@dataclass(frozen=True)
class FedDrift:
    """Clients whose data drift get a new model; models that turn out alike are merged."""

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

    every: int = 200  # rounds of a step
    models: int = 10  # M, the most there are
    delta: float = 0.06  # a loss of accuracy above this is a drift
    delta_merge: float | None = None  # delta'; None: delta
    isolation: int = 1  # W
    linkage: Literal["complete", "average"] = "complete"  # of models that merge
    eager: bool = (
        False  # FedDrift-Eager: one new model for all that drift in a step, and no merging
    )

    def __post_init__(self) -> None:
        for name in ("every", "models", "isolation"):
            check_positive_integer(name, getattr(self, name))
        check_not_negative("delta", self.delta)
        check_not_negative(
            "delta_merge", self.delta if self.delta_merge is None else self.delta_merge
        )
        check_choice("linkage", self.linkage, ("complete", "average"))
        check_choice("eager", self.eager, (True, False))

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(besides="scores of all models"),
            changes=ModelChanges(always="copies models where data drift, and merges them"),
            parts=ModelParts(own="models for parts of each client's samples"),
            data=DataNeeds(earlier_samples=True),
        )

    def init(self, world: World, stream: Stream) -> FedDriftState:
        N, none = world.total_clients, np.zeros((world.total_clients, 0), np.int64)
        fresh = _fresh(world, self.models, stream)
        first = np.full(N, UNASSIGNED if self.models > 1 else 0)
        return FedDriftState(fresh, first, none, none, np.full(N, np.nan), np.zeros(N, np.int64))

    def round(
        self, world: World, state: FedDriftState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedDriftState:
        if (stream.round - 1) // self.every >= state.owner.shape[1]:
            state = self._begin_step(world, state, stream)
        client, model = np.nonzero(
            (state.owner[cohort][:, :, None] == np.arange(self.models)).any(axis=1)
        )
        client = cohort[client]
        owned = (state.owner[client] == model[:, None])[:, :, None]
        spans = np.where(owned, spans_of(state.ends)[client], 0)
        task = TrainSpans(state.models, world.work, model, spans)
        return replace(
            state, models=state.models + world.run(task, client, stream.child("train")).update
        )  # line 5

    def place(
        self, world: World, state: FedDriftState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedDriftState:
        if not state.owner.shape[1]:  # there is one model before the first step
            assignment = state.assignment.copy()
            assignment[newcomers] = 0
            return replace(state, assignment=assignment)
        state = replace(state, ends=count(world, state.ends, newcomers))
        return self._choose(
            state, gather(world, state.models, _in_use(state), state.ends, newcomers)
        )

    def _begin_step(self, world: World, state: FedDriftState, stream: Stream) -> FedDriftState:
        clients, in_use = world.clients(stream.round), _in_use(state)
        before = (
            state.ends[:, -1:] if state.ends.size else np.zeros((world.total_clients, 1), np.int64)
        )
        owner = np.hstack([state.owner, np.full_like(before, UNASSIGNED)])
        state = replace(
            state, owner=owner, ends=count(world, np.hstack([state.ends, before]), clients)
        )
        history = gather(world, state.models, in_use, state.ends, clients)
        state = self._choose(state, history)
        return state if self.eager else self._merge(world, state, history, in_use, stream)

    def _choose(self, state: FedDriftState, history: History) -> FedDriftState:
        step = state.owner.shape[1] - 1
        accuracy, alone = history.accuracy(step), state.release > step  # 1
        models = (state.models, state.owner, state.assignment)
        chosen = choose_models(
            *models, accuracy, state.accuracy, alone, self.delta, self.eager
        )  # 2
        new = history.samples[:, step] > 0
        owner = chosen.owner
        owner[new, step] = chosen.model[new]
        release = np.where(
            chosen.drifted & (not self.eager), step + self.isolation, state.release
        )  # 3
        last = np.where(new, chosen.accuracy, state.accuracy)
        changed = {"models": chosen.models, "assignment": chosen.model}
        return replace(state, **changed, owner=owner, accuracy=last, release=release)

    def _merge(
        self,
        world: World,
        state: FedDriftState,
        history: History,
        in_use: Int[np.ndarray, "k"],
        stream: Stream,
    ) -> FedDriftState:
        step = state.owner.shape[1] - 1
        owning = np.isin(in_use, state.owner[:, :step])  # none of which the place was taken
        candidates = in_use[owning & ~np.isin(in_use, state.assignment[state.release > step])]
        threshold = self.delta if self.delta_merge is None else self.delta_merge
        fresh, accuracy = (
            _fresh(world, self.models, stream),
            history.between(state.owner, candidates),
        )
        options = (candidates, accuracy, threshold, self.linkage)
        models, into = merge_models(state.models, fresh, state.owner, *options)  # 4
        into = np.append(into, UNASSIGNED)  # of none, as its index is -1
        return replace(
            state, models=models, owner=into[state.owner], assignment=into[state.assignment]
        )


def _in_use(state: FedDriftState) -> Int[np.ndarray, "k"]:
    """Models that own a step of a client; before there are any, the first."""
    owned = np.unique(state.owner[state.owner != UNASSIGNED])
    return owned if len(owned) else np.zeros(1, np.int64)


def _fresh(world: World, models: int, stream: Stream) -> Float[np.ndarray, "M P"]:
    return np.stack([world.initial(stream.child(f"model {m}")) for m in range(models)])
