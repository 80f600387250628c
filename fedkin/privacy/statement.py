"""A private run's epsilon, and all that it must be printed with: what was released, by task, and what was not."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from fedkin.privacy.journal import RELEASE, Journal
from fedkin.privacy.private import NOT_PRIVATE, Private
from fedkin.privacy.secret_noise import secret_facts


def statement(private: Private, planned: int, round: int) -> dict[str, Any]:
    """What a run's epsilon is, and all that it must be printed with.

    Args:
        private: the method of the run.
        planned: T.
        round: the last one that was done, whose models are released.
    """
    journal, mechanism = private.journal, private.mechanism
    value = mechanism.epsilon(journal.rounds, bool(journal.uncharged), journal.start_sums, journal.score_sums)
    seeded = {"warning": NOT_PRIVATE} if private.seed is not None else {}
    facts = mechanism.facts() | ({} if private.secret is None else secret_facts(journal, private.secret.least))
    return {
        **seeded,
        "epsilon": "infinite" if math.isinf(value) else value,
        **facts,
        "rounds": {"released": journal.rounds, "planned": planned},
        **_scores(private, round),
        "charged": _charged(journal, private.secret is not None),
        "not_charged": [
            "which settings were tried on the same clients (K, learning rate, clip), by compare, advise or eps too",
            "other runs on the same clients",
            "a number of rounds that scores decided: a run that was ended, or extended, after a look at them",
        ],
        "may_be_released": [f"{RELEASE}/: the models after the last round, and this statement", "the models before"],
        "must_not_be_released": [
            "metrics.jsonl, summary.json, clients.parquet, figures and reports: scores, losses and counts of clients",
            "migrations.jsonl and the assignment: which client is in which cluster",
            "the best round: scores of clients chose it",
            "checkpoints/: they hold the assignment beside the models",
        ],
    }


def _scores(private: Private, round: int) -> dict[str, Any]:
    """The noisy mean accuracy of clients on the released models; empty where none was released."""
    mean, noise, clients = (
        private.journal.mean_accuracy(round),
        private.mechanism.settings.scores,
        private.mechanism.clients,
    )
    if mean is None or noise is None:
        return {}
    return {"scores": {"mean_accuracy": mean, "clients": clients, "standard_deviation_of_noise": noise / clients}}


def _charged(journal: Journal, secret: bool) -> dict[str, str]:
    """What left the clients, by task, and at what price."""
    choices = "each client's own, among what was released; the server keeps them to itself"
    if secret:
        choices = "none is sent by itself" + ("" if not journal.uncharged else ", but for what is named below")
    tasks = Counter(entry.get("task", "train") for entry in journal.entries if "clip" in entry)
    start = Counter(entry["start"] for entry in journal.entries if "start" in entry)
    sums, scores = "noisy sums of the clients of a round, one each", journal.score_sums
    return {
        **{f"models ({name})": f"{count} {sums}" for name, count in tasks.items()},
        **{f"cold start ({name})": f"noisy sums of all clients: {count}" for name, count in start.items()},
        **({"scores (evaluate)": f"noisy sums of all clients' accuracies: {scores}"} if scores else {}),
        "choices of clusters": f"nothing: {choices}",
        "counts, losses, scores of single clients, the best round": "nothing: they are not released",
        **{f"other client work ({name})": "infinite: no noise covers it" for name in journal.uncharged},
    }
