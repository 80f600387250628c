"""Any method that averages, with client-level differential privacy.

The method sees noisy means instead of means. If it requests replies that get no noise, the run
stops with an error that names the task, or epsilon becomes infinite. Cohorts are drawn with the
operating system's randomness and not by the run's seed: for an observer who could compute the
cohorts, sampling would not amplify privacy.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from safetensors.numpy import save

from fedkin.core.errors import ConfigError, TaskError
from fedkin.core.method import Method, State
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.requirements import requirements_of
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.core.world import World
from fedkin.options import PRIVACY_JOURNAL, PRIVACY_STATEMENT, RELEASE
from fedkin.options.base import ActiveOption, Around, Call, RunEnd, RunFacts
from fedkin.options.journal import Journal
from fedkin.options.privacy.clip_and_noise import noisy_mean
from fedkin.options.privacy.private_world import PrivateWorld
from fedkin.options.privacy.randomness import Randomness, SeededRandomness, SystemRandomness
from fedkin.options.privacy.settings import Mechanism, PrivacySettings
from fedkin.options.privacy.statement import NOT_PRIVATE, statement
from fedkin.options.secret.secret_record import secret_record
from fedkin.options.secret.secret_settings import SecretSettings
from fedkin.tracking.prometheus import Prometheus
from fedkin.tracking.tensorboard import TensorBoard

_log = logging.getLogger("fedkin")
MODELS = "models.safetensors"


def refusal(method: Method, uncharged: str = "refuse") -> str:
    """Why a method needs more than noisy sums; empty if these are enough.

    Args:
        method: any method.
        uncharged: ``refuse`` or ``infinite``, as in ``ClientDP``: what happens if the method
            requests replies without noise.
    """
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.peers:
        return f"{name} has no server that could be trusted: its peers see each other's models"
    if needs.model.detectors:
        return (
            f"{name} has several models of a client in one round, but a client may add only one "
            "vector to the sums"
        )
    if uncharged == "infinite":
        return ""
    insist = "privacy.uncharged='infinite' runs it, and its epsilon is infinite"
    reads = needs.reads
    if reads.updates == "single":
        why = f" because of its option {reads.because}" if reads.because else ""
        return f"{name} reads single updates{why}, which no noise on sums covers; {insist}"
    if reads.sends:
        return f"{name} needs {reads.sends} from each client, which no noise covers; {insist}"
    if reads.standing:
        tasks = ", ".join(task.name for task in reads.standing)
        return f"{name} asks all clients in every round ({tasks}), which no noise covers; {insist}"
    return ""


def active_privacy(settings: PrivacySettings, run: RunFacts) -> ActivePrivacy:
    """The privacy option as it acts in one run, with its journal open.

    Args:
        settings: privacy settings.
        run: the run. If it is resumed, its folder holds the journal of earlier releases.

    Raises:
        ConfigError: earlier releases had other noise.
    """
    mechanism = mechanism_of(settings, run)
    seed = run.plan.seed if settings.testing_only_seeded_noise else None
    if seed is not None:
        _log.warning("privacy: %s", NOT_PRIVATE)
    journal = Journal(run.folder / PRIVACY_JOURNAL if run.folder else None)
    _check_noise(mechanism, journal, run.plan.rounds)
    return ActivePrivacy(
        method=run.method,
        mechanism=mechanism,
        journal=journal,
        planned_rounds=run.plan.rounds,
        folder=run.folder,
        seed=seed,
        secret=secret_settings(run),
    )


def secret_settings(run: RunFacts) -> SecretSettings | None:
    """The settings of secret sums, in which clients add shares of the noise; None without them."""
    secret = run.options.get("secret")
    return secret if isinstance(secret, SecretSettings) else None


def check_privacy(settings: PrivacySettings, runs: Sequence[RunFacts]) -> None:
    """Raise ConfigError for runs that would reveal more than noisy sums (e.g. by a tracker that
    sends clients' scores elsewhere), or for which no epsilon can be computed.

    Args:
        settings: privacy settings.
        runs: facts about the run of each compared method, the main method first.
    """
    main = runs[0]
    for name in ("patience", "until"):
        if getattr(main.plan, name) is not None:
            raise ConfigError(
                f"privacy: run.{name} ends the run by clients' scores, which no noise covers, so "
                "the last round would reveal something about them: leave it out"
            )
    if main.measures:
        raise ConfigError(
            f"privacy: run.measures ({', '.join(measure.name for measure in main.measures)}) are "
            "computed from clients' scores, which no noise covers: leave them out"
        )
    for tracker in main.trackers:
        if not isinstance(tracker, (TensorBoard, Prometheus)):
            raise ConfigError(
                f"privacy: the tracker {type(tracker).__name__} would send clients' scores, which "
                "no noise covers, to another place: leave it out (tensorboard writes into the "
                "run's own folder)"
            )
    if settings.scores is not None and main.plan.sample_at_end:
        raise ConfigError(
            "privacy.scores needs the scores of all clients, but run.sample_at_end scores only "
            "some: leave out one of the two"
        )
    for warning in settings.warnings(main.clients):
        _log.warning("%s", warning)
    for run in runs:
        mechanism_of(settings, run)


def mechanism_of(settings: PrivacySettings, run: RunFacts) -> Mechanism:
    """The privacy mechanism (sampling, clip and noise) of a run with these settings.

    Args:
        settings: privacy settings.
        run: the run. Noisy sums in the cold start (first clustering) of its method are part of the
            cost. With secret sums the server learns who takes part, so sampling does not amplify
            privacy.

    Raises:
        ConfigError: cohorts have a fixed size; the budget is below the cost of one round.
    """
    return settings.mechanism(
        clients=run.clients,
        cohort=run.plan.cohort,
        rounds=run.plan.rounds,
        selection=run.plan.selection,
        start_sums=requirements_of(run.method).start_sums,
        seen_cohorts=secret_settings(run) is not None,
    )


def _check_noise(mechanism: Mechanism, journal: Journal, planned_rounds: int) -> None:
    """Raise ConfigError if a resumed run would add other noise than it has added before.

    The accountant assumes the same noise for all rounds, and also for all sums of a cold start
    (first clustering).
    """
    for kind, noise in (("clip", mechanism.noise_multiplier), ("start", mechanism.start_noise)):
        for entry in journal.entries:
            if kind in entry and not math.isclose(entry["noise_multiplier"], noise):
                raise ConfigError(
                    "privacy: this run has released sums with noise "
                    f"{entry['noise_multiplier']:.4g}, but {planned_rounds} rounds at epsilon = "
                    f"{mechanism.settings.epsilon} need noise {noise:.4g}. The noise was computed "
                    "from epsilon for the number of rounds planned at the start: resume with that "
                    "number. To be able to extend a run, start it with privacy.noise_multiplier"
                )


class ActivePrivacy(ActiveOption):
    """Client-level privacy in a run: the method sees only noisy sums over clients.

    Args:
        method: a method that averages.
        mechanism: sampling, clip and noise.
        journal: journal of releases.
        planned_rounds: planned number of rounds T.
        folder: the run's folder; None if it has none.
        seed: seed of the noise, for tests only; None for the operating system's randomness.
        secret: settings of secret sums, in which clients add shares of the noise; None if the
            server sees updates.
    """

    hides_replies = True

    def __init__(
        self,
        method: Method,
        mechanism: Mechanism,
        journal: Journal,
        planned_rounds: int,
        folder: Path | None = None,
        seed: int | None = None,
        secret: SecretSettings | None = None,
    ) -> None:
        super().__init__("privacy")
        self.method = method
        self.mechanism = mechanism
        self.journal = journal
        self.planned_rounds = planned_rounds
        self.folder = folder
        self.seed = seed
        self.secret = secret

    def select_cohort(self, reachable: Int[np.ndarray, "c"], round: int) -> Int[np.ndarray, "n"]:
        """Draw the cohort: each client independently with equal probability, or a fixed number of
        clients. Of a cohort above the cap, ``cap`` clients are drawn at random."""
        # One random number per client decides both whether it is drawn and, above the cap, whether
        # it stays.
        order = self._randomness(round, "cohort").uniform(len(reachable))
        drawn = np.flatnonzero(order < self.mechanism.probability)
        if self.mechanism.fixed_cohorts:
            drawn = np.argsort(order, kind="stable")[: self.mechanism.cohort]
        cap = self.mechanism.settings.cap
        if cap is not None and len(drawn) > cap:
            drawn = drawn[np.argsort(order[drawn], kind="stable")[:cap]]
        return np.sort(reachable[drawn]).astype(np.int64)

    def exhausted(self) -> str:
        """Why no further round is allowed; empty if another round is allowed."""
        settings = self.mechanism.settings
        start_sums = self.journal.start_sums
        score_sums = self.journal.score_sums
        # No budget was set.
        if self.mechanism.limit is None:
            return ""
        spent = self.journal.rounds >= self.mechanism.limit
        # More was released than planned: a cold start was repeated, or the run was extended.
        if start_sums > self.mechanism.start_sums or score_sums:
            another = self.mechanism.epsilon(
                self.journal.rounds + 1,
                start_sums=start_sums,
                score_sums=score_sums + self.mechanism.score_sums,
            )
            spent = another > (settings.epsilon or 0)
        if not spent:
            return ""
        return (
            f"another round would exceed privacy.epsilon = {settings.epsilon:g} (delta = "
            f"{settings.delta:g})"
        )

    def around(self, world: World, before: State | None, call: Call) -> Around:
        """The world that answers one call of the method with noisy sums.

        Raises ConfigError if earlier cold starts (first clusterings) of this run leave no budget
        for another one.
        """
        if call.step == "init":
            if self.mechanism.settings.epsilon is not None and self.mechanism.start_sums:
                self._refuse_start(self.mechanism.settings.epsilon)
            return Around(self._world(world, call.round))
        if call.step == "place":
            return Around(self._world(world, call.round))
        private_world = self._world(world, call.round, call.clients)

        def finish(after: State) -> State:
            self._check_one_sum(private_world.released, call.round)
            return after

        return Around(private_world, finish)

    def _check_one_sum(self, released: int, round: int) -> None:
        """Raise TaskError unless the method requested exactly one noisy sum in a round, which is
        what the accountant charges for a round.

        Args:
            released: number of noisy sums that the method requested.
            round: the round.
        """
        # A run with replies without noise has an infinite epsilon, so its sums need no count.
        if released != 1 and not self.journal.uncharged:
            raise TaskError(
                f"privacy: {type(self.method).__name__} asked for {released} noisy sums in round "
                f"{round}, but the cost of a round is computed for exactly one, over all clusters "
                "together: use another method, or leave out privacy"
            )

    def _refuse_start(self, budget: float) -> None:
        """Raise ConfigError if earlier cold starts (first clusterings) of this run leave no budget
        for another one."""
        released = self.journal.start_sums
        cost = self.mechanism.epsilon(
            self.journal.rounds, start_sums=released + self.mechanism.start_sums
        )
        if cost > budget:
            raise ConfigError(
                "privacy: another cold start (first clustering) would exceed privacy.epsilon = "
                f"{budget:g} (delta = {self.mechanism.settings.delta:g}): processes that ended "
                f"before their first checkpoint have released {released} noisy sums of all "
                "clients, and these still count: begin a new run in another folder; its cost adds "
                "to the cost of these sums"
            )

    def release_scores(self, round: int, accuracy: Float[np.ndarray, "n"]) -> None:
        """Record the noisy mean of clients' accuracies in the journal, if the settings release this
        mean.

        It is released once for a round, and only within the budget.

        Args:
            round: the last round.
            accuracy: accuracy of each evaluated client.
        """
        noise = self.mechanism.settings.scores
        budget = self.mechanism.settings.epsilon
        journal = self.journal
        if noise is None or journal.mean_accuracy(round) is not None:
            return
        cost = self.mechanism.epsilon(
            journal.rounds,
            start_sums=journal.start_sums,
            score_sums=journal.score_sums + 1,
        )
        if budget is not None and cost > budget:
            _log.warning(
                "privacy: the scores of round %d are not released, since they would exceed the "
                "epsilon",
                round,
            )
            return
        mean = noisy_mean(
            shares=accuracy,
            clients=self.mechanism.clients,
            noise_multiplier=noise,
            randomness=self._randomness(round, "scores"),
        )
        journal.add(round=round, mean_accuracy=mean, noise_multiplier=noise)

    def closing(self, end: RunEnd) -> Record:
        """The privacy entries of the run's summary.

        The privacy statement (epsilon, and which replies it covers) and the models that may be
        released are also written to the run's folder.
        """
        self.release_scores(end.round, end.client_scores)
        facts = statement(self, self.planned_rounds, end.round)
        if self.folder is not None:
            write_atomic(self.folder / PRIVACY_STATEMENT, json.dumps(facts, indent=2) + "\n")
            _write_release(self.folder / RELEASE, facts, end.state.models)
        if self.secret is None:
            return {"privacy": facts}
        return {"privacy": facts, **secret_record(self.journal, clear=self.journal.uncharged)}

    def _world(
        self, world: World, round: int, cohort: Int[np.ndarray, "n"] | None = None
    ) -> PrivateWorld:
        """The world of noisy sums for one call of the method.

        Args:
            world: the clients.
            round: the round in which the method is called; 0 before the first round.
            cohort: clients drawn for the round; None outside a round, where a training is refused.
        """
        return PrivateWorld(
            world=world,
            mechanism=self.mechanism,
            journal=self.journal,
            randomness=self._randomness(round, "noise"),
            round=round,
            cohort=cohort,
            secret=self.secret,
        )

    def _randomness(self, round: int, purpose: str) -> Randomness:
        """The source of noise or cohorts: the operating system; in tests a seed, separately for
        each round and purpose."""
        if self.seed is None:
            return SystemRandomness()
        return SeededRandomness(Stream(self.seed, round, f"privacy/{purpose}").rng())


def _write_release(folder: Path, facts: dict[str, Any], models: Float[np.ndarray, "K P"]) -> None:
    """Write the files of a private run that may be published: the models and the privacy statement.
    With an infinite epsilon, no file is written."""
    with storage_errors(folder):
        for name in (MODELS, PRIVACY_STATEMENT):
            (folder / name).unlink(missing_ok=True)
        if facts["epsilon"] == "infinite":
            return
        folder.mkdir(exist_ok=True)
    write_atomic(folder / MODELS, save({"models": np.ascontiguousarray(models, np.float32)}))
    write_atomic(folder / PRIVACY_STATEMENT, json.dumps(facts, indent=2) + "\n")
