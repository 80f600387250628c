"""Prints whether clusters help: the error of forecasts by cluster, and of three kinds of models.

    python examples/forecast/clusters.py runs/clusters --shared runs/shared --local runs/local

Errors are those of the test period. MASE is the mean absolute error, divided by the error of the
seasonal naive forecast (the value of the same month one year before) in the client's training
period.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

import fedkin as fk

MASE = "mean_absolute_scaled_error"
RMSE = "root_mean_squared_error"
NAIVE = "seasonal_naive_error"
LEAST_GAIN = 0.02  # a smaller gain over the shared model may be chance
HEADS = {
    "cluster": "cluster",
    "clients": "industries",
    MASE: "MASE",
    NAIVE: "MASE of seasonal naive",
    RMSE: "RMSE",
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clusters", type=Path, help="folder of the run with clusters")
    parser.add_argument("--shared", type=Path, required=True, help="folder of the run of FedAvg")
    parser.add_argument("--local", type=Path, required=True, help="folder of the local models")
    options = parser.parse_args()

    run = fk.Run.load(options.clusters)
    clusters = run.evaluate(split="test")
    shared = fk.Run.load(options.shared).evaluate(split="test").summary
    local = fk.Run.load(options.local).evaluate(split="test").summary

    by_cluster = clusters.clusters.loc[:, list(HEADS)].set_axis(list(HEADS.values()), axis=1)
    print(by_cluster.round(3).to_string(index=False))
    if line := without_test_months(run.clients):
        print(line)
    print()
    rows = {"one shared model": shared, "clusters": clusters.summary, "local models": local}
    by_model = pd.DataFrame(
        [{"model": name, "MASE": one[MASE], "RMSE": one[RMSE]} for name, one in rows.items()]
    )
    print(by_model.round(3).to_string(index=False))
    print()
    print(verdict(shared, clusters.summary, local))


def without_test_months(clients: pd.DataFrame) -> str:
    """A line that names the industries whose series end before the test period, so that no error
    counts them; empty if there are none."""
    names = clients.loc[clients["test_samples"] == 0, "name"]
    if not len(names):
        return ""
    return f"without a month in the test period, so in no cluster above: {', '.join(names)}"


def verdict(shared: dict, clusters: dict, local: dict) -> str:
    """A sentence about the clusters, and one about the best of all."""
    gain = 1 - (clusters[RMSE] / shared[RMSE]) ** 2
    text = "Clusters do not help"
    if gain > LEAST_GAIN:
        text = "Clusters help"
    text += f": their squared error is {1 - gain:.0%} of the shared model's."
    errors = {
        "one shared model": shared[MASE],
        "clusters": clusters[MASE],
        "local models": local[MASE],
        "the seasonal naive forecast": clusters[NAIVE],
    }
    best = min(errors, key=lambda name: errors[name])
    return f"{text}\nThe lowest MASE has: {best} ({errors[best]:.3f})."


if __name__ == "__main__":
    main()
