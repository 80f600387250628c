"""FedGroup (arXiv 2010.06870), Tables I and III, at the paper's settings: K = 20, E = 20, B = 10, T = 200, mu = 1,
eta_g = 0.01, alpha = 20. The numbers beside the settings are the paper's, in percent."""

from __future__ import annotations

from dataclasses import replace

from fedkin.methods import FedAvg, FedGroup, FedGrouProx, FedProx
from papers.recipe import Cell, Options, Setting

METHODS = {
    "FedAvg": lambda m: FedAvg(),
    "FedProx": lambda m: FedProx(mu=1.0),
    "RCC": lambda m: FedGroup(clusters=m, centers="random"),
    "RAC": lambda m: FedGroup(clusters=m, newcomers="random"),
    "FedGroup": lambda m: FedGroup(clusters=m),
    "FedGrouProx": lambda m: FedGrouProx(clusters=m),
}

TEN_SEEDS = tuple(range(10))
SHARED: Options = (("classes", 26), ("shared_images", True))
OWN: Options = (("classes", 26),)
WIDE: Options = (("hidden", 512),)
LARGE: Options = (("alpha", 1.0), ("beta", 1.0), ("clients", 100))

MNIST = Setting("MNIST-MCLR", "mnist", (), "mclr", (), 0.03, 3, seeds=TEN_SEEDS)
MNIST_MLP = Setting("MNIST-MLP", "mnist", (), "mlp", (), 0.03, 3, seconds=65)
FEMNIST = Setting("FEMNIST-MCLR, shared images", "femnist", SHARED, "mclr", (), 0.003, 5)
FEMNIST_MLP = Setting("FEMNIST-MLP, shared images", "femnist", SHARED, "mlp", WIDE, 0.003, 5, seeds=(0,), seconds=160)
OWN_IMAGES = "no image twice, where the authors' file repeats them"
FEMNIST_OWN = replace(FEMNIST, row="FEMNIST-MCLR, own images", data_options=OWN, deviation=OWN_IMAGES)
FEMNIST_MLP_OWN = replace(FEMNIST_MLP, row="FEMNIST-MLP, own images", data_options=OWN, deviation=OWN_IMAGES)
SYNTHETIC = Setting("Synthetic(1,1)-MCLR", "synthetic", LARGE, "mclr", (), 0.01, 5)

PUBLISHED: dict[Setting, tuple[float | None, ...]] = {  # Table III, in the order of METHODS
    MNIST: (89.3, 90.5, 93.5, 88.1, 95.7, 95.8),
    MNIST_MLP: (94.4, 93.4, 95.7, 92.9, 97.6, 97.1),
    SYNTHETIC: (72.6, 80.4, 92.3, None, 92.1, 84.6),
    FEMNIST: (76.8, 76.2, 87.0, 70.3, 87.8, 87.1),
    FEMNIST_OWN: (76.8, 76.2, 87.0, 70.3, 87.8, 87.1),
    FEMNIST_MLP: (79.8, 78.5, 91.5, 75.5, 94.5, 93.5),
    FEMNIST_MLP_OWN: (79.8, 78.5, 91.5, 75.5, 94.5, 93.5),
}

TABLE_III = [
    Cell("III", setting, column, method, value)
    for setting, values in PUBLISHED.items()
    for (column, method), value in zip(METHODS.items(), values, strict=True)
]

# Table I: FedAvg on MNIST-MCLR; classes per client -> discrepancy mean and variance, best and median accuracy, rounds
# to 85%.
TABLE_I_PUBLISHED = {
    1: (15.33, 46.42, 87.2, 79.35, 36),
    2: (15.96, 43.63, 89.3, 84.75, 29),
    3: (15.70, 31.73, 90.4, 86.30, 14),
    5: (13.98, 9.02, 91.2, 89.90, 10),
}

TABLE_I = [
    Cell(
        "I",
        replace(MNIST, row=str(k), data_options=(("classes_per_client", k),), seeds=(0, 1, 2)),
        "FedAvg",
        METHODS["FedAvg"],
        values[2],
    )
    for k, values in TABLE_I_PUBLISHED.items()
]

CELLS = [*TABLE_I, *TABLE_III]
