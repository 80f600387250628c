"""Client-level differential privacy of a run: sampling, clip, noise and their cost in epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from fedkin.core.errors import ConfigError
from fedkin.core.validation import check_choice, check_fraction, check_not_negative, check_positive
from fedkin.options.privacy import accounting
from fedkin.options.privacy.accounting import NoisyRounds
from fedkin.options.privacy.clip_and_noise import noise_of_updates

START_NOISE = 4.0  # noise of each cold-start sum, as a multiple of the rounds' noise


@dataclass(frozen=True)
class PrivacySettings:
    """The privacy settings and their cost. ``ClientDP`` describes each setting."""

    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    clip: float = 1.0
    adaptive: bool = False
    divisor: float | None = None
    cap: int | None = None
    examples_cap: int | None = None
    start_noise: float | None = None
    scores: float | None = None
    uncharged: Literal["refuse", "infinite"] = "refuse"
    testing_only_seeded_noise: bool = False

    def __post_init__(self) -> None:
        if self.noise_multiplier is None and self.epsilon is None:
            raise ConfigError(
                "neither noise_multiplier nor epsilon is set: set noise_multiplier, or the epsilon "
                "that all rounds may cost together"
            )
        if self.noise_multiplier is not None:
            check_not_negative("noise_multiplier", self.noise_multiplier)
        if self.start_noise is not None:
            check_not_negative("start_noise", self.start_noise)
        for name in ("epsilon", "clip", "divisor", "cap", "examples_cap", "scores"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        check_fraction("delta", self.delta)
        if self.cap is not None and self.delta < accounting.LEAST_DELTA:
            raise ConfigError(
                f"delta = {self.delta:g}: with a cap, epsilon can only be computed for a delta of "
                f"at least {accounting.LEAST_DELTA:g}: raise privacy.delta, or leave out "
                "privacy.cap"
            )
        check_choice("uncharged", self.uncharged, ("refuse", "infinite"))

    def warnings(self, clients: int) -> list[str]:
        """Warnings about privacy settings that give no protection, each with advice; an empty list
        if there are none.

        Args:
            clients: number of clients N.
        """
        found: list[str] = []
        if self.delta >= 1 / clients:
            found.append(
                f"privacy: delta = {self.delta:g} with {clients} clients permits publishing the "
                f"whole data of one of them; set privacy.delta below {1 / clients:.2g}"
            )
        if self.epsilon is not None and self.epsilon > accounting.MOST_EPSILON:
            # With a cap the noise is calibrated with the PLD epsilon itself; a given noise is not
            # calibrated.
            by_bound = self.noise_multiplier is None and self.cap is None
            how = (
                f" (above {accounting.MOST_EPSILON:g} the noise is computed from the Renyi bound, "
                "which needs slightly more noise)"
            )
            found.append(
                f"privacy: epsilon = {self.epsilon:g} gives no "
                f"protection{how if by_bound else ''}; set privacy.epsilon to 10 or less"
            )
        return found

    def mechanism(
        self,
        clients: int,
        cohort: int,
        rounds: int,
        selection: str,
        start_sums: int = 0,
        seen_cohorts: bool = False,
    ) -> Mechanism:
        """The privacy mechanism (sampling, clip and noise) of a run with these settings.

        Args:
            clients: number of clients N.
            cohort: expected number of clients in a round.
            rounds: number of rounds T.
            selection: how cohorts are selected.
            start_sums: number of noisy sums over all clients before the first round, in the
                method's cold start (first clustering).
            seen_cohorts: whether an observer of the sums learns who took part, as with secret sums.

        Raises:
            ConfigError: cohorts have a fixed size but are hidden, or are not drawn at random; the
                budget is below the cost of the cold start or of one round.
            MissingExtra: dp-accounting is not installed.
        """
        fixed = selection != "poisson" and cohort < clients
        if fixed and not seen_cohorts:
            self._refuse_fixed_cohorts(clients, cohort, rounds)
        if fixed and selection != "uniform":
            raise ConfigError(
                "privacy: each cohort is drawn at random, independently of earlier ones, so "
                f'run.selection="{selection}" cannot be used; set run.selection="uniform" or '
                '"poisson"'
            )
        probability = cohort / clients

        def at(noise: float, limit: int | None = None) -> Mechanism:
            """The run's mechanism with this noise multiplier in its rounds."""
            return Mechanism(
                settings=self,
                clients=clients,
                cohort=cohort,
                probability=probability,
                noise_multiplier=noise,
                limit=limit,
                start_sums=start_sums,
                seen_cohorts=seen_cohorts,
                fixed_cohorts=fixed,
            )

        # ``at(0.0)``: the cost of the cold start (or of scores) alone, without any round, to which
        # the noise of rounds does not matter.
        if self.start_noise is not None and start_sums:
            self._refuse_dear_start(at(0.0).epsilon(0, score_sums=0), start_sums)
        if self.scores is not None:
            self._refuse_dear_scores(at(0.0).epsilon(0, start_sums=0))
        # With only an epsilon, search for the noise. With both, compute how many rounds they allow.
        noise = self.noise_multiplier
        most = rounds
        if noise is None:
            noise = accounting.calibrate(
                float(self.epsilon or 0), self.delta, lambda z: at(z).priced(rounds)
            )
        elif self.epsilon is not None:
            most = accounting.affordable(self.epsilon, self.delta, at(noise).priced, rounds)
        if most == 0:
            start = f" after a cold start of {start_sums} noisy sums" if start_sums else ""
            start += "" if self.scores is None else f" with scores of noise {self.scores:g}"
            raise ConfigError(
                f"privacy.epsilon = {self.epsilon:g} allows no round: one round costs "
                f"{at(noise).epsilon(1):.3g}{start} at noise_multiplier = {noise:g}; raise "
                "noise_multiplier, or leave it out"
            )
        return at(float(noise), None if self.epsilon is None else most)

    def _refuse_dear_start(self, cost: float, start_sums: int) -> None:
        """Raise ConfigError if the noisy sums of the cold start (first clustering) alone cost the
        whole epsilon.

        Args:
            cost: epsilon of the cold start.
            start_sums: number of noisy sums of the cold start, for the message.
        """
        if self.epsilon is not None and cost >= self.epsilon:
            raise ConfigError(
                f"privacy.epsilon = {self.epsilon:g}: the cold start alone costs {cost:.3g}, for "
                f"{start_sums} sums with noise {self.start_noise:g}: raise privacy.start_noise, or "
                "leave it out"
            )

    def _refuse_dear_scores(self, cost: float) -> None:
        """Raise ConfigError if the noisy sum of scores alone costs the whole epsilon. ``cost`` is
        its epsilon."""
        if self.epsilon is not None and cost >= self.epsilon:
            raise ConfigError(
                f"privacy.epsilon = {self.epsilon:g}: the sum of scores alone costs {cost:.3g} "
                f"with noise {self.scores:g}: raise privacy.scores, or leave it out"
            )

    def _refuse_fixed_cohorts(self, clients: int, cohort: int, rounds: int) -> None:
        """Raise ConfigError for hidden cohorts of a fixed size, since for these the accountants
        know no amplification by sampling."""
        best_known = ""
        if self.noise_multiplier:
            fixed = accounting.fixed_cohort_epsilon(
                clients=clients,
                cohort=cohort,
                noise_multiplier=self.noise_multiplier,
                count=rounds,
                delta=self.delta,
            )
            best_known = f" (for these settings the best known epsilon is {fixed:.3g})"
        raise ConfigError(
            f"privacy: cohorts of exactly {cohort} of {clients} clients have no amplification by "
            f"sampling{best_known}: set "
            f'run.selection="poisson", or run.cohort={clients} so that all clients take part'
        )


