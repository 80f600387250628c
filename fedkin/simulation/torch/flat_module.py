"""A PyTorch module as a flat vector: the floating-point entries of its ``state_dict``,
concatenated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt32
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import ModelSpec
from fedkin.simulation.torch.adapted_network import AdaptedNetwork


@dataclass(frozen=True, eq=False)
class FlatModule:
    """A module whose weights are given as a flat vector.

    Only copies of ``module`` are trained, never ``module`` itself.
    """

    name: str
    spec: ModelSpec
    module: nn.Module
    threads: int  # cores for one client
    # Makes the module, with weights drawn from PyTorch's random state.
    make: Callable[[], nn.Module]
    # The library that trains the module: torch, jax, or auto for the faster one that works.
    engine: str = field(default="torch", kw_only=True)
    # Makes a torch optimizer from (parameters, lr); None for the optimiser of the run's settings.
    optimizer: Callable[..., Any] | None = field(default=None, kw_only=True)

    def initial(self, words: UInt32[np.ndarray, "2"]) -> Float[np.ndarray, "P"]:
        """A new flat model, whose weights are drawn from two uint32 random words."""
        with self.torch_settings():
            return flat_vector(initialised(self.make, self.name, words))

    def network(self, flat: Float[np.ndarray, "P"]) -> nn.Module:
        """A copy of the module with the weights of a flat vector, such as a row of ``run.models``.

        Raises:
            ModelError: the vector has another length.
        """
        if flat.shape != (self.spec.parameters,):
            raise ModelError(
                f"model {self.name!r} has {self.spec.parameters} parameters, got an array of "
                f"shape {flat.shape}"
            )
        network = copied(self.module)
        with torch.no_grad():
            for name, entry in float_entries(network).items():
                entry.copy_(torch.tensor(flat[self.spec.slices[name]]).reshape(entry.shape))
        return network

    def embedded(self, batches: Iterable[Tensor]) -> Iterator[Tensor]:
        """The embeddings of batches by the frozen network of an adapter: the inputs of its last
        layer [B d]."""
        # With B = 0 the factors add nothing.
        network = self.network(np.zeros(self.spec.parameters, np.float32)).eval()
        for batch in batches:
            yield network(batch, embeds=True)

    @contextmanager
    def torch_settings(self) -> Iterator[None]:
        """Set PyTorch's threads and gradients for this model; the old settings and random state
        return afterwards."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            with (
                torch.random.fork_rng(devices=[]),
                torch.inference_mode(False),
                torch.enable_grad(),
            ):
                yield
        finally:
            torch.set_num_threads(before)


def shared_entries(module: nn.Module) -> dict[str, Tensor]:
    """The entries of a frozen network, which are not in the vector, by name. Empty for a module
    that is no adapter."""
    return module.shared_entries() if isinstance(module, AdaptedNetwork) else {}


def copied(module: nn.Module) -> nn.Module:
    """A copy of a module. It shares the entries of a frozen network with the module."""
    return copy.deepcopy(module, {id(entry): entry for entry in shared_entries(module).values()})


def float_entries(module: nn.Module) -> dict[str, Tensor]:
    """The floating-point entries of the module's state by name, without those of a frozen network;
    an entry that two layers share occurs once."""
    shared = {id(entry) for entry in shared_entries(module).values()}
    by_identity: dict[int, tuple[str, Tensor]] = {}
    for name, entry in module.state_dict(keep_vars=True).items():
        is_float = isinstance(entry, Tensor) and entry.is_floating_point()
        if is_float and id(entry) not in shared:
            by_identity.setdefault(id(entry), (name, entry))
    return dict(by_identity.values())


def trainable_entries(module: nn.Module) -> dict[str, Tensor]:
    """The entries that gradient steps change: no running statistics, no frozen parameters."""
    return {name: entry for name, entry in float_entries(module).items() if entry.requires_grad}


def batch_norm_entries(module: nn.Module) -> set[str]:
    """The names of the entries of all batch normalisation layers: weights, biases and running
    statistics."""
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    owned = {id(entry) for layer in layers for entry in float_entries(layer).values()}
    return {name for name, entry in float_entries(module).items() if id(entry) in owned}


def flat_vector(module: nn.Module) -> Float[np.ndarray, "P"]:
    """The module's floating-point entries as one vector."""
    return torch.cat(
        [entry.detach().reshape(-1) for entry in float_entries(module).values()]
    ).numpy()


def to_tensor(x: Shaped[np.ndarray, "s ..."]) -> Tensor:
    """Samples or labels as a tensor of float32, or of int64 for integers.

    The array is copied only if its type differs.
    """
    dtype = np.float32 if np.issubdtype(x.dtype, np.floating) else np.int64
    return torch.from_numpy(np.require(x, dtype, ["C", "W"]))


def seed_torch(words: UInt32[np.ndarray, "2"]) -> None:
    """Seed PyTorch's CPU generator with two uint32 words."""
    torch.default_generator.manual_seed(int(words[0]) << 32 | int(words[1]))


def error_reason(error: Exception) -> str:
    """The type and the first line of an error that PyTorch or user code raised."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no reason given')}"


def initialised(
    make: Callable[[], nn.Module], name: str, words: UInt32[np.ndarray, "2"]
) -> nn.Module:
    """A copy of the module that ``make`` returns after seeding, on the CPU and in float32.

    Args:
        make: returns the module.
        name: name of the model in messages.
        words: two random words, which seed PyTorch.

    Raises:
        ModelError: ``make`` fails or does not return a module that can be used.
    """
    seed_torch(words)
    try:
        module = make()
    except Exception as error:  # whatever the user's own code raises
        raise ModelError(
            f"model {name!r}: its function failed to make a module: {error_reason(error)}"
        ) from error
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"model {name!r}: its function must return an nn.Module, got {type(module).__name__}"
        )
    if any(p.is_complex() for p in module.parameters()):
        raise ModelError(f"model {name!r} has complex parameters; a flat vector holds float32")
    try:
        return copy.deepcopy(module).to("cpu", torch.float32)
    except (RuntimeError, TypeError) as error:  # non-leaf tensors; handles that cannot be copied
        raise ModelError(f"model {name!r} cannot be copied: {error_reason(error)}") from error
