"""The cost of FedSim: its round against FedAvg's, and its principal components against
scikit-learn's.

``python -m benchmarks.fedsim`` measures the paper's Table 3 on this machine: milliseconds of a
round by data set, with and without principal components. It prints the table. ``--write`` also
stores it for FedSim's page of results.
FEDKIN_DATA names the folder of the data.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from sklearn.decomposition import PCA

from benchmarks.measure import simulated
from benchmarks.report import machine
from benchmarks.turns import Times, take_turns
from benchmarks.work import clients
from fedkin.clustering.kmeans import kmeans
from fedkin.core.method import Method
from fedkin.core.randomness import Stream
from fedkin.measures.pca import principal_scores
from fedkin.methods import FedAvg, FedProx, FedSim
from fedkin.models import MODELS
from fedkin.models.model import prepare_jax
from fedkin.simulation.engine import SimulatedWorld
from papers.fedsim import round_times
from papers.fedsim.round_times import WITH_PCA, WITHOUT_PCA
from papers.recipe import Setting, load


def rounds(turns: int) -> Times:
    """A communication round of 20 of 1,000 MNIST-shaped clients, logistic regression, 20 epochs,
    without scoring."""
    world, _ = simulated(clients(1000), "784-10")
    methods = {"FedAvg": FedAvg(), "FedSim": FedSim(clusters=5)}
    states = {name: method.init(world, Stream(0)) for name, method in methods.items()}

    def one(name: str, turn: int) -> None:
        cohort = np.sort(Stream(0, turn, "cohort").rng().choice(1000, 20, replace=False))
        methods[name].round(world, states[name], cohort, Stream(0, turn, "round"))

    return take_turns({name: lambda turn, name=name: one(name, turn) for name in methods}, turns)


def components(turns: int) -> Times:
    """Scores of 20 gradients of 407,050 parameters that keep 95% of the variance, both ways the
    same."""
    rng = np.random.default_rng(0)
    strength = 0.7 ** np.arange(20, dtype=np.float32)  # directions that float32 can tell apart
    gradients = (rng.standard_normal((20, 20), np.float32) * strength) @ rng.standard_normal(
        (20, 407_050), np.float32
    )

    def full(_: int) -> np.ndarray:
        return PCA(n_components=0.95, svd_solver="full").fit_transform(gradients)

    ours = principal_scores(gradients)
    theirs = full(0)
    assert ours.shape == theirs.shape and np.allclose(
        np.abs(ours), np.abs(theirs), atol=1e-4 * np.abs(ours).max()
    )
    return take_turns({"Gram": lambda _: principal_scores(gradients), "full SVD": full}, turns, 1)


class ScikitLearnFedSim(FedSim):
    """FedSim with scikit-learn's K-means on reduced gradients."""

    def _clusters(
        self, gradients: Float[np.ndarray, "a P"] | None, clients: int, stream: Stream
    ) -> Int[np.ndarray, "a"]:
        assert gradients is not None
        points = self._points(gradients)
        return kmeans(points, self.clusters, stream.seed, max_iter=300)

    def _points(self, gradients: Float[np.ndarray, "a P"]) -> Float[np.ndarray, "a q"]:
        return principal_scores(gradients, self.variance)


class UnreducedFedSim(ScikitLearnFedSim):
    """FedSim with scikit-learn's K-means on the gradients as they are."""

    def _points(self, gradients: Float[np.ndarray, "a P"]) -> Float[np.ndarray, "a q"]:
        return gradients


def methods_of(clusters: int) -> dict[str, Method]:
    """The columns of the table, with so many clusters."""
    return {
        "FedAvg": FedAvg(),
        "FedProx": FedProx(mu=1.0),
        "FedSim": FedSim(clusters=clusters),
        WITH_PCA: ScikitLearnFedSim(clusters=clusters),
        WITHOUT_PCA: UnreducedFedSim(clusters=clusters),
    }


def rounds_of(setting: Setting, turns: int) -> Times:
    """Rounds of a row of Table 4, all methods on the same cohorts, from the initial model on.

    Args:
        setting: data, model and training.
        turns: that count.
    """
    data = load(setting.data, setting.data_options, setting.draw(0))
    model = MODELS[setting.model](data, **dict(setting.model_options))
    world = SimulatedWorld(data, model, setting.training)
    methods = methods_of(setting.clusters)
    states = {name: method.init(world, Stream(0)) for name, method in methods.items()}

    def one(name: str, turn: int) -> None:
        rng = Stream(0, turn + 1, "cohort").rng()
        cohort = np.sort(rng.choice(data.clients, setting.cohort, replace=False))
        stream = Stream(0, turn + 1, "round")
        states[name] = methods[name].round(world, states[name], cohort, stream)

    return take_turns({name: lambda turn, name=name: one(name, turn) for name in methods}, turns)


def medians(times: Mapping[Setting, Times]) -> dict[Setting, dict[str, float]]:
    """Median milliseconds of a round, by row and method.

    Args:
        times: seconds of each turn, by row and method.
    """
    return {
        setting: {name: 1000 * float(np.median(seconds)) for name, seconds in of_row.items()}
        for setting, of_row in times.items()
    }


def everything(turns: int) -> dict[str, Times]:
    """Both of the above."""
    return {"fedsim": rounds(4 * turns), "components": components(min(turns, 5))}


def main() -> None:
    """Measure Table 3 and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.fedsim", description=__doc__)
    parser.add_argument("--turns", type=int, default=30, help="rounds of each method that count")
    parser.add_argument("--write", action="store_true", help="store the times for the page")
    arguments = parser.parse_args()
    prepare_jax()  # before the first computation of any kind
    times = {setting: rounds_of(setting, arguments.turns) for setting in round_times.PRINTED}
    milliseconds = medians(times)
    note = round_times.NOTE.format(turns=arguments.turns)
    print(round_times.table(milliseconds), note, sep="\n\n")
    if arguments.write:
        round_times.write(machine(flower=False), arguments.turns, milliseconds)


if __name__ == "__main__":
    main()
