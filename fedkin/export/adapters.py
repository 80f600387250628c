"""Adapters as folders that other libraries read.

* ``peft``: low-rank factors for the library peft, one small folder for each model
* ``merged``: the whole pretrained model with the factors added to its weights, for transformers

The last layer of fedkin takes the mean over the tokens. No class of transformers has it, so it is a
file for itself, and the folder's README has the lines that use it.

Names of peft 0.21: ``base_model.model.``, the path of the layer in transformers, ``.lora_A.weight``
[rank, in] and ``.lora_B.weight`` [out, rank].
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedkin.core.model_spec import Factor
from fedkin.export.adapter_readme import readme
from fedkin.export.backbones import TOKENIZER, Files, checked_folder, origin_for
from fedkin.export.predictor import Predictor
from fedkin.models.backbone import CONFIG, MODULES, WEIGHTS, read_arrays, read_config
from fedkin.models.frozen import Origin

ADAPTER_WEIGHTS = "adapter_model.safetensors"
_ADAPTER_CONFIG = "adapter_config.json"
_HEAD = "head.safetensors"
_README = "README.md"


def adapter_files(predictor: Predictor, format: str) -> Files:
    """The files of a model in the format ``peft`` or ``merged``. The first one has the weights.

    Raises:
        ModelError: the model is no adapter of a backbone of ``fk.models.from_transformers``; or,
            for ``merged``, the backbone's folder is missing or has other weights now.
    """
    adapter = _Adapter.of(predictor, format)
    head = {_HEAD: adapter.head, _README: partial(_text, readme(adapter.facts(format)))}
    if format == "peft":
        return {ADAPTER_WEIGHTS: adapter.factors, _ADAPTER_CONFIG: adapter.config, **head}
    folder = checked_folder(predictor.model, f"format {format!r}")
    tokenizer: Files = {
        name: (folder / name).read_bytes for name in TOKENIZER if (folder / name).is_file()
    }
    return {
        WEIGHTS: partial(adapter.merged, folder),
        CONFIG: partial(_merged_config, folder),
        **tokenizer,
        **head,
    }


def transformers_path(layer: str) -> str:
    """The path of a dense layer in a BERT model of transformers: of ``layers.5.attention.query``
    ``encoder.layer.5.attention.self.query``."""
    _, number, module = layer.split(".", 2)
    return f"encoder.layer.{number}.{MODULES[module]}"


class _Adapted(NamedTuple):
    """One adapted layer: its factors, with A also if it is frozen."""

    layer: str
    a: np.ndarray  # [rank, in]
    b: np.ndarray  # [out, rank]
    scale: float


class _Adapter(NamedTuple):
    """An adapter's model with its weights.

    Attributes:
        predictor: the model.
        origin: the backbone's folder, and the section [model].
        layers: the adapted layers.
    """

    predictor: Predictor
    origin: Origin
    layers: list[_Adapted]

    @classmethod
    def of(cls, predictor: Predictor, format: str) -> _Adapter:
        """The adapter of a predictor. Raises ModelError if it has none that can be written."""
        origin = origin_for(predictor.model, f"format {format!r}")
        model: Any = predictor.model
        vector = predictor.vector
        layers = []
        for number, factor in enumerate(model.spec.factors):
            a = model.frozen.tree.a[number] if factor.a is None else vector[factor.a]
            layers.append(
                _Adapted(
                    layer=factor.layer,
                    a=np.asarray(a, np.float32).reshape(factor.rank, -1),
                    b=np.asarray(vector[factor.b], np.float32).reshape(-1, factor.rank),
                    scale=factor.scale,
                )
            )
        return cls(predictor, origin, layers)

    @property
    def backbone(self) -> str:
        """The name of the backbone."""
        model: Any = self.predictor.model
        return model.frozen.name

    def facts(self, format: str) -> dict[str, Any]:
        """What the README says about the model."""
        return {
            "format": format,
            "backbone": self.backbone,
            "digest": self.origin.digest,
            "labels": self.predictor.label_names,
            "classes": int(self.predictor.samples.classes),
            "length": int(self.predictor.samples.x.shape[1]),
        }

    def factors(self) -> bytes:
        """The factors by the names of peft."""
        arrays = {}
        for layer in self.layers:
            place = f"base_model.model.{transformers_path(layer.layer)}"
            arrays[f"{place}.lora_A.weight"] = layer.a
            arrays[f"{place}.lora_B.weight"] = layer.b
        return _encoded(arrays)

    def config(self) -> bytes:
        """The configuration of peft."""
        factor = self.predictor.model.spec.factors[0]
        targets, numbers = _targets(self.predictor.model.spec.factors)
        config = {
            "peft_type": "LORA",
            "task_type": "FEATURE_EXTRACTION",
            "base_model_name_or_path": self.backbone,
            "inference_mode": True,
            "r": factor.rank,
            "lora_alpha": self.origin.section["alpha"],
            "lora_dropout": 0.0,
            "target_modules": targets,
            "layers_to_transform": numbers,
            "bias": "none",
            "use_rslora": False,
            "fan_in_fan_out": False,
            "modules_to_save": None,
        }
        return _text(json.dumps(config, indent=2) + "\n")

    def head(self) -> bytes:
        """The last layer: weight [C, d] and bias [C]."""
        layers = self.predictor.layers
        return _encoded({name: layers[f"head.{name}"] for name in ("weight", "bias")})

    def merged(self, folder: Path) -> bytes:
        """The weights of the backbone in a folder plus scale B A, by the names of transformers."""
        arrays = read_arrays(folder)
        for layer in self.layers:
            place = f"{transformers_path(layer.layer)}.weight"
            change = layer.scale * (layer.b.astype(np.float64) @ layer.a.astype(np.float64))
            arrays[place] = (arrays[place] + change).astype(np.float32)
        parts = ("embeddings.", "encoder.", "pooler.")
        return _encoded({name: array for name, array in arrays.items() if name.startswith(parts)})


def _targets(factors: Sequence[Factor]) -> tuple[list[str], list[int] | None]:
    """The options ``target_modules`` and ``layers_to_transform`` of peft.

    peft takes all modules whose path ends with a target. Short names are used where they name
    exactly the adapted layers, otherwise whole paths.
    """
    adapted = {factor.layer for factor in factors}
    modules = sorted({layer.split(".", 2)[2] for layer in adapted})
    numbers = sorted({int(layer.split(".")[1]) for layer in adapted})
    short = [MODULES[module].removeprefix("attention.self.") for module in modules]
    named = {
        f"layers.{number}.{module}"
        for number in numbers
        for module, path in MODULES.items()
        if f".{path}".endswith(tuple(f".{name}" for name in short))
    }
    if named == adapted:
        return short, numbers
    return [transformers_path(factor.layer) for factor in factors], None


def _merged_config(folder: Path) -> bytes:
    """``config.json`` of a merged model: the backbone's, for float32 weights."""
    config = read_config(folder) | {"architectures": ["BertModel"]}
    for key in ("dtype", "torch_dtype"):
        if key in config:
            config[key] = "float32"
    return _text(json.dumps(config, indent=2) + "\n")


def _encoded(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays as a safetensors file that transformers and peft read."""
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(whole, metadata={"format": "pt"})


def _text(text: str) -> bytes:
    """A text as the content of a file."""
    return text.encode()
