"""How long a run is, with how many clients, and how often it is evaluated."""

from __future__ import annotations

from typing import Literal, get_args

from fedkin.config.schema import NotNegative, Positive, Share, settings
from fedkin.core.randomness import Stream

Selection = Literal["uniform", "round_robin", "poisson"]
SELECTIONS: tuple[str, ...] = get_args(Selection)


@settings("run")
class Plan:
    """How long, with how many clients, from which seed, and how often to evaluate.

    ``selection`` says how cohorts are drawn: ``uniform`` (without replacement), ``round_robin`` (all N clients take
    turns once, in the order of ids, and uniform from then on, as FlexCFL's code does, so that clients that take
    part from the start are soon assigned), or ``poisson`` (each client with probability cohort / N, whatever the
    others: sizes vary, and may be 0). The last round is always evaluated and kept, whatever ``evaluate_every`` and
    ``checkpoint_every`` say. With ``global_model`` an evaluation is also one of the mean of the cluster models. With
    ``evaluate_clients`` a round before the last scores only a sample of so many clients, drawn by cluster, and records
    the accuracy that this says of all, with its 95% interval (``run.metrics.evaluation_sample``); with
    ``sample_at_end`` the last round, too, so that no round reads all clients.

    A run stops before its last round at the first complete round whose score reaches ``until``, and ``patience`` rounds
    after the best one (``run.stopping``); patience is for data with a validation split.
    """

    rounds: Positive
    cohort: Positive
    seed: NotNegative = 0
    evaluate_every: NotNegative = 1  # rounds; 0: only after the last
    checkpoint_every: Positive = 10
    selection: Selection = "uniform"
    global_model: bool = False
    patience: Positive | None = None  # rounds without a better score on validation samples
    until: Share | None = None  # a score
    evaluate_clients: Positive | None = None  # scored in a round, but for the last; None: all
    sample_at_end: bool = False  # score no more than these after the last round, either

    def evaluates(self, round: int) -> bool:
        """Whether clients are evaluated after this round."""
        return round == self.rounds or (self.evaluate_every > 0 and round % self.evaluate_every == 0)

    def sample(self, last: bool) -> tuple[int, Stream] | None:
        """How many clients are scored at most, and the stream of the draw; None for all.

        Args:
            last: after the last round, when all are scored, unless ``sample_at_end``.
        """
        if self.evaluate_clients is None or (last and not self.sample_at_end):
            return None
        return self.evaluate_clients, Stream(self.seed, 0, "evaluation/sample")

    def checkpoints(self, round: int) -> bool:
        """Whether a checkpoint is kept after this round."""
        return round % self.checkpoint_every == 0 or round == self.rounds
