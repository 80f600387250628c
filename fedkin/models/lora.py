"""Low-rank adapters: a pretrained network stays frozen, and small factors and a last layer are
trained.

Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models (ICLR 2022), section 4.1.

A dense layer y = W0 x + b becomes y = W0 x + b + (alpha / rank) B A x, with A [rank, in] and
B [out, rank]. B starts at 0, so that the first output is the backbone's. The flat vector of the
model has only A, B and the last layer: every method clusters and averages these.

A is drawn from ``seed`` once, equal for all clients, clusters and initial models. Only then can
B be compared between clients: B is the gradient seen through A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import BackboneFeatures, ModelSpec, Samples
from fedkin.core.plain import plain_lists
from fedkin.core.torch_adapters import make_torch_adapter
from fedkin.models.adapter_layers import (
    AdapterOptions,
    DenseLayer,
    drawn_head,
    layer_number,
    own_head,
)
from fedkin.models.backbone import Backbone, from_transformers
from fedkin.models.encoder import Projection
from fedkin.models.frozen import FrozenPart, Origin
from fedkin.models.layers import Dense
from fedkin.models.model import (
    Model,
    Tree,
    check_samples,
    is_torch_module,
    parameter_tree,
    prepare_jax,
)

_DENSE = (eqx.nn.Linear, Projection, Dense)


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


def lora(
    data: Samples,
    backbone: Any,
    *,
    rank: int = 8,
    alpha: float | int = 16.0,
    targets: Sequence[str] = ("query", "value"),
    layers: Sequence[int] | int | None = None,
    train: str = "AB",
    head: bool | str = True,
    batched: bool = False,
    seed: int = 0,
    engine: str = "torch",
    threads: int = 1,
    backbone_digest: str | None = None,
) -> Any:
    """A model whose clients train low-rank factors of a frozen network and its last layer.

    Args:
        data: federated data: token numbers [M, L] for a backbone, or the features that
            ``fk.models.features`` has computed from them.
        backbone: the folder of a pretrained text model, or what ``fk.models.from_transformers``
            returns for it; or an Equinox module; or a PyTorch module, such as a model of
            transformers.
        rank: rank of the factors.
        alpha: the factors' product is multiplied by alpha / rank.
        targets: ends of the names of the dense layers that get factors.
        layers: numbers of the backbone's layers that get factors; None for all.
        train: ``AB`` to train both factors; ``B`` to train B only (FFA-LoRA, Sun et al., ICLR
            2024), which makes messages smaller and means of models exact.
        head: for a backbone: True for a new last layer on the mean over the tokens. For a module:
            the end of the name of its last dense layer, which is drawn again and trained whole
            (True for the last one in the module); False if only factors are trained.
        batched: whether an Equinox module takes a batch instead of one sample.
        seed: seed of A, which is equal for all clients and clusters. The seed of a run draws the
            last layer and the batches, and does not change A.
        engine: for a PyTorch module: the library that trains it, as in ``fk.torch_model``.
        threads: for a PyTorch module: cores for one client.
        backbone_digest: digest of the backbone's weights, which are checked. Runs and exports store
            it. None for any backbone.

    Returns:
        The model: one of JAX, or of PyTorch for a PyTorch module.

    Raises:
        ModelError: no layer has a name of ``targets``, the backbone does not fit the data, or it
            has another digest.
        ConfigError: rank, ``train`` or a layer is none of those that there are.

    Examples:
        >>> import fedkin as fk
        >>> import equinox as eqx
        >>> import jax
        >>> data = fk.data.digits(clients=6)
        >>> net = eqx.nn.MLP(64, 10, width_size=16, depth=1, key=jax.random.key(0))
        >>> model = fk.lora(data, net, rank=2, targets=["layers.0"])
        >>> list(model.spec.slices)[:2], model.spec.parameters
        (['layers.0.lora_A', 'layers.0.lora_B'], 330)
    """
    prepare_jax()
    check_samples(data)
    if isinstance(backbone, (str, Path)):
        backbone = from_transformers(backbone)
    options = AdapterOptions.of(
        rank=rank, alpha=alpha, targets=targets, layers=layers, train=train, seed=seed
    )
    if is_torch_module(backbone):
        return make_torch_adapter(
            data, backbone, options=options, head=head, engine=engine, threads=threads
        )
    network = _network(backbone, data, head, batched)
    adapted = options.adapted(network.name, network.dense, network.own_head)
    drawn = options.drawn_a(adapted)
    parts = _Parts(network=network, adapted=adapted, options=options)
    trained_a = None if train == "B" else drawn
    origin = None
    if isinstance(backbone, Backbone):
        origin = _origin(
            backbone, rank, alpha, targets=targets, layers=layers, train=train, seed=seed
        )
    frozen = FrozenPart(
        name=network.name,
        tree=Frozen(backbone=network.arrays, a=drawn if train == "B" else None),
        origin=origin,
    )
    if backbone_digest is not None:
        _check_digest(frozen, backbone_digest)
    return parts.model(trained_a, frozen, data.classes)


def _origin(backbone: Backbone, rank: int, alpha: float | int, **options: Any) -> Origin:
    """The folder of a backbone, and the section [model] with these options."""
    section = {"name": "lora", "rank": rank, "alpha": float(alpha), **plain_lists(options)}
    if section["layers"] is None:
        del section["layers"]
    section["backbone_digest"] = backbone.digest
    return Origin(folder=backbone.folder, digest=backbone.digest, section=section)


def _check_digest(frozen: FrozenPart, expected: str) -> None:
    """Raise ModelError if the backbone is another one than expected."""
    if frozen.backbone_digest != expected:
        raise ModelError(
            f"the backbone {frozen.name!r} has the digest {frozen.backbone_digest[:12]}, but the "
            f"adapters belong to the one with {expected[:12]}; give the folder of that backbone"
        )


class _Network(NamedTuple):
    """A frozen network: its arrays, and everything else of it."""

    name: str
    arrays: Tree
    static: Any
    dense: dict[str, DenseLayer]
    positions: dict[str, int]  # of dense layers among the leaves, where they count as leaves
    call: Callable[[Any, Array, Array | None], Array]  # from module, batch and key to outputs
    new_head: int | None  # number of inputs of a new last layer; None without one
    own_head: DenseLayer | None  # the module's last layer, which is trained whole


def _network(backbone: Any, data: Samples, head: bool | str, batched: bool) -> _Network:
    """The parts of a backbone or of an Equinox module."""
    if isinstance(backbone, Backbone):
        backbone = _fitting(backbone, data)
        module = backbone.encoder
        name = backbone.name
    elif isinstance(backbone, eqx.Module):
        module = eqx.nn.inference_mode(backbone)
        name = type(backbone).__name__.lower()
    else:
        raise ModelError(
            "a backbone is what fk.models.from_transformers returns, its folder, or a module of "
            f"Equinox or PyTorch, got {type(backbone).__name__}"
        )
    arrays, static = eqx.partition(module, eqx.is_inexact_array)
    is_encoder = isinstance(backbone, Backbone)
    positions, dense = _dense_layers(module, backbone.encoder.first if is_encoder else 0)
    return _Network(
        name=name,
        arrays=jax.tree.map(np.asarray, arrays),
        static=static,
        dense=dense,
        positions=positions,
        call=_whole_batch if is_encoder or batched else _each_sample,
        new_head=backbone.encoder.width if is_encoder else None,
        own_head=None if is_encoder or head is False else own_head(name, dense, head),
    )


def _fitting(backbone: Backbone, data: Samples) -> Backbone:
    """The backbone for these samples: whole for token numbers, without its first layers for
    features."""
    if np.issubdtype(data.x.dtype, np.integer) and data.x.ndim == 2:
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


def _is_dense(node: Any) -> bool:
    """Whether a part of a module is a dense layer."""
    return isinstance(node, _DENSE)


def _dense_layers(module: Any, first: int) -> tuple[dict[str, int], dict[str, DenseLayer]]:
    """The positions and the shapes of the dense layers of a module by name, in the order of its
    fields.

    Args:
        module: the module.
        first: the number of its first layer in the whole backbone, from which names count.
    """
    leaves = jax.tree_util.tree_leaves_with_path(module, is_leaf=_is_dense)
    positions = {}
    found = {}
    for position, (path, leaf) in enumerate(leaves):
        if _is_dense(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
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


class _Parts(NamedTuple):
    """What the functions of an adapter's model need."""

    network: _Network
    adapted: list[DenseLayer]
    options: AdapterOptions

    def model(self, trained_a: tuple[Array, ...] | None, frozen: FrozenPart, classes: int) -> Model:
        """The model, for A that is trained (or None) and the frozen part."""

        def init(key: Array) -> Tree:
            return self.initial(key, trained_a, classes)

        def applied(arrays: Frozen) -> Callable[[TrainedParts, Array, Array | None], Array]:
            return lambda tree, x, key: self.scores(arrays, tree, x, key)

        example = init(jax.random.key(0))
        return Model(
            name=f"{self.network.name}-lora-{self.options.rank}",
            spec=self.spec(example, frozen.digest),
            init=init,
            apply=applied(frozen.tree),
            unflatten=parameter_tree(example),
            frozen=frozen,
            applied=applied,
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
        leaves, structure = jax.tree.flatten(module, is_leaf=_is_dense)
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

    def spec(self, example: TrainedParts, digest: str) -> ModelSpec:
        """The layout of the flat vector: factors by layer, then the last layer."""
        head: dict[str, tuple[int, ...]] = {}
        if example.head is not None:
            head = {"weight": example.head.weight.shape, "bias": example.head.bias.shape}
        return self.options.spec(self.adapted, head, digest)
