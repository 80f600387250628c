"""ATHENA-FL and the clustering that it uses (SBRC 2022, CoUrb 2023, and the thesis): the clusters
for each eps, Figures 1 to 4 and Tables 1 and 4. The settings are the paper's (Adam 1e-3, batches of
32, 5 local epochs, half of a cluster's clients a round), with fewer images and rounds, for two
cores. Two of the five training batches of CIFAR-10 are used, so that the recipe runs without the
others. The papers' numbers are in ``published``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.analysis.eps_study import study_eps
from fedkin.clustering.density import dbscan, optics
from fedkin.clustering.kmeans import kmeans
from fedkin.core.training import Adam
from fedkin.methods import Athena, FedAvg, Hierarchical
from fedkin.models import MODELS
from papers.athena.found_clusters import FoundClusters, with_clusters
from papers.athena.published import DETECTORS, printed
from papers.recipe import Cell, Options, Setting, load, run

# The authors' eps: the middle of the range that works for 2 and 5 classes after ten local epochs.
EPS = 0.0279
PRETRAINING = (5, 10, 20)  # local epochs of the clustering round
WORK = Adam(epochs=5, batch_size=32, lr=1e-3)

SPLITS: dict[str, tuple[Options, int]] = {  # options, and the true number of clusters
    "IID": ((("partition", "iid"),), 1),
    "2 classes": ((("partition", "blocks"), ("classes_per_client", 2)), 5),
    "5 classes": ((("partition", "blocks"), ("classes_per_client", 5)), 2),
}
DIRICHLET: Options = (("partition", "dirichlet"), ("alpha", 0.5))


def _setting(
    row: str,
    data: str,
    options: Options,
    model: str,
    model_options: Options,
    clusters: int,
    rounds: int,
    clients: int,
) -> Setting:
    options = (("clients", clients), *options)
    if data == "cifar10":
        options = (("batches", 2), *options)
    return Setting(
        row=row,
        data=data,
        data_options=options,
        model=model,
        model_options=model_options,
        lr=1e-3,
        clusters=clusters,
        epochs=5,
        rounds=rounds,
        cohort=clients,
        seeds=(0,),
        work=WORK,
        seconds=30 * rounds,
    )


def _shortened(rounds: int, images: int) -> str:
    """The differences to the papers, which have 400 (Figure 1) and 200 rounds."""
    return f"{rounds} rounds, {images} images a client"


# --- which eps: ten clients, a thousand training images each (31 batches of 32, as the authors')

CNN = ("cnn", (("variant", "athena"),))
MOBILE = ("mobilenet_v2", ())
SCALES = {"cnn": "unit", "mobilenet_v2": "bytes"}


def _clustering(split: str, model: str, model_options: Options) -> Setting:
    options, clusters = SPLITS[split]
    options = (*options, ("scale", SCALES[model]), ("train_fraction", 1000 / 3000))
    row = f"{split}, {'CNN' if model == 'cnn' else 'MobileNetV2'}"
    setting = _setting(
        row=row,
        data="cifar10",
        options=options,
        model=model,
        model_options=model_options,
        clusters=clusters,
        rounds=1,
        clients=10,
    )
    if model == "cnn":
        return replace(setting, seconds=120, deviation="another network than MobileNetV2")
    return replace(setting, seconds=1500)


CLUSTERINGS = {
    (split, model[0]): _clustering(split, *model) for model in (CNN, MOBILE) for split in SPLITS
}

# --- clusters apart (Figure 1, SBRC's Table 4): ten clients, tested on their own kind of images

# The method, and its cohort: five of ten clients train.
HALF: dict[str, tuple[Callable[[int], Any], int]] = {
    "clustered": (lambda m: Hierarchical(eps=EPS, fraction=0.5), 10),
    "one model": (lambda m: FedAvg(), 5),
}


def _per_cluster(split: str, options: Options, clusters: int) -> Setting:
    options = (*options, ("scale", "unit"), ("samples", 7500), ("train_fraction", 2 / 3))
    model, model_options = CNN
    setting = _setting(
        row=f"{split}, CIFAR-10",
        data="cifar10",
        options=options,
        model=model,
        model_options=model_options,
        clusters=clusters,
        rounds=40,
        clients=10,
    )
    return replace(setting, deviation=_shortened(40, 500))


PER_CLUSTER = {
    split: _per_cluster(split, *how)
    for split, how in {**SPLITS, "Dirichlet(0.5)": (DIRICHLET, 0)}.items()
}

# --- detectors for all clients (Figures 2 to 4, Table 1): twenty clients, tested on all classes

DATA: dict[str, Options] = {
    "cifar10": (),
    "mnist": (("size", 32),),
    "fashion_mnist": (("size", 32),),
}
TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "fashion_mnist": "FMNIST"}
SHORTER = ("mnist", "IID")  # twelve rounds, not forty
SAMPLES = 6000  # images in all: 200 to train and 100 to test for each client


def _twenty_clients(
    data: str, split: str, network: tuple[str, Options], sizes: Options, rounds: int
) -> Setting:
    """Twenty clients of a split of a data set.

    Args:
        data: the data set, a key of ``DATA``.
        split: a key of ``SPLITS``.
        network: model and its options.
        sizes: options of the data about the number of images.
        rounds: number of rounds.
    """
    options, clusters = SPLITS[split]
    model, model_options = network
    return _setting(
        row=f"{split}, {TITLES[data]}",
        data=data,
        options=(*options, *DATA[data], ("scale", "unit"), *sizes),
        model=model,
        model_options=model_options,
        clusters=clusters,
        rounds=rounds,
        clients=20,
    )


def _combined_setting(data: str, split: str) -> Setting:
    rounds = 12 if (data, split) == SHORTER else 40
    sizes = (("samples", SAMPLES), ("train_fraction", 2 / 3), ("tested", "iid"))
    setting = _twenty_clients(data, split, network=CNN, sizes=sizes, rounds=rounds)
    seconds = 65 * rounds  # of ten detectors
    return replace(setting, seconds=seconds, deviation=_shortened(rounds, 200))


COMBINED = {(data, split): _combined_setting(data, split) for data in DATA for split in SPLITS}


# The columns of Figures 2 to 4. In the paper's text DBSCAN finds the clusters, in the authors' code
# they are given.
ATHENA = "ATHENA-FL"
GIVEN = "ATHENA-FL, given clusters"
CALIBRATED = "ATHENA-FL, given clusters, calibrated"
MOBILENET = "FedAvg, MobileNet"
MOBILENET_V2 = "FedAvg, MobileNetV2"
SMALL_CNN = "FedAvg, small CNN"  # not in the paper: as large as a few detectors
COLUMNS = (ATHENA, GIVEN, CALIBRATED, MOBILENET, MOBILENET_V2, SMALL_CNN)

CLUSTERED_SAMPLES = 29_000  # images in all: 1,000 of a client train in the clustering round
CLUSTERING_SECONDS = 550


def _clustering_round(data: str, split: str) -> Cell:
    """The clustering of SBRC 2022 for twenty clients: MobileNetV2, ten local epochs, 1,000 images
    a client, the authors' eps. eps belongs to a number of training steps, so a client has more
    images here than its detectors train on."""
    sizes = (("samples", CLUSTERED_SAMPLES), ("train_fraction", 20_000 / CLUSTERED_SAMPLES))
    setting = _twenty_clients(data, split, network=MOBILE, sizes=sizes, rounds=1)
    return Cell(
        table="Fig. 2-4",
        setting=setting,
        column="clustering round",
        method=lambda m: Hierarchical(eps=EPS),
        published=None,
    )


def _known_assignment(clusters: int) -> tuple[int, ...]:
    """The clusters of twenty clients in ``blocks``, as the authors write them down."""
    return tuple(client * clusters // 20 for client in range(20))


def _combined(data: str, split: str) -> list[Cell]:
    """The detectors of clusters that are found and of given ones, the latter also with calibrated
    scores: half of a cluster's clients train a round."""
    setting = COMBINED[data, split]
    detectors = replace(setting, model="detector", model_options=())
    finding = replace(
        detectors,
        seconds=detectors.seconds + CLUSTERING_SECONDS,
        deviation=f"{detectors.deviation} (1,000 in the clustering round)",
    )
    assignment = _known_assignment(setting.clusters)
    return [
        FoundClusters(
            table="Fig. 2-4",
            setting=finding,
            column=ATHENA,
            method=lambda m: Athena(fraction=0.5),
            published=printed(data, split, DETECTORS),
            found_by=_clustering_round(data, split),
        ),
        Cell(
            table="Fig. 2-4",
            setting=detectors,
            column=GIVEN,
            method=lambda m: Athena(assignment=assignment, fraction=0.5),
            published=printed(data, split, DETECTORS),
            variant_of=ATHENA,
        ),
        Cell(
            table="Fig. 2-4",
            setting=detectors,
            column=CALIBRATED,
            method=lambda m: Athena(assignment=assignment, fraction=0.5, calibrate=4),
            published=None,
        ),
    ]


