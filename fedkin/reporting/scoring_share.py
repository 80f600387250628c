"""The note that scoring took much of a long run, with the setting that makes it cheap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedkin.config.plan import Scoring
from fedkin.core.records import Record

LONG = 60.0  # seconds of a run, from which on the note is worth a line
SHARE = 0.05  # largest share of the time of training for which nothing is suggested
SMALLEST = 50  # clients in a sample; fewer say little about all of them
COMPILING = 3  # first rounds, which compile programs


def scoring_note(timings: Sequence[Record], scoring: Scoring, clients: int) -> str:
    """The share of the training time that scoring took, and a setting with which it takes about 5%;
    empty if the run was short, if scoring was cheap, or if the user has chosen its cost.

    Args:
        timings: lines of timings.jsonl, with the seconds of training and scoring of each round.
        scoring: the run's evaluation settings.
        clients: number of clients that are scored.
    """
    rounds = [line for line in timings if line["round"] > COMPILING and "train" in line]
    chosen = scoring.evaluate_clients is not None or scoring.evaluate_every == 0
    if chosen or not rounds or rounds[-1]["total"] < LONG:
        return ""
    training_seconds = sum(line["train"] for line in rounds)
    scoring_seconds = sum(line["score"] for line in rounds)
    share = scoring_seconds / training_seconds
    if share <= SHARE:
        return ""
    sample = sample_for(clients, share)
    if sample >= SMALLEST:
        setting = f"run.evaluate_clients={sample} (a random sample, except after the last round)"
    else:
        setting = f"run.evaluate_every={math.ceil(scoring.evaluate_every * share / SHARE)}"
    return f"scoring took {share:.0%} of the time of training; about {SHARE:.0%} with {setting}"


def sample_for(clients: int, share: float) -> int:
    """The number of clients whose scoring takes 5% of the time of training, rounded down to two
    digits.

    Args:
        clients: number of clients.
        share: share of the time of training that scoring all of them takes.
    """
    sample = min(clients, int(clients * SHARE / share))
    unit = 10 ** max(0, len(str(sample)) - 2)
    return sample // unit * unit
