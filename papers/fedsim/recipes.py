"""FedSim (Neurocomputing 2022), Tables 4 and 7 and Figures 3, 5 and 7 to 10, at the paper's
settings: logistic regression, E = 20, B = 10, and 35 seeds. Variants, other
readings of the data and Figures 4 and 8 have fewer. The numbers next to the settings are the
paper's: points of accuracy gained over FedAvg and over FedProx, averaged over the rounds, and their
deviation over the rounds. Its FEMNIST has 19,923 samples, and FedProx's has 18,345. Its synthetic
data are other draws of the generator, except one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.analysis.non_iid_index import non_iid_index
from fedkin.clustering.kmeans import kmeans
from fedkin.core.method import Method
from fedkin.core.randomness import Stream
from fedkin.measures.pca import explained_variance, principal_scores
from fedkin.methods import FedAvg, FedProx, FedSim
from fedkin.methods.fedsim import QUIRKS
from fedkin.models import MODELS
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.gradients import Gradients
from papers import femnist_draws, mnist_draws, synthetic_draws
from papers.fedsim import authors_draw
from papers.recipe import Cell, Options, Setting, load, run

SEEDS = tuple(range(35))
HUNDRED = tuple(range(100))
AS_CODED = "FedSim, as coded"
METHODS = {
    "FedAvg": lambda m: FedAvg(),
    # The paper does not say its mu; 1 is the FedProx paper's for most sets.
    "FedProx": lambda m: FedProx(mu=1.0),
    "FedSim": lambda m: FedSim(clusters=m),
    AS_CODED: lambda m: FedSim(clusters=m, as_coded=QUIRKS),
    "FedSim, round robin": lambda m: FedSim(clusters=m, clustering="round_robin"),
}
THREE = {name: METHODS[name] for name in ("FedAvg", "FedProx", "FedSim")}


def _row(
    row: str,
    data: str,
    options: Options,
    lr: float,
    m: int,
    cohort: int,
    rounds: int,
    draw: int = 0,
) -> Setting:
    return Setting(
        row=row,
        data=data,
        data_options=options,
        model="mclr",
        model_options=(),
        lr=lr,
        clusters=m,
        rounds=rounds,
        cohort=cohort,
        seeds=SEEDS,
        draws=(draw,),
        seconds=6,
    )


MNIST = replace(
    _row(row="MNIST", data="mnist", options=(), lr=0.03, m=5, cohort=20, rounds=30),
    draws=mnist_draws.MATCHED,
)
MNIST_OTHER = mnist_draws.on_other_draw(MNIST)
FEMNIST = _row(
    row="FEMNIST, shared images",
    data="femnist",
    options=(
        ("classes", 26),
        ("classes_per_client", 3),
        ("shared_images", True),
        ("shuffled", True),
    ),
    lr=0.003,
    m=9,
    cohort=20,
    rounds=500,
)
FEMNIST = replace(FEMNIST, draws=femnist_draws.FEDSIM, seconds=75)
FEMNIST_FIVE = replace(
    FEMNIST,
    row="FEMNIST, shared images, five labels",
    data_options=(("classes", 26), ("shared_images", True), ("shuffled", True)),
    draws=femnist_draws.FEDSIM_FIVE,
    seeds=SEEDS[:3],
    deviation="five labels a client, of which the file's number of samples is no multiple",
)
FEMNIST_OWN = replace(
    FEMNIST_FIVE,
    row="FEMNIST, own images",
    data_options=(("classes", 26), ("shuffled", True)),
    seeds=SEEDS[:10],
    deviation="five labels a client, and no image twice, where the paper's has them",
)
MEX = replace(
    _row(row="Fed-MEx, its test part", data="mex", options=(), lr=0.01, m=3, cohort=10, rounds=200),
    deviation="250 of the 1,184 samples in the authors' files",
)
MEX_PUBLISHED = replace(
    MEX,
    row="Fed-MEx",
    data_options=(("part", "published"),),
    deviation="",
    needs="Fed-MEx's published files (downloaded where a network is)",
)
# Of the authors' files only the order is unknown in which their file system listed them. If they
# ran Python 2, as the order of their users says, it does not matter, and draw 0 is their draw. The
# other draws show how much it matters.
MEX_RECORDED = replace(
    MEX,
    row="Fed-MEx, from the recordings",
    data_options=(("part", "recordings"), ("repeats", True)),
    draws=(0, 1, 2, 3, 4),
    deviation="drawn from the recordings: only the authors' order of files is unknown",
    needs="MEx's recordings (downloaded where a network is)",
)
GOODREADS = _row(
    row="Fed-Goodreads", data="goodreads", options=(), lr=0.3, m=11, cohort=20, rounds=250
)

_PARAMETERS: dict[str, Options] = {
    "IID": (("iid", True),),
    **{
        f"({a}, {a})": (("alpha", float(a)), ("beta", float(a)))
        for a in ("0", "0.25", "0.5", "0.75", "1")
    },
}


def _synthetic(name: str) -> Setting:
    """A row on draws that resemble the authors' file: run after run, each in its turn."""
    setting = _row(
        row=name, data="synthetic", options=_PARAMETERS[name], lr=0.01, m=5, cohort=10, rounds=100
    )
    return replace(setting, draws=synthetic_draws.matched("fedsim", name))