# --- one model for all clients (Figures 2 to 4), by FedAvg: half of the clients train a round

# The authors' dropout of MobileNet; Keras' MobileNetV2 has none.
DROPOUT = {"cifar10": 0.3, "mnist": 0.1, "fashion_mnist": 0.1}
# Half of the paper's rounds: 42 minutes of one core. In each of the 35 steps of a round the running
# statistics of MobileNetV2 move by a thousandth, so fewer rounds would leave them near their start.
BASELINE_ROUNDS = 100
BASELINE_SECONDS = 25  # of a round, on one core: measured, 23 (MobileNet) and 25 (MobileNetV2)


def _baselines(data: str, split: str) -> list[Cell]:
    """The paper's two baselines, and the small network that was run in their place first."""
    setting = COMBINED[data, split]
    small = replace(setting, cohort=10, seconds=setting.seconds / 5)
    long = replace(
        small,
        rounds=BASELINE_ROUNDS,
        seconds=BASELINE_SECONDS * BASELINE_ROUNDS,
        deviation=_shortened(BASELINE_ROUNDS, 200),
    )
    return [
        _one_model(
            column=MOBILENET,
            setting=replace(long, model="mobilenet", model_options=(("dropout", DROPOUT[data]),)),
            published=printed(data, split, "MobileNet"),
        ),
        _one_model(
            column=MOBILENET_V2,
            setting=replace(long, model="mobilenet_v2", model_options=()),
            published=printed(data, split, "MobileNetV2"),
        ),
        _one_model(column=SMALL_CNN, setting=small, published=None),
    ]


