"""What declares the keys of each section: one class, or the entries of a registry by ``name``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from fedkin.config import registry
from fedkin.config.registry import Registry
from fedkin.config.schema import Values, options_schema
from fedkin.core.errors import FedkinError
from fedkin.options import SECTIONS as OPTIONS

ONLY = ""  # name of the class of a section that has one class


class Declared(NamedTuple):
    """The classes and functions whose signatures declare the keys of a section.

    Attributes:
        kinds: returns them by the section's ``name``; a section of one class has the name ``ONLY``.
        default: the name of a section without ``name``; empty: it has none.
        word: what a name is, in messages and tables, such as "data set"; empty: a section of one
            class.
        sources: classes whose fields of the same names say what a key means.
    """

    kinds: Callable[[], Registry]
    default: Callable[[Values], str]
    word: str = ""
    sources: tuple[type, ...] = ()

    @property
    def named(self) -> bool:
        """Whether the section names its class by ``name``."""
        return bool(self.word)

    def kind(self, values: Values) -> Callable[..., Any] | None:
        """The class or function that declares the keys of a section with these values; None if its
        name is unknown."""
        name = values.get("name", self.default(values)) if self.named else ONLY
        try:
            return self.kinds()[name]
        except (FedkinError, KeyError, TypeError):  # the section's check reports the name
            return None


def one_class(kind: Callable[..., Any], *sources: type) -> Declared:
    """The declaration of a section that has one class.

    Args:
        kind: the class.
        sources: classes whose fields of the same names say what a key means.
    """
    return Declared(lambda: {ONLY: kind}, lambda _: ONLY, sources=sources)


def no_name(values: Values) -> str:
    """The name of an option's section without ``name``: there is none."""
    return ""


METHOD = "fedgroup"  # name of the method if the file of a run has none
# Sections that name an entry of a registry.
NAMED: dict[str, Declared] = {
    "data": Declared(registry.datasets, registry.default_dataset, "data set"),
    "model": Declared(registry.models, registry.default_model, "model"),
    "method": Declared(registry.methods, lambda _: METHOD, "method"),
    **{
        name: Declared(section.classes, no_name, section.words) for name, section in OPTIONS.items()
    },
    "shift": Declared(registry.shifts, no_name, "shift"),
}


def fields_of(kind: Callable[..., Any]) -> Mapping[str, FieldInfo]:
    """The declarations of all keys that a class or function has."""
    fields = getattr(kind, "__pydantic_fields__", None)
    return options_schema(kind, registry.NOT_OPTIONS).model_fields if fields is None else fields
