"""A PyTorch module as a model: its initial weights, its check against the data, and its trainer and
scorer."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import ModelSpec, Samples, spec_for_data, spec_from_shapes
from fedkin.core.object_repr import html_table, model_text
from fedkin.data.federated import FederatedData
from fedkin.simulation.torch.engine_choice import model_in_jax
from fedkin.simulation.torch.flat_module import (
    FlatModule,
    batch_norm_entries,
    copied,
    error_reason,
    float_entries,
    initialised,
    to_tensor,
    trainable_entries,
)
from fedkin.simulation.torch.scoring import TorchScorer
from fedkin.simulation.torch.training import TorchTrainer

_log = logging.getLogger("fedkin")


@dataclass(frozen=True, eq=False, repr=False)
class TorchModel(FlatModule):
    """A PyTorch module as a model. Make one with ``torch_model``."""

    random = True  # a module may draw random numbers
    penalty = None  # a module adds nothing to its loss

    def __repr__(self) -> str:
        return model_text("TorchModel", self.name, self.spec.facts())

    def _repr_html_(self) -> str:
        return html_table(f"TorchModel {self.name}", self.spec.facts())

    def check(self, data: Samples) -> ModelSpec:
        """Try the module on one sample, and return the layout of its parameters.

        If the last bias does not have one number for each score, it does not belong to the last
        layer. The layout then marks no last layer (``head`` is None).

        Raises:
            ModelError: the module does not take the samples, its scores have another shape, or they
                depend on no parameter.
        """
        scores = self.scores(data)
        spec = spec_for_data(
            spec=self.spec,
            name=self.name,
            data=data.name,
            classes=int(data.classes),
            scores=tuple(scores.shape),
        )
        if not (scores.requires_grad and scores.is_floating_point()):
            raise ModelError(
                f"model {self.name!r}: its scores do not depend on any trainable parameter; return "
                "scores that are computed from the parameters"
            )
        # A model that JAX cannot compile is refused here, not in the first round of a run.
        if isinstance(data, FederatedData):
            model_in_jax(self, data)
        return spec

    def scores(self, data: Samples) -> Tensor:
        """Scores of the first sample, [1 C]. Raises ModelError if the module returns none."""
        place = f"{data.name}'s samples of shape {data.x.shape[1:]}"
        with self.torch_settings():
            try:
                scores = copied(self.module).eval()(to_tensor(data.x[:1]))
            except Exception as error:  # whatever the user's own code raises
                raise ModelError(
                    f"model {self.name!r} does not take {place}: {error_reason(error)}"
                ) from error
        if not isinstance(scores, Tensor):
            raise ModelError(
                f"model {self.name!r} returns a {type(scores).__name__}, expected scores in a "
                "tensor [B C]"
            )
        return scores

    def in_jax(self, data: FederatedData) -> Any:
        """The JAX model that trains in place of this module; None if PyTorch trains it."""
        return model_in_jax(self, data)

    def decided(self, data: FederatedData) -> TorchModel:
        """The same model with the engine that ``auto`` selects for these data."""
        return replace(self, engine="torch" if model_in_jax(self, data) is None else "jax")

    def workers(
        self, data: FederatedData, ids: Int[np.ndarray, "N"]
    ) -> tuple[TorchScorer, TorchTrainer]:
        """PyTorch's scorer and trainer on these data; ``ids`` are the clients' ids in the random
        streams."""
        return TorchScorer(data, self), TorchTrainer(data, self, ids)

    def description(self) -> dict[str, Any]:
        """Entries of a run's description: the module's class, and its engine and optimiser if they
        are set.

        The class is stored with the key ``torch``. In a configuration, the same key names the
        function that makes the module.
        """
        module_type = type(self.module)
        described = {"torch": f"{module_type.__module__}:{module_type.__qualname__}"}
        if self.engine != "torch":
            described["engine"] = self.engine
        if self.optimizer is not None:
            described["optimizer"] = _place_of(self.optimizer)
        return described

    def digest(self, data: FederatedData) -> str:
        """A digest of the model, to check that two processes have the same one.

        It covers the names and shapes of the entries, the module's printed form, its weights from
        fixed randomness, and the arguments of an optimiser that is a ``functools.partial``. It
        cannot cover code: that the code is the same is up to the user.
        """
        shapes = [
            (name, tuple(entry.shape), entry.requires_grad)
            for name, entry in float_entries(self.module).items()
        ]
        text = _without_addresses(str(self.module))
        digest = hashlib.sha256(repr((shapes, text, self.spec.detects)).encode())
        digest.update(self.initial(np.array([1, 2], np.uint32)).tobytes())
        if self.spec.frozen:
            digest.update(repr((self.spec.factors, self.spec.frozen)).encode())
        # The function of a partial is in the description, its arguments are not.
        if isinstance(self.optimizer, partial):
            arguments = (self.optimizer.args, sorted(self.optimizer.keywords.items()))
            digest.update(_without_addresses(repr(arguments)).encode())
        return digest.hexdigest()


def _without_addresses(text: str) -> str:
    """A text without memory addresses of functions, which differ between processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _place_of(factory: Callable[..., Any]) -> str:
    """Where a function is defined, as a configuration names it: ``module:name``."""
    function = getattr(factory, "func", factory)  # of a partial
    module = getattr(function, "__module__", "?")
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}:{name}"