@dataclass(frozen=True)
class Mechanism:
    """The privacy settings of a run, with all values derived from them.

    Attributes:
        settings: the user's settings.
        clients: number of clients N.
        cohort: expected number of clients in a round, q N.
        probability: probability q with which a client takes part in a round.
        noise_multiplier: z, the standard deviation of the noise divided by the clip.
        limit: number of rounds that the budget allows; None without a budget.
        start_sums: number of noisy sums over all clients before the first round.
        seen_cohorts: whether an observer of the sums learns who took part. Then sampling does not
            amplify privacy, and neighbouring data sets differ by a client that sends only noise
            instead of its update.
        fixed_cohorts: whether all rounds have exactly ``cohort`` clients. If not, each client is
            drawn independently with probability q. Fixed cohorts are allowed only if observers see
            them, since then no amplification is counted.
    """

    settings: PrivacySettings
    clients: int
    cohort: int
    probability: float
    noise_multiplier: float
    limit: int | None
    start_sums: int = 0
    seen_cohorts: bool = False
    fixed_cohorts: bool = False

    @property
    def expected(self) -> int:
        """The number of clients that a round is expected to have: the cohort, at most the cap."""
        return min(self.cohort, self.settings.cap or self.cohort)

    def divisor(self, clusters: int) -> float:
        """The number of clients by which a cluster's sum is divided; it does not depend on data."""
        return self.settings.divisor or self.expected / clusters

    @property
    def start_noise(self) -> float:
        """The noise multiplier of each noisy sum before the first round."""
        given = self.settings.start_noise
        return START_NOISE * self.noise_multiplier if given is None else given

    @property
    def score_sums(self) -> int:
        """Planned number of noisy sums of all clients' accuracies (scores): one after the last
        round, or none."""
        return int(self.settings.scores is not None)

    def priced(
        self, rounds: int, start_sums: int | None = None, score_sums: int | None = None
    ) -> NoisyRounds:
        """A run's releases, in the form from which the accountant computes epsilon.

        Args:
            rounds: number of rounds.
            start_sums: number of noisy sums in the cold start (first clustering); None: the planned
                number.
            score_sums: number of noisy sums of scores; None: the planned number.
        """
        if start_sums is None:
            start_sums = self.start_sums
        if score_sums is None:
            score_sums = self.score_sums
        # An observer who sees the cohorts gains nothing from sampling or a cap.
        return NoisyRounds(
            probability=1.0 if self.seen_cohorts else self.probability,
            noise_multiplier=self.noise_multiplier,
            count=rounds,
            cap=None if self.seen_cohorts else self.settings.cap,
            clients=self.clients,
            start_noise=self.start_noise if start_sums else 0.0,
            start_sums=start_sums,
            score_noise=self.settings.scores or 0.0,
            score_sums=score_sums,
        )

    @property
    def count_deviation(self) -> float:
        """Standard deviation of the noise on the count of updates below the clip."""
        return max(self.cohort / 20, self.noise_multiplier)

    @property
    def update_noise(self) -> float:
        """The noise multiplier of updates. With an adaptive clip it is larger than z, since a noisy
        count is released together with the updates."""
        if not self.settings.adaptive or not self.noise_multiplier:
            return self.noise_multiplier
        return noise_of_updates(self.noise_multiplier, self.count_deviation)

    def epsilon(
        self,
        rounds: int,
        uncharged: bool = False,
        start_sums: int | None = None,
        score_sums: int | None = None,
    ) -> float:
        """The epsilon of a run's releases.

        Args:
            rounds: number of released rounds.
            uncharged: whether clients have also sent replies without noise, so that epsilon is
                infinite.
            start_sums: number of noisy sums in the cold start (first clustering); None: the planned
                number.
            score_sums: number of noisy sums of scores; None: the planned number.
        """
        if uncharged:
            return math.inf
        return accounting.epsilon(self.priced(rounds, start_sums, score_sums), self.settings.delta)

    def facts(self) -> dict[str, Any]:
        """The facts that a privacy statement gives next to the epsilon."""
        sampling = f"Poisson, probability {self.probability:g}"
        if self.probability == 1:
            sampling = "all clients take part"
        if self.fixed_cohorts:
            sampling = f"exactly {self.cohort} of {self.clients} clients, without replacement"
        if self.settings.cap and not (self.fixed_cohorts and self.settings.cap >= self.cohort):
            sampling += f", at most {self.settings.cap} clients"
        neighbours = "one client added or removed"
        observer = "does not learn who took part in which round"
        if self.seen_cohorts:
            sampling += "; who takes part is visible, so there is no amplification by sampling"
            neighbours = "one client replaced by a client that adds noise only"
            observer = "may know who took part in which round"
        noise_of_all = {}
        if self.start_sums:
            noise_of_all["start_noise_multiplier"] = self.start_noise
        if self.settings.scores is not None:
            noise_of_all["score_noise_multiplier"] = self.settings.scores
        return {
            "delta": self.settings.delta,
            "clients": self.clients,
            "unit": "one whole client, in all rounds together",
            "neighbours": neighbours,
            "sampling": sampling,
            "noise_multiplier": self.noise_multiplier,
            **noise_of_all,
            "clip": "adaptive" if self.settings.adaptive else self.settings.clip,
            "protects_from": f"whoever sees the released models, and {observer}",
            "trusted": "the server, and whoever reads its run folder",
        }
