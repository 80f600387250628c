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

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import Samples
from fedkin.core.plain import plain_arguments, plain_lists
from fedkin.core.torch_adapters import make_torch_adapter
from fedkin.models.adapter_layers import AdapterOptions
from fedkin.models.adapter_model import AdapterParts, Frozen
from fedkin.models.backbone import Backbone, from_transformers
from fedkin.models.frozen import FrozenPart, Origin
from fedkin.models.frozen_network import frozen_network
from fedkin.models.model import check_samples, is_torch_module, prepare_jax


@plain_arguments
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
        ConfigError: an option has another type, or rank, ``train`` or a layer is none of those that
            there are.

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
    network = frozen_network(backbone, data, head, batched)
    adapted = options.adapted(network.name, network.dense, network.own_head)
    drawn = options.drawn_a(adapted)
    parts = AdapterParts(network=network, adapted=adapted, options=options)
    trained_a = None if train == "B" else drawn
    origin = None
    if isinstance(backbone, Backbone):
        origin = _origin(
            backbone,
            options.rank,
            options.alpha,
            targets=targets,
            layers=layers,
            train=train,
            seed=options.seed,
        )
    frozen = FrozenPart(
        name=network.name,
        tree=Frozen(backbone=network.arrays, a=drawn if train == "B" else None),
        constants=network.constants,
        origin=origin,
    )
    if backbone_digest is not None:
        _check_digest(frozen, backbone_digest)
    return parts.model(trained_a, frozen, data.classes)


def _origin(backbone: Backbone, rank: int, alpha: float, **options: Any) -> Origin:
    """The folder of a backbone, and the section [model] with these options."""
    section = {"name": "lora", "rank": rank, "alpha": alpha, **plain_lists(options)}
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
