"""Chooses whether PyTorch trains a PyTorch module or JAX compiles it: the user's choice, and a
trial run that compares both.

    torch   PyTorch trains the module
    jax     JAX compiles the module; an error if the trial fails
    auto    JAX if the trial succeeds and JAX is faster, otherwise PyTorch; a log line says why

The trial trains with both libraries on fourteen samples in batches of eight for two epochs. Losses
and updates must agree to 1e-4 of their largest number. The trial finds code that JAX cannot trace,
operators that torchax computes differently, and layers that mix the samples of a batch (JAX pads
the last batch). Dropout draws other random numbers in JAX, so the trial switches dropout off. If a
module's own code draws random numbers, the trial compares inference only, and a warning says so.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.errors import FedkinError, MissingExtra, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.data.ragged import Ragged
from fedkin.simulation.torch.flat_module import (
    FlatModule,
    copied,
    error_reason,
    shared_entries,
    to_tensor,
)
from fedkin.simulation.torch.training import TorchTrainer

if TYPE_CHECKING:
    from fedkin.models.model import Model

_log = logging.getLogger("fedkin")

ENGINES = ("torch", "jax", "auto")
TOLERANCE = 1e-4  # allowed difference, as a share of an update's largest number
_SAMPLES = 14
_WORK = LocalTraining(epochs=2, batch_size=8, lr=0.01)
_ONLY_CLIENT = np.zeros(1, np.int64)
_CHOICES: WeakKeyDictionary[FlatModule, dict[Any, Model | None]] = WeakKeyDictionary()


def model_in_jax(model: FlatModule, data: FederatedData) -> Model | None:
    """The module compiled by JAX, or None if PyTorch trains it.

    The choice is made once for all data of the same shape.

    Raises:
        MissingExtra: the engine is ``jax``, but torchax is not installed.
        ModelError: the engine is ``jax``, but the trial failed.
    """
    if model.engine == "torch":
        return None
    choices = _CHOICES.setdefault(model, {})
    shape = (data.x.shape[1:], str(data.x.dtype))
    if shape not in choices:
        choices[shape] = _choose(model, data)
    return choices[shape]


def _choose(model: FlatModule, data: FederatedData) -> Model | None:
    """Choose between JAX and PyTorch for a module, and log the choice. None means PyTorch.

    With the engine ``auto``, PyTorch is chosen if the trial fails.
    """
    try:
        if why := _refusal(model):
            raise ModelError(why)
        compiled, difference = _tried(model, data)
    except (ModelError, MissingExtra) as error:
        if model.engine == "jax":
            raise
        _log.warning("PyTorch trains model %r: %s", model.name, error)
        return None
    _log.info("JAX compiles model %r: a trial agrees with PyTorch to %.0e", model.name, difference)
    return compiled


def _compared(ours: LocalUpdates, theirs: LocalUpdates) -> float:
    """The largest difference between two trainings, in updates, gradients and losses."""
    names = ("update", "gradient", "loss", "first_loss")
    return max(
        _differ(np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name)))
        for name in names
    )


def _refusal(model: FlatModule) -> str | None:
    """Why JAX is not tried for the module; None if it is tried."""
    if model.optimizer is not None:
        return (
            "it has its own PyTorch optimizer; leave that out, so that the settings of local "
            "training choose the optimizer"
        )
    layers = model.module.named_modules()
    strided = [
        name for name, layer in layers if isinstance(layer, nn.Conv2d) and max(layer.stride) > 1
    ]
    if model.engine == "auto" and strided and _on_cpu():
        return (
            f"JAX on a CPU is slower at {strided[0]!r}, a convolution with a stride; engine='jax' "
            "compiles the model nevertheless"
        )
    return None


def _on_cpu() -> bool:
    """Whether JAX computes on a CPU."""
    import jax

    return jax.default_backend() == "cpu"


def _tried(model: FlatModule, data: FederatedData) -> tuple[Model, float]:
    """Compile a module and compare it with PyTorch in a trial.

    Returns the compiled module, and the largest difference as a share of the update's largest
    number. Raises ModelError if the module cannot be compiled or the difference is too large.
    """
    from fedkin.simulation.torch.compiled_module import compile_module

    compiled = compile_module(model)
    sample = _few_samples(data)
    still = dataclasses.replace(model, module=without_dropout(model.module), engine="torch")
    trial = compiled if still.module is model.module else compile_module(still)
    try:
        ours = _updates(trial, model, sample)
    except FedkinError:
        raise
    # torchax lacks some operators, JAX cannot trace an `if` on a tensor, and user code may fail.
    except Exception as error:
        raise ModelError(
            f"JAX cannot compile model {model.name!r}: {_cause(error)}; set engine='torch' to "
            "train it with PyTorch"
        ) from error
    theirs = _updates(still, model, sample)
    # With dropout switched off, only the module's own code can draw random numbers.
    if _draws(still, sample):
        _log.warning(
            "model %r draws random numbers in its own code, so the trial compares inference only",
            model.name,
        )
        difference = _differ(ours.gradient, theirs.gradient)
    else:
        difference = _compared(ours, theirs)
    if not difference <= TOLERANCE:
        raise ModelError(
            f"model {model.name!r} compiled by JAX differs from PyTorch by {difference:.0e} of the "
            f"update in a trial (possible cause: {_suspects(model.module)}); set engine='torch' to "
            "train it with PyTorch"
        )
    if hooked := hooked_layer(model.module):
        _log.warning(
            "model %r has hooks (layer %r): JAX runs them once, when it compiles the model, not "
            "for every batch; if they have side effects, set engine='torch'",
            model.name,
            hooked,
        )
    return compiled, difference


def _cause(error: Exception) -> str:
    """Why JAX cannot compile a module: an error of JAX, of torchax, or of the user's own code."""
    import jax

    if isinstance(
        error, (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)
    ):
        return f"its computation depends on the values of its samples ({type(error).__name__})"
    return error_reason(error)


