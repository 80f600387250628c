"""The named data sets. ``DATASETS`` maps their names in configurations to functions.

The imports below are the list. A new set needs a file and an import line here. Its function
describes the set and where its files are found (``@named``).
"""

from __future__ import annotations

from collections.abc import Callable

from fedkin.data.federated import FederatedData

# The list, in the order of ``fedkin data list``.
# isort: off
from fedkin.data.image_sets import digits as digits
from fedkin.data.image_sets import mnist as mnist
from fedkin.data.image_sets import fashion_mnist as fashion_mnist
from fedkin.data.image_sets import cifar10 as cifar10
from fedkin.data.femnist import femnist as femnist
from fedkin.data.synthetic import synthetic as synthetic
from fedkin.data.synthetic_mixture import synthetic_mixture as synthetic_mixture
from fedkin.data.mex import mex as mex
from fedkin.data.goodreads import goodreads as goodreads
from fedkin.data.sent140 import sent140 as sent140
from fedkin.data.shakespeare import shakespeare as shakespeare
from fedkin.data.heart_disease import heart_disease as heart_disease
from fedkin.data.tcga_brca import tcga_brca as tcga_brca
from fedkin.data.drifting import sine as sine
from fedkin.data.drifting import circle as circle
from fedkin.data.drifting import sea as sea
# isort: on

DATASETS: dict[str, Callable[..., FederatedData]] = {}
for _make in [value for value in globals().values() if hasattr(value, "about")]:
    DATASETS[_make.__name__] = _make
