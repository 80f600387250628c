"""The section [model] of a configuration with ``name = "lora"``."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any

from fedkin.models.lora import lora
from fedkin.models.model import Model

# Arguments of ``lora`` that apply to a user's module, which a configuration cannot name.
_OF_MODULES = ("head", "batched", "threads", "engine")


@functools.wraps(lora)
def lora_section(data: Any, backbone: str, **options: Any) -> Model:
    """The model of ``lora`` with a backbone from a folder."""
    return lora(data, backbone, **options)


# The keys of the section are read from the signature.
_signature = inspect.signature(lora)
_kept = [entry for name, entry in _signature.parameters.items() if name not in _OF_MODULES]
lora_section.__signature__ = _signature.replace(parameters=_kept)  # type: ignore[attr-defined]
lora_section.__annotations__ = {**typing.get_type_hints(lora), "backbone": str}
