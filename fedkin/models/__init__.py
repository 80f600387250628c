"""Models in JAX, and adapters for other models. ``MODELS`` maps names in configurations to models.

The second block of imports is the list of named models. A new model adds a line there.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable

from fedkin.core.suggestions import suggesting
from fedkin.models.backbone import Backbone as Backbone
from fedkin.models.backbone import from_transformers as from_transformers
from fedkin.models.features import features as features
from fedkin.models.features import layer_inputs as layer_inputs
from fedkin.models.model import Model as Model
from fedkin.models.model import as_model as as_model

# The list of named models.
# isort: off
from fedkin.models.perceptron import mclr as mclr
from fedkin.models.perceptron import mlp as mlp
from fedkin.models.cnn import cnn as cnn
from fedkin.models.detector import detector as detector
from fedkin.models.mobilenet import mobilenet as mobilenet
from fedkin.models.mobilenet import mobilenet_v2 as mobilenet_v2
from fedkin.models.recurrent import rnn as rnn
from fedkin.models.recurrent import lstm as lstm
from fedkin.models.cox import cox as cox
from fedkin.models.lora import lora as lora
from fedkin.models.lora_section import lora_section as _lora_section
# isort: on

# Functions for users that make no named model.
_NO_MODELS = (as_model, features, from_transformers, layer_inputs)
MODELS: dict[str, Callable[..., Model]] = {}
for _make in [value for value in globals().values() if inspect.isfunction(value)]:
    if _make not in (*_NO_MODELS, suggesting, _lora_section):
        MODELS[_make.__name__] = _make

# A configuration names the folder of a backbone.
MODELS["lora"] = _lora_section

for _name in (*MODELS, *(make.__name__ for make in _NO_MODELS)):
    suggesting(sys.modules[__name__], _name)
