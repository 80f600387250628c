"""Lists on the command line: ``data.features=age,weight`` is a list for each key that takes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedkin.config.declarations import Declared, fields_of
from fedkin.config.key_examples import accepts, annotation_of, takes_list
from fedkin.config.schema import Values
from fedkin.config.value_texts import PARTS, parse_value
from fedkin.core.errors import FedkinError


def with_lists(
    raw: Mapping[str, Any], keys: Iterable[tuple[str, str]], declared: Mapping[str, Declared]
) -> dict[str, Any]:
    """A configuration in which values of the command line are lists where a key takes a list.

    Args:
        raw: the sections, with the values of the command line.
        keys: section and key of each value of the command line.
        declared: what declares the keys of each section.
    """
    out = dict(raw)
    for section, key in keys:
        if section not in declared or key not in out[section]:
            continue
        annotation = _annotation(declared[section], out[section], key)
        value = listed(out[section][key], annotation)
        out[section] = {**out[section], key: value}
    return out


def listed(value: Any, annotation: Any) -> Any:
    """A value of the command line as a list, if the annotation takes one; otherwise unchanged.

    Args:
        value: a value as ``parse_value`` returns it. Text with commas becomes a list of its parts,
            and a single value becomes a list of one if only a list is valid.
        annotation: the key's annotation; None: unknown.
    """
    if annotation is None or not isinstance(value, (str, int, float)) or value == "":
        return value
    if not takes_list(annotation):
        return value
    texts = [value]
    if isinstance(value, str):
        texts = [part.strip() for part in PARTS.findall(value) if part.strip()]
    if len(texts) < 2 and accepts(annotation, value):
        return value
    parsed = [parse_value(text) if isinstance(text, str) else text for text in texts]
    for candidate in (parsed, texts):
        if accepts(annotation, candidate):
            return candidate
    return value


def _annotation(declared: Declared, values: Values, key: str) -> Any:
    """The annotation of a key; None if the section does not have the key."""
    kind = declared.kind(values)
    if kind is None:
        return None
    try:
        field = fields_of(kind).get(key)
    except (FedkinError, NameError):  # a user's class; the section's check reports the error
        return None
    return None if field is None else annotation_of(field)