def _one_model(column: str, setting: Setting, published: float | None) -> Cell:
    return Cell(
        table="Fig. 2-4",
        setting=setting,
        column=column,
        method=lambda m: FedAvg(),
        published=published,
    )


def _clusterings(setting: Setting) -> list[Cell]:
    return [
        Cell(
            table="eps",
            setting=setting,
            column=str(epochs),
            method=lambda m, epochs=epochs: Hierarchical(pretraining=epochs),
            published=None,
        )
        for epochs in PRETRAINING
    ]


CELLS_EPS = [cell for setting in CLUSTERINGS.values() for cell in _clusterings(setting)]
FIGURE_1 = [
    Cell(
        table="Fig. 1",
        setting=replace(setting, cohort=cohort),
        column=name,
        method=method,
        published=None,
    )
    for setting in PER_CLUSTER.values()
    for name, (method, cohort) in HALF.items()
]
FIGURE_2 = [
    cell for data, split in COMBINED for cell in (*_combined(data, split), *_baselines(data, split))
]
CELLS = [*CELLS_EPS, *FIGURE_1, *FIGURE_2]


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """The run of a cell, from one seed."""
    figures = clustering(cell, seed) if cell.table == "eps" else curves(cell, seed)
    return {
        "table": cell.table,
        "row": cell.setting.row,
        "column": cell.column,
        "seed": seed,
        **figures,
    }


def clustering(cell: Cell, seed: int) -> dict[str, Any]:
    """The last layers' biases after the clustering round, and the clusters of the three
    algorithms."""
    s = cell.setting
    data = load(s.data, s.data_options, s.draw(seed))
    study = study_eps(
        cell.method(s.clusters),
        data,
        MODELS[s.model](data, **dict(s.model_options)),
        local=s.work,
        seed=seed,
    )
    points = study.layers
    correct = [each for each in study.ranges if each.clusters == s.clusters and not each.noise]
    widest = max(correct, key=lambda each: each.high - each.low, default=None)
    return {
        "biases": [[round(float(v), 6) for v in row] for row in points],
        "range": [_short(end) for end in (widest.low, widest.high)]
        if widest
        else [],  # None: no end
        "suggested": float(f"{study.suggested:.4g}"),
        "dbscan": dbscan(points, EPS, 2).tolist(),
        "optics": optics(points, 2).tolist(),
        "kmeans": kmeans(points, s.clusters if s.clusters > 1 else 3, 0).tolist(),
    }


def curves(cell: Cell, seed: int) -> dict[str, Any]:
    """Accuracy after each of the rounds 0 to T, by cluster at the end, and of detectors (their
    mean), and the bytes so far."""
    found = {}
    if isinstance(cell, FoundClusters):
        cell, found["found"] = with_clusters(cell, seed)
    completed = run(cell, seed)
    records = completed.records
    detectors = [record.get("accuracy_by_detector") for record in records]
    return {
        **found,
        "curve": [round(record["accuracy"], 4) for record in records],
        "clusters": [
            None if a is None else round(a, 4) for a in records[-1]["accuracy_by_cluster"]
        ],
        "clients": [round(float(a), 4) for a in completed.clients["accuracy"]],
        **(
            {"detectors": [[round(a, 4) for a in row] for row in detectors if row]}
            if all(detectors)
            else {}
        ),
        "sizes": np.bincount(completed.assignment[completed.assignment >= 0]).tolist(),
        "parameters": int(completed.models.shape[1]),
        "bytes": [[record["bytes_down"], record["bytes_up"]] for record in records],
        "seconds": round(completed.seconds, 1),
    }


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
