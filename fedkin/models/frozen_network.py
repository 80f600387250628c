"""A frozen network that gets adapters: its arrays, its dense layers and its call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import BackboneFeatures, Samples
from fedkin.models.adapter_layers import DenseLayer, layer_number, own_head
from fedkin.models.backbone import Backbone
from fedkin.models.encoder import Projection
from fedkin.models.layers import Dense
from fedkin.models.model import Tree

_DENSE = (eqx.nn.Linear, Projection, Dense)
_NUMBERS = (bool, int, float, np.ndarray, jax.Array)


class FrozenNetwork(NamedTuple):
    """A frozen network: its arrays, and everything else of it."""

    name: str
    arrays: Tree
    static: Any
    dense: dict[str, DenseLayer]
    positions: dict[str, int]  # of dense layers among the leaves, where they count as leaves
    call: Callable[[Any, Array, Array | None], Array]  # from module, batch and key to outputs
    new_head: int | None  # number of inputs of a new last layer; None without one
    own_head: DenseLayer | None  # the module's last layer, which is trained whole

    @property
    def embedding(self) -> int:
        """Number of inputs of the last layer; 0 without one."""
        if self.new_head is not None:
            return self.new_head
        return 0 if self.own_head is None else self.own_head.shape[1]

    @property
    def constants(self) -> list[np.ndarray]:
        """Numbers of the network that compiled programs hold, such as integer arrays."""
        leaves = jax.tree.leaves(self.static)
        numbers = [leaf for leaf in leaves if isinstance(leaf, _NUMBERS)]
        return [np.asarray(leaf) for leaf in numbers if not _is_key(leaf)]


def frozen_network(backbone: Any, data: Samples, head: bool | str, batched: bool) -> FrozenNetwork:
    """The parts of a backbone or of an Equinox module.

    Args:
        backbone, head, batched: as for ``fk.lora``.
        data: the samples that the network takes.
    """
    if isinstance(backbone, Backbone):
        if head is not True:
            raise ModelError(
                f"the backbone {backbone.name!r} has no scores, so it needs a new last layer: "
                f"leave head={head!r} out"
            )
        backbone = _fitting(backbone, data)
        module = backbone.encoder
        name = backbone.name
    elif isinstance(backbone, eqx.Module):
        name = type(backbone).__name__.lower()
        _check_untied(backbone, name)
        module = eqx.nn.inference_mode(backbone)
    else:
        raise ModelError(
            "a backbone is what fk.models.from_transformers returns, its folder, or a module of "
            f"Equinox or PyTorch, got {type(backbone).__name__}"
        )
    arrays, static = eqx.partition(module, eqx.is_inexact_array)
    is_encoder = isinstance(backbone, Backbone)
    positions, dense = _dense_layers(module, backbone.encoder.first if is_encoder else 0)
    return FrozenNetwork(
        name=name,
        arrays=jax.tree.map(np.asarray, arrays),
        static=static,
        dense=dense,
        positions=positions,
        call=_whole_batch if is_encoder or batched else _each_sample,
        new_head=backbone.encoder.width if is_encoder else None,
        own_head=None if is_encoder or head is False else own_head(name, dense, head),
    )


def _check_untied(module: eqx.Module, name: str) -> None:
    """Raise ModelError if ``eqx.nn.Shared`` ties the weights of dense layers: such a layer has no
    weight that factors could change alone.

    Args:
        module: the module.
        name: its name, for messages.
    """
    leaves = jax.tree_util.tree_leaves_with_path(module, is_leaf=_is_shared)
    for path, leaf in leaves:
        if not _is_shared(leaf):
            continue
        parts = jax.tree_util.tree_leaves_with_path(leaf, is_leaf=is_dense)
        dense = [_path_name((*path, *inner)) for inner, part in parts if is_dense(part)]
        if dense:
            raise ModelError(
                f"{_path_name(path) or 'the module'} of {name!r} is an eqx.nn.Shared, which ties "
                f"weights of its parts, among them dense layers ({', '.join(dense)}); untie them: "
                "give a module that has these layers without eqx.nn.Shared"
            )


def _is_shared(node: Any) -> bool:
    """Whether a part of a module ties weights."""
    return isinstance(node, eqx.nn.Shared)


def _path_name(path: tuple[Any, ...]) -> str:
    """The name of a part of a module, such as ``layers.0``."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _fitting(backbone: Backbone, data: Samples) -> Backbone:
    """The backbone for these samples: whole for token numbers, without its first layers for
    features."""
    if np.issubdtype(data.x.dtype, np.integer) and data.x.ndim == 2:
        if getattr(data, "tokenizer", "") not in ("", backbone.tokenizer.digest):
            raise ModelError(
                f"{data.name}: another tokenizer has made the token numbers than {backbone.name!r} "
                f"has; make the data with tokenizer={str(backbone.folder)!r}"
            )
        if data.x.shape[1] > backbone.tokenizer.positions:
            raise ModelError(
                f"{data.name}: texts have {data.x.shape[1]} tokens, but the backbone "
                f"{backbone.name!r} has {backbone.tokenizer.positions} positions; give a "
                "smaller length"
            )
        words = len(backbone.encoder.embeddings.word)  # type: ignore[union-attr]
        if not 0 <= data.x.min() <= data.x.max() < words:
            raise ModelError(
                f"{data.name}: token numbers are between {data.x.min()} and {data.x.max()}, but "
                f"the backbone {backbone.name!r} has the tokens 0 to {words - 1}; make them with "
                "its tokenizer: backbone.tokens(texts)"
            )
        return backbone
    computed: BackboneFeatures | None = getattr(data, "features_of", None)
    width = backbone.encoder.width
    if computed is None:
        raise ModelError(
            f"{data.name}: the backbone {backbone.name!r} takes token numbers [M, L] of its "
            f"tokenizer, or features [M, L, {width}] of fk.models.features; got samples of shape "
            f"{data.x.shape[1:]}, {data.x.dtype}"
        )
    if computed.digest != backbone.digest:
        raise ModelError(
            f"{data.name}: the features were computed by the backbone {computed.backbone!r} with "
            f"the digest {computed.digest[:12]}, but {backbone.name!r} has {backbone.digest[:12]}: "
            "give the backbone of the features, or compute them again with fk.models.features"
        )
    return backbone.starting_at(computed.layer)


def _is_key(leaf: Any) -> bool:
    """Whether a number is a random key, which a frozen network does not use."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def is_dense(node: Any) -> bool:
    """Whether a part of a module is a dense layer."""
    return isinstance(node, _DENSE)


def _dense_layers(module: Any, first: int) -> tuple[dict[str, int], dict[str, DenseLayer]]:
    """The positions and the shapes of the dense layers of a module by name, in the order of its
    fields.

    Args:
        module: the module.
        first: the number of its first layer in the whole backbone, from which names count.
    """
    leaves = jax.tree_util.tree_leaves_with_path(module, is_leaf=is_dense)
    positions = {}
    found = {}
    for position, (path, leaf) in enumerate(leaves):
        if is_dense(leaf):
            name = _path_name(path)
            if first:
                own = layer_number(name)
                name = name.replace(f".{own}.", f".{own + first}.", 1)
            positions[name] = position
            found[name] = DenseLayer(name=name, shape=tuple(leaf.weight.shape))
    return positions, found


def _whole_batch(module: Any, x: Any, key: Array | None) -> Array:
    """Outputs of a module that takes a batch."""
    return module(x)


def _each_sample(module: Any, x: Any, key: Array | None) -> Array:
    """Outputs of a module that takes one sample."""
    return jax.vmap(module)(x)
