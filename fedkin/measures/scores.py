"""Scores by which models are compared, one or more for each task type, and the names under which
records and summaries hold a score: in every round, at the end, in the best round, by cluster.

The first score of a task type chooses rounds, options and methods. To add a score, add a line to
``SCORES``. Names and directions are those of scikit-learn's metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedkin.measures.measure import Measure

ACCURACY = "accuracy"
SCORES = (
    Measure(
        "root_mean_squared_error",
        title="root of the mean squared error, over all samples together",
        head="RMSE",
        unit="label",
        direction="lower",
    ),
    Measure(
        "mean_absolute_error",
        title="mean absolute error, over all samples together",
        head="MAE",
        unit="label",
        direction="lower",
    ),
    Measure(
        "mean_deviance",
        title="mean deviance, over all samples together",
        head="deviance",
        direction="lower",
    ),
    Measure(
        "mean_pinball_loss",
        title="pinball loss, mean over levels and samples",
        head="pinball loss",
        short="pinball",
        unit="label",
        direction="lower",
    ),
    Measure(
        "concordance_index",
        title="C-index: share of comparable pairs within clients in the right order",
        head="C-index",
        unit="index",
    ),
    Measure(
        "r2_score",
        title="share of the squared error about the pooled training mean that the model saves",
        head="R2 against the pooled mean",
        short="R2 (pooled)",
        unit="index",
        digits=3,
    ),
    Measure(
        "d2_score",
        title="share of the deviance of the pooled training rate that the model saves",
        head="D2 against the pooled rate",
        short="D2 (pooled)",
        unit="index",
        digits=3,
    ),
    Measure(
        "d2_pinball_score",
        title="share of the pinball loss of the pooled training quantiles that the model saves",
        head="D2 against the pooled quantiles",
        short="D2 (pooled)",
        unit="index",
        digits=3,
    ),
    Measure(
        "coverage",
        title="share of labels between the lowest and the highest quantile",
        head="coverage",
        unit="share",
        direction="neither",
    ),
    Measure(
        "coverage_gap",
        title="coverage minus its level, the distance between the lowest and the highest level",
        head="coverage minus level",
        unit="share",
        direction="neither",
    ),
    Measure(
        "mean_absolute_scaled_error",
        title="error of forecasts: mean absolute error / error of the value one season before, in "
        "the client's training period",
        head="MASE",
        unit="index",
        direction="lower",
        digits=3,
    ),
    Measure(
        "seasonal_naive_error",
        title="MASE of the seasonal naive forecast, the value one season before",
        head="MASE of the seasonal naive forecast",
        short="seasonal naive",
        unit="index",
        direction="neither",
        digits=3,
    ),
    Measure(
        "last_value_error",
        title="MASE of the last value as a forecast",
        head="MASE of the last value",
        short="last value",
        unit="index",
        direction="neither",
        digits=3,
    ),
    Measure(
        "interval_width",
        title="mean distance between the lowest and the highest quantile",
        head="interval width",
        unit="label",
        direction="neither",
    ),
)


OTHER_MEASURES = tuple(measure.name for measure in SCORES)  # a record has those of its task type


@dataclass(frozen=True)
class ScoreNames:
    """The names of a score's values in records of rounds and in summaries of runs.

    Attributes:
        score: name of the score, over all samples of all clients together.
    """

    score: str = ACCURACY

    @property
    def by_cluster(self) -> str:
        """The score of each cluster's clients."""
        return f"{self.score}_by_cluster"

    @property
    def interval(self) -> str:
        """The interval of the score, where only a sample of clients was evaluated."""
        return f"{self.score}_interval"

    @property
    def worst(self) -> str:
        """The mean over the 10% of clients with the worst scores."""
        return "bottom_decile" if self.score == ACCURACY else f"{self.score}_worst_decile"

    @property
    def median(self) -> str:
        """The score of the median client."""
        return "median_client" if self.score == ACCURACY else f"{self.score}_median_client"

    @property
    def per_client(self) -> str:
        """The score in which every client has the same weight; records of accuracies lack it."""
        return f"{self.score}_per_client"

    @property
    def final(self) -> str:
        return f"final_{self.score}"

    @property
    def all_clients(self) -> str:
        """The final score over all clients, including clients without a cluster."""
        return f"{self.score}_all_clients"

    @property
    def best(self) -> str:
        return f"best_{self.score}"

    @property
    def validation(self) -> str:
        """The best score on validation samples."""
        return f"validation_{self.score}"

    @property
    def honest(self) -> str:
        """The mean score of the honest clients, in a run with attackers."""
        return f"honest_{self.score}"

    @property
    def honest_worst(self) -> str:
        """The mean score of the worst 10% of the honest clients."""
        return f"honest_{self.worst}"

    @property
    def mean(self) -> str:
        """The mean of the rounds."""
        return f"mean_{self.score}"


