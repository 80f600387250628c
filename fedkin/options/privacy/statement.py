"""The privacy statement of a run: its epsilon, its releases, and the limits of the claim (e.g. that
other runs on the same clients add to the cost)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.options import RELEASE
from fedkin.options.journal import Journal
from fedkin.options.privacy.secret_noise import secret_facts

NOT_PRIVATE = (
    "TESTING ONLY: noise and cohorts come from the run's seed, so nothing of this run is private"
)


def statement(private: Any, planned: int, round: int) -> dict[str, Any]:
    """A run's epsilon, with all facts that belong to it.

    Args:
        private: the run's privacy (``ActivePrivacy``).
        planned: planned number of rounds T.
        round: the last completed round, whose models are released.
    """
    journal = private.journal
    mechanism = private.mechanism
    value = mechanism.epsilon(
        rounds=journal.rounds,
        uncharged=bool(journal.uncharged),
        start_sums=journal.start_sums,
        score_sums=journal.score_sums,
    )
    seeded = {"warning": NOT_PRIVATE} if private.seed is not None else {}
    facts = mechanism.facts()
    if private.secret is not None:
        facts |= secret_facts(journal, private.secret.least)
    return {
        **seeded,
        "epsilon": "infinite" if math.isinf(value) else value,
        **facts,
        "rounds": {"released": journal.rounds, "planned": planned},
        **_scores(private, round),
        "charged": _charged(journal, private.secret is not None),
        "not_charged": [
            "which settings were tried on the same clients (K, learning rate, clip), also by "
            "compare, advise or eps",
            "other runs on the same clients",
            "a number of rounds chosen by scores: a run that was ended or extended after someone "
            "looked at them",
        ],
        "may_be_released": [
            f"{RELEASE}/: the models after the last round, and this statement",
            "the models before",
        ],
        "must_not_be_released": [
            "metrics.jsonl, summary.json, clients.parquet, figures and reports: scores, losses "
            "and counts of clients",
            "migrations.jsonl and the assignment: which client is in which cluster",
            "the best round: it was selected by clients' scores",
            "checkpoints/: they hold the assignment next to the models",
        ],
    }


def _scores(private: Any, round: int) -> dict[str, Any]:
    """The statement's entry on scores, the noisy mean accuracy of clients; empty if none was
    released."""
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
    """The privacy statement's entry on costs: for each kind of reply that left clients, what it
    costs, in words.

    Args:
        journal: the run's journal.
        secret: whether the run has secret sums.
    """
    charged = {}
    tasks = Counter(entry.get("task", "train") for entry in journal.entries if "clip" in entry)
    for name, count in tasks.items():
        sums = "noisy sums of the clients of a round, one each"
        charged[f"models ({name})"] = f"{count} {sums}"

    start = Counter(entry["start"] for entry in journal.entries if "start" in entry)
    for name, count in start.items():
        charged[f"cold start ({name})"] = f"noisy sums of all clients: {count}"

    if scores := journal.score_sums:
        charged["scores (evaluate)"] = f"noisy sums of all clients' accuracies: {scores}"

    choices = "each client chooses among released values; the server does not release the choice"
    if secret:
        choices = "no choice is sent by itself"
    if secret and journal.uncharged:
        choices = "no choice is sent by itself, except to the tasks listed below"
    charged["choices of clusters"] = f"nothing: {choices}"

    unreleased = "counts, losses, scores of single clients, the best round"
    charged[unreleased] = "nothing: they are not released"

    for name in journal.uncharged:
        charged[f"other client work ({name})"] = "infinite: no noise covers it"
    return charged


def price_of_runs(statements: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Total epsilon and delta of several private runs with the same clients.

    Both are sums over the runs (basic composition).

    Args:
        statements: statements of the runs.
    """
    epsilons = [
        math.inf if statement["epsilon"] == "infinite" else statement["epsilon"]
        for statement in statements
    ]
    return sum(epsilons), sum(statement["delta"] for statement in statements)


def privacy_notes(statements: Sequence[Mapping[str, Any]], unfinished: bool = False) -> list[str]:
    """Notes on the total cost of several private runs with the same clients, and on its limits;
    empty without any run.

    Args:
        statements: statements of the finished runs.
        unfinished: whether there are unfinished runs.
    """
    if not statements:
        return []
    epsilon, delta = price_of_runs(statements)
    on_top = "; releases of unfinished runs cost more" if unfinished else ""
    lines = [
        f"Privacy: all {len(statements)} finished private runs, on the same clients, cost up to "
        f"epsilon {epsilon:.3g} at delta {delta:.3g} together; choosing among them by scores "
        f"without noise is not covered{on_top}."
    ]
    # Old statements do not give the number of clients.
    clients = max(statement.get("clients", 0) for statement in statements)
    if clients and delta >= 1 / clients:
        lines.append(
            f"Privacy: delta {delta:.3g} with {clients:,} clients permits publishing the whole "
            "data of one of them."
        )
    warnings = {statement["warning"] for statement in statements if "warning" in statement}
    return lines + sorted(f"Privacy: {warning}." for warning in warnings)
