"""The list of all measures. It defines the names, headings and units that tables, charts,
comparisons and the documentation use.

``PLACED`` measures have a fixed column in certain tables. ``EXTRA`` measures are appended to every
table, and the user's measures come after them. To add a measure that is computed from the scored
clients, add one line to ``EXTRA``. ``lookup`` finds measures by name and in the description of a
run.
"""

from __future__ import annotations

from fedkin.measures.measure import Measure
from fedkin.measures.option_measures import OF_OPTIONS
from fedkin.measures.scores import SCORES, family
from fedkin.measures.worse_than_alone import WORSE_THAN_ALONE

PLACED = (
    Measure(
        "accuracy",
        title="accuracy: correct / test samples, over all clients together",
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
        title="final accuracy over all clients, including clients without a cluster",
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
    WORSE_THAN_ALONE,
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
        title="accuracy of the bottom 10% of clients in the best round",
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
        title="number of clusters at the end",
        head="clusters",
        unit="count",
        direction="neither",
        kept="run",
    ),
    Measure(
        "configured_clusters",
        title="configured number of clusters",
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
        title="wall-clock time of all rounds",
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
        title="agreement (ARI) of clusters in consecutive rounds",
        head="stability (ARI)",
        unit="index",
    ),
    Measure(
        "shift_precision",
        title="share of detections that followed a shift",
        head="detections with a cause",
        unit="share",
        digits=0,
        kept="run",
    ),
    Measure(
        "shift_recall",
        title="share of data shifts that were detected",
        head="of these detected",
        unit="share",
        digits=0,
        kept="run",
    ),
    Measure(
        "shift_delay",
        title="rounds from a shift to its detection",
        head="rounds to detection",
        unit="rounds",
        direction="lower",
        kept="run",
    ),
    Measure(
        "migration_precision",
        title="share of migrations into the true cluster",
        head="correct migrations",
        unit="share",
        digits=0,
        kept="run",
    ),
    Measure(
        "migration_recall",
        title="share of changes of a true cluster that clients followed",
        head="changes followed",
        unit="share",
        digits=0,
        kept="run",
    ),
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
        title="shifts of data of clients with a cluster",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure(
        "data_shifts_new",
        title="first shifts since a client was placed or detected a shift",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure(
        "shifts_detected", title="detected shifts", unit="count", direction="neither", kept="round"
    ),
    Measure(
        "shifts_detected_true", title="detected shifts that did happen", unit="count", kept="round"
    ),
    Measure(
        "detection_delay_sum",
        title="sum of rounds from shifts to their detections",
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
    Measure("changes_recovered", title="changes that clients followed", unit="count", kept="round"),
    Measure(
        "recovery_delay_sum",
        title="sum of rounds until these clients were in their true cluster",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure(
        "newcomers_matched", title="newcomers in their true cluster", unit="count", kept="round"
    ),
    Measure(
        "newcomer_delay_sum",
        title="sum of rounds until newcomers reached their true cluster",
        unit="count",
        direction="lower",
        kept="round",
    ),
    Measure("neighbours", title="mean number of peers that a peer trusts", direction="neither"),
    Measure(
        "neighbour_precision", title="share of trusted peers in the true cluster", unit="share"
    ),
    Measure("neighbour_recall", title="share of its true cluster that a peer trusts", unit="share"),
    Measure("messages", title="replies between peers so far", unit="count", direction="lower"),
    Measure(
        "discrepancy_sum",
        title="sum of distances from client models to their cluster models (FedGroup)",
        direction="lower",
        kept="round",
    ),
    Measure(
        "discrepancy_mean",
        title="mean of distances from client models to their cluster models (FlexCFL)",
        direction="lower",
        kept="round",
    ),
    Measure(
        "discrepancy_variance",
        title="variance of distances from client models to their cluster models",
        direction="lower",
        kept="round",
    ),
    Measure(
        "discrepancy_sum_mean",
        title="mean over rounds of the sum of distances",
        direction="lower",
        kept="run",
    ),
    Measure(
        "discrepancy_sum_variance",
        title="variance over rounds of the sum of distances",
        direction="lower",
        kept="run",
    ),
    Measure("missing", title="replies that did not arrive", unit="count", direction="lower"),
    Measure("nonfinite", title="nonfinite or impossible replies", unit="count", direction="lower"),
    Measure("outliers", title="replies with a far larger norm", unit="count", direction="lower"),
    *OF_OPTIONS,
    Measure(
        "excluded", title="clients permanently without a cluster", unit="count", direction="neither"
    ),
    Measure(
        "unranked",
        title="clients with too few test samples to be ranked",
        head="clients not ranked",
        unit="count",
        direction="neither",
    ),
    Measure(
        "evaluated",
        title="number of clients in the scored sample",
        unit="count",
        direction="neither",
        kept="round",
    ),
    Measure("members", title="clients that were ever accepted", unit="count", direction="neither"),
    Measure("scored", title="number of scored clients, if some were away", unit="count"),
    Measure(
        "scored_of",
        title="number of clients with a cluster, if some were away",
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
    # One measure per line, such as Measure("worst_client", of=worst_client, unit="share"). Other
    # files need no change.
)
OTHER_SCORES = tuple(measure for score in SCORES for measure in family(score))
MEASURES = {measure.name: measure for measure in (*PLACED, *OTHER_SCORES, *EXTRA)}

SCORE = MEASURES["accuracy"]  # of classes; it determines the best round and early stopping
AGREEMENT = ("ari", "nmi")
# Measures by which methods can be compared; of numbers, ``RunScores.compared`` has their names.
COMPARED = ("final_accuracy", "best_accuracy", "bottom_decile", "validation_accuracy")
