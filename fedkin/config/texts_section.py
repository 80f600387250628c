"""The section [data] of a configuration with ``name = "texts"``: a table of texts, or the features
that the lower layers of a backbone compute from them."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.data.texts import texts


@functools.wraps(texts)
def texts_section(
    path: str,
    *,
    features_layer: int | None = None,
    features_file: str | None = None,
    **options: Any,
) -> Any:
    """The data of ``fk.data.texts``, or of ``fk.models.features`` with the tokenizer's folder.

    Args:
        path: the table.
        features_layer: the layer whose inputs are the samples; None for token numbers.
        features_file: the file that keeps these inputs; None for none.
        options: options of ``fk.data.texts``.
    """
    data = texts(path, **options)
    if features_layer is None:
        if features_file is not None:
            raise ConfigError(
                "features_file: keeps the inputs of a layer; name it, such as features_layer = 1"
            )
        return data
    # Models import JAX, which takes a second.
    from fedkin.models.features import features

    return features(data, options["tokenizer"], layer=features_layer, file=features_file)


# The keys of the section are read from the signature.
_signature = inspect.signature(texts)
_added = {
    "features_layer": int | None,
    "features_file": str | None,
}
_kept = list(_signature.parameters.values())
_new = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for name, kind in _added.items()
]
texts_section.__signature__ = _signature.replace(parameters=[*_kept, *_new])  # type: ignore[attr-defined]
texts_section.__annotations__ = {**typing.get_type_hints(texts), **_added}
