"""The data sets, models, methods and shifts that a configuration can name, and how a named one is
constructed."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from typing import Any, NamedTuple

from fedkin.config import user_methods
from fedkin.config.schema import Place, Section, Values, options_schema, toml_values, validate
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.options import SECTIONS

Registry = Mapping[str, Callable[..., Any]]
NOT_OPTIONS = ("data",)  # what a run passes itself


def datasets() -> Registry:
    """Named data sets, the user's own file and planted clusters; each takes ``validation`` besides
    its own options."""
    from fedkin.data import DATASETS, load
    from fedkin.scenarios.planted_clusters import planted

    return {
        name: _with_validation(make)
        for name, make in {"file": load, "planted": planted, **DATASETS}.items()
    }


@cache
def _with_validation(make: Callable[..., Any]) -> Callable[..., Any]:
    """A data set with one more option: ``validation``, the share of each client's training samples
    that become its validation samples, drawn from the data's own seed; None: those of a file that
    has such a split, else none."""
    option = inspect.Parameter(
        "validation", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=float | None
    )

    @wraps(make)
    def call(*first: Any, validation: float | None = None, **options: Any) -> Any:
        if validation is None:
            return make(*first, **options)
        from fedkin.data.federated import check_validation

        check_validation(validation)  # before a large set is read
        about = getattr(make, "about", None)
        if about is not None and about.overlapping:
            raise ConfigError(
                "validation: windows of a role overlap, so that samples drawn from them at random "
                "would train and validate; leave it out, or divide the lines of each role before "
                "you make the windows"
            )
        if options.get("augment"):
            raise ConfigError(
                "validation and augment exclude each other here, as copies of an image would "
                "train and validate; in Python: fk.data.augmented(data.with_validation(0.1), [...])"
            )
        return make(*first, **options).with_validation(validation, options.get("seed") or 0)

    signature = inspect.signature(make)
    extended = signature.replace(parameters=[*signature.parameters.values(), option])
    call.__signature__ = extended  # type: ignore[attr-defined]
    call.__annotations__ = {**typing.get_type_hints(make), option.name: option.annotation}
    return call


def default_dataset(data: Values) -> str:
    """The data set of a section [data] without a name: the user's own file where it has a path,
    else digits."""
    return "file" if "path" in data else "digits"


def refuse_validation(data: Values, place: Place) -> None:
    """Refuse (ConfigError) a validation split on a real site, which is scored on its test samples
    in every round.

    Args:
        data: its section [data].
        place: from a key to where it was read.
    """
    if data.get("validation") is not None:
        raise ConfigError(
            f"{place('data.validation')}: does not apply to a real site, which is scored on its "
            "test samples after every round; leave it out"
        )


class _Models(Mapping[str, Callable[..., Any]]):
    """Named models, and the user's own in PyTorch, which needs no JAX."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name == "torch":
            from fedkin.simulation.torch import model_from_config

            return model_from_config
        from fedkin.models import MODELS

        return MODELS[name]

    def __iter__(self) -> Iterator[str]:
        from fedkin.models import MODELS

        return iter([*MODELS, "torch"])

    def __len__(self) -> int:
        return sum(1 for _ in self)  # list() would ask for the length


def models() -> Registry:
    """Named models, and the user's own in PyTorch."""
    return _Models()


class _Methods(dict[str, Callable[..., Any]]):
    """Named methods, and the user's own by ``package.module:Class``; iterating has the named ones
    only."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and user_methods.is_own(name))

    def __missing__(self, name: str) -> Callable[..., Any]:
        if user_methods.is_own(name):
            return user_methods.imported(name)
        raise KeyError(name)


def methods() -> Registry:
    """Named methods, and the user's own by where they are imported from."""
    from fedkin.methods import METHODS

    return _Methods(METHODS)


def method_entry(method: Any) -> Values:
    """A method that was made, as a configuration names it. Raises ConfigError for what is none."""
    return user_methods.entry_of(
        method, {kind: name for name, kind in methods().items() if isinstance(kind, type)}
    )


def method_title(name: str) -> str:
    """A method's name as its class spells it, with those of its options behind it; another name
    stays as it is."""
    bare, plus, option = name.rpartition("+")
    titles = {key: title for section in SECTIONS.values() for key, title in section.titles.items()}
    if plus and option in titles:
        return f"{method_title(bare)} + {titles[option]}"
    if user_methods.is_own(name):
        return user_methods.title(name)
    kind = methods().get(name)
    return getattr(kind, "__name__", name)


