"""Classes of Equinox modules that Ray's processes cannot make again: they are defined in the script
that runs, or within a function.

Ray sends such a class by its code. The other process makes a class of it whose fields Equinox does
not know, so the module loses its layers.
"""

from __future__ import annotations

import io
from typing import Any

import equinox as eqx
from ray import cloudpickle

from fedkin.core.errors import ModelError


class _Finder(cloudpickle.Pickler):
    """Pickles an object, without its arrays, and notes the classes that are sent by their code."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), protocol=5, buffer_callback=lambda _: False)
        self.found: list[type] = []

    def reducer_override(self, obj: Any) -> Any:
        is_module = isinstance(obj, type) and issubclass(obj, eqx.Module)
        if is_module and (obj.__module__ == "__main__" or "<locals>" in obj.__qualname__):
            self.found.append(obj)
        return super().reducer_override(obj)


def check_classes(model: Any) -> None:
    """Raise ModelError for a model with an Equinox module whose class other processes cannot
    import.

    Args:
        model: the model that is sent to Ray's processes.
    """
    finder = _Finder()
    finder.dump(model)
    for kind in finder.found:
        place = (
            "within a function" if "<locals>" in kind.__qualname__ else "in the script that runs"
        )
        raise ModelError(
            f"run.engine = ray: the class {kind.__name__} of the model is defined {place}, and "
            "Ray's processes cannot import it; move it to the top level of a file, and import it "
            "from there"
        )
