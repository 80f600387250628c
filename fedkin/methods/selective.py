"""Selective re-clustering: only clients whose data have drifted are placed again, and a cluster is
opened, closed or merged only with evidence that it pays.

It is fedkin's own method. Relatives, of which only abstracts could be read, are Fielding (J. Li et
al., AISTATS 2026, arXiv 2411.01580) and CASA (B. Liu et al., KDD 2024). FedDrift (feddrift.py)
compares all models on all clients in every time step, and IFCA (ifca.py) in every round.

There are M places for models; those with clients are in use. In the first ``warmup`` rounds every
client takes the model with its lowest loss, as in IFCA. In each later round:

    1  watch    each client of the cohort counts the errors of its cluster's model on its newest
                samples. Null: they are independent, with a probability of at most p_i + margin,
                where p_i was its error at its last check without a drift. Clients that reject it
                drift (e-BH over the cohort, level alpha)
    2  probe    these clients, and each other client every ``probe_every`` rounds, count the errors
                of all models in use. A client moves to the best one if that is better than its own
                (e-BH, level alpha)
    3  open     drifted clients whose best model has an error above p_i + margin share a free place.
                Its model, the challenger, starts as the model that most of them used
    4  train    each client trains its cluster's model on the samples since its last move;
                model <- sample-weighted mean
    5  close    ``trial`` rounds after it was opened, the clients of a challenger compare it with
                the model that they left. Unless it is better (e-value at least 1 / alpha), they
                return, and the place is free
    6  merge    every ``merge_every`` rounds, the cohort compares all models in use. Two clusters
                become one, the mean weighted by clients, if neither loses more than the margin

With ``history``, clients keep earlier samples (``Steps(history=True)``). The newest samples are
those since the last check, and a client without new samples is not checked. Otherwise all present
samples count. The model may have been trained on some of them, and then the levels are not exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, DataNeeds, ModelChanges, ModelParts, Requirements
from fedkin.core.validation import check_choice, check_positive, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.selective import choose, drifted
from fedkin.methods import cluster_steps
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.methods.selective_steps import (
    Checked,
    SelectiveState,
    changed,
    close_challengers,
    correct_samples,
    merge_equal,
    open_challenger,
    own_correct,
    used_models,
)
from fedkin.tasks.feddrift import SampleCounts, TrainSpans


@plain_options
@dataclass(frozen=True)
class SelectiveReclustering:
    """Only clients whose data drift are placed again; clusters open, close and merge by evidence.

    Examples:
        >>> import fedkin as fk
        >>> fk.SelectiveReclustering(clusters=4).alpha
        0.2
    """

    about: ClassVar[About] = About(
        name="selective_reclustering",
        compares="errors on new data",
        when="at a drift",
        membership="hard",
        decides="client and server",
        count="found",
        leaves="counts of errors",
        meanings={"clusters": NUMBER_OF_MODELS},
    )

    clusters: int = 4  # largest number of models (M)
    warmup: int = 5  # rounds in which every client chooses a model, as in IFCA
    alpha: float = 0.2  # false discovery rate of drifts and moves in a round
    margin: float = 0.1  # rise of a client's error that is no drift
    probe_every: int = 2  # rounds between two probes of a client that has not drifted
    trial: int = 3  # rounds after which a challenger must be better
    merge_every: int = 0  # rounds between two searches for equal models; 0: none
    history: bool = False  # whether clients keep earlier samples

    def __post_init__(self) -> None:
        for name in ("clusters", "warmup", "probe_every", "trial"):
            check_positive_integer(name, getattr(self, name))
        if self.merge_every != 0:
            check_positive_integer("merge_every", self.merge_every)
        for name in ("alpha", "margin"):
            check_positive(name, getattr(self, name))
        check_choice("history", self.history, (True, False))

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(sends="numbers of errors, and losses of all models"),
            changes=ModelChanges(always="opens, closes and merges clusters"),
            parts=ModelParts(own="models for parts of each client's samples"),
            data=DataNeeds(earlier_samples=self.history, classes="counts wrong classes"),
        )

    def init(self, world: World, stream: Stream) -> SelectiveState:
        """M random models; no client has a cluster if there are several."""
        N = world.total_clients
        models = [world.initial(stream.child(f"model{k}")) for k in range(self.clusters)]
        return SelectiveState(
            models=np.stack(models),
            assignment=np.full(N, UNASSIGNED if self.clusters > 1 else 0, np.int64),
            error=np.full(N, np.nan),
            begin=np.zeros(N, np.int64),
            end=np.zeros(N, np.int64),
            left=np.full(N, UNASSIGNED, np.int64),
            opened=np.zeros(self.clusters, np.int64),
        )

    def round(
        self, world: World, state: SelectiveState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> SelectiveState:
        counted = world.run(SampleCounts(), cohort)
        clients = cohort[counted.arrived & (counted.samples > 0)]
        samples = changed(state.end, clients, counted.samples[np.isin(cohort, clients)])
        if stream.round <= self.warmup:
            state = self.place(world, state, clients, stream)
        clients = clients[state.assignment[clients] != UNASSIGNED]
        if stream.round > self.warmup:
            checked = self._to_check(state, clients, samples)
            state = self._watch(world, state, checked, stream.round)
        state = replace(state, end=samples)

        # Line 4
        spans = np.stack([state.begin, samples], axis=1)[clients, None]
        task = TrainSpans(state.models, world.work, state.assignment[clients], spans)
        reply = world.run(task, clients, stream.child("train"))
        state = replace(state, models=state.models + reply.update)

        # Lines 5 and 6
        due = (state.opened > 0) & (stream.round - state.opened >= self.trial)
        state = close_challengers(world, state, clients, due=due, alpha=self.alpha)
        if self.merge_every and stream.round % self.merge_every == 0:
            state = merge_equal(world, state, clients, margin=self.margin, alpha=self.alpha)
        return state

    def place(
        self, world: World, state: SelectiveState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> SelectiveState:
        """Clients take the model with their lowest loss: of all models in the warm-up, afterwards
        of those in use."""
        used = np.arange(self.clusters) if stream.round <= self.warmup else used_models(state)
        some = replace(state, models=state.models[used])
        found = cluster_steps.cluster_by_loss(world, some, newcomers)
        target = np.where(found == UNASSIGNED, UNASSIGNED, used[found])
        return cluster_steps.assign(world, state, newcomers, target)

    def _watch(
        self, world: World, state: SelectiveState, checked: Checked, round: int
    ) -> SelectiveState:
        """The state after lines 1 to 3."""
        if not len(checked.clients):
            return state
        used = used_models(state)
        # Clients whose turn it is are probed at once, the others only if they drift.
        due = (checked.clients + round) % self.probe_every == 0
        due &= ~np.isnan(state.error[checked.clients])
        correct = np.full((len(checked.clients), len(used)), -1)
        row = np.searchsorted(used, state.assignment[checked.clients])
        correct[due] = correct_samples(world, state, used, checked.select(due))
        correct[~due, row[~due]] = own_correct(world, state, checked.select(~due))
        # A client that did not reply has -1 everywhere, and is left out.
        own = correct[np.arange(len(row)), row]
        error = state.error[checked.clients]
        drifts = (own >= 0) & drifted(
            checked.samples - np.maximum(own, 0),
            checked.samples,
            error,
            margin=self.margin,
            alpha=self.alpha,
        )
        late = drifts & ~due
        correct[late] = correct_samples(world, state, used, checked.select(late))
        probed = (due | drifts) & (correct >= 0).all(axis=1)
        choice = choose(
            correct[probed],
            row[probed],
            checked.samples[probed],
            error[probed],
            margin=self.margin,
            alpha=self.alpha,
        )
        quiet = (own >= 0) & ~drifts
        shares = 1 - own[quiet] / checked.samples[quiet]
        state = replace(state, error=changed(state.error, checked.clients[quiet], shares))
        target = np.where(choice.target < 0, UNASSIGNED, used[choice.target])
        stray = choice.stray & drifts[probed]
        return self._moved(
            world, state, probed=checked.select(probed), target=target, stray=stray, round=round
        )

    def _moved(
        self,
        world: World,
        state: SelectiveState,
        probed: Checked,
        target: Int[np.ndarray, "p"],
        stray: Bool[np.ndarray, "p"],
        round: int,
    ) -> SelectiveState:
        """The state after clients have moved to their ``target``, or to a new cluster if they fit
        nowhere (``stray``) and a place is free."""
        free = np.setdiff1d(np.arange(self.clusters), used_models(state))
        opens = stray.any() and len(free)
        if opens:
            target = np.where(stray, free[0], target)
        moving = target != UNASSIGNED
        clients = probed.clients[moving]
        state = replace(
            state,
            # The error with another model is unknown until the next check.
            error=changed(state.error, clients, np.nan),
            begin=changed(state.begin, clients, probed.start[moving]),
            # A client that leaves a challenger by itself does not return with the others.
            left=changed(state.left, clients, UNASSIGNED),
        )
        if opens:
            state = open_challenger(state, probed.clients[stray], int(free[0]), round)
        return cluster_steps.assign(world, state, clients, target[moving])

    def _to_check(
        self, state: SelectiveState, clients: Int[np.ndarray, "n"], samples: Int[np.ndarray, "N"]
    ) -> Checked:
        """The clients that are checked in a round, and their newest samples."""
        if not self.history:
            return Checked(clients, np.zeros_like(clients), samples[clients])
        has_new = samples[clients] > state.end[clients]
        start = np.where(has_new, state.end[clients], state.begin[clients])
        checked = Checked(clients, start, samples[clients])
        return checked.select(has_new | np.isnan(state.error[clients]))
