"""FedAvg against the central fit of the same linear model, on natural federations.

``python -m benchmarks.central_fits`` trains FedAvg with all clients in each round, and fits the
same model exactly on the pooled rows. It prints both test losses and their ratio. FEDKIN_DATA names
the folder of the data.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import fedkin as fk
from benchmarks.client_fits import COUNTS, SQUARES, Rows, fit
from fedkin.data.federated import FederatedData

STRENGTH = 1e-3


class Recipe(NamedTuple):
    """How FedAvg trains on a set: the learning rate and the number of rounds.

    FedAvg of unequal clients ends near the central fit, and nearer with a lower rate. Clients of
    few rows, as in exam, take few steps in a round, so they need more rounds.
    """

    rate: float
    rounds: int


RECIPES = {
    "exam": Recipe(0.1, 300),
    "chem97": Recipe(0.1, 30),
    "azpro": Recipe(0.03, 100),
    "randhie": Recipe(0.01, 100),
    "flights": Recipe(0.01, 100),
}


class Losses(NamedTuple):
    """Test losses per sample: squared error or Poisson deviance, in units of scaled labels."""

    federated: float
    central: float

    @property
    def ratio(self) -> float:
        """The loss of FedAvg over the loss of the central fit."""
        return self.federated / self.central


def measure(data: FederatedData, recipe: Recipe, seed: int) -> Losses:
    """FedAvg and the central fit of one draw."""
    model = fk.models.mclr(data)
    work = fk.SGD(epochs=1, batch_size=32, lr=recipe.rate, clip_norm=5.0)
    run = fk.simulate(
        fk.FedAvg(), data, model, rounds=recipe.rounds, cohort=data.clients, local=work, seed=seed
    )
    weight, bias = np.split(run.models[0].astype(np.float64), [data.x.shape[1]])
    train = rows_of(data, data.train.rows)
    test = rows_of(data, data.test.rows)
    central = fit(train, np.zeros(1, int), 1, STRENGTH)
    federated = np.concatenate([bias, weight])[None]
    return Losses(
        federated=float(test.losses(test.predict(federated)).mean()),
        central=float(test.losses(test.predict(central)).mean()),
    )


def rows_of(data: FederatedData, rows: np.ndarray) -> Rows:
    """Rows of all clients, as those of one."""
    loss = data.task_type.loss
    assert loss is not None
    y = data.y[rows].astype(np.float64)
    label = y if y.ndim == 1 else y[:, 0]
    offset = np.zeros(len(y)) if y.ndim == 1 else y[:, 1]
    x = np.column_stack([np.ones(len(rows)), data.x[rows].astype(np.float64)])
    kind = COUNTS if loss.name == COUNTS else SQUARES
    return Rows(kind, x[None], label[None], offset[None])


def main() -> None:
    """Measure the sets and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    print("| set | FedAvg | central fit | ratio |\n|---|---|---|---|")
    for name in options.sets:
        losses = []
        for draw in range(options.draws):
            source = fk.data.natural(name, seed=draw)
            reader_options = source.reader_options()
            if source.task_type == "regression":
                reader_options["loss"] = SQUARES
            data = fk.data.from_pandas(source.table, **reader_options)
            losses.append(measure(data, RECIPES[name], draw))
        federated = np.mean([one.federated for one in losses])
        central = np.mean([one.central for one in losses])
        print(
            f"| {name} | {federated:.4f} | {central:.4f} | {federated / central:.4f} |", flush=True
        )


if __name__ == "__main__":
    main()
