"""How many clients are worse off by the rule of ``fedkin.measures.do_no_harm`` than alone.

``python -m benchmarks.do_no_harm`` measures it on natural federations, with linear models that are
fitted exactly. FEDKIN_DATA names the folder of the data. ``--write`` also writes the page of
results, ``--sets exam chem97`` measures some sets only.

In a draw, each client has n random rows for everything: the encoding and scaling of the table, its
own model, the federation's models and the choice. All its other rows measure the truth. The whole
procedure (own models, clusters and the global model) is repeated without each tenth of the rows,
and predicts this tenth. The strength of the own models' penalty is the best one of all clients in
these predictions.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int
from scipy.special import logit

from benchmarks.client_fits import CLASSES, COUNTS, SQUARES, Rows, fit, fit_clusters
from benchmarks.harm_results import HEAD, Outcome, Result, page
from benchmarks.loss_gaps import LossGap
from fedkin.data import FederatedData, from_pandas
from fedkin.data.natural import SPLIT, NaturalTable, natural
from fedkin.measures.do_no_harm import OWN, HeldOutGains, choose_models, held_out_gains

FOLDS = 10
CLUSTERS = 3
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SHARED_STRENGTH = 10.0
MARGIN = 1.02  # a client loses more than 2%
FURTHER_DRAWS = 15  # where the mean loss is higher than the one of the paired test
PAGE = Path("docs/measured-do-no-harm.md")
LOSSES = {"regression": SQUARES, "forecast": SQUARES, "count": COUNTS, "classification": CLASSES}

# The sets on which the rule was made, and those that it had not seen, with the rows of a client
# for training and the least rows for the test.
KNOWN = (
    ("chem97", 20, 90),
    ("chem97", 60, 90),
    ("azpro", 20, 90),
    ("azpro", 60, 90),
    ("churn", 20, 60),
    ("insteval", 20, 90),
    ("insteval", 60, 90),
    ("randhie_plan", 20, 90),
    ("randhie_plan", 60, 90),
    ("tv16", 20, 90),
    ("tv16", 60, 90),
)
NEW = (
    ("loans", 20, 90),
    ("loans", 60, 90),
    ("txhousing_lags", 20, 90),
    ("txhousing_lags", 60, 90),
    ("employment", 20, 90),
    ("employment", 60, 90),
    ("exam", 20, 30),
    ("hsb82", 20, 20),
)


@dataclass(frozen=True)
class Federation:
    """The table of a natural federation.

    Attributes:
        source: the table and what its columns are.
        loss: of the task type.
        client: number of each row's client.
        unit: number of the unit whose rows stay together.
    """

    source: NaturalTable
    loss: str
    client: Int[np.ndarray, "M"]
    unit: Int[np.ndarray, "M"]


def federation(source: NaturalTable) -> Federation:
    """A natural federation with the numbers of its clients and units."""
    unit = source.about.unit
    table = source.table
    return Federation(
        source=source,
        loss=LOSSES[source.task_type],
        client=pd.factorize(table[source.client])[0],
        unit=pd.factorize(table[unit])[0] if unit else np.arange(len(table)),
    )


def read(
    source: NaturalTable, train: Int[np.ndarray, "t"], test: Int[np.ndarray, "s"]
) -> FederatedData:
    """Some rows of a table as fedkin reads them: encoded and scaled by the training rows. The
    training rows come first.

    Args:
        source: the table and what its columns are.
        train: numbers of the training rows.
        test: numbers of the test rows.
    """
    options = source.reader_options()
    if options["task"] == "forecast":
        # Rows are samples without a time, as the rule was made.
        options["task"] = "regression"
        for name in ("time", "season", "lags"):
            options.pop(name)
    split = np.repeat(["train", "test"], [len(train), len(test)])
    rows = source.table.iloc[np.concatenate([train, test])].assign(**{SPLIT: split})
    categories = [name for name in source.about.categories if name in source.features]
    return from_pandas(rows.reset_index(drop=True), **options, categories=categories)


@dataclass(frozen=True)
class Draw:
    """Training rows of all clients, and their other rows."""

    train: Rows
    test: list[Rows]  # one for each client, as their numbers differ
    cap: float  # the largest loss of a sample in the choice


def draw(table: Federation, samples: int, least_test_rows: int, seed: int) -> Draw:
    """Random training rows of each client that has enough rows; the others are the test."""
    rng = np.random.default_rng(seed)
    training = []
    testing = []
    for client in range(table.client.max() + 1):
        rows = np.flatnonzero(table.client == client)
        units = rng.permutation(np.unique(table.unit[rows]))
        order = rows[
            np.argsort(np.argsort(units)[np.searchsorted(np.sort(units), table.unit[rows])])
        ]
        own = order[:samples]
        others = order[samples:]
        others = others[~np.isin(table.unit[others], table.unit[own])]
        if len(own) == samples and len(others) >= least_test_rows:
            training.append(rng.permutation(own))
            testing.append(others)
    data = read(table.source, np.concatenate(training), np.concatenate(testing))
    trained_rows = samples * len(training)
    rows = rows_of(data, table.loss, trained_rows)
    train = rows.reshaped(len(training), samples)
    ends = trained_rows + np.cumsum([0, *map(len, testing)])
    parts = [rows.part(start, end) for start, end in zip(ends, ends[1:], strict=False)]
    return Draw(train, parts, 9.0 if table.loss == SQUARES else np.inf)


def rows_of(data: FederatedData, loss: str, trained_rows: int) -> Rows:
    """All rows of a federation as those of one client, with a first column of ones.

    Args:
        data: the federation; its training rows come first.
        loss: of the task type.
        trained_rows: number of training rows.
    """
    x = np.hstack([np.ones((len(data.x), 1)), data.x.astype(np.float64)])
    y = data.y.astype(np.float64)
    offset = np.zeros(len(x))
    if loss == COUNTS:
        # The offset has the exposure and the pooled rate.
        offset = y[:, 1]
        y = y[:, 0]
    elif loss == CLASSES:
        offset += logit(y[:trained_rows].mean())
    return Rows(loss, x[None], y[None], offset[None])


@dataclass(frozen=True)
class Models:
    """The own models by strength of their penalty [L N d], the clusters' and the global model of
    each client [N d]."""

    own: Float64[np.ndarray, "L N d"]
    cluster: Float64[np.ndarray, "N d"]
    shared: Float64[np.ndarray, "N d"]


def trained(rows: Rows, seed: int) -> Models:
    """The whole procedure on some rows."""
    clients = len(rows.x)
    each = np.arange(clients)
    shared = fit(rows, np.zeros(clients, int), 1, SHARED_STRENGTH)
    own = np.stack([fit(rows, each, clients, strength) for strength in STRENGTHS])
    pulled = fit(rows, each, clients, 10.0, np.tile(shared, (clients, 1)))
    models, group = fit_clusters(rows, pulled, CLUSTERS, SHARED_STRENGTH, seed)
    return Models(own, models[group], np.tile(shared, (clients, 1)))


def measure(table: Federation, samples: int, least_test_rows: int, seed: int) -> Outcome:
    """One draw: hold out, choose, and look at the other rows."""
    drawn = draw(table, samples, least_test_rows, seed)
    train = drawn.train
    clients = len(train.x)
    fold = np.arange(samples) % FOLDS
    own_losses = np.zeros((len(STRENGTHS), clients, samples))
    mixed_losses = np.zeros((len(STRENGTHS), 2, clients, samples))
    whole_losses = np.zeros((2, clients, samples))
    for number in range(FOLDS):
        held_out = fold == number
        models = trained(train.at(~held_out), seed)
        rows = train.at(held_out)
        own = [rows.predict(weights) for weights in models.own]
        others = [rows.predict(models.cluster), rows.predict(models.shared)]
        for a, other in enumerate(others):
            whole_losses[a][:, held_out] = rows.losses(other)
        for s, mean in enumerate(own):
            own_losses[s][:, held_out] = rows.losses(mean)
            for a, other in enumerate(others):
                mixed_losses[s, a][:, held_out] = rows.losses((mean + other) / 2)
    strength = int(np.minimum(own_losses, drawn.cap).mean(axis=(1, 2)).argmin())

    client = np.repeat(np.arange(clients), samples)
    own_loss = own_losses[strength].ravel()
    halves = mixed_losses[strength].reshape(2, -1)
    service = choose_models(held_out_gains(own_loss, halves, client, clients, drawn.cap))
    whole = held_out_gains(own_loss, whole_losses.reshape(2, -1), client, clients, drawn.cap)
    paired = paired_choice(whole)

    final = trained(train, seed)
    truth = np.zeros((clients, 5))  # own, half cluster, half global, cluster, global
    for c, rows in enumerate(drawn.test):
        mean = rows.predict(final.own[strength, [c]])
        cluster = rows.predict(final.cluster[[c]])
        shared = rows.predict(final.shared[[c]])
        served = (mean, (mean + cluster) / 2, (mean + shared) / 2, cluster, shared)
        truth[c] = [rows.losses(each).mean() for each in served]
    each = np.arange(clients)
    loss = truth[each, service.model]
    paired_loss = truth[each, np.where(paired == OWN, 0, paired + 2)]
    alone = truth[:, 0]
    return Outcome(
        clients=clients,
        gain=service.gain,
        harmed=float((loss > alone * (1 + 1e-9)).mean()),
        harmed_2=float((loss > alone * MARGIN).mean()),
        loss=float(loss.mean() / alone.mean()),
        paired_harmed_2=float((paired_loss > alone * MARGIN).mean()),
        paired_loss=float(paired_loss.mean() / alone.mean()),
    )


def paired_choice(gains: HeldOutGains) -> Int[np.ndarray, "N"]:
    """The choice of the paired t-test alone: the gate never opens."""
    return choose_models(gains, gate=1.0).model


def result_of(name: str, samples: int, least_test_rows: int, draws: int) -> Result:
    """Measure a set with several draws."""
    table = federation(natural(name))
    outcomes = [measure(table, samples, least_test_rows, seed) for seed in range(draws)]
    means = {
        field.name: float(np.mean([getattr(one, field.name) for one in outcomes]))
        for field in fields(Outcome)
    }
    mean = replace(outcomes[0], **{**means, "clients": outcomes[0].clients})
    gap = LossGap.of([one.loss - one.paired_loss for one in outcomes])
    further = None
    if gap.mean > 0:
        seeds = range(draws, draws + FURTHER_DRAWS)
        others = [measure(table, samples, least_test_rows, seed) for seed in seeds]
        further = LossGap.of([one.loss - one.paired_loss for one in others])
    return Result(
        name=name,
        samples=samples,
        new=(name, samples, least_test_rows) in NEW,
        outcome=mean,
        gap=gap,
        further=further,
    )


def main() -> None:
    """Measure the sets, print a row for each, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", help="names of sets; all by default")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    options = parser.parse_args()
    # Constant columns of small draws are no news.
    logging.getLogger("fedkin").setLevel(logging.ERROR)
    results = []
    print(HEAD)
    for name, samples, least_test_rows in (*KNOWN, *NEW):
        if options.sets and name not in options.sets:
            continue
        results.append(result_of(name, samples, least_test_rows, options.draws))
        print(results[-1].line, flush=True)
    if options.write:
        PAGE.write_text(page(results, options.draws))


if __name__ == "__main__":
    main()
