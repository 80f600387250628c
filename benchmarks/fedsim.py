"""The cost of FedSim: its round against FedAvg's, and its principal components against
scikit-learn's.

``python -m benchmarks.fedsim`` measures the paper's Table 3 on this machine: milliseconds of a
round by data set, with and without principal components. It prints the table and writes no file.
FEDKIN_DATA names the folder of the data.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from sklearn.decomposition import PCA

from benchmarks.measure import Times, simulated, take_turns
from benchmarks.work import clients
from fedkin.clustering.kmeans import kmeans
from fedkin.core.method import Method
from fedkin.core.randomness import Stream
from fedkin.measures.pca import principal_scores
from fedkin.methods import FedAvg, FedProx, FedSim
from fedkin.models import MODELS
from fedkin.models.model import prepare_jax
from fedkin.simulation.engine import SimulatedWorld
from papers.fedsim.recipes import FEMNIST, GOODREADS, MEX, MNIST
from papers.recipe import Setting, load
from papers.tables_markdown import markdown

WITH_PCA = "with PCA"
WITHOUT_PCA = "without PCA"
# Milliseconds of a round: FedAvg, FedProx, FedSim (Table 3); saved by PCA (section 5.3).
PRINTED: dict[Setting, tuple[float, float, float, float]] = {
    MNIST: (2929.3, 1423.7, 2858.3, 230.0),
    FEMNIST: (4433.5, 5855.8, 4443.4, 469.1),
    MEX: (759.9, 949.9, 1049.5, 19.3),
    GOODREADS: (541.8, 716.7, 646.8, 92.9),
}
NOTE = """\
Milliseconds of a communication round without scoring, median of {turns} turns on the same cohorts;
in brackets: the paper's, on its machines. The last three columns have FedSim with scikit-learn's
K-means, as in the authors' code: with principal components, without them, and the difference."""


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


def table(times: Mapping[Setting, Times]) -> str:
    """Table 3 as Markdown: ours in milliseconds, the paper's in brackets.

    Args:
        times: seconds of each turn, by row and method.
    """
    lines = []
    for setting, of_row in times.items():
        median = {name: 1000 * float(np.median(seconds)) for name, seconds in of_row.items()}
        *printed, saved = PRINTED[setting]
        methods = zip(("FedAvg", "FedProx", "FedSim"), printed, strict=True)
        lines.append(
            [
                setting.row,
                *(f"{median[name]:.1f} ({theirs})" for name, theirs in methods),
                f"{median[WITH_PCA]:.1f}",
                f"{median[WITHOUT_PCA]:.1f}",
                f"{median[WITHOUT_PCA] - median[WITH_PCA]:.1f} ({saved})",
            ]
        )
    return markdown(["", "FedAvg", "FedProx", "FedSim", WITH_PCA, WITHOUT_PCA, "saved"], lines)


def everything(turns: int) -> dict[str, Times]:
    """Both of the above."""
    return {"fedsim": rounds(4 * turns), "components": components(min(turns, 5))}


def main() -> None:
    """Measure Table 3 and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.fedsim", description=__doc__)
    parser.add_argument("--turns", type=int, default=30, help="rounds of each method that count")
    turns = parser.parse_args().turns
    prepare_jax()  # before the first computation of any kind
    times = {setting: rounds_of(setting, turns) for setting in PRINTED}
    print(table(times), NOTE.format(turns=turns), sep="\n\n")


if __name__ == "__main__":
    main()
