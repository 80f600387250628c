"""Registries: the data sets, models, methods and shifts that a configuration can name. Each name
belongs to a class or function, which makes the object from its options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, wraps
from typing import Any, Literal, NamedTuple

from fedkin.config import user_methods
from fedkin.config.key_examples import raise_with_example, setting
from fedkin.config.schema import Place, Section, Values, options_schema, toml_values, validate
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.randomness import RUN_SEED
from fedkin.data.files import is_table_file
from fedkin.data.table_transform import NONE, TABLE_OPTIONS
from fedkin.options import SECTIONS
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

Registry = Mapping[str, Callable[..., Any]]
NOT_OPTIONS = ("data",)  # arguments that a run passes itself


def datasets() -> Registry:
    """All data sets by name, with ``file`` for a user's file, ``texts`` for a table of
    texts and ``natural`` for the natural federations. Each data set has, in addition to its own
    options, the option ``validation``, and its ``seed`` may be "run"."""
    from fedkin.config.texts_section import texts_section
    from fedkin.data import DATASETS, load
    from fedkin.data.natural_federation import natural_federation
    from fedkin.scenarios.planted_clusters import planted

    datasets = {
        "file": load,
        "texts": texts_section,
        "planted": planted,
        "natural": natural_federation,
        **DATASETS,
    }
    return {name: _with_common_options(make) for name, make in datasets.items()}


@cache
def _with_common_options(make: Callable[..., Any]) -> Callable[..., Any]:
    """Add what all data sets have to the function that makes one.

    The option ``validation`` is the share of each client's training samples that become validation
    samples. The data's seed draws them. None: use the validation split of the file, if it has one.

    The option ``seed`` may be "run": the run's seed then also draws the data. ``Entry.drawn`` puts
    the run's seed in its place.
    """
    option = inspect.Parameter(
        "validation", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=float | None
    )

    @wraps(make)
    def call(*first: Any, validation: float | None = None, **options: Any) -> Any:
        if options.get("seed") == RUN_SEED:
            raise ConfigError(
                f"seed: {RUN_SEED!r} draws the data from the seed of a run, and there is no run "
                "here; give a number, such as seed = 0"
            )
        if validation is None:
            return make(*first, **options)
        from fedkin.data.federated import check_validation

        check_validation(validation)  # before a large set is read
        about = getattr(make, "about", None)
        if about is not None and about.overlapping:
            raise ConfigError(
                "validation: this data set has overlapping windows of each client's text, so the "
                "same text would be in training and validation samples; remove the option, or "
                "split the text of each client before you cut it into windows"
            )
        if options.get("augment"):
            raise ConfigError(
                "validation and augment exclude each other here, because copies of an image would "
                "be in training and validation samples; in Python: "
                "fk.data.augmented(data.with_validation(0.1), [...])"
            )
        return make(*first, **options).with_validation(validation, options.get("seed") or 0)

    # The options are read from the signature, so it must show the new one.
    signature = inspect.signature(make)
    extended = signature.replace(parameters=[*signature.parameters.values(), option])
    types = {**typing.get_type_hints(make), option.name: option.annotation}
    if "seed" in types:
        types["seed"] = types["seed"] | Literal["run"]
    call.__signature__ = extended  # type: ignore[attr-defined]
    call.__annotations__ = types
    return call


def reads_files(data: Values) -> bool:
    """Whether a section [data] names a file of the user's: a table or arrays, or texts."""
    return data.get("name") in ("file", "texts")


def default_dataset(data: Values) -> str:
    """The name of the data set if [data] has none: ``file`` if the section has a path, otherwise
    ``digits``."""
    return "file" if "path" in data else "digits"


def default_model(model: Values, task_type: TaskType | None = None) -> str:
    """The name of the model if [model] has none: ``torch`` if the section has a path to a PyTorch
    module, ``lora`` if it has the folder of a backbone, ``cox`` for survival, otherwise
    ``mclr``."""
    if "backbone" in model:
        return "lora"
    if "torch" in model:
        return "torch"
    return "cox" if isinstance(task_type, Survival) else "mclr"


def refuse_simulated_only(data: Values, place: Place) -> None:
    """Raise ConfigError for options of [data] that only a simulation has: a validation split, since
    a site is scored on its test samples in every round, and data that the run's seed draws.

    Args:
        data: the site's section [data].
        place: function that turns a key into its name in messages, such as ``FILE: data.name``.
    """
    for key in ("validation", "validation_from"):
        if data.get(key) is not None:
            raise ConfigError(
                f"{place(f'data.{key}')}: does not apply to a real site, which is scored on its "
                "test samples after every round; remove it"
            )
    if data.get("seed") == RUN_SEED:
        raise ConfigError(
            f"{place('data.seed')}: {RUN_SEED!r} does not apply to a real site, whose data are "
            "drawn once; give a number, such as data.seed = 0"
        )


