"""A PyTorch module behind a flat vector: the floating-point entries of its ``state_dict``, end to end."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt32
from torch import Tensor, nn

from fedkin.core.errors import ModelError
from fedkin.core.layout import Samples, fitted, laid_out
from fedkin.core.world import ModelSpec
from fedkin.data.federated import FederatedData


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A PyTorch module as a model; ``torch_model`` makes one. ``module`` is never trained, only copies of it are."""

    name: str
    spec: ModelSpec
    make: Callable[[], nn.Module]
    module: nn.Module
    threads: int = 1

    random = True  # nobody can tell whether a module draws random numbers
    penalty = None  # a module adds nothing to its loss

    def initial(self, words: UInt32[np.ndarray, "2"]) -> Float[np.ndarray, "P"]:
        """A fresh flat model from two uint32 words of randomness."""
        with self.at_work():
            return flat_of(_made(self.make, self.name, words))

    def network(self, flat: Float[np.ndarray, "P"]) -> nn.Module:
        """A copy of the module with the weights of a flat vector, such as a row of ``run.models``.

        Raises:
            ModelError: a vector of another length.
        """
        if flat.shape != (self.spec.parameters,):
            raise ModelError(
                f"model {self.name!r} has {self.spec.parameters} parameters, got an array of shape {flat.shape}"
            )
        network = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, entry in entries(network).items():
                entry.copy_(torch.tensor(flat[self.spec.slices[name]]).reshape(entry.shape))
        return network

    def check(self, data: Samples) -> ModelSpec:
        """Try the module on one sample: what is known of it then.

        Raises:
            ModelError: it does not take the samples, its scores are of another shape, or no parameter moves them.
        """
        scores = self.scores(data)
        known = fitted(self.spec, self.name, data.name, int(data.classes), tuple(scores.shape))
        if not (scores.requires_grad and scores.is_floating_point()):
            raise ModelError(f"model {self.name!r}: its scores do not depend on any parameter that can be trained")
        return known

    def scores(self, data: Samples) -> Tensor:
        """What the module gives the first sample, [1 C]. Raises ModelError where it gives no scores."""
        place = f"{data.name}'s samples of shape {data.x.shape[1:]}"
        with self.at_work():
            try:
                scores = copy.deepcopy(self.module).eval()(tensor_of(data.x[:1]))
            except Exception as error:  # whatever the user's own code raises
                raise ModelError(f"model {self.name!r} does not take {place}: {reason_of(error)}") from error
        if not isinstance(scores, Tensor):
            raise ModelError(
                f"model {self.name!r} returns a {type(scores).__name__}, expected scores in a tensor [B C]"
            )
        return scores

    def workers(self, data: FederatedData, ids: Int[np.ndarray, "N"]) -> tuple[Any, Any]:
        """What scores and what trains on these data; streams know the clients by ``ids``."""
        from fedkin.simulation.torch.scoring import Scorer
        from fedkin.simulation.torch.training import Trainer

        return Scorer(data, self), Trainer(data, self, ids)

    def described(self) -> dict[str, str]:
        """The module's class, where a configuration has the function that makes it."""
        kind = type(self.module)
        return {"torch": f"{kind.__module__}:{kind.__qualname__}"}

    def digest(self, data: FederatedData) -> str:
        """A digest of the names and shapes of the entries, of how the module prints itself, and of its weights from
        fixed randomness. What its code does cannot be told: with other code it is the user's word that it is the same.
        """
        shapes = [(name, tuple(entry.shape), entry.requires_grad) for name, entry in entries(self.module).items()]
        told = re.sub(r" at 0x[0-9a-fA-F]+", "", str(self.module))  # where functions lie in memory
        digest = hashlib.sha256(repr((shapes, told, self.spec.detects)).encode())
        digest.update(self.initial(np.array([1, 2], np.uint32)).tobytes())
        return digest.hexdigest()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The settings of PyTorch that work needs; those of the process, and its random numbers, come back after."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            torch.set_num_threads(before)


def of_module(make: Callable[[], nn.Module], fixed: bool, name: str, detects: bool, threads: int) -> TorchModel:
    """A model of what ``make`` returns; where that is ``fixed``, its weights of now are the start of every run.

    Raises ModelError for what cannot be one.
    """
    with torch.random.fork_rng(devices=[]):
        module = _made(make, name, np.array([1, 2], np.uint32))
    try:
        shapes = {key: tuple(entry.shape) for key, entry in entries(module).items()}
        if not any(entry.requires_grad for entry in entries(module).values()):
            raise ModelError(f"model {name!r} has no floating-point parameters that can be trained")
    except RuntimeError as error:  # lazy layers have no shape before they have seen a sample
        raise ModelError(f"model {name!r}: every layer needs its sizes: {reason_of(error)}") from error
    return TorchModel(name, laid_out(shapes, detects), (lambda: module) if fixed else make, module, threads)


def _made(make: Callable[[], nn.Module], name: str, words: UInt32[np.ndarray, "2"]) -> nn.Module:
    """A copy of what ``make`` returns, drawn from these words, on the CPU and in float32."""
    seed(words)
    try:
        module = make()
    except Exception as error:  # whatever the user's own code raises
        raise ModelError(f"model {name!r}: making it failed: {reason_of(error)}") from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"model {name!r}: expected an nn.Module, got {type(module).__name__}")
    if any(p.is_complex() for p in module.parameters()):
        raise ModelError(f"model {name!r} has complex parameters; a flat vector holds float32")
    try:
        return copy.deepcopy(module).to("cpu", torch.float32)
    except (RuntimeError, TypeError) as error:  # tensors that are no leaves; handles that cannot be copied
        raise ModelError(f"model {name!r} cannot be copied: {reason_of(error)}") from error


def entries(module: nn.Module) -> dict[str, Tensor]:
    """The floating-point entries of the module's state, by name; what two layers share stands there once."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, entry in module.state_dict(keep_vars=True).items():
        if isinstance(entry, Tensor) and entry.is_floating_point():
            found.setdefault(id(entry), (name, entry))
    return dict(found.values())


def trainable(module: nn.Module) -> dict[str, Tensor]:
    """The entries that gradient steps move: neither running statistics nor what is frozen."""
    return {name: entry for name, entry in entries(module).items() if entry.requires_grad}


def flat_of(module: nn.Module) -> Float[np.ndarray, "P"]:
    """The module's state as one vector."""
    return torch.cat([entry.detach().reshape(-1) for entry in entries(module).values()]).numpy()


def tensor_of(x: Shaped[np.ndarray, "s ..."]) -> Tensor:
    """Samples as PyTorch takes them: float32, and integers as int64."""
    kind = np.float32 if np.issubdtype(x.dtype, np.floating) else np.int64
    return torch.from_numpy(np.require(x, kind, ["C", "W"]))  # a copy only where it must be one


def seed(words: UInt32[np.ndarray, "2"]) -> None:
    """Let the CPU's generator begin anew from two uint32 words."""
    torch.default_generator.manual_seed(int(words[0]) << 32 | int(words[1]))


def reason_of(error: Exception) -> str:
    """The first line of what PyTorch, or a user's own code, says."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no reason given')}"
