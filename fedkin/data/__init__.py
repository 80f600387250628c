"""Federated data: named data sets, the user's own files, partitions and transforms.

A named set is a function of keyword options that returns :class:`FederatedData`; ``DATASETS`` maps
names to these functions. The data sets are listed in ``fedkin.data.named_sets``.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fedkin.core.suggestions import suggesting
from fedkin.data.drifting import StreamData as StreamData
from fedkin.data.federated import FederatedData as FederatedData
from fedkin.data.federated import Ragged as Ragged
from fedkin.data.from_arrays import from_arrays as from_arrays
from fedkin.data.from_arrays import from_pandas as from_pandas
from fedkin.data.from_hf import from_hf as from_hf
from fedkin.data.from_patients import from_patients as from_patients
from fedkin.data.from_torch import from_torch as from_torch
from fedkin.data.load import load as load
from fedkin.data.named_sets import *  # noqa: F403
from fedkin.data.named_sets import DATASETS as DATASETS
from fedkin.data.natural import natural as natural
from fedkin.data.packed import pack as pack
from fedkin.data.texts import texts as texts
from fedkin.data.transforms import augmented as augmented

if TYPE_CHECKING:
    from fedkin.data.catalogue import available as available
    from fedkin.data.describe import table as table
    from fedkin.data.label_figure import picture as picture

_LATER = {"available": "catalogue", "picture": "label_figure", "table": "describe"}


def __getattr__(name: str) -> Any:
    """Import tables and figures of data on first use, because their imports are slow."""
    if name not in _LATER:
        # With the name and the module, Python suggests the nearest public name in the traceback.
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


for _name in (
    *DATASETS,
    "augmented",
    "from_arrays",
    "from_hf",
    "from_pandas",
    "from_patients",
    "from_torch",
    "load",
    "natural",
    "texts",
):
    suggesting(sys.modules[__name__], _name)