def define_states(method: str) -> None:
    """Define the types of states that a method's checkpoints hold; a user's own is imported, where
    it can be found."""
    known = methods()
    with suppress(ConfigError):  # the checkpoint then says that its state is not known
        known[method] if method in known else None


class MethodRow(NamedTuple):
    """A method in a table of all."""

    name: str
    title: str  # its class
    summary: str  # what it does: the first sentence of its class
    paper: str


def method_rows() -> list[MethodRow]:
    """What each named method does, and its paper."""
    rows = []
    for name, kind in methods().items():
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        rows.append(MethodRow(name, kind.__name__, summary, kind.about.paper))
    return rows


@dataclass(frozen=True)
class Entry:
    """An entry of a registry with all its options, validated and spelled out.

    Attributes:
        name: of the entry.
        values: its name and options, as TOML holds them.
        call: what makes it.
        options: the same options, in the types that ``call`` takes.
    """

    name: str
    values: Values
    call: Callable[..., Any] = field(compare=False, repr=False)
    options: Section = field(compare=False, repr=False)

    def make(self, *first: Any) -> Any:
        """Call the entry.

        Args:
            first: positional arguments, such as the data of a model.

        Raises ConfigError for what an entry of the user's own raises.
        """
        options = {key: getattr(self.options, key) for key in self.values if key != "name"}
        if not user_methods.is_own(self.name):
            return self.call(*first, **options)
        try:
            return self.call(*first, **options)
        except FedkinError:
            raise
        except Exception as error:  # a user's own class may raise anything
            words = " ".join(str(error).split())
            raise ConfigError(
                f"{self.name!r} refuses its options: {type(error).__name__}: {words}"
            ) from error

    @cached_property
    def made(self) -> Any:
        """What the entry makes without other arguments, made once."""
        return self.make()


def shifts() -> Registry:
    """Named ways in which data shift during a run."""
    from fedkin.scenarios.shifts import SHIFTS

    return dict(SHIFTS)


def resolve(kind: str, registry: Registry, values: Values, place: Place) -> Entry:
    """The entry of a registry that a section names, with all options of the entry spelled out.

    Args:
        kind: what the registry holds, for messages.
        registry: the entries.
        values: ``name``, and options of the entry.
        place: from a key to where it was read.

    Raises:
        ConfigError: an unknown name or option, a wrong type.
    """
    name = values.get("name")
    if name is None:
        raise ConfigError(
            f"{place('name')}: is required: the name of a {kind}; known: "
            f"{', '.join(sorted(registry))}"
        )
    if not isinstance(name, str):
        raise ConfigError(f"{place('name')}: expected the name of a {kind}, got {name!r}")
    if name not in registry:
        raise ConfigError(f"{place('name')}: {unknown(kind, name, registry)}")
    given = {key: value for key, value in values.items() if key != "name"}
    options = validate(_options_of(registry, name, place), given, place, ["name"])
    return Entry(name, {"name": name, **toml_values(options)}, registry[name], options)


def _options_of(registry: Registry, name: str, place: Place) -> type[Section]:
    """The schema of an entry's options; ConfigError with its place for a user's own that cannot be
    imported."""
    try:
        return options_schema(registry[name], NOT_OPTIONS)
    except ConfigError as error:
        raise ConfigError(f"{place('name')}: {error}") from error
    except NameError as error:  # an annotation of a user's own that only type checkers see
        raise ConfigError(
            f"{place('name')}: {name!r}: the types of its fields cannot be read: {error}"
        ) from error


def resolve_model(values: Values, place: Place) -> Entry:
    """The section [model], spelled out. One with the place of a PyTorch module needs no name."""
    default = "torch" if "torch" in values else "mclr"
    return resolve("model", models(), {"name": default} | values, place)


def make(registry: Registry, values: Values, *first: Any) -> Any:
    """Make the entry that values name.

    Args:
        registry: the entries.
        values: ``name``, and options of the entry.
        first: positional arguments, such as the data of a model.

    Raises ConfigError as ``resolve`` does.
    """
    return resolve("entry", registry, values, str).make(*first)


def make_site_data(entry: Entry) -> Any:
    """The data of a real site.

    Args:
        entry: of its section [data].

    Raises ConfigError for text labels without ``label_names``: each site would number those that
    occur in its own file.
    """
    data = entry.make()
    names = data.label_names
    if names is not None and names != ("False", "True") and "label_names" not in entry.values:
        raise ConfigError(
            "labels are text, and other sites may have others: name the classes, all and in the "
            f"same order on every site, such as label_names = {list(names)}"
        )
    return data


def options(call: Callable[..., Any]) -> set[str]:
    """The names of an entry's options."""
    return set(options_schema(call, NOT_OPTIONS).model_fields)