class _Models(Mapping[str, Callable[..., Any]]):
    """Registry of models. The entry ``torch`` makes a user's PyTorch model without importing
    JAX."""

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
        return sum(1 for _ in self)  # len(list(self)) would call this method again


def models() -> Registry:
    """All models by name, with ``torch`` for a user's PyTorch model."""
    return _Models()


class _Methods(dict[str, Callable[..., Any]]):
    """Registry of methods. It also finds a user's method by ``package.module:Class``; iteration
    lists only the library's methods."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and user_methods.is_own(name))

    def __missing__(self, name: str) -> Callable[..., Any]:
        if user_methods.is_own(name):
            return user_methods.imported(name)
        raise KeyError(name)


def methods() -> Registry:
    """All methods by name, and users' methods by import path."""
    from fedkin.methods import METHODS

    return _Methods(METHODS)


def method_entry(method: Any) -> Values:
    """The configuration entry of a method instance. Raises ConfigError if it is not a method."""
    return user_methods.entry_of(
        method, {kind: name for name, kind in methods().items() if isinstance(kind, type)}
    )


def method_title(name: str) -> str:
    """The title of a method: its class name, followed by the titles of options (``IFCA + DP``). An
    unknown name is returned unchanged."""
    bare, plus, option = name.rpartition("+")
    titles = {key: title for section in SECTIONS.values() for key, title in section.titles.items()}
    if plus and option in titles:
        return f"{method_title(bare)} + {titles[option]}"
    if user_methods.is_own(name):
        return user_methods.title(name)
    kind = methods().get(name)
    return getattr(kind, "__name__", name)


def define_states(method: str) -> None:
    """Import a method's module, so that the class of the state in its checkpoints can be found. A
    user's method that cannot be imported is skipped."""
    known = methods()
    with suppress(ConfigError):  # reading the checkpoint then reports the unknown state
        known[method] if method in known else None


class MethodRow(NamedTuple):
    """One method in the table that ``fedkin methods`` shows."""

    name: str
    title: str  # class name
    summary: str  # first sentence of the class's docstring
    paper: str


def method_rows() -> list[MethodRow]:
    """The library's methods, each with its name, title, summary and paper."""
    rows = []
    for name, kind in methods().items():
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        rows.append(MethodRow(name, kind.__name__, summary, kind.about.paper))
    return rows


@dataclass(frozen=True)
class Entry:
    """What a section of a configuration names (e.g. a model), with all options validated and
    defaults filled in. Its object can be made with ``make``.

    Attributes:
        name: name of the entry.
        values: name and options, as TOML values.
        call: the class or function that makes the entry's object.
        options: the options in the types that ``call`` takes.
    """

    name: str
    values: Values
    call: Callable[..., Any] = field(compare=False, repr=False)
    options: Section = field(compare=False, repr=False)

    def make(self, *first: Any) -> Any:
        """Make the entry's object.

        Args:
            first: positional arguments, such as the data of a model.

        Raises ConfigError for any error of a user's class. An error about an option ends with a
        right example.
        """
        options = {key: getattr(self.options, key) for key in self.values if key != "name"}
        try:
            return self.call(*first, **options)
        except FedkinError as error:
            raise_with_example(error, self.call, type(self.options).model_fields)
        except Exception as error:
            if not user_methods.is_own(self.name):
                raise
            # A user's own class may raise anything.
            words = " ".join(str(error).split())
            raise ConfigError(
                f"{self.name!r} refuses its options with an error: {type(error).__name__}: {words}"
            ) from error

    @cached_property
    def made(self) -> Any:
        """The entry's object, made once without positional arguments."""
        return self.make()

    @property
    def drawn_by_run(self) -> bool:
        """Whether the seed of a run draws the data of this entry (``seed = "run"``)."""
        return getattr(self.options, "seed", None) == RUN_SEED

    def drawn(self, seed: int) -> Entry:
        """The entry with a run's seed in place of ``seed = "run"``. An entry with a fixed seed is
        returned unchanged."""
        if not self.drawn_by_run:
            return self
        return replace(self, options=self.options.model_copy(update={"seed": seed}))


def shifts() -> Registry:
    """All shifts of data during a run, by name."""
    from fedkin.scenarios.shifts import SHIFTS

    return dict(SHIFTS)


def _unknown_entry(kind: str, registry: Registry, name: str) -> str:
    """Error message for a name that is not in a registry. A method with a dot instead of a colon
    gets the right form."""
    module, _, attribute = name.rpartition(".")
    if kind == "method" and module and attribute.isidentifier():
        return f'unknown method {name!r}; your class is named with a colon: "{module}:{attribute}"'
    return unknown(kind, name, registry)


