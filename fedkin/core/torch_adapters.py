"""Adapters of PyTorch modules. The package registers the function that makes them with ``provide``,
so that ``fk.lora`` makes them although its package does not import PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Makes a PyTorch model from federated data, a module and the options of ``fk.lora``.
Maker = Callable[..., Any]
_provided: list[Maker] = []


def provide(make: Maker) -> None:
    """Use ``make`` for adapters of all PyTorch modules from now on."""
    _provided[:] = [make]


def make_torch_adapter(*arguments: Any, **options: Any) -> Any:
    """The PyTorch model that the registered function makes."""
    return _provided[0](*arguments, **options)
