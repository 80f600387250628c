"""A frozen PyTorch network with low-rank factors in some of its dense layers, and a new last layer.

Only the factors and the last layer are trained. The network itself is in evaluation mode in
training too (no dropout, fixed running statistics), and all copies share its tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedkin.core.errors import ModelError


class AdaptedLinear(nn.Linear):
    """A frozen dense layer and its two factors: the layer's output plus scale B A x.

    The layer's weight and bias keep their names and their type. The factors are float32.

    Args:
        layer: the frozen layer.
        a: A [rank, in].
        trains_a: whether A is trained.
        scale: factor of the product.
    """

    def __init__(self, layer: nn.Linear, a: Tensor, trains_a: bool, scale: float) -> None:
        # nn.Linear would draw a weight, and the layer has one.
        nn.Module.__init__(self)
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.weight = layer.weight
        self.bias = layer.bias
        self.lora_A = nn.Parameter(a, requires_grad=trains_a)
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, len(a)))
        self.scale = scale

    def forward(self, input: Tensor) -> Tensor:
        """Outputs [.. out] of inputs [.. in], in the type of the frozen layer."""
        out = functional.linear(input, self.weight, self.bias)
        low = functional.linear(input.to(self.lora_A.dtype), self.lora_A)
        return out + (self.scale * functional.linear(low, self.lora_B)).to(out.dtype)


class NewHead(nn.Linear):
    """The last layer, which is trained whole: float32 whatever the type of its inputs."""

    def forward(self, input: Tensor) -> Tensor:
        """Scores [.. out] of inputs [.. in]."""
        return super().forward(input.to(self.weight.dtype))


class AdaptedNetwork(nn.Module):
    """A network whose dense layers have been adapted, as a module from samples to scores.

    The trained parameters come first and have the names of the flat vector: ``LAYER.lora_A``,
    ``LAYER.lora_B``, and ``head.weight`` and ``head.bias``. Each of them is also a parameter of the
    layer that computes with it.

    Args:
        network: the frozen network, in which the layers have been replaced.
        adapted: the adapted layers by name.
        head: the last layer; None if only factors are trained.
        pools: whether the last layer follows the network, on the mean over positions. Otherwise it
            is a layer of the network.
    """

    def __init__(
        self,
        network: nn.Module,
        adapted: Mapping[str, AdaptedLinear],
        head: NewHead | None,
        pools: bool,
    ) -> None:
        super().__init__()
        for name, layer in adapted.items():
            names = ("lora_A", "lora_B") if layer.lora_A.requires_grad else ("lora_B",)
            _register(self, name, {part: getattr(layer, part) for part in names})
        if head is not None:
            parts = {"weight": head.weight, "bias": head.bias}
            _register(
                self, "head", {name: part for name, part in parts.items() if part is not None}
            )
        self._network = network
        self._last = head if pools else None
        self._inputs = NetworkInputs(network)
        self.train(False)

    def train(self, mode: bool = True) -> AdaptedNetwork:
        """Set the mode of this module only. The frozen network stays in evaluation mode."""
        super().train(False)
        self.training = mode
        return self

    def shared_entries(self) -> dict[str, Tensor]:
        """The entries that are not trained, by name: the network's frozen parameters and its
        buffers. All copies of this module share them."""
        entries = {
            name: entry for name, entry in self.named_parameters() if not entry.requires_grad
        }
        return entries | dict(self.named_buffers())

    def forward(self, x: Tensor, embeds: bool = False) -> Tensor:
        """Scores [B C] of samples.

        Args:
            x: samples.
            embeds: whether to return the inputs of the last layer [B d] in place of the scores.
        """
        if embeds:
            return self._last_inputs(x)
        outputs = self._inputs.call(self._network, x)
        if self._last is None:
            return scores_of(outputs).float()
        return self._last(self._inputs.pooled(outputs.last_hidden_state, x))

    def _last_inputs(self, x: Tensor) -> Tensor:
        """The inputs of the last layer [B d]; the mean over positions of inputs [B L d]."""
        (last,) = (layer for layer in self.modules() if isinstance(layer, NewHead))
        inputs: list[Tensor] = []
        hook = last.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        try:
            self(x)
        finally:
            hook.remove()
        found = inputs[-1]
        return self._inputs.pooled(found, x) if found.ndim == 3 else found.float()

    def of_backbone(self) -> type:
        """The class of the frozen network."""
        return type(self._network)


def _register(root: nn.Module, name: str, parameters: Mapping[str, nn.Parameter]) -> None:
    """Make parameters known under a layer's name, such as ``encoder.0.query``."""
    place = root
    for part in name.split("."):
        if part not in place._modules:
            place.add_module(part, nn.Module())
        place = place.get_submodule(part)
    for own, parameter in parameters.items():
        place.register_parameter(own, parameter)


class NetworkInputs:
    """How a network takes samples: by position, or for text models of transformers by name, with a
    mask of the positions that are no padding.

    Args:
        network: the network. The parameters of its ``forward`` and its ``config`` say how.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = inspect.signature(network.forward).parameters
        self.takes_tokens = "input_ids" in parameters
        self.padding = getattr(getattr(network, "config", None), "pad_token_id", None)
        self._is_masked = "attention_mask" in parameters
        # A cache of keys and values is for texts that go on.
        self._named: dict[str, Any] = {"use_cache": False} if "use_cache" in parameters else {}
        weights = (entry for entry in network.parameters() if entry.is_floating_point())
        self._type = next((entry.dtype for entry in weights), torch.float32)

    def call(self, network: nn.Module, x: Tensor) -> Any:
        """What the network returns for samples."""
        if not self.takes_tokens:
            # Numbers get the type of the weights, such as bfloat16.
            return network(x.to(self._type) if x.is_floating_point() else x, **self._named)
        if not self._is_masked:
            return network(input_ids=x, **self._named)
        return network(input_ids=x, attention_mask=self._mask(x).to(x.dtype), **self._named)

    def pooled(self, hidden: Tensor, x: Tensor) -> Tensor:
        """The mean over the positions of hidden states [B L d], without padding."""
        hidden = hidden.float()
        if not self.takes_tokens:
            return hidden.mean(dim=1)
        mask = self._mask(x)[..., None].float()
        return (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)

    def _mask(self, x: Tensor) -> Tensor:
        """Which positions are no padding."""
        return x != self.padding


def has_scores(outputs: Any) -> bool:
    """Whether a network's outputs are scores: a tensor, or an output of transformers with
    ``logits``. Otherwise they are hidden states.

    Raises:
        ModelError: they are neither.
    """
    if isinstance(outputs, Tensor) or isinstance(getattr(outputs, "logits", None), Tensor):
        return True
    if isinstance(getattr(outputs, "last_hidden_state", None), Tensor):
        return False
    raise ModelError(
        f"the network returns a {type(outputs).__name__}, expected a tensor of scores, or an "
        "output of transformers with logits or last_hidden_state"
    )


def scores_of(outputs: Any) -> Tensor:
    """The scores in a network's outputs."""
    return outputs if isinstance(outputs, Tensor) else outputs.logits
