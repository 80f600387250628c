"""A private run's epsilon, and all that it must be printed with: what was released, by task, and
what was not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.options.journal import RELEASE, Journal
from fedkin.options.privacy.secret_noise import secret_facts

NOT_PRIVATE = (
    "TESTING ONLY: noise and cohorts come from the run's seed, so nothing of this run is private"
)


def statement(private: Any, planned: int, round: int) -> dict[str, Any]:
    """What a run's epsilon is, and all that it must be printed with.

    Args:
        private: the privacy of the run (``ActivePrivacy``).
        planned: T.
        round: the last one that was done, whose models are released.
    """
    journal = private.journal
    mechanism = private.mechanism
    value = mechanism.epsilon(
        journal.rounds, bool(journal.uncharged), journal.start_sums, journal.score_sums
    )
    seeded = {"warning": NOT_PRIVATE} if private.seed is not None else {}
    facts = mechanism.facts() | (
        {} if private.secret is None else secret_facts(journal, private.secret.least)
    )
    return {
        **seeded,
        "epsilon": "infinite" if math.isinf(value) else value,
        **facts,
        "rounds": {"released": journal.rounds, "planned": planned},
        **_scores(private, round),
        "charged": _charged(journal, private.secret is not None),
        "not_charged": [
            "which settings were tried on the same clients (K, learning rate, clip), by compare, "
            "advise or eps too",
            "other runs on the same clients",
            "a number of rounds that scores decided: a run that was ended, or extended, after a "
            "look at them",
        ],
        "may_be_released": [
            f"{RELEASE}/: the models after the last round, and this statement",
            "the models before",
        ],
        "must_not_be_released": [
            "metrics.jsonl, summary.json, clients.parquet, figures and reports: scores, losses "
            "and counts of clients",
            "migrations.jsonl and the assignment: which client is in which cluster",
            "the best round: scores of clients chose it",
            "checkpoints/: they hold the assignment beside the models",
        ],
    }


def _scores(private: Any, round: int) -> dict[str, Any]:
    """The noisy mean accuracy of clients on the released models; empty where none was released."""
    mean = private.journal.mean_accuracy(round)
    noise = private.mechanism.settings.scores
    clients = private.mechanism.clients
    if mean is None or noise is None:
        return {}
    return {
        "scores": {
            "mean_accuracy": mean,
            "clients": clients,
            "standard_deviation_of_noise": noise / clients,
        }
    }


def _charged(journal: Journal, secret: bool) -> dict[str, str]:
    """What left the clients, by task, and at what price."""
    choices = "each client's own, among what was released; the server keeps them to itself"
    if secret:
        choices = "none is sent by itself" + (
            "" if not journal.uncharged else ", but for what is named below"
        )
    tasks = Counter(entry.get("task", "train") for entry in journal.entries if "clip" in entry)
    start = Counter(entry["start"] for entry in journal.entries if "start" in entry)
    sums = "noisy sums of the clients of a round, one each"
    scores = journal.score_sums
    return {
        **{f"models ({name})": f"{count} {sums}" for name, count in tasks.items()},
        **{
            f"cold start ({name})": f"noisy sums of all clients: {count}"
            for name, count in start.items()
        },
        **(
            {"scores (evaluate)": f"noisy sums of all clients' accuracies: {scores}"}
            if scores
            else {}
        ),
        "choices of clusters": f"nothing: {choices}",
        "counts, losses, scores of single clients, the best round": "nothing: they are not released",
        **{
            f"other client work ({name})": "infinite: no noise covers it"
            for name in journal.uncharged
        },
    }


def price_of_runs(statements: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Epsilon and delta of several private runs of the same clients together: the sums of theirs
    (basic composition).

    Args:
        statements: of the runs.
    """
    epsilons = [math.inf if one["epsilon"] == "infinite" else one["epsilon"] for one in statements]
    return sum(epsilons), sum(one["delta"] for one in statements)


def privacy_notes(statements: Sequence[Mapping[str, Any]], unfinished: bool = False) -> list[str]:
    """What several private runs of the same clients cost together, and what is wrong with it; empty
    without any.

    Args:
        statements: of the runs that are finished.
        unfinished: whether there are others that are not.
    """
    if not statements:
        return []
    epsilon, delta = price_of_runs(statements)
    more = "; what runs that are not finished have released comes on top" if unfinished else ""
    lines = [
        f"Privacy: all {len(statements)} finished private runs, on the same clients, cost up to "
        f"epsilon {epsilon:.3g} at delta {delta:.3g} together; choosing among them by scores "
        f"without noise is not covered{more}."
    ]
    clients = max(
        one.get("clients", 0) for one in statements
    )  # 0: of statements that do not say it
    if clients and delta >= 1 / clients:
        lines.append(
            f"Privacy: delta {delta:.3g} with {clients:,} clients allows to publish one of them "
            "whole."
        )
    return lines + sorted({f"Privacy: {one['warning']}." for one in statements if "warning" in one})