SYNTHETIC = {name: _synthetic(name) for name in _PARAMETERS}
_FILE = (("folder", "synthetic"), ("file", "synthetic_fedsim_0_0_full.npz"))
# The only file that is complete.
AUTHORS = _row(
    row="(0, 0), the authors' file",
    data="published",
    options=_FILE,
    lr=0.01,
    m=5,
    cohort=10,
    rounds=100,
)
# Of this row the test samples are published, and the seed of the draw was found.
AUTHORS_QUARTER = _row(
    row="(0.25, 0.25), the authors' draw",
    data="fedsim_quarter",
    options=(),
    lr=0.01,
    m=5,
    cohort=10,
    rounds=100,
    draw=authors_draw.SEED,
)
OF_AUTHORS = {"(0, 0)": AUTHORS, "(0.25, 0.25)": AUTHORS_QUARTER}
for _name in OF_AUTHORS:
    SYNTHETIC[_name] = replace(SYNTHETIC[_name], deviation="other draws than the authors'")
UNMATCHED = {
    name: replace(
        setting,
        row=f"{name}, other draws",
        draws=synthetic_draws.unmatched("fedsim", name),
        seeds=SEEDS[:10],
        deviation="draws that do not resemble the authors' file",
    )
    for name, setting in SYNTHETIC.items()
}

# Over FedAvg and over FedProx: points, deviation.
Published = tuple[tuple[float, float], tuple[float, float]]
TABLE_4: dict[Setting, Published] = {
    FEMNIST: ((11.11, 2.88), (9.08, 3.63)),
    FEMNIST_FIVE: ((11.11, 2.88), (9.08, 3.63)),
    FEMNIST_OWN: ((11.11, 2.88), (9.08, 3.63)),
    MNIST: ((7.32, 2.69), (5.65, 4.35)),
    MNIST_OTHER: ((7.32, 2.69), (5.65, 4.35)),
    MEX: ((2.08, 1.26), (2.68, 0.78)),
    MEX_PUBLISHED: ((2.08, 1.26), (2.68, 0.78)),
    MEX_RECORDED: ((2.08, 1.26), (2.68, 0.78)),
    GOODREADS: ((1.86, 0.73), (1.98, 0.64)),
}
TABLE_7: dict[str, Published] = {
    "IID": ((-8.92, 2.04), (11.99, 2.90)),
    "(0, 0)": ((6.93, 4.78), (5.83, 4.17)),
    "(0.25, 0.25)": ((11.21, 6.39), (1.87, 3.01)),
    "(0.5, 0.5)": ((3.61, 6.23), (-0.06, 2.47)),
    "(0.75, 0.75)": ((-3.23, 4.16), (-6.22, 2.74)),
    "(1, 1)": ((-6.18, 2.83), (-6.98, 2.83)),
}

SIGNIFICANT_PUBLISHED = {  # better than both baselines (section 5)
    FEMNIST: "after the first round",
    MNIST: "after the first round",
    MEX_PUBLISHED: "after 37 rounds",
    GOODREADS: "94% of the rounds",
}


def shares_cohorts(setting: Setting) -> bool:
    """Whether neighbouring seeds of a row share all but one cohort, as in the authors' code: then
    the seeds are no independent values, and their mean has no interval."""
    return setting in OF_AUTHORS.values()


def _cell(table: str, setting: Setting, column: str, method: Callable[[int], Method]) -> Cell:
    """All seeds for the paper's three methods, and on MNIST for variants of FedSim; ten for other
    variants. On the authors' data the authors' cohorts."""
    few = column not in THREE and setting is not MNIST
    cut = replace(setting, seeds=setting.seeds[:10]) if few else setting
    return Cell(
        table=table,
        setting=cut,
        column=column,
        method=method,
        published=None,
        selection="seed_plus_round" if shares_cohorts(setting) else "uniform",
        variant_of="FedSim" if column == AS_CODED else "",
    )


