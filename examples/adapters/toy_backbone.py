"""A small text encoder in the format of Hugging Face, for machines without a pretrained one.

    python examples/adapters/toy_backbone.py runs/toy-backbone

It learns in a few seconds to tell the topics of made-up remarks apart. A real backbone has read far
more: give its folder instead of this one.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from safetensors.numpy import save_file

import fedkin as fk

sys.path.insert(0, str(Path(__file__).parent))
from remarks import FILLERS, TOPICS, sentence

WIDTH = 32
LAYERS = 2
INNER = 64
LENGTH = 16
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = (*SPECIAL, *FILLERS, *" ".join(TOPICS.values()).split())
STEPS = 150
TEXTS = 64  # of a step


def config() -> dict[str, Any]:
    """The settings of the encoder."""
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": len(WORDS),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": INNER,
        "hidden_act": "gelu",
        "max_position_embeddings": LENGTH,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }


def random_weights() -> dict[str, np.ndarray]:
    """Weights before any training, by the names of transformers."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, rows in (("word", len(WORDS)), ("position", LENGTH), ("token_type", 2)):
        arrays[f"embeddings.{name}_embeddings.weight"] = 0.1 * rng.normal(size=(rows, WIDTH))
    norms = ["embeddings.LayerNorm"]
    for number in range(LAYERS):
        place = f"encoder.layer.{number}"
        norms += [f"{place}.attention.output.LayerNorm", f"{place}.output.LayerNorm"]
        layers = {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (INNER, WIDTH),
            "output.dense": (WIDTH, INNER),
        }
        for name, shape in layers.items():
            arrays[f"{place}.{name}.weight"] = rng.normal(size=shape) / shape[1] ** 0.5
            arrays[f"{place}.{name}.bias"] = np.zeros(shape[0])
    for name in norms:
        arrays[f"{name}.weight"] = np.ones(WIDTH)
        arrays[f"{name}.bias"] = np.zeros(WIDTH)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def tokenizer() -> dict[str, Any]:
    """A tokenizer that splits at spaces, and adds [CLS] and [SEP]."""
    number = {word: place for place, word in enumerate(WORDS)}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    parts = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    special = {word: {"id": word, "ids": [number[word]], "tokens": [word]} for word in SPECIAL[2:]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number[word], "content": word, "special": True, **added} for word in SPECIAL
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": parts,
            "pair": [*parts, *parts[1:]],
            "special_tokens": special,
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": number, "unk_token": "[UNK]"},
    }


def pretrained(backbone: fk.models.Backbone) -> Any:
    """The encoder after some steps of telling topics apart."""
    rng = random.Random(2)
    head = jnp.zeros((len(TOPICS), WIDTH))
    parameters = (jax.tree.map(jnp.asarray, backbone.encoder), head)
    optimizer = optax.adam(3e-3)
    memory = optimizer.init(parameters)

    def loss(parameters: Any, tokens: Any, topics: Any) -> Any:
        encoder, head = parameters
        scores = encoder(tokens) @ head.T
        return optax.softmax_cross_entropy_with_integer_labels(scores, topics).mean()

    @jax.jit
    def step(parameters: Any, memory: Any, tokens: Any, topics: Any) -> Any:
        gradient = jax.grad(loss)(parameters, tokens, topics)
        change, memory = optimizer.update(gradient, memory, parameters)
        return optax.apply_updates(parameters, change), memory

    for _ in range(STEPS):
        topics = [rng.randrange(len(TOPICS)) for _ in range(TEXTS)]
        texts = [sentence(list(TOPICS)[topic], rng) for topic in topics]
        tokens = backbone.tokens(texts, LENGTH)
        parameters, memory = step(parameters, memory, tokens, jnp.asarray(topics))
    return parameters[0]


def main(folder: Path) -> None:
    """Write the folder: first with random weights, then with trained ones."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = random_weights()
    (folder / "config.json").write_text(json.dumps(config(), indent=2))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=2))
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    backbone = fk.models.from_transformers(folder)
    trained = replace(backbone, encoder=pretrained(backbone))
    save_file(trained.arrays(), folder / "model.safetensors", metadata={"format": "pt"})
    print(f"wrote {folder}: {fk.models.from_transformers(folder)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to write")
    main(parser.parse_args().folder)
