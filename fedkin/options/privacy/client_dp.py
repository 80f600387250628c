"""Client-level differential privacy, as an option of any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.options.base import ActiveOption, Option, RunFacts
from fedkin.options.privacy.private import active_privacy, check_privacy, refusal
from fedkin.options.privacy.settings import PrivacySettings


@plain_options
@dataclass(frozen=True)
class ClientDP(PrivacySettings, Option):
    """Differential privacy of whole clients, with a trusted server.

    Each client's update is clipped, and noise is added to the sums of every round. Set the noise,
    or the epsilon of the whole run. If both are set, the run stops before the round that would
    exceed that epsilon.

    Attributes:
        noise_multiplier: z, the standard deviation of the noise on a sum, divided by the clip.
        epsilon: budget of all rounds together, at ``delta``.
        delta: probability that the bound does not hold; below 1 / N.
        clip: C, the clipping norm; with ``adaptive`` only in the first round.
        adaptive: whether the clip follows the median norm, privately (Andrew et al. 2021).
        divisor: number of clients by which each cluster's sum is divided; by default the expected
            cohort / K.
        cap: largest number of clients in a round, if a device needs a limit; None: no limit.
        examples_cap: a client's weight is its number of training samples divided by this number,
            at most 1; by default all weights are 1.
        start_noise: noise multiplier of each noisy sum of a cold start, over all clients before the
            first round; by default four times the noise multiplier of the rounds.
        scores: noise multiplier of the sum of all clients' accuracies after the last round, whose
            mean is released with the models; None: no score is released.
        uncharged: what happens if the method requests replies without noise, such as single
            updates: ``refuse`` stops the run, ``infinite`` allows it and makes epsilon infinite.
        testing_only_seeded_noise: whether noise and cohorts come from the run's seed. Then nothing
            is private.

    Examples:
        >>> import fedkin as fk
        >>> private = fk.ClientDP(epsilon=8.0, delta=1e-6, clip=0.5)
        >>> private.epsilon, private.clip
        (8.0, 0.5)
    """

    section = "privacy"

    def refusal(self, run: RunFacts) -> str:
        if self.scores is not None and run.task_type.highest > 1:
            return (
                "privacy.scores releases a mean of scores from 0 to 1, but "
                f"{run.task_type.names.score} has no upper bound; leave out privacy.scores"
            )
        if run.shares_part:
            return (
                "personal heads send sums of bodies (models without the last layer), which get no "
                "noise; use personal models (ditto), or no personal part"
            )
        return refusal(run.method, self.uncharged)

    def simulated(self, data: Any, shift: Any) -> tuple[Any, Any]:
        """The data, whose constant model follows from given statistics only. Raises ConfigError if
        statistics without noise have scaled them."""
        transform = getattr(data, "transform", None)
        if transform is not None and transform.released:
            raise ConfigError(
                f"privacy: the columns of {data.name} are scaled ({transform.kind}) by statistics "
                "of the clients' samples, which get no noise; give known statistics: "
                "data.scale_from = {mean = {age = 50.0}, scale = {age = 12.0}}, or set "
                'data.scale = "none"'
            )
        task_type = getattr(data, "task_type", None)
        if task_type is not None and task_type.released:
            raise ConfigError(
                f"privacy: the labels of {data.name} are scaled by statistics of the clients' "
                f"samples, which get no noise; {_known_labels(task_type)}"
            )
        if task_type is None or not task_type.is_given:
            return data, shift
        # The constant model comes from training samples, and is stored with the released models.
        return data.with_task_type(task_type.as_given()), shift

    def check(self, runs: Sequence[RunFacts]) -> None:
        check_privacy(self, runs)

    def bind(self, run: RunFacts) -> ActiveOption:
        return active_privacy(self, run)


def _known_labels(task_type: Any) -> str:
    """The cure for pooled statistics of labels that come from samples."""
    if task_type.by_time:
        return 'set data.label_scale = "client", so that each client scales by its own past'
    known = "{rate = 2.5}" if task_type.scales_by_rate else "{mean = 50.0, scale = 12.0}"
    return f"give known statistics: data.label_scale_from = {known}"