FIGURE_8 = [  # after ten rounds
    Cell(
        table="Fig. 8",
        setting=replace(setting, rounds=10, seeds=SEEDS[:5], seconds=5),
        column="FedSim",
        method=METHODS["FedSim"],
        published=None,
    )
    for setting in (MNIST, FEMNIST, MEX, GOODREADS)
]
FIGURE_4 = [  # all clients, one trial
    Cell(
        table="Fig. 4",
        setting=replace(setting, rounds=10, seeds=(0,), seconds=10),
        column="FedSim",
        method=METHODS["FedSim"],
        published=None,
    )
    for setting in (MNIST, FEMNIST, MEX, GOODREADS)
]
PLANE_CLUSTERS = 10
# More of alpha would only repeat these: it changes no label.
ALPHAS = (0.0, 0.5, 1.0)
BETAS = (0.0, 0.5, 1.0)
FIGURE_10 = [
    Cell(
        table="Fig. 10",
        setting=replace(
            SYNTHETIC["(1, 1)"],
            row=f"beta {beta:g}",
            data_options=options,
            draws=(),
            seeds=HUNDRED,
            seconds=1,
        ),
        column=f"{alpha:g}",
        method=METHODS["FedAvg"],
        published=None,
    )
    for beta in BETAS
    for alpha in ALPHAS
    for options in [(("alpha", alpha), ("beta", beta))]
]

CELLS_4 = [
    _cell("4", setting, column, method) for setting in TABLE_4 for column, method in METHODS.items()
]
CELLS_7 = [
    *(
        _cell("7", setting, column, method)
        for setting in SYNTHETIC.values()
        for column, method in METHODS.items()
    ),
    *(
        _cell("7", setting, column, method)
        for setting in OF_AUTHORS.values()
        for column, method in METHODS.items()
    ),
    *(
        _cell("7", setting, column, method)
        for setting in UNMATCHED.values()
        for column, method in THREE.items()
    ),
]
CELLS = [*CELLS_4, *CELLS_7, *FIGURE_4, *FIGURE_8, *FIGURE_10]


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """The run of a cell, from one seed."""
    figures = {"Fig. 4": plane, "Fig. 8": components, "Fig. 10": heterogeneity}.get(
        cell.table, curve
    )(cell, seed)
    return {
        "table": cell.table,
        "row": cell.setting.row,
        "column": cell.column,
        "seed": seed,
        **figures,
    }


def curve(cell: Cell, seed: int) -> dict[str, Any]:
    """One run: the number of right test samples after each of the rounds 0 to T, over all
    clients."""
    completed = run(cell, seed)
    tested = int(completed.clients["test_samples"].to_numpy().sum())
    correct = [round(record["accuracy"] * tested) for record in completed.records]
    summary = completed.summary()
    cost = {name: summary[name] for name in ("bytes_down", "bytes_up")}
    return {"tested": tested, "right": correct, "seconds": round(completed.seconds, 1), **cost}


def components(cell: Cell, seed: int) -> dict[str, Any]:
    """The share of a cohort's gradients that each principal component explains, at the model of the
    last round."""
    shares = explained_variance(_gradients(cell, seed, cell.setting.cohort))
    return {"explained": [round(float(share), 5) for share in shares]}


def plane(cell: Cell, seed: int) -> dict[str, Any]:
    """All clients' gradients on their first two principal components, with K-means clusters."""
    points = principal_scores(_gradients(cell, seed), 1)[:, :2]
    points = points / np.abs(points).max()
    clusters = kmeans(points, PLANE_CLUSTERS, seed)
    return {
        "points": [[round(float(v), 4) for v in point] for point in points],
        "clusters": clusters.tolist(),
    }


def _gradients(cell: Cell, seed: int, count: int | None = None) -> Float[np.ndarray, "n P"]:
    """Gradients at the model of the last round, of a number of drawn clients; of all clients if no
    number is given."""
    s = cell.setting
    completed = run(cell, seed)
    data = load(s.data, s.data_options, s.draw(seed))
    world = SimulatedWorld(data, MODELS[s.model](data, **dict(s.model_options)))
    random = Stream(seed, s.rounds + 1, "cohort").rng()
    clients = (
        np.arange(data.clients)
        if count is None
        else np.sort(random.choice(data.clients, count, replace=False))
    )
    return world.run(
        Gradients(completed.models, np.zeros(len(clients), np.int64)), clients
    ).gradients


def heterogeneity(cell: Cell, seed: int) -> dict[str, Any]:
    """PNI of a draw of the data, measured with one random model."""
    s = cell.setting
    data = load(s.data, s.data_options, s.draw(seed))
    return {"pni": round(non_iid_index(data, MODELS[s.model](data), seed=seed).pni, 5)}