def _advise_adapters(name: str, module: nn.Module) -> None:
    """Log how much is sent in vain if more than half of a vector is frozen parameters."""
    parameters = [entry for entry in module.parameters() if entry.is_floating_point()]
    total = sum(entry.numel() for entry in parameters)
    trained = sum(entry.numel() for entry in parameters if entry.requires_grad)
    if 2 * trained < total:
        _log.warning(
            "model %r: %s of %s parameters are frozen, but clients send them; fk.lora "
            "sends trained parameters only (%s here)",
            name,
            _rounded(total - trained),
            _rounded(total),
            _rounded(trained),
        )


def _rounded(number: int) -> str:
    """A number of parameters for messages."""
    if number >= 1_000_000:
        return f"{number / 1e6:.1f} million"
    return f"{number:,}"


def build_model(
    make: Callable[[], nn.Module],
    fixed: bool,
    name: str,
    detects: bool,
    threads: int,
    optimizer: Callable[..., Any] | None = None,
    engine: str = "torch",
) -> TorchModel:
    """Make a model from a function that returns a module.

    Args:
        make: returns the module.
        fixed: whether every run starts from the weights that the module has now.
        name: name of the model in messages and descriptions.
        detects: whether the model is a detector of one class.
        threads: cores for one client.
        optimizer: makes the optimiser of local training; None for the optimiser of the run.
        engine: library that trains the model: ``torch``, ``jax`` or ``auto``.

    Raises:
        ModelError: the function does not return a module with trainable parameters.
    """
    # A new module draws its weights from PyTorch's global random state, which must stay as the user
    # left it.
    with torch.random.fork_rng(devices=[]):
        module = initialised(make, name, np.array([1, 2], np.uint32))
    try:
        shapes = {key: tuple(entry.shape) for key, entry in float_entries(module).items()}
        if not any(entry.requires_grad for entry in float_entries(module).values()):
            raise ModelError(f"model {name!r} has no floating-point parameters that can be trained")
    except RuntimeError as error:  # lazy layers have no shape before their first sample
        raise ModelError(
            f"model {name!r}: every layer needs explicit sizes: {error_reason(error)}"
        ) from error
    spec = spec_from_shapes(shapes, detects)
    _advise_adapters(name, module)
    trained = trainable_entries(module)
    untrained = tuple(part for key, part in spec.slices.items() if key not in trained)
    normalises = batch_norm_entries(module)
    batch_norm = tuple(part for key, part in spec.slices.items() if key in normalises)
    return TorchModel(
        name=name,
        spec=replace(spec, untrained=untrained, batch_norm=batch_norm),
        module=module,
        threads=threads,
        make=(lambda: module) if fixed else make,
        optimizer=optimizer,
        engine=engine,
    )
