"""Adapters of PyTorch modules for ``fk.lora``: the module stays frozen, and clients train low-rank
factors of some dense layers and a new last layer.

The start is drawn as in ``fedkin.models.lora``, so a module of PyTorch and one of JAX with equal
layers start from the same flat vector.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Float, UInt32
from torch import Tensor, nn

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import Samples
from fedkin.models.adapter_layers import AdapterOptions, DenseLayer, drawn_head, own_head
from fedkin.models.frozen import FrozenPart
from fedkin.simulation.torch.adaptable_modules import (
    check_adaptable,
    check_targets,
    check_untied,
    check_weights,
    replace_layer,
)
from fedkin.simulation.torch.adapted_network import (
    AdaptedLinear,
    AdaptedNetwork,
    NetworkInputs,
    NewHead,
    has_scores,
)
from fedkin.simulation.torch.flat_module import (
    copied,
    error_reason,
    float_entries,
    shared_entries,
    to_tensor,
)
from fedkin.simulation.torch.frozen_tensors import as_arrays, put_arrays, without_arrays
from fedkin.simulation.torch.model import TorchModel
from fedkin.simulation.torch.source import check_settings


@dataclass(frozen=True, eq=False, repr=False)
class TorchAdapter(TorchModel):
    """A PyTorch model whose flat vector has low-rank factors and a last layer. Make one with
    ``fk.lora``.

    Attributes:
        options: the options of the adapter.
        adapted: the layers with factors.
        frozen: the arrays that are not trained.
    """

    options: AdapterOptions = field(kw_only=True)
    adapted: tuple[DenseLayer, ...] = field(kw_only=True)
    frozen: FrozenPart = field(kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        # The frozen tensors are the memory of the arrays in ``frozen``, so they are pickled once.
        # Ray's processes on one machine share arrays, but not tensors.
        return self.__dict__ | {"module": without_arrays(self.module), "make": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        put_arrays(self.module, self.frozen.tree)
        self.__dict__["make"] = partial(copied, self.module)

    def initial(self, words: UInt32[np.ndarray, "2"]) -> Float[np.ndarray, "P"]:
        """A new flat model: A as drawn from its seed, B = 0, and a last layer drawn from two uint32
        random words."""
        flat = np.zeros(self.spec.parameters, np.float32)
        for factor, a in zip(self.spec.factors, self.options.drawn_a(self.adapted), strict=True):
            if factor.a is not None:
                flat[factor.a] = np.ravel(a)
        if "head.weight" in self.spec.slices:
            outputs, inputs = float_entries(self.module)["head.weight"].shape
            key = jax.random.wrap_key_data(jnp.asarray(words))
            flat[self.spec.slices["head.weight"]] = np.ravel(drawn_head(key, (outputs, inputs)))
        return flat

    def description(self) -> dict[str, Any]:
        """Entries of a run's description: the class of the frozen network, its digest and its
        number of bytes, and the engine and the optimiser if they are set."""
        of_backbone = self.module.of_backbone()  # type: ignore[operator]
        described = super().description()
        described["torch"] = f"{of_backbone.__module__}:{of_backbone.__qualname__}"
        facts = {f"backbone_{name}": value for name, value in self.frozen.facts().items()}
        return described | facts


# New layers draw weights, which are replaced, and PyTorch's random state stays as the user left it.
@torch.random.fork_rng(devices=[])
def torch_adapter(
    data: Samples,
    module: Any,
    *,
    options: AdapterOptions,
    head: bool | str,
    engine: str,
    threads: int,
) -> TorchAdapter:
    """The model whose clients train low-rank factors of a module and its last layer.

    Args:
        data: federated data.
        module: the module. It is copied once and not changed.
        options: the options of the adapter.
        head: the end of the name of the module's last dense layer, True for the last one, False for
            none. For a module that returns hidden states: True for a new layer on their mean.
        engine: library that trains the model: ``torch``, ``jax`` or ``auto``.
        threads: cores for one client.

    Raises:
        ModelError: the module cannot be adapted, or does not fit the data.
        ConfigError: the rank is larger than a side of the smallest layer.
    """
    if not isinstance(module, nn.Module):
        raise ModelError(f"a backbone is a PyTorch module, got the class {module.__name__}")
    backbone = type(module).__name__.lower()
    name = f"{backbone}-lora-{options.rank}"
    check_settings(name, threads, engine)
    check_weights(module)
    network = _frozen_copy(module)
    x = _sample(network, backbone, data)
    width = _hidden_width(network, backbone, data.name, x)
    dense = _dense_layers(network)
    if width is None:
        own = None if head is False else own_head(backbone, dense, head)
        head_shape = None if own is None else own.shape
    else:
        _check_new_head(backbone, head)
        own = None
        head_shape = (int(data.classes), width)
    check_targets(network, backbone, options.targets)
    adapted = options.adapted(backbone, dense, own)
    check_adaptable(network, backbone, [layer.name for layer in adapted])
    if own is not None:
        check_untied(network, backbone, own.name)
    layers = _with_factors(network, adapted, options)
    last = None if head_shape is None else _new_head(network, own, head_shape)
    head_shapes = (
        {} if last is None else {key: tuple(p.shape) for key, p in last.named_parameters()}
    )
    built = AdaptedNetwork(network, layers, last, pools=width is not None)
    _check_used(built, backbone, x)
    frozen = FrozenPart(backbone, as_arrays(shared_entries(built)))
    spec = options.spec(adapted, head_shapes, frozen.digest)
    if head_shape is not None and head_shape[0] != data.classes:
        # It is not the output layer.
        spec = replace(spec, head=None, head_bias=None)
    return TorchAdapter(
        name=name,
        spec=replace(spec, embedding=0 if last is None else _embedding_length(built, x)),
        module=built,
        threads=threads,
        make=partial(copied, built),
        engine=engine,
        options=options,
        adapted=tuple(adapted),
        frozen=frozen,
    )


def _frozen_copy(module: nn.Module) -> nn.Module:
    """A copy of a module on the CPU, in evaluation mode, without gradients. Its parameters keep
    their types."""
    try:
        return copy.deepcopy(module).to("cpu").eval().requires_grad_(False)
    except (RuntimeError, TypeError) as error:  # non-leaf tensors; handles that cannot be copied
        raise ModelError(
            f"{type(module).__name__} cannot be copied: {error_reason(error)}"
        ) from error


def _sample(network: nn.Module, backbone: str, data: Samples) -> Tensor:
    """The first sample, as a batch. Raises ModelError if a text model cannot take it."""
    inputs = NetworkInputs(network)
    if inputs.takes_tokens:
        if data.x.ndim != 2 or not np.issubdtype(data.x.dtype, np.integer):
            raise ModelError(
                f"{data.name}: {backbone!r} takes token numbers [M, L] of its tokenizer, got "
                f"samples of shape {data.x.shape[1:]}, {data.x.dtype}"
            )
        if inputs.padding is None:
            raise ModelError(
                f"the config of {backbone!r} names no pad_token_id, so texts of different lengths "
                "cannot be put into one array; set module.config.pad_token_id"
            )
    return to_tensor(data.x[:1])


def _hidden_width(network: nn.Module, backbone: str, data: str, x: Tensor) -> int | None:
    """Length of the hidden states that a network returns; None if it returns scores."""
    try:
        # Not in inference mode: a module may keep a tensor that it has computed.
        with torch.no_grad():
            outputs = NetworkInputs(network).call(network, x)
    except Exception as error:  # whatever the user's own code raises
        raise ModelError(
            f"{backbone!r} does not take {data}'s samples of shape {tuple(x.shape[1:])}: "
            f"{error_reason(error)}"
        ) from error
    return None if has_scores(outputs) else int(outputs.last_hidden_state.shape[-1])


def _check_new_head(backbone: str, head: bool | str) -> None:
    """Raise ModelError unless a network of hidden states gets a new last layer."""
    if head is not True:
        raise ModelError(
            f"{backbone!r} returns hidden states and no scores, so it needs a new last layer: set "
            f"head=True, got {head!r}"
        )


def _dense_layers(network: nn.Module) -> dict[str, DenseLayer]:
    """The dense layers of a network by name, in its order."""
    return {
        name: DenseLayer(name=name, shape=(layer.out_features, layer.in_features))
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear)
    }


def _with_factors(
    network: nn.Module, adapted: Sequence[DenseLayer], options: AdapterOptions
) -> dict[str, AdaptedLinear]:
    """Replace layers of a network by adapted ones, and return these by name."""
    layers = {}
    for layer, a in zip(adapted, options.drawn_a(adapted), strict=True):
        frozen = network.get_submodule(layer.name)
        assert isinstance(frozen, nn.Linear)
        layers[layer.name] = AdaptedLinear(
            layer=frozen,
            a=torch.tensor(np.asarray(a)),
            trains_a=options.train == "AB",
            scale=options.scale,
        )
        replace_layer(network, frozen, layers[layer.name])
    return layers


def _new_head(network: nn.Module, own: DenseLayer | None, shape: tuple[int, int]) -> NewHead:
    """A new last layer, in place of the network's layer ``own`` if there is one.

    Args:
        network: the network.
        own: the network's last layer; None for a layer after the network.
        shape: its shape [out, in].
    """
    outputs, inputs = shape
    if own is None:
        return NewHead(inputs, outputs)
    replaced = network.get_submodule(own.name)
    last = NewHead(inputs, outputs, bias=replaced.bias is not None)
    replace_layer(network, replaced, last)
    return last


def _embedding_length(built: AdaptedNetwork, x: Tensor) -> int:
    """Length of a sample's embedding, the input of the last layer; 0 if a sample has no single
    one."""
    with torch.no_grad():
        found = built(x, embeds=True)
    return int(found.shape[1]) if found.ndim == 2 and len(found) == len(x) else 0


def _check_used(built: AdaptedNetwork, backbone: str, x: Tensor) -> None:
    """Raise ModelError if the scores of a sample do not depend on some factors or the last
    layer."""
    entries = float_entries(built)
    with torch.inference_mode(False), torch.enable_grad():
        scores = built(x)
        gradients: Sequence[Tensor | None] = [None] * len(entries)
        if scores.requires_grad:
            gradients = torch.autograd.grad(scores.sum(), list(entries.values()), allow_unused=True)
    unused = [name for name, gradient in zip(entries, gradients, strict=True) if gradient is None]
    if unused:
        raise ModelError(
            f"the scores of {backbone!r} do not depend on {unused[0]}: its forward does not call "
            "this layer, or uses its weight directly; choose other targets or another head"
        )
