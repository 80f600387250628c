"""Models in JAX, and adapters for others. ``MODELS`` has their names in configurations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fedkin.core.suggestions import no_attribute, suggesting
from fedkin.models.cnn import cnn as cnn
from fedkin.models.cox import cox as cox
from fedkin.models.detector import detector as detector
from fedkin.models.mobilenet import mobilenet as mobilenet
from fedkin.models.mobilenet import mobilenet_v2 as mobilenet_v2
from fedkin.models.model import Model as Model
from fedkin.models.model import as_model as as_model
from fedkin.models.perceptron import mclr as mclr
from fedkin.models.perceptron import mlp as mlp
from fedkin.models.recurrent import lstm as lstm
from fedkin.models.recurrent import rnn as rnn

MODELS: dict[str, Callable[..., Model]] = {
    "mclr": mclr,
    "mlp": mlp,
    "cnn": cnn,
    "detector": detector,
    "mobilenet": mobilenet,
    "mobilenet_v2": mobilenet_v2,
    "rnn": rnn,
    "lstm": lstm,
    "cox": cox,
}


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, [*MODELS, "Model", "as_model"])


for _name in (*MODELS, "as_model"):
    suggesting(sys.modules[__name__], _name)
