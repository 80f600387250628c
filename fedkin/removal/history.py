"""What a finished run has recorded: cohorts, assignments and stored models by round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.config.plan import Plan
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.removal.taint import RoundTraces
from fedkin.run.cohort_selection import select_cohort
from fedkin.run.folder import checkpoint
from fedkin.run.folder.checkpoint import Checkpoint
from fedkin.run.folder.migrations import replay
from fedkin.run.folder.run_folder import CHECKPOINTS
from fedkin.run.run import Run
from fedkin.scenarios.population import Population


@dataclass(frozen=True)
class RecordedRun:
    """The records of a run, as its replay needs them. Shapes: N clients, K clusters, T rounds.

    Attributes:
        run: the finished run.
        plan: its plan, with cohort size, selection and seed.
        population: which clients took part.
    """

    run: Run
    plan: Plan
    population: Population

    @property
    def rounds(self) -> int:
        """T, the number of rounds of the run."""
        return self.run.records[-1]["round"]

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.run.assignment)

    @property
    def clusters(self) -> int:
        """K, the number of models at the end."""
        return len(self.run.models)

    @cached_property
    def assignments(self) -> list[Int[np.ndarray, "N"]]:
        """The assignment after each round, from round 0 on."""
        return list(replay(self.run.migrations, self.clients, self.rounds))

    def cohort(self, round: int) -> Int[np.ndarray, "n"]:
        """The clients that were asked in a round. They are drawn again, once: a cohort depends on
        the seed, the round and the reachable clients only."""
        if round not in self._cohorts:
            reachable = self.population.reachable(self.clients, round)
            stream = Stream(self.plan.seed, round, "cohort")
            self._cohorts[round] = select_cohort(reachable, self.clients, self.plan, stream)
        return self._cohorts[round]

    @cached_property
    def _cohorts(self) -> dict[int, Int[np.ndarray, "n"]]:
        """The cohorts that were drawn again so far, by round."""
        return {}

    @cached_property
    def kept(self) -> list[int]:
        """Rounds of which the run's folder has a checkpoint, ascending; without the last round,
        whose models the run itself has."""
        if self.run.folder is None:
            return []
        stored = checkpoint.stored_rounds(self.run.folder / CHECKPOINTS)
        return [round for round in stored if round < self.rounds]

    def stored(self, round: int) -> Checkpoint:
        """The checkpoint of a round in ``kept``. Raises CheckpointError if it is damaged."""
        return checkpoint.of_round(self._checkpoints, round)

    def models(self, round: int) -> Float[np.ndarray, "K P"] | None:
        """The models after a round; None if they are not stored."""
        if round == self.rounds:
            return self.run.models
        return self.stored(round).state.models if round in self.kept else None

    def had_cluster(self, clients: Int[np.ndarray, "g"]) -> Bool[np.ndarray, "T"]:
        """Whether any of these clients had a cluster after each round, from round 0 on."""
        return np.array([(one[clients] != UNASSIGNED).any() for one in self.assignments])

    def first_cohort(self, clients: Int[np.ndarray, "g"]) -> int | None:
        """The first round in which any of these clients was asked; None if none ever was."""
        rounds = range(1, self.rounds + 1)
        return next((t for t in rounds if np.isin(clients, self.cohort(t)).any()), None)

    def traces(self, clients: Int[np.ndarray, "g"]) -> list[RoundTraces]:
        """What these clients did in each round. A client that was asked counts as one that trained,
        and one with a cluster before the first round as one that took part in the start."""
        traces = [RoundTraces(0, trained_in=_distinct(self.assignments[0][clients]))]
        for round in range(1, self.rounds + 1):
            asked = clients[np.isin(clients, self.cohort(round))]
            trained_in = _distinct(self.assignments[round][asked])
            traces.append(RoundTraces(round, trained_in=trained_in))
        return traces

    @property
    def _checkpoints(self) -> Path:
        """The folder of the run's checkpoints."""
        assert self.run.folder is not None  # without a folder no round is in ``kept``
        return self.run.folder / CHECKPOINTS


def _distinct(clusters: Int[np.ndarray, "g"]) -> tuple[int, ...]:
    """The clusters without repetition, ascending, and without UNASSIGNED."""
    return tuple(cluster for cluster in np.unique(clusters).tolist() if cluster != UNASSIGNED)
