"""The cost of FedSim: its round against FedAvg's, and its principal components against
scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.measure import Times, simulated, take_turns
from benchmarks.work import clients
from fedkin.core.randomness import Stream
from fedkin.measures.pca import principal_scores
from fedkin.methods import FedAvg, FedSim


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


def everything(turns: int) -> dict[str, Times]:
    """Both of the above."""
    return {"fedsim": rounds(4 * turns), "components": components(min(turns, 5))}
