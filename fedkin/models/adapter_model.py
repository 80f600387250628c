"""The model of an adapter: a frozen network, and the low-rank factors and the last layer that
clients train."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.core.model_spec import ModelSpec
from fedkin.models.adapter_layers import AdapterOptions, DenseLayer, drawn_head
from fedkin.models.encoder import Projection
from fedkin.models.frozen import FrozenPart
from fedkin.models.frozen_network import FrozenNetwork, is_dense
from fedkin.models.model import Model, Tree, parameter_tree


class Factors(NamedTuple):
    """The two factors of one adapted layer."""

    a: Any  # [rank, in]; None if it is frozen
    b: Any  # [out, rank]


class TrainedParts(NamedTuple):
    """What clients train: the factors of all adapted layers, then the last layer."""

    factors: tuple[Factors, ...]
    head: Any  # a Projection; None without one


class Frozen(NamedTuple):
    """Parts that are not trained: the arrays of the backbone, and A where only B is trained."""

    backbone: Any
    a: Any


class Adapted(eqx.Module):
    """A frozen dense layer and its two factors: the layer's output plus scale B A x."""

    layer: Any
    a: Float[Array, "r i"]
    b: Float[Array, "o r"]
    scale: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "... i"], **options: Any) -> Float[Array, "... o"]:
        return self.layer(x, **options) + self.scale * ((x @ self.a.T) @ self.b.T)


class Unchanged(eqx.Module):
    """Takes the place of a last layer whose inputs are the outputs."""

    def __call__(self, x: Float[Array, "... i"], **options: Any) -> Float[Array, "... i"]:
        return x


class AdapterParts(NamedTuple):
    """What the functions of an adapter's model need."""

    network: FrozenNetwork
    adapted: list[DenseLayer]
    options: AdapterOptions

    def model(self, trained_a: tuple[Array, ...] | None, frozen: FrozenPart, classes: int) -> Model:
        """The model, for A that is trained (or None) and the frozen part."""

        def init(key: Array) -> Tree:
            return self.initial(key, trained_a, classes)

        def applied(arrays: Frozen) -> Callable[[TrainedParts, Array, Array | None], Array]:
            return lambda tree, x, key: self.scores(arrays, tree, x, key)

        example = init(jax.random.key(0))
        spec = self.spec(example, frozen.digest)
        return Model(
            name=f"{self.network.name}-lora-{self.options.rank}",
            spec=replace(spec, embedding=self.network.embedding),
            init=init,
            apply=applied(frozen.tree),
            unflatten=parameter_tree(example),
            frozen=frozen,
            applied=applied,
            embedded=self.embeddings if self.network.embedding else None,
        )

    def initial(
        self, key: Array, trained_a: tuple[Array, ...] | None, classes: int
    ) -> TrainedParts:
        """New parameters: A as drawn, B = 0, and a last layer drawn from the key."""
        factors = []
        for number, layer in enumerate(self.adapted):
            a = None if trained_a is None else trained_a[number]
            b = jnp.zeros((layer.shape[0], self.options.rank), jnp.float32)
            factors.append(Factors(a=a, b=b))
        shape = None
        if self.network.new_head is not None:
            shape = (classes, self.network.new_head)
        elif self.network.own_head is not None:
            shape = self.network.own_head.shape
        head = None
        if shape is not None:
            head = Projection(weight=drawn_head(key, shape), bias=jnp.zeros(shape[0], jnp.float32))
        return TrainedParts(factors=tuple(factors), head=head)

    def scores(self, frozen: Frozen, tree: TrainedParts, x: Any, key: Array | None) -> Array:
        """Scores of a batch."""
        module = eqx.combine(frozen.backbone, self.network.static)
        leaves, structure = jax.tree.flatten(module, is_leaf=is_dense)
        for number, layer in enumerate(self.adapted):
            factors = tree.factors[number]
            a = factors.a if frozen.a is None else frozen.a[number]
            position = self.network.positions[layer.name]
            leaves[position] = Adapted(
                layer=leaves[position], a=a, b=factors.b, scale=self.options.scale
            )
        if self.network.own_head is not None:
            leaves[self.network.positions[self.network.own_head.name]] = tree.head
        outputs = self.network.call(jax.tree.unflatten(structure, leaves), x, key)
        return outputs if self.network.new_head is None else tree.head(outputs)

    def embeddings(self, frozen: Frozen, x: Any) -> Float[Array, "B e"]:
        """The inputs of the last layer by the frozen network alone, without factors."""
        module = eqx.combine(frozen.backbone, self.network.static)
        if self.network.own_head is not None:
            leaves, structure = jax.tree.flatten(module, is_leaf=is_dense)
            leaves[self.network.positions[self.network.own_head.name]] = Unchanged()
            module = jax.tree.unflatten(structure, leaves)
        return self.network.call(module, x, None)

    def spec(self, example: TrainedParts, digest: str) -> ModelSpec:
        """The layout of the flat vector: factors by layer, then the last layer."""
        head: dict[str, tuple[int, ...]] = {}
        if example.head is not None:
            head = {"weight": example.head.weight.shape, "bias": example.head.bias.shape}
        return self.options.spec(self.adapted, head, digest)
