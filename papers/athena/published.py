"""The numbers that SBRC 2022, CoUrb 2023 and the thesis print of hierarchical clustering and
ATHENA-FL."""

from __future__ import annotations

# Least and largest eps that find 5 clusters (2 classes) and 2 clusters (5 classes), by local epochs
# (SBRC, Table 3).
EPS_PUBLISHED = {
    5: ((0.0023, 0.0488), (0.0508, 0.4496)),
    10: ((0.0023, 0.0475), (0.0083, 0.0904)),
    20: ((0.0024, 0.0568), (0.0067, 0.0939)),
}
# Clusters by DBSCAN and by OPTICS (SBRC, Table 2).
FOUND_PUBLISHED = {"IID": (1, 5), "2 classes": (5, 5), "5 classes": (2, 2)}

# A model for each cluster: SBRC's Table 4 and section 4.2; the thesis, section 3.1.
CLUSTERS_PUBLISHED = {
    "2 classes": (81.05, 71.0, 75.3, 81.5, 80.4),
    "5 classes": (56, 63),
}
# The clusters of 2-class clients with the printed gain, and the gain over one model ("close to
# 16%").
BEST_CLUSTERS = (0, 3)
GAIN_OF_BEST_CLUSTERS = 16.0
# The gain with Dirichlet(0.5): "more than 14% on average".
LEAST_GAIN_DIRICHLET = 14.0
PRINTED_BY_CLUSTER = sum(map(len, CLUSTERS_PUBLISHED.values())) + 2  # and two gains

# Figures 2 to 4: accuracy of the combined detectors and of one model by FedAvg, and their intervals
# (the thesis, section 3.2).
DETECTORS = "detectors"
Accuracies = dict[str, tuple[float, float]]
COMBINED_PUBLISHED: dict[tuple[str, str], Accuracies] = {
    ("cifar10", "IID"): {"MobileNet": (66, 2), "MobileNetV2": (73, 1)},
    ("mnist", "IID"): {
        DETECTORS: (99.8, 0.1),
        "MobileNet": (99.3, 0.1),
        "MobileNetV2": (7.69, 0.01),
    },
    ("fashion_mnist", "IID"): {
        DETECTORS: (67.0, 0.5),
        "MobileNet": (8, 1),
        "MobileNetV2": (91, 1),
    },
    ("cifar10", "2 classes"): {
        DETECTORS: (30, 3),
        "MobileNet": (20, 10),
        "MobileNetV2": (20, 10),
    },
    ("mnist", "2 classes"): {
        DETECTORS: (47, 1),
        "MobileNet": (40, 10),
        "MobileNetV2": (10, 5),
    },
    ("fashion_mnist", "2 classes"): {
        DETECTORS: (50.0, 0.7),
        "MobileNet": (22, 2),
        "MobileNetV2": (60, 20),
    },
}
# Clients of five classes: the detectors "have the best accuracy for all data sets"; of two the gain
# over MobileNet, the second-best, is printed.
GAINS_PUBLISHED = {"cifar10": 10.0, "mnist": 10.9}
PRINTED_COMBINED = sum(map(len, COMBINED_PUBLISHED.values())) + len(GAINS_PUBLISHED)

# Table 1: epochs of the detectors and of FedAvg.
TABLE_1 = {
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


def printed(data: str, split: str, what: str) -> float | None:
    """An accuracy of Figures 2 to 4, percent; None where the paper prints none.

    Args:
        data: name of the data set.
        split: of the clients.
        what: the detectors, or the network that FedAvg trains.
    """
    accuracies = COMBINED_PUBLISHED.get((data, split), {})
    return accuracies[what][0] if what in accuracies else None
