"""The check that all runs of a comparison have the same measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedkin.core.errors import ConfigError
from fedkin.measures.run_scores import RunScores, scores_in
from fedkin.run.run import Run


def check_same_scores(runs: Iterable[tuple[str, Run]]) -> None:
    """Check that runs have the same measures, so that they can be compared.

    Args:
        runs: labels of settings, each with a run.

    Raises:
        ConfigError: runs have different measures.
    """
    found: dict[RunScores, str] = {}
    for setting, run in runs:
        found.setdefault(scores_in(run.summary()), setting)
    refuse_different(found)


def refuse_different(found: Mapping[RunScores, str]) -> None:
    """Raise ConfigError if there are several measures.

    Args:
        found: for each measure, the label of the first setting that has it.
    """
    if len(found) < 2:
        return
    parts = [
        f"{scores.of_round.head}{f' in {setting}' if setting else ''}"
        for scores, setting in found.items()
    ]
    raise ConfigError(
        f"compare: the runs have different measures: {', '.join(parts)}; one table cannot rank "
        "them, so start a comparison for each measure, in which all data have the same task"
    )