def resolve(kind: str, registry: Registry, values: Values, place: Place) -> Entry:
    """The registry entry that a section names, with validated options and defaults.

    Args:
        kind: kind of the registry's entries, for messages, such as ``model``.
        registry: the registry.
        values: ``name``, and options of the entry.
        place: function that turns a key into its name in messages, such as ``FILE: data.name``.

    Raises:
        ConfigError: the name is missing or unknown, an option is unknown, or a value has the wrong
            type.
    """
    name = values.get("name")
    if name is None:
        raise ConfigError(
            f"{place('name')}: is required: the name of a {kind}; known: "
            f"{', '.join(sorted(registry))}"
        )
    if not isinstance(name, str):
        right = setting(place("name"), "name", min(registry))
        raise ConfigError(
            f"{place('name')}: expected the name of a {kind}, got {name!r}; for example {right}"
        )
    if name not in registry:
        raise ConfigError(f"{place('name')}: {_unknown_entry(kind, registry, name)}")
    given = {key: value for key, value in values.items() if key != "name"}
    schema = _options_of(registry, name, place)
    if kind == "data set":
        _refuse_table_options(name, given, known=schema.model_fields, place=place)
    options = validate(schema, given, place, {"name": name})
    return Entry(name, {"name": name, **toml_values(options)}, registry[name], options)


def _refuse_table_options(name: str, given: Values, known: Iterable[str], place: Place) -> None:
    """Raise ConfigError for options of tables, such as ``drop``, if a data set is no table.

    Args:
        name: name of the data set.
        given: the given options.
        known: names of the options that the data set has.
        place: function that turns a key into its name in messages.
    """
    for key in TABLE_OPTIONS:
        if key in given and key not in known:
            raise ConfigError(
                f"{place(key)}: applies to the columns of a file of yours, such as data.path = "
                f'"patients.csv", but {name} is no table; remove it'
            )


def _options_of(registry: Registry, name: str, place: Place) -> type[Section]:
    """The schema of the options of a registry entry. Raises ConfigError, which names the place in
    the configuration, if a user's class cannot be imported."""
    try:
        return options_schema(registry[name], NOT_OPTIONS)
    except ConfigError as error:
        raise ConfigError(f"{place('name')}: {error}") from error
    except NameError as error:  # a user's annotation may exist for type checkers only
        raise ConfigError(
            f"{place('name')}: {name!r}: the types of its fields cannot be read: {error}"
        ) from error


def resolve_model(values: Values, place: Place, task_type: TaskType | None = None) -> Entry:
    """The registry entry of [model]; ``default_model`` names it if the section does not.

    Args:
        values: the section.
        place: function that turns a key into its name in messages.
        task_type: what the labels are; None if it is unknown.
    """
    return resolve("model", models(), {"name": default_model(values, task_type)} | values, place)


def make(registry: Registry, values: Values, *first: Any) -> Any:
    """Make the object of the registry entry that ``values`` names.

    Args:
        registry: the registry.
        values: ``name``, and options of the entry.
        first: positional arguments, such as the data of a model.

    Raises ConfigError as ``resolve`` does.
    """
    return resolve("entry", registry, values, str).make(*first)


def site_values(data: Values) -> Values:
    """The section [data] of a real site. Its table is scaled by given statistics only, because each
    site would compute other ones.

    Args:
        data: the section, as the site's file has it.

    Raises ConfigError if statistics of the site's own samples are requested.
    """
    if data.get("name") != "file" or not is_table_file(str(data.get("path", ""))):
        return data
    if data.get("scale") not in (None, NONE):
        raise ConfigError(
            f"scale = {data['scale']!r} would scale the table by this site's samples, and every "
            "site in another way; give all sites the same statistics: scale_from = {mean = {age = "
            "50.0}, scale = {age = 12.0}}, or remove scale. With a server, scale in [samples] of "
            "server.toml and of every client.toml computes them from sums of all sites"
        )
    is_open = data.get("scale") is None and data.get("scale_from") is None
    return {**data, "scale": NONE} if is_open else data


def make_site_data(entry: Entry) -> Any:
    """Load the data of a real site. It compares models with the given mean or rate of labels, since
    it does not know those of all sites.

    Args:
        entry: the registry entry of the site's section [data].

    Raises ConfigError for text labels without ``label_names``, because each site would number its
    labels differently.
    """
    # Imported here, so that the command does not load NumPy before it needs it.
    from fedkin.data.label_statistics import with_given_constant

    values = site_values(entry.values)
    data = entry.make() if values == entry.values else make(datasets(), values)
    names = data.label_names
    # Every site numbers boolean labels in the same way.
    if names is not None and names != ("False", "True") and "label_names" not in entry.values:
        raise ConfigError(
            "labels are text, and other sites may have other labels; list all classes, in the "
            f"same order on every site, such as label_names = {list(names)}"
        )
    return with_given_constant(data)


def options(call: Callable[..., Any]) -> set[str]:
    """The names of the options that a class or function takes."""
    return set(options_schema(call, NOT_OPTIONS).model_fields)
