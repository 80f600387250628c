"""Which layers of a network get low-rank factors, where these start, and where they lie in the flat
vector: the same for networks of JAX and of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.model_spec import Factor, ModelSpec, spec_from_shapes
from fedkin.core.object_repr import listed
from fedkin.core.plain import plain

_HEAD_DEVIATION = 0.02  # standard deviation of a new last layer, as in BERT
_TRAINED = ("AB", "B")
_MOST_ENDS = 20  # ends of names that a message lists


class DenseLayer(NamedTuple):
    """A dense layer of a network."""

    name: str
    shape: tuple[int, int]  # [out, in]


@dataclass(frozen=True)
class AdapterOptions:
    """The options of an adapter.

    Attributes:
        rank: rank of the factors.
        alpha: the factors' product is multiplied by alpha / rank.
        targets: ends of the names of the dense layers that get factors.
        layers: numbers of the network's layers that get factors; None for all.
        train: ``AB`` if both factors are trained, ``B`` if A is frozen.
        seed: seed of A.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]
    layers: tuple[int, ...] | None
    train: str
    seed: int

    @classmethod
    def of(
        cls,
        *,
        rank: Any,
        alpha: Any,
        targets: Any,
        layers: Any,
        train: Any,
        seed: Any,
    ) -> AdapterOptions:
        """The options of ``fk.lora``. Raises ConfigError for an invalid one."""
        if train not in _TRAINED:
            raise ConfigError(f"train must be 'AB' or 'B', got {train!r}")
        rank, alpha, layers, seed = (plain(value) for value in (rank, alpha, layers, seed))
        if not _is_whole(rank):
            raise ConfigError(f"rank must be a whole number, got {rank!r}; for example rank = 8")
        is_number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool)
        if not (is_number and math.isfinite(alpha) and alpha > 0):
            raise ConfigError(
                f"alpha must be a number above 0, got {alpha!r}; for example alpha = 16"
            )
        if not _is_whole(seed):
            raise ConfigError(f"seed must be a whole number, got {seed!r}; for example seed = 0")
        return cls(
            rank=rank,
            alpha=float(alpha),
            targets=_names(targets),
            layers=_layer_numbers(layers),
            train=train,
            seed=seed,
        )

    @property
    def scale(self) -> float:
        """The factor of the product of the two factors."""
        return self.alpha / self.rank

    def adapted(
        self, network: str, dense: Mapping[str, DenseLayer], own_head: DenseLayer | None
    ) -> list[DenseLayer]:
        """The layers that get factors.

        Args:
            network: name of the network, for messages.
            dense: all dense layers by name.
            own_head: the network's last layer, which is trained whole; None without one.

        Raises:
            ModelError: there are none.
            ConfigError: the rank is larger than a side of the smallest layer.
        """
        found = [
            layer
            for layer in dense.values()
            if layer is not own_head and layer.name.endswith(self.targets)
        ]
        if self.layers is not None:
            there = {layer_number(layer.name) for layer in found}
            unknown_layers = [number for number in self.layers if number not in there]
            if found and unknown_layers:
                raise ConfigError(
                    f"layers: {network!r} has no layer {', '.join(map(str, unknown_layers))} with "
                    f"these targets; there are {', '.join(map(str, sorted(there)))}"
                )
            found = [layer for layer in found if layer_number(layer.name) in self.layers]
        if not self.targets or not found:
            numbers = ""
            if self.layers is not None:
                numbers = f" in the layers {', '.join(map(str, self.layers))}"
            raise ModelError(
                f"no dense layer of {network!r} has a name that ends with "
                f"{' or '.join(self.targets) or 'nothing'}{numbers}; there are {_ends(dense)}; "
                "set targets to some of them"
            )
        smallest = min(min(layer.shape) for layer in found)
        if not 1 <= self.rank <= smallest:
            raise ConfigError(
                f"rank must be between 1 and {smallest}, the size of the smallest layer that gets "
                f"factors, got {self.rank}; for example rank = {min(8, smallest)}"
            )
        return found

    def drawn_a(self, adapted: Sequence[DenseLayer]) -> tuple[Array, ...]:
        """A of every adapted layer: uniform between -1/sqrt(in) and 1/sqrt(in), as in PyTorch."""
        keys = jax.random.split(jax.random.key(self.seed), len(adapted))
        drawn = []
        for key, layer in zip(keys, adapted, strict=True):
            inputs = layer.shape[1]
            bound = inputs**-0.5
            a = jax.random.uniform(
                key=key,
                shape=(self.rank, inputs),
                dtype=jnp.float32,
                minval=-bound,
                maxval=bound,
            )
            drawn.append(a)
        return tuple(drawn)

    def spec(
        self, adapted: Sequence[DenseLayer], head: Mapping[str, tuple[int, ...]], digest: str
    ) -> ModelSpec:
        """The layout of the flat vector: factors by layer, then the last layer.

        Args:
            adapted: the layers with factors.
            head: shapes of the last layer's ``weight`` and ``bias``; empty without a last layer.
            digest: digest of the frozen arrays.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in adapted:
            if self.train == "AB":
                shapes[f"{layer.name}.lora_A"] = (self.rank, layer.shape[1])
            shapes[f"{layer.name}.lora_B"] = (layer.shape[0], self.rank)
        shapes |= {f"head.{name}": shape for name, shape in head.items()}
        spec = spec_from_shapes(shapes, detects=False)
        factors = tuple(
            Factor(
                layer=layer.name,
                a=spec.slices.get(f"{layer.name}.lora_A"),
                b=spec.slices[f"{layer.name}.lora_B"],
                rank=self.rank,
                scale=self.scale,
            )
            for layer in adapted
        )
        weight = spec.slices.get("head.weight")
        return replace(
            spec,
            # Without a head, the last factors look like a kernel, but are none.
            head=None if weight is None else slice(weight.start, spec.parameters),
            head_bias=spec.slices.get("head.bias"),
            factors=factors,
            frozen=digest,
        )


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _names(targets: Any) -> tuple[str, ...]:
    """The ends of names, of one or of several. Raises ConfigError if one is no text."""
    names = (targets,) if isinstance(targets, str) else targets
    if not isinstance(names, Iterable):
        names = (targets,)
    found = tuple(names)
    odd = [name for name in found if not isinstance(name, str)]
    if odd:
        raise ConfigError(
            f"targets must be ends of names of dense layers, got {odd[0]!r}; for example "
            'targets = ["query", "value"]'
        )
    return found


def _layer_numbers(layers: Any) -> tuple[int, ...] | None:
    """The numbers of layers, of one or of several; None for all. Raises ConfigError if one is no
    whole number."""
    if layers is None:
        return None
    several = isinstance(layers, Iterable) and not isinstance(layers, str)
    found: tuple[Any, ...] = tuple(map(plain, layers)) if several else (layers,)
    odd = [number for number in found if not _is_whole(number)]
    if odd:
        raise ConfigError(
            f"layers must be whole numbers, got {odd[0]!r}; for example layers = [0, 1]"
        )
    return found


def own_head(network: str, dense: Mapping[str, DenseLayer], head: bool | str) -> DenseLayer:
    """The last layer of a network: the one with the given end of a name, or the last one.

    Args:
        network: name of the network, for messages.
        dense: all dense layers by name.
        head: the end of a name; True for the last layer.

    Raises:
        ModelError: there is none.
    """
    found = [layer for layer in dense.values() if head is True or layer.name.endswith(str(head))]
    if not found:
        raise ModelError(
            f"no dense layer of {network!r} has a name that ends with {head!r}; there are "
            f"{_ends(dense) or 'none'}"
        )
    return found[-1]


def drawn_head(key: Array, shape: tuple[int, int]) -> Float[Array, "o i"]:
    """The weight of a new last layer, drawn from a random key."""
    return _HEAD_DEVIATION * jax.random.normal(key, shape, jnp.float32)


def layer_number(name: str) -> int:
    """The first number in the name of a dense layer, which numbers its layer; -1 for none."""
    digits = [int(part) for part in name.split(".") if part.isdecimal()]
    return digits[0] if digits else -1


def _ends(dense: Mapping[str, DenseLayer]) -> str:
    """The last parts of the names of all dense layers."""
    ends = list(dict.fromkeys(name.rpartition(".")[2] for name in dense))
    return ", ".join(ends) if len(ends) <= _MOST_ENDS else listed(ends)
