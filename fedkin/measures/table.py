"""All measures that a run has: tables, charts, comparisons and the documentation take names, heads
and units from here.

``PLACED`` have a place in some tables, which say which. ``EXTRA`` stand in every table behind
those: a new measure of scored clients is one line there. Measures of the user's own follow them
(``measures_in``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkin.core.errors import ConfigError, unknown
from fedkin.measures.measure import Measure

PLACED = (
    Measure(
        "accuracy",
        title="correct / test samples, all clients together",
        head="accuracy",
        unit="share",
        kept="round",
    ),
    Measure(
        "final_accuracy",
        title="accuracy in the last round",
        head="final",
        label="final accuracy",
        phrase="{split} accuracy",
        unit="share",
        by="final",
        column="accuracy",
        over_all="accuracy_all_clients",
        kept="run",
    ),
    Measure(
        "accuracy_all_clients",
        title="final accuracy, clients without a cluster on the model that they would get",
        head="final, all clients",
        unit="share",
        kept="run",
    ),
    Measure(
        "best_accuracy",
        title="best accuracy",
        head="best",
        label="best accuracy",
        phrase="best {split} accuracy",
        unit="share",
        by="best",
        column="accuracy",
        moment="best",
        kept="run",
    ),
    Measure(
        "bottom_decile",
        title="accuracy of the bottom 10% of clients",
        head="bottom 10% of clients",
        short="bottom 10%",
        phrase="{split} accuracy of the bottom 10% of clients",
        unit="share",
        by="bottom",
    ),
    Measure(
        "validation_accuracy",
        title="best accuracy on validation samples",
        head="best on validation",
        phrase="best validation accuracy",
        unit="share",
        by="validation",
        column="accuracy",
        moment="best",
        kept="run",
    ),
    Measure(
        "mean_accuracy",
        title="mean accuracy of the rounds",
        head="mean of rounds",
        unit="share",
        kept="run",
    ),
    Measure(
        "median_client", title="accuracy of the median client", head="median client", unit="share"
    ),
    Measure(
        "best_median_client",
        title="accuracy of the median client in the best round",
        unit="share",
        kept="run",
    ),
    Measure(
        "best_bottom_decile",
        title="of the bottom 10% of clients in the best round",
        unit="share",
        kept="run",
    ),
    Measure("loss", title="mean loss of the scored samples", direction="lower", kept="round"),
    Measure(
        "train_loss",
        title="training loss of the cohort, last local epoch",
        direction="lower",
        kept="round",
    ),
    Measure(
        "first_train_loss",
        title="training loss of the cohort, first local epoch",
        direction="lower",
        kept="round",
    ),
    Measure(
        "accuracy_before_training",
        title="accuracy of the cohort's models before local training",
        unit="share",
        kept="round",
    ),
    Measure(
        "global_accuracy",
        title="accuracy of the mean of the cluster models",
        unit="share",
        kept="round",
    ),
    Measure(
        "global_loss",
        title="loss of the mean of the cluster models",
        direction="lower",
        kept="round",
    ),
    Measure(
        "ari",
        title="adjusted Rand index: agreement with the true clusters",
        head="ARI",
        unit="index",
    ),
    Measure(
        "nmi",
        title="normalised mutual information with the true clusters",
        head="NMI",
        unit="index",
    ),
    Measure(
        "honest_accuracy",
        title="mean accuracy of the honest clients",
        head="honest clients",
        label="honest accuracy",
        unit="share",
        kept="run",
    ),
    Measure(
        "honest_bottom_decile",
        title="accuracy of the bottom 10% of the honest clients",
        head="honest bottom 10%",
        unit="share",
        kept="run",
    ),
    Measure(
        "honest_ari", title="ARI of the honest clients", head="honest ARI", unit="index", kept="run"
    ),
    Measure(
        "attackers_alone",
        title="share of attackers in clusters without honest clients",
        head="attackers alone",
        unit="share",
        kept="run",
    ),
    Measure(
        "best_round",
        title="the round of the best accuracy",
        head="round",
        unit="count",
        direction="neither",
        kept="run",
    ),
    Measure(
        "rounds",
        title="the last round",
        head="rounds",
        unit="count",
        direction="neither",
        kept="run",
    ),
    Measure(
        "rounds_to_target",
        title="the first round that reaches run.target",
        head="rounds to target",
        unit="rounds",
        direction="lower",
        kept="run",
    ),
    Measure(
        "clusters",
        title="clusters at the end",
        head="clusters",
        unit="count",
        direction="neither",
        kept="run",
    ),
    Measure(
        "configured_clusters",
        title="clusters that were asked for",
        unit="count",
        direction="neither",
        kept="run",
    ),
    Measure(
        "bytes_down",
        title="the method's download so far",
        head="download",
        unit="bytes",
        direction="lower",
    ),
    Measure(
        "bytes_up",
        title="the method's upload so far",
        head="upload",
        unit="bytes",
        direction="lower",
    ),
    Measure(
        "messages_down", title="download of real messages so far", unit="bytes", direction="lower"
    ),
    Measure("messages_up", title="upload of real messages so far", unit="bytes", direction="lower"),
    Measure(
        "seconds",
        title="wall time of all rounds",
        head="seconds",
        unit="seconds",
        direction="lower",
        kept="run",
    ),
    Measure(
        "migrations",
        title="changes of a client's cluster",
        head="migrations",
        unit="count",
        direction="neither",
    ),
    Measure(
        "stability",
        title="agreement (ARI) of a round's clusters with those before",
        head="stability (ARI)",
        unit="index",
    ),
    Measure("shift_precision", title="detections with a cause", unit="share", digits=0, kept="run"),
    Measure(
        "shift_recall",
        title="shifts of data that were detected",
        head="of these detected",
        unit="share",
        digits=0,
        kept="run",
    ),
    Measure(
        "shift_delay", title="rounds to detection", unit="rounds", direction="lower", kept="run"
    ),
    Measure("migration_precision", title="right migrations", unit="share", digits=0, kept="run"),
    Measure("migration_recall", title="changes followed", unit="share", digits=0, kept="run"),
    Measure(
        "migration_delay",
        title="rounds until a client is in its new true cluster",
        unit="rounds",
        direction="lower",
        kept="run",
    ),
    Measure(
        "newcomer_delay",
        title="rounds until a newcomer is in its true cluster",
        unit="rounds",
        direction="lower",
        kept="run",
    ),
    Measure("data_shifts", title="shifts of data", unit="count", direction="neither", kept="round"),
    Measure(
        "data_shifts_assigned",
        title="shifts of clients with a cluster",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure(
        "data_shifts_new",
        title="first shifts since a client was placed or detected one",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure(
        "shifts_detected",
        title="shifts that clients detected",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure("shifts_detected_true", title="of these, with a cause", unit="count", kept="round"),
    Measure(
        "detection_delay_sum",
        title="rounds to these detections",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure(
        "matched_share", title="share of clients in their true cluster", unit="share", kept="round"
    ),
    Measure(
        "mismatched",
        title="clients that are not in their true cluster",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure(
        "migrations_correct", title="migrations into the true cluster", unit="count", kept="round"
    ),
    Measure(
        "true_cluster_changes",
        title="changes of a true cluster",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure(
        "changes_recovered",
        title="changes after which the client is right again",
        unit="count",
        kept="round",
    ),
    Measure(
        "recovery_delay_sum",
        title="rounds to these recoveries",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure(
        "newcomers_matched",
        title="newcomers that reached their true cluster",
        unit="count",
        kept="round",
    ),
    Measure(
        "newcomer_delay_sum",
        title="rounds that took",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure("neighbours", title="peers that a peer trusts, mean", direction="neither"),
    Measure(
        "neighbour_precision", title="share of these that are of its true cluster", unit="share"
    ),
    Measure("neighbour_recall", title="share of its true cluster that a peer trusts", unit="share"),
    Measure(
        "messages",
        title="replies that peers gave each other so far",
        unit="count",
        direction="lower",
    ),
    Measure(
        "discrepancy_sum",
        title="distances from client models to their cluster's, sum (FedGroup)",
        direction="lower",
        kept="round",
    ),
    Measure("discrepancy_mean", title="the same, mean (FlexCFL)", direction="lower", kept="round"),
    Measure("discrepancy_variance", title="the same, variance", direction="lower", kept="round"),
    Measure(
        "discrepancy_sum_mean",
        title="mean of the rounds' sums of distances",
        direction="lower",
        kept="run",
    ),
    Measure(
        "discrepancy_sum_variance", title="variance of these sums", direction="lower", kept="run"
    ),
    Measure("missing", title="replies that did not arrive", unit="count", direction="lower"),
    Measure(
        "nonfinite",
        title="replies that were not finite or not possible",
        unit="count",
        direction="lower",
    ),
    Measure("outliers", title="replies far longer than others", unit="count", direction="lower"),
    Measure(
        "late_used", title="late replies that counted so far", unit="count", direction="neither"
    ),
    Measure("late_dropped", title="late replies that did not", unit="count", direction="lower"),
    Measure(
        "excluded", title="clients that shall have no cluster", unit="count", direction="neither"
    ),
    Measure(
        "evaluated",
        title="clients of the sample that was scored",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure("members", title="clients that were ever accepted", unit="count", direction="neither"),
    Measure("scored", title="clients that were scored, where some were away", unit="count"),
    Measure(
        "scored_of",
        title="clients with a cluster, where some were away",
        unit="count",
        direction="neither",
    ),
    Measure(
        "rounds_with_clients_away",
        title="rounds in which some client was away",
        unit="count",
        direction="lower",
        kept="run",
    ),
)
EXTRA: tuple[Measure, ...] = (
    # A measure a line, such as Measure("worst_client", of=worst_client, unit="share"): nothing else
    # has to know it.
)
MEASURES = {measure.name: measure for measure in (*PLACED, *EXTRA)}

# Entries of records and summaries that are no measures: names, lists, statements, settings.
OTHER_ENTRIES = (
    *(
        "round",
        "method",
        "split",
        "partial",
        "seed",
        "data",
        "model",
        "target",
        "stopped",
        "failed",
    ),
    *(
        "accuracy_by_cluster",
        "accuracy_by_detector",
        "accuracy_interval",
        "final_interval",
        "final_partial",
    ),
    *(
        "cluster_sizes",
        "discrepancy_to_global",
        "bytes_by_operation",
        "messages_by_operation",
        "trust",
    ),
    *("attackers", "rule_weights", "privacy", "secret"),
)
# Columns of tables over seeds and settings that are no measures.
TABLE_ENTRIES = (
    "setting",
    "seeds",
    "reached",
    "reason",
    "against",
    "difference",
    "low",
    "high",
    "p",
    "verdict",
    "why",
)

SCORE = MEASURES["accuracy"]  # by which the best round is chosen, and by which runs stop early
MEANS = (
    "final_accuracy",
    "accuracy_all_clients",
    "best_accuracy",
    "bottom_decile",
)  # of every table over seeds
AGREEMENT = ("ari", "nmi")
HONEST = (
    "honest_accuracy",
    "honest_bottom_decile",
    "honest_ari",
    "attackers_alone",
)  # where clients attack
COMPARED = (
    "final_accuracy",
    "best_accuracy",
    "bottom_decile",
    "validation_accuracy",
)  # by these methods are compared

WORDS = (
    "name",
    "title",
    "head",
    "short",
    "unit",
    "digits",
    "direction",
)  # of a measure, that a description has


def measures_of(names: Iterable[str]) -> list[Measure]:
    """Measures by their names, in this order."""
    return [MEASURES[name] for name in names]


def measures_in(description: Mapping[str, Any]) -> tuple[Measure, ...]:
    """The measures that stand in every table of a run, behind those that have a place there:
    ``EXTRA``, and the user's own, as the run's description has them.

    Nothing is imported for that. What a damaged description has is left out.
    """
    settings = description.get("run")
    entries = settings.get("measures") if isinstance(settings, Mapping) else None
    measures = [_from_entry(entry) for entry in (entries if isinstance(entries, Sequence) else ())]
    return EXTRA + tuple(measure for measure in measures if measure is not None)


def _from_entry(entry: Any) -> Measure | None:
    """A measure of the user's own, as a description has it: its words, not its function. None of
    what is none."""
    if not isinstance(entry, Mapping):
        return None
    words = {name: value for name, value in entry.items() if name in WORDS}
    digits = words.pop("digits", None)
    if not all(isinstance(word, str) for word in words.values()) or not isinstance(
        digits, (int, type(None))
    ):
        return None
    try:
        return Measure(**words, digits=digits)
    except (ConfigError, TypeError):
        return None


def entry_of(measure: Measure, origin: str) -> dict[str, Any]:
    """A measure of the user's own as a description has it.

    Args:
        measure: the measure.
        origin: where it is imported from, ``module:name``.
    """
    words = {name: getattr(measure, name) for name in WORDS}
    return {
        "from": origin,
        **{name: value for name, value in words.items() if value not in ("", None)},
    }


def compared_by(word: str, own: Iterable[Measure] = ()) -> Measure:
    """The measure that a comparison calls so.

    Args:
        word: ``final``, ``best``, ``bottom``, ``validation``, or the name of a measure that stands
            in every table.
        own: those (``measures_in``).

    Raises ConfigError for another word, and for a measure without a better direction.
    """
    known = {measure.by: measure for measure in (*measures_of(COMPARED), *own)}
    if word not in known:
        raise ConfigError(unknown("measure", str(word), known))
    if known[word].direction == "neither":
        raise ConfigError(
            f'measure {word!r} says not which direction is better: give it direction="higher" or "lower"'
        )
    return known[word]
