"""Makes PyTorch models from a module, from a function that makes a module, or from the name of such
a function."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from fedkin.core.errors import ConfigError, MissingExtra, ModelError, missing_module

if TYPE_CHECKING:
    from fedkin.simulation.torch.model import TorchModel


def torch_model(
    source: Callable[..., Any],
    data: Any = None,
    *,
    name: str = "torch",
    detects: bool = False,
    threads: int = 1,
    optimizer: Callable[..., Any] | None = None,
    engine: str = "torch",
) -> TorchModel:
    """Make a model from a PyTorch module, or from a function that makes one.

    The model is called on a batch [B ...] in the format of the data (float32; integers as int64)
    and returns scores [B C]. Its flat vector holds the floating-point entries of ``state_dict()``
    in their order, as float32: trained and frozen parameters, and running statistics. All of them
    are averaged; counters are left out. Declare the last layer last, since some methods use it
    alone.

    Args:
        source: an ``nn.Module``: it is copied, and every run starts from its weights. Or a function
            that returns a module, whose weights are then drawn from the run's seed. The function
            takes no argument, or the data as its only argument. Its modules may differ only in
            their weights.
        data: argument of ``source``, if it takes one: any object with ``name``, ``x`` [M ...] and
            ``classes``.
        name: the model's name, for messages and descriptions.
        detects: whether the model is a detector, which separates one class from all others: one
            score per sample, [B 1], positive for its class. ATHENA-FL trains detectors.
        threads: cores for one client. One core is fastest for small networks. The last bits of a
            result depend on this number.
        optimizer: makes the optimiser of local training from the parameters and the round's
            learning rate: ``lambda parameters, lr: torch.optim.RMSprop(parameters, lr)``. It is
            called for every local training of a client, and replaces ``optimizer``, ``momentum``,
            ``nesterov`` and ``weight_decay`` of the run's local training. Clipping, schedules and a
            method's proximal term still apply. An optimiser that ignores ``lr`` trains at its fixed
            rate in every round, whatever ``lr`` and ``schedule`` say. None: the run's optimiser.
        engine: the library that trains the model. ``torch``: PyTorch. ``jax``: JAX, which compiles
            it with torchax (``fedkin[torchax]``); a trial before the run checks that it agrees with
            PyTorch. ``auto``: JAX if that trial succeeds and JAX is faster, otherwise PyTorch.
            Dropout draws other random numbers under JAX.

    Raises:
        MissingExtra: PyTorch is not installed, or torchax is not for the engine ``jax``.
        ModelError: the source has another type, the module has no trainable floating-point
            parameters, or the optimizer is not a function.

    Examples:
        >>> import fedkin as fk
        >>> from torch import nn
        >>> fk.torch_model(nn.Linear(64, 10)).spec.parameters
        650
    """
    _require_torch()
    from torch import nn

    from fedkin.simulation.torch.model import build_model

    check_settings(name, threads, engine)
    if optimizer is not None and not callable(optimizer):
        raise ModelError(
            f"model {name!r}: optimizer must be a function of parameters and lr that makes a "
            f"torch.optim.Optimizer, got {optimizer!r}"
        )
    is_module = isinstance(source, nn.Module)
    if is_module:
        make: Callable[[], Any] = functools.partial(_itself, source)
    elif callable(source):
        make = _factory(source, data, name)
    else:
        raise ModelError(
            "a PyTorch model is an nn.Module or a function that makes one, got "
            f"{type(source).__name__}"
        )
    return build_model(
        make=make,
        fixed=is_module,
        name=name,
        detects=detects,
        threads=threads,
        optimizer=optimizer,
        engine=engine,
    )


def check_settings(name: str, threads: Any, engine: str) -> None:
    """Check how a model is trained.

    Args:
        name: name of the model in messages.
        threads: cores for one client.
        engine: library that trains the model.

    Raises:
        ModelError: the number of cores is not positive, or there is no such engine.
    """
    from fedkin.simulation.torch.engine_choice import ENGINES

    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ModelError(
            f"model {name!r}: threads must be an integer of at least 1, got {threads!r}"
        )
    if engine not in ENGINES:
        raise ModelError(
            f"model {name!r}: engine must be one of {', '.join(ENGINES)}, got {engine!r}"
        )


def _itself(module: Any) -> Any:
    """The module itself: ``functools.partial(_itself, module)`` is a function that "makes" it."""
    return module


def model_from_config(
    data: Any,
    torch: str,
    detects: bool = False,
    threads: int = 1,
    optimizer: str | None = None,
    engine: Literal["torch", "jax", "auto"] = "torch",
) -> Any:
    """The PyTorch model that a configuration describes.

    Args:
        data: the federated data, for a function that takes them.
        torch: ``package.module:factory`` of the model; the current folder is searched too.
        detects: whether the model is a detector of one class.
        threads: cores for one client.
        optimizer: ``package.module:factory`` of an optimiser for this model.
        engine: library that trains the model.
    """
    factory = None
    if optimizer is not None:
        factory = _imported(optimizer, "optimizer", "an optimizer of parameters and lr")
    return torch_model(
        _imported(torch), data, detects=detects, threads=threads, optimizer=factory, engine=engine
    )


def wrap_module(model: Any) -> Any:
    """Make a model from a bare ``nn.Module``; return anything else unchanged."""
    torch = sys.modules.get("torch")  # without it there are no modules
    return torch_model(model) if torch is not None and isinstance(model, torch.nn.Module) else model


def _require_torch() -> None:
    """Raise MissingExtra if PyTorch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "PyTorch models need PyTorch, which is not installed: pip install 'fedkin[torch]'"
        ) from error


def _factory(source: Callable[..., Any], data: Any, name: str) -> Callable[[], Any]:
    """``source`` as a function without arguments: if it takes the data, they are filled in."""
    try:
        parameters = inspect.signature(source).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return source
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in variable]
    if not needed:
        return source
    if len(needed) > 1 or needed[0].kind not in named:
        required = ", ".join(p.name for p in needed)
        raise ModelError(
            f"model {name!r}: its function must take no argument, or the data as its only "
            f"argument; got ({required})"
        )
    if data is None:
        raise ModelError(
            f"model {name!r}: its function takes the data ({needed[0].name}); pass them as the "
            "second argument"
        )
    return functools.partial(source, data)


def _imported(place: str, key: str = "torch", what: str = "one") -> Callable[..., Any]:
    """Import the object that ``package.module:name`` names.

    As by ``python -m``, the module is searched for in the current folder first.
    """
    module, _, attribute = place.partition(":")
    if not (module and attribute) or module.startswith("."):
        raise ConfigError(f"{key}: expected package.module:factory, got {place!r}")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()  # the file may be newer than this process
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{key} = {place!r}: {missing_module(module, error)}") from error
    except Exception as error:  # whatever the user's own file raises
        raise ConfigError(
            f"{key} = {place!r}: importing it failed: {type(error).__name__}: {error}"
        ) from error
    factory = functools.reduce(
        lambda holder, part: getattr(holder, part, None), attribute.split("."), imported
    )
    if factory is None:
        raise ConfigError(f"{key} = {place!r}: module {module!r} has no {attribute!r}")
    if not callable(factory):
        made = "a module or a function" if key == "torch" else "a function"
        raise ConfigError(
            f"{key} = {place!r}: expected {made} that makes {what}, got {type(factory).__name__}"
        )
    return factory
