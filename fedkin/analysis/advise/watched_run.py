"""Advice from a run that was watched by the monitor of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.options.monitor.proposals import KINDS, Act
from fedkin.run.metrics.monitor_record import monitor_acts
from fedkin.run.run import Run


@dataclass(frozen=True)
class WatchedAdvice:
    """Advice from the findings of a run's monitor.

    Attributes:
        verdict: what to do, in a few words.
        steps: one sentence for each finding that is still open.
        acts: all findings.
    """

    verdict: str
    steps: tuple[str, ...]
    acts: tuple[Act, ...]

    def summary(self) -> dict[str, Any]:
        """The advice as plain JSON values."""
        return {
            "verdict": self.verdict,
            "steps": list(self.steps),
            "acts": [act.plain() for act in self.acts],
        }


def of_run(run: Run) -> WatchedAdvice:
    """Advice from what the monitor has found in a run.

    Raises:
        ConfigError: the run has no monitor.
    """
    acts = monitor_acts(run.records)
    if acts is None:
        raise ConfigError(
            "this run has no monitor, so it says nothing about its clusters; run it again with "
            "monitor.name=clusters, or ask with `fedkin advise FILE.toml` before the training"
        )
    steps = tuple(_step(act, run.client_names) for act in _open(acts))
    return WatchedAdvice(_verdict(acts, steps), steps, tuple(acts))


def _open(acts: list[Act]) -> list[Act]:
    """The newest finding of each kind about each client or cluster, without those that the monitor
    has acted upon, and without alarms of clients for which it proposes a move."""
    newest = {(act.kind, act.client, act.cluster): act for act in acts}
    moved = {act.client for act in newest.values() if act.kind == "move"}
    return [
        act
        for act in newest.values()
        if not act.done and not (act.kind == "alarm" and act.client in moved)
    ]


def _step(act: Act, names: Mapping[int, str]) -> str:
    """The finding in words, and how to respond to it."""
    return f"round {act.round}: {act.in_words(names)}: {KINDS[act.kind].cure}"


def _verdict(acts: list[Act], steps: tuple[str, ...]) -> str:
    """The advice in one sentence."""
    if not acts:
        return "keep the clusters: the monitor has raised no alarm"
    if not steps:
        return "keep the clusters: the monitor has acted on all that it has found"
    if any(act.kind == "one_model" for act in acts):
        return "try one model: it would serve all clusters as well"
    return "change the clusters: they no longer fit some clients"
