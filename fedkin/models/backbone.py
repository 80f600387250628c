"""A pretrained text encoder from a local folder of a Hugging Face model. Nothing is downloaded.

The folder holds ``config.json``, ``model.safetensors`` and ``tokenizer.json``, as
``save_pretrained`` of transformers writes them. The encoder is computed by JAX
(:mod:`fedkin.models.encoder`), so transformers and PyTorch need not be installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Int
from safetensors import SafetensorError, safe_open

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.storage import user_path
from fedkin.data.tokenizer import CONFIG, Tokenizer, model_config
from fedkin.models.encoder import (
    Attention,
    Embeddings,
    Encoder,
    EncoderLayer,
    LayerNorm,
    Projection,
)
from fedkin.models.frozen import FrozenPart

WEIGHTS = "model.safetensors"
_WORDS = "embeddings.word_embeddings.weight"
TASK = "text-classification"
_SHARDS = "model-*-of-*.safetensors"
_PICKLES = ("*.bin", "*.pt", "*.pth")
# Settings of a BERT model for which the encoder computes something else.
_ASSUMED = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_AS_MODULE = "as a PyTorch module: fk.lora(data, AutoModel.from_pretrained(folder))"
_WRITTEN_AGAIN = "model.save_pretrained(folder) writes the settings of the model"
_FLOATS = ("F64", "F32", "F16", "BF16")
# The dense layers of an encoder layer, and their places in a BERT model of transformers.
MODULES = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
}


@dataclass(frozen=True, eq=False)
class Backbone:
    """A pretrained encoder with its tokenizer.

    Attributes:
        name: name of the folder.
        encoder: the encoder, with NumPy arrays.
        tokenizer: from texts to token numbers.
        folder: the folder from which it was read.
    """

    name: str
    encoder: Encoder
    tokenizer: Tokenizer
    folder: Path

    def __repr__(self) -> str:
        return (
            f"Backbone {self.name!r}: {len(self.encoder.layers)} layers of width "
            f"{self.encoder.width}, {self.parameters:,} parameters"
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of weights, settings and tokenizer, which identifies the backbone: with other
        heads or other words, equal weights compute something else."""
        settings = [
            *(layer.attention.heads for layer in self.encoder.layers),
            *(layer.output_norm.eps for layer in self.encoder.layers),
            self.encoder.padding,
            self.tokenizer.digest,
        ]
        digest = hashlib.sha256(FrozenPart(self.name, self.encoder).digest.encode())
        digest.update(repr(settings).encode())
        return digest.hexdigest()

    @cached_property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.encoder))

    def tokens(self, texts: Any, length: int | None = None) -> Int[np.ndarray, "M L"]:
        """Token numbers of texts, filled up with padding.

        Args:
            texts: M texts.
            length: number of tokens L of every text; longer texts are cut, and a warning says how
                many. None: enough for 95% of the texts, rounded up to a multiple of 8, and a
                warning only if more than 5% are cut.
        """
        return self.tokenizer.tokens(texts, length)

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights by the names of transformers, as ``model.safetensors`` has them."""
        found: dict[str, Any] = {}
        if self.encoder.embeddings is not None:
            embeddings = self.encoder.embeddings
            for name in ("word", "position", "token_type"):
                found[f"embeddings.{name}_embeddings.weight"] = getattr(embeddings, name)
            found |= _named("embeddings.LayerNorm", embeddings.norm)
        for number, layer in enumerate(self.encoder.layers, self.encoder.first):
            place = f"encoder.layer.{number}"
            for name, part in _parts(layer).items():
                found |= _named(f"{place}.{name}", part)
        return {name: np.asarray(array, np.float32) for name, array in found.items()}

    def starting_at(self, layer: int) -> Backbone:
        """The backbone without the embeddings and the layers below ``layer``, for features that
        ``fk.models.features`` has computed."""
        count = len(self.encoder.layers)
        if not 0 <= layer < count:
            raise ModelError(
                f"backbone {self.name!r} has the layers 0 to {count - 1}; there is no layer {layer}"
            )
        if layer == 0:
            return self
        encoder = replace(
            self.encoder, embeddings=None, layers=self.encoder.layers[layer:], first=layer
        )
        return replace(self, encoder=encoder)


def _parts(layer: EncoderLayer) -> dict[str, Projection | LayerNorm]:
    """The parts of a layer that have weights, by the names of transformers."""
    attention = layer.attention
    return {
        "attention.self.query": attention.query,
        "attention.self.key": attention.key,
        "attention.self.value": attention.value,
        "attention.output.dense": attention.output,
        "attention.output.LayerNorm": layer.attention_norm,
        "intermediate.dense": layer.intermediate,
        "output.dense": layer.output,
        "output.LayerNorm": layer.output_norm,
    }


def _named(name: str, part: Projection | LayerNorm) -> dict[str, Any]:
    """Weight and bias of a part, by name."""
    return {f"{name}.weight": part.weight, f"{name}.bias": part.bias}


def from_transformers(folder: str | Path, *, task: str = TASK) -> Backbone:
    """A pretrained text encoder from a local folder of a Hugging Face model.

    Args:
        folder: a folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``. Nothing
            is downloaded.
        task: what the model is for. There is one task, ``text-classification``: ``fk.lora`` puts a
            new last layer on the mean over the tokens.

    Returns:
        The backbone, for ``fk.lora`` and ``fk.models.features``.

    Raises:
        ModelError: the folder lacks a file, has its weights in pickles only, is no BERT model, has
            quantised or infinite weights, or its settings, arrays and tokenizer do not fit.
        ConfigError: the task is another one.
    """
    if task != TASK:
        raise ConfigError(
            f"task must be {TASK!r}, got {task!r}; for another task, give a PyTorch module with "
            "its own last layer: fk.lora(data, module, head='classifier')"
        )
    folder = user_path(folder)
    config = read_config(folder)
    layers = _whole_setting(folder, config, "num_hidden_layers")
    weights = _Weights(folder / WEIGHTS, read_arrays(folder))
    _check_sizes(folder, config, weights)
    width = weights.width
    heads = _whole_setting(folder, config, "num_attention_heads")
    if width % heads:
        raise ModelError(
            f"{folder / CONFIG}: num_attention_heads is {heads}, which does not divide the width "
            f"{width} of the model; {_WRITTEN_AGAIN}"
        )
    tokenizer = Tokenizer.from_folder(folder)
    encoder = Encoder(
        embeddings=weights.embeddings(_eps(config)),
        layers=tuple(weights.layer(number, heads, _eps(config)) for number in range(layers)),
        first=0,
        padding=tokenizer.padding,
    )
    tokenizer.check_vocabulary(len(encoder.embeddings.word))  # type: ignore[union-attr]
    rows = len(encoder.embeddings.position)  # type: ignore[union-attr]
    if tokenizer.positions > rows:
        raise ModelError(
            f"{folder / CONFIG}: max_position_embeddings is {tokenizer.positions}, but "
            f'{WEIGHTS} has {rows} positions; write "max_position_embeddings": {rows}'
        )
    return Backbone(
        name=folder.resolve().name,
        encoder=encoder,
        tokenizer=tokenizer,
        folder=folder,
    )


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of the model in a folder."""
    path = folder / CONFIG
    config = model_config(folder)
    kind = config.get("model_type")
    if kind != "bert":
        raise ModelError(
            f"{path}: model_type is {kind!r}; fedkin computes 'bert' itself. Give another model "
            f"{_AS_MODULE}"
        )
    if "quantization_config" in config:
        raise ModelError(f"{path}: the weights are quantised; give the model before quantisation")
    for name, assumed in _ASSUMED.items():
        if config.get(name, assumed) != assumed:
            raise ModelError(
                f"{path}: {name} is {config[name]!r}; fedkin computes {assumed!r}. Give this model "
                f"{_AS_MODULE}"
            )
    return config


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The weights in a folder as float32 arrays, without the prefix ``bert.``."""
    path = folder / WEIGHTS
    if not path.is_file():
        if any(found for pattern in _PICKLES for found in folder.glob(pattern)):
            raise ModelError(
                f"{folder} has its weights in pickles only, which can run code. Load the model "
                f"where you trust it, and write {WEIGHTS} by model.save_pretrained(folder)"
            )
        if any(folder.glob(_SHARDS)):
            raise ModelError(
                f"{folder} has its weights in several files; model.save_pretrained(folder, "
                f"max_shard_size='100GB') writes them into one {WEIGHTS}"
            )
        raise ModelError(f"{folder} has no {WEIGHTS}; model.save_pretrained(folder) writes it")
    arrays = {}
    try:
        # NumPy has no bfloat16, and JAX reads all types of floats.
        with safe_open(path, framework="flax") as file:
            for name in file.keys():
                kind = file.get_slice(name).get_dtype()
                if kind in _FLOATS:
                    short = name.removeprefix("bert.")
                    arrays[short] = np.asarray(file.get_tensor(name), np.float32)
                elif kind not in ("I64", "I32"):
                    raise ModelError(
                        f"{path}: {name} has the type {kind}; quantised weights are not read; give "
                        "the model before quantisation"
                    )
    except SafetensorError as error:
        raise ModelError(
            f"{path} cannot be read: {error}; if the copy is incomplete, copy the file again, or "
            "write it by model.save_pretrained(folder)"
        ) from error
    return arrays


def _whole_setting(folder: Path, config: Mapping[str, Any], name: str) -> int:
    """A whole number of at least 1 among the settings of a model."""
    count = config.get(name)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ModelError(
            f"{folder / CONFIG}: {name} is {count!r}, not a whole number of at least 1; "
            f"{_WRITTEN_AGAIN}"
        )
    return count


def _check_sizes(folder: Path, config: Mapping[str, Any], weights: _Weights) -> None:
    """Raise ModelError if the settings of a model describe other arrays than its file has."""
    width = config.get("hidden_size", weights.width)
    if width != weights.width:
        raise ModelError(
            f"{folder / CONFIG}: hidden_size is {width!r}, but the vectors of {WEIGHTS} have "
            f"{weights.width} numbers; the files belong to different models"
        )
    layers = config["num_hidden_layers"]
    if any(name.startswith(f"encoder.layer.{layers}.") for name in weights.arrays):
        raise ModelError(
            f"{folder / CONFIG}: num_hidden_layers is {layers}, but {WEIGHTS} has more layers; the "
            "files belong to different models"
        )


def _eps(config: Mapping[str, Any]) -> float:
    """The number that normalisation adds to the variance."""
    return float(config.get("layer_norm_eps", 1e-12))


@dataclass(frozen=True)
class _Weights:
    """The arrays of a BERT model, by the names of transformers."""

    path: Path
    arrays: Mapping[str, np.ndarray]

    @cached_property
    def width(self) -> int:
        """Length of the vector of a token: the number of columns of the word vectors."""
        return self.array(_WORDS, (None, None)).shape[1]

    def array(self, name: str, shape: tuple[int | None, ...]) -> Any:
        """One array.

        Args:
            name: its name.
            shape: its shape; None for a length that may be any.

        Raises:
            ModelError: there is none, it has another shape, or a number is not finite.
        """
        if name not in self.arrays:
            raise ModelError(f"{self.path} has no array {name}; the file belongs to another model")
        found = self.arrays[name]
        fits = len(found.shape) == len(shape) and all(
            length > 0 and expected in (None, length)
            for length, expected in zip(found.shape, shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise ModelError(
                f"{self.path}: {name} has the shape {list(found.shape)}, not [{wanted}] as the "
                "other arrays need; the file belongs to another model"
            )
        if not np.isfinite(found).all():
            raise ModelError(
                f"{self.path}: {name} has numbers that are not finite; copy the file again, or "
                "write it by model.save_pretrained(folder)"
            )
        return found

    def projection(self, name: str, outputs: int | None, inputs: int) -> Projection:
        """A dense layer; with ``outputs`` None, its array says how many it has."""
        weight = self.array(f"{name}.weight", (outputs, inputs))
        return Projection(weight=weight, bias=self.array(f"{name}.bias", (len(weight),)))

    def norm(self, name: str, eps: float) -> LayerNorm:
        """A normalisation."""
        weight = self.array(f"{name}.weight", (self.width,))
        return LayerNorm(weight=weight, bias=self.array(f"{name}.bias", (self.width,)), eps=eps)

    def embeddings(self, eps: float) -> Embeddings:
        """The embeddings of tokens."""
        shape = (None, self.width)
        return Embeddings(
            word=self.array(_WORDS, shape),
            position=self.array("embeddings.position_embeddings.weight", shape),
            token_type=self.array("embeddings.token_type_embeddings.weight", shape),
            norm=self.norm("embeddings.LayerNorm", eps),
        )

    def layer(self, number: int, heads: int, eps: float) -> EncoderLayer:
        """One layer."""
        place = f"encoder.layer.{number}"
        width = self.width
        dense = {
            name: self.projection(f"{place}.{path}", width, width)
            for name, path in MODULES.items()
            if name.startswith("attention.")
        }
        inner = self.projection(f"{place}.{MODULES['intermediate']}", None, width)
        output = self.projection(f"{place}.{MODULES['output']}", width, len(inner.bias))
        attention = Attention(
            query=dense["attention.query"],
            key=dense["attention.key"],
            value=dense["attention.value"],
            output=dense["attention.output"],
            heads=heads,
        )
        return EncoderLayer(
            attention=attention,
            attention_norm=self.norm(f"{place}.attention.output.LayerNorm", eps),
            intermediate=inner,
            output=output,
            output_norm=self.norm(f"{place}.output.LayerNorm", eps),
        )
