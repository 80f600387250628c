"""Any method that averages, with client-level differential privacy: a method around a method, a world around its world.

The method sees noisy means in place of means; what else clients would reply to it is refused by the name of the task,
or makes epsilon infinite. A cohort is drawn by the operating system's randomness: whoever knew it would undo the
amplification by sampling.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, MethodError, TaskError
from fedkin.core.method import Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.world import World
from fedkin.privacy.client_dp import Mechanism
from fedkin.privacy.journal import Journal
from fedkin.privacy.mechanism import noisy_mean
from fedkin.privacy.private_world import PrivateWorld
from fedkin.privacy.randomness import Randomness, SeededRandomness, SystemRandomness
from fedkin.privacy.secret_settings import SecretSums

_log = logging.getLogger("fedkin")
NOT_PRIVATE = "TESTING ONLY: noise and cohorts come from the run's seed, so nothing of this run is private"


def refusal(method: Method, uncharged: str = "refuse") -> str | None:
    """Why noisy sums are not enough for a method; None where they are.

    Args:
        method: any.
        uncharged: what becomes of client work that no noise covers, as ``ClientDP`` has it.
    """
    needs, name = requirements_of(method), type(method).__name__
    if needs.peers:
        return f"{name} has no server that could be trusted: its peers see each other's models"
    if needs.detectors:
        return f"{name} has several models of a client in one round, and a client may add one vector to the sums"
    if uncharged == "infinite":
        return None
    insist = "privacy.uncharged='infinite' runs it, and its epsilon is infinite"
    if needs.updates == "single":
        why = f" because of its option {needs.updates_because}" if needs.updates_because else ""
        return f"{name} reads single updates{why}, which no noise on sums covers; {insist}"
    if needs.sends:
        return f"{name} needs {needs.sends} of each client, which no noise covers; {insist}"
    if needs.standing:
        tasks = ", ".join(task.name for task in needs.standing)
        return f"{name} asks all clients in every round ({tasks}), which no noise covers; {insist}"
    return None


@dataclass(frozen=True)
class Private:
    """A method of which only noisy sums of clients are released.

    Attributes:
        method: that averages.
        mechanism: sampling, clip and noise.
        journal: of what was released.
        seed: of the noise, for tests only; None: the operating system's.
        secret: settings of secret sums, to which clients add shares of the noise; None: the server sees updates.
    """

    method: Method
    mechanism: Mechanism
    journal: Journal
    seed: int | None = None
    secret: SecretSums | None = None

    def __post_init__(self) -> None:
        if why := refusal(self.method, self.mechanism.settings.uncharged):
            raise MethodError(why)

    def requirements(self) -> Requirements:
        return requirements_of(self.method)

    def select_cohort(self, reachable: Int[np.ndarray, "c"], round: int) -> Int[np.ndarray, "n"]:
        """Each client with the same probability, whatever the others, or as many as a cohort of fixed size has; at most
        the cap, of whom chance decides."""
        order = self._randomness(round, "cohort").uniform(len(reachable))
        drawn = np.flatnonzero(order < self.mechanism.probability)
        if self.mechanism.fixed_cohorts:
            drawn = np.argsort(order, kind="stable")[: self.mechanism.cohort]
        if (cap := self.mechanism.settings.cap) is not None and len(drawn) > cap:
            drawn = drawn[np.argsort(order[drawn], kind="stable")[:cap]]
        return np.sort(reachable[drawn]).astype(np.int64)

    def exhausted(self) -> str:
        """Why no further round may be done; empty where one may."""
        settings, start_sums, score_sums = self.mechanism.settings, self.journal.start_sums, self.journal.score_sums
        if self.mechanism.limit is None:
            return ""
        spent = self.journal.rounds >= self.mechanism.limit
        if start_sums > self.mechanism.start_sums or score_sums:  # a cold start that was done again, a run that goes on
            scores, rounds = score_sums + self.mechanism.score_sums, self.journal.rounds + 1
            another = self.mechanism.epsilon(rounds, start_sums=start_sums, score_sums=scores)
            spent = another > (settings.epsilon or 0)
        if not spent:
            return ""
        return f"another round would exceed privacy.epsilon = {settings.epsilon:g} (delta = {settings.delta:g})"

    def init(self, world: World, stream: Stream) -> State:
        """A cold start of noisy sums. Raises ConfigError where former ones leave no budget for it."""
        if self.mechanism.settings.epsilon is not None and self.mechanism.start_sums:
            self._refuse_start(self.mechanism.settings.epsilon)
        return self.method.init(self._world(world, stream.round), stream)

    def _refuse_start(self, budget: float) -> None:
        released = self.journal.start_sums
        cost = self.mechanism.epsilon(self.journal.rounds, start_sums=released + self.mechanism.start_sums)
        if cost > budget:
            raise ConfigError(
                f"privacy: another cold start would exceed privacy.epsilon = {budget:g} "
                f"(delta = {self.mechanism.settings.delta:g}): {released} noisy sums of all clients were released by "
                "processes that ended before their first checkpoint, and stay charged"
            )

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        """A round of noisy sums. Raises TaskError where the method does not train once, all of the cohort together."""
        own = self._world(world, stream.round, cohort)
        after = self.method.round(own, state, cohort, stream)
        if own.released != 1 and not self.journal.uncharged:
            raise TaskError(
                f"privacy: {type(self.method).__name__} asked for {own.released} noisy sums in round {stream.round}; a "
                "round has exactly one, of all clusters together"
            )
        return after

    def release_scores(self, round: int, accuracy: Float[np.ndarray, "n"]) -> None:
        """Write the noisy mean of clients' accuracies down, where the settings have it released; once for a round, and
        not where the budget has nothing left for it.

        Args:
            round: the last one.
            accuracy: of each client that was scored.
        """
        noise, budget, journal = self.mechanism.settings.scores, self.mechanism.settings.epsilon, self.journal
        if noise is None or journal.mean_accuracy(round) is not None:
            return
        start_sums, score_sums = journal.start_sums, journal.score_sums + 1
        cost = self.mechanism.epsilon(journal.rounds, start_sums=start_sums, score_sums=score_sums)
        if budget is not None and cost > budget:
            _log.warning("privacy: the scores of round %d are not released: they would exceed the epsilon", round)
            return
        mean = noisy_mean(accuracy, self.mechanism.clients, noise, self._randomness(round, "scores"))
        journal.add(round=round, mean_accuracy=mean, noise_multiplier=noise)

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return self.method.place(self._world(world, stream.round), state, newcomers, stream)

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(state) if isinstance(self.method, Remarking) else ()

    def _world(self, world: World, round: int, cohort: Int[np.ndarray, "n"] | None = None) -> PrivateWorld:
        own = (self._randomness(round, "noise"), round, cohort, self.secret)
        return PrivateWorld(world, self.mechanism, self.journal, *own)

    def _randomness(self, round: int, purpose: str) -> Randomness:
        if self.seed is None:
            return SystemRandomness()
        return SeededRandomness(Stream(self.seed, round, f"privacy/{purpose}").rng())
