"""ATHENA-FL and the clustering that it uses (SBRC 2022, CoUrb 2023, and the thesis): the clusters
for each eps, Figures 1 to 4 and Tables 1 and 4. The settings are the paper's (Adam 1e-3, batches of
32, 5 local epochs, half of a cluster's clients a round), with fewer images and rounds, for two
cores. Two of the five training batches of CIFAR-10 are used, so that the recipe runs without the
others."""

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


def _combined_setting(data: str, split: str) -> Setting:
    options, clusters = SPLITS[split]
    rounds = 12 if (data, split) == SHORTER else 40
    options = (
        *options,
        *DATA[data],
        ("scale", "unit"),
        ("samples", SAMPLES),
        ("train_fraction", 2 / 3),
        ("tested", "iid"),
    )
    model, model_options = CNN
    setting = _setting(
        row=f"{split}, {TITLES[data]}",
        data=data,
        options=options,
        model=model,
        model_options=model_options,
        clusters=clusters,
        rounds=rounds,
        clients=20,
    )
    # Of ten detectors: one model takes a fifth of these seconds.
    seconds = 65 * rounds
    return replace(setting, seconds=seconds, deviation=_shortened(rounds, 200))


COMBINED = {(data, split): _combined_setting(data, split) for data in DATA for split in SPLITS}


def _known_assignment(clusters: int) -> tuple[int, ...]:
    """The clusters of twenty clients in ``blocks``, as the authors write them down."""
    return tuple(client * clusters // 20 for client in range(20))


def _combined(setting: Setting) -> list[Cell]:
    """The detectors' scores as they are and calibrated, and one model for all: half of the clients
    train a round."""
    detectors = replace(setting, model="detector", model_options=())
    assignment = _known_assignment(setting.clusters)
    return [
        Cell(
            table="Fig. 2-4",
            setting=detectors,
            column="ATHENA-FL",
            method=lambda m: Athena(assignment=assignment, fraction=0.5),
            published=None,
        ),
        Cell(
            table="Fig. 2-4",
            setting=detectors,
            column="ATHENA-FL, calibrated",
            method=lambda m: Athena(assignment=assignment, fraction=0.5, calibrate=4),
            published=None,
        ),
        Cell(
            table="Fig. 2-4",
            setting=replace(setting, cohort=setting.cohort // 2),
            column="FedAvg",
            method=lambda m: FedAvg(),
            published=None,
        ),
    ]


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
FIGURE_2 = [cell for setting in COMBINED.values() for cell in _combined(setting)]
CELLS = [*CELLS_EPS, *FIGURE_1, *FIGURE_2]

# --- the papers' numbers

# Least and largest eps that find 5 clusters (2 classes) and 2 clusters (5 classes), by local
# epochs.
EPS_PUBLISHED = {
    5: ((0.0023, 0.0488), (0.0508, 0.4496)),
    10: ((0.0023, 0.0475), (0.0083, 0.0904)),
    20: ((0.0024, 0.0568), (0.0067, 0.0939)),
}
FOUND_PUBLISHED = {"IID": (1, 5), "2 classes": (5, 5), "5 classes": (2, 2)}  # DBSCAN, OPTICS
PER_CLUSTER_PUBLISHED = {  # accuracy by cluster, and gain over one model
    "2 classes": ("81.05, 71.0, 75.3, 81.5, 80.4", "about 16 for clusters 1 and 4"),
    "5 classes": ("56, 63", "-"),
    "Dirichlet(0.5)": ("-", "more than 14"),
    "IID": ("-", "0"),
}
COMBINED_PUBLISHED = {  # combined detectors; MobileNet, MobileNetV2 by FedAvg (%)
    ("cifar10", "IID"): ("-", "66 ± 2, 73 ± 1"),
    ("mnist", "IID"): ("99.8 ± 0.1", "99.3 ± 0.1, 7.69 ± 0.01"),
    ("fashion_mnist", "IID"): ("67.0 ± 0.5", "8 ± 1, 91 ± 1"),
    ("cifar10", "2 classes"): ("30 ± 3", "20 ± 10, 20 ± 10"),
    ("mnist", "2 classes"): ("47 ± 1", "40 ± 10, 10 ± 5"),
    ("fashion_mnist", "2 classes"): ("50.0 ± 0.7", "22 ± 2, 60 ± 20"),
    ("cifar10", "5 classes"): ("10 above MobileNet", "-"),
    ("mnist", "5 classes"): ("10.9 above MobileNet", "-"),
    ("fashion_mnist", "5 classes"): ("above both", "-"),
}
TABLE_1 = {  # epochs of the detectors and of FedAvg
    ("cifar10", "IID"): (7, 30),
    ("cifar10", "5 classes"): (12, 23),
    ("cifar10", "2 classes"): (14, 8),
    ("mnist", "IID"): (4, 7),
    ("mnist", "5 classes"): (24, 58),
    ("mnist", "2 classes"): (4, 65),
    ("fashion_mnist", "IID"): (5, 44),
    ("fashion_mnist", "5 classes"): (81, 151),
    ("fashion_mnist", "2 classes"): (21, 80),
}
ECONOMY_PUBLISHED = {  # Table 1's last lines, percent: IID, 5 classes, 2 classes
    "cifar10": (90.05, 77.74, 25.35),
    "mnist": (75.62, 82.35, 97.37),
    "fashion_mnist": (95.15, 77.12, 88.8),
}
# bytes, of the authors' Keras files for CIFAR-10.
DETECTOR_FILE = 563_760
MOBILENET_FILE = 13_215_768


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
    completed = run(cell, seed)
    records = completed.records
    detectors = [record.get("accuracy_by_detector") for record in records]
    return {
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
