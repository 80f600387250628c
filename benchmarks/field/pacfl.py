"""PACFL on MNIST in four rotations: 128 clients, p = 3 per label, pixels 0 .. 1. Bar: ARI 1.0 with
beta 20 by the code's rule. It also prints the beta that true principal angles need.

    python -m benchmarks.field.pacfl
"""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.field.rotations import FOUR, rotated_mnist
from fedkin.core.randomness import Stream
from fedkin.methods.pacfl import PACFL
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld

RULES = {
    "as_coded": (3.5, 20.0),
    "smallest": (3.5, 4.9, 20.0),
    "sum": (1100.0,),
    "same_rank": (2000.0,),
}
LINKAGES = ("weighted", "average")  # the code calls the first one "average"


def main() -> None:
    """Angles within and across rotations, and ARI, for three seeds."""
    for seed in (1, 2, 3):
        data = rotated_mnist(128, FOUR, seed, train=1.0)
        truth = data.true_clusters
        assert truth is not None
        same = truth[:, None] == truth
        others = ~np.eye(len(truth), dtype=bool)
        for angle, thresholds in RULES.items():
            for threshold, linkage in product(thresholds, LINKAGES):
                method = PACFL(
                    p=3,
                    angle=angle,  # type: ignore[arg-type]
                    threshold=threshold,
                    linkage=linkage,  # type: ignore[arg-type]
                )
                state = method.init(SimulatedWorld(data, mclr(data)), Stream(seed, 0, "init"))
                near = state.angles[same & others]
                far = state.angles[~same]
                ari = adjusted_rand_score(truth, state.assignment)
                bar = (
                    " (bar 1.0)"
                    if (angle, threshold) in (("as_coded", 20.0), ("smallest", 3.5))
                    else ""
                )
                print(
                    f"seed {seed} {angle:9} {linkage:8} beta {threshold:6.1f}: {near.min():.1f} to "
                    f"{near.max():.1f} degrees within, {far.min():.1f} to {far.max():.1f} across; "
                    f"{state.clusters} clusters, ARI {ari:.3f}{bar}"
                )


if __name__ == "__main__":
    main()
