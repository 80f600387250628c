"""Which PyTorch modules can be adapted by ``fk.lora``, and the replacement of their layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fedkin.core.errors import ModelError

# Packages whose layers hold quantised weights.
_QUANTISED = ("bitsandbytes", "torch.ao.nn.quantized", "torchao", "gptqmodel", "auto_gptq", "awq")
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_weights(module: nn.Module) -> None:
    """Raise ModelError, with the layer's name, for quantised weights, and for a module that has
    adapters."""
    if getattr(getattr(module, "config", None), "quantization_config", None) is not None:
        raise ModelError(
            f"{type(module).__name__}: the weights are quantised (config.quantization_config); "
            "load the model without quantisation, for instance in bfloat16"
        )
    for name, layer in module.named_modules():
        package = type(layer).__module__
        if package.startswith("peft."):
            raise ModelError(
                f"{name or type(layer).__name__} belongs to peft: give the model before "
                "get_peft_model, and rank, alpha and targets to fk.lora"
            )
        entries = [*layer.parameters(recurse=False), *getattr(layer, "_buffers", {}).values()]
        is_packed = any(
            part is not None and type(part).__module__.startswith(_QUANTISED) for part in entries
        )
        parameters = list(layer.parameters(recurse=False))
        odd = [p.dtype for p in parameters if p.dtype not in _FLOATS]
        if package.startswith(_QUANTISED) or is_packed or odd or hasattr(layer, "qweight"):
            kind = f"{odd[0]}" if odd else type(layer).__name__
            raise ModelError(
                f"the weights of {name or type(layer).__name__} are quantised ({kind}); load the "
                "model without quantisation, for instance in bfloat16"
            )


def check_targets(network: nn.Module, backbone: str, targets: Sequence[str]) -> None:
    """Raise ModelError if a target is a layer whose weight lies the other way round, as in GPT-2.

    Args:
        network: the network.
        backbone: its name, for messages.
        targets: ends of names.
    """
    for name, layer in network.named_modules():
        if type(layer).__name__ == "Conv1D" and name.endswith(tuple(targets)) and targets:
            raise ModelError(
                f"{name} of {backbone!r} is a Conv1D of transformers, whose weight is stored as "
                "[in, out]; fk.lora adapts nn.Linear only"
            )


def check_adaptable(network: nn.Module, backbone: str, names: Sequence[str]) -> None:
    """Raise ModelError for a layer that computes something else than ``nn.Linear``, or whose weight
    another module uses directly.

    Args:
        network: the network. Layers of ``nn.TransformerEncoderLayer`` are set to be called.
        backbone: its name, for messages.
        names: names of the layers that get factors.
    """
    for name in names:
        layer = network.get_submodule(name)
        if type(layer).forward is not nn.Linear.forward:
            raise ModelError(
                f"{name} of {backbone!r} is a {type(layer).__name__} with another forward than "
                "nn.Linear; choose other targets"
            )
        parent = network.get_submodule(name.rpartition(".")[0])
        if isinstance(parent, nn.MultiheadAttention):
            raise ModelError(
                f"{name} of {backbone!r} is part of nn.MultiheadAttention, which uses its weight "
                "directly; choose other targets"
            )
    for layer in network.modules():
        # Its fast path in inference uses the weights of its dense layers directly.
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.activation_relu_or_gelu = 0


def check_untied(network: nn.Module, backbone: str, head: str) -> None:
    """Raise ModelError if the last layer shares its weight with another layer, such as the
    embedding.

    Args:
        network: the network.
        backbone: its name, for messages.
        head: name of the last layer.
    """
    weight = network.get_submodule(head).weight
    for name, parameter in network.named_parameters(remove_duplicate=False):
        if parameter is weight and name != f"{head}.weight":
            raise ModelError(
                f"{head} of {backbone!r} shares its weight with {name.removesuffix('.weight')}, "
                "which stays frozen; untie them, or choose another head"
            )


def replace_layer(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put a layer in the place of another one, wherever the network has it.

    Args:
        network: the network.
        old: its layer.
        new: the layer in its place.
    """
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)
