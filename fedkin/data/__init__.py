"""Federated data: named data sets, the user's own files, partitions and transforms.

A named set is a function of keyword options that returns :class:`FederatedData`; ``DATASETS`` has them all by name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedkin.core.suggestions import no_attribute, suggesting
from fedkin.data.drifting import StreamData, circle, sea, sine
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.femnist import femnist
from fedkin.data.from_arrays import from_arrays, from_pandas
from fedkin.data.from_hf import from_hf
from fedkin.data.from_torch import from_torch
from fedkin.data.goodreads import goodreads
from fedkin.data.heart_disease import heart_disease
from fedkin.data.image_sets import cifar10, digits, fashion_mnist, mnist
from fedkin.data.mex import mex
from fedkin.data.packed import pack
from fedkin.data.sent140 import sent140
from fedkin.data.shakespeare import shakespeare
from fedkin.data.synthetic import synthetic
from fedkin.data.synthetic_mixture import synthetic_mixture
from fedkin.data.tcga_brca import tcga_brca
from fedkin.data.transforms import augmented
from fedkin.data.user_data import load

if TYPE_CHECKING:
    from fedkin.data.catalogue import available
    from fedkin.data.describe import table
    from fedkin.data.label_figure import picture

DATASETS: dict[str, Callable[..., FederatedData]] = {
    "digits": digits,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
    "femnist": femnist,
    "synthetic": synthetic,
    "synthetic_mixture": synthetic_mixture,
    "mex": mex,
    "goodreads": goodreads,
    "sent140": sent140,
    "shakespeare": shakespeare,
    "heart_disease": heart_disease,
    "tcga_brca": tcga_brca,
    "sine": sine,
    "circle": circle,
    "sea": sea,
}

_LATER = {"available": "catalogue", "picture": "label_figure", "table": "describe"}

__all__ = [
    "DATASETS",
    "FederatedData",
    "Ragged",
    "StreamData",
    "augmented",
    "available",
    "cifar10",
    "circle",
    "digits",
    "fashion_mnist",
    "femnist",
    "from_arrays",
    "from_hf",
    "from_pandas",
    "from_torch",
    "goodreads",
    "heart_disease",
    "load",
    "mex",
    "mnist",
    "pack",
    "picture",
    "sea",
    "sent140",
    "shakespeare",
    "sine",
    "synthetic",
    "synthetic_mixture",
    "table",
    "tcga_brca",
]


def __getattr__(name: str) -> Any:
    """Tables and figures of data are imported when they are first used, for their libraries."""
    if name not in _LATER:
        raise no_attribute(__name__, name, __all__)
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


for _name in (*DATASETS, "augmented", "from_arrays", "from_hf", "from_pandas", "from_torch", "load"):
    suggesting(sys.modules[__name__], _name)
