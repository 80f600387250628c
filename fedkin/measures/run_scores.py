"""The measures of a run's score by their roles in tables, charts and comparisons: final, best, of
the worst clients, and so on. They have the names, the direction, the unit and the number format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkin.measures.measure import Measure
from fedkin.measures.scores import ACCURACY, OTHER_MEASURES, ScoreNames, names_in
from fedkin.measures.table import MEASURES


@dataclass(frozen=True)
class RunScores:
    """The measures of a run's score, and its further measures. Runs can be compared if both are
    equal.

    Attributes:
        names: names of the score's values in records and summaries.
        others: names of the task type's further measures, such as ``r2_score``.
    """

    names: ScoreNames = field(default_factory=ScoreNames)
    others: tuple[str, ...] = ()

    @property
    def of_round(self) -> Measure:
        """The score of a round."""
        return MEASURES[self.names.score]

    @property
    def final(self) -> Measure:
        """The score of the last round."""
        return MEASURES[self.names.final]

    @property
    def all_clients(self) -> Measure:
        """The final score of all clients, also of those without a cluster."""
        return MEASURES[self.names.all_clients]

    @property
    def best(self) -> Measure:
        """The score of the best round."""
        return MEASURES[self.names.best]

    @property
    def worst(self) -> Measure:
        """The mean score of the worst 10% of clients."""
        return MEASURES[self.names.worst]

    @property
    def median(self) -> Measure:
        """The score of the median client."""
        return MEASURES[self.names.median]

    @property
    def validation(self) -> Measure:
        """The best score on validation samples."""
        return MEASURES[self.names.validation]

    @property
    def mean(self) -> Measure:
        """The mean score of the rounds."""
        return MEASURES[self.names.mean]

    @property
    def means(self) -> tuple[Measure, ...]:
        """The measures in every table over seeds."""
        return self.final, self.all_clients, self.best, self.worst

    @property
    def compared(self) -> tuple[Measure, ...]:
        """The measures by which methods can be compared."""
        return self.final, self.best, self.worst, self.validation

    @property
    def errors(self) -> tuple[Measure, ...]:
        """Those of the compared measures of which lower values are better."""
        return tuple(measure for measure in self.compared if measure.direction == "lower")

    @property
    def further(self) -> tuple[Measure, ...]:
        """The measures of numbers that tables show after the score: per client, and the task type's
        other measures at the end. Classes have none."""
        if self.names.score == ACCURACY:
            return ()
        others = (MEASURES[ScoreNames(name).final] for name in self.others)
        return MEASURES[self.names.per_client], *others

    @property
    def honest(self) -> tuple[Measure, ...]:
        """The measures in tables of runs with attackers: the scores of honest clients, the
        agreement of their clusters with the true ones, and the share of attackers that are
        alone."""
        names = (self.names.honest, self.names.honest_worst, "honest_ari", "attackers_alone")
        return tuple(MEASURES[name] for name in names)

    @property
    def worst_words(self) -> str:
        """What the clients with the worst scores are called: the bottom 10%, or the worst 10%."""
        return self.worst.narrow


ACCURACIES = RunScores()


def difference_word(measure: Measure) -> str:
    """The word between two methods before the difference of their values: ``over``, or ``minus``
    for an error of numbers, where a negative difference is better.

    Args:
        measure: the measure. The user's measures have ``over``.
    """
    is_error = measure.direction == "lower" and measure.name in MEASURES
    return "minus" if is_error else "over"


def scores_in(record: Mapping[str, Any]) -> RunScores:
    """The measures of a run's score, from a record of a round or a summary."""
    found = [name for name in OTHER_MEASURES if name in record or ScoreNames(name).final in record]
    return scores_of([names_in(record).score, *found])


def scores_of(measures: Sequence[str]) -> RunScores:
    """The measures of a run's score.

    Args:
        measures: names of the task type's measures; the first one is the score.
    """
    score, *others = measures
    ordered = (name for name in OTHER_MEASURES if name in others and name != score)
    return RunScores(ScoreNames(score), tuple(ordered))