def names_in(record: Mapping[str, Any]) -> ScoreNames:
    """The names of the score in a record of a round, or in the summary of a run. They name their
    score if it is not the accuracy."""
    return ScoreNames(str(record.get("measure", ACCURACY)))


def family(score: Measure) -> tuple[Measure, ...]:
    """The measures of a score, under the names of ``ScoreNames``."""
    run = replace(score, column=score.name, kept="run")
    return (replace(score, kept="round"), *_of_runs(run), *_of_clients(score, run))


def _of_runs(run: Measure) -> tuple[Measure, ...]:
    """The measures of a whole run: of its last round, its best round and all rounds.

    Args:
        run: the score, kept in summaries.
    """
    names = ScoreNames(run.column)
    head = run.head
    narrow = run.narrow
    return (
        replace(
            run,
            name=names.final,
            title=f"{head} in the last round",
            head=f"final {head}",
            short=f"final {narrow}",
            label=f"final {head}",
            phrase=f"{{split}} {head}",
            by="final",
            over_all=names.all_clients,
        ),
        replace(
            run,
            name=names.all_clients,
            title=f"final {head} over all clients, including clients without a cluster",
            head=f"final {head}, all clients",
            short=f"{narrow}, all clients",
            by=names.all_clients,
        ),
        replace(
            run,
            name=names.best,
            title=f"best {head}",
            head=f"best {head}",
            short=f"best {narrow}",
            label=f"best {head}",
            phrase=f"best {{split}} {head}",
            by="best",
            moment="best",
        ),
        replace(
            run,
            name=names.validation,
            title=f"best {head} on validation samples",
            head="best on validation",
            short="best on validation",
            phrase=f"best validation {head}",
            by="validation",
            moment="best",
        ),
        replace(
            run,
            name=names.mean,
            title=f"mean {head} of the rounds",
            head="mean of rounds",
            short="mean of rounds",
            by=names.mean,
        ),
    )


def _of_clients(score: Measure, run: Measure) -> tuple[Measure, ...]:
    """The measures of clients: of the worst ones, the median one, each with the same weight, and
    the honest ones.

    Args:
        score: the score.
        run: the score, kept in summaries.
    """
    names = ScoreNames(score.name)
    head = score.head
    return (
        replace(
            score,
            name=names.worst,
            column=names.worst,
            title=f"mean {head} of the 10% of clients with the {score.worst_word} {head}",
            head=f"{head} of the worst 10% of clients",
            short="worst 10%",
            phrase=f"{{split}} {head} of the worst 10% of clients",
            by="bottom",
        ),
        replace(
            run,
            name=names.honest,
            column=names.honest,
            title=f"mean {head} of the honest clients",
            head=f"{head} of honest clients",
            short="honest clients",
            by=names.honest,
        ),
        replace(
            run,
            name=names.honest_worst,
            column=names.honest_worst,
            title=f"mean {head} of the worst 10% of the honest clients",
            head="worst 10% of honest clients",
            short="honest worst 10%",
            by=names.honest_worst,
        ),
        replace(
            score,
            name=names.median,
            column=names.median,
            title=f"{head} of the median client",
            head="median client",
            short="median client",
            by=names.median,
        ),
        replace(
            score,
            name=names.per_client,
            column=names.per_client,
            title=f"{head} per client: every client has the same weight",
            head=f"{head} per client",
            short="per client",
            by=names.per_client,
        ),
    )