def _suspects(module: nn.Module) -> str:
    """What may make a compiled module compute other numbers than PyTorch, for an error message."""
    hooked = hooked_layer(module)
    hooks = "" if hooked is None else f"hooks, which layer {hooked!r} has, "
    return f"{hooks}samples of a batch that are mixed, or running state that it keeps itself"


def hooked_layer(module: nn.Module) -> str | None:
    """The first layer with a hook on its calls or its gradients; None without one.

    A parametrisation does not count as a hook.
    """
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    for name, layer in module.named_modules():
        has_hook = any(getattr(layer, kind) for kind in kinds)
        parameters = layer.parameters(recurse=False)
        if has_hook or any(parameter._backward_hooks for parameter in parameters):
            return name or type(layer).__name__
    return None


def _differ(values: Float[np.ndarray, "..."], expected: Float[np.ndarray, "..."]) -> float:
    """The largest difference between two arrays, as a share of the largest expected number."""
    largest = max(np.abs(expected).max(), np.finfo(np.float32).tiny)
    return float(np.abs(values - expected).max() / largest)


def without_dropout(module: nn.Module) -> nn.Module:
    """The module itself if it has no dropout, otherwise a copy without dropout."""
    if shared_entries(module):  # a frozen network draws no dropout in training either
        return module
    still = copied(module)
    changed = False
    for layer in still.modules():
        # A dropout layer has its rate in `p`, a recurrent or attention layer in `dropout`.
        name = "p" if isinstance(layer, nn.modules.dropout._DropoutNd) else "dropout"
        if isinstance(getattr(layer, name, None), float) and getattr(layer, name) > 0:
            setattr(layer, name, 0.0)
            changed = True
    return still if changed else module


def _few_samples(data: FederatedData) -> FederatedData:
    """Up to fourteen training samples as the data of one client.

    Their number leaves no batch with a single sample.
    """
    rows = np.zeros(0, np.int64)
    for client in range(data.clients):
        rows = np.unique(np.concatenate([rows, data.train[client]]))[:_SAMPLES]
        if len(rows) == _SAMPLES:
            break
    if len(rows) > 1 and len(rows) % _WORK.batch_size == 1:
        rows = rows[:-1]
    only_client = Ragged.of([np.arange(len(rows))])
    return FederatedData(
        name="trial",
        x=np.asarray(data.x[rows]),
        y=np.asarray(data.y[rows]),
        classes=data.classes,
        train=only_client,
        test=only_client,
    )


def _draws(model: FlatModule, sample: FederatedData) -> bool:
    """Whether a module draws numbers from PyTorch's random state in a training pass."""
    with model.torch_settings():
        before = torch.get_rng_state()
        copied(model.module).train()(to_tensor(sample.x))
        return not torch.equal(before, torch.get_rng_state())


def _updates(trained: Model | FlatModule, model: FlatModule, sample: FederatedData) -> LocalUpdates:
    """The result of the trial's training by one engine. Both engines start from the same model."""
    if isinstance(trained, FlatModule):
        trainer: Any = TorchTrainer(sample, trained, _ONLY_CLIENT)
    else:
        from fedkin.simulation.jax import workers as jax_workers

        trainer = jax_workers.worker_factory(trained, _ONLY_CLIENT, 1, 1)(sample)[1]
    detects = model.spec.detects
    work = _WORK
    if detects:
        work = dataclasses.replace(_WORK, positive=sample.y[:1].astype(np.int64))
    steps = np.array([work.epochs * -(-len(sample.y) // work.batch_size)])
    start = model.initial(np.array([1, 2], np.uint32))[None]
    call = TrainCall(
        models=start,
        clients=_ONLY_CLIENT,
        model_index=_ONLY_CLIENT,
        work=work,
        num_steps=steps,
        stream=Stream(0),
        gradient=not detects,
    )
    local = trainer.train(call)
    # Training of detectors gives no full gradient, so the update is compared in its place.
    update = np.asarray(local.update)
    return LocalUpdates(
        update=update,
        loss=local.loss,
        first_loss=local.first_loss,
        gradient=update if detects else np.asarray(local.gradient),
    )
